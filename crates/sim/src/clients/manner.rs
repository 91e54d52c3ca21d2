//! How the operator moves ranges: by which protocol, with which options, under which policy.

use sidle_migration::{Copies, HANDOFF, PROTOCOLS, ProtocolChoices, Serves};
use sidle_testbed::Random;
use sidle_types::MigrationPolicy;

/// How many of a thousand migrations name no protocol: most known faults need the default one.
const PLAIN_PERMILLE: u64 = 400;
/// How many of a thousand with a protocol change single choices.
const OPTIONS_PERMILLE: u64 = 300;
/// How many of a thousand migrations have a policy.
const POLICY_PERMILLE: u64 = 250;

/// The longest wait before a change of policy.
const CHANGE_US: u64 = 100_000;

/// Choices for a protocol; every protocol that has one must be correct with it.
const OPTIONS: &[&str] = &[
    "partitions=1",
    "partitions=64",
    "pull-bytes=16384",
    "sampling=off",
    "sampling=1",
    "missing=wait",
    "missing=frozen",
    "missing=100",
    "priority-keys=1",
    "priority-pulls=0",
    "priority-pulls=16",
    "pace=full",
    "serves=complete",
    "serves=at-once",
    "ownership=source",
];

/// Those among them that no protocol has that copies before the freeze. Beside one they are left out: a
/// request with them would be refused, and move nothing.
const NOT_AHEAD: &[&str] =
    &["sampling=off", "sampling=1", "missing=wait", "missing=frozen", "missing=100", "serves=complete"];

/// The same for a protocol that gives the range bit by bit.
const CUT_OPTIONS: &[&str] = &[
    "partitions=1",
    "partitions=64",
    "pull-bytes=16384",
    "pace=full",
    "cut-period=0,cut-bytes=1000",
    "cut-period=0,cut-bytes=10000",
    "cut-period=100000",
    "cut-keys=1",
    "cut-bytes=1",
    "cut-bytes=1000",
    "cut-bytes=10000",
    "digest=off",
    "uncovered=load",
    "uncovered=target",
    "uncovered=target,partitions=64",
    // All is given while copies wait for a cut, and change meanwhile.
    "uncovered=load,out-of-turn=1,cut-period=100000,cut-bytes=1000",
    "uncovered=load,out-of-turn=1,cut-period=100000,cut-bytes=10000",
    "uncovered=load,out-of-turn=1,cut-period=300000,cut-bytes=3000",
    "uncovered=load,out-of-turn=1,cut-period=20000,cut-bytes=10000",
    "uncovered=load,out-of-turn=1,cut-bytes=1",
    "uncovered=load,out-of-turn=2,cut-bytes=1000",
    "uncovered=load,out-of-turn=1,cut-period=100000",
    "out-of-turn=3,cut-period=100000",
    "out-of-turn=3,cut-period=20000,cut-bytes=10000",
];

/// How many of a thousand such migrations give hot positions no earlier than others: then each cut gives a
/// few of the records.
const HOT_LAST_PERMILLE: u64 = 400;

/// How many of a thousand migrations that may copy large collections ahead do not.
const IN_TURN_PERMILLE: u64 = 500;
const IN_TURN_STREAM: u64 = 0x17_70e4_0000_0000;

/// How many of a thousand migrations that may copy hot positions before the freeze do so.
const HOT_FIRST_PERMILLE: u64 = 350;

fn is_by_cuts(protocol: &ProtocolChoices) -> bool {
    matches!(protocol.copies, Copies::BeforeCuts(_))
}

fn copies_ahead(protocol: &ProtocolChoices) -> bool {
    matches!(protocol.copies, Copies::BeforeFreeze(_))
}

/// Whether the protocol freezes first and serves at once: then hot positions may be copied ahead.
fn goes_hot_first(protocol: &ProtocolChoices) -> bool {
    protocol.copies == Copies::AfterFreeze && protocol.serves == Serves::AtActivation
}

/// Draws how ranges are to be moved.
pub struct Manners {
    random: Random,
    /// Whether large collections go in turn.
    in_turn: Random,
    policy_permille: u64,
}

/// How one range is to be moved.
pub struct Manner {
    /// The protocol.
    pub protocol: &'static ProtocolChoices,
    /// The request's words after the target.
    pub words: String,
}

impl Manners {
    /// Draws from a separate stream.
    pub fn new(random: Random) -> Manners {
        let in_turn = Random::new(random.clone().draw() ^ IN_TURN_STREAM);
        Manners { random, in_turn, policy_permille: POLICY_PERMILLE }
    }

    /// No range is moved under a policy from its start.
    pub fn without_policies(self) -> Manners {
        Manners { policy_permille: 0, ..self }
    }

    /// How the next range is to be moved.
    pub fn draw(&mut self) -> Manner {
        let mut protocol = PROTOCOLS[0];
        let mut words = String::new();
        if !self.random.permille(PLAIN_PERMILLE) {
            // The one by cuts has the most choices, and its faults rare conditions: it is drawn twice.
            let drawn = self.random.index(PROTOCOLS.len() + 1);
            protocol = PROTOCOLS.get(drawn).copied().unwrap_or(&HANDOFF);
            words = format!(" PROTOCOL {}", protocol.name);
            // Records are few: by default the first cut gives nearly all of them.
            let permille = if is_by_cuts(protocol) { 800 } else { OPTIONS_PERMILLE };
            if self.random.permille(permille) {
                let options = if is_by_cuts(protocol) { CUT_OPTIONS } else { OPTIONS };
                let option = options[self.random.index(options.len())];
                if !copies_ahead(protocol) || !NOT_AHEAD.contains(&option) {
                    words = format!("{words},{option}");
                }
            }
            if is_by_cuts(protocol) && self.random.permille(HOT_LAST_PERMILLE) {
                words = format!("{words},hot-first=off");
            }
            if goes_hot_first(protocol) && self.random.permille(HOT_FIRST_PERMILLE) {
                words = format!("{words},hot-first=on");
            }
            if protocol.copies_collections_ahead() && self.in_turn.permille(IN_TURN_PERMILLE) {
                words = format!("{words},collections=in-turn");
            }
        }
        if self.random.permille(self.policy_permille) {
            words = format!("{words} {}", self.policy().words().join(" "));
        }
        Manner { protocol, words }
    }

    /// The wait until a started migration gets another policy, if it does.
    pub fn changes_its_mind(&mut self) -> Option<u64> {
        (self.policy_permille > 0 && self.random.one_in(4)).then(|| self.random.magnitude(1, CHANGE_US))
    }

    /// Some policy.
    pub fn policy(&mut self) -> MigrationPolicy {
        match self.random.below(4) {
            0 => MigrationPolicy::Adaptive,
            1 => MigrationPolicy::Rate { bytes_per_s: self.random.magnitude(2_000_000, 50_000_000) },
            2 => MigrationPolicy::Deadline { ms: self.random.magnitude(10, 10_000) },
            _ => MigrationPolicy::SloP99 { us: self.random.magnitude(50, 20_000) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A protocol may contradict some choice; then the request is refused, which is tested, too.
    #[test]
    fn every_option_suits_most_protocols() {
        for option in OPTIONS {
            let suits = |name: &str| sidle_migration::protocol(&format!("{name},{option}")).is_ok();
            let others = PROTOCOLS.iter().filter(|protocol| !is_by_cuts(protocol));
            let suited = others.clone().filter(|protocol| suits(protocol.name)).count();
            assert!(suited + 1 >= others.count(), "{option} suits {suited} protocols");
        }
        for option in CUT_OPTIONS.iter().chain(&["hot-first=off"]) {
            for protocol in PROTOCOLS.iter().filter(|protocol| is_by_cuts(protocol)) {
                let text = format!("{},{option}", protocol.name);
                assert!(sidle_migration::protocol(&text).is_ok(), "{text}");
            }
        }
    }
}
