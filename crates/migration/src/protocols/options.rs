//! Options: a protocol with some choices changed, for ablations and for finding each protocol's best.
//!
//! `rocksteady,missing=wait,pull-bytes=65536` is Rocksteady with larger pulls, whose commands wait instead of
//! retrying. The text is passed on unchanged, in the request and in the migration's record; every node reads
//! it the same way.

use super::{PROTOCOLS, SOURCE_DRIVEN};
use crate::tuning::{PULL_BYTES_MAX, PULL_BYTES_MIN};
use crate::{
    Copies, Cuts, OUT_OF_TURN_MAX, OnMissing, PARTITIONS_MAX, Pace, ProtocolChoices, PullBytes, Rounds,
    Sampling, Serves, SourceReads, Uncovered,
};
use sidle_wire::limits::{PRIORITY_PULL_KEYS_MAX, SAMP_PULL_POSITIONS_MAX};

/// The most positions in a sampled pull of a protocol that has none of its own.
const SAMPLED_BATCH: usize = 256;

/// Why a text names no protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// No such protocol exists.
    #[error("there is no migration protocol '{name}': the protocols are {known}", known = names().join(", "))]
    UnknownProtocol {
        /// What was asked for.
        name: String,
    },
    /// Nothing stands between two commas, or behind the last one.
    #[error("an option is empty: leave out the comma before it")]
    Empty,
    /// The option stands alone.
    #[error("the option '{option}' has no value: write {option}=VALUE, which is {takes}")]
    NoValue {
        /// Its name.
        option: &'static str,
        /// The valid values.
        takes: &'static str,
    },
    /// It is ambiguous which of two values counts.
    #[error("the option '{option}' is given twice: give each once")]
    Repeated {
        /// Its name.
        option: String,
    },
    /// The protocol has no option of this name.
    #[error("{protocol} has no option '{name}'{}: its options are {}", goes_with(*of), options.join(", "))]
    NoOption {
        /// The protocol, with those choices that decide which options it has.
        protocol: String,
        /// What was asked for.
        name: String,
        /// The protocols that have it, if any has.
        of: Option<&'static str>,
        /// The options that this protocol has, with those chosen before.
        options: Vec<&'static str>,
    },
    /// The option does not take this value.
    #[error("{option}={value} is not possible: {option} is {takes}")]
    Value {
        /// The option.
        option: &'static str,
        /// The invalid value.
        value: String,
        /// The valid values.
        takes: &'static str,
    },
}

fn goes_with(of: Option<&str>) -> String {
    of.map_or_else(String::new, |of| format!(", which goes with {of}"))
}

fn names() -> Vec<&'static str> {
    PROTOCOLS.iter().map(|protocol| protocol.name).collect()
}

/// The protocols that have an option.
#[derive(Clone, Copy)]
struct Of {
    /// What they are called.
    what: &'static str,
    has: fn(&ProtocolChoices) -> bool,
}

const ALL: Of = Of { what: "any protocol", has: |_| true };
const COPIES_AFTER: Of = Of {
    what: "a protocol that copies after the freeze",
    has: |choices| choices.copies == Copies::AfterFreeze,
};
const COPIES_BEFORE: Of = Of {
    what: "a protocol that copies before the freeze",
    has: |choices| matches!(choices.copies, Copies::BeforeFreeze(_)),
};
const FREEZES: Of = Of {
    what: "a protocol that freezes the range",
    has: |choices| !matches!(choices.copies, Copies::BeforeCuts(_)),
};
const BY_CUTS: Of = Of {
    what: "a protocol that gives the range bit by bit",
    has: |choices| matches!(choices.copies, Copies::BeforeCuts(_)),
};
const SERVES_EARLY: Of = Of {
    what: "a protocol that serves while keys arrive or are given",
    has: |choices| choices.serves != Serves::WhenAllIsHere,
};
const SERVES_WHILE_IT_FILLS: Of = Of {
    what: "a protocol that serves while keys arrive",
    has: |choices| choices.copies == Copies::AfterFreeze && choices.serves == Serves::AtActivation,
};

/// One choice that a text can change.
struct ProtocolOption {
    name: &'static str,
    /// Elsewhere it is neither listed nor accepted, whatever its value.
    of: Of,
    takes: &'static str,
    /// Sets the choice; `None` if the value is invalid.
    set: fn(&mut ProtocolChoices, &str) -> Option<()>,
}

/// The options that decide which others the protocol has. They are applied before these, in this order,
/// wherever they stand.
const DECISIVE: [&str; 2] = ["ownership", "serves"];

static OPTIONS: [ProtocolOption; 19] = [
    ProtocolOption {
        name: "ownership",
        of: COPIES_AFTER,
        takes: "'source': it copies before, as source-driven does",
        set: |choices, value| {
            *choices = match value {
                "source" => kept_by_source(choices),
                _ => return None,
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "partitions",
        of: ALL,
        takes: "a number from 1 to 64",
        set: |choices, value| {
            choices.partitions = number(value, 1, PARTITIONS_MAX)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "pull-bytes",
        of: ALL,
        takes: "a number of bytes from 16384 to 131072, the size of every pull, or 'adaptive'",
        set: |choices, value| {
            choices.pulls = match value {
                "adaptive" => PullBytes::Adaptive(64 << 10),
                _ => PullBytes::Fixed(number(value, PULL_BYTES_MIN, PULL_BYTES_MAX)?),
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "pace",
        of: ALL,
        takes: "'yield' or 'full'",
        set: |choices, value| {
            choices.pace = match value {
                "yield" => Pace::YieldsToClients,
                "full" => Pace::Full,
                _ => return None,
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "sampling",
        of: COPIES_AFTER,
        takes: "'off', or the number of misses of which one is pulled, from 1 to 1000000",
        set: |choices, value| {
            let batch = choices.sampling.map_or(SAMPLED_BATCH, |sampling| sampling.batch);
            choices.sampling = match value {
                "off" => None,
                _ => Some(Sampling { one_in: number(value, 1, 1_000_000)?, batch }),
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "missing",
        of: COPIES_AFTER,
        takes: "'frozen' (the source's value is taken), 'wait', or the microseconds after which a client comes again, to \
                100000",
        set: |choices, value| {
            choices.missing = match value {
                "frozen" => OnMissing::SaysNotHereYet,
                "wait" => OnMissing::Waits,
                _ => OnMissing::SaysRetry { after_us: number(value, 1, 100_000)? },
            };
            choices.source_reads = match choices.missing {
                OnMissing::SaysNotHereYet => SourceReads::AnswersFrozen,
                OnMissing::Waits | OnMissing::SaysRetry { .. } => SourceReads::Redirects,
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "priority-keys",
        of: FREEZES,
        takes: "a number from 1 to 16",
        set: |choices, value| {
            choices.priority.batch = number(value, 1, PRIORITY_PULL_KEYS_MAX)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "priority-pulls",
        of: FREEZES,
        takes: "the number of priority pulls in flight, from 0 (commands wait for their key's turn) to 16",
        set: |choices, value| {
            choices.priority.in_flight = number(value, 0, crate::tuning::PRIORITY_PULLS_QUEUED_MAX)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "serves",
        of: COPIES_AFTER,
        takes: "'at-once' or 'complete'",
        set: |choices, value| {
            choices.serves = match value {
                "at-once" => Serves::AtActivation,
                "complete" => Serves::WhenAllIsHere,
                _ => return None,
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "rounds",
        of: COPIES_BEFORE,
        takes: "the number of rounds of changes after which the range is frozen at the latest, from 0 to 1000",
        set: |choices, value| {
            rounds(choices)?.at_most = number(value, 0, 1_000)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "few",
        of: COPIES_BEFORE,
        takes: "the number of changes left at which the range is frozen, from 0 to 1000000",
        set: |choices, value| {
            rounds(choices)?.few = number(value, 0, 1_000_000)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "cut-period",
        of: BY_CUTS,
        takes: "the microseconds from one cut to the next while no command waits, from 0 to 1000000",
        set: |choices, value| {
            cuts(choices)?.period_us = number(value, 0, 1_000_000)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "cut-keys",
        of: BY_CUTS,
        takes: "the most keys that a cut gives out of turn, from 1 to 1024",
        set: |choices, value| {
            cuts(choices)?.keys = number(value, 1, SAMP_PULL_POSITIONS_MAX)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "cut-bytes",
        of: BY_CUTS,
        takes: "about how many bytes are copied ahead of what is given, from 1 to 1073741824",
        set: |choices, value| {
            cuts(choices)?.bytes = number(value, 1, 1 << 30)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "hot-first",
        of: SERVES_EARLY,
        takes: "'on' (keys that clients access often go first) or 'off'",
        set: |choices, value| {
            choices.hot_first = match value {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "collections",
        of: SERVES_WHILE_IT_FILLS,
        takes: "'ahead' (large collections are copied before the range changes its owner, and what changes in them \
                meanwhile follows) or 'in-turn'",
        set: |choices, value| {
            choices.collections_ahead = match value {
                "ahead" => true,
                "in-turn" => false,
                _ => return None,
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "digest",
        of: BY_CUTS,
        takes: "'on' or 'off': whether the target tells clients what it was given",
        set: |choices, value| {
            cuts(choices)?.digest = match value {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            Some(())
        },
    },
    ProtocolOption {
        name: "out-of-turn",
        of: BY_CUTS,
        takes: "the most keys that are given out of turn in all, from 1 to 1000000",
        set: |choices, value| {
            cuts(choices)?.out_of_turn = number(value, 1, OUT_OF_TURN_MAX)?;
            Some(())
        },
    },
    ProtocolOption {
        name: "uncovered",
        of: BY_CUTS,
        takes: "who serves what is not given yet: 'source', 'target' (everything is given at once), or 'load' (the \
                source, until it falls behind)",
        set: |choices, value| {
            cuts(choices)?.uncovered = match value {
                "source" => Uncovered::Source,
                "target" => Uncovered::Target,
                "load" => Uncovered::ByLoad,
                _ => return None,
            };
            Some(())
        },
    },
];

/// The same partitions, pulls and pace, while the source keeps serving: changes are sent again, and ownership
/// passes at the end (Rocksteady 2.4.2, "leave ownership at the source", without its replication).
fn kept_by_source(choices: &ProtocolChoices) -> ProtocolChoices {
    ProtocolChoices {
        copies: SOURCE_DRIVEN.copies,
        serves: SOURCE_DRIVEN.serves,
        source_reads: SOURCE_DRIVEN.source_reads,
        missing: SOURCE_DRIVEN.missing,
        sampling: SOURCE_DRIVEN.sampling,
        collections_ahead: SOURCE_DRIVEN.collections_ahead,
        ..*choices
    }
}

fn rounds(choices: &mut ProtocolChoices) -> Option<&mut Rounds> {
    match &mut choices.copies {
        Copies::AfterFreeze | Copies::BeforeCuts(_) => None,
        Copies::BeforeFreeze(rounds) => Some(rounds),
    }
}

fn cuts(choices: &mut ProtocolChoices) -> Option<&mut Cuts> {
    match &mut choices.copies {
        Copies::BeforeCuts(cuts) => Some(cuts),
        Copies::AfterFreeze | Copies::BeforeFreeze(_) => None,
    }
}

fn number<N: std::str::FromStr + PartialOrd>(text: &str, least: N, most: N) -> Option<N> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

/// Changes choices, each given as `OPTION=VALUE`.
pub(super) fn apply(choices: &mut ProtocolChoices, words: &[&str]) -> Result<(), ProtocolError> {
    for (place, word) in words.iter().enumerate() {
        if word.is_empty() {
            return Err(ProtocolError::Empty);
        }
        if words[..place].iter().any(|before| name_of(before) == name_of(word)) {
            return Err(ProtocolError::Repeated { option: name_of(word).to_owned() });
        }
    }
    let mut protocol = choices.name.to_owned();
    for decisive in DECISIVE {
        for word in words.iter().filter(|word| name_of(word) == decisive) {
            apply_one(choices, &protocol, word)?;
            protocol = format!("{protocol},{word}");
        }
    }
    let mut others = words.iter().filter(|word| !DECISIVE.contains(&name_of(word)));
    others.try_for_each(|word| apply_one(choices, &protocol, word))
}

fn name_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Changes one choice. `protocol`: the protocol as far as it decides which options there are.
fn apply_one(choices: &mut ProtocolChoices, protocol: &str, text: &str) -> Result<(), ProtocolError> {
    let named = OPTIONS.iter().find(|option| option.name == name_of(text));
    let Some(option) = named.filter(|option| (option.of.has)(choices)) else {
        return Err(ProtocolError::NoOption {
            protocol: protocol.to_owned(),
            name: name_of(text).to_owned(),
            of: named.map(|option| option.of.what),
            options: of_protocol(choices).collect(),
        });
    };
    let &ProtocolOption { name: option, takes, set, .. } = option;
    let Some((_, value)) = text.split_once('=') else {
        return Err(ProtocolError::NoValue { option, takes });
    };
    let invalid = || ProtocolError::Value { option, value: value.to_owned(), takes };
    set(choices, value).ok_or_else(invalid)
}

/// The options that a protocol with these choices has.
fn of_protocol(choices: &ProtocolChoices) -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().filter(|option| (option.of.has)(choices)).map(|option| option.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZEPHYR;
    use crate::{FULVA, HANDOFF, PriorityPulls, ROCKSTEADY, STOP_AND_COPY, protocol};

    fn given_by(protocol: &ProtocolChoices) -> Cuts {
        *cuts(&mut protocol.clone()).expect("it gives the range bit by bit")
    }

    #[test]
    fn options_change_one_choice_each() {
        for (text, choices) in [
            ("fulva,sampling=off", ProtocolChoices { sampling: None, ..FULVA }),
            (
                "fulva,sampling=100,partitions=4",
                ProtocolChoices {
                    sampling: Some(Sampling { one_in: 100, batch: 256 }),
                    partitions: 4,
                    ..FULVA
                },
            ),
            (
                "rocksteady,missing=wait,pull-bytes=65536",
                ProtocolChoices { missing: OnMissing::Waits, pulls: PullBytes::Fixed(65536), ..ROCKSTEADY },
            ),
            (
                "rocksteady,priority-pulls=0,priority-keys=1",
                ProtocolChoices { priority: PriorityPulls { batch: 1, in_flight: 0 }, ..ROCKSTEADY },
            ),
            (
                "source-driven,rounds=3,few=0",
                ProtocolChoices {
                    copies: Copies::BeforeFreeze(Rounds { few: 0, at_most: 3 }),
                    ..SOURCE_DRIVEN
                },
            ),
            (
                "source-driven,few=0,rounds=0",
                ProtocolChoices {
                    copies: Copies::BeforeFreeze(Rounds { few: 0, at_most: 0 }),
                    ..SOURCE_DRIVEN
                },
            ),
            (
                "rocksteady,ownership=source",
                ProtocolChoices {
                    name: "rocksteady",
                    partitions: ROCKSTEADY.partitions,
                    pulls: ROCKSTEADY.pulls,
                    priority: ROCKSTEADY.priority,
                    ..SOURCE_DRIVEN
                },
            ),
            (
                "fulva,few=0,ownership=source,pace=yield",
                ProtocolChoices {
                    name: "fulva",
                    copies: Copies::BeforeFreeze(Rounds { few: 0, at_most: 8 }),
                    partitions: FULVA.partitions,
                    pulls: FULVA.pulls,
                    priority: FULVA.priority,
                    ..SOURCE_DRIVEN
                },
            ),
            (
                "stop-and-copy,ownership=source,partitions=2",
                ProtocolChoices {
                    name: "stop-and-copy",
                    partitions: 2,
                    pulls: STOP_AND_COPY.pulls,
                    pace: Pace::Full,
                    priority: STOP_AND_COPY.priority,
                    ..SOURCE_DRIVEN
                },
            ),
            ("handoff,hot-first=off", ProtocolChoices { hot_first: false, ..HANDOFF }),
            ("handoff,hot-first=off,cut-keys=300", ProtocolChoices { hot_first: false, ..HANDOFF }),
            ("handoff,hot-first=on", HANDOFF),
            ("fulva,hot-first=on", ProtocolChoices { hot_first: true, ..FULVA }),
            ("zephyr,hot-first=off", ZEPHYR),
            ("zephyr,collections=ahead", ZEPHYR),
            ("fulva,collections=in-turn", ProtocolChoices { collections_ahead: false, ..FULVA }),
            (
                "stop-and-copy,hot-first=on,serves=at-once",
                ProtocolChoices { serves: Serves::AtActivation, hot_first: true, ..STOP_AND_COPY },
            ),
            ("rocksteady,pace=full", ProtocolChoices { pace: Pace::Full, ..ROCKSTEADY }),
            ("handoff,digest=on", HANDOFF),
            (
                "handoff,digest=off,cut-period=0",
                ProtocolChoices {
                    copies: Copies::BeforeCuts(Cuts { digest: false, period_us: 0, ..given_by(&HANDOFF) }),
                    ..HANDOFF
                },
            ),
            (
                "handoff,cut-period=0,cut-keys=1,cut-bytes=2,out-of-turn=3,uncovered=target",
                ProtocolChoices {
                    copies: Copies::BeforeCuts(Cuts {
                        period_us: 0,
                        keys: 1,
                        bytes: 2,
                        out_of_turn: 3,
                        uncovered: Uncovered::Target,
                        ..given_by(&HANDOFF)
                    }),
                    ..HANDOFF
                },
            ),
            ("handoff,uncovered=source", HANDOFF),
        ] {
            assert_eq!(protocol(text), Ok(choices), "{text}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            ("fulva,sample=off", "fulva has no option 'sample': its options are ownership, partitions"),
            ("fulva,", "an option is empty: leave out the comma before it"),
            ("handoff,,", "an option is empty"),
            ("handoff,,cut-keys=3", "an option is empty"),
            (
                "fulva,partitions",
                "the option 'partitions' has no value: write partitions=VALUE, which is a number from 1 to 64",
            ),
            (
                "handoff,cut-keys",
                "the option 'cut-keys' has no value: write cut-keys=VALUE, which is the most",
            ),
            ("fulva,partitions=", "partitions= is not possible: partitions is a number from 1 to 64"),
            ("fulva,partitions=0", "partitions=0 is not possible"),
            ("fulva,partitions=65", "partitions=65 is not possible"),
            ("fulva,pull-bytes=-1", "pull-bytes=-1 is not possible"),
            ("fulva,missing=never", "missing=never is not possible"),
            (
                "fulva,rounds=3",
                "fulva has no option 'rounds', which goes with a protocol that copies before the freeze: its",
            ),
            (
                "source-driven,ownership=source",
                "source-driven has no option 'ownership', which goes with a protocol that copies after the freeze: its",
            ),
            ("fulva,ownership=target", "ownership=target is not possible"),
            ("fulva,ownership=source,ownership=source", "the option 'ownership' is given twice"),
            ("rocksteady,missing=wait,missing=wait", "the option 'missing' is given twice: give each once"),
            ("rocksteady,missing=wait,pace=full,missing=40", "the option 'missing' is given twice"),
            ("handoff,hot-first=yes", "hot-first=yes is not possible: hot-first is 'on'"),
            ("stop-and-copy,hot-first=yes", "stop-and-copy has no option 'hot-first', which goes with"),
            ("fulva,collections=on", "collections=on is not possible: collections is 'ahead'"),
            (
                "fulva,uncovered=target",
                "fulva has no option 'uncovered', which goes with a protocol that gives the range bit by bit",
            ),
            ("handoff,uncovered=both", "uncovered=both is not possible"),
            ("handoff,out-of-turn=0", "out-of-turn=0 is not possible"),
            ("source-driven,few=some", "few=some is not possible"),
            ("handoff,digest=some", "digest=some is not possible"),
            ("fulva,digest=off", "fulva has no option 'digest', which goes with a protocol that gives"),
            ("handoff,uncovered=never", "uncovered=never is not possible: uncovered is who serves"),
            ("teleport", "there is no migration protocol 'teleport': the protocols are fulva, rocksteady"),
        ] {
            let error = protocol(text).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }

    /// No value makes an option pass that the protocol does not have: neither the usual choice, nor an
    /// invalid one, nor none. The answer is the same for all.
    #[test]
    fn what_the_protocol_does_not_have_is_refused_whatever_its_value() {
        for (protocol_text, option, values) in [
            ("handoff", "missing", &["=wait", "=frozen", "=40", "=never", "=", ""][..]),
            ("handoff", "sampling", &["=off", "=8"]),
            ("handoff", "priority-keys", &["=16", "=8", "=99"]),
            ("handoff", "priority-pulls", &["=1", "=0", "=99"]),
            ("handoff", "serves", &["=complete", "=at-once", "=never"]),
            ("handoff", "collections", &["=ahead", "=in-turn", "=on"]),
            ("handoff", "ownership", &["=source", "=target"]),
            ("source-driven", "ownership", &["=source"]),
            ("source-driven", "missing", &["=wait", "=frozen"]),
            ("source-driven", "sampling", &["=off", "=8"]),
            ("source-driven", "serves", &["=complete", "=at-once"]),
            ("source-driven", "hot-first", &["=off", "=on"]),
            ("stop-and-copy", "hot-first", &["=off", "=on", "=yes"]),
            ("stop-and-copy", "collections", &["=ahead", "=in-turn"]),
            ("fulva", "digest", &["=on", "=off"]),
            ("fulva,ownership=source", "missing", &["=wait", "=frozen"]),
            ("fulva,ownership=source", "sampling", &["=off"]),
            ("rocksteady,ownership=source", "serves", &["=complete", "=at-once"]),
            ("zephyr,ownership=source", "hot-first", &["=on", "=off"]),
            ("fulva,serves=complete", "hot-first", &["=on", "=off"]),
            ("fulva,serves=complete", "collections", &["=ahead", "=in-turn"]),
        ] {
            let (name, decisive) = protocol_text.split_once(',').unwrap_or((protocol_text, ""));
            for value in values {
                let behind = protocol(&format!("{protocol_text},{option}{value}")).unwrap_err();
                let told = format!("{protocol_text} has no option '{option}', which goes with ");
                assert!(behind.to_string().starts_with(&told), "{behind}");
                assert!(
                    !decisive.is_empty() || behind.to_string().contains(": its options are "),
                    "{behind}"
                );
                if option != "serves" && !decisive.is_empty() {
                    let before = protocol(&format!("{name},{option}{value},{decisive}"));
                    assert_eq!(before, Err(behind), "whatever their order");
                }
            }
        }
    }

    /// What an error lists is what the protocol has, and each protocol has what its error lists.
    #[test]
    fn mistakes_list_what_the_protocol_has() {
        for (text, listed) in [
            (
                "fulva,?",
                "ownership, partitions, pull-bytes, pace, sampling, missing, priority-keys, priority-pulls, \
                 serves, hot-first, collections",
            ),
            (
                "stop-and-copy,?",
                "ownership, partitions, pull-bytes, pace, sampling, missing, priority-keys, priority-pulls, serves",
            ),
            ("source-driven,?", "partitions, pull-bytes, pace, priority-keys, priority-pulls, rounds, few"),
            (
                "fulva,ownership=source,?",
                "partitions, pull-bytes, pace, priority-keys, priority-pulls, rounds, few",
            ),
            (
                "handoff,serves=never",
                "partitions, pull-bytes, pace, cut-period, cut-keys, cut-bytes, hot-first, digest, out-of-turn, \
                 uncovered",
            ),
        ] {
            let error = protocol(text).unwrap_err().to_string();
            let (_, found) = error.split_once("its options are ").expect("a list");
            assert_eq!(found, listed, "{error}");
            for option in listed.split(", ") {
                let chosen = text.rsplit_once(',').map_or(text, |(chosen, _)| chosen);
                let error = protocol(&format!("{chosen},{option}=?")).unwrap_err().to_string();
                assert!(error.starts_with(&format!("{option}=? is not possible: {option} is ")), "{error}");
            }
        }
    }
}
