//! Processor time of a group of processes, as Linux counts it.

use std::fs;
use std::time::Duration;

use rustix::process::Pid;

/// Fields of `/proc/PID/stat` after the name of the program: group, and the times in ticks.
const GROUP: usize = 2;
const TIMES: std::ops::Range<usize> = 11..15;
/// Milliseconds of one tick, which Linux keeps the same for all programs (`USER_HZ`).
const TICK_MS: u64 = 10;

/// Processor time that the processes of a group have used, with that of their children that ended. Where the system
/// does not count, it is zero.
pub(crate) fn processor_time(group: Pid) -> Duration {
    let group = group.as_raw_nonzero().get();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter(|process| {
        process.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let ticks = stats
        // A process that ended meanwhile is counted by its parent.
        .filter_map(|process| fs::read_to_string(process.path().join("stat")).ok())
        .filter_map(|stat| ticks_of(&stat, group))
        .fold(0_u64, u64::saturating_add);
    Duration::from_millis(ticks.saturating_mul(TICK_MS))
}

/// Ticks of one process; `None` when it is of another group.
fn ticks_of(stat: &str, group: i32) -> Option<u64> {
    // The name may hold blanks and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    if fields.get(GROUP)?.parse::<i32>().ok()? != group {
        return None;
    }
    let times = fields.get(TIMES)?.iter().map(|ticks| ticks.parse::<u64>().unwrap_or(0));
    Some(times.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_10_ticks_of_a_group_are_read() {
        let stat = "4242 (a (b) c) R 1 77 4242 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 5 6 7";
        assert_eq!(ticks_of(stat, 77), Some(110));
        assert_eq!(ticks_of(stat, 78), None);
        assert_eq!(ticks_of("", 77), None);
        assert_eq!(ticks_of("1 (x) R 1 77", 77), None);
    }
}
