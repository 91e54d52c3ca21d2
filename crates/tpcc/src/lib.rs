//! TPC-C (revision 5.11) on keys with values, without I/O: whoever drives it reads and writes them.
//!
//! A [`Run`] is one transaction: it names the records that it reads next, and in the end what it writes, all
//! of it or nothing. A driver that runs it again after a conflict begins it anew from the same [`Input`].
//!
//! | file | what |
//! |---|---|
//! | `scale` | how many of everything there are |
//! | `draws` | the random numbers and names of clauses 2.1.6 and 4.3.2 |
//! | `keys` | where each row lies |
//! | `rows` | the rows as bytes |
//! | `load` | the rows of a warehouse before anything has run (clause 4.3.3) |
//! | `input` | what the terminals ask for (clauses 2.4.1 to 2.8.1), and the mix (5.2.3) |
//! | `new_order`, `payment`, `order_status`, `delivery`, `stock_level` | the transactions |
//! | `run`, `stage`, `step` | one of them, step by step |
//! | `conditions` | clauses 3.3.2.1 to 3.3.2.4 |
//!
//! What differs from the specification, as its clause 1.4 and the wish to move data allow:
//! - Rows are split where two transactions would otherwise conflict without need: a warehouse and a district
//!   have their sums apart from what never changes, and a district its next order and its next delivery.
//! - Two secondary indexes are rows: customers by last name, and a customer's last order.
//! - All lines of an order are one row, and ITEM is copied to each warehouse.
//! - Delivery is one transaction for each district (clause 2.7.2.2 allows it).
//! - Money is in cents, and rates in hundredths of a per cent: no rounding depends on a machine.
//! - There are no terminals: no keying time, no think time.

mod conditions;
mod delivery;
mod draws;
mod input;
mod keys;
mod load;
mod new_order;
mod order_status;
mod payment;
mod rows;
mod run;
mod scale;
mod stage;
mod step;
mod stock_level;

pub use conditions::{Violation, check_warehouse};
pub use draws::Draws;
pub use input::{Input, Kind};
pub use keys::{Keys, Placement};
pub use load::rows_of_warehouse;
pub use rows::sum_in_cents;
pub use run::Run;
pub use scale::Scale;
pub use step::{Broken, Next, Write};
