//! Documents of a stream, before any of them is read.

use std::borrow::Cow;

/// Splits a stream at the lines that start with `---`.
///
/// Follows the line reader of apimachinery's `util/yaml`: a separator that says nothing more is dropped, one
/// that is followed by a comment or by content starts the document it belongs to; a last line without a line
/// end gets one, which is why the documents are [`Cow`]s. `---` that is not followed by a blank is content.
/// Documents of blank lines only are not skipped; they read as no value.
pub fn split_documents(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    Documents { rest: Some(text.strip_prefix('\u{feff}').unwrap_or(text)) }
}

struct Documents<'t> {
    rest: Option<&'t str>,
}

impl<'t> Iterator for Documents<'t> {
    type Item = Cow<'t, str>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let text = self.rest?;
            // The separator that starts this document belongs to it; the next one ends it.
            let (end, next) = next_separator(text);
            self.rest = next;
            let document = text.get(..end).unwrap_or_default();
            if document.is_empty() {
                continue;
            }
            return Some(if document.ends_with('\n') {
                Cow::Borrowed(document)
            } else {
                Cow::Owned(format!("{document}\n"))
            });
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
