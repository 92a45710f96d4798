//! Reads fields of protobuf. Total: whatever the bytes, it answers with fields or an error.

/// Groups within groups that are skipped; nothing in the API uses any.
const GROUPS_MAX: usize = 16;
/// The largest field number.
const NUMBER_MAX: u64 = (1 << 29) - 1;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end within a field.
    #[error("unexpected end of message")]
    End,
    /// A number has more than 64 bits.
    #[error("a number has more than 64 bits")]
    Overflow,
    /// A tag has no such field number, or no such type.
    #[error("illegal tag")]
    Tag,
    /// Groups are nested too deep, or end without a beginning.
    #[error("illegal group")]
    Group,
}

/// A value as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Something of a type that no field of the API has.
    Other,
}

/// The fields of a message, in the order in which they stand.
pub fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes }
}

/// Iterates over fields; ends after the first error.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = field(&mut self.rest);
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Raw<'a>), WireError> {
    let (number, wire_type) = tag(rest)?;
    let raw = match wire_type {
        3 => {
            skip_group(rest, number)?;
            Raw::Other
        }
        4 => return Err(WireError::Group),
        _ => value(rest, wire_type)?,
    };
    Ok((number, raw))
}

fn tag(rest: &mut &[u8]) -> Result<(u32, u8), WireError> {
    let tag = varint(rest)?;
    let number = tag >> 3;
    if number == 0 || number > NUMBER_MAX {
        return Err(WireError::Tag);
    }
    let wire_type = u8::try_from(tag & 7).map_err(|_large| WireError::Tag)?;
    Ok((u32::try_from(number).map_err(|_large| WireError::Tag)?, wire_type))
}

fn value<'a>(rest: &mut &'a [u8], wire_type: u8) -> Result<Raw<'a>, WireError> {
    match wire_type {
        0 => varint(rest).map(Raw::Varint),
        1 => take(rest, 8).map(|_bytes| Raw::Other),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_large| WireError::End)?;
            take(rest, length).map(Raw::Bytes)
        }
        5 => take(rest, 4).map(|_bytes| Raw::Other),
        _ => Err(WireError::Tag),
    }
}

fn skip_group(rest: &mut &[u8], number: u32) -> Result<(), WireError> {
    let mut open = vec![number];
    while let Some(innermost) = open.last().copied() {
        match tag(rest)? {
            (number, 3) if open.len() < GROUPS_MAX => open.push(number),
            (_, 3) => return Err(WireError::Group),
            (number, 4) if number == innermost => {
                open.pop();
            }
            (_, 4) => return Err(WireError::Group),
            (_, wire_type) => {
                value(rest, wire_type)?;
            }
        }
    }
    Ok(())
}

/// Reads one number.
pub fn varint(rest: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0_u64;
    for (at, byte) in rest.iter().enumerate().take(10) {
        if at == 9 && *byte > 1 {
            return Err(WireError::Overflow);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = rest.get(at + 1..).unwrap_or(&[]);
            return Ok(value);
        }
    }
    Err(if rest.len() < 10 { WireError::End } else { WireError::Overflow })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], WireError> {
    let (taken, left) = rest.split_at_checked(length).ok_or(WireError::End)?;
    *rest = left;
    Ok(taken)
}
