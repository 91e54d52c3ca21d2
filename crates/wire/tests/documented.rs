//! `docs/protocol.md` names every kind of frame by its number.

use sidle_types::Speaks;
use sidle_wire::{CONTROL_VERSION, Kind};

#[test]
fn every_kind_of_frame_is_in_the_protocols_page() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    let page = std::fs::read_to_string(page).expect("the page is in the repository");
    let frames = page.split_once("### Frames").expect("a section about frames").1;
    let rows = frames.lines().filter(|line| line.starts_with("| ")).collect::<String>();
    for kind in Kind::ALL {
        let entry = format!("{} {kind:?}", kind as u8);
        let is_there = rows.split(['|', ',']).any(|cell| cell.trim() == entry);
        assert!(is_there, "frame kind {entry} is missing");
    }
    let versions = format!("{}; Control frames: {CONTROL_VERSION}, always", Speaks::THIS_BUILD);
    assert!(frames.contains(&versions), "the page does not say: {versions}");
}
