//! A connection's bytes: what is buffered, refused by its header, or left over.

use crate::owned::{Owned, VERSION, written};
use sidle_wire::{
    FrameFilter, FrameReader, HEADER_BYTES, Kind, Lane, Place, ToWriter, WireError, begin_frame, end_frame,
    limits,
};

/// Bytes that follow a frame of another protocol are returned unchanged.
#[test]
fn the_rest_is_what_follows_the_last_frame() {
    let forward = Owned::Forward([3; 20], true);
    let mut reader = FrameReader::new();
    reader.push(&written(&forward));
    reader.push(b"PING\r\n");
    assert_eq!(Owned::of(&reader.next_frame().unwrap().unwrap().message().unwrap()), forward);
    assert_eq!(reader.into_rest(), b"PING\r\n");
}

#[test]
fn receive_buffer_does_not_trust_a_forged_length() {
    let mut reader = FrameReader::new();
    let mut out = Vec::new();
    let start = begin_frame(&mut out, VERSION, Kind::PullReply);
    end_frame(&mut out, start).unwrap();
    out[..4].copy_from_slice(&(limits::BODY_BYTES_MAX as u32).to_le_bytes());
    reader.push(&out);
    assert!(reader.receive_buffer().capacity() <= 2 * limits::RECEIVE_AHEAD_BYTES);
}

#[test]
fn receive_buffer_holds_what_arrived_and_a_quarter_more() {
    let mut frame = written(&Owned::SampPullReply(1, vec![1; 24 << 20]));
    frame.extend(written(&Owned::Ping(1)));
    let mut reader = FrameReader::new();
    let mut arrived = 0;
    while arrived < frame.len() {
        let buffer = reader.receive_buffer();
        let spare = (buffer.capacity() - buffer.len()).min(frame.len() - arrived);
        assert!(spare > 0);
        buffer.extend_from_slice(&frame[arrived..arrived + spare]);
        arrived += spare;
        let most = arrived + (arrived / 4).max(limits::RECEIVE_AHEAD_BYTES);
        assert!(reader.held_bytes() <= most, "{} for {arrived}", reader.held_bytes());
    }
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::SampPullReply);
    let held = reader.receive_buffer().capacity();
    assert!(held <= limits::RECEIVE_KEEP_BYTES, "{held}, though little is left behind the large frame");
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::Ping);
}

#[test]
fn a_filter_refuses_by_the_header_what_does_not_belong_on_a_connection() {
    let header_of = |frame: &[u8]| frame[..HEADER_BYTES].to_vec();
    let first = |filter: FrameFilter, bytes: &[u8]| {
        let mut reader = FrameReader::filtered(filter);
        reader.push(bytes);
        reader.next_frame().map(|frame| frame.map(|frame| frame.kind))
    };
    let records = written(&Owned::SampPullReply(1, vec![1; 1 << 20]));
    let control = written(&Owned::Control(vec![b' '; limits::FROM_NODE_BODY_BYTES_MAX + 1]));
    let ping = written(&Owned::Ping(1));
    let hello = written(&Owned::Hello([1; 20], Lane::Bulk));
    use FrameFilter as Filter;
    for filter in [Filter::OPENING, Filter::FROM_NODE, Filter::FROM_COORDINATOR, Filter::FROM_TARGET] {
        assert_eq!(first(filter, &header_of(&records)), Err(WireError::Unexpected("SampPullReply")));
    }
    assert_eq!(first(Filter::FROM_SOURCE, &records), Ok(Some(Kind::SampPullReply)));
    assert_eq!(first(Filter::FROM_SOURCE, &control), Err(WireError::Unexpected("Control")));
    for filter in [Filter::OPENING, Filter::FROM_NODE] {
        assert!(matches!(first(filter, &header_of(&control)), Err(WireError::Oversized { .. })));
        assert_eq!(first(filter, &ping), Err(WireError::Unexpected("Ping")));
    }
    assert_eq!(first(Filter::FROM_COORDINATOR, &control), Ok(Some(Kind::Control)));
    assert_eq!(first(Filter::OPENING, &hello), Ok(Some(Kind::Hello)));
    assert_eq!(first(Filter::FROM_NODE, &hello), Err(WireError::Unexpected("Hello")));
    let forward = written(&Owned::Forward([1; 20], true));
    assert_eq!(first(Filter::OPENING, &forward), Ok(Some(Kind::Forward)));
    for filter in [Filter::NONE, Filter::FROM_NODE, Filter::FROM_TARGET, Filter::FROM_SOURCE] {
        assert_eq!(first(filter, &header_of(&forward)), Err(WireError::Unexpected("Forward")));
    }
    let place = Place { file: 1, at: 64 };
    let append = written(&Owned::Append(place, vec![7; 9]));
    let held = written(&Owned::Answer(ToWriter::Holds { written: place, synced: place }));
    assert_eq!(first(Filter::FROM_WRITER, &append), Ok(Some(Kind::CopyTask)));
    assert_eq!(first(Filter::FROM_BACKUP, &held), Ok(Some(Kind::CopyAnswer)));
    assert_eq!(first(Filter::FROM_BACKUP, &header_of(&append)), Err(WireError::Unexpected("CopyTask")));
    assert_eq!(first(Filter::FROM_WRITER, &header_of(&held)), Err(WireError::Unexpected("CopyAnswer")));
    let mut reader = FrameReader::filtered(Filter::OPENING);
    reader.push(&[hello, ping].concat());
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::Hello);
    reader.set_filter(Filter::FROM_TARGET);
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::Ping);
}

#[test]
fn receive_buffer_is_given_back_after_a_large_frame() {
    let mut reader = FrameReader::new();
    let batch = vec![1; 2 * limits::RECEIVE_KEEP_BYTES];
    reader.push(&written(&Owned::SampPullReply(1, batch)));
    assert!(reader.next_frame().unwrap().is_some());
    assert!(reader.receive_buffer().capacity() <= limits::RECEIVE_KEEP_BYTES);
}
