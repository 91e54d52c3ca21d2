//! Versions of what nodes speak with each other, and which of them a program speaks.
//!
//! A program speaks the version before its own too, so that the nodes of a cluster can be restarted with a
//! new program one after the other. The cluster speaks one version, which an operator raises once all of its
//! nodes speak a later one.

use serde::{Deserialize, Serialize};

/// A version of what nodes speak with each other: the frames between them, and what the coordinator writes
/// down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProtocolVersion(pub u16);

impl ProtocolVersion {
    /// The one before [`CURRENT`](Self::CURRENT), which this program speaks too.
    pub const PREVIOUS: ProtocolVersion = ProtocolVersion(3);
    /// The version that a cluster begins with that this program founds.
    pub const CURRENT: ProtocolVersion = ProtocolVersion(4);
    /// What was spoken before anybody said which version it was: where no version is written, it is this one.
    pub const UNSAID: ProtocolVersion = ProtocolVersion(3);

    /// [`UNSAID`](Self::UNSAID), for fields that may be missing.
    pub const fn unsaid() -> ProtocolVersion {
        Self::UNSAID
    }

    /// Whether what stands at one position may travel in pieces, and pulls and their replies name them.
    pub const fn has_pieces(self) -> bool {
        self.0 >= 4
    }

    /// Whether a range may be given bit by bit.
    pub const fn has_cuts(self) -> bool {
        self.0 >= 4
    }

    /// Whether values may be collections.
    pub const fn has_collections(self) -> bool {
        self.0 >= 4
    }

    /// Whether values may be completions.
    pub const fn has_completions(self) -> bool {
        self.0 >= 4
    }

    /// Whether keys may have what transactions have at them.
    pub const fn has_transactions(self) -> bool {
        self.0 >= 4
    }

    /// Whether hot positions may be copied before the freeze, and an activation says which copies hold.
    pub const fn has_hot_copies(self) -> bool {
        self.0 >= 4
    }

    /// Whether logs may have copies at other nodes, and the coordinator has a record of them.
    pub const fn has_log_copies(self) -> bool {
        self.0 >= 4
    }

    /// Whether it is left out where it is written. Whoever spoke it knows no such field.
    pub const fn is_unsaid(&self) -> bool {
        self.0 == Self::UNSAID.0
    }
}

const _: () = assert!(
    ProtocolVersion::PREVIOUS.0 + 1 == ProtocolVersion::CURRENT.0
        && ProtocolVersion::CURRENT.0 <= u8::MAX as u16,
    "a program speaks two versions in a row, and a frame has a byte for its own"
);

impl std::fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "version {}", self.0)
    }
}

/// The versions that a program speaks: from the lowest to the highest, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
// It travels between two versions: what a later one adds is ignored.
pub struct Speaks {
    /// The lowest.
    pub lowest: ProtocolVersion,
    /// The highest.
    pub highest: ProtocolVersion,
}

impl Speaks {
    /// What this program speaks.
    pub const THIS_BUILD: Speaks =
        Speaks { lowest: ProtocolVersion::PREVIOUS, highest: ProtocolVersion::CURRENT };
    /// What a program speaks that does not say so.
    pub const UNSAID: Speaks = Speaks::only(ProtocolVersion::UNSAID);

    /// One version and no other.
    pub const fn only(version: ProtocolVersion) -> Speaks {
        Speaks { lowest: version, highest: version }
    }

    /// [`UNSAID`](Self::UNSAID), for fields that may be missing.
    pub const fn unsaid() -> Speaks {
        Self::UNSAID
    }

    /// Whether it is left out where it is written.
    pub fn is_unsaid(&self) -> bool {
        *self == Self::UNSAID
    }

    /// Whether the version is one of them. None is, where the lowest is above the highest.
    pub fn includes(self, version: ProtocolVersion) -> bool {
        (self.lowest..=self.highest).contains(&version)
    }

    /// Whether a program that speaks these can take part where `version` is spoken. The error names both, and
    /// what to do.
    pub fn check(self, version: ProtocolVersion) -> Result<(), String> {
        if self.includes(version) {
            return Ok(());
        }
        let what = match version > self.highest {
            true => format!("start the node with a newer program, one that speaks {version}"),
            false => format!(
                "start the node with an older program, one that speaks {version}. Once all nodes run a newer \
                 one that speaks it too, `sidle upgrade` raises the cluster's version"
            ),
        };
        Err(format!("the cluster speaks {version} between its nodes, and this program {self}: {what}"))
    }
}

impl std::fmt::Display for Speaks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "{} only", self.lowest),
            false => write!(f, "versions {} to {}", self.lowest.0, self.highest.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(lowest: u16, highest: u16) -> Speaks {
        Speaks { lowest: ProtocolVersion(lowest), highest: ProtocolVersion(highest) }
    }

    #[test]
    fn a_program_speaks_what_lies_between_its_lowest_and_its_highest() {
        let included = |of: Speaks| (0..9).filter(|&v| of.includes(ProtocolVersion(v))).collect::<Vec<_>>();
        assert_eq!(included(speaks(3, 4)), [3, 4]);
        assert_eq!(included(Speaks::UNSAID), [3]);
        assert_eq!(included(speaks(4, 3)), [0; 0], "none");
        assert_eq!(included(Speaks::THIS_BUILD), included(speaks(3, 4)), "this one's are written down here");
    }

    #[test]
    fn what_a_later_program_says_besides_is_ignored() {
        let read = serde_json::from_str::<Speaks>(r#"{"lowest":4,"highest":5,"unheard_of":1}"#);
        assert_eq!(read.ok(), Some(speaks(4, 5)));
    }

    #[test]
    fn a_refusal_names_both_versions_and_which_program_to_start() {
        let check = |of: Speaks, version| of.check(ProtocolVersion(version));
        assert_eq!(check(speaks(3, 4), 3), Ok(()));
        let too_old = check(speaks(3, 3), 4).expect_err("it is not spoken");
        assert!(too_old.contains("speaks version 4") && too_old.contains("version 3 only"), "{too_old}");
        assert!(too_old.contains("a newer program"), "{too_old}");
        let too_new = check(speaks(5, 6), 4).expect_err("it is not spoken");
        assert!(too_new.contains("versions 5 to 6") && too_new.contains("an older program"), "{too_new}");
        assert!(too_new.contains("`sidle upgrade`"), "{too_new}");
    }
}
