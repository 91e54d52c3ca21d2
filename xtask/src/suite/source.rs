//! Where the suite comes from: Debian's source package of Redis, fetched by apt without touching the system's
//! settings, or a tree that the user names.

use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An unpacked source tree of Redis.
pub(crate) struct Source {
    pub(crate) tree: PathBuf,
    pub(crate) version: String,
}

impl Source {
    /// The named tree, or the one in the folder, fetched if it is not there yet.
    pub(crate) fn get(named: Option<&Path>, folder: &Path) -> anyhow::Result<Source> {
        let tree = match named {
            Some(tree) => tree.canonicalize().with_context(|| format!("cannot find {}", tree.display()))?,
            None => folder.join("source"),
        };
        if named.is_none() && !tree.exists() {
            Fetch { folder: folder.join("apt") }.unpack_to(&tree)?;
        }
        let is_suite = tree.join("runtest").is_file() && tree.join("tests").is_dir();
        ensure!(is_suite, "{} is no source tree of Redis with its tests", tree.display());
        let header = fs::read_to_string(tree.join("src").join("version.h")).unwrap_or_default();
        Ok(Source { tree, version: version_in(&header).unwrap_or_else(|| "unknown".to_owned()) })
    }
}

/// The version in Redis's version.h.
fn version_in(header: &str) -> Option<String> {
    let line = header.lines().find(|line| line.starts_with("#define REDIS_VERSION "))?;
    Some(line.split('"').nth(1)?.to_owned())
}

/// apt with lists, caches and sources of its own.
struct Fetch {
    folder: PathBuf,
}

impl Fetch {
    /// Fetches the package and unpacks it. apt verifies what it fetched with the signed lists.
    fn unpack_to(&self, tree: &Path) -> anyhow::Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        for folder in ["lists/partial", "cache/archives/partial", "sources", "download"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        self.write_sources()?;
        println!("fetching the source package redis");
        // Without success the next command fails: a source that another one does not need may be missing.
        self.apt(&["update"])?;
        ensure!(
            self.apt(&["source", "--download-only", "redis"])?,
            "apt cannot fetch the source package redis: unpack one of Redis and name it with --suite DIR"
        );
        let part = tree.with_extension("part");
        if part.exists() {
            fs::remove_dir_all(&part)?;
        }
        self.extract_to(&part)?;
        Ok(fs::rename(part, tree)?)
    }

    /// The system's sources of packages, as sources of source packages.
    fn write_sources(&self) -> anyhow::Result<()> {
        let (file, folder) = (apt_path("Dir::Etc::sourcelist/f")?, apt_path("Dir::Etc::sourceparts/d")?);
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.push(file);
        for (number, path) in files.iter().enumerate() {
            let Ok(text) = fs::read_to_string(path) else { continue };
            let (text, extension) = match path.extension().and_then(|extension| extension.to_str()) {
                Some("sources") => (stanzas_of_sources(&text), "sources"),
                Some("list") => (lines_of_sources(&text), "list"),
                _ => continue,
            };
            fs::write(self.folder.join("sources").join(format!("{number}.{extension}")), text)?;
        }
        Ok(())
    }

    /// Whether apt-get succeeds.
    fn apt(&self, arguments: &[&str]) -> anyhow::Result<bool> {
        let mut command = Command::new("apt-get");
        command.arg("--quiet").current_dir(self.folder.join("download"));
        let own =
            [("Dir::Etc::sourceparts", "sources"), ("Dir::State::lists", "lists"), ("Dir::Cache", "cache")];
        for (option, folder) in own {
            command.arg("--option").arg(format!("{option}={}", self.folder.join(folder).display()));
        }
        command.args(["--option", "Dir::Etc::sourcelist=/dev/null"]).args(arguments);
        Ok(command.status().context("cannot start apt-get")?.success())
    }

    /// Unpacks with Debian's changes if the tool for that is there, without them if not.
    fn extract_to(&self, tree: &Path) -> anyhow::Result<()> {
        let download = self.folder.join("download");
        let files: Vec<PathBuf> = fs::read_dir(download)?.flatten().map(|entry| entry.path()).collect();
        let named = |part: &str| {
            files
                .iter()
                .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part)))
        };
        let (Some(description), Some(archive)) = (named(".dsc"), named(".orig.tar")) else {
            bail!("the source package lacks its parts");
        };
        let whole = Command::new("dpkg-source")
            .args(["--no-copy", "--extract"])
            .args([description.as_path(), tree])
            .status();
        if whole.is_ok_and(|status| status.success()) {
            return Ok(());
        }
        let _ = fs::remove_dir_all(tree);
        fs::create_dir_all(tree)?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--strip-components=1", "--file"]).arg(archive).arg("--directory").arg(tree);
        ensure!(tar.status()?.success(), "cannot unpack {}", archive.display());
        Ok(())
    }
}

/// Where apt keeps something.
fn apt_path(option: &str) -> anyhow::Result<PathBuf> {
    const NO_APT: &str =
        "there is no apt here: unpack a source package of Redis and name it with --suite DIR";
    let output = Command::new("apt-config").args(["shell", "FOUND", option]).output().context(NO_APT)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(path) = text.split('\'').nth(1) else { bail!(NO_APT) };
    Ok(PathBuf::from(path))
}

/// Stanzas of sources, whatever their type, for source packages.
fn stanzas_of_sources(text: &str) -> String {
    let line = |line: &str| match line.to_ascii_lowercase().starts_with("types:") {
        true => "Types: deb-src\n".to_owned(),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Lines of sources: those of binary packages, for source packages.
fn lines_of_sources(text: &str) -> String {
    let sources = text.lines().filter_map(|line| line.trim_start().strip_prefix("deb"));
    let binary = sources.filter(|rest| rest.starts_with([' ', '\t']));
    binary.map(|rest| format!("deb-src{rest}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_packages_become_sources_of_source_packages() {
        let stanzas = "# ours\nTypes: deb deb-src\nURIs: http://example.org\nSuites: stable\n\ntypes: deb\n";
        let expected = "# ours\nTypes: deb-src\nURIs: http://example.org\nSuites: stable\n\nTypes: deb-src\n";
        assert_eq!(stanzas_of_sources(stanzas), expected);
        let lines = "# deb http://example.org old main\ndeb [arch=x] http://example.org stable main\n\
                     deb-src http://example.org stable main\n\n";
        assert_eq!(lines_of_sources(lines), "deb-src [arch=x] http://example.org stable main\n");
    }

    #[test]
    fn the_version_is_in_the_header() {
        assert_eq!(version_in("#define REDIS_VERSION \"7.0.0\"\n").as_deref(), Some("7.0.0"));
        assert_eq!(version_in("#define REDIS_VERSION_NUM 0x00070000\n"), None);
    }

    #[test]
    fn what_is_no_source_tree_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let refused = Source::get(Some(folder.path()), folder.path()).map(|_| ()).expect_err("it is empty");
        assert!(refused.to_string().contains("is no source tree of Redis"), "{refused}");
    }
}
