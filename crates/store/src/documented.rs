//! For tests: the code produces the examples in `docs/layout.md`.

use std::fmt::Write;

/// Checks that the page has these bytes under this title, 16 a line.
pub(crate) fn check_documented(title: &str, bytes: &[u8]) {
    let page = include_str!("../../../docs/layout.md");
    let mut example = format!("\n    {title}\n");
    for (line, chunk) in bytes.chunks(16).enumerate() {
        write!(example, "    {:02x} ", line * 16).expect("memory takes it");
        for (at, byte) in chunk.iter().enumerate() {
            let gap = if at == 8 { "  " } else { " " };
            write!(example, "{gap}{byte:02x}").expect("memory takes it");
        }
        example.push('\n');
    }
    assert!(page.contains(&example), "docs/layout.md shows something else than:\n{example}");
}
