//! Stock-Level (clause 2.8): it only reads. It may read each record at another moment (clause 2.8.2.3).

use crate::Keys;
use crate::input::StockLevel;
use crate::rows::{Lines, OrderNumber, Stock};
use crate::stage::Stage;
use crate::step::{Broken, Next, Rows};
use std::collections::BTreeSet;

/// How many of a district's last orders are looked at.
const LAST_ORDERS: u32 = 20;

pub(crate) fn next(
    keys: Keys,
    stage: &mut Stage,
    input: &StockLevel,
    mut rows: Rows<'_>,
) -> Result<Next, Broken> {
    let &StockLevel { w, d, threshold } = input;
    match *stage {
        Stage::Begun => {
            *stage = Stage::First(0);
            Ok(Next::Read(vec![keys.next_order(w, d)]))
        }
        Stage::First(_) => {
            let OrderNumber { number } = rows.row("a district's next order")?;
            let first = number.saturating_sub(LAST_ORDERS).max(1);
            *stage = Stage::Second(number - first);
            Ok(Next::Read((first..number).map(|order| keys.lines(w, d, order)).collect()))
        }
        Stage::Second(orders) if orders > 0 => {
            let mut items = BTreeSet::new();
            for _ in 0..orders {
                let lines: Lines = rows.row("an order's lines")?;
                items.extend(lines.0.iter().map(|line| line.item));
            }
            *stage = Stage::Named;
            Ok(Next::Read(items.into_iter().map(|item| keys.stock(w, item)).collect()))
        }
        Stage::Second(_) => Ok(Next::Commit(Vec::new())),
        Stage::Named => {
            let mut low = 0;
            while let Ok(stock) = rows.row::<Stock>("a stock") {
                low += u32::from(stock.quantity < threshold);
            }
            std::hint::black_box(low);
            Ok(Next::Commit(Vec::new()))
        }
        Stage::Third(_) => unreachable!("it has three steps"),
    }
}
