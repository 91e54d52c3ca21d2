//! What is written is read, in every version and in any pieces; what is cut off never passes for the whole.

use crate::owned::{Owned, SCOPE, VERSION, bytes, message, read_in_pieces, written};
use proptest::prelude::*;
use sidle_types::{ProtocolVersion, Speaks};
use sidle_wire::{CONTROL_VERSION, Frame, FrameReader, HEADER_BYTES, Kind, Scope, begin_frame, end_frame};

/// A version that this program speaks.
fn version() -> impl Strategy<Value = ProtocolVersion> {
    let Speaks { lowest, highest } = Speaks::THIS_BUILD;
    (lowest.0..=highest.0).prop_map(ProtocolVersion)
}

proptest! {
    #[test]
    fn messages_round_trip_in_every_version_that_is_spoken(message in message(), version in version()) {
        let scope = Scope { version, ..SCOPE };
        let message = if version.has_pieces() { message } else { message.of_version_3() };
        let mut stream = Vec::new();
        message.write(scope, &mut stream);
        let mut reader = FrameReader::new();
        reader.push(&stream);
        let frame = reader.next_frame().unwrap().expect("it is whole");
        let is_control = matches!(message, Owned::Control(_));
        prop_assert_eq!(frame.version, if is_control { CONTROL_VERSION } else { version });
        let parsed = frame.message().unwrap();
        prop_assert!(parsed.scope().is_none_or(|read| read == scope), "the scope says the version");
        prop_assert_eq!(Owned::of(&parsed), message);
    }

    #[test]
    fn messages_round_trip_in_any_pieces(
        messages in prop::collection::vec(message(), 0..8),
        sizes in prop::collection::vec(1usize..200, 1..8),
    ) {
        let mut stream = Vec::new();
        messages.iter().for_each(|message| message.write(SCOPE, &mut stream));
        prop_assert_eq!(read_in_pieces(&stream, &sizes), (messages, None));
    }

    #[test]
    fn a_truncated_frame_is_never_a_message(message in message(), cut in any::<prop::sample::Index>()) {
        let stream = written(&message);
        let kept = &stream[..cut.index(stream.len())];
        prop_assert_eq!(read_in_pieces(kept, &[64]), (vec![], None));
    }

    #[test]
    fn a_truncated_body_in_a_right_frame_never_passes_for_the_whole(
        message in message(), cut in any::<prop::sample::Index>(),
    ) {
        let body = &written(&message)[HEADER_BYTES..];
        prop_assume!(!body.is_empty());
        let kind = Kind::ALL.into_iter().find(|&kind| kind as u8 == written(&message)[5]).unwrap();
        let kept = Frame { version: kind.version(VERSION), kind, body: &body[..cut.index(body.len())] };
        if let Ok(parsed) = kept.message() {
            prop_assert_ne!(Owned::of(&parsed), message);
        }
    }

    #[test]
    fn garbage_never_panics(garbage in bytes(400), kind in prop::sample::select(Kind::ALL.to_vec())) {
        read_in_pieces(&garbage, &[7, 64]);
        if let Ok(message) = (Frame { version: kind.version(VERSION), kind, body: &garbage }).message() {
            Owned::of(&message);
            message.scope();
        }
    }

    #[test]
    fn garbage_behind_a_right_header_never_panics(
        garbage in bytes(200), kind in prop::sample::select(Kind::ALL.to_vec()),
    ) {
        let mut stream = Vec::new();
        let start = begin_frame(&mut stream, kind.version(VERSION), kind);
        stream.extend_from_slice(&garbage);
        end_frame(&mut stream, start).unwrap();
        read_in_pieces(&stream, &[64]);
    }
}
