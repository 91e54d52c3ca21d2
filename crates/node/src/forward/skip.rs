//! Skips a request that is too long for this node: its connection carries other clients' requests too, and
//! continues behind it.

/// The rest of the request.
#[derive(Debug, Default)]
pub(crate) struct Skip {
    /// How many arguments; `None` before the first line.
    arguments: Option<u64>,
    /// How many bytes of the present one.
    bytes: u64,
}

/// The result for the input.
pub(crate) enum Skipped {
    /// So many bytes are skipped, and the request has more.
    More(usize),
    /// The request ended after so many bytes.
    All(usize),
    /// A line starts neither an array nor an argument.
    Nonsense,
}

impl Skip {
    pub(crate) fn take(&mut self, input: &[u8]) -> Skipped {
        let mut at = 0;
        loop {
            let here = self.bytes.min((input.len() - at) as u64);
            at += here as usize;
            self.bytes -= here;
            if self.bytes > 0 {
                return Skipped::More(at);
            }
            if self.arguments == Some(0) {
                return Skipped::All(at);
            }
            let Some(end) = input[at..].iter().position(|&byte| byte == b'\n') else {
                return Skipped::More(at);
            };
            let line = input[at..at + end].strip_suffix(b"\r").unwrap_or(&input[at..at + end]);
            let number =
                line.get(1..).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
            match (number, self.arguments, line.first()) {
                (Some(arguments), None, Some(b'*')) => self.arguments = Some(arguments),
                (Some(bytes), Some(arguments), Some(b'$')) if bytes < u64::from(u32::MAX) => {
                    self.arguments = Some(arguments - 1);
                    // The line end follows.
                    self.bytes = bytes + 2;
                }
                _ => return Skipped::Nonsense,
            }
            at += end + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_skipped_whole_however_it_is_cut_up() {
        let request = b"*3\r\n$3\r\nSET\r\n$5\r\nk\r\n*1\r\n$0\r\n\r\n";
        for piece in 1..request.len() {
            let (mut skip, mut input, mut read) = (Skip::default(), Vec::new(), 0);
            let mut behind = [&request[..], b"*1\r\n"].concat();
            let is_over = loop {
                let next = behind.split_off(piece.min(behind.len()));
                input.extend(std::mem::replace(&mut behind, next));
                match skip.take(&input) {
                    Skipped::More(bytes) => {
                        input.drain(..bytes);
                        read += bytes;
                    }
                    Skipped::All(bytes) => break read + bytes == request.len(),
                    Skipped::Nonsense => break false,
                }
            };
            assert!(is_over, "in pieces of {piece}");
        }
        for nonsense in [&b"PING\r\n"[..], b"*1\r\n:1\r\n", b"*x\r\n", b"*1\r\n$9999999999\r\n"] {
            assert!(matches!(Skip::default().take(nonsense), Skipped::Nonsense));
        }
    }
}
