//! Whole nodes that migrate ranges while clients use them: one test for every edge case that needs commands.

mod common;
mod serving;
