//! Order-Status (clause 2.6): it only reads.

use crate::Keys;
use crate::input::{OrderStatus, Who};
use crate::payment::middle;
use crate::rows::{Customer, Lines, Order, OrderNumber};
use crate::stage::Stage;
use crate::step::{Broken, Next, Rows};

pub(crate) fn next(
    keys: Keys,
    stage: &mut Stage,
    input: &OrderStatus,
    mut rows: Rows<'_>,
) -> Result<Next, Broken> {
    let &OrderStatus { w, d, .. } = input;
    let c = match (&*stage, &input.who) {
        (Stage::Begun, Who::Named(last)) => {
            *stage = Stage::Named;
            return Ok(Next::Read(vec![keys.customers_named(w, d, last)]));
        }
        (Stage::Begun, Who::Id(id)) => *id,
        (Stage::Named, _) => middle(&rows.row("a last name")?)?,
        (Stage::First(_), _) => {
            let _: Customer = rows.row("a customer")?;
            let OrderNumber { number } = rows.row("a customer's last order")?;
            *stage = Stage::Second(number);
            return Ok(Next::Read(vec![keys.order(w, d, number), keys.lines(w, d, number)]));
        }
        (Stage::Second(_), _) => {
            let order: Order = rows.row("an order")?;
            let lines: Lines = rows.row("an order's lines")?;
            let has_all = order.lines as usize == lines.0.len();
            return if has_all { Ok(Next::Commit(Vec::new())) } else { Err(Broken("an order's line")) };
        }
        (Stage::Third(_), _) => unreachable!("it has two steps with a customer"),
    };
    *stage = Stage::First(c);
    Ok(Next::Read(vec![keys.customer(w, d, c), keys.last_order(w, d, c)]))
}
