//! One transaction, step by step.

use crate::stage::Stage;
use crate::step::{Broken, Next, Rows};
use crate::{Input, Keys, delivery, new_order, order_status, payment, stock_level};

/// A transaction.
#[derive(Clone, Debug)]
pub struct Run {
    keys: Keys,
    input: Input,
    stage: Stage,
}

impl Run {
    /// Begins a transaction.
    pub fn begin(keys: Keys, input: Input) -> Run {
        Run { keys, input, stage: Stage::Begun }
    }

    /// What it does next. `found`: what the records have that it wanted to read; none at first.
    ///
    /// # Errors
    /// A row that should be there is not.
    pub fn next(&mut self, found: &[Option<Vec<u8>>]) -> Result<Next, Broken> {
        let (keys, stage, rows) = (self.keys, &mut self.stage, Rows::new(found));
        match &self.input {
            Input::NewOrder(input) => new_order::next(keys, stage, input, rows),
            Input::Payment(input) => payment::next(keys, stage, input, rows),
            Input::OrderStatus(input) => order_status::next(keys, stage, input, rows),
            Input::Delivery(input) => delivery::next(keys, stage, input, rows),
            Input::StockLevel(input) => stock_level::next(keys, stage, input, rows),
        }
    }
}
