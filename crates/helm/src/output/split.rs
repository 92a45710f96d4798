//! One text into its documents (RND-201).

use crate::HelmVersion;

/// The documents of a rendered template that are not blank, without blanks before them; in Helm 3 also without
/// blanks behind them.
pub(super) fn documents(text: &str, version: HelmVersion) -> Vec<&str> {
    let pieces = pieces(text.trim_start()).into_iter();
    let trimmed = pieces.map(|piece| match version {
        HelmVersion::V3 => piece.trim(),
        HelmVersion::V4 => piece.trim_start(),
    });
    trimmed.filter(|piece| !piece.trim_end().is_empty()).collect()
}

/// Cuts at every line that begins with `---`; what stands behind the dashes belongs to the next piece.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            pieces.push(text.get(start..offset).unwrap_or_default());
            start = offset + 3;
        }
        offset += line.len();
    }
    pieces.push(text.get(start..).unwrap_or_default());
    pieces
}
