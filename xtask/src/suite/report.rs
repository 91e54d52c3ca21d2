//! What is shown of comparisons, and the file for other programs.

use super::compare::{Comparison, Failure};
use serde_json::json;
use std::path::Path;

/// How many lines of what a test said are shown.
const SHOWN_LINES: usize = 12;

/// The differences of a unit.
pub(crate) fn print_unit(comparison: &Comparison, verbose: bool) {
    for failure in &comparison.failures {
        let (what, said) = described(failure);
        println!("   {what}");
        if verbose {
            said.lines().take(SHOWN_LINES).for_each(|line| println!("      {line}"));
        }
    }
    if verbose {
        for test in comparison.redis.failed.keys() {
            println!("   redis-server fails: {test}");
        }
    }
}

/// A failure in one line, and what the test said.
fn described(failure: &Failure) -> (String, &str) {
    match failure {
        Failure::Fails(test, said) => (format!("fails: {test}"), said),
        Failure::NotRun(test) => (format!("not run: {test}"), ""),
        Failure::Passes(line, test) => {
            (format!("passes, although it is excepted ({}: {}): {test}", line.unit, line.test), "")
        }
        Failure::Unused(line) => (format!("no test for the exception: {}: {}", line.unit, line.test), ""),
        Failure::Broke(said) => (format!("broke: {}", said.lines().next().unwrap_or_default()), said),
    }
}

/// A line for each unit, and the sums.
pub(crate) fn print_table(comparisons: &[Comparison]) {
    println!(
        "\n{:<24}{:>14}{:>14}{:>10}{:>9}",
        "unit", "redis passes", "sidle passes", "excepted", "failing"
    );
    let mut sums = [0; 4];
    for comparison in comparisons {
        let numbers = numbers(comparison);
        print_row(&comparison.unit, numbers);
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
    print_row("all", sums);
}

fn print_row(name: &str, [redis, sidle, excepted, failing]: [usize; 4]) {
    println!("{name:<24}{redis:>14}{sidle:>14}{excepted:>10}{failing:>9}");
}

fn numbers(comparison: &Comparison) -> [usize; 4] {
    let (redis, sidle) = (comparison.redis.passes(), comparison.shared_passes());
    [redis, sidle, comparison.excepted.len(), comparison.failing()]
}

/// Writes all comparisons as JSON.
pub(crate) fn write_json(path: &Path, comparisons: &[Comparison]) -> anyhow::Result<()> {
    let units: Vec<_> = comparisons
        .iter()
        .map(|comparison| {
            let [redis, sidle, excepted, failing] = numbers(comparison);
            let differences: Vec<_> = comparison
                .failures
                .iter()
                .map(|failure| {
                    let (what, said) = described(failure);
                    json!({ "what": what, "said": said })
                })
                .collect();
            json!({
                "unit": comparison.unit,
                "redis_passes": redis,
                "sidle_passes": sidle,
                "excepted": excepted,
                "failing": failing,
                "differences": differences,
            })
        })
        .collect();
    std::fs::write(path, format!("{:#}\n", json!({ "units": units })))?;
    Ok(())
}
