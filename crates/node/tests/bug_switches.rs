//! The register of named faults: each has a name of its own, by which it alone is put back.

use std::collections::BTreeSet;

fn check<B: PartialEq>(names: &[(&str, &str)], none: B, with: impl Fn(&str) -> Option<B>) {
    for &(name, what) in names {
        assert!(with(name).is_some_and(|bugs| bugs != none), "{name} puts nothing back");
        let is_kebab_case = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(name.chars().all(is_kebab_case) && what.ends_with('.'), "{name}: {what}");
    }
    assert!(with("no-such-fault").is_none());
}

#[test]
fn every_fault_has_a_name_of_its_own() {
    use sidle_client_core::Bugs as OfClient;
    use sidle_cluster::Bugs as OfCluster;
    use sidle_migration::Bugs as OfMigration;
    use sidle_node::Bugs as OfNode;
    check(OfMigration::NAMES, OfMigration::NONE, OfMigration::with);
    check(OfNode::NAMES, OfNode::NONE, OfNode::with);
    check(OfCluster::NAMES, OfCluster::NONE, OfCluster::with);
    check(OfClient::NAMES, OfClient::NONE, OfClient::with);
    let all = [OfMigration::NAMES, OfNode::NAMES, OfCluster::NAMES, OfClient::NAMES].concat();
    let names: BTreeSet<&str> = all.iter().map(|&(name, _)| name).collect();
    assert_eq!(names.len(), all.len(), "two faults share a name");
}
