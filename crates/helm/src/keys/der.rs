//! DER: the little of it that keys and certificates need.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// A value with its tag and length.
pub(super) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    if content.len() < 0x80 {
        bytes.push(u8::try_from(content.len()).unwrap_or_default());
    } else {
        let length = content.len().to_be_bytes();
        let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
        bytes.push(0x80 | u8::try_from(length.len()).unwrap_or_default());
        bytes.extend(length);
    }
    bytes.extend_from_slice(content);
    bytes
}

/// A sequence of values that are written already.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    value(SEQUENCE, &parts.concat())
}

/// A whole number that is not negative, from its bytes.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let mut content: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    if content.first().is_none_or(|first| first & 0x80 != 0) {
        content.insert(0, 0);
    }
    value(INTEGER, &content)
}

/// Bits that are whole bytes.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0], bytes].concat())
}

/// Reads values one after the other.
pub(super) struct Reader<'r>(pub(super) &'r [u8]);

impl<'r> Reader<'r> {
    /// The next value: its tag, its content, and all of its bytes.
    pub(super) fn next(&mut self) -> Option<(u8, &'r [u8], &'r [u8])> {
        let all = self.0;
        let (tag, rest) = all.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if length >= 0x80 {
            let count = length & 0x7f;
            if count == 0 || count > 4 {
                return None;
            }
            let (digits, behind) = rest.split_at_checked(count)?;
            length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            rest = behind;
        }
        let (content, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some((*tag, content, all.get(..all.len() - behind.len())?))
    }

    /// The content of the next value, which has to be of a kind.
    pub(super) fn expect(&mut self, tag: u8) -> Option<&'r [u8]> {
        self.next().filter(|(found, _, _)| *found == tag).map(|(_, content, _)| content)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
