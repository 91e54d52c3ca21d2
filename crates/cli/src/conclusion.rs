//! The end of a measured run: its summary, its files, its verdict.

use crate::exit::{Failure, Status};
use crate::output::{self, OutputFile};
use sidle_bench::page::page;
use sidle_bench::report::Report;
use sidle_bench::summary::summary;
use sidle_types::words::counted;
use std::path::Path;

/// A report's files.
#[derive(Debug)]
pub struct ReportFiles {
    json: Option<OutputFile>,
    html: Option<OutputFile>,
}

impl ReportFiles {
    /// Checks that they can be written. Call it before the run.
    ///
    /// # Errors
    /// The file that cannot be written, and why.
    pub fn to_write(json: Option<&Path>, html: Option<&Path>) -> Result<ReportFiles, Failure> {
        ensure_distinct(json, html)?;
        let open = |path: Option<&Path>| path.map(OutputFile::to_write).transpose();
        Ok(ReportFiles { json: open(json)?, html: open(html)? })
    }

    /// Their paths: `a.json and a.html`; `None` if there are none.
    fn names(&self) -> Option<String> {
        let name = |file: &OutputFile| file.path().display().to_string();
        let names: Vec<String> = [&self.json, &self.html].into_iter().flatten().map(name).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    }

    /// Writes both: the second one even if the first one fails.
    ///
    /// # Errors
    /// The files that could not be written, and why.
    pub fn write(self, report: &Report) -> Result<(), Failure> {
        let json = self.json.map(|file| {
            let text = serde_json::to_string_pretty(report).expect("a report is plain data");
            file.write(&(text + "\n"))
        });
        let html = self.html.map(|file| file.write(&page(report)));
        first_of([json, html].into_iter().flatten())
    }
}

/// Refuses to write a report and its page to one file.
///
/// # Errors
/// The flags, and the file.
pub fn ensure_distinct(json: Option<&Path>, html: Option<&Path>) -> Result<(), Failure> {
    output::ensure_distinct(&[("--json", json), ("--html", html)])
}

/// Prints a report's summary, writes its files, and judges it. The summary is printed even if a file
/// fails.
///
/// # Errors
/// Wrong answers; else files that could not be written. Either way the message names all of them.
pub fn conclude(report: &Report, files: ReportFiles, is_quiet: bool) -> Result<(), Failure> {
    if !is_quiet {
        print!("{}", summary(report));
    }
    let names = files.names();
    let written = files.write(report);
    if let (Ok(()), Some(names), false) = (&written, names, is_quiet) {
        println!("{:<18} {names}", "report");
    }
    first_of([verdict(report), written])
}

/// The first failure, with the messages of all.
pub fn first_of(outcomes: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let failures: Vec<Failure> = outcomes.into_iter().filter_map(Result::err).collect();
    let Some(first) = failures.first() else { return Ok(()) };
    let messages: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
    Err(Failure::new(first.status, messages.join("; ")))
}

/// Fails if any answer was wrong, or any acknowledged write was lost.
fn verdict(report: &Report) -> Result<(), Failure> {
    if report.is_correct() {
        return Ok(());
    }
    let wrong = counted(report.wrong_values, "wrong value");
    let lost = counted(report.lost_writes.unwrap_or(0), "lost write");
    Err(Failure::new(Status::WrongAnswers, format!("{wrong}, {lost}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_answers_outweigh_a_file_and_both_are_told() {
        let report = Report { wrong_values: 1, ..Report::default() };
        // A device that is always full: it opens, and refuses writes.
        let full = || ReportFiles::to_write(Some(Path::new("/dev/full")), None).expect("it can be opened");
        let failure = conclude(&report, full(), true).expect_err("a value was wrong");
        assert_eq!(failure.status, Status::WrongAnswers);
        assert!(failure.message.starts_with("1 wrong value, 0 lost writes; cannot write /dev/full: "));
        let failure = conclude(&Report::default(), full(), true).expect_err("nothing can be written there");
        assert_eq!(failure.status, Status::Refused);
        assert!(failure.message.starts_with("cannot write /dev/full: "), "{}", failure.message);
    }
}
