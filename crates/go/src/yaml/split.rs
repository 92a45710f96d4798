//! Documents of a stream, before any of them is read.

use std::borrow::Cow;

/// Splits a stream at the lines that start with `---`.
///
/// Follows the line reader of apimachinery's `util/yaml`: a separator that says nothing more is dropped, one
/// that is followed by a comment or by content starts the document it belongs to; a last line without a line
/// end gets one, which is why the documents are [`Cow`]s. `---` that is not followed by a blank is content.
/// Documents of blank lines only are not skipped; they read as no value.
pub fn split_documents(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    split_documents_at(text).map(|(_line, document)| document)
}

/// The same, each document with the number of lines before it.
pub fn split_documents_at(text: &str) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
    Documents { rest: Some(text.strip_prefix('\u{feff}').unwrap_or(text)), lines: 0 }
}

struct Documents<'t> {
    rest: Option<&'t str>,
    /// Lines before the rest.
    lines: u64,
}

fn count_lines(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

impl<'t> Iterator for Documents<'t> {
    type Item = (u64, Cow<'t, str>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let text = self.rest?;
            // The separator that starts this document belongs to it; the next one ends it.
            let (end, next) = next_separator(text);
            self.rest = next;
            let document = text.get(..end).unwrap_or_default();
            let before = self.lines;
            let taken = text.len().saturating_sub(next.map_or(0, str::len));
            self.lines += count_lines(text.get(..taken).unwrap_or_default());
            if document.is_empty() {
                continue;
            }
            let document = if document.ends_with('\n') {
                Cow::Borrowed(document)
            } else {
                Cow::Owned(format!("{document}\n"))
            };
            return Some((before, document));
        }
    }
}

/// Where the document ends and where the next one starts. A separator in the first line starts this one.
fn next_separator(text: &str) -> (usize, Option<&str>) {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if let Some(after) = line.strip_prefix("---")
            && after.starts_with([' ', '\t', '\r', '\n'])
        {
            if after.trim().is_empty() {
                return (offset, text.get(offset + line.len()..));
            }
            if offset > 0 {
                return (offset, text.get(offset..));
            }
        } else if line == "---" {
            return (offset, None);
        }
        offset += line.len();
    }
    (offset, None)
}
