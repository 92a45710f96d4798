//! X.509 certificates, put together as Go's `x509.CreateCertificate` does.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use sha2::{Digest, Sha256};
use tiphys_go::template::CertificateRequest;

use super::der::{
    self, BIT_STRING, BOOLEAN, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, PRINTABLE_STRING, Reader,
    SEQUENCE, SET, UTC_TIME, UTF8_STRING,
};
use super::pem;
use super::private_key::PrivateKey;

/// The common name, `2.5.4.3`.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// `serverAuth` and `clientAuth`.
const SERVER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// What is needed of a certificate that signs others.
pub(super) struct Parsed {
    /// Its subject, all bytes.
    subject: Vec<u8>,
    key_id: Option<Vec<u8>>,
}

impl Parsed {
    /// Takes a certificate apart.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut outer = Reader(bytes);
        let mut parts = Reader(outer.expect(SEQUENCE)?);
        let mut fields = Reader(parts.expect(SEQUENCE)?);
        parts.expect(SEQUENCE)?;
        parts.expect(BIT_STRING)?;
        if !outer.is_empty() || !parts.is_empty() {
            return None;
        }
        let mut first = fields.next()?;
        if first.0 == 0xa0 {
            first = fields.next()?;
        }
        if first.0 != INTEGER {
            return None;
        }
        // Signature, issuer, validity.
        for _ in 0..3 {
            fields.expect(SEQUENCE)?;
        }
        let (tag, _, subject) = fields.next()?;
        if tag != SEQUENCE {
            return None;
        }
        fields.expect(SEQUENCE)?;
        let mut key_id = None;
        while let Some((tag, content, _)) = fields.next() {
            if tag == 0xa3 {
                key_id = subject_key_id(content);
            }
        }
        Some(Self { subject: subject.to_vec(), key_id })
    }
}

fn subject_key_id(extensions: &[u8]) -> Option<Vec<u8>> {
    let mut all = Reader(Reader(extensions).expect(SEQUENCE)?);
    while let Some(extension) = all.expect(SEQUENCE) {
        let mut extension = Reader(extension);
        if extension.expect(OID)? == SUBJECT_KEY_ID {
            let (_, content, _) = extension.next()?;
            return Reader(content).expect(OCTET_STRING).map(<[u8]>::to_vec);
        }
    }
    None
}

/// Makes a certificate for a key, in PEM.
pub(super) fn issue(
    request: &CertificateRequest<'_>,
    key: &PrivateKey,
    serial: &[u8],
) -> Result<String, String> {
    let addresses = request
        .addresses
        .iter()
        .map(|address| address.parse::<IpAddr>().map_err(|_invalid| format!("error parsing ip: {address}")))
        .collect::<Result<Vec<_>, _>>()?;
    let subject = name(request.common_name);
    let failed = || "error creating certificate: the key cannot be used".to_owned();
    let (issuer, issuer_key_id, signer) = match &request.signer {
        None => (subject.clone(), None, None),
        Some(signer) => {
            let block = pem::decode(signer.certificate.as_bytes()).ok_or("unable to decode certificate")?;
            let parsed = Parsed::read(&block.bytes)
                .ok_or("error parsing certificate: decodedSignerCert.Bytes: x509: malformed certificate")?;
            let signer = PrivateKey::from_pem(signer.key.as_bytes())
                .map_err(|error| format!("error parsing private key: {error}"))?;
            (parsed.subject, parsed.key_id, Some(signer))
        }
    };
    let public = key.public().ok_or_else(failed)?;
    let signer = signer.as_ref().unwrap_or(key);
    let authority = issuer_key_id.filter(|_| issuer != subject);
    let is_nameless = request.common_name.is_empty();
    let extensions = extensions(request, &addresses, &public, authority.as_deref(), is_nameless);
    let fields = der::sequence(&[
        // Version 3.
        &der::value(0xa0, &der::value(INTEGER, &[2])),
        &der::unsigned(serial),
        &signer.algorithm(),
        &issuer,
        &validity(request.now, request.days)?,
        &subject,
        &public,
        &der::value(0xa3, &der::value(SEQUENCE, &extensions)),
    ]);
    let signature = signer.sign(&fields).ok_or_else(failed)?;
    let certificate = der::sequence(&[&fields, &signer.algorithm(), &der::bits(&signature)]);
    Ok(pem::encode("CERTIFICATE", &certificate))
}

/// A name that is a common name only.
fn name(common_name: &str) -> Vec<u8> {
    if common_name.is_empty() {
        return der::value(SEQUENCE, &[]);
    }
    let is_printable = |c: char| c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c);
    let tag = if common_name.chars().all(is_printable) { PRINTABLE_STRING } else { UTF8_STRING };
    let pair = der::sequence(&[&der::value(OID, COMMON_NAME), &der::value(tag, common_name.as_bytes())]);
    der::value(SEQUENCE, &der::value(SET, &pair))
}

fn validity(now: Timestamp, days: i64) -> Result<Vec<u8>, String> {
    // Go counts nanoseconds, and goes round when there are too many.
    const DAY: i64 = 24 * 3_600 * 1_000_000_000;
    let end = now.checked_add(SignedDuration::from_nanos(DAY.wrapping_mul(days)));
    let wrong = |_error| "error creating certificate: cannot represent time as GeneralizedTime".to_owned();
    Ok(der::sequence(&[&time(now), &time(end.map_err(wrong)?)]))
}

fn time(time: Timestamp) -> Vec<u8> {
    let time = time.to_zoned(TimeZone::UTC);
    if (1950..2050).contains(&time.year()) {
        der::value(UTC_TIME, time.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        der::value(GENERALIZED_TIME, time.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

fn extension(id: &[u8], is_critical: bool, content: &[u8]) -> Vec<u8> {
    let critical = if is_critical { der::value(BOOLEAN, &[0xff]) } else { Vec::new() };
    der::sequence(&[&der::value(OID, id), &critical, &der::value(OCTET_STRING, content)])
}

fn extensions(
    request: &CertificateRequest<'_>,
    addresses: &[IpAddr],
    public: &[u8],
    authority: Option<&[u8]>,
    is_nameless: bool,
) -> Vec<u8> {
    // Digital signature, key encipherment; for authorities also the signing of certificates.
    let usage: &[u8] = if request.authority { &[2, 0xa4] } else { &[5, 0xa0] };
    let purposes = der::sequence(&[&der::value(OID, SERVER), &der::value(OID, CLIENT)]);
    let constraints = if request.authority { der::value(BOOLEAN, &[0xff]) } else { Vec::new() };
    let mut all = extension(KEY_USAGE, true, &der::value(BIT_STRING, usage));
    all.extend(extension(EXTENDED_KEY_USAGE, false, &purposes));
    all.extend(extension(BASIC_CONSTRAINTS, true, &der::value(SEQUENCE, &constraints)));
    if request.authority {
        all.extend(extension(SUBJECT_KEY_ID, false, &der::value(OCTET_STRING, &key_id(public))));
    }
    if let Some(authority) = authority {
        let content = der::value(SEQUENCE, &der::value(0x80, authority));
        all.extend(extension(AUTHORITY_KEY_ID, false, &content));
    }
    if !request.names.is_empty() || !addresses.is_empty() {
        let mut names: Vec<u8> =
            request.names.iter().flat_map(|name| der::value(0x82, name.as_bytes())).collect();
        for address in addresses {
            let bytes = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => {
                    address.to_ipv4_mapped().map_or(address.octets().to_vec(), |v4| v4.octets().to_vec())
                }
            };
            names.extend(der::value(0x87, &bytes));
        }
        all.extend(extension(ALTERNATIVE_NAMES, is_nameless, &der::value(SEQUENCE, &names)));
    }
    all
}

/// The first 20 bytes of the digest of a public key, without what it is for.
fn key_id(public: &[u8]) -> Vec<u8> {
    let bits = || {
        let mut parts = Reader(Reader(public).expect(SEQUENCE)?);
        parts.expect(SEQUENCE)?;
        parts.expect(BIT_STRING)?.get(1..)
    };
    let digest = Sha256::digest(bits().unwrap_or_default());
    digest.iter().take(20).copied().collect()
}
