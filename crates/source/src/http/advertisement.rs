//! What a server says first: its capabilities, or in older versions of the protocol its refs.

use super::connection::SERVICE;
use super::packet::{self, Packet};
use super::{HttpError, unexpected};
use crate::refs::HEAD;

/// The answer to the first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Advertisement {
    /// The second version: what may be asked.
    Capabilities {
        /// Refs.
        lists: bool,
        /// Single commits without history.
        sends: bool,
    },
    /// The first versions: all refs, as [`RefLines`] writes them.
    Refs(Vec<u8>),
}

/// Reads an advertisement packet by packet.
#[derive(Debug)]
pub(super) struct Reader {
    place: Place,
    lines: RefLines,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Nothing was read yet.
    Start,
    /// After the name of the service.
    Service,
    /// Before the line that tells the version.
    Version,
    Capabilities {
        lists: bool,
        sends: bool,
    },
    Refs,
}

impl Reader {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { place: Place::Start, lines: RefLines::new(bytes_max) }
    }

    /// Takes the next packet; the advertisement when that was the last one.
    pub(super) fn push(&mut self, packet: &Packet) -> Result<Option<Advertisement>, HttpError> {
        let line = match packet {
            Packet::Data(data) => Some(packet::line(data)),
            Packet::Flush => None,
            Packet::Delimiter | Packet::End => return Err(unexpected("the advertisement")),
        };
        self.place = match (self.place, line.as_deref()) {
            (Place::Start, Some(line)) if line == format!("# service={SERVICE}") => Place::Service,
            (Place::Service, None) => Place::Version,
            (Place::Start | Place::Version, Some("version 2")) => {
                Place::Capabilities { lists: false, sends: false }
            }
            (Place::Start | Place::Version, Some("version 1")) => Place::Version,
            (Place::Version, Some(line)) => self.first_ref(line)?,
            (Place::Capabilities { lists, sends }, Some(line)) => capability(line, lists, sends)?,
            (Place::Refs, Some(line)) => {
                // Shallow servers say where their history ends.
                if !line.starts_with("shallow ") {
                    self.lines.push(line)?;
                }
                Place::Refs
            }
            (Place::Capabilities { lists, sends }, None) => {
                return Ok(Some(Advertisement::Capabilities { lists, sends }));
            }
            (Place::Refs | Place::Version, None) => {
                return Ok(Some(Advertisement::Refs(self.lines.take())));
            }
            (Place::Start, _) | (Place::Service, Some(_)) => return Err(unexpected("the advertisement")),
        };
        Ok(None)
    }

    /// The first ref of the old versions, which carries the capabilities.
    fn first_ref(&mut self, line: &str) -> Result<Place, HttpError> {
        let (line, capabilities) = line.split_once('\0').unwrap_or((line, ""));
        for capability in capabilities.split(' ') {
            refuse_other_hash(capability)?;
            if let Some(target) = capability.strip_prefix("symref=HEAD:") {
                self.lines.head(target)?;
            }
        }
        // The name of no ref, in a repository without any.
        if !line.ends_with(" capabilities^{}") {
            self.lines.push(line)?;
        }
        Ok(Place::Refs)
    }
}

fn capability(line: &str, lists: bool, sends: bool) -> Result<Place, HttpError> {
    refuse_other_hash(line)?;
    let (name, values) = line.split_once('=').unwrap_or((line, ""));
    Ok(Place::Capabilities {
        lists: lists || name == "ls-refs",
        sends: sends || name == "fetch" && values.split(' ').any(|value| value == "shallow"),
    })
}

fn refuse_other_hash(capability: &str) -> Result<(), HttpError> {
    match capability.strip_prefix("object-format=") {
        None | Some("sha1") => Ok(()),
        Some(_) => Err(HttpError::Unusual("the repository uses another hash".to_owned())),
    }
}

/// Collects refs in the format of `git ls-remote`.
#[derive(Debug)]
pub(super) struct RefLines {
    text: Vec<u8>,
    bytes_max: usize,
}

impl RefLines {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { text: Vec::new(), bytes_max }
    }

    /// Adds `<id> <name>[ symref-target:<name>][ peeled:<id>]`.
    pub(super) fn push(&mut self, line: &str) -> Result<(), HttpError> {
        if line.starts_with("ERR ") {
            // Its words may repeat what it was sent, so they are not kept (SEC-38).
            return Err(HttpError::Unusual("the server says no".to_owned()));
        }
        let mut words = line.split(' ');
        let (Some(id), Some(name)) = (words.next(), words.next()) else {
            return Err(unexpected("the list of refs"));
        };
        for word in words {
            if let Some(target) = word.strip_prefix("symref-target:").filter(|_| name == HEAD) {
                self.head(target)?;
            }
        }
        self.add(id, name)?;
        match line.split(' ').skip(2).find_map(|word| word.strip_prefix("peeled:")) {
            Some(peeled) => self.add(peeled, &format!("{name}^{{}}")),
            None => Ok(()),
        }
    }

    /// Adds which ref `HEAD` means, as `git ls-remote --symref` does.
    fn head(&mut self, target: &str) -> Result<(), HttpError> {
        if target.is_empty() || target.chars().any(char::is_control) {
            return Err(unexpected("the list of refs"));
        }
        self.extend(&format!("ref: {target}\t{HEAD}\n"))
    }

    fn add(&mut self, id: &str, name: &str) -> Result<(), HttpError> {
        if !crate::refs::is_commit_sha(id) || name.is_empty() || name.chars().any(char::is_control) {
            return Err(unexpected("the list of refs"));
        }
        self.extend(&format!("{id}\t{name}\n"))
    }

    fn extend(&mut self, line: &str) -> Result<(), HttpError> {
        self.text.extend_from_slice(line.as_bytes());
        if self.text.len() > self.bytes_max {
            return Err(HttpError::TooLarge { limit: self.bytes_max });
        }
        Ok(())
    }

    /// The refs so far.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const ID: &str = "1234567890123456789012345678901234567890";

    fn read(lines: &[&str]) -> Result<Option<Advertisement>, HttpError> {
        let mut reader = Reader::new(200);
        for line in lines {
            let packet = match *line {
                "0000" => Packet::Flush,
                "0001" => Packet::Delimiter,
                text => Packet::Data(Bytes::from(format!("{text}\n"))),
            };
            if let Some(found) = reader.push(&packet)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn refs(text: &str) -> Advertisement {
        Advertisement::Refs(text.as_bytes().to_vec())
    }

    #[test]
    fn rnd_29_the_second_version() {
        let second = ["version 2", "agent=git/2", "ls-refs=unborn", "fetch=wait-for-done shallow", "0000"];
        let both = Ok(Some(Advertisement::Capabilities { lists: true, sends: true }));
        assert_eq!(read(&second), both);
        let prefixed = [&["# service=git-upload-pack", "0000"][..], &second[..]].concat();
        assert_eq!(read(&prefixed), both);
        let nothing = Ok(Some(Advertisement::Capabilities { lists: false, sends: false }));
        assert_eq!(read(&["version 2", "fetch=filter", "0000"]), nothing);
        assert!(read(&["version 2", "object-format=sha256"]).is_err());
    }

    #[test]
    fn rnd_29_the_first_versions() {
        let first = format!("{ID} HEAD\0multi_ack symref=HEAD:refs/heads/main object-format=sha1");
        let (main, shallow) = (format!("{ID} refs/heads/main"), format!("shallow {ID}"));
        let expected = refs(&format!("ref: refs/heads/main\tHEAD\n{ID}\tHEAD\n{ID}\trefs/heads/main\n"));
        let service = "# service=git-upload-pack";
        assert_eq!(read(&[service, "0000", &first, &main, &shallow, "0000"]), Ok(Some(expected.clone())));
        assert_eq!(read(&[service, "0000", "version 1", &first, &main, "0000"]), Ok(Some(expected)));
        let empty = format!("{} capabilities^{{}}\0multi_ack", "0".repeat(40));
        assert_eq!(read(&[service, "0000", &empty, "0000"]), Ok(Some(refs(""))));
        assert_eq!(read(&[service, "0000", "0000"]), Ok(Some(refs(""))));
        assert!(read(&[service, "0000", &format!("{ID} HEAD\0object-format=sha256")]).is_err());
    }

    #[test]
    fn rnd_29_surprises_are_errors() {
        let service = "# service=git-upload-pack";
        for lines in [
            vec!["0000"],
            vec!["# service=git-receive-pack"],
            vec![service, "x"],
            vec![service, "0000", "ERR no"],
            vec![service, "0000", "1234 HEAD"],
            vec![service, "0000", ID],
            vec!["version 2", "0001"],
        ] {
            assert!(matches!(read(&lines), Err(HttpError::Unusual(_))), "{lines:?}");
        }
        let name = "x".repeat(100);
        let line = format!("{ID} {name}");
        let error = read(&[service, "0000", &line, &line]);
        assert_eq!(error, Err(HttpError::TooLarge { limit: 200 }));
    }

    #[test]
    fn rnd_29_peeled_tags() {
        let mut lines = RefLines::new(1000);
        lines.push(&format!("{ID} refs/tags/v1 peeled:{}", "a".repeat(40))).unwrap();
        lines.push(&format!("{ID} HEAD symref-target:refs/heads/main")).unwrap();
        let text = String::from_utf8(lines.take()).unwrap();
        let peeled = "a".repeat(40);
        let expected = format!(
            "{ID}\trefs/tags/v1\n{peeled}\trefs/tags/v1^{{}}\nref: refs/heads/main\tHEAD\n{ID}\tHEAD\n"
        );
        assert_eq!(text, expected);
        assert!(lines.push("unborn HEAD symref-target:refs/heads/main").is_err());
    }
}
