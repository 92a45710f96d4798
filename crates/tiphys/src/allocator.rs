//! The allocator of the process.

#![expect(unsafe_code, reason = "options of mimalloc have a C interface and no other")]

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of mimalloc's option `purge_delay`; a test looks whether it still is.
const PURGE_DELAY: c_int = 15;
/// Milliseconds after which freed memory goes back to the system. Of itself mimalloc waits a second, and each
/// thread takes new memory meanwhile: large sources rendered one after another took as much as side by side. Sooner
/// costs more: in the simulation 10 ms took a quarter of the processor time, 100 ms a tenth.
const PURGE_DELAY_MS: c_long = 100;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Sets the options, unless the environment does. Comes before anything that starts a thread.
pub(crate) fn configure() {
    // SAFETY: the signature is that of `mimalloc.h` (an enum is an `int`); a number that is no option is ignored; it
    // writes one integer that only other threads could read at the same time, and there are none yet.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    fn purge_delay() -> c_long {
        // SAFETY: as above; nobody writes the option but this test.
        unsafe { mi_option_get(PURGE_DELAY) }
    }

    /// No other option has this default, so the number still names the option.
    #[test]
    fn inv_10_freed_memory_goes_back_soon() {
        assert_eq!(purge_delay(), 1_000);
        configure();
        assert_eq!(purge_delay(), PURGE_DELAY_MS);
    }
}
