//! Time and chance, as arguments.

use jiff::{SignedDuration, Timestamp};

/// Where the server's time comes from.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The wall clock.
    System,
    /// A start, and what has passed on tokio's clock since; stands still where that is paused.
    Virtual {
        /// Time at `origin`.
        start: Timestamp,
        /// When the clock began.
        origin: tokio::time::Instant,
    },
}

impl Clock {
    /// A clock that follows tokio's, beginning now; needs a runtime.
    pub fn virtual_from(start: Timestamp) -> Self {
        Self::Virtual { start, origin: tokio::time::Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match self {
            // The one place where the wall clock comes in.
            Self::System => Timestamp::now(),
            Self::Virtual { start, origin } => {
                let passed = SignedDuration::try_from(origin.elapsed()).unwrap_or(SignedDuration::MAX);
                start.checked_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// A time as objects carry it: whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

/// Chance from a seed (splitmix64): the same seed, the same numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Chance that begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is of no concern at bounds far below 2^64.
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// A random UUID.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.next_u64(), self.next_u64());
        let version = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
        let variant = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            version >> 32,
            (version >> 16) & 0xffff,
            version & 0xffff,
            variant >> 48,
            variant & 0xffff_ffff_ffff
        )
    }

    /// A suffix as Kubernetes generates for names: no vowels, nothing that looks like something else.
    pub fn suffix(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length)
            .filter_map(|_| {
                let index = usize::try_from(self.below(LETTERS.len() as u64)).unwrap_or(0);
                LETTERS.get(index).map(|letter| char::from(*letter))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_same_seed_gives_the_same_uuids_and_they_are_of_version_4() {
        let (mut one, mut other) = (Rng::new(7), Rng::new(7));
        for _ in 0..100 {
            let uuid = one.uuid();
            assert_eq!(uuid, other.uuid());
            assert_eq!(uuid.len(), 36);
            assert_eq!(uuid.get(14..15), Some("4"));
            assert!(uuid.get(19..20).is_some_and(|digit| "89ab".contains(digit)));
        }
    }
}
