//! What one run of templates may cost.

use crate::steps::Steps;

/// Templates that execute each other, with and without functions: Go's number.
pub(crate) const TEMPLATES_MAX: usize = 100_000;

/// Bounds of a run. A run is everything one [`Engine`](super::Engine) executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Parts of templates that are executed, and items that functions walk over.
    pub steps: u64,
    /// Bytes of texts and lists that are made on the way, thrown away or not.
    pub made_bytes: u64,
    /// Bytes of one text: what a template writes, what a function answers.
    pub text_bytes: usize,
    /// Functions that execute templates inside of each other: `include` and `tpl`. Actions may do so 100,000 times, as
    /// in Go.
    pub nesting: usize,
}

impl Default for Limits {
    /// Far above what public charts need: the largest writes 3 MB in half a million steps.
    fn default() -> Self {
        Self { steps: 200_000_000, made_bytes: 2 << 30, text_bytes: 64 << 20, nesting: 4_000 }
    }
}

/// Which limit was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// [`Limits::steps`].
    #[error("the template takes more than {0} steps")]
    Steps(u64),
    /// [`Limits::made_bytes`].
    #[error("the template makes more than {0} bytes")]
    MadeBytes(u64),
    /// [`Limits::text_bytes`].
    #[error("a text has more than {0} bytes")]
    TextBytes(usize),
    /// [`Limits::nesting`].
    #[error("more than {0} templates include each other")]
    Nesting(usize),
    /// Templates that execute each other, in Go's words.
    #[error("exceeded maximum template depth ({0})")]
    Templates(usize),
    /// Lists and maps inside each other.
    #[error("a value is nested more than {0} levels deep")]
    Depth(usize),
    /// The caller gave up.
    #[error("the template was cancelled")]
    Cancelled,
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    steps: Steps,
    made_bytes: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, steps: Steps::new(limits.steps), made_bytes: limits.made_bytes }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn steps_used(&self) -> u64 {
        self.steps.used()
    }

    pub(crate) fn steps(&mut self, steps: usize) -> Result<(), Exceeded> {
        self.steps.spend(steps).map_err(|exceeded| Exceeded::Steps(exceeded.limit))
    }

    /// Pays for a text of so many bytes before it is made.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.grown(bytes, bytes)
    }

    /// Pays for what was added to a text that has so many bytes now.
    pub(crate) fn grown(&mut self, bytes: usize, added: usize) -> Result<(), Exceeded> {
        if bytes > self.limits.text_bytes {
            return Err(Exceeded::TextBytes(self.limits.text_bytes));
        }
        self.bytes(added)
    }

    /// Pays for memory.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.made_bytes =
            self.made_bytes.checked_sub(bytes).ok_or(Exceeded::MadeBytes(self.limits.made_bytes))?;
        Ok(())
    }

    /// Pays for a list of so many items before it is made.
    pub(crate) fn items(&mut self, items: usize) -> Result<(), Exceeded> {
        self.steps(items)?;
        self.bytes(items.saturating_mul(size_of::<super::Value>()))
    }
}
