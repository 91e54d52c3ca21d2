//! Where each row lies.

/// Whether all rows of a warehouse have one hash slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// They have: most transactions are of one node.
    #[default]
    Warehouse,
    /// Each row has a slot of its own: nearly every transaction spans nodes.
    Scattered,
}

/// Makes the keys of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys(pub Placement);

impl Keys {
    fn of(self, warehouse: u32, rest: &str) -> Vec<u8> {
        match self.0 {
            Placement::Warehouse => format!("{{w{warehouse}}}{rest}"),
            Placement::Scattered => format!("w{warehouse}.{rest}"),
        }
        .into_bytes()
    }

    /// WAREHOUSE: what never changes.
    pub fn warehouse(self, w: u32) -> Vec<u8> {
        self.of(w, "w")
    }

    /// Its W_YTD.
    pub fn warehouse_ytd(self, w: u32) -> Vec<u8> {
        self.of(w, "wy")
    }

    /// DISTRICT: what never changes.
    pub fn district(self, w: u32, d: u32) -> Vec<u8> {
        self.of(w, &format!("d{d}"))
    }

    /// Its D_YTD.
    pub fn district_ytd(self, w: u32, d: u32) -> Vec<u8> {
        self.of(w, &format!("dy{d}"))
    }

    /// Its D_NEXT_O_ID.
    pub fn next_order(self, w: u32, d: u32) -> Vec<u8> {
        self.of(w, &format!("dn{d}"))
    }

    /// The lowest order that it has not delivered.
    pub fn next_delivery(self, w: u32, d: u32) -> Vec<u8> {
        self.of(w, &format!("dd{d}"))
    }

    /// CUSTOMER.
    pub fn customer(self, w: u32, d: u32, c: u32) -> Vec<u8> {
        self.of(w, &format!("c{d}:{c}"))
    }

    /// The customers with a last name, in the order of their first names.
    pub fn customers_named(self, w: u32, d: u32, last: &str) -> Vec<u8> {
        self.of(w, &format!("cn{d}:{last}"))
    }

    /// A customer's last order.
    pub fn last_order(self, w: u32, d: u32, c: u32) -> Vec<u8> {
        self.of(w, &format!("cl{d}:{c}"))
    }

    /// HISTORY, with a name of its own: the client and the number of its transaction.
    pub fn history(self, w: u32, d: u32, c: u32, (client, number): (u64, u64)) -> Vec<u8> {
        self.of(w, &format!("h{d}:{c}:{client}.{number}"))
    }

    /// ORDER.
    pub fn order(self, w: u32, d: u32, o: u32) -> Vec<u8> {
        self.of(w, &format!("o{d}:{o}"))
    }

    /// NEW-ORDER.
    pub fn new_order(self, w: u32, d: u32, o: u32) -> Vec<u8> {
        self.of(w, &format!("n{d}:{o}"))
    }

    /// All ORDER-LINEs of an order.
    pub fn lines(self, w: u32, d: u32, o: u32) -> Vec<u8> {
        self.of(w, &format!("l{d}:{o}"))
    }

    /// ITEM, as a warehouse has it.
    pub fn item(self, w: u32, i: u32) -> Vec<u8> {
        self.of(w, &format!("i:{i}"))
    }

    /// STOCK.
    pub fn stock(self, w: u32, i: u32) -> Vec<u8> {
        self.of(w, &format!("s:{i}"))
    }
}
