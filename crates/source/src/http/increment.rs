//! Fetches what one commit adds to commits that are known completely.

use bytes::Bytes;

use super::connection::Connection;
use super::packet::{self, Packet};
use super::{HttpError, unexpected};

/// Bytes of one increment, which is held in memory; more is a matter for the git program.
const PACK_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the answer around the pack: frames, and progress that was not asked for.
const AROUND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a server sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Increment {
    /// A pack whose objects may be differences to objects of the known commits.
    pub(crate) pack: Vec<u8>,
    /// Whether the commit has parents, which were not sent.
    pub(crate) is_shallow: bool,
}

/// Asks for a commit without its history.
pub(super) async fn ask(
    connection: &mut Connection<'_>,
    commit: &str,
    known: &[String],
) -> Result<Increment, HttpError> {
    let mut body = connection.post(message(commit, known), PACK_BYTES_MAX + AROUND_BYTES_MAX).await?;
    let mut reader = Reader::new(commit, PACK_BYTES_MAX);
    while let Some(packet) = body.next().await.map_err(unusual)? {
        if reader.push(&packet)? {
            return Ok(reader.found);
        }
    }
    Err(unexpected("the pack"))
}

/// The git program has room for what is too large here.
fn unusual(error: HttpError) -> HttpError {
    match error {
        HttpError::TooLarge { .. } => HttpError::Unusual(error.to_string()),
        HttpError::Refused { .. } | HttpError::Unusual(_) => error,
    }
}

fn message(commit: &str, known: &[String]) -> Vec<u8> {
    let mut message = Vec::new();
    packet::write_line(&mut message, "command=fetch");
    message.extend_from_slice(b"0001");
    // Without `thin-pack` servers send everything again: only with it they look at the directories of commits
    // that have no history in common with the wanted one.
    for line in ["thin-pack", "no-progress", "ofs-delta", "deepen 1"] {
        packet::write_line(&mut message, line);
    }
    packet::write_line(&mut message, &format!("want {commit}"));
    for known in known {
        packet::write_line(&mut message, &format!("shallow {known}"));
        packet::write_line(&mut message, &format!("have {known}"));
    }
    packet::write_line(&mut message, "done");
    message.extend_from_slice(b"0000");
    message
}

/// Reads the answer packet by packet.
#[derive(Debug)]
struct Reader<'a> {
    commit: &'a str,
    bytes_max: usize,
    place: Place,
    found: Increment,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Section,
    Shallow,
    Pack,
}

impl<'a> Reader<'a> {
    fn new(commit: &'a str, bytes_max: usize) -> Self {
        Self { commit, bytes_max, place: Place::Section, found: Increment::default() }
    }

    /// Takes the next packet; `true` when that was the last one.
    fn push(&mut self, packet: &Packet) -> Result<bool, HttpError> {
        self.place = match (self.place, packet) {
            (Place::Section, Packet::Data(data)) => match packet::line(data).as_str() {
                "shallow-info" => Place::Shallow,
                "packfile" => Place::Pack,
                line => match line.strip_prefix("ERR ") {
                    // Its words may repeat what it was sent, so they are not kept (SEC-38).
                    Some(_why) => return Err(HttpError::Unusual("the server says no".to_owned())),
                    None => return Err(unexpected("the sections of the answer")),
                },
            },
            (Place::Shallow, Packet::Data(data)) => {
                let line = packet::line(data);
                if line.strip_prefix("shallow ") != Some(self.commit) {
                    return Err(unexpected("the ends of history"));
                }
                self.found.is_shallow = true;
                Place::Shallow
            }
            (Place::Shallow, Packet::Delimiter) => Place::Section,
            (Place::Pack, Packet::Data(data)) => {
                self.band(data)?;
                Place::Pack
            }
            (Place::Pack, Packet::Flush) => return Ok(true),
            (Place::Section | Place::Shallow | Place::Pack, _) => return Err(unexpected("the pack")),
        };
        Ok(false)
    }

    /// The first byte tells what the others are: content, progress or an error.
    fn band(&mut self, data: &Bytes) -> Result<(), HttpError> {
        match data.split_first() {
            Some((1, content)) if self.found.pack.len() + content.len() > self.bytes_max => {
                Err(HttpError::Unusual("the pack is too large to be held in memory".to_owned()))
            }
            Some((1, content)) => {
                self.found.pack.extend_from_slice(content);
                Ok(())
            }
            Some((2, _progress)) => Ok(()),
            Some((3, _why)) => Err(HttpError::Unusual("the server gives up".to_owned())),
            _ => Err(unexpected("the pack")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1234567890123456789012345678901234567890";

    fn read(packets: &[&str]) -> Result<Option<Increment>, HttpError> {
        let mut reader = Reader::new(ID, 5);
        for text in packets {
            let packet = match *text {
                "0000" => Packet::Flush,
                "0001" => Packet::Delimiter,
                text => Packet::Data(Bytes::copy_from_slice(text.as_bytes())),
            };
            if reader.push(&packet)? {
                return Ok(Some(reader.found));
            }
        }
        Ok(None)
    }

    #[test]
    fn rnd_29_the_question() {
        let message = message("w", &["a".to_owned(), "b".to_owned()]);
        let expected = "0012command=fetch\n0001000ethin-pack\n0010no-progress\n000eofs-delta\n000ddeepen 1\n000bwant w\n\
                        000eshallow a\n000bhave a\n000eshallow b\n000bhave b\n0009done\n0000";
        assert_eq!(String::from_utf8(message).unwrap(), expected);
    }

    #[test]
    fn rnd_29_the_answer() {
        let shallow = format!("shallow {ID}\n");
        let packets =
            ["shallow-info\n", &shallow, "0001", "packfile\n", "\u{1}PA", "\u{2}42%", "\u{1}CK", "0000"];
        let expected = Increment { pack: b"PACK".to_vec(), is_shallow: true };
        assert_eq!(read(&packets), Ok(Some(expected)));
        assert_eq!(read(&packets[..7]), Ok(None));
        let root = Increment { pack: b"P".to_vec(), is_shallow: false };
        assert_eq!(read(&["packfile", "\u{1}P", "0000"]), Ok(Some(root)));
    }

    #[test]
    fn rnd_29_surprises_in_the_answer() {
        let other = format!("shallow {}", "a".repeat(40));
        let unshallow = format!("unshallow {ID}");
        for packets in [
            vec!["acknowledgments"],
            vec!["ERR upload-pack: not our ref"],
            vec!["0000"],
            vec!["0001"],
            vec!["shallow-info", &other],
            vec!["shallow-info", &unshallow],
            vec!["packfile", "0001"],
            vec!["packfile", "\u{3}no"],
            vec!["packfile", "\u{4}"],
            vec!["packfile", ""],
            vec!["packfile", "\u{1}123", "\u{1}456"],
        ] {
            assert!(matches!(read(&packets), Err(HttpError::Unusual(_))), "{packets:?}");
        }
    }
}
