//! Command lines named in texts, for the tests of both programs: errors, hints, help and documentation must
//! name commands that exist.

use clap::error::ErrorKind;
use std::fs;
use std::path::{Path, PathBuf};

/// Checks that every command line of a program in the workspace's sources and documentation is valid:
/// its subcommands and flags exist. Values are not checked; many are placeholders.
///
/// # Panics
/// One is not valid, or no command line was found.
pub fn assert_named_commands_exist(command: &clap::Command) {
    let program = command.get_name();
    let mut faults = Vec::new();
    let mut found = 0;
    for path in texts() {
        let text = fs::read_to_string(&path).expect("a source that was just listed");
        for line in named(&text, program) {
            found += 1;
            let words = line.split_whitespace();
            let refused = command.clone().try_get_matches_from(words).err();
            let is_unknown = |kind| matches!(kind, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument);
            if let Some(error) = refused.filter(|error| is_unknown(error.kind())) {
                faults.push(format!("{}: `{line}`: {error}", path.display()));
            }
        }
    }
    assert!(found > 10, "{found} command lines were found: are the sources there?");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The columns of the narrowest supported terminal.
const COLUMNS: usize = 80;

/// Checks that the help of a command and of its subcommands is readable on a terminal of 80 columns. None of
/// its usage, examples and lists is broken; its paragraphs are broken by the terminal alone. The examples can
/// be pasted as shown: their explanation is a comment.
///
/// # Panics
/// A line is too long, a paragraph is broken, or an example is followed by words that are no comment.
pub fn assert_help_is_readable(command: &clap::Command) {
    fn look(command: &clap::Command, programs: &[&str], found: &mut usize, faults: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let usage = command.clone().render_usage().to_string();
        let is_shown_as_it_is = |line: &&str| line.starts_with("  ");
        let shown = help.lines().filter(is_shown_as_it_is).chain(usage.lines());
        faults.extend(shown.filter(|line| line.chars().count() > COLUMNS).map(str::to_owned));
        let is_example = |line: &&str| {
            let first = line.split_whitespace().next().unwrap_or_default();
            is_shown_as_it_is(line) && (programs.contains(&first) || first == "#")
        };
        for line in help.lines().filter(is_example) {
            *found += 1;
            if !is_explained_by_comment(line) {
                faults.push(line.to_owned());
            }
        }
        let is_prose = |line: &str| !line.is_empty() && !is_shown_as_it_is(&line);
        let broken =
            help.lines().zip(help.lines().skip(1)).filter(|(line, next)| is_prose(line) && is_prose(next));
        faults.extend(broken.map(|(line, next)| format!("{line} | {next}")));
        command.get_subcommands().for_each(|child| look(child, programs, found, faults));
    }
    let (mut found, mut faults) = (0, Vec::new());
    let mut command = command.clone();
    command.build();
    look(&command, &["sidle", "sidle-lab"], &mut found, &mut faults);
    assert!(found > 10, "{found} examples were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether nothing but a comment stands behind a command, some spaces away.
fn is_explained_by_comment(line: &str) -> bool {
    let behind = line.trim_start().split_once("  ").map_or("", |(_, behind)| behind.trim_start());
    behind.is_empty() || behind.starts_with('#')
}

/// The programs whose commands the documentation shows.
const SHOWN: [&str; 5] = ["sidle", "sidle-lab", "cargo", "redis-cli", "scp"];

/// Checks that the commands that the documentation shows on lines of their own can be pasted as shown, all
/// of a block at once: whatever explains them is a comment.
///
/// # Panics
/// A line of a block with commands is neither a command nor a comment.
pub fn assert_documented_commands_can_be_pasted() {
    let (mut found, mut faults) = (0, Vec::new());
    for path in texts().iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(path).expect("a document that was just listed");
        for block in command_blocks(&text) {
            found += 1;
            faults.extend(unpasteable(&block).iter().map(|line| format!("{}: {line}", path.display())));
        }
    }
    assert!(found > 10, "{found} blocks of commands were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether a line's first word is a program that the documentation shows.
fn is_command(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|first| SHOWN.contains(&first))
}

/// The paragraphs of a document that are indented, and have commands among their lines.
fn command_blocks(text: &str) -> Vec<Vec<&str>> {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.lines().collect::<Vec<_>>());
    let is_shown = |lines: &Vec<&str>| {
        lines.iter().all(|line| line.starts_with("    ")) && lines.iter().any(|line| is_command(line))
    };
    paragraphs.filter(is_shown).collect()
}

/// The lines of a block that a shell would take for something else than they are.
fn unpasteable<'a>(block: &[&'a str]) -> Vec<&'a str> {
    let is_continued = |at: usize| at > 0 && block[at - 1].ends_with('\\');
    let is_fine = |at: usize| {
        let line = block[at].trim_start();
        line.starts_with('#') || (is_command(line) || is_continued(at)) && is_explained_by_comment(line)
    };
    (0..block.len()).filter(|&at| !is_fine(at)).map(|at| block[at]).collect()
}

/// The sources of all texts for operators, and the documentation.
fn texts() -> Vec<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = vec![workspace.join("README.md"), workspace.join("sidle.toml.example")];
    add(&workspace.join("docs"), "md", &mut texts);
    for name in ["sidle", "lab", "cli", "bench", "server", "node", "cluster"] {
        add(&workspace.join("crates").join(name).join("src"), "rs", &mut texts);
    }
    texts
}

fn add(folder: &Path, extension: &str, texts: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add(&path, extension, texts);
        } else if path.extension().is_some_and(|found| found == extension) {
            texts.push(path);
        }
    }
}

/// The command lines between backticks, and those on lines of their own, as in examples.
fn named(text: &str, program: &str) -> Vec<String> {
    let begins = |line: &str| line.strip_prefix(program).is_some_and(|rest| rest.starts_with(' '));
    // A source's string continues in its next line; so does the documentation's prose.
    let joined = text.replace("\\\n", "\n").replace("\n///", "\n").replace("\n//!", "\n");
    let quoted =
        joined.match_indices('`').map(|(at, _)| joined[at + 1..].split('`').next().unwrap_or_default());
    let quoted = quoted.filter_map(|line| {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        begins(&line).then_some(line)
    });
    let is_example = |line: &&str| line.starts_with("  ") && begins(line.trim_start());
    // An example's explanation stands behind it, some spaces away.
    let examples = text.lines().filter(is_example).map(|line| {
        let line = line.trim_start();
        line.split("  ").next().unwrap_or(line).to_owned()
    });
    // The shell's part of the line does not count.
    let alone = |line: String| line.split([';', '|', '>', '#']).next().unwrap_or_default().trim().to_owned();
    quoted.chain(examples).map(alone).map(|line| line.replace('"', "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_explains_a_shown_command_is_a_comment() {
        let text = "- a list\n    sidle goes on\n\n    +--+\n    |  |\n\n    sidle status   it is up\n    (stop it)\n    \
                    # then\n    sidle upgrade  # once\n    sidle-lab run \\\n      --out p\n";
        let blocks = command_blocks(text);
        assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [6]);
        assert_eq!(unpasteable(&blocks[0]), ["    sidle status   it is up", "    (stop it)"]);
    }

    #[test]
    fn command_lines_are_found_between_backticks_and_as_examples() {
        let text = "Ask `sidle status --watch | head`, or `sidle\n/// migrate --cancel {id}`. `sidle-lab run` is none.\n\
                    \x20   sidle demo --records 5            shows it\n  sidle is a word\n";
        let found = named(text, "sidle");
        assert_eq!(found[..2], ["sidle status --watch", "sidle migrate --cancel {id}"]);
        assert_eq!(found[2..], ["sidle demo --records 5", "sidle is a word"]);
    }
}
