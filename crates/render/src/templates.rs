//! Time and chance of templates, as somebody outside gives them (RND-1).

use std::cell::Cell;

use jiff::Timestamp;
use tiphys_go::template::{Certificate, CertificateRequest, Environment, KeyError, KeyKind, Keys, Work};
use tiphys_helm::NativeKeys;

/// Fills bytes with chance.
pub type Chance = fn(&mut [u8]);

/// What templates are given of the world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// The time.
    pub now: Timestamp,
    /// Chance; without any, equal renderings are equal (EVAL-4).
    pub chance: Option<Chance>,
}

impl Default for World {
    /// No time passes, and nothing is left to chance.
    fn default() -> Self {
        Self { now: Timestamp::UNIX_EPOCH, chance: None }
    }
}

impl World {
    /// The beginning of the year: what stands for the time where it must not change from one rendering to the next
    /// (RND-163). Certificates made so are valid, and last until at least the next year when they do for a year.
    pub(crate) fn year(&self) -> Timestamp {
        let zoned = self.now.to_zoned(jiff::tz::TimeZone::UTC);
        let first = zoned.first_of_year().and_then(|day| day.start_of_day());
        first.map_or(self.now, |day| day.timestamp())
    }
}

/// The world during one rendering.
pub(crate) struct During<'a> {
    world: World,
    /// Whether the caller gave up.
    cancelled: &'a dyn Fn() -> bool,
    asked: Cell<u64>,
}

impl<'a> During<'a> {
    pub(crate) fn new(world: World, cancelled: &'a dyn Fn() -> bool) -> Self {
        Self { world, cancelled, asked: Cell::new(0) }
    }

    fn fill(&self, bytes: &mut [u8]) {
        if let Some(chance) = self.world.chance {
            return chance(bytes);
        }
        for byte in bytes {
            let asked = self.asked.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.asked.set(asked);
            let mixed = (asked ^ (asked >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *byte = mixed.to_be_bytes().first().copied().unwrap_or(0);
        }
    }

    fn with<T>(&self, work: impl FnOnce(&NativeKeys<'_>) -> T) -> T {
        let source = |bytes: &mut [u8]| self.fill(bytes);
        work(&NativeKeys { source: &source, is_repeatable: self.world.chance.is_none() })
    }
}

impl Environment for During<'_> {
    fn now(&self) -> Timestamp {
        self.world.now
    }

    fn random(&self, bytes: &mut [u8]) {
        self.fill(bytes);
    }

    fn keys(&self) -> Option<&dyn Keys> {
        Some(self)
    }

    fn is_cancelled(&self) -> bool {
        (self.cancelled)()
    }
}

impl Keys for During<'_> {
    fn bcrypt(&self, password: &[u8], work: &mut dyn Work) -> Result<String, KeyError> {
        self.with(|keys| keys.bcrypt(password, work))
    }

    fn private_key(&self, kind: KeyKind, work: &mut dyn Work) -> Result<String, KeyError> {
        self.with(|keys| keys.private_key(kind, work))
    }

    fn certificate(
        &self,
        request: &CertificateRequest<'_>,
        work: &mut dyn Work,
    ) -> Result<Certificate, KeyError> {
        self.with(|keys| keys.certificate(request, work))
    }

    fn check(&self, certificate: &[u8], key: &[u8], work: &mut dyn Work) -> Result<(), KeyError> {
        self.with(|keys| keys.check(certificate, key, work))
    }
}
