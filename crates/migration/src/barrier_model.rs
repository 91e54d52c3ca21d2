//! The barrier under loom: every interleaving, within bounds, of a publisher with workers that run commands,
//! sleep and wake.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sidle-migration --lib --release barrier_model`
//!
//! Until a publication the source's worker changes a value, and with the proof in hand the mover reads it. If
//! it changes afterwards, a cut was packed too early (M20, M22).

use crate::RangeBarrier;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A worker's loop boundary.
fn take_newest(barrier: &RangeBarrier, worker: usize, used: &mut u64) {
    let published = barrier.published();
    if published != *used {
        *used = published;
        barrier.pass(worker, published);
    }
}

/// A command that began under this publication: it changes only what is not given.
fn command(value: &AtomicU64, publication: u64) {
    if publication == 0 {
        value.store(value.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

#[test]
fn nobody_acts_on_what_was_given_behind_the_barrier() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(|| {
        let barrier = RangeBarrier::new(1);
        let value = Arc::new(AtomicU64::new(0));
        let worker = {
            let (barrier, value) = (barrier.clone(), Arc::clone(&value));
            thread::spawn(move || {
                let mut used = 0;
                for _ in 0..2 {
                    take_newest(&barrier, 0, &mut used);
                    command(&value, used);
                    barrier.sleep(0);
                    barrier.wake(0);
                }
                barrier.sleep(0);
            })
        };
        let ticket = barrier.publish();
        let packed = ticket.passed().map(|_| value.load(Ordering::Relaxed));
        worker.join().expect("the worker ends");
        let at_last = value.load(Ordering::Relaxed);
        assert!(packed.is_none_or(|packed| packed == at_last), "{packed:?} was packed of {at_last}");
        assert!(ticket.passed().is_some(), "who sleeps is not awaited");
    });
}

#[test]
fn who_falls_asleep_late_knows_that_somebody_may_wait() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(|| {
        let barrier = RangeBarrier::new(1);
        let sleeper = {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.sleep(0))
        };
        let ticket = barrier.publish();
        let has_passed = ticket.passed().is_some();
        let notifies = sleeper.join().expect("the worker ends");
        assert!(has_passed || notifies, "the publisher would wait for ever");
    });
}
