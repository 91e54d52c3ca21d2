//! The LZF compression, which Redis uses for strings: reading only.
//!
//! Compressed bytes are runs. A first byte below 32 stands before so many bytes and one, as they are. Any
//! other one repeats what was written: its upper three bits are the length less two (7: plus the next byte),
//! the lower five and the next byte the distance less one.

/// The first byte of a run of bytes as they are is below.
const REPEATS_FROM: u8 = 32;
/// Three bytes repeat so many at most: nothing grows more.
const MOST_PER_REPEAT: usize = 7 + 255 + 2;

/// The bytes that were compressed, if there are exactly `bytes`. Memory is taken only if so many can come of
/// this input.
pub(crate) fn decompressed(input: &[u8], bytes: usize) -> Option<Vec<u8>> {
    if bytes > input.len().saturating_mul(MOST_PER_REPEAT.div_ceil(3)) {
        return None;
    }
    let mut out = Vec::with_capacity(bytes);
    let mut rest = input.iter().as_slice();
    while let [control, after @ ..] = rest {
        if *control < REPEATS_FROM {
            let (run, after) = after.split_at_checked(usize::from(*control) + 1)?;
            out.extend_from_slice(run);
            rest = after;
        } else {
            let (length, after) = match (control >> 5, after) {
                (7, [more, after @ ..]) => (7 + usize::from(*more), after),
                (7, []) => return None,
                (short, after) => (usize::from(short), after),
            };
            let (low, after) = after.split_first()?;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(*low)) + 1;
            repeat(&mut out, distance, length + 2)?;
            rest = after;
        }
        if out.len() > bytes {
            return None;
        }
    }
    (out.len() == bytes).then_some(out)
}

/// Adds what stands `distance` bytes before the end, again if it is shorter than `length`.
fn repeat(out: &mut Vec<u8>, distance: usize, length: usize) -> Option<()> {
    let from = out.len().checked_sub(distance)?;
    let mut left = length;
    while left > 0 {
        // What was added before is repeated too, so each step may be twice as long.
        let step = left.min(out.len() - from);
        out.extend_from_within(from..from + step);
        left -= step;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decompressed_repeats_and_overlaps() {
        // As Redis 7.0.15 compresses 'a' 30 times, "abcabc..." 30 times, and 300 bytes of 'x'.
        assert_eq!(decompressed(b"\x01aa\xe0\x11\x00\x01aa", 30), Some(b"a".repeat(30)));
        assert_eq!(decompressed(b"\x03abca\xe0K\x02\x01bc", 90), Some(b"abc".repeat(30)));
        assert_eq!(decompressed(b"\x01xx\xe0\xff\x00\xe0\x17\x00\x01xx", 300), Some(b"x".repeat(300)));
        assert_eq!(decompressed(b"\x00x\x20\x00", 4), Some(b"xxxx".to_vec()));
        assert_eq!(decompressed(b"\x02abc\x00d", 4), Some(b"abcd".to_vec()));
        assert_eq!(decompressed(b"", 0), Some(Vec::new()));
    }

    #[test]
    fn decompressed_refuses_what_does_not_fit() {
        for (input, bytes) in [
            // Too few, too many.
            (&b"\x02abc"[..], 2),
            (b"\x02abc", 4),
            // Cut off: in a run, before a distance, before a length.
            (b"\x03abc", 4),
            (b"\x00x\x20", 4),
            (b"\x00x\xe0", 12),
            (b"\x00x\xe0\x01", 11),
            // Before the start.
            (b"\x20\x00", 3),
            (b"\x00x\x20\x01", 4),
            // More than it can be, without the memory for it.
            (b"\x00x\x20\x00", usize::MAX),
            (b"", 1),
        ] {
            assert_eq!(decompressed(input, bytes), None, "{}", input.escape_ascii());
        }
    }
}
