//! Frames arrive unchanged, or are refused: round trips, truncations, flipped bits, garbage.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod malformed;
mod owned;
mod round_trips;
mod stream;
mod versions;
