//! Recorded labs side by side, as they are and spoiled on purpose.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod recorded;

use recorded::recorded;
use serde_json::{Value, json};
use sidle_lab::measures::{MEASURES, named};
use sidle_lab::{Compared, Comparison, Folder, Results, compare};
use std::path::Path;

/// A copy of the recorded lab, to be spoiled.
struct Recorded(tempfile::TempDir);

impl Recorded {
    fn new() -> Recorded {
        Recorded(recorded())
    }

    /// Changes the files whose names begin like this.
    fn with(self, prefix: &str, change: impl Fn(&mut Value)) -> Recorded {
        let entries = std::fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_meant = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
        let paths: Vec<_> = entries.filter(|path| is_meant(path)).collect();
        assert!(!paths.is_empty(), "no file begins with {prefix}");
        for path in paths {
            let mut value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            change(&mut value);
            std::fs::write(&path, value.to_string()).unwrap();
        }
        self
    }

    fn read(&self) -> Results {
        Results::read(&Folder::to_read(self.0.path())).unwrap()
    }
}

/// How many figures there are and how many of them agree.
fn agreement(comparison: &Comparison, within: f64) -> (usize, usize) {
    let measures: Vec<_> = MEASURES.iter().collect();
    let figures: Vec<_> = comparison.cells.iter().flat_map(|cell| cell.figures(&measures)).collect();
    (figures.len(), figures.iter().filter(|figure| figure.agrees(within)).count())
}

#[test]
fn a_lab_agrees_with_itself() {
    let results = Recorded::new().read();
    let comparison = compare(std::slice::from_ref(&results), std::slice::from_ref(&results)).unwrap();
    assert_eq!((comparison.cells.len(), comparison.alone), (3, [0, 0]));
    let (figures, agree) = agreement(&comparison, 0.0);
    assert!(figures > 3 * 10, "{figures}");
    assert_eq!(agree, figures);
}

#[test]
fn what_lies_too_far_apart_does_not_agree_in_either_direction() {
    let slower = |run: &mut Value| {
        let during = run["throughput"]["during"].as_f64().unwrap();
        run["throughput"]["during"] = json!(during * 0.7);
    };
    let (a, b) = (Recorded::new().with("rocksteady", slower).read(), Recorded::new().read());
    for (a, b, expected) in [(&a, &b, 0.7), (&b, &a, 1.0 / 0.7)] {
        let comparison = compare(std::slice::from_ref(a), std::slice::from_ref(b)).unwrap();
        let cell =
            comparison.cells.iter().find(|cell| cell.cell().variant.to_string() == "rocksteady").unwrap();
        let figures = cell.figures(&[named("during"), named("after")]);
        assert!((figures[0].ratio().unwrap() - expected).abs() < 1e-9);
        assert!(!figures[0].agrees(0.25) && figures[0].agrees(0.5) && figures[1].agrees(0.0));
    }
}

#[test]
fn a_ratio_is_unsure_where_its_interval_reaches_across_the_limit() {
    let comparison =
        compare(std::slice::from_ref(&Recorded::new().read()), std::slice::from_ref(&Recorded::new().read()));
    let of_two_runs = comparison.unwrap().cells[0].figures(&[named("during")])[0];
    assert!(of_two_runs.interval.is_none() && !of_two_runs.is_unsure(0.25), "so few runs do not tell");
    let is_unsure = |low, high| Compared { interval: Some([low, high]), ..of_two_runs }.is_unsure(0.25);
    assert!(!is_unsure(0.8, 1.2) && !is_unsure(1.3, 1.4) && !is_unsure(0.5, 0.7), "on one side of the limit");
    assert!(is_unsure(1.2, 1.3) && is_unsure(0.7, 0.8) && is_unsure(0.5, 2.0));
}

#[test]
fn nothing_agrees_with_nothing_only() {
    let still = |run: &mut Value| run["throughput"]["during_worst_window"] = json!(0.0);
    let (a, b) = (Recorded::new().with("fulva_", still).read(), Recorded::new().read());
    let worst = |a: &Results, b: &Results| {
        let comparison = compare(std::slice::from_ref(a), std::slice::from_ref(b)).unwrap();
        comparison.cells[0].figures(&[named("worst")])[0]
    };
    assert!(!worst(&a, &b).agrees(0.25) && !worst(&b, &a).agrees(0.25) && !worst(&a, &b).is_nothing());
    assert!(worst(&a, &a).agrees(0.25) && worst(&a, &a).is_nothing());
    assert_eq!(worst(&a, &b).ratio(), None);
}

#[test]
fn runs_of_several_folders_count_as_one_cells() {
    let disturbed = |run: &mut Value| {
        run["machine"]["disturbance"] = json!({"longest_still_ms": null, "stolen": 0.5});
    };
    // Both runs of a folder were disturbed: beside another's they are left out, though the folder has no
    // others.
    let (one, other) = (Recorded::new().read(), Recorded::new().with("rocksteady", disturbed).read());
    let comparison = compare(&[one.clone(), other], std::slice::from_ref(&one)).unwrap();
    let runs = |index: usize| {
        let cell = &comparison.cells[index];
        [cell.a.reports.len(), cell.a.disturbed.len(), cell.b.reports.len()]
    };
    assert_eq!([runs(0), runs(1), runs(2)], [[4, 0, 2], [2, 2, 2], [4, 0, 2]]);
}

#[test]
fn other_seeds_are_told() {
    let results = Recorded::new().read();
    let mut other = results.clone();
    other.cells[1].reports[0].seed += 1;
    let comparison = compare(&[other], &[results]).unwrap();
    assert_eq!([0, 1, 2].map(|cell| comparison.cells[cell].has_same_seeds()), [true, false, true]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let all = Recorded::new().read();
    let larger = Recorded::new().with("lab", |lab| lab["settings"]["records"] = json!(6000)).read();
    let refused = compare(std::slice::from_ref(&all), &[all.clone(), larger]).unwrap_err();
    assert_eq!(refused, "their loads differ: 5000 records here, 6000 records there");

    let part = |from: usize, to: usize| {
        let part = |lab: &mut Value| lab["cells"] = json!(lab["cells"].as_array().unwrap()[from..to]);
        Recorded::new().with("lab", part).read()
    };
    let refused = compare(&[part(0, 1)], &[part(1, 3)]).unwrap_err();
    assert_eq!(refused, "no cell was measured on both sides");
    let comparison = compare(&[part(0, 2)], &[part(1, 3)]).unwrap();
    assert_eq!((comparison.cells.len(), comparison.alone), (1, [1, 1]));
}
