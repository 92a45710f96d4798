//! Digests that stand for instance names in labels (TRK section 6).

use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use tiphys_go::fnv::fnv1a_64;

/// How an instance name becomes a label value of fixed width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// SHA-1 of the text and a line feed: what `echo "<name>" | sha1sum` prints (TRK-51).
    #[default]
    Sha1,
    /// SHA-1 of the text alone.
    Sha1Raw,
    /// FNV-1a, 64 bits.
    Fnv1a64,
    /// FNV-1a, 128 bits.
    Fnv1a128,
    /// The first 160 bits of SHA-256.
    Sha256Short,
}

impl HashAlgorithm {
    /// Reads a settings value exactly; `None` for anything unrecognised.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "sha1" => Some(Self::Sha1),
            "sha1-raw" => Some(Self::Sha1Raw),
            "fnv1a" | "fnv1a-64" => Some(Self::Fnv1a64),
            "fnv1a-128" => Some(Self::Fnv1a128),
            "sha256-160" => Some(Self::Sha256Short),
            _ => None,
        }
    }

    /// The settings value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha1Raw => "sha1-raw",
            Self::Fnv1a64 => "fnv1a-64",
            Self::Fnv1a128 => "fnv1a-128",
            Self::Sha256Short => "sha256-160",
        }
    }

    /// Algorithms whose digests are recognised, this one first: the two forms of SHA-1 stand for each other, so that a
    /// change between them orphans nothing (TRK-53).
    pub fn accepted(self) -> &'static [Self] {
        match self {
            Self::Sha1 => &[Self::Sha1, Self::Sha1Raw],
            Self::Sha1Raw => &[Self::Sha1Raw, Self::Sha1],
            Self::Fnv1a64 => &[Self::Fnv1a64],
            Self::Fnv1a128 => &[Self::Fnv1a128],
            Self::Sha256Short => &[Self::Sha256Short],
        }
    }

    /// The digest of a text in lower-case hexadecimal digits, zero-padded (TRK-50, TRK-52).
    ///
    /// ```
    /// # use tiphys_engine::tracking::HashAlgorithm;
    /// assert_eq!(HashAlgorithm::Sha1.digest("billing"), "244c7f56694e858ed6cdb408e24c3ed5c14670c7");
    /// ```
    pub fn digest(self, text: &str) -> String {
        match self {
            Self::Sha1 => hexadecimal(&Sha1::new().chain_update(text).chain_update("\n").finalize()),
            Self::Sha1Raw => hexadecimal(&Sha1::digest(text)),
            Self::Fnv1a64 => format!("{:016x}", fnv1a_64(text)),
            Self::Fnv1a128 => {
                let fold = |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13b);
                format!("{:032x}", text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fold))
            }
            Self::Sha256Short => {
                let mut digits = hexadecimal(&Sha256::digest(text));
                digits.truncate(40);
                digits
            }
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        // Writing to a string cannot fail.
        write!(digits, "{byte:02x}").ok();
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trk_51_published_digests() {
        let rows = [
            ("sha1", "3fbe5782d494cc956140bc58386c971bf0e96fad"),
            ("sha1-raw", "ba3a075f913f5c82a67b4cab14b038ddc03f284e"),
            ("fnv1a-64", "966f7b686437805a"),
            ("fnv1a-128", "2da5e22e7f4ccf805e4fcda19f133852"),
            ("sha256-160", "70dfeec476bd7a13769ca1687e23be79b942442d"),
        ];
        for (name, digest) in rows {
            assert_eq!(HashAlgorithm::parse(name).unwrap().digest("some-application"), digest, "{name}");
        }
    }

    #[test]
    fn trk_52_digests_are_zero_padded() {
        let text = "61199294-412c-4e78-a237-3ebba6784fcd.some-application";
        assert_eq!(HashAlgorithm::Fnv1a64.digest(text), "0b7403df1fc95ad3");
        assert_eq!(HashAlgorithm::Fnv1a128.digest(text), "cf1b6b3e5bf9ea41865c45dd20281bcb");
        assert_eq!(HashAlgorithm::parse("fnv1a"), Some(HashAlgorithm::Fnv1a64));
        assert_eq!(HashAlgorithm::parse("md5"), None);
    }
}
