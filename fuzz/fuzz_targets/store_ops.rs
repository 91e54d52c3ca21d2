//! Any bytes, as operations on two stores: they answer as a plain model does, and their accounting adds up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sidle_store::testing::Harness;

fuzz_target!(|bytes: &[u8]| {
    Harness::run(bytes);
});
