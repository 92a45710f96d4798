//! Public keys of `OpenPGP`: enough of them to tell whose they are (REP-86).
//!
//! Nothing is verified here. Whether a signature is good is asked of `gpg`, which is given exactly these keys.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use super::base64_lines;

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// Bytes of a text with keys.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Keys of one text.
const KEYS_MAX: usize = 256;

const SECRET_KEY: u8 = 5;
const PUBLIC_KEY: u8 = 6;
const USER_ID: u8 = 13;

/// Why a text gives no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing in it begins like one.
    #[error("no PGP public key block found")]
    None,
    /// It is too long, or holds too many.
    #[error("the text holds more than {KEYS_MAX} keys, or more than {TEXT_BYTES_MAX} bytes")]
    TooMany,
    /// A block has no end.
    #[error("a PGP public key block has no line {END:?}")]
    Unfinished,
    /// What stands in it is no base64.
    #[error("a PGP public key block is not valid base64")]
    Base64,
    /// Its parts do not fit together.
    #[error("a PGP public key block is damaged")]
    Damaged,
    /// It is not public.
    #[error("the text holds a private key; export the public one (`gpg --export --armor`)")]
    Private,
    /// It is of a kind that the `gpg` of today does not use.
    #[error("a key is of version {0}, only version 4 is supported")]
    Version(u8),
}

/// One public key with everything that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// 40 hex digits, upper case.
    pub fingerprint: String,
    /// Kind and size, as `gpg` spells them: `rsa4096`, `ed25519`.
    pub sub_type: String,
    /// Whose it is, as the key says first: `Name <email>`.
    pub owner: String,
    packets: Vec<u8>,
}

impl PublicKey {
    /// 16 hex digits, upper case: the end of the fingerprint.
    pub fn key_id(&self) -> &str {
        self.fingerprint.get(24..).unwrap_or(&self.fingerprint)
    }

    /// The key as armoured text.
    pub fn text(&self) -> String {
        let [_, sum @ ..] = checksum(&self.packets).to_be_bytes();
        format!("{BEGIN}\n\n{}={}\n{END}\n", base64_lines(&self.packets), STANDARD.encode(sum))
    }
}

/// Whether a text is a key id or a fingerprint, and the id that it means, in upper case (REP-86).
pub fn key_id(text: &str) -> Option<String> {
    let is_id = matches!(text.len(), 16 | 40) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = is_id.then(|| text.get(text.len() - 16..)).flatten()?;
    Some(digits.to_ascii_uppercase())
}

/// All public keys of a text, in their order; what stands around the blocks does not count.
///
/// # Errors
/// When there is none, one that cannot be read, or one that is private.
pub fn public_keys(text: &str) -> Result<Vec<PublicKey>, KeyError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(KeyError::TooMany);
    }
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    // Between the first line of a block and an empty one stand headers.
    let mut is_head = false;
    for line in text.lines().map(str::trim) {
        match (block.take(), line) {
            (None, BEGIN) => (block, is_head) = (Some(String::new()), true),
            (None, "-----BEGIN PGP PRIVATE KEY BLOCK-----") => return Err(KeyError::Private),
            (None, _) => {}
            (Some(encoded), END) => {
                let packets = STANDARD.decode(encoded).map_err(|_error| KeyError::Base64)?;
                read(&packets, &mut found)?;
            }
            (Some(encoded), line) if is_head => {
                // A block without headers may leave the empty line out.
                is_head = line.contains(": ") && !line.is_empty();
                block = Some(if is_head { encoded } else { encoded + line });
            }
            // The checksum says nothing that the signatures inside do not.
            (Some(encoded), line) if line.starts_with('=') => block = Some(encoded),
            (Some(encoded), line) => block = Some(encoded + line),
        }
    }
    match block {
        Some(_) => Err(KeyError::Unfinished),
        None if found.is_empty() => Err(KeyError::None),
        None => Ok(found),
    }
}

/// Splits packets into keys: each begins with its public key.
fn read(packets: &[u8], found: &mut Vec<PublicKey>) -> Result<(), KeyError> {
    let first = found.len();
    let mut rest = packets;
    while !rest.is_empty() {
        let (tag, body, after) = packet(rest).ok_or(KeyError::Damaged)?;
        let whole = rest.get(..rest.len() - after.len()).unwrap_or_default();
        match tag {
            SECRET_KEY => return Err(KeyError::Private),
            PUBLIC_KEY if found.len() >= KEYS_MAX => return Err(KeyError::TooMany),
            PUBLIC_KEY => found.push(key(body)?),
            _ => {}
        }
        let Some(key) = found.get_mut(first..).and_then(<[PublicKey]>::last_mut) else {
            return Err(KeyError::Damaged);
        };
        if tag == USER_ID && key.owner.is_empty() {
            key.owner = String::from_utf8_lossy(body).into_owned();
        }
        key.packets.extend_from_slice(whole);
        rest = after;
    }
    if found.len() == first { Err(KeyError::Damaged) } else { Ok(()) }
}

/// Kind and body of the first packet, and what follows it. Bodies in several parts are for data, not for keys.
fn packet(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first()?;
    if head & 0x80 == 0 {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0usize, |sum, digit| (sum << 8) | usize::from(*digit));
    let (tag, length, rest) = if head & 0x40 == 0 {
        let width = match head & 3 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return None,
        };
        let (digits, rest) = rest.split_at_checked(width)?;
        ((head >> 2) & 15, number(digits), rest)
    } else {
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=191 => (usize::from(*first), rest),
            192..=223 => {
                let (second, rest) = rest.split_first()?;
                (((usize::from(*first) - 192) << 8) + usize::from(*second) + 192, rest)
            }
            255 => {
                let (digits, rest) = rest.split_at_checked(4)?;
                (number(digits), rest)
            }
            _ => return None,
        };
        (head & 63, length, rest)
    };
    let (body, rest) = rest.split_at_checked(length)?;
    Some((tag, body, rest))
}

fn key(body: &[u8]) -> Result<PublicKey, KeyError> {
    let (version, rest) = body.split_first().ok_or(KeyError::Damaged)?;
    if *version != 4 {
        return Err(KeyError::Version(*version));
    }
    // Four bytes of the time it was made, then the kind.
    let (algorithm, material) = rest.get(4..).and_then(<[u8]>::split_first).ok_or(KeyError::Damaged)?;
    let length = u16::try_from(body.len()).map_err(|_long| KeyError::Damaged)?;
    let digest = Sha1::new().chain_update([0x99]).chain_update(length.to_be_bytes()).chain_update(body);
    let fingerprint = digest.finalize().iter().fold(String::with_capacity(40), |mut text, byte| {
        // Writing to a string cannot fail.
        let _written = write!(text, "{byte:02X}");
        text
    });
    let sub_type = sub_type(*algorithm, material).ok_or(KeyError::Damaged)?;
    Ok(PublicKey { fingerprint, sub_type, owner: String::new(), packets: Vec::new() })
}

fn sub_type(algorithm: u8, material: &[u8]) -> Option<String> {
    // The first number says how many bits it has.
    let bits = || {
        let digits = material.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*digits).next_multiple_of(8))
    };
    Some(match algorithm {
        1..=3 => format!("rsa{}", bits()?),
        16 | 20 => format!("elg{}", bits()?),
        17 => format!("dsa{}", bits()?),
        18 | 19 | 22 => {
            let (length, rest) = material.split_first()?;
            curve(rest.get(..usize::from(*length))?).to_owned()
        }
        other => format!("unknown_{other}"),
    })
}

fn curve(object_id: &[u8]) -> &'static str {
    match object_id {
        [0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01] => "ed25519",
        [0x2b, 0x65, 0x71] => "ed448",
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07] => "nistp256",
        [0x2b, 0x81, 0x04, 0x00, 0x22] => "nistp384",
        [0x2b, 0x81, 0x04, 0x00, 0x23] => "nistp521",
        [0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x07] => "brainpoolP256r1",
        [0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0b] => "brainpoolP384r1",
        [0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0d] => "brainpoolP512r1",
        [0x2b, 0x81, 0x04, 0x00, 0x0a] => "secp256k1",
        _ => "unknown",
    }
}

/// CRC-24 of armoured text.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum: u32 = 0x00b7_04ce;
    for byte in bytes {
        sum ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            sum <<= 1;
            if sum & 0x0100_0000 != 0 {
                sum ^= 0x0186_4cfb;
            }
        }
    }
    sum & 0x00ff_ffff
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Made by `gpg --quick-generate-key`, an RSA and an Ed25519 key.
    pub(crate) const RSA: &str = include_str!("testdata/rsa.asc");
    pub(crate) const ED25519: &str = include_str!("testdata/ed25519.asc");
    const FINGERPRINTS: &str = include_str!("testdata/fingerprints.txt");

    #[test]
    fn rep_86_keys_are_told_apart_as_gpg_does() {
        let found = public_keys(&format!("hello\n{RSA}{ED25519}")).unwrap();
        let shown: Vec<_> = found.iter().map(|key| (key.sub_type.as_str(), key.owner.as_str())).collect();
        assert_eq!(shown, [("rsa2048", "Rita <rita@acme.test>"), ("ed25519", "Edda <edda@acme.test>")]);
        let fingerprints: Vec<&str> = found.iter().map(|key| key.fingerprint.as_str()).collect();
        assert_eq!(fingerprints, FINGERPRINTS.lines().collect::<Vec<_>>());
        assert_eq!(found[0].key_id().len(), 16);
        assert!(found[0].fingerprint.ends_with(found[0].key_id()));
        assert_eq!(found[0].text(), RSA, "armour is written as gpg writes it");
        assert_eq!(public_keys(&found[1].text()).unwrap(), found[1..]);
    }

    #[test]
    fn rep_86_what_is_no_public_key_is_an_error() {
        let error = |text: &str| public_keys(text).unwrap_err();
        assert_eq!(error("nothing"), KeyError::None);
        assert_eq!(error(&RSA.replace(END, "")), KeyError::Unfinished);
        assert_eq!(error("-----BEGIN PGP PRIVATE KEY BLOCK-----\n"), KeyError::Private);
        assert_eq!(error(&format!("{BEGIN}\n\n***\n{END}\n")), KeyError::Base64);
        assert_eq!(error(&format!("{BEGIN}\n\nAAAA\n{END}\n")), KeyError::Damaged);
        assert_eq!(error(&RSA.repeat(300)), KeyError::TooMany);
    }

    /// Whatever bytes come, the answer is an error and no panic.
    #[test]
    fn rep_86_cut_and_changed_keys_are_errors_or_keys() {
        let packets = public_keys(ED25519).unwrap().remove(0).packets;
        for end in 0..packets.len() {
            let _answer = read(&packets[..end], &mut Vec::new());
        }
        for at in 0..packets.len() {
            for change in [0x01, 0x40, 0x80, 0xff] {
                let mut other = packets.clone();
                other[at] ^= change;
                let _answer = read(&other, &mut Vec::new());
            }
        }
    }

    #[test]
    fn rep_86_ids_are_16_or_40_digits() {
        assert_eq!(key_id("4aee18f83afdeb23").as_deref(), Some("4AEE18F83AFDEB23"));
        let fingerprint = "5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23";
        assert_eq!(key_id(fingerprint).as_deref(), Some("4AEE18F83AFDEB23"));
        for text in ["", "3AFDEB23", "4AEE18F83AFDEB2G", "0x4AEE18F83AFDEB23", "4AEE18F83AFDEB2"] {
            assert_eq!(key_id(text), None, "{text}");
        }
    }
}
