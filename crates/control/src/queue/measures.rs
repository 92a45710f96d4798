//! What a queue measures of itself, under the names of client-go (CTL-120).

use std::time::Duration;

use crate::histogram::Histogram;

/// Upper bounds of the buckets in seconds: those of client-go.
const BOUNDS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// What was counted of a queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    /// Keys that began to wait.
    pub(crate) adds: u64,
    /// Keys that were asked for at a later time.
    pub(crate) retries: u64,
    /// How long keys waited.
    pub(crate) waits: Histogram,
    /// How long they were held.
    pub(crate) work: Histogram,
}

impl Default for Counted {
    fn default() -> Self {
        let seconds = || Histogram::new(&BOUNDS);
        Self { adds: 0, retries: 0, waits: seconds(), work: seconds() }
    }
}

/// A queue at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measures {
    /// Keys that wait.
    pub(crate) depth: usize,
    /// What was counted so far.
    pub(crate) counted: Counted,
    /// How long those that are held now have been held, all together.
    pub(crate) unfinished: Duration,
    /// The longest of these.
    pub(crate) longest: Duration,
}
