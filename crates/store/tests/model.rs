//! Random operation sequences against a plain model.

use proptest::prelude::*;
use sidle_store::testing::{Harness, OPERATION_BYTES};

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn store_does_as_the_model(operations in prop::collection::vec(any::<[u8; OPERATION_BYTES]>(), 1..400)) {
        Harness::run(&operations.concat());
    }
}

/// Sequences that mostly write, long enough to fill the log many times.
#[test]
fn store_does_as_the_model_when_full() {
    for seed in 1..=4u64 {
        let mut state = seed;
        let mut harness = Harness::default();
        for _ in 0..15_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut operation = (state ^ state >> 29).to_le_bytes();
            // Mostly single writes of a few thousand keys on the first store, sometimes anything else.
            if operation[1] % 16 != 0 {
                operation[0] %= 6;
                operation[0] -= u8::from(operation[0] == 4);
                operation[3] %= 16;
                // A few of them large collections.
                operation[1] = if operation[0] < 4 { operation[1] >> 4 & 2 & (operation[4] << 1) } else { 0 };
            } else {
                operation[1] >>= 7;
            }
            harness.step(operation);
        }
        harness.check_everything();
        assert!(harness.refused > 0, "the memory never filled");
        assert!(harness.files_gone() > 10, "{} files of the log went", harness.files_gone());
    }
}
