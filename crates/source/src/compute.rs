//! Threads as an argument: where long computations run.

/// Where computations run that take longer than a task may (STY-80).
#[derive(Clone, Copy, Debug)]
pub struct Compute {
    /// How many run at the same time; `None` runs them where they are asked for.
    threads: Option<usize>,
}

impl Compute {
    /// On threads of their own, as many as the machine has processors.
    pub fn threads() -> Self {
        Self { threads: Some(std::thread::available_parallelism().map_or(2, usize::from)) }
    }

    /// In the task that asks, which holds everything else up meanwhile.
    pub fn inline() -> Self {
        Self { threads: None }
    }

    /// How many computations run at the same time.
    pub fn parallelism(self) -> usize {
        self.threads.unwrap_or(1)
    }

    /// Runs a computation.
    ///
    /// # Errors
    /// A text, when it panics.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        if self.threads.is_some() {
            return tokio::task::spawn_blocking(work).await.map_err(|panic| panic.to_string());
        }
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
            .map_err(|_panic| "it panicked".to_owned())
    }

    /// Runs a computation on this thread, telling other tasks of it to go elsewhere.
    pub fn here<T>(self, work: impl FnOnce() -> T) -> T {
        if self.threads.is_some() { tokio::task::block_in_place(work) } else { work() }
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
