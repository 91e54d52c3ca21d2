//! A prefetch hint: the key of a request that is not parsed yet.

use crate::decimal::quick_length;

/// The second word of the first request in the buffer, as a rule its key, if the request has the usual form
/// and the word is complete. Only a hint for prefetching: nothing else may depend on it.
#[inline]
pub fn likely_key(buffer: &[u8]) -> Option<&[u8]> {
    let header = buffer.strip_prefix(b"*")?;
    let (_, name_at) = quick_length(header)?;
    let (_, rest) = bulk(&header[name_at..])?;
    Some(bulk(rest)?.0)
}

/// A complete bulk string, and the bytes after it.
#[inline]
fn bulk(buffer: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = buffer.strip_prefix(b"$")?;
    let (length, at) = quick_length(header)?;
    let (bytes, end) = header[at..].split_at_checked(length)?;
    Some((bytes, end.get(2..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestWriter;

    #[test]
    fn likely_key_is_the_second_word_of_the_first_request() {
        let mut buffer = Vec::new();
        RequestWriter::new(&mut buffer).request(&[b"SET", b"a key", b"a value"]);
        RequestWriter::new(&mut buffer).request(&[b"GET", b"another"]);
        assert_eq!(likely_key(&buffer), Some(b"a key".as_slice()));
        let long = [b'k'; 1000];
        buffer.clear();
        RequestWriter::new(&mut buffer).request(&[b"GET", &long]);
        assert_eq!(likely_key(&buffer), Some(long.as_slice()));
    }

    #[test]
    fn likely_key_is_none_for_cut_off_broken_or_inline_requests() {
        let whole = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
        let key_end = whole.len() - 2;
        for cut in 0..whole.len() {
            let expected = (cut >= key_end).then_some(b"key".as_slice());
            assert_eq!(likely_key(&whole[..cut]), expected, "cut at {cut}");
        }
        let others: [&[u8]; 6] = [
            b"*1\r\n$4\r\nPING\r\n",
            b"GET key\r\n",
            b"*2\r\n:1\r\n",
            b"*-1\r\n",
            b"*2\r\n$-1\r\n",
            b"*2\r\n$9999999999\r\n",
        ];
        for other in others {
            assert_eq!(likely_key(other), None, "{}", other.escape_ascii());
        }
    }
}
