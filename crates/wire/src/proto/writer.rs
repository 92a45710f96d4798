//! Writes fields of protobuf.

/// Appends a number in protobuf's variable length.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends a numeric field.
pub fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

/// Appends a field with a sign; negative ones take ten bytes.
pub fn signed(out: &mut Vec<u8>, field: u32, value: i64) {
    number(out, field, value.cast_unsigned());
}

/// Appends a field of text, bytes or an encoded message.
pub fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, u64::try_from(value.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(value);
}

/// Appends a nested message that `write` writes.
///
/// # Errors
/// Those of `write`.
pub fn nested<E>(
    out: &mut Vec<u8>,
    field: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    varint(out, u64::from(field) << 3 | 2);
    let start = out.len();
    write(out)?;
    let length = out.len() - start;
    let mut prefix = Vec::with_capacity(5);
    varint(&mut prefix, u64::try_from(length).unwrap_or(u64::MAX));
    // Messages nest a few levels deep, so that what is moved here is moved a few times.
    out.splice(start..start, prefix);
    Ok(())
}
