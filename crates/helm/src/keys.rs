//! Keys, certificates and password hashes of templates: `genCA`, `genSignedCert`, `htpasswd` and their like.
//!
//! Follows sprig 3.3 with Go 1.26's `crypto/x509`. Keys are made by aws-lc-rs from the machine's chance, unless a
//! source of bytes is given: then RSA keys are made of those, the same bytes giving the same key (RND-163).
//! Certificates are put together here, because they have to be signed by whatever a template brings along.

mod certificate;
mod der;
mod montgomery;
mod number;
mod pem;
mod prime;
mod private_key;

use std::fmt;

use tiphys_go::template::{Certificate, CertificateRequest, KeyError, KeyKind, Keys, Work};

use private_key::PrivateKey;

/// Longest password in bytes.
const PASSWORD_BYTES_MAX: usize = 72;
/// Rounds of bcrypt, as a power of two.
const BCRYPT_COST: u32 = 10;
/// Steps of bcrypt with this cost.
const BCRYPT_STEPS: usize = 1_500_000;
/// Bytes of the largest key that is read: RSA with 8,192 bits.
const KEY_BYTES_MAX: usize = 7_000;

/// Steps of reading a key of so many bytes of PEM, and of signing with it: 30 ms with RSA of 8,192 bits, 1 ms with 2,048,
/// 0.1 ms on curves.
fn signing_steps(bytes: usize) -> usize {
    let bytes = bytes.min(KEY_BYTES_MAX);
    3_000 + bytes * bytes * bytes / 300_000
}

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
    fn generate(&self, kind: KeyKind, bits: usize, work: &mut dyn Work) -> Result<PrivateKey, KeyError> {
        let source = self.is_repeatable.then_some(self.source);
        PrivateKey::generate(kind, bits, source, work)
    }
}

impl Keys for NativeKeys<'_> {
    fn bcrypt(&self, password: &[u8], work: &mut dyn Work) -> Result<String, KeyError> {
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(format!("bcrypt: password length exceeds {PASSWORD_BYTES_MAX} bytes").into());
        }
        work.charge(BCRYPT_STEPS)?;
        let mut salt = [0; 16];
        (self.source)(&mut salt);
        let parts = bcrypt::hash_with_salt(password, BCRYPT_COST, salt).map_err(|error| error.to_string())?;
        Ok(parts.format_for_version(bcrypt::Version::TwoA))
    }

    fn private_key(&self, kind: KeyKind, work: &mut dyn Work) -> Result<String, KeyError> {
        Ok(self.generate(kind, 4096, work)?.to_pem())
    }

    fn certificate(
        &self,
        request: &CertificateRequest<'_>,
        work: &mut dyn Work,
    ) -> Result<Certificate, KeyError> {
        let own = request.key.map_or(0, str::len);
        let signer = request.signer.as_ref().map_or(0, |signer| signer.key.len());
        work.charge(signing_steps(own) + signing_steps(signer))?;
        let key = match request.key {
            None => self
                .generate(KeyKind::Rsa, 2048, work)
                .map_err(|error| error.after("error generating rsa key: "))?,
            Some(text) => PrivateKey::from_pem(text.as_bytes())
                .map_err(|error| format!("parsing private key: {error}"))?,
        };
        let mut serial = [0; 16];
        (self.source)(&mut serial);
        let certificate = certificate::issue(request, &key, &serial)?;
        Ok(Certificate { certificate, key: key.to_pem() })
    }

    fn check(&self, certificate: &[u8], key: &[u8], work: &mut dyn Work) -> Result<(), KeyError> {
        work.charge(signing_steps(key.len()))?;
        let block = pem::decode(certificate).ok_or("unable to decode certificate")?;
        certificate::Parsed::read(&block.bytes)
            .ok_or("error parsing certificate: decodedCert.Bytes: x509: malformed certificate")?;
        PrivateKey::from_pem(key)
            .map(|_| ())
            .map_err(|error| format!("error parsing private key: {error}").into())
    }
}

#[cfg(test)]
mod tests;
