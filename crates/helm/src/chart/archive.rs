//! Packed charts: a gzipped tar whose one top directory is the chart (RND-168).
//!
//! Nothing is written anywhere: members become names and bytes. What a member's name or kind could do on a disk is
//! refused all the same (SEC-09).

use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use tar::EntryType;

use super::load::{Budget, load_files};
use super::{Chart, ChartError, File, LoadLimits};
use crate::HelmVersion;

/// How many times larger than its archive a chart may be, beyond the first mebibyte. Gzip cannot do 1 to 1,100.
const RATIO_MAX: u64 = 1_100;
const RATIO_FREE: u64 = 1 << 20;
/// Bytes of headers, padding and the like around the files of an archive.
const OVERHEAD_MAX: u64 = 64 << 20;

/// Reads a packed chart.
///
/// A link stands for an empty file, as in Helm, if it stays inside; what is neither file nor link nor directory is
/// an error.
pub fn load_archive(bytes: &[u8], version: HelmVersion, limits: &LoadLimits) -> Result<Chart, ChartError> {
    let mut budget = Budget::new(version, *limits);
    let files = unpack(bytes, &mut budget)?;
    load_files(files, &mut budget, 0)
}

/// Names and contents of the files of an archive, the top directory cut off.
pub(super) fn unpack(bytes: &[u8], budget: &mut Budget) -> Result<Vec<File>, ChartError> {
    if !bytes.starts_with(b"\x1f\x8b\x08") {
        return Err(ChartError::NotGzip);
    }
    let limit = budget.limits.archive_bytes;
    let expected = (bytes.len() as u64).saturating_mul(RATIO_MAX).saturating_add(RATIO_FREE);
    let stream = MultiGzDecoder::new(bytes).take(limit.saturating_add(OVERHEAD_MAX).min(expected));
    let mut archive = tar::Archive::new(stream);
    let mut left = limit;
    let mut files = Vec::new();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        budget.file()?;
        let kind = entry.header().entry_type();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if kind == EntryType::Directory || kind == EntryType::XGlobalHeader || name.ends_with('/') {
            continue;
        }
        let path = below_top(&name)?;
        match kind {
            EntryType::Symlink | EntryType::Link => {
                let target = entry.link_name_bytes().unwrap_or_default();
                check_link(&path, &String::from_utf8_lossy(&target), kind)?;
            }
            EntryType::Block | EntryType::Char | EntryType::Fifo => {
                return Err(ChartError::Irregular { name: path });
            }
            _ => {}
        }
        let size = entry.size();
        if size > left {
            return Err(ChartError::TooLarge { limit });
        }
        budget.file_size(&path, size)?;
        let mut data = Vec::new();
        entry.by_ref().take(left).read_to_end(&mut data).map_err(broken)?;
        left = left.saturating_sub(data.len() as u64);
        if (data.len() as u64) < size || left == 0 {
            return Err(ChartError::TooLarge { limit });
        }
        budget.bytes(data.len() as u64)?;
        files.push(File { name: path, data: without_mark(data.into()) });
    }
    if files.is_empty() { Err(ChartError::EmptyArchive) } else { Ok(files) }
}

#[expect(clippy::needless_pass_by_value, reason = "stands in `map_err`")]
fn broken(error: std::io::Error) -> ChartError {
    ChartError::Archive { what: error.to_string() }
}

/// A file's content without a byte order mark.
pub(super) fn without_mark(data: bytes::Bytes) -> bytes::Bytes {
    if data.starts_with(b"\xef\xbb\xbf") { data.slice(3..) } else { data }
}

/// The path of a member below the top directory.
fn below_top(name: &str) -> Result<String, ChartError> {
    let unsafe_name = |what: &'static str| ChartError::UnsafeName { what, name: name.to_owned() };
    let delimiter = if name.contains('\\') { '\\' } else { '/' };
    let (top, rest) = name.split_once(delimiter).unwrap_or((name, ""));
    let rest = rest.replace(delimiter, "/");
    if rest.starts_with('/') {
        return Err(unsafe_name("chart illegally contains absolute paths"));
    }
    let clean = tiphys_go::path::clean_relative(&rest);
    if clean == "." {
        return Err(unsafe_name("chart illegally contains content outside the base directory"));
    }
    if clean.starts_with("..") {
        return Err(unsafe_name("chart illegally references parent directory"));
    }
    let bytes = clean.as_bytes();
    if matches!(bytes, [drive, b':', b'/', ..] if drive.is_ascii_alphabetic()) {
        return Err(unsafe_name("chart contains illegally named files"));
    }
    if top == "Chart.yaml" {
        return Err(unsafe_name("chart yaml not in base directory"));
    }
    Ok(clean)
}

/// A symbolic link starts at its directory, which has to stay in the chart's; a hard link at the top of the archive.
fn check_link(path: &str, target: &str, kind: EntryType) -> Result<(), ChartError> {
    let outside = || ChartError::Link { name: path.to_owned() };
    if target.starts_with('/') {
        return Err(outside());
    }
    let base =
        if kind == EntryType::Symlink { path.rsplit_once('/').map_or("", |(base, _)| base) } else { "" };
    let mut depth = 0_i64;
    for part in base.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return Err(outside());
        }
    }
    Ok(())
}
