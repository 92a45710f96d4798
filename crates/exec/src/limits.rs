//! What a child may use of the machine.
//!
//! A child sets the limits on itself before it is the program that was wanted ([`launch`](crate::launch)); children
//! of the child inherit all of them. The number of processes is not limited here: the kernel counts those of the user
//! on the whole node, other containers' too.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Limits of one child and, each for itself, of the children it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory that belongs to the child alone: its heap and what it maps without a file.
    pub memory_bytes: u64,
    /// Bytes of addresses, files that are mapped included; `None` for programs that reserve what they never use.
    pub address_bytes: Option<u64>,
    /// Time on processors; one second more kills a child that goes on after the signal.
    pub cpu: Duration,
    /// Bytes of the largest file it writes.
    pub file_bytes: u64,
    /// Open files.
    pub open_files: u64,
}

impl Default for Limits {
    /// Enough for everything a well-behaved program of ours does: 2 GiB of memory, 10 minutes of a processor, files
    /// of 4 GiB, 1,024 open files.
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            address_bytes: None,
            cpu: Duration::from_mins(10),
            file_bytes: 4 << 30,
            open_files: 1024,
        }
    }
}

impl Limits {
    /// The limits as one word of a command line.
    pub(crate) fn word(&self) -> String {
        let addresses = self.address_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let Self { memory_bytes, address_bytes: _, cpu, file_bytes, open_files } = self;
        format!("{memory_bytes},{addresses},{},{file_bytes},{open_files}", cpu.as_secs())
    }

    /// Reads what [`Self::word`] wrote.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let mut parts = word.split(',');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let memory_bytes = number()?;
        let address_bytes = match parts.next()? {
            "-" => None,
            bytes => Some(bytes.parse().ok()?),
        };
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (cpu, file_bytes, open_files) = (Duration::from_secs(number()?), number()?, number()?);
        parts.next().is_none().then_some(Self { memory_bytes, address_bytes, cpu, file_bytes, open_files })
    }

    /// Binds a child, or this process, to these limits; memory dumps are never written.
    pub(crate) fn bind(&self, child: Option<Pid>) -> std::io::Result<()> {
        let seconds = self.cpu.as_secs().max(1);
        let set = [
            (Resource::Core, 0, 0),
            (Resource::Data, self.memory_bytes, self.memory_bytes),
            (Resource::Cpu, seconds, seconds.saturating_add(1)),
            (Resource::Fsize, self.file_bytes, self.file_bytes),
            (Resource::Nofile, self.open_files, self.open_files),
        ];
        let addresses = self.address_bytes.map(|bytes| (Resource::As, bytes, bytes));
        for (resource, soft, hard) in set.into_iter().chain(addresses) {
            // The child has our limits, and only a privileged process may raise them.
            let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let limit = Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) };
            prlimit(child, resource, limit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Invocation, start};

    fn shell(script: &str, limits: Limits) -> Invocation {
        Invocation {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            directory: "/".into(),
            deadline: Duration::from_mins(1),
            grace: Duration::ZERO,
            stdout_bytes_max: 10_000,
            limits,
        }
    }

    #[test]
    fn sty_113_limits_are_read_as_written() {
        for address_bytes in [None, Some(5)] {
            let limits = Limits { address_bytes, ..Limits::default() };
            assert_eq!(Limits::of_word(&limits.word()), Some(limits));
        }
        for word in ["", "1,-,1,1", "1,-,1,1,1,1", "1,,1,1,1", "-,-,1,1,1", "1,-,1,1,-1"] {
            assert_eq!(Limits::of_word(word), None, "{word}");
        }
    }

    /// Every child is bound to its limits, and so are its children (STY-113, SEC-10).
    #[tokio::test]
    async fn sec_10_children_are_bound_to_their_limits() {
        let limits = Limits {
            memory_bytes: 512 << 20,
            address_bytes: Some(1 << 30),
            cpu: Duration::from_secs(7),
            file_bytes: 1 << 20,
            open_files: 50,
        };
        // What it reads comes after the limits.
        let script = "read go; cat /proc/self/limits";
        let output = start(&shell(script, limits)).unwrap().converse(b"go\n").await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let found = |name: &str| {
            let values = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let numbers: Vec<&str> = values.split_whitespace().take(2).collect();
            format!("{} {}", numbers[0], numbers[1])
        };
        assert_eq!(found("Max core file size"), "0 0");
        assert_eq!(found("Max data size"), "536870912 536870912");
        assert_eq!(found("Max address space"), "1073741824 1073741824");
        assert_eq!(found("Max cpu time"), "7 8");
        assert_eq!(found("Max file size"), "1048576 1048576");
        assert_eq!(found("Max open files"), "50 50");
    }

    /// A child that eats memory, writes without end or computes without end is stopped by its limits (SEC-10).
    #[tokio::test]
    async fn sec_10_limits_stop_a_greedy_child() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("endless");
        let limits = Limits {
            memory_bytes: 64 << 20,
            file_bytes: 1 << 20,
            cpu: Duration::from_secs(1),
            ..Limits::default()
        };
        let memory = "x=0123456789abcdef; while :; do x=$x$x; done";
        let endless = format!("exec cat /dev/zero > {}", file.display());
        for script in [memory, &endless, "while :; do :; done"] {
            // What it reads comes after the limits.
            let child = start(&shell(&format!("read go; {script}"), limits)).unwrap();
            let output = child.converse(b"go\n").await.unwrap();
            assert_ne!(output.code, Some(0), "{script}: {output:?}");
        }
        assert!(std::fs::metadata(&file).unwrap().len() <= 1 << 20);
    }
}
