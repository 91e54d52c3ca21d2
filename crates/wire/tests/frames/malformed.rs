//! What is damaged, or makes no sense, is refused with the reason.

use crate::owned::{Owned, ROUND, SCOPE, VERSION, read_in_pieces, written};
use sidle_types::{Position, PositionRange, ProtocolVersion, Speaks, Version};
use sidle_wire::{
    ChangedPull, Frame, FrameFilter, FrameReader, HEADER_BYTES, Kind, Lane, Message, PatchPiece, Piece, Pull,
    PullReplyStart, Refusal, RefusalCode, WireError, limits,
};

#[test]
fn every_single_flipped_bit_is_noticed() {
    let samples = [
        Owned::Hello([9; 20], Lane::Priority),
        Owned::Pull { partition: 1, sequence: 2, range: PositionRange::ALL, max_bytes: 65536, piece: None },
        Owned::PullReply {
            partition: 1,
            sequence: 2,
            range: PositionRange::ALL,
            more: true,
            piece: None,
            batch: (0..100).collect(),
        },
        Owned::PriorityPull(3, vec![b"key".to_vec(), vec![], vec![0; 30]], None),
        Owned::Control(b"{}".to_vec()),
        Owned::HelloAck,
    ];
    for message in &samples {
        let mut stream = written(message);
        let frame_bytes = stream.len();
        // A flip in the length can make the reader wait for bytes that were never sent. More frames follow,
        // as on a real stream, until the frame is complete and its checksum fails.
        stream.resize(frame_bytes + limits::REQUEST_BODY_BYTES_MAX / 256, 0);
        for bit in 0..frame_bytes * 8 {
            stream[bit / 8] ^= 1 << (bit % 8);
            let (messages, error) = read_in_pieces(&stream, &[stream.len()]);
            assert_eq!(messages, [], "bit {bit} of {message:?}");
            let announced = u32::from_le_bytes(stream[..4].try_into().unwrap()) as usize;
            assert!(error.is_some() || announced + HEADER_BYTES > stream.len(), "bit {bit} of {message:?}");
            stream[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn next_frame_names_the_reason() {
    let good = written(&Owned::Ping(1));
    let damaged = |at: usize, value: u8| {
        let mut stream = good.clone();
        stream[at] = value;
        read_in_pieces(&stream, &[100]).1
    };
    assert_eq!(
        damaged(4, 9),
        Some(WireError::UnknownVersion { found: ProtocolVersion(9), known: Speaks::THIS_BUILD })
    );
    assert_eq!(damaged(5, 99), Some(WireError::UnknownKind(99)));
    assert!(matches!(damaged(3, 255), Some(WireError::Oversized { .. })));
    assert!(matches!(damaged(6, 1), Some(WireError::Malformed { .. })));
    assert!(matches!(damaged(HEADER_BYTES, 77), Some(WireError::BadChecksum { .. })));
}

#[test]
fn next_frame_repeats_its_error() {
    let mut reader = FrameReader::new();
    let mut damaged = written(&Owned::Ping(1));
    damaged[HEADER_BYTES] ^= 1;
    reader.push(&damaged);
    let error = reader.next_frame().unwrap_err();
    reader.push(&written(&Owned::Ping(2)));
    assert_eq!(reader.next_frame().unwrap_err(), error);
}

/// Ranges that a target would discard twice, or out of order, are no reply.
#[test]
fn changed_ranges_are_in_order_and_apart() {
    let range = |first, last| PositionRange::new(Position(first), Position(last)).unwrap();
    let parsed = |ranges: &[PositionRange]| {
        let mut out = Vec::new();
        let pull = ChangedPull { scope: SCOPE, sequence: 1, max_bytes: 1, piece: None };
        pull.write_reply(ROUND, ranges, None, &[], &mut out).unwrap();
        Frame { version: VERSION, kind: Kind::ChangedPullReply, body: &out[HEADER_BYTES..] }.message().is_ok()
    };
    assert!(parsed(&[]) && parsed(&[range(1, 1), range(2, 9), range(11, u64::MAX)]));
    assert!(!parsed(&[range(2, 9), range(9, 10)]));
    assert!(!parsed(&[range(3, 3), range(3, 3)]));
    assert!(!parsed(&[range(5, 5), range(1, 1)]));
}

/// Hints are bounded, and only a source sends them.
#[test]
fn hints_have_a_limit_and_a_direction() {
    let parsed = |hot: usize, large: usize, more: usize| {
        let mut body = written(&Owned::HotHints(vec![], vec![])).split_off(HEADER_BYTES);
        body[16..20].copy_from_slice(&(hot as u32).to_le_bytes());
        body.resize(24 + 8 * (hot + large) + more, 0);
        Frame { version: VERSION, kind: Kind::HotHints, body: &body }.message().map(|_| ())
    };
    let (most, most_large) = (limits::HOT_HINTS_MAX, limits::LARGE_HINTS_MAX);
    assert_eq!((parsed(0, 0, 0), parsed(most, most_large, 0)), (Ok(()), Ok(())));
    for (hot, large, more) in [(most + 1, 0, 0), (0, most_large + 1, 0), (3, 0, 7)] {
        let refused = parsed(hot, large, more);
        assert!(matches!(refused, Err(WireError::Malformed { kind: "HotHints", .. })), "{refused:?}");
    }
    let mut cut_short = written(&Owned::HotHints(vec![7; 3], vec![])).split_off(HEADER_BYTES);
    cut_short[16] = 4;
    assert!(Frame { version: VERSION, kind: Kind::HotHints, body: &cut_short }.message().is_err());
    let read = |filter| {
        let mut reader = FrameReader::filtered(filter);
        reader.push(&written(&Owned::HotHints(vec![7], vec![8])));
        reader.next_frame().map(|frame| frame.is_some())
    };
    assert_eq!(read(FrameFilter::FROM_SOURCE), Ok(true));
    assert_eq!(read(FrameFilter::FROM_TARGET), Err(WireError::Unexpected("HotHints")));
}

/// Pieces that do not fit together are refused before they are joined.
#[test]
fn pieces_that_do_not_fit_are_malformed() {
    let position = Position(5);
    let good = Piece { position, version: Version(3), total: 100, offset: 40, patch: None };
    let range = |first| PositionRange::new(first, Position::LAST).unwrap();
    let parsed = |piece: Piece, next: Option<Position>, bytes: usize| {
        let mut out = Vec::new();
        let range = range(position);
        let pull = Pull { scope: SCOPE, partition: 0, sequence: 1, range, max_bytes: 1, piece: None };
        let start = PullReplyStart::begin(&pull, &mut out);
        out.resize(out.len() + bytes, 7);
        start.finish(next, Some(piece), &mut out).unwrap();
        Frame { version: VERSION, kind: Kind::PullReply, body: &out[HEADER_BYTES..] }.message().is_ok()
    };
    let next = position.next();
    assert!(parsed(good, next, 60) && parsed(good, None, 1));
    assert!(!parsed(good, next, 61), "beyond its end");
    assert!(!parsed(good, next, 0), "empty");
    assert!(!parsed(good, Some(Position(9)), 60), "and other positions");
    assert!(!parsed(Piece { offset: 100, ..good }, next, 1));
    assert!(!parsed(Piece { offset: u64::MAX, ..good }, next, 1));
    assert!(!parsed(Piece { total: 0, ..good }, next, 1));
    assert!(!parsed(Piece { position: Position(6), ..good }, next, 1));
    assert!(!parsed(Piece { version: Version(u64::MAX), ..good }, next, 1));
    let asked = |piece: Piece| {
        let mut out = Vec::new();
        let (range, piece) = (range(position), Some(piece));
        Pull { scope: SCOPE, partition: 0, sequence: 1, range, max_bytes: 1, piece }.write(&mut out);
        Frame { version: VERSION, kind: Kind::Pull, body: &out[HEADER_BYTES..] }.message().is_ok()
    };
    assert!(asked(good) && !asked(Piece { offset: 0, ..good }));
    assert!(!asked(Piece { position: Position(6), ..good }));
    let patch = PatchPiece { collection: 7, since: Version(2), order: 1, label: 9 };
    let of_patch = |patch| Piece { patch: Some(patch), ..good };
    assert!(parsed(of_patch(patch), next, 60) && asked(of_patch(patch)));
    assert!(!parsed(of_patch(PatchPiece { order: 2, ..patch }), next, 60));
    assert!(!parsed(of_patch(PatchPiece { since: Version(4), ..patch }), next, 60), "to an earlier version");
    let whole = Piece { offset: 100, ..of_patch(patch) };
    assert!(asked(whole) && !asked(Piece { patch: None, ..whole }) && !parsed(whole, next, 1));
    assert!(asked(Piece::nothing(position)) && asked(Piece::whole(position, 7, Version(3))));
    let absurd = Piece { total: limits::IMAGE_BYTES_MAX as u64 + 1, ..good };
    assert!(!asked(absurd));
    let pull = ChangedPull { scope: SCOPE, sequence: 1, max_bytes: 1, piece: None };
    let mut out = Vec::new();
    let ranges = [PositionRange::only(position)];
    let written = pull.write_reply(ROUND, &ranges, Some(absurd), &[7; 9], &mut out);
    assert!(matches!(written, Err(WireError::Oversized { .. })));
}

#[test]
fn refusal_text_is_cut_at_a_character() {
    let mut out = Vec::new();
    Refusal::write(SCOPE, RefusalCode::Done, &"\u{e9}".repeat(limits::REFUSAL_TEXT_BYTES_MAX), &mut out);
    let mut reader = FrameReader::new();
    reader.push(&out);
    let frame = reader.next_frame().unwrap().unwrap();
    let Message::Refuse(refusal) = frame.message().unwrap() else { panic!("not a refusal") };
    assert_eq!(refusal.text.len(), limits::REFUSAL_TEXT_BYTES_MAX);
    assert_eq!(frame.message().unwrap().scope(), Some(SCOPE));
}
