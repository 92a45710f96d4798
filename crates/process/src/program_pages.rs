//! The pages of the program itself.
//!
//! Start-up and a first sync touch most of the program, some 40 MB; what goes on after that needs a quarter of it. The
//! kernel takes the rest back only where memory is short, and until then it counts as this process's. Given back,
//! it stays in the page cache, from where what is needed again is mapped within microseconds.

#![expect(unsafe_code, reason = "giving pages back is a call that can do harm to others than these")]

use std::ffi::c_void;
use std::fs;
use std::ops::Range;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// How often pages are given back. Getting those back that are needed costs about a millisecond each time.
const INTERVAL: Duration = Duration::from_secs(10);
/// When that is first done: a process that finds little to do has started by then.
const FIRST: Duration = Duration::from_secs(3);

/// Gives pages of the program back for as long as the process runs; returns where there are none to give.
pub(crate) async fn give_back() {
    // Mappings of the program are made before `main` and never change.
    let ranges = match tokio::task::spawn_blocking(of_this_process).await {
        Ok(Ok(ranges)) => ranges,
        Ok(Err(error)) => return tracing::debug!(%error, "pages of the program stay in memory"),
        Err(error) => return tracing::debug!(%error, "pages of the program stay in memory"),
    };
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + FIRST, INTERVAL);
    while !ranges.is_empty() {
        interval.tick().await;
        for range in &ranges {
            drop_pages(range);
        }
    }
}

/// Where the program's text and constants are.
fn of_this_process() -> std::io::Result<Vec<Range<usize>>> {
    let program = fs::read_link("/proc/self/exe")?;
    Ok(read_only(&fs::read_to_string("/proc/self/smaps")?, &program.to_string_lossy()))
}

/// The mappings of `program` that nobody can write and in which no page is but that of the file. The table that the
/// loader fills and then protects is none of them: its pages are the process's own.
fn read_only(smaps: &str, program: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        if let Some(mapping) = Mapping::read(line) {
            current = (mapping.path == program && matches!(mapping.permissions, "r-xp" | "r--p"))
                .then_some(mapping.range);
        } else if line.split_whitespace().eq(["Anonymous:", "0", "kB"]) {
            found.extend(current.take());
        }
    }
    found
}

/// The first line about a mapping.
struct Mapping<'a> {
    range: Range<usize>,
    permissions: &'a str,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// `None` of a line that says something else.
    fn read(line: &'a str) -> Option<Self> {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let (permissions, rest) = rest.split_once(' ')?;
        // Offset, device and number of the file, then its path after some blanks.
        let path = rest.splitn(4, ' ').nth(3).unwrap_or_default().trim_start();
        Some(Self { range: address(start)?..address(end)?, permissions, path })
    }
}

fn drop_pages(range: &Range<usize>) {
    let start = std::ptr::with_exposed_provenance_mut::<c_void>(range.start);
    // SAFETY: the range is a whole mapping of the program's file, which the loader made and nobody unmaps. It cannot be
    // written, and none of its pages was: each is one of the file, which the kernel lets nobody change while it runs. The
    // next access finds the same bytes.
    if let Err(error) = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) } {
        tracing::debug!(%error, "pages of the program stay in memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
5000-6000 r--p 00000000 08:01 77                         /opt/a program
Size:                  4 kB
Anonymous:             0 kB
6000-9000 r-xp 00001000 08:01 77                         /opt/a program
Anonymous:             0 kB
9000-a000 r--p 00004000 08:01 77                         /opt/a program
Anonymous:             4 kB
a000-b000 rw-p 00005000 08:01 77                         /opt/a program
Anonymous:             0 kB
b000-c000 r-xp 00000000 08:01 78                         /lib/libm.so.6
Anonymous:             0 kB
c000-d000 r--p 00000000 00:00 0
Anonymous:             0 kB
VmFlags: rd mr mw me
";

    /// INV-10: only what is the file's own, byte for byte, is given back.
    #[test]
    fn inv_10_text_and_constants_go_back_and_nothing_that_was_written() {
        assert_eq!(read_only(SMAPS, "/opt/a program"), [0x5000..0x6000, 0x6000..0x9000]);
        assert!(read_only(SMAPS, "/opt/a").is_empty() && read_only("nonsense\n- - -\n", "").is_empty());
    }

    /// INV-10: this test goes on in pages that it has given back itself.
    #[test]
    fn inv_10_a_program_goes_on_after_its_pages_went_back() {
        let ranges = of_this_process().unwrap();
        let function = (drop_pages as fn(&Range<usize>)) as usize;
        assert!(ranges.iter().any(|range| range.contains(&function)), "{ranges:x?}");
        for range in &ranges {
            drop_pages(range);
        }
        assert_eq!(read_only(SMAPS, "/opt/a program").len(), 2);
    }
}
