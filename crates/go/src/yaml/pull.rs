//! Reads documents that are too large to be held in memory, piece by piece.

use std::io::Read;

use super::events::{Event, Events, Problem};

/// The next piece of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'e> {
    /// A text; what type it would have is not decided here.
    Text(&'e str),
    /// A mapping begins; its keys and values follow in turn, up to [`Piece::End`].
    Mapping,
    /// A list begins; its items follow, up to [`Piece::End`].
    List,
    /// What began last is over.
    End,
    /// A reference to what stood before, which is not kept.
    Alias,
    /// The first document is over; nothing follows.
    Done,
}

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PullError {
    /// What is wrong, and where.
    pub text: String,
}

impl From<Problem> for PullError {
    fn from(problem: Problem) -> Self {
        let text = match problem.line {
            0 => problem.text,
            line => format!("line {line}: {}", problem.text),
        };
        Self { text }
    }
}

/// The first document of a stream of bytes.
pub struct Pull<'r> {
    events: Events<'r>,
    depth: usize,
    depth_max: usize,
}

impl<'r> Pull<'r> {
    /// Starts to read; one text may have `text_bytes_max` bytes, and what is nested may be `depth_max` deep.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(reader: impl Read + 'r, text_bytes_max: usize, depth_max: usize) -> Result<Self, PullError> {
        Ok(Self { events: Events::from_reader(Box::new(reader), text_bytes_max)?, depth: 0, depth_max })
    }

    /// The next piece.
    ///
    /// # Errors
    /// When what follows is no YAML, is too large or cannot be read.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the reader")]
    pub fn next(&mut self) -> Result<Piece<'_>, PullError> {
        // Twice at most: a stream and its document begin once each.
        loop {
            let depth = self.depth;
            match self.events.next()? {
                Event::StreamStart | Event::DocumentStart { .. } => {}
                Event::DocumentEnd | Event::StreamEnd => return Ok(Piece::Done),
                Event::SequenceStart { .. } | Event::MappingStart { .. } if depth >= self.depth_max => {
                    return Err(PullError {
                        text: format!("nested more than {} levels deep", self.depth_max),
                    });
                }
                Event::SequenceStart { .. } => {
                    self.depth += 1;
                    return Ok(Piece::List);
                }
                Event::MappingStart { .. } => {
                    self.depth += 1;
                    return Ok(Piece::Mapping);
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    self.depth = depth.saturating_sub(1);
                    return Ok(Piece::End);
                }
                Event::Alias { .. } => return Ok(Piece::Alias),
                // Said again below, because what is handed out borrows.
                Event::Scalar(_) => break,
            }
        }
        match self.events.again() {
            Some(text) => Ok(Piece::Text(text?)),
            None => Ok(Piece::Done),
        }
    }

    /// Passes over the value that comes next: a text, or what begins, to its end.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn skip(&mut self) -> Result<(), PullError> {
        let outside = self.depth;
        loop {
            let is_done = self.next()? == Piece::Done;
            if is_done || self.depth <= outside {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, text_bytes_max: usize, depth_max: usize) -> Result<String, PullError> {
        let mut pull = Pull::new(text.as_bytes(), text_bytes_max, depth_max)?;
        let mut found = Vec::new();
        loop {
            let piece = pull.next()?;
            found.push(format!("{piece:?}"));
            if piece == Piece::Done {
                return Ok(found.join(" "));
            }
        }
    }

    #[test]
    fn sty_114_a_document_comes_in_pieces() {
        let found = pieces("a: [b, *c]\nd: &c {e: 'f'}\n---\nmore", 100, 10).unwrap();
        assert_eq!(
            found,
            "Mapping Text(\"a\") List Text(\"b\") Alias End Text(\"d\") Mapping Text(\"e\") Text(\"f\") End End Done"
        );
        assert_eq!(pieces("", 100, 10).unwrap(), "Done");
        assert!(pieces("a: [", 100, 10).unwrap_err().text.starts_with("line "));
        assert!(pieces("[[[1]]]", 100, 2).unwrap_err().text.contains("2 levels"));
        let long = "x".repeat(10_000_000);
        assert!(pieces(&long, 1_000_000, 2).unwrap_err().text.contains("in one piece"));
        let many = "- abc\n".repeat(500_000);
        assert!(pieces(&many, 1_000_000, 2).is_ok());
    }

    #[test]
    fn sty_114_what_is_of_no_interest_is_passed_over() {
        let mut pull = Pull::new("a: {b: [1, {c: d}]}\ne: f".as_bytes(), 100, 10).unwrap();
        assert_eq!(pull.next().unwrap(), Piece::Mapping);
        assert_eq!(pull.next().unwrap(), Piece::Text("a"));
        pull.skip().unwrap();
        assert_eq!(pull.next().unwrap(), Piece::Text("e"));
        pull.skip().unwrap();
        assert_eq!(pull.next().unwrap(), Piece::End);
        assert_eq!(pull.next().unwrap(), Piece::Done);
    }

    #[test]
    fn f20_a_reader_that_breaks_off_is_an_error() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _buffer: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::ConnectionReset.into())
            }
        }
        let error = Pull::new("a: b\nc: d\n".as_bytes().chain(Broken), 100, 10).and_then(|mut pull| {
            loop {
                if pull.next()? == Piece::Done {
                    return Ok(());
                }
            }
        });
        assert!(error.is_err());
    }
}
