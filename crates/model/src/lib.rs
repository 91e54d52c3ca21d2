//! Migrations on modelled machines.
//!
//! Two nodes, a coordinator and clients run their real code (workers, movers, stores, controls, client cores,
//! every protocol) in one thread on virtual time. Only the machines are modelled. Each turn of a thread is
//! charged processor time by [`Costs`], threads share the cores of their [`Machine`](machines::Machine)
//! within its quota, and messages take time on the link. Costs are measured on a real machine
//! ([`calibrate`]). Records may be a sample: see `sample`.
//!
//! The same seed, machines and costs give the same report on every machine.

pub mod calibrate;
mod client;
mod costs;
mod course;
mod event;
mod links;
pub mod machines;
mod model;
mod node;
mod noise;
mod operator;
mod processors;
mod quota;
mod recorder;
mod sample;
mod stopwatch;

pub use costs::Costs;
pub use course::{ModelError, Plan, Progress, run};
pub use links::Link;
