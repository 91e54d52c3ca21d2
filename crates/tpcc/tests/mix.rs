//! The standard mix, one transaction after the other, on a map.

use sidle_tpcc::{
    Draws, Input, Keys, Kind, Next, Placement, Run, Scale, Violation, check_warehouse, rows_of_warehouse,
};
use std::collections::BTreeMap;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

const SCALE: Scale = Scale { warehouses: 3, districts: 4, customers: 30, items: 100 };

fn loaded(keys: Keys) -> Records {
    let mut records = Records::new();
    for w in 1..=SCALE.warehouses {
        rows_of_warehouse(keys, SCALE, w, 7, |key, value| {
            assert!(records.insert(key, value).is_none(), "each row has a key of its own");
        });
    }
    records
}

fn check(keys: Keys, records: &Records) -> Result<(), Violation> {
    (1..=SCALE.warehouses)
        .try_for_each(|w| check_warehouse(keys, SCALE, w, &mut |key| records.get(key).cloned()))
}

/// Runs a transaction; whether it committed, and how often it read.
fn run(keys: Keys, records: &mut Records, input: Input) -> (bool, usize) {
    let (mut run, mut found, mut rounds) = (Run::begin(keys, input), Vec::new(), 0);
    loop {
        match run.next(&found).expect("every row is there") {
            Next::Read(read) => {
                rounds += 1;
                found = read.iter().map(|key| records.get(key).cloned()).collect();
            }
            Next::Commit(writes) => {
                for write in writes {
                    match write.value {
                        Some(value) => _ = records.insert(write.key, value),
                        None => assert!(records.remove(&write.key).is_some(), "what is removed is there"),
                    }
                }
                return (true, rounds);
            }
            Next::RollBack => return (false, rounds),
        }
    }
}

#[test]
fn the_conditions_hold_after_any_number_of_transactions() {
    for placement in [Placement::Warehouse, Placement::Scattered] {
        let keys = Keys(placement);
        let mut records = loaded(keys);
        assert_eq!(check(keys, &records), Ok(()));
        let mut draws = Draws::new(11, true);
        let (mut counts, mut rolled_back) = (BTreeMap::new(), 0);
        for number in 1..=5_000 {
            let (kind, w) = (Kind::draw(&mut draws), draws.between(1, SCALE.warehouses));
            let input = Input::draw(&mut draws, SCALE, kind, w, (1, number), number as i64);
            assert_eq!(input.kind(), kind);
            let (is_committed, rounds) = run(keys, &mut records, input);
            assert!((1..=3).contains(&rounds), "{kind:?} reads {rounds} times");
            *counts.entry(kind).or_insert(0) += 1;
            rolled_back += u32::from(!is_committed);
            assert!(is_committed || kind == Kind::NewOrder, "only an order is taken back");
        }
        assert_eq!(check(keys, &records), Ok(()));
        for (kind, share) in Kind::MIX {
            assert!(counts[&kind] > share * 5_000 / 100 * 7 / 10, "{counts:?}");
        }
        assert!((5..60).contains(&rolled_back), "one order of a hundred: {rolled_back}");
    }
}

#[test]
fn one_warehouse_has_one_slot_unless_it_is_scattered() {
    let whole = Keys(Placement::Warehouse);
    assert!(whole.customer(7, 1, 2).starts_with(b"{w7}") && whole.stock(7, 3).starts_with(b"{w7}"));
    assert!(!Keys(Placement::Scattered).stock(7, 3).contains(&b'{'));
}

/// Each is something that a lost, torn or doubled write leaves behind.
#[test]
fn conditions_see_what_is_wrong() {
    let keys = Keys::default();
    let records = loaded(keys);
    let broken = |change: &dyn Fn(&mut Records)| {
        let mut records = records.clone();
        change(&mut records);
        check(keys, &records).expect_err("it is broken").to_string()
    };
    let is = |text: String, expected: &str| assert!(text.starts_with(expected), "{text}");
    is(broken(&|records| _ = records.insert(keys.district_ytd(1, 2), vec![0; 8])), "3.3.2.1");
    is(
        broken(&|records| {
            _ = records.insert(keys.next_order(1, 2), records[&keys.next_delivery(1, 2)].clone())
        }),
        "3.3.2.2",
    );
    is(broken(&|records| _ = records.remove(&keys.new_order(2, 1, 30))), "3.3.2.3");
    is(broken(&|records| _ = records.insert(keys.lines(3, 4, 5), Vec::new())), "3.3.2.4");
    is(broken(&|records| _ = records.remove(&keys.order(1, 1, 1))), "the row of {w1}o1:1");
}

#[test]
fn the_same_seed_loads_the_same_rows() {
    let keys = Keys::default();
    assert_eq!(loaded(keys), loaded(keys));
    let mut others = 0;
    let rows = loaded(keys);
    rows_of_warehouse(keys, SCALE, 1, 8, |key, value| others += u32::from(rows.get(&key) != Some(&value)));
    assert!(others > 100);
}
