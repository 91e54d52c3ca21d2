//! What the terminals ask for.

use crate::Scale;
use crate::draws::{Draws, Of};

/// Which transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An order of a customer.
    NewOrder,
    /// A payment of a customer.
    Payment,
    /// What became of a customer's last order.
    OrderStatus,
    /// The oldest order of a district is delivered.
    Delivery,
    /// How many items of the last orders are running short.
    StockLevel,
}

impl Kind {
    /// All, with how many of a hundred there are in the standard mix (clause 5.2.3).
    pub const MIX: [(Kind, u32); 5] = [
        (Kind::NewOrder, 45),
        (Kind::Payment, 43),
        (Kind::OrderStatus, 4),
        (Kind::Delivery, 4),
        (Kind::StockLevel, 4),
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new-order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order-status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock-level",
        }
    }

    /// One of the standard mix.
    pub fn draw(draws: &mut Draws) -> Kind {
        let mut left = draws.between(1, 100);
        for (kind, share) in Kind::MIX {
            if left <= share {
                return kind;
            }
            left -= share;
        }
        unreachable!("the shares are a hundred")
    }
}

/// A customer, as a terminal names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Id(u32),
    /// By the last name.
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderedLine {
    pub(crate) item: u32,
    pub(crate) supplier: u32,
    pub(crate) quantity: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    pub(crate) w: u32,
    pub(crate) d: u32,
    pub(crate) c: u32,
    pub(crate) lines: Vec<OrderedLine>,
    pub(crate) at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    pub(crate) w: u32,
    pub(crate) d: u32,
    /// Where the customer is.
    pub(crate) of: (u32, u32),
    pub(crate) who: Who,
    pub(crate) cents: i64,
    /// The client, and the number of the payment.
    pub(crate) number: (u64, u64),
    pub(crate) at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    pub(crate) w: u32,
    pub(crate) d: u32,
    pub(crate) who: Who,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub(crate) w: u32,
    pub(crate) d: u32,
    pub(crate) carrier: u32,
    pub(crate) at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockLevel {
    pub(crate) w: u32,
    pub(crate) d: u32,
    pub(crate) threshold: u32,
}

/// A transaction with what its terminal gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// An order of a customer.
    NewOrder(NewOrder),
    /// A payment of a customer.
    Payment(Payment),
    /// What became of a customer's last order.
    OrderStatus(OrderStatus),
    /// The oldest order of a district is delivered.
    Delivery(Delivery),
    /// How many items of the last orders are running short.
    StockLevel(StockLevel),
}

/// In so many of a hundred payments the customer is of another warehouse.
const REMOTE_CUSTOMERS: u32 = 15;
/// In so many of a hundred cases a customer is named, and not numbered.
const NAMED: u32 = 60;

impl Input {
    /// What a terminal of warehouse `w` asks for. `number`: its own, and how many it has asked for. `at`: the
    /// time, in any unit, from 1 on.
    pub fn draw(draws: &mut Draws, scale: Scale, kind: Kind, w: u32, number: (u64, u64), at: i64) -> Input {
        let d = draws.between(1, scale.districts);
        match kind {
            Kind::NewOrder => Input::NewOrder(new_order(draws, scale, (w, d), at)),
            Kind::Payment => {
                let is_remote = scale.warehouses > 1 && draws.percent(REMOTE_CUSTOMERS);
                let of = if is_remote {
                    (another(draws, scale, w), draws.between(1, scale.districts))
                } else {
                    (w, d)
                };
                let cents = draws.between(100, 500_000).into();
                Input::Payment(Payment { w, d, of, who: who(draws, scale), cents, number, at })
            }
            Kind::OrderStatus => Input::OrderStatus(OrderStatus { w, d, who: who(draws, scale) }),
            Kind::Delivery => Input::Delivery(Delivery { w, d, carrier: draws.between(1, 10), at }),
            Kind::StockLevel => Input::StockLevel(StockLevel { w, d, threshold: draws.between(10, 20) }),
        }
    }

    /// Which transaction it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }
}

fn another(draws: &mut Draws, scale: Scale, w: u32) -> u32 {
    let drawn = draws.between(1, scale.warehouses - 1);
    if drawn < w { drawn } else { drawn + 1 }
}

fn who(draws: &mut Draws, scale: Scale) -> Who {
    if draws.percent(NAMED) {
        // As many names as are given at first.
        let last = scale.customers.min(1_000) - 1;
        Who::Named(Draws::last_name(draws.nurand(Of::LastName, 0, last)))
    } else {
        Who::Id(draws.nurand(Of::Customer, 1, scale.customers))
    }
}

fn new_order(draws: &mut Draws, scale: Scale, (w, d): (u32, u32), at: i64) -> NewOrder {
    let c = draws.nurand(Of::Customer, 1, scale.customers);
    let count = draws.between(5, 15);
    let is_rolled_back = draws.percent(1);
    let lines = (1..=count).map(|number| {
        let item = if is_rolled_back && number == count {
            // There is no such item.
            scale.items + 1
        } else {
            draws.nurand(Of::Item, 1, scale.items)
        };
        let is_remote = scale.warehouses > 1 && draws.percent(1);
        let supplier = if is_remote { another(draws, scale, w) } else { w };
        OrderedLine { item, supplier, quantity: draws.between(1, 10) }
    });
    let lines = lines.collect();
    NewOrder { w, d, c, lines, at }
}
