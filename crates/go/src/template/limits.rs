//! What one run of templates may cost.

use super::functions::Price;
use crate::live;
use crate::steps::Steps;

/// Templates that execute each other, with and without functions: Go's number.
pub(crate) const TEMPLATES_MAX: usize = 100_000;

/// Steps after which the caller is asked whether to go on.
const CHECK_STEPS: u64 = 4_096;

/// Bounds of a run. A run is everything one [`Engine`](super::Engine) executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Work. A step is about forty nanoseconds of a processor, whatever takes them: a part of a template that is
    /// executed, an item that a function walks over, or a part of what a function does by its [`Price`](super::Price).
    pub steps: u64,
    /// Bytes of texts and lists that are made on the way, thrown away or not.
    pub made_bytes: u64,
    /// Bytes that are held at the same time, where the allocator tells ([`live`]).
    pub live_bytes: usize,
    /// Bytes of one text: what a template writes, what a function answers.
    pub text_bytes: usize,
    /// Functions that execute templates inside of each other: `include` and `tpl`. Actions may do so 100,000 times, as
    /// in Go.
    pub nesting: usize,
}

impl Default for Limits {
    /// Far above what public charts need: the largest writes 3 MB in half a million steps. All steps are some eight
    /// seconds.
    fn default() -> Self {
        Self {
            steps: 200_000_000,
            made_bytes: 2 << 30,
            live_bytes: 96 << 20,
            text_bytes: 64 << 20,
            nesting: 4_000,
        }
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
    /// [`Limits::live_bytes`], or those of the work around the run.
    #[error("the template holds more than {0} bytes")]
    LiveBytes(usize),
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

impl From<live::Exceeded> for Exceeded {
    fn from(exceeded: live::Exceeded) -> Self {
        Self::LiveBytes(exceeded.bound)
    }
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    steps: Steps,
    made_bytes: u64,
    /// Steps at which the caller is asked next.
    check_at: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        let steps = Steps::new(limits.steps);
        Self { limits, steps, made_bytes: limits.made_bytes, check_at: CHECK_STEPS }
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

    /// Whether the caller has to be asked whether to go on, once for every so many steps.
    pub(crate) fn is_check_due(&mut self) -> bool {
        let is_due = self.steps.used() >= self.check_at;
        if is_due {
            self.check_at = self.steps.used().saturating_add(CHECK_STEPS);
        }
        is_due
    }

    /// Pays for a text of so many bytes before it is made.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.grown(bytes, bytes)
    }

    /// Pays for what is added to a text that has so many bytes then.
    pub(crate) fn grown(&mut self, bytes: usize, added: usize) -> Result<(), Exceeded> {
        if bytes > self.limits.text_bytes {
            return Err(Exceeded::TextBytes(self.limits.text_bytes));
        }
        self.bytes(added)
    }

    /// Pays for memory before it is taken.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<(), Exceeded> {
        live::reserve(bytes)?;
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

    /// Bytes of a text that a function may make: no more than there is room for, and than can be paid.
    pub(crate) fn text_room(&self, price: Price) -> usize {
        let left = self.limits.steps.saturating_sub(self.steps.used());
        let paid = left.saturating_mul(1_024).checked_div(u64::from(price.made)).unwrap_or(u64::MAX);
        let paid = usize::try_from(paid).unwrap_or(usize::MAX);
        self.limits.text_bytes.min(live::room()).min(paid)
    }

    /// Which limit it was that left less than [`Limits::text_bytes`] for a text.
    pub(crate) fn behind(&self, exceeded: Exceeded) -> Exceeded {
        match exceeded {
            Exceeded::TextBytes(bytes) if bytes < self.limits.text_bytes => {
                let is_held = live::room() <= bytes.saturating_mul(2);
                match live::bound().filter(|_| is_held) {
                    Some(bound) => Exceeded::LiveBytes(bound),
                    None => Exceeded::Steps(self.limits.steps),
                }
            }
            other => other,
        }
    }
}
