//! What holds between the rows whenever no transaction runs (clause 3.3.2), of one warehouse.

use crate::rows::{Lines, Order, OrderNumber, Row, Sum};
use crate::{Keys, Scale};

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A row is missing, or cannot be read.
    #[error("the row of {0} is missing or cannot be read")]
    Missing(String),
    /// 3.3.2.1.
    #[error("3.3.2.1: warehouse {w} has taken {of_warehouse} cents, and its districts {of_districts}")]
    Sums {
        /// The warehouse.
        w: u32,
        /// Its W_YTD.
        of_warehouse: i64,
        /// The sum of D_YTD.
        of_districts: i64,
    },
    /// 3.3.2.2.
    #[error("3.3.2.2: the next order of district {d} of warehouse {w} is {next}, and {what}")]
    NextOrder {
        /// The warehouse.
        w: u32,
        /// The district.
        d: u32,
        /// Its D_NEXT_O_ID.
        next: u32,
        /// What does not fit.
        what: &'static str,
    },
    /// 3.3.2.3.
    #[error("3.3.2.3: order {o} of district {d} of warehouse {w} {what}")]
    NewOrders {
        /// The warehouse.
        w: u32,
        /// The district.
        d: u32,
        /// The order.
        o: u32,
        /// What does not fit.
        what: &'static str,
    },
    /// 3.3.2.4.
    #[error(
        "3.3.2.4: order {o} of district {d} of warehouse {w} is to have {is_to_have} lines, and has {has}"
    )]
    Lines {
        /// The warehouse.
        w: u32,
        /// The district.
        d: u32,
        /// The order.
        o: u32,
        /// Its O_OL_CNT.
        is_to_have: u32,
        /// How many there are.
        has: usize,
    },
}

/// Checks a warehouse, whose records `get` returns.
///
/// # Errors
/// The first condition that does not hold.
pub fn check_warehouse(
    keys: Keys,
    scale: Scale,
    w: u32,
    get: &mut impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<(), Violation> {
    let of_warehouse = row::<Sum>(get, &keys.warehouse_ytd(w))?.cents;
    let mut of_districts = 0;
    for d in 1..=scale.districts {
        of_districts += row::<Sum>(get, &keys.district_ytd(w, d))?.cents;
        check_district(keys, (w, d), get)?;
    }
    if of_warehouse != of_districts {
        return Err(Violation::Sums { w, of_warehouse, of_districts });
    }
    Ok(())
}

fn row<R: Row>(get: &mut impl FnMut(&[u8]) -> Option<Vec<u8>>, key: &[u8]) -> Result<R, Violation> {
    let missing = || Violation::Missing(String::from_utf8_lossy(key).into_owned());
    get(key).and_then(|bytes| R::read(&bytes)).ok_or_else(missing)
}

fn check_district(
    keys: Keys,
    (w, d): (u32, u32),
    get: &mut impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<(), Violation> {
    let next = row::<OrderNumber>(get, &keys.next_order(w, d))?.number;
    let due = row::<OrderNumber>(get, &keys.next_delivery(w, d))?.number;
    let wrong = |what| Err(Violation::NextOrder { w, d, next, what });
    if due > next {
        return wrong("a later one is to be delivered");
    }
    if get(&keys.order(w, d, next)).is_some() || get(&keys.new_order(w, d, next)).is_some() {
        return wrong("there is such an order");
    }
    for o in 1..next {
        let of_new = |what| Err(Violation::NewOrders { w, d, o, what });
        match (get(&keys.new_order(w, d, o)).is_some(), o >= due) {
            (true, false) => return of_new("is delivered, and counts as new"),
            (false, true) => return of_new("is not delivered, and does not count as new"),
            (true, true) | (false, false) => {}
        }
        let order: Order = row(get, &keys.order(w, d, o))?;
        let lines: Lines = row(get, &keys.lines(w, d, o))?;
        if order.lines as usize != lines.0.len() {
            return Err(Violation::Lines { w, d, o, is_to_have: order.lines, has: lines.0.len() });
        }
        if (order.carrier == 0) != (o >= due) {
            return of_new("has a carrier and is not delivered, or the other way round");
        }
    }
    Ok(())
}
