//! Every known fault put back, one after the other.

use crate::side_by_side;
use sidle_sim::{Drawn, Story, run};
use sidle_types::{About, Fault};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Instant;

/// Puts each known fault back in turn, and fails unless each is found within its number of seeds from `first`
/// on.
pub(crate) fn hunt(first: u64, threads: usize) -> ExitCode {
    // Failed assertions are the goal here.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = 0;
    for &fault in Fault::ALL {
        let About { name, seeds: Some(limit), .. } = fault.about() else { continue };
        let started = Instant::now();
        let mut found = None;
        let seeds = first..=first.saturating_add(limit - 1);
        let simulate = |seed| run(seed, Drawn { fault: Some(fault), world: None }, Story::silent()).err();
        side_by_side::each(
            threads,
            seeds,
            || true,
            simulate,
            |seed, failure| match failure {
                Some(failure) => {
                    found = Some((seed, failure));
                    ControlFlow::Break(())
                }
                None => ControlFlow::Continue(()),
            },
        );
        let seconds = started.elapsed().as_secs_f64();
        match found {
            Some((seed, failure)) => {
                let check = failure.violation.check;
                println!("{name:36} seed {seed:4} of {limit:4}, {seconds:5.1} s: {check}");
            }
            None => {
                missed += 1;
                println!("{name:36} NOT FOUND within {limit} seeds, {seconds:.1} s");
            }
        }
    }
    match missed {
        0 => ExitCode::SUCCESS,
        _ => {
            println!("{missed} known faults were not seen by any checker");
            ExitCode::FAILURE
        }
    }
}
