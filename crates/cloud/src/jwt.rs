//! Tokens that say who asks, signed by whoever asks (RS256). Pure: what is said, and until when, is given.

use aws_lc_rs::{rand, rsa, signature};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;

/// The private key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the private key cannot be used: it has to be RSA, in PEM")]
pub struct KeyError;

/// The claims, signed with a private key in PEM; the key's id is named where there is one.
///
/// # Errors
/// When the key is none of RSA.
pub fn signed(
    claims: &Value,
    key: &Secret<String>,
    key_id: Option<&str>,
) -> Result<Secret<String>, KeyError> {
    let parsed = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|_secret| KeyError)?;
    let pair = match &parsed {
        PrivateKeyDer::Pkcs8(der) => rsa::KeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => rsa::KeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(KeyError),
    };
    let pair = pair.map_err(|_secret| KeyError)?;
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let (Some(id), Some(members)) = (key_id, header.as_object_mut()) {
        members.insert("kid".to_owned(), id.into());
    }
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(claims));
    let mut proof = vec![0; pair.public_modulus_len()];
    let random = rand::SystemRandom::new();
    pair.sign(&signature::RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut proof)
        .map_err(|_error| KeyError)?;
    Ok(Secret::from(format!("{message}.{}", URL_SAFE_NO_PAD.encode(proof))))
}
