//! The recorded lab, six runs of 5,000 records, and its page's content.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]
#![allow(dead_code)] // each test takes what it needs

/// A copy of its folder, for a test to spoil.
pub(crate) fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded_lab");
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// The JSON in a page.
pub(crate) fn shown(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"report\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// HTML without its markup, as words.
pub(crate) fn text_of(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                text.push(' ');
            }
            c if !is_tag => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
