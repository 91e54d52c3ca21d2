//! The shape of the sources: the length of lines and functions, the files with a type's methods, and no
//! circular imports between the files of a crate.
//!
//! `shape/exceptions.rs` lists today's exceptions. An unused entry fails, too: remove it. A failing test
//! prints the list that would pass.

#![allow(clippy::disallowed_methods)] // a test that reads sources

#[path = "shape/circles.rs"]
mod circles;
#[path = "shape/exceptions.rs"]
mod exceptions;
#[path = "shape/items.rs"]
mod items;
#[path = "shape/lines.rs"]
mod lines;
#[path = "shape/modules.rs"]
mod modules;

use modules::Root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The longest function.
const FUNCTION_LINES: usize = 70;
/// The most files with methods of one type.
const METHOD_FILES: usize = 3;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// The folders of all crates, with their names here.
fn crates() -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(workspace().join("crates")).expect("the workspace has crates");
    let folders = entries.map(|entry| entry.expect("a folder can be read").path());
    folders
        .chain([workspace().join("xtask")])
        .filter(|folder| folder.join("Cargo.toml").exists())
        .map(|folder| (folder.file_name().expect("a name").to_string_lossy().into_owned(), folder))
        .collect()
}

/// All programs and libraries of the workspace, with their crate's name.
fn roots() -> Vec<(String, Root)> {
    let crates = crates();
    crates.iter().flat_map(|(name, folder)| Root::all_of(folder).map(|root| (name.clone(), root))).collect()
}

/// Every Rust file below a folder.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a source is text")
}

/// A file's path in the workspace.
fn shown(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap_or(path).display().to_string()
}

/// Fails unless the findings equal the exceptions; both are lines of the list in `exceptions.rs`.
fn compare(rule: &str, list: &str, found: &BTreeSet<String>, excepted: &BTreeSet<String>) {
    let new: Vec<&String> = found.difference(excepted).collect();
    let stale: Vec<&String> = excepted.difference(found).collect();
    assert!(
        new.is_empty() && stale.is_empty(),
        "{rule}\nnew:\n{new:#?}\nno longer so, to be taken out of exceptions.rs:\n{stale:#?}\n\
         {list} would be:\n{found:#?}"
    );
}

#[test]
fn lines_have_at_most_110_columns() {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz/fuzz_targets"] {
        rust_files(&workspace().join(folder), &mut files);
    }
    let long: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let long = lines::too_long(&read(path));
            long.into_iter().map(|(line, columns)| format!("{}:{line}: {columns} columns", shown(path)))
        })
        .collect();
    assert!(long.is_empty(), "lines have at most {} columns:\n{}", lines::COLUMNS, long.join("\n"));
}

/// A listed function must not grow.
#[test]
fn functions_have_at_most_70_lines() {
    let excepted: BTreeMap<(&str, &str), usize> =
        exceptions::LONG_FUNCTIONS.iter().map(|&(file, function, lines)| ((file, function), lines)).collect();
    let mut found = BTreeSet::new();
    for (_, root) in roots() {
        for module in root.modules() {
            let file = shown(&module.path);
            for (function, lines) in items::functions(&module.syntax) {
                if lines > FUNCTION_LINES {
                    let allowed = excepted.get(&(&file[..], &function[..])).filter(|&&most| lines <= most);
                    found.insert(format!("({file:?}, {function:?}, {}),", allowed.unwrap_or(&lines)));
                }
            }
        }
    }
    let excepted =
        excepted.iter().map(|((file, function), lines)| format!("({file:?}, {function:?}, {lines}),"));
    let rule = format!("functions have at most {FUNCTION_LINES} lines");
    compare(&rule, "LONG_FUNCTIONS", &found, &excepted.collect());
}

#[test]
fn methods_of_a_type_lie_in_at_most_three_files() {
    let mut found = BTreeSet::new();
    for (name, root) in roots() {
        for (a_type, files) in items::method_files(&root) {
            if files.len() > METHOD_FILES {
                found.insert(format!("({name:?}, {a_type:?}, {}),", files.len()));
            }
        }
    }
    let excepted = exceptions::SPREAD_TYPES.iter();
    let excepted = excepted.map(|(name, a_type, files)| format!("({name:?}, {a_type:?}, {files}),"));
    let rule = format!("the methods of a type are written in at most {METHOD_FILES} files");
    compare(&rule, "SPREAD_TYPES", &found, &excepted.collect());
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut found = BTreeSet::new();
    let mut shortest = Vec::new();
    for (name, root) in roots() {
        let imports = root.imports();
        for circle in circles::of(&imports) {
            shortest.push(format!("{name}: {}", circles::shortest(&imports, &circle).join(" -> ")));
            let files: Vec<&String> = circle.iter().collect();
            found.insert(format!("({name:?}, &{files:?}),"));
        }
    }
    let excepted = exceptions::CIRCLES.iter();
    let excepted = excepted.map(|(name, files, _)| format!("({name:?}, &{files:?}),"));
    let rule = format!("files of a crate import each other in no circle; shortest:\n{}", shortest.join("\n"));
    compare(&rule, "CIRCLES", &found, &excepted.collect());
}

#[test]
fn every_exception_has_a_reason() {
    for (name, files, reason) in exceptions::CIRCLES {
        assert!(reason.split(' ').count() > 3, "why {name} has a circle of {files:?}");
    }
}
