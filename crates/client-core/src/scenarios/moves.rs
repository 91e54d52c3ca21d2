//! Moves that begin, end and follow each other during an operation.

use super::*;

/// A to B, then B to A: knowledge of the first move is not used in the second.
#[test]
fn there_and_back_forgets() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, &bulk("v"));
    script.answer(1, &bulk("v"));
    script.map = map(4, 2, &[(0, 1, 4)], vec![running(2, range(0, u64::MAX), 2, 1, 4)]);
    script.push(2, ">2\r\n+sidle-map\r\n:4\r\n");
    assert_eq!(script.core.map().unwrap().epoch().0, 4);
    script.get(2, "k");
    assert_eq!((script.asked(1), script.asked(2)), (vec!["GET k"], vec!["SIDLE.FROZEN 2 GET k"]));
}

/// A to B ends and B to C begins during a read of the first move.
#[test]
fn a_chain_of_moves_underneath_a_read() {
    let mut script = Script::new(map(2, 3, &[(0, 2, 2)], vec![running(1, range(0, u64::MAX), 1, 2, 2)]));
    script.get(1, "k");
    script.map = map(4, 3, &[(0, 3, 4)], vec![running(2, range(0, u64::MAX), 2, 3, 4)]);
    script.answer(1, DONE);
    script.answer(2, "-MOVED 1 10.0.0.3:7000\r\n");
    script.pass(10_000);
    assert_eq!(script.asked(3), ["GET k"], "the redirect is followed");
    script.answer(3, EMPTY);
    script.pass(10_000);
    assert_eq!((script.asked(2), script.asked(3)), (vec!["SIDLE.FROZEN 2 GET k"], vec!["GET k"]));
    script.answer(2, &bulk("v"));
    script.answer(3, EMPTY);
    assert_eq!(script.ended(), ended(1, "v"));
}

/// The range moved to B, back to A and again to B within one read. The source's early answer is of the first
/// move, the target's of the third.
#[test]
fn a_source_value_older_than_the_targets_migration_is_not_taken() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(1, &bulk("stale"));
    script.map = map(6, 2, &[(0, 2, 6)], vec![running(3, range(0, u64::MAX), 1, 2, 6)]);
    // The node announces the map before it answers by it; the client does not have the map yet.
    let bytes = format!(">2\r\n+sidle-map\r\n:6\r\n{EMPTY}");
    let index = script.line_to(2);
    let line = script.lines.get_mut(&index).unwrap();
    line.asked.pop_front();
    let mut outcomes = 0;
    script
        .core
        .received(script.now, line.connection, bytes.as_bytes(), &mut |_, _: Outcome<'_>| outcomes += 1);
    assert_eq!(outcomes, 0);
    script.pass(10_000);
    assert_eq!((script.asked(1), script.asked(2)), (vec!["SIDLE.FROZEN 3 GET k"], vec!["GET k"]));
}

#[test]
fn a_new_map_that_keeps_the_migration_keeps_the_read() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.map = map(3, 3, &[(0, 2, 2)], vec![running(1, range(0, u64::MAX), 1, 2, 2)]);
    script.answer(1, &bulk("old"));
    script.push(2, ">2\r\n+sidle-map\r\n:3\r\n");
    script.answer(2, EMPTY);
    // The map was requested on the same connection, before the answer: it arrives behind it.
    script.settle();
    script.pass(10_000);
    while script.ended.is_empty() {
        script.answer(2, EMPTY);
        script.answer(1, &bulk("old"));
    }
    assert_eq!(script.ended(), ended(1, "old"));
}

#[test]
fn empty_without_a_known_migration_waits_for_the_map() {
    let mut script = Script::new(still(1, 2));
    script.get(1, "k");
    script.map = moving();
    script.answer(2, EMPTY);
    script.pass(10_000);
    assert_eq!((script.asked(1), script.asked(2)), (vec!["SIDLE.FROZEN 1 GET k"], vec!["GET k"]));
    script.answer(1, &bulk("old"));
    script.answer(2, EMPTY);
    assert_eq!(script.ended(), ended(1, "old"));
}
