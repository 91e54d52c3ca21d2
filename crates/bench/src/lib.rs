//! Load generation, measurement, reports and the demonstration.
