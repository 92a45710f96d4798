//! Scripts that extend the web interface, as one script (API-17).
//!
//! One that fails while it runs does not keep the others from running. What is too much is left out, and said.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode, header};
use tiphys_api::printable;
use tokio::sync::Semaphore;

use crate::http::{Body, body, plain};

/// Directories within directories that are looked into.
const DEPTH_MAX: usize = 16;
/// Names that are looked at.
const NAMES_MAX: usize = 10_000;
/// Bytes of all scripts.
const BYTES_MAX: u64 = 64 << 20;

/// The scripts of a directory.
pub(super) struct Extensions {
    directory: Option<PathBuf>,
    /// One answer is made at a time: it is large.
    turn: Semaphore,
}

impl Extensions {
    pub(super) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, turn: Semaphore::new(1) }
    }

    pub(super) async fn serve(self: Arc<Self>) -> Response<Body> {
        let Ok(_turn) = self.turn.acquire().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
        };
        let directory = self.directory.clone();
        let making = tokio::task::spawn_blocking(move || directory.map(|it| script(&it)).unwrap_or_default());
        let Ok(script) = making.await else {
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the extensions cannot be read\n");
        };
        let mut response = Response::new(body::full(script));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/javascript"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

/// All scripts of a directory as one, by their paths.
fn script(directory: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    let mut names = 0;
    gather(directory, DEPTH_MAX, &mut names, &mut found);
    found.sort_unstable();
    let (mut script, mut left) = (Vec::new(), BYTES_MAX);
    for path in found {
        // A name does not write the script's next line.
        let shown = printable::line(&path.display().to_string()).into_owned();
        let Some(text) = read(&path, left) else {
            tracing::warn!(file = %shown, "an extension of the web interface cannot be read or is too large");
            script.extend_from_slice(format!("// left out: {shown}\n").as_bytes());
            continue;
        };
        left = left.saturating_sub(text.len() as u64);
        script.extend_from_slice(format!("// source: {shown}\ntry {{\n").as_bytes());
        script.extend_from_slice(&text);
        script.extend_from_slice(b"\n} catch (e) { console.error('an extension failed:', e); }\n");
    }
    script
}

/// Finds scripts; links are not followed.
fn gather(directory: &Path, depth: usize, names: &mut usize, found: &mut Vec<PathBuf>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        *names += 1;
        if *names > NAMES_MAX {
            return;
        }
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        let is_script = name
            .to_str()
            .is_some_and(|name| name.strip_suffix(".js").is_some_and(|stem| stem.starts_with("extension")));
        if kind.is_dir() {
            gather(&entry.path(), depth, names, found);
        } else if kind.is_file() && is_script {
            found.push(entry.path());
        }
    }
}

/// A file of at most so many bytes.
fn read(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(bytes_max + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= bytes_max).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_17_scripts_become_one_by_their_paths_and_links_are_none() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        std::fs::create_dir_all(directory.join("b/c")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write("b/c/extension-two.js", "two() // ends in a comment");
        write("extension.js", "one()");
        write("other.js", "other()");
        write("extension.ts", "other()");
        write("secret", "other()");
        std::os::unix::fs::symlink(directory.join("secret"), directory.join("extension-link.js")).unwrap();
        std::os::unix::fs::symlink("/etc", directory.join("etc")).unwrap();
        write("extension\nalert(1)\n.js", "three()");
        let text = String::from_utf8(script(directory)).unwrap();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("two()") < at("three()") && at("three()") < at("one()"), "{text}");
        assert!(text.contains("try {\ntwo() // ends in a comment\n} catch (e)"), "{text}");
        assert!(!text.contains("other()") && !text.contains("\nalert(1)"), "{text}");
        assert_eq!(text.matches("// source: ").count(), 3);
        assert_eq!(script(&directory.join("none")), b"");
    }
}
