//! What a run needs from outside: the time, chance, the cluster, keys.

use super::error::Failure;
use super::value::Map;
use jiff::Timestamp;

/// What the world answers to a run.
///
/// Templates are pure but for these questions. Everything but the first two has an answer for those who have none:
/// an empty environment, no cluster, no certificates, never cancelled.
pub trait Environment {
    /// The time, for `now`, `ago`, `date` and certificates.
    fn now(&self) -> Timestamp;

    /// Fills bytes with chance that nobody can foresee, for `randAlphaNum`, `uuidv4`, `shuffle` and the like.
    fn random(&self, bytes: &mut [u8]);

    /// Helm's `lookup`: an object, a list of objects, or an empty map.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    fn lookup(&self, what: Lookup<'_>) -> Result<Map, Failure> {
        let _ = what;
        Ok(Map::new())
    }

    /// Who makes keys and certificates; without, the functions that need them fail.
    fn keys(&self) -> Option<&dyn Keys> {
        None
    }

    /// Whether the caller gave up on the run. Asked now and then.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// What `lookup` asks for. Empty texts are as in Helm: no name lists, no namespace is all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Lookup<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Charges work to the run that it is done for.
pub trait Work {
    /// Pays for steps before they are taken. Called often during long work, because the caller may give up meanwhile.
    ///
    /// # Errors
    /// When the run may do no more, or the caller gave up.
    fn charge(&mut self, steps: usize) -> Result<(), Failure>;
}

impl<F: FnMut(usize) -> Result<(), Failure>> Work for F {
    fn charge(&mut self, steps: usize) -> Result<(), Failure> {
        self(steps)
    }
}

/// Why there is no key or certificate.
#[derive(Debug)]
pub enum KeyError {
    /// It cannot be made, in the words of sprig's functions.
    Problem(String),
    /// The run ended before it was made.
    Stopped(Failure),
}

impl KeyError {
    /// The same error with words before its text.
    #[must_use]
    pub fn after(self, words: &str) -> Self {
        match self {
            Self::Problem(text) => Self::Problem(format!("{words}{text}")),
            stopped @ Self::Stopped(_) => stopped,
        }
    }
}

impl From<String> for KeyError {
    fn from(text: String) -> Self {
        Self::Problem(text)
    }
}

impl From<&str> for KeyError {
    fn from(text: &str) -> Self {
        Self::Problem(text.to_owned())
    }
}

impl From<Failure> for KeyError {
    fn from(failure: Failure) -> Self {
        Self::Stopped(failure)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Problem(text) => Self::new(text),
            KeyError::Stopped(failure) => failure,
        }
    }
}

/// Makes what needs more cryptography than hashes: the crate has no TLS library (DEP-2), a higher layer has.
///
/// Problems are the texts that sprig's functions give. Each method charges what it does: how long it takes is known here
/// alone.
pub trait Keys {
    /// `bcrypt`, with cost 10.
    ///
    /// # Errors
    /// When the password is longer than 72 bytes.
    fn bcrypt(&self, password: &[u8], work: &mut dyn Work) -> Result<String, KeyError>;

    /// `genPrivateKey`: a key in PEM.
    ///
    /// # Errors
    /// When it cannot be made.
    fn private_key(&self, kind: KeyKind, work: &mut dyn Work) -> Result<String, KeyError>;

    /// `genCA`, `genSelfSignedCert`, `genSignedCert` and their forms with a key.
    ///
    /// # Errors
    /// When a key or certificate that was given cannot be read, or none can be made.
    fn certificate(
        &self,
        request: &CertificateRequest<'_>,
        work: &mut dyn Work,
    ) -> Result<Certificate, KeyError>;

    /// `buildCustomCert`: whether these are a certificate and a private key, both in PEM.
    ///
    /// # Errors
    /// When they are not.
    fn check(&self, certificate: &[u8], key: &[u8], work: &mut dyn Work) -> Result<(), KeyError>;
}

/// Kinds of keys that `genPrivateKey` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// `rsa`, 4096 bits.
    Rsa,
    /// `dsa`, 2048 bits.
    Dsa,
    /// `ecdsa`, P-256.
    Ecdsa,
    /// `ed25519`.
    Ed25519,
}

/// A certificate that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest<'a> {
    /// The common name.
    pub common_name: &'a str,
    /// Addresses it is for.
    pub addresses: Vec<String>,
    /// Names it is for.
    pub names: Vec<String>,
    /// Days it is valid, from now on.
    pub days: i64,
    /// Whether it signs others.
    pub authority: bool,
    /// The key in PEM; none makes a new one, RSA with 2048 bits.
    pub key: Option<&'a str>,
    /// Who signs it; none signs itself.
    pub signer: Option<Certificate>,
    /// The time from which on it is valid.
    pub now: Timestamp,
}

/// A certificate and its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// An environment without an outside: always the same time, always the same "chance".
///
/// For tests, and for what must give the same text each time.
#[derive(Debug, Clone, Copy)]
pub struct Still(pub Timestamp);

impl Environment for Still {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn random(&self, bytes: &mut [u8]) {
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from(place * 37 % 251).unwrap_or(0);
        }
    }
}
