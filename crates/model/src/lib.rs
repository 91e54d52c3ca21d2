//! Migrations on modelled machines.
//!
//! Two nodes, a coordinator and clients run their real code (workers, movers, stores, controls, client cores,
//! every protocol) in one thread on virtual time. What is modelled is what they run on: each turn of a thread
//! is charged with the processor time that [`Costs`] says, threads take turns on the cores of their
//! [`Machine`](machines::Machine) within its quota, and what they send takes its time on the link. Costs come
//! from measuring the present machine ([`calibrate`]). Records may be a sample: see `sample`.
//!
//! The same seed, machines and costs give the same report, on whatever machine it is made.

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
