//! How often what was measured, by size: for those who count under a lock that they hold anyway.

/// Counts by bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    /// Upper bounds of the buckets, ascending.
    bounds: &'static [f64],
    /// One more: the last bucket has no bound.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// Nothing counted yet.
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    /// Counts one.
    pub(crate) fn observe(&mut self, value: f64) {
        if let Some(count) = self.counts.get_mut(self.bounds.partition_point(|bound| *bound < value)) {
            *count += 1;
        }
        self.sum += value;
    }

    /// Bounds, and how many were counted in each bucket alone.
    pub(crate) fn buckets(&self) -> (&[f64], &[u64]) {
        (self.bounds, &self.counts)
    }

    /// All of them together.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
