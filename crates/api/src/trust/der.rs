//! What a certificate says about itself: whose it is, and with which kind of key (REP-83).
//!
//! Only the few members that are shown are read. Whether a certificate is valid is the business of TLS.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const BMP_STRING: u8 = 0x1e;
/// The version of a certificate, which may be left out.
const VERSION: u8 = 0xa0;

/// Attributes with a name, by the last number below `2.5.4`, in the order of Go's `pkix.Name`.
const NAMED: [(u8, &str); 9] = [
    (6, "C"),
    (10, "O"),
    (11, "OU"),
    (7, "L"),
    (8, "ST"),
    (9, "STREET"),
    (17, "POSTALCODE"),
    (3, "CN"),
    (5, "SERIALNUMBER"),
];
/// Attributes of which a name keeps the last one only.
const SINGLE: [u8; 2] = [3, 5];

/// Why bytes are no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data is no X.509 certificate")]
pub struct NotACertificate;

/// What is shown of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is, as Go prints a distinguished name.
    pub subject: String,
    /// Kind of its key: `rsa`, `ecdsa`, `ed25519`, `dsa`, or `unknown`.
    pub key_algorithm: &'static str,
}

impl Certificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// When the members that are shown are not where they belong.
    pub fn read(der: &[u8]) -> Result<Self, NotACertificate> {
        read(der).ok_or(NotACertificate)
    }
}

fn read(der: &[u8]) -> Option<Certificate> {
    let mut certificate = Reader(Reader(der).expect(SEQUENCE)?);
    let mut signed = Reader(certificate.expect(SEQUENCE)?);
    if signed.peek() == Some(VERSION) {
        signed.next()?;
    }
    signed.expect(INTEGER)?;
    // Algorithm of the signature, issuer, validity.
    for _ in 0..3 {
        signed.expect(SEQUENCE)?;
    }
    let subject = subject(signed.expect(SEQUENCE)?)?;
    let mut key = Reader(signed.expect(SEQUENCE)?);
    let algorithm = Reader(key.expect(SEQUENCE)?).expect(OBJECT_ID)?;
    Some(Certificate { subject, key_algorithm: key_algorithm(algorithm) })
}

fn key_algorithm(object_id: &[u8]) -> &'static str {
    match object_id {
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1] => "rsa",
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1] => "ecdsa",
        [0x2b, 0x65, 0x70] => "ed25519",
        [0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1] => "dsa",
        _ => "unknown",
    }
}

/// A distinguished name in the order and spelling of Go's `pkix.Name`: named attributes of one kind stand together,
/// the others come last, and all of it from the back to the front.
fn subject(names: &[u8]) -> Option<String> {
    let mut named: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    let mut parts: Vec<String> = Vec::new();
    let mut sets = Reader(names);
    while !sets.is_empty() {
        let mut members = Reader(sets.expect(SET)?);
        while !members.is_empty() {
            let mut member = Reader(members.expect(SEQUENCE)?);
            let id = member.expect(OBJECT_ID)?;
            let (tag, content) = member.next()?;
            let value = text(tag, content);
            match id {
                [0x55, 4, last] if NAMED.iter().any(|(number, _)| number == last) => {
                    let values = named.entry(*last).or_default();
                    if SINGLE.contains(last) {
                        values.clear();
                    }
                    values.push(value);
                }
                other => parts.push(format!("{}=#{}", dotted(other), encoded(&value))),
            }
        }
    }
    for (number, name) in NAMED {
        let Some(values) = named.get(&number) else { continue };
        let shown: Vec<String> = values.iter().map(|value| format!("{name}={}", escaped(value))).collect();
        parts.push(shown.join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

fn text(tag: u8, content: &[u8]) -> String {
    if tag == BMP_STRING {
        let units: Vec<u16> = content
            .chunks_exact(2)
            .filter_map(|pair| <[u8; 2]>::try_from(pair).ok().map(u16::from_be_bytes))
            .collect();
        return String::from_utf16_lossy(&units);
    }
    String::from_utf8_lossy(content).into_owned()
}

/// Puts a backslash before what has a meaning in a distinguished name.
fn escaped(value: &str) -> String {
    let last = value.len().saturating_sub(1);
    let mut out = String::with_capacity(value.len());
    for (at, letter) in value.char_indices() {
        let is_special = match letter {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            ' ' => at == 0 || at == last,
            '#' => at == 0,
            _ => false,
        };
        if is_special {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// A text as DER in hex digits.
fn encoded(value: &str) -> String {
    let is_printable = |letter: char| letter.is_ascii_alphanumeric() || " '()+,-./:=?".contains(letter);
    let tag = if value.chars().all(is_printable) { PRINTABLE_STRING } else { UTF8_STRING };
    let mut bytes = vec![tag];
    match u8::try_from(value.len()) {
        Ok(length) if length < 0x80 => bytes.push(length),
        _ => {
            let length = value.len().to_be_bytes();
            let digits: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
            bytes.push(0x80 | u8::try_from(digits.len()).unwrap_or(0));
            bytes.extend(digits);
        }
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _written = write!(out, "{byte:02x}");
        out
    })
}

/// An object identifier as numbers with dots.
fn dotted(object_id: &[u8]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number: u64 = 0;
    for byte in object_id {
        number = number.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.extend([first, number - first * 40]);
            } else {
                numbers.push(number);
            }
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// Reads members one after another.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Tag and content of the next member.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = if *first < 0x80 {
            (usize::from(*first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            let (digits, rest) = rest.split_at_checked(count)?;
            if count == 0 || count > 4 {
                return None;
            }
            let length = digits.iter().fold(0usize, |sum, digit| (sum << 8) | usize::from(*digit));
            (length, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// Content of the next member, if it has this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pem::{certificates, tests::ECDSA};
    use super::*;

    #[test]
    fn rep_83_subjects_are_spelled_as_go_does() {
        let found = certificates(ECDSA).unwrap()[0].certificate().unwrap();
        assert_eq!(
            found.subject,
            "CN=git.acme.test,OU=\\ Ops,O=Acme\\, Inc.+O=Two,C=DE,1.2.840.113549.1.9.1=#0c03614062"
        );
        assert_eq!(found.key_algorithm, "ecdsa");
    }

    #[test]
    fn rep_83_kinds_of_keys() {
        for (pem, expected) in [
            (include_str!("testdata/rsa.pem"), ("CN=rsa.test", "rsa")),
            (include_str!("testdata/ed25519.pem"), ("CN=ed25519.test", "ed25519")),
        ] {
            let found = certificates(pem).unwrap()[0].certificate().unwrap();
            assert_eq!((found.subject.as_str(), found.key_algorithm), expected);
        }
    }

    /// SEC-54: whatever bytes come, the answer is an error and no panic.
    #[test]
    fn rep_83_cut_and_changed_certificates_are_errors_or_certificates() {
        use base64::Engine as _;
        let text: String = ECDSA.lines().filter(|line| !line.starts_with("---")).collect();
        let der = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        for end in 0..der.len() {
            assert_eq!(Certificate::read(&der[..end]), Err(NotACertificate), "{end}");
        }
        for at in 0..der.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut other = der.clone();
                other[at] ^= change;
                drop(Certificate::read(&other));
            }
        }
    }
}
