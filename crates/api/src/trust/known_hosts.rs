//! Host keys for SSH (REP-81, REP-85).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::host::is_ssh_host;

/// One host key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHost {
    /// The host, or `[host]:port`.
    pub host: String,
    /// Kind of the key, for example `ssh-ed25519`.
    pub kind: String,
    /// The key in base64.
    pub data: String,
}

impl KnownHost {
    /// Fingerprint of the key as `ssh-keygen -l` prints it; `None` when the data is no base64.
    pub fn fingerprint(&self) -> Option<String> {
        let key = STANDARD.decode(&self.data).ok()?;
        Some(format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(key))))
    }

    /// An entry of a line. Comments, hashed hosts, marked lines and lines with fewer than three fields are none.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.trim().splitn(3, ' ');
        let (host, kind, rest) = (fields.next()?, fields.next()?, fields.next()?);
        let data = rest.split_whitespace().next()?;
        let is_entry = !host.starts_with(['#', '@', '|']) && !kind.is_empty();
        is_entry.then(|| Self { host: host.to_owned(), kind: kind.to_owned(), data: data.to_owned() })
    }

    fn line(&self) -> String {
        format!("{} {} {}", self.host, self.kind, self.data)
    }

    fn is_about(&self, other: &Self) -> bool {
        (&self.host, &self.kind) == (&other.host, &other.kind)
    }
}

/// A list of host keys, with the comments that stand in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    /// An entry, with its line as written.
    Entry(KnownHost, String),
    /// Everything else, which stays as it is.
    Other(String),
}

impl KnownHosts {
    /// Reads the text of a file.
    pub fn read(text: &str) -> Self {
        let line = |line: &str| match KnownHost::read(line) {
            Some(entry) => Line::Entry(entry, line.to_owned()),
            None => Line::Other(line.to_owned()),
        };
        Self { lines: text.lines().map(line).collect() }
    }

    /// The entries, in their order.
    pub fn entries(&self) -> impl Iterator<Item = &KnownHost> {
        self.lines.iter().filter_map(|line| match line {
            Line::Entry(entry, _) => Some(entry),
            Line::Other(_) => None,
        })
    }

    /// The entry for a host and a kind of key.
    pub fn same(&self, wanted: &KnownHost) -> Option<&KnownHost> {
        self.entries().find(|entry| entry.is_about(wanted))
    }

    /// Puts an entry in: in the place of that for the same host and kind, else at the end.
    pub fn put(&mut self, wanted: &KnownHost) {
        let new = Line::Entry(wanted.clone(), wanted.line());
        let place = self.lines.iter_mut().find(|line| match line {
            Line::Entry(entry, _) => entry.is_about(wanted),
            Line::Other(_) => false,
        });
        match place {
            Some(line) => *line = new,
            None => self.lines.push(new),
        }
    }

    /// Takes entries out, and says which.
    pub fn remove(&mut self, is_meant: impl Fn(&KnownHost) -> bool) -> Vec<KnownHost> {
        let mut removed = Vec::new();
        self.lines.retain(|line| match line {
            Line::Entry(entry, _) if is_meant(entry) => {
                removed.push(entry.clone());
                false
            }
            _ => true,
        });
        removed
    }

    /// The text: everything that was not changed stands as it stood.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let (Line::Entry(_, line) | Line::Other(line)) = line;
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Whether an entry names a host that may be stored.
    pub fn is_valid_host(entry: &KnownHost) -> bool {
        entry.host.split(',').all(is_ssh_host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# ours\n\ngit.acme.test ssh-ed25519 AAAA a comment\n|1|x=|y= ssh-rsa BBBB\n\
                        [git.acme.test]:2222 ssh-rsa BBBB\nbroken line\n@revoked h ssh-rsa BBBB\n";

    #[test]
    fn rep_81_entries_have_three_fields() {
        let hosts = KnownHosts::read(TEXT);
        let shown: Vec<String> = hosts.entries().map(KnownHost::line).collect();
        assert_eq!(shown, ["git.acme.test ssh-ed25519 AAAA", "[git.acme.test]:2222 ssh-rsa BBBB"]);
    }

    #[test]
    fn rep_85_comments_stay() {
        let mut hosts = KnownHosts::read(TEXT);
        let entry = |host: &str, kind: &str, data: &str| KnownHost {
            host: host.to_owned(),
            kind: kind.to_owned(),
            data: data.to_owned(),
        };
        assert_eq!(hosts.text(), TEXT);
        hosts.put(&entry("git.acme.test", "ssh-ed25519", "CCCC"));
        hosts.put(&entry("new.test", "ssh-rsa", "DDDD"));
        let removed = hosts.remove(|entry| entry.host.ends_with(":2222"));
        assert_eq!(removed.len(), 1);
        assert_eq!(
            hosts.text(),
            "# ours\n\ngit.acme.test ssh-ed25519 CCCC\n|1|x=|y= ssh-rsa BBBB\nbroken line\n\
             @revoked h ssh-rsa BBBB\nnew.test ssh-rsa DDDD\n"
        );
    }

    #[test]
    fn rep_83_fingerprints() {
        let of = |data: &str| {
            let entry = KnownHost { host: String::new(), kind: String::new(), data: data.to_owned() };
            entry.fingerprint()
        };
        // The key of github.com, whose fingerprint GitHub publishes.
        let key = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
        assert_eq!(of(key).as_deref(), Some("SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"));
        assert_eq!(of("***"), None);
    }
}
