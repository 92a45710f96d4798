//! What chart repositories say of their charts (RND-109..111).
//!
//! An index is read as it comes, and of each version only what is needed is kept: indexes of 40 MB exist, and one of a
//! gigabyte may be served.

use std::collections::BTreeMap;
use std::io::Read;

use tiphys_go::yaml::pull::{Piece, Pull, PullError};

/// Bytes of one text of an index.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Nesting of an index.
const DEPTH_MAX: usize = 64;
/// Versions of all charts of one index.
const VERSIONS_MAX: usize = 1_000_000;
/// Bytes that are kept of one index.
const KEPT_BYTES_MAX: usize = 96 * 1024 * 1024;
/// Bytes of a description that are kept.
const DESCRIPTION_BYTES_MAX: usize = 2_000;

/// One version of a chart, as the index lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartVersion {
    /// The version, as written.
    pub version: String,
    /// Where the packed chart is; relative ones begin at the index.
    pub url: String,
    /// SHA-256 of the packed chart, in hex digits; empty where the index does not say.
    pub digest: String,
}

/// An index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartIndex {
    charts: BTreeMap<String, Vec<ChartVersion>>,
    bytes: usize,
}

/// Why an index cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// It is no index.
    #[error("the index of the repository cannot be read: {0}")]
    Broken(String),
    /// It is larger than it may be.
    #[error("the index of the repository {0}")]
    Exceeded(String),
}

impl From<PullError> for IndexError {
    fn from(error: PullError) -> Self {
        Self::Broken(error.text)
    }
}

impl ChartIndex {
    /// Reads an index.
    ///
    /// # Errors
    /// When it is no index, or too large. A part of an index is never taken for all of it.
    pub fn read(reader: impl Read) -> Result<Self, IndexError> {
        let mut pull = Pull::new(reader, TEXT_BYTES_MAX, DEPTH_MAX)?;
        let mut index = Self::default();
        let mut has_entries = false;
        if pull.next()? != Piece::Mapping {
            return Err(IndexError::Broken("it is no mapping".to_owned()));
        }
        while let Some(key) = key(&mut pull)? {
            if key != "entries" {
                pull.skip()?;
                continue;
            }
            has_entries = true;
            match pull.next()? {
                Piece::Mapping => {}
                // `entries:` of a repository without charts.
                Piece::Text("" | "~" | "null") => continue,
                _ => return Err(IndexError::Broken("its entries are no mapping".to_owned())),
            }
            while let Some(name) = self::key(&mut pull)? {
                index.chart(&mut pull, name)?;
            }
        }
        if has_entries { Ok(index) } else { Err(IndexError::Broken("it has no entries".to_owned())) }
    }

    fn chart(&mut self, pull: &mut Pull<'_>, name: String) -> Result<(), IndexError> {
        match pull.next()? {
            Piece::List => {}
            Piece::Text(_) => return Ok(()),
            _ => return Err(IndexError::Broken(format!("the versions of {name:?} are no list"))),
        }
        self.keep(name.len() + 100)?;
        let mut versions = Vec::new();
        loop {
            match pull.next()? {
                Piece::End => break,
                Piece::Mapping => versions.push(version(pull)?),
                // An entry of nothing; Helm passes over it.
                Piece::Text("" | "~" | "null") => continue,
                _ => return Err(IndexError::Broken(format!("a version of {name:?} is no mapping"))),
            }
            let kept = versions
                .last()
                .map_or(0, |one: &ChartVersion| one.version.len() + one.url.len() + one.digest.len());
            self.keep(kept + size_of::<ChartVersion>())?;
        }
        // A name that comes twice: the last one counts, as YAML has it.
        self.charts.insert(name, versions);
        Ok(())
    }

    fn keep(&mut self, bytes: usize) -> Result<(), IndexError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let versions = self.charts.values().map(Vec::len).max().unwrap_or(0);
        if self.bytes > KEPT_BYTES_MAX || versions > VERSIONS_MAX {
            return Err(IndexError::Exceeded(format!("lists more than {KEPT_BYTES_MAX} bytes of charts")));
        }
        Ok(())
    }

    /// Bytes that the index takes in memory, about.
    pub(crate) fn weight(&self) -> usize {
        self.bytes
    }

    /// The versions of a chart in order of the index; `None` when it lists no such chart.
    pub fn versions(&self, chart: &str) -> Option<&[ChartVersion]> {
        self.charts.get(chart).map(Vec::as_slice)
    }

    /// All charts with their versions.
    pub fn charts(&self) -> impl Iterator<Item = (&str, &[ChartVersion])> {
        self.charts.iter().map(|(name, versions)| (name.as_str(), versions.as_slice()))
    }
}

/// The next key of a mapping; `None` at its end.
fn key(pull: &mut Pull<'_>) -> Result<Option<String>, IndexError> {
    match pull.next()? {
        Piece::Text(text) => Ok(Some(text.to_owned())),
        Piece::End => Ok(None),
        Piece::Done => Err(IndexError::Broken("it breaks off".to_owned())),
        _ => Err(IndexError::Broken("a key is no text".to_owned())),
    }
}

/// One version, from inside of its mapping.
fn version(pull: &mut Pull<'_>) -> Result<ChartVersion, IndexError> {
    let mut found = ChartVersion::default();
    while let Some(key) = key(pull)? {
        match key.as_str() {
            "version" => found.version = text(pull)?,
            "digest" => found.digest = text(pull)?,
            "urls" => match pull.next()? {
                Piece::List => loop {
                    match pull.next()? {
                        Piece::End => break,
                        // Helm takes the first one.
                        Piece::Text(url) if found.url.is_empty() => url.clone_into(&mut found.url),
                        Piece::Text(_) => {}
                        _ => return Err(IndexError::Broken("the URL of a chart is no text".to_owned())),
                    }
                },
                Piece::Text(_) => {}
                _ => return Err(IndexError::Broken("the URLs of a chart are no list".to_owned())),
            },
            _ => pull.skip()?,
        }
    }
    Ok(found)
}

fn text(pull: &mut Pull<'_>) -> Result<String, IndexError> {
    match pull.next()? {
        Piece::Text(text) if text.len() <= DESCRIPTION_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(IndexError::Broken("a member of a version is no text".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "apiVersion: v1
generated: \"2026-01-01T00:00:00Z\"
entries:
  web:
    - {name: web, version: 1.2.0, urls: [web-1.2.0.tgz, other], digest: abc, maintainers: [{name: x}]}
    - name: web
      version: \"1.1.0\"
      urls:
      - https://cdn.example/web-1.1.0.tgz
  empty: []
  none:
";

    fn read(text: &str) -> Result<ChartIndex, IndexError> {
        ChartIndex::read(text.as_bytes())
    }

    #[test]
    fn rnd_109_an_index_is_read() {
        let index = read(INDEX).unwrap();
        let versions: Vec<_> = index
            .versions("web")
            .unwrap()
            .iter()
            .map(|one| (one.version.as_str(), one.url.as_str()))
            .collect();
        assert_eq!(versions, [("1.2.0", "web-1.2.0.tgz"), ("1.1.0", "https://cdn.example/web-1.1.0.tgz")]);
        assert_eq!(index.versions("web").unwrap()[0].digest, "abc");
        assert_eq!(index.versions("empty").map(<[_]>::len), Some(0));
        assert_eq!(index.versions("other"), None);
        assert_eq!(read("{entries: null}").unwrap(), ChartIndex::default());
        assert_eq!(read("{\"entries\": {\"a\": [{\"version\": \"1\"}]}}").unwrap().charts().count(), 1);
    }

    /// INV-1: what breaks off, or is a page that says hello, is no index without charts.
    #[test]
    #[expect(clippy::string_slice, reason = "the index is ASCII")]
    fn inv_1_what_is_no_index_is_an_error() {
        for text in
            ["", "hello", "<html></html>", "apiVersion: v1", "entries: [a]", "entries: {a: {b: c}}", "[]"]
        {
            assert!(matches!(read(text), Err(IndexError::Broken(_))), "{text}");
        }
        for length in (40..INDEX.len() - 60).step_by(7) {
            // What breaks off between two lines is YAML; what breaks off elsewhere may be.
            if let Ok(index) = read(&INDEX[..length]) {
                assert!(index.charts().count() <= 1, "{length}");
            }
        }
    }

    /// SEC-08: CVE-2024-29893.
    #[test]
    fn sec_08_a_hostile_index_has_a_bound() {
        struct Endless(usize);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let line = if self.0 == 0 {
                    "entries:\n  a:\n".to_owned()
                } else {
                    format!("  - {{version: 1.0.{}, urls: [{}]}}\n", self.0, "x".repeat(1_000))
                };
                self.0 += 1;
                let count = line.len().min(buffer.len());
                buffer[..count].copy_from_slice(&line.as_bytes()[..count]);
                Ok(count)
            }
        }

        let long = format!("entries: {{a: [{{version: {}}}]}}", "1".repeat(8 << 20));
        assert!(read(&long).is_err());
        let deep = format!("entries: {}1{}", "{a: ".repeat(1_000), "}".repeat(1_000));
        assert!(read(&deep).is_err());
        let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nentries: {web: [*c]}\n";
        assert!(read(bomb).is_err());
        assert!(matches!(ChartIndex::read(Endless(0)), Err(IndexError::Exceeded(_) | IndexError::Broken(_))));
    }
}
