//! New-Order (clause 2.4).

use crate::Keys;
use crate::input::NewOrder;
use crate::rows::{Customer, District, Item, Line, Lines, Order, OrderNumber, Stock, Warehouse};
use crate::stage::Stage;
use crate::step::{Broken, Next, Rows, Write};
use std::collections::BTreeMap;

pub(crate) fn next(keys: Keys, stage: &mut Stage, input: &NewOrder, rows: Rows<'_>) -> Result<Next, Broken> {
    if matches!(stage, Stage::Begun) {
        *stage = Stage::First(input.c);
        return Ok(Next::Read(read(keys, input)));
    }
    write(keys, input, rows)
}

/// Everything that it reads is known at once.
fn read(keys: Keys, input: &NewOrder) -> Vec<Vec<u8>> {
    let &NewOrder { w, d, c, .. } = input;
    let mut read =
        vec![keys.warehouse(w), keys.district(w, d), keys.next_order(w, d), keys.customer(w, d, c)];
    read.extend(input.lines.iter().map(|line| keys.item(w, line.item)));
    read.extend(input.lines.iter().map(|line| keys.stock(line.supplier, line.item)));
    read
}

fn write(keys: Keys, input: &NewOrder, mut rows: Rows<'_>) -> Result<Next, Broken> {
    let &NewOrder { w, d, c, at, .. } = input;
    let warehouse: Warehouse = rows.row("a warehouse")?;
    let district: District = rows.row("a district")?;
    let OrderNumber { number } = rows.row("a district's next order")?;
    let customer: Customer = rows.row("a customer")?;
    let mut items = Vec::new();
    for _ in &input.lines {
        items.push(rows.maybe::<Item>("an item")?);
    }
    let Some(items) = items.into_iter().collect::<Option<Vec<Item>>>() else {
        return Ok(Next::RollBack);
    };
    // An item may be ordered twice from one warehouse.
    let (mut stocks, mut lines) = (BTreeMap::new(), Vec::new());
    for (ordered, item) in input.lines.iter().zip(&items) {
        let read: Stock = rows.row("a stock")?;
        let stock = stocks.entry((ordered.supplier, ordered.item)).or_insert(read);
        stock.quantity = match stock.quantity >= ordered.quantity + 10 {
            true => stock.quantity - ordered.quantity,
            false => stock.quantity + 91 - ordered.quantity,
        };
        stock.ytd += ordered.quantity;
        stock.orders += 1;
        stock.remote += u32::from(ordered.supplier != w);
        lines.push(Line {
            item: ordered.item,
            supplier: ordered.supplier,
            delivered: 0,
            quantity: ordered.quantity,
            amount: i64::from(ordered.quantity) * item.price,
            info: stock.info.clone(),
        });
    }
    // What the terminal shows (clause 2.4.3.3): computed as by all, though nobody is shown it here.
    let sum: i64 = lines.iter().map(|line| line.amount).sum();
    std::hint::black_box(total(sum, customer.discount, warehouse.tax + district.tax));
    let all_local = u32::from(input.lines.iter().all(|line| line.supplier == w));
    let order = Order { customer: c, entered: at, carrier: 0, lines: lines.len() as u32, all_local };
    let mut writes = vec![
        Write::put(keys.next_order(w, d), &OrderNumber { number: number + 1 }),
        Write::put(keys.order(w, d, number), &order),
        Write::put(keys.new_order(w, d, number), &OrderNumber { number }),
        Write::put(keys.lines(w, d, number), &Lines(lines)),
        Write::put(keys.last_order(w, d, c), &OrderNumber { number }),
    ];
    writes.extend(
        stocks.iter().map(|(&(supplier, item), stock)| Write::put(keys.stock(supplier, item), stock)),
    );
    Ok(Next::Commit(writes))
}

/// A sum less its discount and with taxes, both in hundredths of a per cent.
fn total(cents: i64, discount: u32, taxes: u32) -> i64 {
    cents * i64::from(10_000 - discount) / 10_000 * i64::from(10_000 + taxes) / 10_000
}
