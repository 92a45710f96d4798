//! The allocator of the process, which tells what each thread is given and gives back.

#![expect(
    unsafe_code,
    reason = "options of mimalloc have a C interface and no other, and an allocator is an unsafe interface"
)]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};

use mimalloc::MiMalloc;
use tiphys_go::live;

/// mimalloc, with the bytes of each thread counted: foreign work has a bound of what it may hold (SEC-07). That costs an
/// addition for each call; of a rendering of a large chart it was less than one part in a hundred.
struct Counted;

// SAFETY: every call is passed on to mimalloc unchanged, and what it returns is returned.
unsafe impl GlobalAlloc for Counted {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        live::allocated(layout.size());
        // SAFETY: the caller's promises are mimalloc's.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        live::allocated(layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        live::freed(layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        live::freed(layout.size());
        live::allocated(size);
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

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

    /// The bound of what foreign work holds is one only if the allocator tells.
    #[test]
    fn sec_07_what_a_thread_holds_is_counted() {
        let (full, empty) = live::within(10 << 20, || {
            let held = vec![7_u8; 1 << 20];
            let full = live::room();
            drop(std::hint::black_box(held));
            (full, live::room())
        });
        assert!(full <= 9 << 20 && empty > 9 << 20, "{full} {empty}");
        let refused = live::within(1 << 20, || {
            let mut held = Vec::new();
            while live::check().is_ok() {
                held.push(std::hint::black_box(vec![7_u8; 1_000]));
            }
            held.len()
        });
        assert!((900..1_100).contains(&refused), "{refused}");
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
