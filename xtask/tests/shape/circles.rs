//! Circles in a graph of files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// For each file its imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The strongly connected components: the largest sets of files that reach each other.
pub(crate) fn of(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, paths(imports, file).into_keys().collect())).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (file, targets) in &reached {
        let circle = targets.iter().filter(|target| reached[*target].contains(file));
        let circle: BTreeSet<String> = circle.map(|&target| target.clone()).collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// A shortest path in a circle, from a file back to it.
pub(crate) fn shortest(imports: &Imports, circle: &BTreeSet<String>) -> Vec<String> {
    let ways = circle.iter().filter_map(|file| {
        let before = paths(imports, file);
        let mut way = vec![file.clone()];
        let mut at = *before.get(file)?;
        while at != file {
            way.push(at.clone());
            at = before[at];
        }
        way.push(file.clone());
        way.reverse();
        Some(way)
    });
    ways.min_by_key(Vec::len).expect("a circle leads back")
}

/// Every file reachable from a file, with its predecessor on a shortest path.
fn paths<'i>(imports: &'i Imports, from: &'i String) -> BTreeMap<&'i String, &'i String> {
    let mut before = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(file) = queue.pop_front() {
        for target in imports.get(file).into_iter().flatten() {
            before.entry(target).or_insert_with(|| {
                queue.push_back(target);
                file
            });
        }
    }
    before
}

#[test]
fn circles_are_found_with_their_shortest_way() {
    let imports: Imports = [("a", "b"), ("b", "cd"), ("c", "a"), ("d", "e"), ("e", "d"), ("f", "a")]
        .into_iter()
        .map(|(file, targets)| (file.to_owned(), targets.chars().map(String::from).collect()))
        .collect();
    let circles = of(&imports);
    assert_eq!(circles.len(), 2);
    assert_eq!(shortest(&imports, &circles[0]).join(""), "abca");
    assert_eq!(shortest(&imports, &circles[1]).join(""), "ded");
}
