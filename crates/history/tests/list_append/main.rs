//! The judge of transactions that append to lists and read them.

mod brute_force;
mod generated;
mod known;
mod second_opinion;
