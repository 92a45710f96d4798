//! Private keys in the forms that sprig reads and writes.

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use tiphys_go::template::{KeyError, KeyKind, Work};

use super::der::{self, INTEGER, NULL, OCTET_STRING, OID, Reader, SEQUENCE};
use super::{Source, number, pem};

/// `1.2.840.113549.1.1.1`.
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// `1.2.840.113549.1.1.11`.
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
/// `1.3.101.112`.
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// Curves with how they sign and what that is called: P-256, P-384, P-521.
const CURVES: [(&EcdsaSigningAlgorithm, &[u8]); 3] = [
    (&ECDSA_P256_SHA256_ASN1_SIGNING, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]),
    (&ECDSA_P384_SHA384_ASN1_SIGNING, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03]),
    (&ECDSA_P521_SHA512_ASN1_SIGNING, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04]),
];

/// Steps of a key of a library, on average.
const RSA_4096_STEPS: usize = 15_000_000;
const RSA_2048_STEPS: usize = 2_000_000;
/// Steps of a key that needs no search.
const SHORT_KEY_STEPS: usize = 10_000;

/// A key that can sign.
pub(super) enum PrivateKey {
    Rsa {
        pair: Box<rsa::KeyPair>,
        /// As PKCS #1 has it.
        der: Vec<u8>,
    },
    Ec {
        pair: Box<EcdsaKeyPair>,
        /// As RFC 5915 has it.
        der: Vec<u8>,
        signature: &'static [u8],
    },
    Ed25519 {
        pair: Box<Ed25519KeyPair>,
        /// As PKCS #8 has it.
        der: Vec<u8>,
    },
}

impl PrivateKey {
    /// Makes a key, of given bytes where there are some.
    ///
    /// The search for primes of given bytes charges what it does. Libraries do it at once, for an average that is charged
    /// before.
    pub(super) fn generate(
        kind: KeyKind,
        bits: usize,
        source: Option<Source<'_>>,
        work: &mut dyn Work,
    ) -> Result<Self, KeyError> {
        let failed = |what: &str| format!("failed to generate private key: {what}");
        match kind {
            KeyKind::Rsa => {
                if let Some(source) = source {
                    let mut content = der::value(INTEGER, &[0]);
                    for part in &number::rsa(bits, source, work)? {
                        content.extend(der::unsigned(part));
                    }
                    let key = Self::rsa(der::value(SEQUENCE, &content));
                    return key.ok_or_else(|| failed("unusable key").into());
                }
                work.charge(if bits > 2048 { RSA_4096_STEPS } else { RSA_2048_STEPS })?;
                let size = if bits > 2048 { KeySize::Rsa4096 } else { KeySize::Rsa2048 };
                let pair = rsa::KeyPair::generate(size).map_err(|_unspecified| failed("rsa"))?;
                let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(|_unspecified| failed("rsa"))?;
                let der = inside_pkcs8(pkcs8.as_ref()).map(|(_, key)| key.to_vec());
                Ok(Self::Rsa { pair: Box::new(pair), der: der.ok_or_else(|| failed("rsa"))? })
            }
            KeyKind::Ecdsa => {
                work.charge(SHORT_KEY_STEPS)?;
                let pair = match source {
                    Some(source) => ec_of_bytes(source),
                    None => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).ok(),
                };
                pair.and_then(Self::ec).ok_or_else(|| failed("ecdsa").into())
            }
            KeyKind::Ed25519 => {
                work.charge(SHORT_KEY_STEPS)?;
                let mut seed = [0; 32];
                let pair = match source {
                    Some(source) => {
                        source(&mut seed);
                        Ed25519KeyPair::from_seed_unchecked(&seed).ok()
                    }
                    None => Ed25519KeyPair::generate().ok(),
                };
                pair.and_then(Self::ed25519).ok_or_else(|| failed("ed25519").into())
            }
            // RND-161. Nobody has used these for ten years; Go itself calls them broken.
            KeyKind::Dsa => {
                Err("native helm renderer: unsupported genPrivateKey \"dsa\"; set tiphys.renderer.helm=exec"
                    .into())
            }
        }
    }

    /// Reads a key as sprig does.
    pub(super) fn from_pem(text: &[u8]) -> Result<Self, String> {
        let block = pem::decode(text).ok_or("no PEM data in input")?;
        if block.label == "PRIVATE KEY" {
            return Self::from_pkcs8(&block.bytes)
                .ok_or_else(|| "decoding PEM as PKCS#8: malformed key".to_owned());
        }
        match block.label.strip_suffix(" PRIVATE KEY") {
            None => Err(format!("no private key data in PEM block of type {}", block.label)),
            Some("RSA") => Self::rsa(block.bytes)
                .ok_or_else(|| "parsing RSA private key from PEM: malformed key".to_owned()),
            Some("EC") => Self::from_ec(&block.bytes)
                .ok_or_else(|| "parsing EC private key from PEM: malformed key".to_owned()),
            Some("DSA") => {
                Err("native helm renderer: unsupported DSA private key; set tiphys.renderer.helm=exec"
                    .to_owned())
            }
            Some(other) => Err(format!("invalid private key type {other}")),
        }
    }

    fn rsa(der: Vec<u8>) -> Option<Self> {
        let pair = rsa::KeyPair::from_der(&der).ok()?;
        Some(Self::Rsa { pair: Box::new(pair), der })
    }

    fn ec(pair: EcdsaKeyPair) -> Option<Self> {
        let (_, signature) = CURVES.into_iter().find(|(algorithm, _)| *algorithm == pair.algorithm())?;
        let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().ok()?;
        let der = der.as_ref().to_vec();
        Some(Self::Ec { pair: Box::new(pair), der, signature })
    }

    fn ed25519(pair: Ed25519KeyPair) -> Option<Self> {
        let der = pair.to_pkcs8v1().ok()?.as_ref().to_vec();
        Some(Self::Ed25519 { pair: Box::new(pair), der })
    }

    fn from_ec(der: &[u8]) -> Option<Self> {
        CURVES
            .into_iter()
            .find_map(|(algorithm, _)| EcdsaKeyPair::from_private_key_der(algorithm, der).ok())
            .and_then(Self::ec)
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let (algorithm, key) = inside_pkcs8(der)?;
        match algorithm {
            RSA_ENCRYPTION => Self::rsa(key.to_vec()),
            ED25519 => Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().and_then(Self::ed25519),
            _ => CURVES
                .into_iter()
                .find_map(|(algorithm, _)| EcdsaKeyPair::from_pkcs8(algorithm, der).ok())
                .and_then(Self::ec),
        }
    }

    /// The key in the form that sprig writes.
    pub(super) fn to_pem(&self) -> String {
        match self {
            Self::Rsa { der, .. } => pem::encode("RSA PRIVATE KEY", der),
            Self::Ec { der, .. } => pem::encode("EC PRIVATE KEY", der),
            Self::Ed25519 { der, .. } => pem::encode("PRIVATE KEY", der),
        }
    }

    /// The public key with what it is for, as certificates have it.
    pub(super) fn public(&self) -> Option<Vec<u8>> {
        let bytes: PublicKeyX509Der<'_> = match self {
            Self::Rsa { pair, .. } => pair.public_key().as_der().ok()?,
            Self::Ec { pair, .. } => pair.public_key().as_der().ok()?,
            Self::Ed25519 { pair, .. } => pair.public_key().as_der().ok()?,
        };
        Some(bytes.as_ref().to_vec())
    }

    /// How signatures of the key are called.
    pub(super) fn algorithm(&self) -> Vec<u8> {
        match self {
            Self::Rsa { .. } => der::sequence(&[&der::value(OID, RSA_SHA256), &der::value(NULL, &[])]),
            Self::Ec { signature, .. } => der::sequence(&[&der::value(OID, signature)]),
            Self::Ed25519 { .. } => der::sequence(&[&der::value(OID, ED25519)]),
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let chance = SystemRandom::new();
        match self {
            Self::Rsa { pair, .. } => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &chance, message, &mut signature).ok()?;
                Some(signature)
            }
            Self::Ec { pair, .. } => Some(pair.sign(&chance, message).ok()?.as_ref().to_vec()),
            Self::Ed25519 { pair, .. } => Some(pair.sign(message).as_ref().to_vec()),
        }
    }
}

/// A key on P-256 whose secret number is made of given bytes.
fn ec_of_bytes(source: Source<'_>) -> Option<EcdsaKeyPair> {
    use aws_lc_rs::agreement::{ECDH_P256, PrivateKey as Agreement};
    // Nearly all texts of 32 bytes are a number below the order of the curve.
    (0..100).find_map(|_| {
        let mut secret = [0; 32];
        source(&mut secret);
        let public = Agreement::from_private_key(&ECDH_P256, &secret).ok()?.compute_public_key().ok()?;
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        EcdsaKeyPair::from_private_key_and_public_key(algorithm, &secret, public.as_ref()).ok()
    })
}

/// The algorithm and the key inside PKCS #8.
fn inside_pkcs8(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut outer = Reader(Reader(der).expect(SEQUENCE)?);
    outer.expect(INTEGER)?;
    let algorithm = Reader(outer.expect(SEQUENCE)?).expect(OID)?;
    Some((algorithm, outer.expect(OCTET_STRING)?))
}
