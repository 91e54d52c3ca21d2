//! The commands that rules may name: their categories, and which are subcommands.

use std::collections::BTreeMap;
use std::ops::Range;

/// The names of the categories, in Redis's order.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// Those of these names; others are left out.
    pub fn of<'n>(names: impl Iterator<Item = &'n str>) -> Categories {
        names.filter_map(|name| Categories::named(name.as_bytes())).fold(Categories(0), Categories::with)
    }

    /// The one of this name, in any letters.
    pub fn named(name: &[u8]) -> Option<Categories> {
        let at = CATEGORIES.iter().position(|category| category.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Categories::at(at))
    }

    pub(crate) const fn at(number: usize) -> Categories {
        Categories(1 << number)
    }

    const fn with(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }

    /// Whether the sets intersect.
    pub const fn touches(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }
}

/// A command's place in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandIndex(pub u16);

#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) categories: Categories,
    pub(crate) is_subcommand: bool,
    pub(crate) subcommands: Range<u16>,
}

/// All commands. Subcommands (`parent|child`) have places of their own.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    commands: Vec<Listed>,
    by_name: BTreeMap<String, CommandIndex>,
}

impl Catalogue {
    /// A catalogue of these, in lower case. The subcommands of a command stand side by side, behind it.
    pub fn new<'c>(commands: impl Iterator<Item = (&'c str, Categories)>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        for (at, (name, categories)) in (0..).zip(commands) {
            let parent = name.split_once('|').and_then(|(parent, _)| catalogue.find(parent.as_bytes()));
            if let Some(CommandIndex(parent)) = parent {
                let children = &mut catalogue.commands[usize::from(parent)].subcommands;
                let is_first = children.start == children.end;
                let start = if is_first { at } else { children.start };
                debug_assert!(is_first || children.end == at, "'{name}' stands apart");
                *children = start..at + 1;
            }
            let is_subcommand = parent.is_some();
            let listed = Listed { name: name.to_owned(), categories, is_subcommand, subcommands: 0..0 };
            catalogue.commands.push(listed);
            catalogue.by_name.insert(name.to_owned(), CommandIndex(at));
        }
        catalogue
    }

    /// The command of this full name, in any letters.
    pub fn find(&self, name: &[u8]) -> Option<CommandIndex> {
        let name = std::str::from_utf8(name).ok()?;
        self.by_name.get(name.to_ascii_lowercase().as_str()).copied()
    }

    pub(crate) fn listed(&self, CommandIndex(at): CommandIndex) -> &Listed {
        &self.commands[usize::from(at)]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = CommandIndex> + use<> {
        (0..self.commands.len() as u16).map(CommandIndex)
    }
}
