//! The wire format of protobuf: numbered fields, one after the other.

use super::ProtobufError;

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Numbers of fixed width and groups, which no built-in type has.
    Foreign,
}

impl<'a> Payload<'a> {
    /// The content of a text or message.
    pub(super) fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Foreign => Err(ProtobufError::WireType),
        }
    }

    pub(super) fn number(self) -> Result<u64, ProtobufError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Foreign => Err(ProtobufError::WireType),
        }
    }

    /// A signed number; narrow ones are sent with their sign extended.
    pub(super) fn signed(self) -> Result<i64, ProtobufError> {
        Ok(self.number()?.cast_signed())
    }
}

/// Walks over the fields of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn is_at_end(self) -> bool {
        self.rest.is_empty()
    }

    /// The next field and its number, `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Payload<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.tag()?;
        let payload = match wire {
            3 => {
                self.skip_group()?;
                Payload::Foreign
            }
            4 => return Err(ProtobufError::Tag),
            _ => self.plain(wire)?,
        };
        Ok(Some((number, payload)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.rest.split_first().ok_or(ProtobufError::Truncated)?;
            self.rest = rest;
            number |= u64::from(first & 0x7f) << shift;
            if *first < 0x80 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Overflow)
    }

    fn tag(&mut self) -> Result<(u32, u8), ProtobufError> {
        let tag = u32::try_from(self.varint()?).map_err(|_error| ProtobufError::Tag)?;
        let wire = u8::try_from(tag & 7).map_err(|_error| ProtobufError::Tag)?;
        if tag >> 3 == 0 { Err(ProtobufError::Tag) } else { Ok((tag >> 3, wire)) }
    }

    fn plain(&mut self, wire: u8) -> Result<Payload<'a>, ProtobufError> {
        match wire {
            0 => Ok(Payload::Number(self.varint()?)),
            1 => self.take(8).map(|_| Payload::Foreign),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_error| ProtobufError::Truncated)?;
                self.take(length).map(Payload::Bytes)
            }
            5 => self.take(4).map(|_| Payload::Foreign),
            _ => Err(ProtobufError::Tag),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// Skips to the end of a group, over the groups inside.
    fn skip_group(&mut self) -> Result<(), ProtobufError> {
        let mut open = 1_usize;
        while open > 0 {
            match self.tag()?.1 {
                3 => open += 1,
                4 => open -= 1,
                wire => {
                    self.plain(wire)?;
                }
            }
        }
        Ok(())
    }
}
