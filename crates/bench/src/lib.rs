//! Load generation, measurement, reports and the demonstration.

pub mod page;
pub mod report;
pub mod timeline;
