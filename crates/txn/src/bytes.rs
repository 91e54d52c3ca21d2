//! Bytes behind their length.

/// Appends bytes behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a record is shorter");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Takes bytes behind their length; nothing if they are not all there.
pub(crate) fn take_bytes<'v>(rest: &mut &'v [u8]) -> Option<&'v [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (bytes, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some(bytes)
}

/// Takes so many bytes; nothing if they are not all there.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*bytes)
}
