//! What moves the data in a cell: a protocol, with some of its choices changed perhaps, and the clients that go with it.

use serde::{Deserialize, Serialize};
use sidle_migration::{PROTOCOLS, protocol};

/// The option that is the clients', not the protocol's.
const TRACKING: &str = "tracking";

/// A protocol as the lab names it: `fulva`, `rocksteady,priority-pulls=0`, `fulva,tracking=off`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Variant {
    /// What a migration is asked for: the protocol with its options.
    protocol: String,
    /// Whether clients use what they know to have moved.
    tracking: bool,
}

impl Variant {
    /// Every protocol there is, as it stands in the list of them.
    pub fn protocols() -> Vec<Variant> {
        PROTOCOLS.iter().map(|known| Variant { protocol: known.name.to_owned(), tracking: true }).collect()
    }

    /// The protocol with its options, as a migration takes it.
    pub fn protocol(&self) -> &str {
        &self.protocol
    }

    /// The protocol's name alone.
    pub fn base(&self) -> &str {
        self.protocol.split(',').next().unwrap_or_default()
    }

    /// Whether clients use what they know to have moved.
    pub const fn tracking(&self) -> bool {
        self.tracking
    }

    /// Whether nothing about the protocol was changed.
    pub fn is_plain(&self) -> bool {
        self.tracking && !self.protocol.contains(',')
    }

    /// What was changed, for people: `priority-pulls=0`.
    pub fn changes(&self) -> String {
        let options = self.protocol.split(',').skip(1).map(str::to_owned);
        let tracking = (!self.tracking).then(|| format!("{TRACKING}=off"));
        options.chain(tracking).collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.protocol)?;
        if self.tracking { Ok(()) } else { write!(f, ",{TRACKING}=off") }
    }
}

impl std::str::FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Variant, String> {
        let mut tracking = true;
        let mut words = Vec::new();
        for word in text.split(',') {
            match word.split_once('=') {
                Some((TRACKING, "off")) => tracking = false,
                Some((TRACKING, "on")) => tracking = true,
                Some((TRACKING, value)) => return Err(format!("{TRACKING}={value} is neither on nor off")),
                _ => words.push(word),
            }
        }
        let name = words.join(",");
        protocol(&name).map_err(|error| error.to_string())?;
        Ok(Variant { protocol: name, tracking })
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
        assert_eq!((variant.base(), variant.changes().as_str()), ("fulva", "sampling=off, tracking=off"));
        assert!(!variant.is_plain());
        assert_eq!("fulva,tracking=on".parse(), Ok::<Variant, String>(Variant::protocols()[0].clone()));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            ("teleport", "there is no migration protocol 'teleport'"),
            ("fulva,tracking=perhaps", "tracking=perhaps is neither on nor off"),
            ("fulva,sampling", "sampling= is not possible"),
        ] {
            let error = text.parse::<Variant>().unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
