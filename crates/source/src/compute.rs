//! Threads as an argument: where long computations run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Clock;
use crate::turns::{Size, Turn, Turns};

/// Small turns at the same time, also with many processors: together they have one bound of memory.
const SMALL_TURNS_MAX: usize = 4;

/// Where computations run that take longer than a task may (STY-80). Cloning gives another handle to the same.
#[derive(Clone, Debug)]
pub struct Compute {
    /// How many run at the same time; `None` runs them where they are asked for.
    threads: Option<usize>,
    turns: Turns,
}

impl Compute {
    /// On threads of their own, as many as the machine has processors.
    pub fn threads() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self { threads: Some(threads), turns: Turns::new(threads.min(SMALL_TURNS_MAX), Some(Clock::real())) }
    }

    /// In the task that asks, which holds everything else up meanwhile.
    pub fn inline() -> Self {
        Self { threads: None, turns: Turns::new(1, None) }
    }

    /// How many computations run at the same time.
    pub fn parallelism(&self) -> usize {
        self.threads.unwrap_or(1)
    }

    /// Waits for a turn of a project, for work whose length it decides: what it renders and generates.
    pub async fn turn(&self, project: &str, size: Size) -> Turn {
        self.turns.take(project, size).await
    }

    /// Runs a computation.
    ///
    /// # Errors
    /// A text, when it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        if self.threads.is_some() {
            return tokio::task::spawn_blocking(work).await.map_err(|panic| panic.to_string());
        }
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
            .map_err(|_panic| "it panicked".to_owned())
    }

    /// Runs a computation on this thread, telling other tasks of it to go elsewhere.
    pub fn here<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.threads.is_some() { tokio::task::block_in_place(work) } else { work() }
    }
}

/// Somebody who waits for work on another thread. When they are dropped, because their time is over, the call is gone or the
/// process stops, the work is told, and ends at its next step.
#[derive(Debug, Default)]
pub struct StopOnDrop(Arc<AtomicBool>);

impl StopOnDrop {
    /// True when nobody waits any more.
    pub fn is_dropped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sty_80_a_panic_of_a_computation_is_an_error() {
        assert_eq!(Compute::inline().run(|| 7).await, Ok(7));
        assert!(Compute::inline().run(|| panic!("boom")).await.is_err());
        assert!(Compute::threads().run(|| panic!("boom")).await.is_err());
    }
}
