//! Chance and time that are the same in every rendering of a revision (RND-163).
//!
//! Charts that use `randAlphaNum` or `genCA` differ from themselves at every comparison. With this they do not: what
//! looks like chance follows from who is rendered, which template asks and how often it asked before. It mixes in a
//! secret of the installation, without which passwords made so could be worked out by everybody who knows the chart.

use std::cell::{Cell, RefCell};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tiphys_go::template::{
    Certificate, CertificateRequest, Environment, Failure, KeyError, KeyKind, Keys, Lookup, Map, Work,
};

use crate::keys::NativeKeys;

/// What takes the place of chance and time.
#[derive(Clone, Copy)]
pub struct Determinism {
    seed: [u8; 32],
    time: Timestamp,
}

/// Who is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Seed<'s> {
    /// Name of the application's instance.
    pub instance: &'s str,
    /// Name of the release.
    pub release: &'s str,
    /// The revision that is rendered.
    pub revision: &'s str,
    /// Secret of the installation.
    pub secret: &'s [u8],
}

impl std::fmt::Debug for Determinism {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Determinism").field("time", &self.time).finish_non_exhaustive()
    }
}

impl Determinism {
    /// Chance that follows from a seed; the time stands still.
    pub fn new(seed: Seed<'_>, time: Timestamp) -> Self {
        let parts =
            [seed.instance.as_bytes(), seed.release.as_bytes(), seed.revision.as_bytes(), seed.secret];
        Self { seed: digest(&parts), time }
    }
}

/// A digest of texts of any length, none of which runs into the next.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// An environment whose time and chance are determined; all else is that of another one.
pub(crate) struct Repeatable<'e> {
    inner: &'e dyn Environment,
    determinism: &'e Determinism,
    template: RefCell<String>,
    asked: Cell<u64>,
}

impl<'e> Repeatable<'e> {
    pub(crate) fn new(inner: &'e dyn Environment, determinism: &'e Determinism) -> Self {
        Self { inner, determinism, template: RefCell::default(), asked: Cell::new(0) }
    }

    /// From now on this template asks.
    pub(crate) fn enter(&self, template: &str) {
        template.clone_into(&mut self.template.borrow_mut());
        self.asked.set(0);
    }

    fn keys_of_bytes<T>(&self, make: impl FnOnce(&NativeKeys<'_>) -> T) -> T {
        make(&NativeKeys { source: &|bytes: &mut [u8]| self.random(bytes), is_repeatable: true })
    }
}

impl Environment for Repeatable<'_> {
    fn now(&self) -> Timestamp {
        self.determinism.time
    }

    fn random(&self, bytes: &mut [u8]) {
        let asked = self.asked.get();
        self.asked.set(asked.wrapping_add(1));
        let seed = digest(&[&self.determinism.seed, self.template.borrow().as_bytes(), &asked.to_be_bytes()]);
        for (block, bytes) in (0_u64..).zip(bytes.chunks_mut(32)) {
            let made = digest(&[&seed, &block.to_be_bytes()]);
            for (to, from) in bytes.iter_mut().zip(made) {
                *to = from;
            }
        }
    }

    fn lookup(&self, what: Lookup<'_>) -> Result<Map, Failure> {
        self.inner.lookup(what)
    }

    fn keys(&self) -> Option<&dyn Keys> {
        Some(self)
    }

    fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
    }
}

impl Keys for Repeatable<'_> {
    fn bcrypt(&self, password: &[u8], work: &mut dyn Work) -> Result<String, KeyError> {
        self.keys_of_bytes(|keys| keys.bcrypt(password, work))
    }

    fn private_key(&self, kind: KeyKind, work: &mut dyn Work) -> Result<String, KeyError> {
        self.keys_of_bytes(|keys| keys.private_key(kind, work))
    }

    fn certificate(
        &self,
        request: &CertificateRequest<'_>,
        work: &mut dyn Work,
    ) -> Result<Certificate, KeyError> {
        self.keys_of_bytes(|keys| keys.certificate(request, work))
    }

    fn check(&self, certificate: &[u8], key: &[u8], work: &mut dyn Work) -> Result<(), KeyError> {
        self.keys_of_bytes(|keys| keys.check(certificate, key, work))
    }
}
