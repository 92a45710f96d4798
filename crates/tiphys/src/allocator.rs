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

/// Number of mimalloc's option `page_max_candidates`.
const PAGE_CANDIDATES: c_int = 37;
/// Pages with room that are looked at for the fullest one. What a burst of work leaves behind stands in half-empty
/// pages; of 1,000 applications that is a megabyte more than with 16, and no processor time less.
const PAGE_CANDIDATES_MAX: c_long = 16;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Sets the options, unless the environment does. Comes before anything that starts a thread.
pub(crate) fn configure() {
    // SAFETY: the signature is that of `mimalloc.h` (an enum is an `int`); a number that is no option is ignored; it
    // writes one integer that only other threads could read at the same time, and there are none yet.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) }
    // SAFETY: as above.
    unsafe { mi_option_set_default(PAGE_CANDIDATES, PAGE_CANDIDATES_MAX) }
}

/// Memory never goes back to the system: a simulation needs the same again a moment later. Comes right after
/// [`configure`].
pub(crate) fn keep() {
    // SAFETY: as above.
    unsafe { mi_option_set_default(PURGE_DELAY, -1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    fn option(number: c_int) -> c_long {
        // SAFETY: as above; nobody writes options but this test.
        unsafe { mi_option_get(number) }
    }

    /// No option beside them has these defaults, so the numbers still name the options.
    #[test]
    fn inv_10_freed_memory_goes_back_soon() {
        assert_eq!(option(PURGE_DELAY), 1_000);
        assert_eq!([option(PAGE_CANDIDATES - 1), option(PAGE_CANDIDATES)], [2, 4]);
        configure();
        assert_eq!(option(PURGE_DELAY), PURGE_DELAY_MS);
        assert_eq!(option(PAGE_CANDIDATES), PAGE_CANDIDATES_MAX);
    }
}
