//! What depends on the version of a frame.

use crate::owned::{Owned, SCOPE, VERSION, read_in_pieces, written};
use sidle_types::{Position, PositionRange, ProtocolVersion, Speaks, Version};
use sidle_wire::{Frame, FrameReader, HEADER_BYTES, Kind, Piece, Scope, WireError};

/// A message of each kind that may have a piece, without one.
fn without_pieces() -> [(Owned, usize); 6] {
    let range = PositionRange::new(Position(5), Position(6)).unwrap();
    let (piece, batch) = (None, vec![7; 100]);
    [
        (Owned::Pull { partition: 1, sequence: 2, range, max_bytes: 3, piece }, 48),
        (Owned::PullReply { partition: 1, sequence: 2, range, more: true, piece, batch: batch.clone() }, 148),
        (Owned::PriorityPull(1, vec![b"key".to_vec()], piece), 32 + 7),
        (
            Owned::PriorityPullReply {
                sequence: 1,
                answered: 1,
                absent: vec![],
                piece,
                batch: batch.clone(),
            },
            132,
        ),
        (Owned::ChangedPull { sequence: 1, max_bytes: 2, piece }, 32),
        (
            Owned::ChangedPullReply {
                round: 1,
                remaining: 2,
                is_frozen: true,
                ranges: vec![range],
                piece,
                batch,
            },
            48 + 16 + 100,
        ),
    ]
}

/// As a program without pieces reads and writes them.
#[test]
fn messages_of_version_3_have_no_place_for_a_piece() {
    let body = |version, message: &Owned| {
        let mut out = Vec::new();
        message.write(Scope { version: ProtocolVersion(version), ..SCOPE }, &mut out);
        out.split_off(HEADER_BYTES)
    };
    for (message, bytes) in without_pieces() {
        assert_eq!(body(3, &message).len(), bytes, "{message:?}");
        assert_eq!(body(4, &message).len(), bytes + 64, "{message:?}");
    }
}

#[test]
fn a_pull_of_version_3_with_a_piece_is_malformed() {
    let piece =
        Some(Piece { position: Position(5), version: Version(3), total: 100, offset: 40, patch: None });
    let range = PositionRange::new(Position(5), Position(6)).unwrap();
    for (kind, pull) in [
        (Kind::Pull, Owned::Pull { partition: 1, sequence: 2, range, max_bytes: 3, piece }),
        (Kind::PriorityPull, Owned::PriorityPull(1, vec![b"key".to_vec()], piece)),
        (Kind::ChangedPull, Owned::ChangedPull { sequence: 1, max_bytes: 2, piece }),
    ] {
        for message in [pull.clone(), pull.of_version_3()] {
            let written = written(&message);
            let body = &written[HEADER_BYTES..];
            assert!(Frame { version: VERSION, kind, body }.message().is_ok());
            let read = Frame { version: ProtocolVersion(3), kind, body }.message();
            assert!(matches!(read, Err(WireError::Malformed { .. })), "{message:?}");
        }
    }
}

#[test]
fn an_activation_of_version_3_with_copies_that_hold_is_malformed() {
    for (unchanged, locks, is_read) in
        [(vec![], vec![], true), (vec![5], vec![], false), (vec![], vec![5], false)]
    {
        let body = written(&Owned::Activate(1, 2, unchanged, locks)).split_off(HEADER_BYTES);
        let read = |version| Frame { version, kind: Kind::Activate, body: &body }.message();
        assert!(read(VERSION).is_ok());
        assert_eq!(read(ProtocolVersion(3)).is_ok(), is_read);
    }
}

#[test]
fn a_frame_in_a_version_that_is_not_spoken_is_refused_by_its_header() {
    let read = |speaks, bytes: &[u8]| {
        let mut reader = FrameReader::new().speaking(speaks);
        reader.push(bytes);
        reader.next_frame().map(|frame| frame.is_some())
    };
    let (older, whole) = (Speaks::only(ProtocolVersion::PREVIOUS), written(&Owned::Ping(1)));
    let unknown = Err(WireError::UnknownVersion { found: VERSION, known: older });
    assert_eq!(read(older, &whole), unknown);
    assert_eq!(read(older, &whole[..HEADER_BYTES]), unknown, "its body is not waited for");
    assert_eq!(read(Speaks::THIS_BUILD, &whole), Ok(true));
}

/// Nodes report their versions in them.
#[test]
fn control_frames_are_read_by_every_program() {
    for version in [1, 3, 7] {
        let mut reader = FrameReader::new().speaking(Speaks::only(ProtocolVersion(version)));
        reader.push(&written(&Owned::Control(b"{}".to_vec())));
        assert!(matches!(reader.next_frame(), Ok(Some(Frame { kind: Kind::Control, .. }))));
    }
    let mut later = written(&Owned::Control(b"{}".to_vec()));
    later[4] = VERSION.0 as u8;
    let mut reader = FrameReader::new();
    reader.push(&later);
    assert!(matches!(reader.next_frame(), Err(WireError::UnknownVersion { .. })), "in one version only");
}

#[test]
fn a_version_that_leaves_no_room_for_others_is_refused() {
    let read = |version: u64| read_in_pieces(&written(&Owned::Activate(version, 1, vec![], vec![])), &[64]).1;
    assert_eq!(read(Version::FROM_PEER_MAX.0), None);
    for version in [Version::FROM_PEER_MAX.0 + 1, u64::MAX] {
        assert!(matches!(read(version), Some(WireError::Malformed { .. })));
    }
}
