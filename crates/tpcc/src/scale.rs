//! How many of everything there are.

/// The size of a database (clause 1.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, numbered from 1.
    pub warehouses: u32,
    /// Districts of a warehouse.
    pub districts: u32,
    /// Customers of a district, and orders that it has at first.
    pub customers: u32,
    /// Items, each of which every warehouse has in stock.
    pub items: u32,
}

impl Scale {
    /// The specification's, of so many warehouses.
    pub const fn full(warehouses: u32) -> Scale {
        Scale { warehouses, districts: 10, customers: 3_000, items: 100_000 }
    }

    /// With a share of the specification's customers and items, in thousandths; at least 30 customers and 100
    /// items.
    pub fn reduced(warehouses: u32, thousandths: u32) -> Scale {
        let of =
            |all: u32, least: u32| (u64::from(all) * u64::from(thousandths) / 1_000).max(u64::from(least));
        let full = Scale::full(warehouses);
        Scale { customers: of(full.customers, 30) as u32, items: of(full.items, 100) as u32, ..full }
    }

    /// The first order that is not delivered at first: three of ten are not.
    pub const fn first_new_order(self) -> u32 {
        self.customers - self.customers * 3 / 10 + 1
    }
}
