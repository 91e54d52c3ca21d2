//! What moves the data in a cell: a protocol, possibly with changed options, and the clients that
//! go with it.

use serde::{Deserialize, Serialize};
use sidle_migration::{PROTOCOLS, protocol};

/// The clients' option, not the protocol's.
const TRACKING: &str = "tracking";
/// The nodes' option.
const OFFLOADING: &str = "offloading";

/// The meanings of the papers' ablations, for people.
const MEANINGS: [(&str, &str); 7] = [
    ("tracking=off", "clients ask both nodes for every moving key, whatever they know"),
    ("offloading=off", "the nodes move data on the threads that serve clients"),
    ("sampling=off", "no records are pulled ahead because clients missed them"),
    ("priority-pulls=0", "who misses a key waits until its turn comes"),
    ("priority-keys=1", "each missed key is a pull of its own"),
    ("missing=wait", "who misses a key waits for its pull instead of coming again"),
    ("ownership=source", "the source serves until all is copied, and what changed is sent again"),
];

/// A protocol by its name in the lab: `fulva`, `rocksteady,priority-pulls=0`, `fulva,tracking=off`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Variant {
    /// A migration's argument: the protocol with its options.
    protocol: String,
    /// Whether clients use their knowledge of moved keys.
    tracking: bool,
    /// Whether the nodes have threads of their own for moving data.
    offloading: bool,
}

impl Variant {
    fn of(protocol: &str) -> Variant {
        Variant { protocol: protocol.to_owned(), tracking: true, offloading: true }
    }

    /// Every protocol, in its default form.
    pub fn protocols() -> Vec<Variant> {
        PROTOCOLS.iter().map(|known| Variant::of(known.name)).collect()
    }

    /// The protocol with its options, as a migration's argument.
    pub fn protocol(&self) -> &str {
        &self.protocol
    }

    /// The protocol's name alone.
    pub fn base(&self) -> &str {
        self.protocol.split(',').next().unwrap_or_default()
    }

    /// Whether clients use their knowledge of moved keys.
    pub const fn tracking(&self) -> bool {
        self.tracking
    }

    /// Whether the nodes have threads of their own for moving data; otherwise the serving threads do it.
    pub const fn offloading(&self) -> bool {
        self.offloading
    }

    /// Whether the protocol is unchanged.
    pub fn is_plain(&self) -> bool {
        self.off().next().is_none() && !self.protocol.contains(',')
    }

    /// The changes: `priority-pulls=0`.
    pub fn changes(&self) -> impl Iterator<Item = String> {
        self.protocol.split(',').skip(1).map(str::to_owned).chain(self.off())
    }

    /// The changes that do not explain themselves, with their meaning.
    pub fn meanings(&self) -> Vec<(String, &'static str)> {
        let meaning = |change: String| {
            let known = MEANINGS.iter().find(|(known, _)| *known == change);
            known.map(|&(_, meaning)| (change, meaning))
        };
        self.changes().filter_map(meaning).collect()
    }

    /// The disabled parts that are no option of the protocol's.
    fn off(&self) -> impl Iterator<Item = String> {
        let all = [(TRACKING, self.tracking), (OFFLOADING, self.offloading)];
        all.into_iter().filter(|(_, is_on)| !is_on).map(|(name, _)| format!("{name}=off"))
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.protocol)?;
        self.off().try_for_each(|word| write!(f, ",{word}"))
    }
}

impl std::str::FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Variant, String> {
        let mut variant = Variant::of("");
        let mut words = Vec::new();
        for word in text.split(',') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let switch = match name {
                TRACKING => &mut variant.tracking,
                OFFLOADING => &mut variant.offloading,
                _ => {
                    words.push(word);
                    continue;
                }
            };
            *switch = match value {
                "on" => true,
                "off" => false,
                _ => return Err(format!("{name}={value} is neither on nor off")),
            };
        }
        variant.protocol = words.join(",");
        protocol(&variant.protocol).map_err(|error| error.to_string())?;
        Ok(variant)
    }
}

impl TryFrom<String> for Variant {
    type Error = String;

    fn try_from(text: String) -> Result<Variant, String> {
        text.parse()
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> String {
        variant.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_of_the_list_is_there_by_itself() {
        let names: Vec<String> = Variant::protocols().iter().map(Variant::to_string).collect();
        assert_eq!(names, PROTOCOLS.iter().map(|known| known.name).collect::<Vec<_>>());
        assert!(Variant::protocols().iter().all(Variant::is_plain));
    }

    #[test]
    fn tracking_is_the_clients_option() {
        let variant: Variant = "fulva,tracking=off,sampling=off".parse().unwrap();
        assert_eq!((variant.protocol(), variant.tracking()), ("fulva,sampling=off", false));
        assert_eq!(variant.to_string(), "fulva,sampling=off,tracking=off");
        assert_eq!(variant.base(), "fulva");
        assert!(variant.changes().eq(["sampling=off", "tracking=off"]));
        assert!(!variant.is_plain());
        assert_eq!("fulva,tracking=on".parse(), Ok::<Variant, String>(Variant::protocols()[0].clone()));
    }

    #[test]
    fn offloading_is_the_nodes_option() {
        let variant: Variant = "fulva,offloading=off,tracking=off".parse().unwrap();
        assert_eq!((variant.protocol(), variant.tracking(), variant.offloading()), ("fulva", false, false));
        assert_eq!(variant.to_string(), "fulva,tracking=off,offloading=off");
        let variant: Variant = "zephyr,offloading=off".parse().unwrap();
        assert!(!variant.is_plain() && variant.tracking());
        assert!(variant.changes().eq(["offloading=off"]));
    }

    #[test]
    fn what_has_a_meaning_is_an_option() {
        for (change, _) in MEANINGS {
            let variant: Variant = format!("fulva,{change}").parse().unwrap();
            assert_eq!(variant.meanings().len(), 1, "{change}");
        }
        assert_eq!("fulva,partitions=2".parse::<Variant>().unwrap().meanings(), []);
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            ("teleport", "there is no migration protocol 'teleport'"),
            ("fulva,tracking=perhaps", "tracking=perhaps is neither on nor off"),
            ("fulva,offloading", "offloading= is neither on nor off"),
            ("fulva,sampling", "the option 'sampling' has no value"),
        ] {
            let error = text.parse::<Variant>().unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
