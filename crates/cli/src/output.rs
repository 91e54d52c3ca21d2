//! Files that a run writes at its end. Whether they are writable is checked before the run, so that no run of
//! minutes loses its figures.

use crate::exit::Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that was found to be writable.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// A pipe or a device, which is opened once only.
    stream: Option<File>,
}

impl OutputFile {
    /// Opens the file as if to write it, and leaves its content, or its absence, as
    /// it was.
    ///
    /// # Errors
    /// The file, and why it cannot be written.
    pub fn to_write(path: &Path) -> Result<OutputFile, Failure> {
        let opened = (|| -> io::Result<Option<File>> {
            match OpenOptions::new().write(true).create_new(true).open(path) {
                Ok(_) => fs::remove_file(path).map(|()| None),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let file = OpenOptions::new().write(true).open(path)?;
                    Ok((!file.metadata()?.is_file()).then_some(file))
                }
                Err(error) => Err(error),
            }
        })();
        let stream = opened.map_err(|error| refused(path, &error))?;
        Ok(OutputFile { path: path.to_owned(), stream })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// The file, and why it could not be written.
    pub fn write(self, text: &str) -> Result<(), Failure> {
        let written = match self.stream {
            Some(mut stream) => stream.write_all(text.as_bytes()),
            None => fs::write(&self.path, text),
        };
        written.map_err(|error| refused(&self.path, &error))
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::refused(format!("cannot write {}: {error}", path.display()))
}

/// Refuses to write two outputs to one file. Each path is given with its flag.
///
/// # Errors
/// The flags, and the file.
pub fn ensure_distinct(files: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let named: Vec<(&str, &Path)> = files.iter().filter_map(|&(flag, path)| Some((flag, path?))).collect();
    for (index, (flag, path)) in named.iter().enumerate() {
        if let Some((other, _)) = named[..index].iter().find(|(_, earlier)| earlier == path) {
            return Err(Failure::wrong_line(format!(
                "{other} and {flag} both name {}: give each a file of its own",
                path.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[test]
    fn what_cannot_be_written_is_refused_before_the_run() {
        let folder = tempdir().expect("a folder");
        for wrong in [folder.path().join("missing/report.json"), folder.path().to_owned()] {
            let refused = OutputFile::to_write(&wrong).expect_err("it cannot be written").message;
            assert!(refused.starts_with(&format!("cannot write {}: ", wrong.display())), "{refused}");
        }
    }

    #[test]
    fn a_run_that_does_not_end_leaves_what_was_there() {
        let folder = tempdir().expect("a folder");
        let (fresh, earlier) = (folder.path().join("fresh"), folder.path().join("earlier"));
        fs::write(&earlier, "of the last run").expect("it is written");
        drop(OutputFile::to_write(&fresh).expect("it can be written"));
        drop(OutputFile::to_write(&earlier).expect("it can be written"));
        assert!(!fresh.exists());
        assert_eq!(fs::read_to_string(&earlier).expect("it is there"), "of the last run");

        OutputFile::to_write(&earlier).and_then(|file| file.write("new")).expect("it is written");
        assert_eq!(fs::read_to_string(&earlier).expect("it is there"), "new");
    }

    #[test]
    fn a_pipe_is_opened_once() {
        let (mut reader, writer) = io::pipe().expect("the system has pipes");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let file = OutputFile::to_write(Path::new(&path)).expect("it can be written");
        drop(writer);
        file.write("a report").expect("it is written");
        assert_eq!(io::read_to_string(&mut reader).expect("it ends"), "a report");
    }

    #[test]
    fn two_things_do_not_go_to_one_file() {
        let (a, b) = (Path::new("a"), Path::new("b"));
        assert!(ensure_distinct(&[("--json", Some(a)), ("--html", Some(b)), ("--history", None)]).is_ok());
        let refused = ensure_distinct(&[("--json", Some(a)), ("--html", None), ("--history", Some(a))]);
        let message = refused.expect_err("they are the same").message;
        assert_eq!(message, "--json and --history both name a: give each a file of its own");
    }
}
