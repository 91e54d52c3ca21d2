//! Delivery (clause 2.7), of one district.

use crate::Keys;
use crate::input::Delivery;
use crate::rows::{Customer, Order, OrderNumber};
use crate::stage::{Due, Stage};
use crate::step::{Broken, Next, Rows, Write};

pub(crate) fn next(
    keys: Keys,
    stage: &mut Stage,
    input: &Delivery,
    mut rows: Rows<'_>,
) -> Result<Next, Broken> {
    let &Delivery { w, d, .. } = input;
    match &*stage {
        Stage::Begun => {
            *stage = Stage::First(0);
            Ok(Next::Read(vec![keys.next_delivery(w, d)]))
        }
        Stage::First(_) => {
            let OrderNumber { number } = rows.row("a district's next delivery")?;
            *stage = Stage::Second(number);
            let of = |key: fn(Keys, u32, u32, u32) -> Vec<u8>| key(keys, w, d, number);
            Ok(Next::Read(vec![of(Keys::new_order), of(Keys::order), of(Keys::lines)]))
        }
        Stage::Second(number) => {
            let number = *number;
            if rows.maybe::<OrderNumber>("a new order")?.is_none() {
                // Everything is delivered.
                return Ok(Next::Commit(Vec::new()));
            }
            let order: Order = rows.row("an order")?;
            let lines = rows.row("an order's lines")?;
            let customer = keys.customer(w, d, order.customer);
            *stage = Stage::Third(Box::new(Due { number, order, lines }));
            Ok(Next::Read(vec![customer]))
        }
        Stage::Third(due) => write(keys, input, due, rows),
        Stage::Named => unreachable!("nobody is named"),
    }
}

fn write(keys: Keys, input: &Delivery, due: &Due, mut rows: Rows<'_>) -> Result<Next, Broken> {
    let &Delivery { w, d, carrier, at } = input;
    let Due { number, mut order, mut lines } = due.clone();
    let mut customer: Customer = rows.row("a customer")?;
    order.carrier = carrier;
    lines.0.iter_mut().for_each(|line| line.delivered = at);
    customer.balance += lines.0.iter().map(|line| line.amount).sum::<i64>();
    customer.deliveries += 1;
    Ok(Next::Commit(vec![
        Write::put(keys.next_delivery(w, d), &OrderNumber { number: number + 1 }),
        Write::remove(keys.new_order(w, d, number)),
        Write::put(keys.order(w, d, number), &order),
        Write::put(keys.lines(w, d, number), &lines),
        Write::put(keys.customer(w, d, order.customer), &customer),
    ]))
}
