//! What a controller takes from the machine it runs on. Simulations replace it, so that a whole installation
//! runs in one thread from a seed (law 10).

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tiphys_cluster::{Connection, Jitter};
use tiphys_source::{Clock, MemoryRepositories};

use tiphys_generation::services::Services;
pub use tiphys_source::Compute;

use crate::scripts::Interpreters;

/// Clock, chance, threads, repositories and clusters of a controller.
#[derive(Clone)]
pub struct Surroundings {
    /// Tells the time. Timers are those of the runtime.
    pub clock: Clock,
    /// Spreads waits; decides nothing.
    pub random: Random,
    /// Where long computations run.
    pub compute: Compute,
    /// Who runs users' programs.
    pub interpreters: Interpreters,
    /// Repositories in place of those that URLs name.
    pub repositories: Option<MemoryRepositories>,
    /// Who asks services that generators of sets name.
    pub services: Services,
    /// Ways to destination clusters, by server, in place of what their Secrets say.
    pub clusters: BTreeMap<String, Connection>,
}

impl Surroundings {
    /// The machine as it is; `program` is our own, whose children run users' programs.
    pub fn of_machine(program: std::path::PathBuf) -> Self {
        let clock = Clock::real();
        Self {
            interpreters: Interpreters::children(program, &clock),
            clock,
            random: Random::default(),
            compute: Compute::threads(),
            repositories: None,
            services: Services::of_network(),
            clusters: BTreeMap::new(),
        }
    }
}

/// A source of chance. Cloning gives another handle to the same one.
#[derive(Clone, Debug, Default)]
pub struct Random {
    /// State of a seeded source; without one the hasher's random keys are taken.
    seeded: Option<Arc<Mutex<u64>>>,
}

impl Random {
    /// A source whose numbers follow from a seed.
    pub fn seeded(seed: u64) -> Self {
        Self { seeded: Some(Arc::new(Mutex::new(seed))) }
    }

    /// A random UUID in its usual form (RFC 4122, version 4).
    pub(crate) fn uuid(&self) -> String {
        let Some(state) = &self.seeded else { return uuid::Uuid::new_v4().to_string() };
        let bits = {
            let mut state = state.lock();
            (u128::from(split_mix(&mut state)) << 64) | u128::from(split_mix(&mut state))
        };
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
    }

    /// Fills bytes with chance; without a seed nobody can foresee it.
    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        if let Some(state) = &self.seeded {
            let mut state = state.lock();
            for chunk in bytes.chunks_mut(8) {
                let drawn = split_mix(&mut state).to_le_bytes();
                chunk.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
            }
            return;
        }
        for chunk in bytes.chunks_mut(6) {
            // The first six bytes of a random UUID are all chance.
            let drawn = uuid::Uuid::new_v4().into_bytes();
            chunk.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
        }
    }

    /// A number from 0 (included) to 1 (excluded).
    pub fn fraction(&self) -> f64 {
        use std::hash::{BuildHasher, RandomState};
        let bits = match &self.seeded {
            Some(state) => split_mix(&mut state.lock()),
            None => RandomState::new().hash_one(0_u8),
        };
        f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
    }

    /// The same source for those who spread waits.
    pub fn jitter(&self) -> Jitter {
        let random = self.clone();
        Arc::new(move || random.fraction())
    }
}

/// The next number of the `SplitMix64` generator.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sty_73_a_seed_decides_all_numbers() {
        let (one, two) = (Random::seeded(7), Random::seeded(7));
        let numbers = |random: &Random| [(); 100].map(|()| random.fraction().to_bits());
        assert_eq!(numbers(&one), numbers(&two));
        assert_ne!(numbers(&one), numbers(&Random::seeded(8)));
        let filled = |random: &Random| {
            let mut bytes = [0; 13];
            random.fill(&mut bytes);
            bytes
        };
        assert_eq!(filled(&Random::seeded(7)), filled(&Random::seeded(7)));
        assert_ne!(filled(&Random::default()), filled(&Random::default()));
        assert!((0..100).all(|_| (0.0..1.0).contains(&Random::default().fraction())));
    }
}
