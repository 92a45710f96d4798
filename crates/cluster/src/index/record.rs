//! One object in the index: about 120 bytes, and more only for objects that somebody may ask about.

use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_object::Object;
use tiphys_object::host::Host;

/// Number of an interned kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KindId(pub(super) u32);

/// Number of an interned namespace; 0 is "no namespace".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NamespaceId(pub(super) u32);

/// Place of an object in the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot {
    pub(super) kind: KindId,
    pub(super) namespace: NamespaceId,
    pub(super) name: SmolStr,
}

/// A uid in sixteen bytes; texts that are no UUID are kept as they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Uid {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    pub(super) fn parse(text: &str) -> Self {
        Self::parse_uuid(text).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }

    fn parse_uuid(text: &str) -> Option<[u8; 16]> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return None;
        }
        let mut uuid = [0_u8; 16];
        let mut nibbles = 0_usize;
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return None;
                }
                continue;
            }
            let nibble = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                // Upper case would not be printed back as it was.
                _ => return None,
            };
            let slot = uuid.get_mut(nibbles / 2)?;
            *slot = (*slot << 4) | nibble;
            nibbles += 1;
        }
        Some(uuid)
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    pub(super) fn text(&self) -> SmolStr {
        match self {
            Self::Text(text) => SmolStr::new(text),
            Self::Uuid(bytes) => {
                use std::fmt::Write as _;
                let mut text = String::with_capacity(36);
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        text.push('-');
                    }
                    // Writing to a text cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
                SmolStr::new(text)
            }
        }
    }
}

/// A reference to an owner, inside the namespace of the object or without namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: KindId,
    pub(super) name: SmolStr,
    /// Empty for inferred owners, which are found by name (ENG-27).
    pub(super) uid: Uid,
}

/// What an object that belongs to nobody does without.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    /// By what the object names its owner.
    pub(super) claims: Box<[SmolStr]>,
    /// The object, for the reasons listed in ENG-24.
    pub(super) object: Option<Arc<Object>>,
    pub(super) derived: Option<Arc<Derived>>,
    /// Why the object, which should be kept, cannot be read.
    pub(super) unreadable: Option<Box<str>>,
    /// Field managers whose entries of `managedFields` the object is kept with, because rules name them (ENG-70).
    pub(super) managers: Option<Arc<[SmolStr]>>,
}

/// What the index holds of one object.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) uid: Uid,
    pub(super) version: SmolStr,
    /// Seconds since 1970.
    pub(super) created: i64,
    /// Round in which the object was last listed, or seen to change.
    pub(super) round: u32,
    /// Number of the rules under which the record was made.
    pub(super) rules: u16,
    pub(super) is_terminating: bool,
    pub(super) owners: Box<[Owner]>,
    pub(super) extra: Option<Box<Extra>>,
}

impl Record {
    pub(super) fn claims(&self) -> &[SmolStr] {
        self.extra.as_ref().map_or(&[], |extra| &*extra.claims)
    }

    pub(super) fn object(&self) -> Option<&Arc<Object>> {
        self.extra.as_ref()?.object.as_ref()
    }

    pub(super) fn derived(&self) -> Option<&Arc<Derived>> {
        self.extra.as_ref()?.derived.as_ref()
    }

    /// Why the object cannot be read although it should be kept.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.extra.as_ref()?.unreadable.as_deref()
    }

    /// Whether it is ours and not a descendant: kept in full, or known to exist where it cannot be read.
    pub(super) fn is_managed(&self) -> bool {
        !self.claims().is_empty() && (self.object().is_some() || self.unreadable().is_some())
    }

    /// Field managers whose entries the object is kept with.
    pub(super) fn managers(&self) -> &[SmolStr] {
        self.extra.as_ref().and_then(|extra| extra.managers.as_deref()).unwrap_or_default()
    }

    /// Nobody can be told anything about a change of this object.
    pub(super) fn is_plain(&self) -> bool {
        self.owners.is_empty() && self.extra.is_none()
    }
}

/// What is computed of a descendant when it changes, because its manifest is not kept (ENG-197).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived {
    /// Status and message of its health; `None` when its kind has none.
    pub health: Option<(SmolStr, String)>,
    /// What else its node in the resource tree shows, as the deriving function writes it.
    pub node: Option<Box<str>>,
    /// What a Pod or a node says about a node.
    pub host: Option<Box<Host>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_printed_as_they_were_read() {
        for text in
            ["5eb6deee-b6df-4507-b560-18f9689c8aeb", "", "not-a-uuid", "5EB6DEEE-b6df-4507-b560-18f9689c8aeb"]
        {
            assert_eq!(Uid::parse(text).text(), text);
        }
        assert!(matches!(Uid::parse("5eb6deee-b6df-4507-b560-18f9689c8aeb"), Uid::Uuid(_)));
    }

    #[test]
    fn b5_a_record_and_its_key_are_small() {
        let size = size_of::<Record>() + size_of::<(NamespaceId, SmolStr)>();
        assert!(size <= 136, "{size}");
    }
}
