//! Whole nodes that migrate ranges while clients use them: one test for every edge case that needs commands.

mod aware;
mod chains;
mod common;
mod copies;
mod counts;
mod deadlines;
mod digest;
mod faults;
mod flush;
mod forward;
mod freeze;
mod give_all;
mod health;
mod histories;
mod hot;
mod late;
mod many;
mod missing;
mod named_faults;
mod rename;
mod requests;
mod restarts;
mod serving;
mod slots;
mod turn;
mod types;
