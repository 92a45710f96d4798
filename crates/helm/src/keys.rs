//! Keys, certificates and password hashes of templates: `genCA`, `genSignedCert`, `htpasswd` and their like.
//!
//! Follows sprig 3.3 with Go 1.26's `crypto/x509`. Keys are made by aws-lc-rs from the machine's chance, unless a
//! source of bytes is given: then RSA keys are made of those, the same bytes giving the same key (RND-163).
//! Certificates are put together here, because they have to be signed by whatever a template brings along.

mod certificate;
mod der;
mod number;
mod pem;
mod private_key;

use std::fmt;

use tiphys_go::template::{Certificate, CertificateRequest, KeyKind, Keys};

use private_key::PrivateKey;

/// Longest password in bytes.
const PASSWORD_BYTES_MAX: usize = 72;
/// Rounds of bcrypt, as a power of two.
const BCRYPT_COST: u32 = 10;

/// Fills bytes.
pub type Source<'s> = &'s dyn Fn(&mut [u8]);

/// Makes keys.
#[derive(Clone, Copy)]
pub struct NativeKeys<'s> {
    /// Salts, serial numbers and, when `is_repeatable`, keys come from here.
    pub source: Source<'s>,
    /// Whether the same bytes have to give the same keys. Signatures by elliptic curves differ all the same.
    pub is_repeatable: bool,
}

impl fmt::Debug for NativeKeys<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NativeKeys").field("is_repeatable", &self.is_repeatable).finish_non_exhaustive()
    }
}

impl NativeKeys<'_> {
    fn generate(&self, kind: KeyKind, bits: usize) -> Result<PrivateKey, String> {
        let source = self.is_repeatable.then_some(self.source);
        PrivateKey::generate(kind, bits, source)
    }
}

impl Keys for NativeKeys<'_> {
    fn bcrypt(&self, password: &[u8]) -> Result<String, String> {
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(format!("bcrypt: password length exceeds {PASSWORD_BYTES_MAX} bytes"));
        }
        let mut salt = [0; 16];
        (self.source)(&mut salt);
        let parts = bcrypt::hash_with_salt(password, BCRYPT_COST, salt).map_err(|error| error.to_string())?;
        Ok(parts.format_for_version(bcrypt::Version::TwoA))
    }

    fn private_key(&self, kind: KeyKind) -> Result<String, String> {
        Ok(self.generate(kind, 4096)?.to_pem())
    }

    fn certificate(&self, request: &CertificateRequest<'_>) -> Result<Certificate, String> {
        let key = match request.key {
            None => self
                .generate(KeyKind::Rsa, 2048)
                .map_err(|error| format!("error generating rsa key: {error}"))?,
            Some(text) => PrivateKey::from_pem(text.as_bytes())
                .map_err(|error| format!("parsing private key: {error}"))?,
        };
        let mut serial = [0; 16];
        (self.source)(&mut serial);
        let certificate = certificate::issue(request, &key, &serial)?;
        Ok(Certificate { certificate, key: key.to_pem() })
    }

    fn check(&self, certificate: &[u8], key: &[u8]) -> Result<(), String> {
        let block = pem::decode(certificate).ok_or("unable to decode certificate")?;
        certificate::Parsed::read(&block.bytes)
            .ok_or("error parsing certificate: decodedCert.Bytes: x509: malformed certificate")?;
        PrivateKey::from_pem(key).map(|_| ()).map_err(|error| format!("error parsing private key: {error}"))
    }
}

#[cfg(test)]
mod tests;
