//! Payment (clause 2.5).

use crate::Keys;
use crate::input::{Payment, Who};
use crate::rows::{Customer, District, History, Named, Sum, Warehouse};
use crate::stage::Stage;
use crate::step::{Broken, Next, Rows, Write};

/// The longest C_DATA.
const DATA_BYTES: usize = 500;

pub(crate) fn next(
    keys: Keys,
    stage: &mut Stage,
    input: &Payment,
    mut rows: Rows<'_>,
) -> Result<Next, Broken> {
    let c = match (&*stage, &input.who) {
        (Stage::Begun, Who::Named(last)) => {
            *stage = Stage::Named;
            return Ok(Next::Read(vec![keys.customers_named(input.of.0, input.of.1, last)]));
        }
        (Stage::Begun, Who::Id(id)) => *id,
        (Stage::Named, _) => middle(&rows.row("a last name")?)?,
        (Stage::First(c), _) => return write(keys, input, *c, rows),
        (Stage::Second(_) | Stage::Third(_), _) => unreachable!("it has one step with a customer"),
    };
    *stage = Stage::First(c);
    let &Payment { w, d, of, .. } = input;
    Ok(Next::Read(vec![
        keys.warehouse(w),
        keys.district(w, d),
        keys.warehouse_ytd(w),
        keys.district_ytd(w, d),
        keys.customer(of.0, of.1, c),
    ]))
}

/// Of those with a last name, by their first ones, the one in the middle (clause 2.5.2.2).
pub(crate) fn middle(named: &Named) -> Result<u32, Broken> {
    named.0.get(named.0.len().div_ceil(2).saturating_sub(1)).copied().ok_or(Broken("a last name"))
}

fn write(keys: Keys, input: &Payment, c: u32, mut rows: Rows<'_>) -> Result<Next, Broken> {
    let &Payment { w, d, of, cents, number, at, .. } = input;
    let warehouse: Warehouse = rows.row("a warehouse")?;
    let district: District = rows.row("a district")?;
    let of_warehouse: Sum = rows.row("a warehouse's sum")?;
    let of_district: Sum = rows.row("a district's sum")?;
    let mut customer: Customer = rows.row("a customer")?;
    customer.balance -= cents;
    customer.ytd_payment += cents;
    customer.payments += 1;
    if customer.credit == b"BC" {
        let mut data = format!("{c} {} {} {d} {w} {cents} ", of.1, of.0).into_bytes();
        data.extend_from_slice(&customer.data);
        data.truncate(DATA_BYTES);
        customer.data = data;
    }
    let data = [warehouse.name, district.name].join(&b"    "[..]);
    let history = History { at, amount: cents, data };
    Ok(Next::Commit(vec![
        Write::put(keys.warehouse_ytd(w), &Sum { cents: of_warehouse.cents + cents }),
        Write::put(keys.district_ytd(w, d), &Sum { cents: of_district.cents + cents }),
        Write::put(keys.customer(of.0, of.1, c), &customer),
        Write::put(keys.history(of.0, of.1, c, number), &history),
    ]))
}
