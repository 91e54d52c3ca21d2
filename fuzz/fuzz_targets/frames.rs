//! Any bytes, as a stream of frames and as the bodies of right frames: nothing panics, how a stream is cut up
//! changes nothing, and a frame that was written is read as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sidle_types::Speaks;
use sidle_wire::{Frame, FrameReader, Kind, Message, begin_frame, end_frame, limits};

/// What a message says, in words; every list in it is walked.
fn words(message: &Message<'_>) -> String {
    match message {
        Message::SampPull(pull) => {
            assert!(pull.positions.iter().len() <= limits::SAMP_PULL_POSITIONS_MAX);
            format!("{:?} {} {:?}", pull.scope, pull.sequence, pull.positions.iter().collect::<Vec<_>>())
        }
        Message::PriorityPull(pull) => {
            let keys: Vec<&[u8]> = pull.keys.iter().collect();
            assert!(keys.len() == pull.keys.len() && keys.len() <= limits::PRIORITY_PULL_KEYS_MAX);
            format!("{:?} {} {keys:?}", pull.scope, pull.sequence)
        }
        Message::PriorityPullReply(reply) => {
            assert!(reply.answered <= limits::PRIORITY_PULL_KEYS_MAX);
            assert!((reply.answered..64).all(|index| !reply.absent.contains(index)));
            format!("{reply:?}")
        }
        Message::PullReply(reply) => {
            assert!(reply.next.is_none_or(|next| next > reply.from), "a cursor moves");
            format!("{reply:?}")
        }
        other => format!("{other:?}"),
    }
}

/// What the reader made of the pieces.
fn read(pieces: &[&[u8]]) -> Vec<String> {
    let mut reader = FrameReader::new();
    let mut found = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        if index % 2 == 0 {
            reader.push(piece);
        } else {
            reader.receive_buffer().extend_from_slice(piece);
        }
        loop {
            match reader.next_frame().and_then(|frame| frame.map(Frame::message).transpose()) {
                Ok(Some(message)) => found.push(words(&message)),
                Ok(None) => break,
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            }
        }
    }
    found
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (cut, kind, bytes) = input;
    let (front, back) = bytes.split_at(usize::from(cut).min(bytes.len()));
    assert_eq!(read(&[bytes]), read(&[front, back]), "as a stream");

    let Speaks { lowest, highest } = Speaks::THIS_BUILD;
    let spoken = if kind < 128 { lowest } else { highest };
    let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
    let version = kind.version(spoken);
    let mut stream = Vec::new();
    for body in [front, back] {
        let start = begin_frame(&mut stream, version, kind);
        stream.extend_from_slice(body);
        end_frame(&mut stream, start).expect("fuzz inputs are small");
    }
    let whole = read(&[&stream]);
    let frame = Frame { version, kind, body: front };
    let expected = frame.message().map_or_else(|error| error.to_string(), |message| words(&message));
    assert_eq!(whole[0], expected, "behind a right header");
    let (front, back) = stream.split_at(usize::from(cut).min(stream.len()));
    assert_eq!(whole, read(&[front, back]), "in pieces");
});
