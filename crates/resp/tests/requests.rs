//! The request parser against Redis 7.0.15's behaviour, and against itself with the input split at every
//! point.

use proptest::prelude::*;
use sidle_resp::{Args, Limits, Parsed, ProtocolError, RequestParser, RequestWriter};

type Requests = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>, usize);

/// Feeds the input in pieces to one parser; returns the requests, the error and the bytes consumed.
fn parse_in_pieces(limits: Limits, pieces: &[&[u8]]) -> Requests {
    let mut parser = RequestParser::new(limits);
    let mut other = RequestParser::new(limits);
    let mut args = Args::new();
    let (mut buffer, mut requests, mut consumed_all) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer, &mut args) {
                Ok(Parsed::Complete { consumed }) => {
                    requests.push(args.iter(&buffer).map(<[u8]>::to_vec).collect());
                    buffer.drain(..consumed);
                    consumed_all += consumed;
                }
                Ok(Parsed::Incomplete { need }) => {
                    assert!(need > 0);
                    break;
                }
                Err(error) => return (requests, Some(error), consumed_all),
            }
        }
        // The same `Args` serve another connection in between.
        let other_request = b"*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n";
        let consumed = other_request.len();
        assert_eq!(other.parse(other_request, &mut args), Ok(Parsed::Complete { consumed }));
    }
    (requests, None, consumed_all)
}

fn parse_whole(input: &[u8]) -> Requests {
    parse_in_pieces(Limits::default(), &[input])
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

#[test]
fn requests_that_redis_accepts() {
    for (input, requests) in [
        (&b"*1\r\n$4\r\nPING\r\n"[..], vec![words(&[b"PING"])]),
        (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", vec![words(&[b"ECHO", b""])]),
        (b"*-5\r\n*0\r\nPING\r\n", vec![vec![], vec![], words(&[b"PING"])]),
        (b"\r\n  \nPING a\n", vec![vec![], vec![], words(&[b"PING", b"a"])]),
        (b"+4\r\n", vec![words(&[b"+4"])]),
        // Redis ignores the bytes in place of a line end.
        (b"*1\rX$4\rYPINGab", vec![words(&[b"PING"])]),
        (b"PING \r\r\n", vec![words(&[b"PING"])]),
        (b"SET \"a b\" 'c'\r\nGET x\r\n", vec![words(&[b"SET", b"a b", b"c"]), words(&[b"GET", b"x"])]),
    ] {
        assert_eq!(parse_whole(input), (requests, None, input.len()), "{}", input.escape_ascii());
    }
}

/// Every text was taken from redis-server 7.0.15.
#[test]
fn protocol_errors_have_redis_texts() {
    let long = |start: &str| [start.as_bytes(), &[b'1'; 70_000]].concat();
    for (input, text) in [
        (b"*1\r\nx4\r\n".to_vec(), "Protocol error: expected '$', got 'x'"),
        (b"*a\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*-0\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*01\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*2147483648\r\n".to_vec(), "Protocol error: invalid multibulk length"),
        (b"*1\r\n$-1\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"*1\r\n$04\r\nPING\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"*1\r\n$\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"SET a \"x\r\n".to_vec(), "Protocol error: unbalanced quotes in request"),
        (b"ECHO \"a\"b\r\n".to_vec(), "Protocol error: unbalanced quotes in request"),
        (long("*"), "Protocol error: too big mbulk count string"),
        (long("*1\r\n$"), "Protocol error: too big bulk count string"),
        (long(""), "Protocol error: too big inline request"),
    ] {
        let (requests, error, _) = parse_whole(&input);
        assert!(requests.is_empty());
        assert_eq!(error.expect("refused").to_string(), text);
    }
}

#[test]
fn unauthenticated_limits_are_redis_s() {
    let check = |input: &[u8]| {
        let mut parser = RequestParser::new(Limits::default());
        parser.set_authenticated(false);
        parser.parse(input, &mut Args::new()).map_err(|error| error.to_string())
    };
    assert_eq!(check(b"*11\r\n"), Err("Protocol error: unauthenticated multibulk length".to_owned()));
    assert_eq!(check(b"*1\r\n$16385\r\n"), Err("Protocol error: unauthenticated bulk length".to_owned()));
    assert_eq!(check(b"*10\r\n$16384\r\n"), Ok(Parsed::Incomplete { need: 16386 }));
}

#[test]
fn argument_beyond_the_memory_is_refused_when_it_is_announced() {
    let limits = Limits { held_bytes: 1 << 20, ..Limits::default() };
    let (_, error, _) = parse_in_pieces(limits, &[b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$500000000\r\n"]);
    assert_eq!(error, Some(ProtocolError::ExceedsMemory { length: 500_000_000, most: 1 << 20 }));
    // An argument above the protocol's limit gets that error, whatever fits the memory.
    let (_, error, _) = parse_in_pieces(limits, &[b"*1\r\n$600000000\r\n"]);
    assert_eq!(error, Some(ProtocolError::InvalidBulkLength));
}

#[test]
fn invalid_request_is_refused_at_its_first_byte() {
    for (input, text) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01"[..], "Protocol error: this port does not speak TLS"),
        (b"\x16", "Protocol error: this port does not speak TLS"),
        (b"\x00\x01\x02\x03", "Protocol error: expected '*' or a command, got byte 0x00"),
        (b"\xff\xfe", "Protocol error: expected '*' or a command, got byte 0xff"),
    ] {
        let (requests, error, _) = parse_whole(input);
        assert!(requests.is_empty());
        assert_eq!(error.expect("refused").to_string(), text);
    }
    let (requests, error, _) = parse_whole(b"\tPING \xff\n");
    assert_eq!((requests.len(), error), (1, None), "only the first byte counts");
}

#[test]
fn query_buffer_limit_applies_before_the_bytes_arrive() {
    let limits = Limits { query_buffer_bytes: 100, ..Limits::default() };
    let (_, error, _) = parse_in_pieces(limits, &[b"*2\r\n$40\r\n", &[b'x'; 40], b"\r\n$60\r\n"]);
    assert_eq!(error, Some(ProtocolError::QueryBufferLimit));
}

#[test]
fn incomplete_returns_how_much_a_large_argument_needs() {
    let mut parser = RequestParser::new(Limits::default());
    let mut args = Args::new();
    let mut input = b"*2\r\n$3\r\nGET\r\n$1000000\r\nabc".to_vec();
    let need = 1_000_000 - 3 + 2;
    assert_eq!(parser.parse(&input, &mut args), Ok(Parsed::Incomplete { need }));
    assert!(args.is_empty());
    input.resize(input.len() + need, b'\r');
    assert_eq!(parser.parse(&input, &mut args), Ok(Parsed::Complete { consumed: input.len() }));
    assert_eq!(args.arg(&input, 0), b"GET");
    assert_eq!(args.arg(&input, 1).len(), 1_000_000);
}

fn some_requests() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let arg = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::collection::vec(any::<u8>(), 90..130),
    ];
    prop::collection::vec(prop::collection::vec(arg, 1..6), 1..5)
}

/// Bytes that resemble requests more often than noise does.
fn some_input() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"*1\r\n".to_vec()),
        Just(b"*2\r\n$3\r\nGET\r\n".to_vec()),
        Just(b"$3\r\nabc\r\n".to_vec()),
        Just(b"$".to_vec()),
        Just(b"*".to_vec()),
        Just(b"\"a \\x41\" ".to_vec()),
        Just(b"'".to_vec()),
        Just(b"PING ".to_vec()),
        (-2i64..120).prop_map(|n| n.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(token, 0..16).prop_map(|tokens| tokens.concat())
}

fn cut<'i>(input: &'i [u8], cuts: &[usize]) -> Vec<&'i [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    places.sort_unstable();
    let (mut pieces, mut from) = (Vec::new(), 0);
    for place in places {
        pieces.push(&input[from..place]);
        from = place;
    }
    pieces.push(&input[from..]);
    pieces
}

proptest! {
    #[test]
    fn written_requests_parse_back_however_they_are_cut(
        requests in some_requests(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut input = Vec::new();
        for request in &requests {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            RequestWriter::new(&mut input).request(&args);
        }
        let parsed = parse_in_pieces(Limits::default(), &cut(&input, &cuts));
        prop_assert_eq!(parsed, (requests.clone(), None, input.len()));
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(parse_in_pieces(Limits::default(), &bytes), (requests, None, input.len()));
    }

    #[test]
    fn any_input_means_the_same_however_it_is_cut(
        input in some_input(),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let limits = Limits {
            inline_bytes: 24,
            bulk_bytes: 100,
            arguments: 9,
            query_buffer_bytes: 150,
            ..Limits::default()
        };
        let whole = parse_in_pieces(limits, &[&input]);
        prop_assert_eq!(&parse_in_pieces(limits, &cut(&input, &cuts)), &whole);
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(&parse_in_pieces(limits, &bytes), &whole);
    }
}
