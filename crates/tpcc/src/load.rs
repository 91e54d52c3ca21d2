//! The rows of a warehouse before anything has run (clause 4.3.3.1).

use crate::draws::{Draws, Of};
use crate::rows::{
    Customer, District, History, Item, Line, Lines, Named, Order, OrderNumber, Row, Stock, Sum, Warehouse,
};
use crate::{Keys, Scale};
use std::collections::BTreeMap;

/// What a district has taken at first, and a warehouse for each of its districts.
const YTD_CENTS: i64 = 3_000_000;
/// What a customer has paid at first.
const PAID_CENTS: i64 = 1_000;

/// Gives every row of a warehouse to `put`, with its key. The same seed gives the same rows.
pub fn rows_of_warehouse(keys: Keys, scale: Scale, w: u32, seed: u64, mut put: impl FnMut(Vec<u8>, Vec<u8>)) {
    // All warehouses have the same items.
    let mut of_items = Draws::new(seed, false);
    let mut draws = Draws::new(seed ^ u64::from(w) << 32, false);
    for i in 1..=scale.items {
        put(keys.item(w, i), item(&mut of_items).write());
        put(keys.stock(w, i), stock(&mut draws).write());
    }
    let (name, address, tax) = (draws.text(6, 10), draws.text(60, 80), draws.between(0, 2_000));
    put(keys.warehouse(w), Warehouse { name, address, tax }.write());
    put(keys.warehouse_ytd(w), Sum { cents: YTD_CENTS * i64::from(scale.districts) }.write());
    for d in 1..=scale.districts {
        let (name, address, tax) = (draws.text(6, 10), draws.text(60, 80), draws.between(0, 2_000));
        put(keys.district(w, d), District { name, address, tax }.write());
        put(keys.district_ytd(w, d), Sum { cents: YTD_CENTS }.write());
        put(keys.next_order(w, d), OrderNumber { number: scale.customers + 1 }.write());
        put(keys.next_delivery(w, d), OrderNumber { number: scale.first_new_order() }.write());
        customers(&mut draws, keys, scale, (w, d), &mut put);
        orders(&mut draws, keys, scale, (w, d), &mut put);
    }
}

fn item(draws: &mut Draws) -> Item {
    Item {
        image: draws.between(1, 10_000),
        name: draws.text(14, 24),
        price: draws.between(100, 10_000).into(),
        data: draws.original_or_not(),
    }
}

fn stock(draws: &mut Draws) -> Stock {
    let (quantity, info) = (draws.between(10, 100), draws.text(24, 24));
    Stock { quantity, info, ytd: 0, orders: 0, remote: 0, data: draws.original_or_not() }
}

fn customers(
    draws: &mut Draws,
    keys: Keys,
    scale: Scale,
    (w, d): (u32, u32),
    put: &mut impl FnMut(Vec<u8>, Vec<u8>),
) {
    let mut named: BTreeMap<String, Vec<(Vec<u8>, u32)>> = BTreeMap::new();
    for c in 1..=scale.customers {
        let number = if c <= 1_000 { c - 1 } else { draws.nurand(Of::LastName, 0, 999) };
        let (last, first) = (Draws::last_name(number), draws.text(8, 16));
        let customer = Customer {
            first: first.clone(),
            middle: b"OE".to_vec(),
            last: last.clone().into_bytes(),
            address: draws.text(60, 80),
            phone: draws.text(16, 16),
            since: 0,
            credit: if draws.percent(10) { b"BC".to_vec() } else { b"GC".to_vec() },
            credit_limit: 5_000_000,
            discount: draws.between(0, 5_000),
            balance: -PAID_CENTS,
            ytd_payment: PAID_CENTS,
            payments: 1,
            deliveries: 0,
            data: draws.text(300, 500),
        };
        named.entry(last).or_default().push((first, c));
        put(keys.customer(w, d, c), customer.write());
        let history = History { at: 0, amount: PAID_CENTS, data: draws.text(12, 24) };
        put(keys.history(w, d, c, (0, 0)), history.write());
    }
    for (last, mut customers) in named {
        customers.sort_unstable();
        let customers = customers.into_iter().map(|(_, c)| c).collect();
        put(keys.customers_named(w, d, &last), Named(customers).write());
    }
}

fn orders(
    draws: &mut Draws,
    keys: Keys,
    scale: Scale,
    (w, d): (u32, u32),
    put: &mut impl FnMut(Vec<u8>, Vec<u8>),
) {
    let customers = draws.shuffled(scale.customers);
    for (o, &customer) in (1..).zip(&customers) {
        let is_delivered = o < scale.first_new_order();
        let count = draws.between(5, 15);
        let lines = (0..count).map(|_| Line {
            item: draws.between(1, scale.items),
            supplier: w,
            delivered: i64::from(is_delivered),
            quantity: 5,
            amount: if is_delivered { 0 } else { draws.between(1, 999_999).into() },
            info: draws.text(24, 24),
        });
        let lines: Vec<Line> = lines.collect();
        let carrier = if is_delivered { draws.between(1, 10) } else { 0 };
        let order = Order { customer, entered: 0, carrier, lines: count, all_local: 1 };
        put(keys.order(w, d, o), order.write());
        put(keys.lines(w, d, o), Lines(lines).write());
        put(keys.last_order(w, d, customer), OrderNumber { number: o }.write());
        if !is_delivered {
            put(keys.new_order(w, d, o), OrderNumber { number: o }.write());
        }
    }
}
