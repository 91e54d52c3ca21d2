//! The reply parser against the reply writer, and against itself with the input split at every point.

use proptest::prelude::*;
use sidle_resp::{ParsedReply, ReplyError, ReplyLimits, ReplyParser, ReplyWriter, RespVersion, Value};

fn parse_in_pieces(limits: ReplyLimits, pieces: &[&[u8]]) -> (Vec<Value>, Option<ReplyError>, usize) {
    let mut parser = ReplyParser::new(limits);
    let (mut buffer, mut values, mut consumed_all) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let consumed = match parser.parse(&buffer) {
                Ok(ParsedReply::Complete { frame, consumed }) => {
                    values.extend(frame.attributes().flat_map(|(k, v)| [k.to_value(), v.to_value()]));
                    values.push(frame.reply.to_value());
                    consumed
                }
                Ok(ParsedReply::Incomplete { need }) => {
                    assert!(need > 0);
                    break;
                }
                Err(error) => return (values, Some(error), consumed_all),
            };
            buffer.drain(..consumed);
            consumed_all += consumed;
        }
    }
    (values, None, consumed_all)
}

fn some_value() -> impl Strategy<Value = Value> {
    let text = "[ -~]{0,12}";
    let leaf = prop_oneof![
        Just(Value::Null),
        text.prop_map(Value::Simple),
        text.prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bulk),
        any::<f64>().prop_filter("comparable", |n| !n.is_nan()).prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        "-?[1-9][0-9]{0,30}".prop_map(Value::BigNumber),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|text| Value::Verbatim { format: *b"txt", text }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Set),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Push),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
        ]
    })
}

/// Bytes that resemble replies more often than noise does.
fn some_input() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"|1\r\n+a\r\n:1\r\n".to_vec()),
        Just(b"|0\r\n".to_vec()),
        Just(b"*2\r\n".to_vec()),
        Just(b"%1\r\n".to_vec()),
        Just(b"$3\r\nabc\r\n".to_vec()),
        Just(b"=5\r\ntxt:a\r\n".to_vec()),
        Just(b"_\r\n".to_vec()),
        prop::sample::select(b"+-:$*%~>|,#(=!_?".to_vec()).prop_map(|byte| vec![byte]),
        (-2i64..40).prop_map(|n| n.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(token, 0..16).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn written_values_parse_back_however_they_are_cut(
        values in prop::collection::vec(some_value(), 1..4),
        cut in any::<usize>(),
    ) {
        let mut input = Vec::new();
        values.iter().for_each(|value| value.write(&mut ReplyWriter::new(&mut input, RespVersion::Resp3)));
        let (left, right) = input.split_at(cut % (input.len() + 1));
        let all = (values, None, input.len());
        prop_assert_eq!(&parse_in_pieces(ReplyLimits::default(), &[left, right]), &all);
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(&parse_in_pieces(ReplyLimits::default(), &bytes), &all);
    }

    #[test]
    fn resp2_replies_parse(value in some_value()) {
        let mut input = Vec::new();
        value.write(&mut ReplyWriter::new(&mut input, RespVersion::Resp2));
        let (values, error, consumed) = parse_in_pieces(ReplyLimits::default(), &[&input]);
        prop_assert_eq!((values.len(), error, consumed), (1, None, input.len()));
    }

    #[test]
    fn any_input_means_the_same_however_it_is_cut(input in some_input(), cut in any::<usize>()) {
        let limits = ReplyLimits { line_bytes: 24, bulk_bytes: 30, elements: 9, depth: 3, reply_bytes: 90 };
        // NaN does not equal itself: compare the printed values.
        let print = |parsed: (Vec<Value>, Option<ReplyError>, usize)| format!("{parsed:?}");
        let whole = print(parse_in_pieces(limits, &[&input]));
        let (left, right) = input.split_at(cut % (input.len() + 1));
        prop_assert_eq!(&print(parse_in_pieces(limits, &[left, right])), &whole);
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(&print(parse_in_pieces(limits, &bytes)), &whole);
    }
}
