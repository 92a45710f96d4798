//! The keys that a provider signs with (JSON Web Keys), and whether a token is signed by one of them.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, EcdsaVerificationAlgorithm, RsaParameters, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;
use tiphys_service::jwt::Unverified;

/// Keys of a set that are looked at.
const KEYS_MAX: usize = 64;

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is signed in a way that is not accepted, with a shared secret, or not at all.
    #[error("the signing method is not accepted")]
    Algorithm,
    /// None of the known keys is the one it names, or can have made the signature.
    #[error("the signature is not of a known key")]
    Unknown,
}

/// What a provider tells is no set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is no set of keys")]
pub struct NoKeys;

/// The ways of signing that are accepted; those with shared secrets are not (SEC-15).
pub const ALGORITHMS: [&str; 10] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: String,
    /// The one way that it signs, where it says so.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point of a curve, uncompressed.
    Elliptic {
        curve: String,
        point: Vec<u8>,
    },
    Edwards(Vec<u8>),
}

/// The keys of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet(Vec<Key>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    kty: String,
    kid: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    n: String,
    e: String,
    crv: String,
    x: String,
    y: String,
}

impl KeySet {
    /// Reads a set. Keys of kinds that we do not know, and those that do not sign, are left out.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(answer: &[u8]) -> Result<Self, NoKeys> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(answer).map_err(|_invalid| NoKeys)?;
        let told = set.keys.into_iter().take(KEYS_MAX).filter_map(|key| serde_json::from_value(key).ok());
        Ok(Self(told.filter_map(key).collect()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a token is signed by one of the keys, in a way that the provider says it signs; where it does not say,
    /// in any that we accept.
    ///
    /// # Errors
    /// When it is not.
    pub fn verify(&self, token: &Unverified<'_>, told: &[String]) -> Result<(), KeyError> {
        let algorithm = token.algorithm();
        let is_told = told.is_empty() || told.iter().any(|one| one == algorithm);
        if !is_told || !ALGORITHMS.contains(&algorithm) {
            return Err(KeyError::Algorithm);
        }
        let (signed, signature) = token.signed();
        let named = token.key_id().filter(|id| !id.is_empty());
        let fits = |key: &&Key| {
            named.is_none_or(|id| key.id == id) && key.algorithm.as_deref().is_none_or(|one| one == algorithm)
        };
        let is_signed = |key: &Key| key.material.has_signed(algorithm, signed.as_bytes(), signature);
        if self.0.iter().filter(fits).any(is_signed) { Ok(()) } else { Err(KeyError::Unknown) }
    }
}

fn key(told: Told) -> Option<Key> {
    if told.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
    let number = |text: &str| {
        let bytes = bytes(text)?;
        let begin = bytes.iter().position(|byte| *byte != 0)?;
        bytes.get(begin..).map(<[u8]>::to_vec)
    };
    let material = match told.kty.as_str() {
        "RSA" => Material::Rsa { modulus: number(&told.n)?, exponent: number(&told.e)? },
        "EC" => {
            let size = match told.crv.as_str() {
                "P-256" => 32,
                "P-384" => 48,
                "P-521" => 66,
                _ => return None,
            };
            let mut point = vec![4];
            for text in [&told.x, &told.y] {
                let coordinate = number(text)?;
                point.extend(std::iter::repeat_n(0, usize::checked_sub(size, coordinate.len())?));
                point.extend(coordinate);
            }
            Material::Elliptic { curve: told.crv, point }
        }
        "OKP" if told.crv == "Ed25519" => Material::Edwards(bytes(&told.x).filter(|it| it.len() == 32)?),
        _ => return None,
    };
    Some(Key { id: told.kid, algorithm: told.alg, material })
}

impl Material {
    /// Whether the key has made a signature. Its kind has to be that of the algorithm: a public key is never taken for
    /// a shared secret.
    fn has_signed(&self, algorithm: &str, message: &[u8], proof: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => {
                let parameters: &RsaParameters = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                PublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, proof).is_ok()
            }
            Self::Elliptic { curve, point } => {
                let parameters: &'static EcdsaVerificationAlgorithm = match (algorithm, curve.as_str()) {
                    ("ES256", "P-256") => &signature::ECDSA_P256_SHA256_FIXED,
                    ("ES384", "P-384") => &signature::ECDSA_P384_SHA384_FIXED,
                    ("ES512", "P-521") => &signature::ECDSA_P521_SHA512_FIXED,
                    _ => return false,
                };
                UnparsedPublicKey::new(parameters, point).verify(message, proof).is_ok()
            }
            Self::Edwards(point) if algorithm == "EdDSA" => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, proof).is_ok()
            }
            Self::Edwards(_) => false,
        }
    }
}
