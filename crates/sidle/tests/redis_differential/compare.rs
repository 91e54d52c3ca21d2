//! How alike two replies have to be.

use crate::script::Expectation;
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, Value};

pub(crate) enum Verdict {
    Alike,
    Differs,
}

pub(crate) fn compare(expectation: Expectation, expected: &[u8], actual: &[u8]) -> Verdict {
    let alike = match expectation {
        Expectation::Exact => expected == actual,
        Expectation::Sorted => sorted(expected) == sorted(actual),
        Expectation::Kind => expected.first() == actual.first(),
        Expectation::Near(distance) => match (value(expected), value(actual)) {
            // Negative numbers are not times but mean something.
            (Value::Integer(one), Value::Integer(two)) if one >= 0 && two >= 0 => {
                one.abs_diff(two) <= distance
            }
            (one, two) => one == two,
        },
        Expectation::Any => true,
    };
    if alike { Verdict::Alike } else { Verdict::Differs }
}

pub(crate) fn value(reply: &[u8]) -> Value {
    match ReplyParser::new(ReplyLimits::default()).parse(reply).expect("a server writes replies") {
        ParsedReply::Complete { frame, .. } => frame.reply.to_value(),
        ParsedReply::Incomplete { .. } => panic!("half a reply"),
    }
}

/// The reply with the elements of arrays and sets in the order of their debug form.
fn sorted(reply: &[u8]) -> String {
    match value(reply) {
        Value::Array(elements) | Value::Set(elements) => {
            let mut elements: Vec<String> = elements.iter().map(|element| format!("{element:?}")).collect();
            elements.sort();
            format!("{elements:?}")
        }
        Value::Map(pairs) => {
            let mut pairs: Vec<String> = pairs.iter().map(|pair| format!("{pair:?}")).collect();
            pairs.sort();
            format!("{pairs:?}")
        }
        other => format!("{other:?}"),
    }
}
