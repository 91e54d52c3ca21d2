//! The recorded lab: six runs of 5,000 records.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

/// A copy of its folder, which a test may spoil.
pub(crate) fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded_lab");
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}
