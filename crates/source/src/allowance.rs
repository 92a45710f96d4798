//! What a fetch may use of the machine, in proportion to what is known of its repository (INV-10, INV-16).
//!
//! A repository that nothing is held of may send as much as nearly all repositories need. One that sends more is given
//! up, is asked again later, and may then send four times as much: a large repository arrives after a short delay, and
//! an endless one costs little and seldom. Processor time is granted for the bytes that arrived, so that a small pack
//! whose differences repeat each other ends within seconds.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Growth of what is allowed, over what is held and from one try to the next.
const GROWTH: u64 = 4;
/// Tries after which nothing grows any more.
const TRIES_MAX: u32 = 6;
/// Start of the names of packs that arrive.
const ARRIVING: &str = "tmp_pack_";
/// Times until a repository is asked again that sent too much, or too much work.
const HOLDS: [Duration; 4] =
    [Duration::from_secs(15), Duration::from_mins(2), Duration::from_mins(10), Duration::from_mins(30)];

/// Limits that allowances are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// Bytes that a repository may send that nothing is held of.
    pub first_bytes: u64,
    /// Processor time that every fetch may take.
    pub least_time: Duration,
    /// Bytes for which one more second of processor time is granted.
    pub bytes_per_second: u64,
}

impl Default for FetchLimits {
    /// 128 MiB, five seconds, and one second for each mebibyte: ten times what git needs for honest packs.
    fn default() -> Self {
        Self { first_bytes: 128 << 20, least_time: Duration::from_secs(5), bytes_per_second: 1 << 20 }
    }
}

/// What one fetch may use.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// Bytes of the pack.
    pub(crate) bytes: u64,
    limits: FetchLimits,
    /// Most bytes that were seen to have arrived.
    arrived: AtomicU64,
}

impl Allowance {
    /// For a repository of which this many bytes are held, after so many fetches in a row that used all they might.
    pub(crate) fn of(limits: FetchLimits, held: u64, exhausted: u32, bytes_max: u64) -> Self {
        let tries = exhausted.min(TRIES_MAX);
        let known = held.saturating_mul(GROWTH).max(limits.first_bytes);
        let bytes = known.saturating_mul(GROWTH.saturating_pow(tries)).min(bytes_max);
        Self { bytes, limits, arrived: AtomicU64::new(0) }
    }

    /// Whether a fetch may go on that used this much processor time, after this many bytes arrived.
    pub(crate) fn permits(&self, used: Duration, arrived: u64) -> bool {
        let most = self.arrived.fetch_max(arrived, Ordering::Relaxed).max(arrived);
        let granted = Duration::from_secs(most / self.limits.bytes_per_second.max(1));
        used <= self.limits.least_time.saturating_add(granted)
    }
}

/// Time until a repository is asked again, after so many fetches in a row that used all they might.
pub(crate) fn hold(exhausted: u32) -> Duration {
    let at = usize::try_from(exhausted.saturating_sub(1)).unwrap_or(usize::MAX);
    HOLDS.get(at).or(HOLDS.last()).copied().unwrap_or_default()
}

/// Bytes of the packs of a bare repository.
pub(crate) fn held_bytes(repository: &Path) -> u64 {
    pack_bytes(repository, |_name| true)
}

/// Bytes of packs that arrive in a bare repository.
pub(crate) fn arriving_bytes(repository: &Path) -> u64 {
    pack_bytes(repository, |name| name.starts_with(ARRIVING))
}

fn pack_bytes(repository: &Path, is_counted: impl Fn(&str) -> bool) -> u64 {
    let files = std::fs::read_dir(repository.join("objects/pack")).into_iter().flatten().flatten();
    let counted = files.filter(|file| file.file_name().to_str().is_some_and(&is_counted));
    counted.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn inv_16_bytes_are_allowed_in_proportion_to_what_is_held() {
        let bytes =
            |held, exhausted| Allowance::of(FetchLimits::default(), held, exhausted, 4 << 30).bytes / MIB;
        assert_eq!(bytes(0, 0), 128);
        assert_eq!(bytes(10 * MIB, 0), 128);
        assert_eq!(bytes(100 * MIB, 0), 400);
        assert_eq!((bytes(0, 1), bytes(0, 2)), (512, 2_048));
        assert_eq!((bytes(0, 3), bytes(u64::MAX, u32::MAX)), (4_096, 4_096));
    }

    #[test]
    fn inv_16_processor_time_is_granted_for_what_arrived() {
        let allowance = Allowance::of(FetchLimits::default(), 0, 0, u64::MAX);
        let seconds = Duration::from_secs;
        assert!(allowance.permits(seconds(5), 644_000));
        assert!(!allowance.permits(seconds(6), 644_000), "a small pack that unpacks to too much");
        assert!(allowance.permits(seconds(60), 60 * MIB));
        assert!(allowance.permits(seconds(64), 0), "the pack is in its place by now");
        assert!(!allowance.permits(seconds(66), 60 * MIB));
    }

    #[test]
    fn inv_16_a_repository_that_sends_too_much_is_asked_less_and_less_often() {
        let holds: Vec<u64> = (1..7).map(|exhausted| hold(exhausted).as_secs()).collect();
        assert_eq!(holds, [15, 120, 600, 1_800, 1_800, 1_800]);
    }
}
