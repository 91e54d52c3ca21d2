//! Dependencies point downwards only, and the pure crates stay pure.

#![allow(clippy::disallowed_methods)] // a test that runs cargo and reads sources

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::path::Path;

/// The layers, lowest first. A crate may depend on crates of lower layers only.
const LAYERS: [&[&str]; 11] = [
    &["sidle-types", "sidle-outline"],
    &[
        "sidle-store",
        "sidle-resp",
        "sidle-handshake",
        "sidle-access",
        "sidle-wire",
        "sidle-rdb",
        "sidle-collections",
        "sidle-history",
        "sidle-workload",
        "sidle-tpcc",
        "sidle-pacing",
        "sidle-heat",
        "sidle-log-files",
    ],
    &["sidle-migration", "sidle-cluster", "sidle-commands", "sidle-log-copies", "sidle-txn"],
    &["sidle-testbed"],
    &["sidle-node", "sidle-client-core"],
    &["sidle-meta-file"],
    &["sidle-meta-etcd"],
    &["sidle-server", "sidle-client"],
    &["sidle-bench", "sidle-sim"],
    &["sidle-model", "sidle-cli"],
    &["sidle", "sidle-lab", "xtask"],
];

/// The number of pure layers, lowest first: no sockets, clocks, threads or ambient randomness.
const PURE_LAYERS: usize = 5;

/// Allowed dependencies of pure crates beside each other: data structures, codecs and derives, no I/O.
/// `rustix` is for the store alone, which maps memory with it.
const PURE_DEPENDENCIES: &[&str] = &[
    "arc-swap",
    "bumpalo",
    "crc",
    "crc32c",
    "crossbeam-epoch",
    "crossbeam-utils",
    "hashbrown",
    "hdrhistogram",
    "hmac",
    "itoa",
    "loom",
    "memchr",
    "rtrb",
    "rustix",
    "serde",
    "serde_json",
    "sha2",
    "shuttle",
    "smallvec",
    "thiserror",
    "typed-arena",
    "xxhash-rust",
    "zerocopy",
];

fn workspace() -> Metadata {
    MetadataCommand::new()
        .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata describes the workspace")
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn shipped_dependencies(package: &Package) -> impl Iterator<Item = &str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
}

#[test]
fn every_crate_has_a_layer() {
    let metadata = workspace();
    for package in metadata.workspace_packages() {
        assert!(layer_of(&package.name).is_some(), "{} is in no layer", package.name);
    }
}

#[test]
fn dependencies_point_down() {
    let metadata = workspace();
    for package in metadata.workspace_packages() {
        let own = layer_of(&package.name).expect("checked above");
        for dependency in shipped_dependencies(package) {
            if let Some(below) = layer_of(dependency) {
                assert!(below < own, "{} must not depend on {dependency}", package.name);
            }
        }
    }
}

/// Excluded from the product: models of machines, runs for the papers' figures, tools.
const NOT_IN_THE_PRODUCT: [&str; 4] = ["sidle-model", "sidle-lab", "sidle-sim", "xtask"];

/// The packages of the workspace that the product links.
fn product(metadata: &Metadata) -> Vec<&Package> {
    let packages = metadata.workspace_packages();
    let named = |name: &str| packages.iter().copied().find(|package| package.name.as_str() == name);
    let mut linked = vec![named("sidle").expect("it is a member")];
    let mut next = 0;
    while let Some(package) = linked.get(next).copied() {
        next += 1;
        for deeper in shipped_dependencies(package).filter_map(named) {
            if linked.iter().all(|package| package.name != deeper.name) {
                linked.push(deeper);
            }
        }
    }
    assert!(
        linked.iter().any(|package| package.name.as_str() == "sidle-server"),
        "the walk reaches indirect dependencies"
    );
    linked
}

#[test]
fn the_product_links_no_laboratory() {
    for package in product(&workspace()) {
        let name = package.name.as_str();
        assert!(!NOT_IN_THE_PRODUCT.contains(&name), "sidle must not link {name}");
    }
}

/// The feature by which named faults can be put back.
const FAULTS: &str = "faults";

#[test]
fn the_product_cannot_be_given_a_named_fault() {
    let metadata = workspace();
    let types = metadata.packages.iter().find(|package| package.name.as_str() == "sidle-types");
    assert!(types.expect("it is a member").features.contains_key(FAULTS), "the feature is called otherwise");
    for package in product(&metadata) {
        let is_shipped = |kind| kind != DependencyKind::Development;
        let dependencies = package.dependencies.iter().filter(|dependency| is_shipped(dependency.kind));
        let asked = dependencies.flat_map(|dependency| &dependency.features).map(String::as_str);
        // A feature of its own could ask for it too.
        let own =
            package.features.values().flatten().map(|enabled| enabled.rsplit('/').next().unwrap_or(enabled));
        assert!(asked.chain(own).all(|feature| feature != FAULTS), "{} puts faults back", package.name);
    }
}

#[test]
fn pure_crates_depend_on_nothing_that_does_io() {
    let metadata = workspace();
    for package in metadata.workspace_packages() {
        if layer_of(&package.name).expect("checked above") >= PURE_LAYERS {
            continue;
        }
        for dependency in shipped_dependencies(package) {
            let allowed = layer_of(dependency).is_some() || PURE_DEPENDENCIES.contains(&dependency);
            let only_store = dependency != "rustix" || package.name.as_str() == "sidle-store";
            assert!(allowed && only_store, "{} is pure and must not depend on {dependency}", package.name);
        }
    }
}

/// Clippy's disallowed lists stop pure crates from reading clocks and the like. This test stops them from
/// opting out, and keeps unsafe code in the places that the architecture names. Tests are exempt.
#[test]
fn pure_crates_do_not_opt_out_of_the_disallowed_lists() {
    let metadata = workspace();
    for package in metadata.workspace_packages() {
        let pure = layer_of(&package.name).expect("checked above") < PURE_LAYERS;
        let may_be_unsafe = ["sidle-store", "sidle-server"].contains(&package.name.as_str());
        let folder = package.manifest_path.parent().expect("a manifest lies in a folder").join("src");
        for (path, text) in sources(folder.as_std_path()) {
            let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
            assert!(
                !pure || !shipped.contains("allow(clippy::disallowed"),
                "{} opts out of the purity lints",
                path.display()
            );
            assert!(
                may_be_unsafe || !shipped.contains("allow(unsafe_code)"),
                "{} allows unsafe code",
                path.display()
            );
        }
    }
}

fn sources(folder: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a crate has sources") {
            let path = entry.expect("a folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                found.push((path, text));
            }
        }
    }
    found
}
