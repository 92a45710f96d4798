//! Certificates in PEM (REP-84).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::base64_lines;
use super::der::{Certificate, NotACertificate};

/// Certificates of one text.
const CERTIFICATES_MAX: usize = 256;
/// Lines of one certificate, its first and last one included.
const LINES_MAX: usize = 128;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Why a text gives no certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PemError {
    /// Nothing in it begins like one.
    #[error("no valid PEM data received")]
    None,
    /// There are too many.
    #[error("limit exceeded")]
    TooMany,
    /// One is too long.
    #[error("maximum number of lines exceeded during certificate parsing")]
    TooLong,
    /// One has no end.
    #[error("certificate {0} has no line {END:?}")]
    Unfinished(usize),
    /// What stands between the lines is no base64.
    #[error("certificate {0} is not valid base64")]
    Base64(usize),
    /// What is encoded is something else.
    #[error("certificate {0}: {1}")]
    Content(usize, NotACertificate),
}

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pem {
    der: Vec<u8>,
}

impl Pem {
    /// What it says about itself.
    ///
    /// # Errors
    /// When it is no certificate.
    pub fn certificate(&self) -> Result<Certificate, NotACertificate> {
        Certificate::read(&self.der)
    }

    /// SHA-256 of the certificate, in upper-case hex digits with colons.
    pub fn fingerprint(&self) -> String {
        let bytes = Sha256::digest(&self.der);
        bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }

    /// The certificate as PEM, with lines of 64 letters and a line end.
    pub fn text(&self) -> String {
        format!("{BEGIN}\n{}{END}\n", base64_lines(&self.der))
    }
}

/// All certificates of a text; what stands around them does not count.
///
/// # Errors
/// When there is none, one that cannot be decoded, or more than the limits of REP-84.
pub fn certificates(text: &str) -> Result<Vec<Pem>, PemError> {
    let mut found: Vec<Pem> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in text.lines().map(str::trim) {
        let nth = found.len() + 1;
        match (open.take(), line) {
            (None, BEGIN) => open = Some((1, String::new())),
            (None, _) => {}
            (Some((_, encoded)), END) => {
                if nth > CERTIFICATES_MAX {
                    return Err(PemError::TooMany);
                }
                let der = STANDARD.decode(encoded).map_err(|_error| PemError::Base64(nth))?;
                found.push(Pem { der });
            }
            (Some((lines, _)), _) if lines + 1 >= LINES_MAX => return Err(PemError::TooLong),
            (Some((lines, encoded)), more) => open = Some((lines + 1, encoded + more)),
        }
    }
    match open {
        Some(_) => Err(PemError::Unfinished(found.len() + 1)),
        None if found.is_empty() => Err(PemError::None),
        None => Ok(found),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// `openssl req -x509 -newkey ec -subj '/C=DE/O=Acme, Inc./O=Two/OU= Ops/CN=git.acme.test/emailAddress=a@b'`.
    pub(crate) const ECDSA: &str = include_str!("testdata/ecdsa.pem");

    #[test]
    fn rep_84_certificates_are_found_between_other_text() {
        let text = format!("hello\n{ECDSA}between\r\n{}after", ECDSA.replace('\n', "\r\n"));
        let found = certificates(&text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].text(), ECDSA);
        assert_eq!(found[0], found[1]);
    }

    #[test]
    fn rep_84_limits_and_errors_have_their_texts() {
        let error = |text: &str| certificates(text).unwrap_err().to_string();
        assert_eq!(error("nonsense"), "no valid PEM data received");
        assert_eq!(error(&ECDSA.repeat(257)), "limit exceeded");
        assert_eq!(certificates(&ECDSA.repeat(256)).map(|found| found.len()), Ok(256));
        let of = |lines: usize| format!("{BEGIN}\n{}{END}\n", "AAAA\n".repeat(lines));
        assert_eq!(error(&of(127)), "maximum number of lines exceeded during certificate parsing");
        assert_eq!(certificates(&of(126)).map(|found| found.len()), Ok(1));
        assert_eq!(
            error(&format!("{ECDSA}{BEGIN}\nAAAA\n")),
            "certificate 2 has no line \"-----END CERTIFICATE-----\""
        );
        assert_eq!(error(&format!("{BEGIN}\n***\n{END}\n")), "certificate 1 is not valid base64");
    }
}
