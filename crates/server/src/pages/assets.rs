//! The files of a web interface: those of a directory, and one page for all of its addresses (API-13..16).
//!
//! Which file a path means is decided by [`relative`], whether it may be shown by [`open`]: a regular file that is in the
//! directory when all links are followed. Files are read piece by piece while they are sent.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use tiphys_wire::rest::path_decode;
use tokio::sync::Semaphore;

use super::html::{self, escape};
use super::not_found;
use crate::http::{Body, body, plain};

/// Bytes of the page for all addresses, which is changed before it is sent.
const INDEX_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Files that are looked for at a time: disks may be slow, and threads are for everybody.
const LOOKS_MAX: usize = 16;
/// Letters of a digest in the name of the main script (API-16).
const DIGEST_CHARS: usize = 20;
/// What keeps an answer out of every cache (API-14).
const UNCACHED: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-cache, private, max-age=0"),
    (header::EXPIRES, "Thu, 01 Jan 1970 00:00:00 GMT"),
    (header::PRAGMA, "no-cache"),
    (HeaderName::from_static("x-accel-expires"), "0"),
];

/// How files are shown.
#[derive(Clone, Debug)]
pub struct AssetOptions {
    /// Where they are.
    pub directory: PathBuf,
    /// The path that everything is below, as browsers see it; no slash at its end.
    pub base: String,
    /// Who may frame pages; no header where there is none.
    pub frame_options: Option<HeaderValue>,
    /// What pages may load; no header where there is none.
    pub content_policy: Option<HeaderValue>,
}

/// The files.
pub(super) struct Assets {
    options: AssetOptions,
    looks: Arc<Semaphore>,
}

/// What is answered to a path.
enum Answer {
    /// A file, which may be kept for ever or not.
    File(Found),
    /// The page for all addresses.
    Index(String),
    /// There is no web interface.
    NotInstalled,
    /// Nothing; the main script of another version is not remembered to be missing.
    Nothing { is_main: bool },
}

/// A file that may be shown.
struct Found {
    file: File,
    length: u64,
    tag: String,
    kind: &'static str,
    is_immutable: bool,
}

impl Assets {
    pub(super) fn new(options: AssetOptions) -> Self {
        Self { options, looks: Arc::new(Semaphore::new(LOOKS_MAX)) }
    }

    /// Answers a request for a file or for an address of the web interface.
    pub(super) async fn serve(self: Arc<Self>, parts: Parts) -> Response<Body> {
        let Ok(turn) = Arc::clone(&self.looks).acquire_owned().await else { return not_found() };
        let (path, headers) = (parts.uri.path().to_owned(), parts.headers);
        let is_for_people = wants_html(&headers) || path == "/";
        let (directory, base) = (self.options.directory.clone(), self.options.base.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let answer = look(&directory, &base, &path, is_for_people);
            drop(turn);
            answer
        });
        let Ok(answer) = looking.await else {
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be read\n");
        };
        let is_root = parts.uri.path() == "/";
        let mut response = match answer {
            Answer::File(found) => sent(found, &headers),
            Answer::Index(page) => uncached(html_page(page)),
            Answer::NotInstalled => {
                let mut response =
                    uncached(html_page(not_installed(&self.options.directory, &self.options.base)));
                if !is_root {
                    *response.status_mut() = StatusCode::NOT_FOUND;
                }
                if let Ok(policy) = HeaderValue::from_str(&html::policy()) {
                    response.headers_mut().append(CONTENT_SECURITY_POLICY, policy);
                }
                response
            }
            Answer::Nothing { is_main: true } => uncached(not_found()),
            Answer::Nothing { is_main: false } => not_found(),
        };
        self.guard(response.headers_mut());
        response
    }

    /// What all answers say (API-15).
    fn guard(&self, headers: &mut HeaderMap) {
        if let Some(value) = &self.options.frame_options {
            headers.insert(X_FRAME_OPTIONS, value.clone());
        }
        if let Some(value) = &self.options.content_policy {
            headers.append(CONTENT_SECURITY_POLICY, value.clone());
        }
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::X_XSS_PROTECTION, HeaderValue::from_static("1"));
        headers.insert("x-robots-tag", HeaderValue::from_static("noindex, nofollow"));
    }
}

/// Finds what answers a path.
fn look(directory: &Path, base: &str, path: &str, is_for_people: bool) -> Answer {
    let relative = relative(path);
    let is_index = relative.as_deref() == Some(Path::new("index.html"));
    if let Some(relative) = relative.as_deref().filter(|_| !is_index)
        && let Some(found) = open(directory, relative, FILE_BYTES_MAX)
    {
        return Answer::File(found);
    }
    if !is_index && !is_for_people {
        let is_main = relative.as_deref().and_then(Path::to_str).is_some_and(is_main_script);
        return Answer::Nothing { is_main };
    }
    match open(directory, Path::new("index.html"), INDEX_BYTES_MAX).and_then(|index| text(index.file)) {
        Some(page) => Answer::Index(with_base(&page, base)),
        None => Answer::NotInstalled,
    }
}

/// Whether a client shows pages to people.
fn wants_html(headers: &HeaderMap) -> bool {
    let mut texts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    texts.any(|text| text.contains("text/html"))
}

/// The file that a path means, below the directory; `None` where it means none. The root means `index.html`.
fn relative(path: &str) -> Option<PathBuf> {
    let decoded = path_decode(path).ok()?;
    let inner = decoded.strip_prefix('/')?;
    if inner.is_empty() {
        return Some(PathBuf::from("index.html"));
    }
    let is_piece = |piece: &str| !matches!(piece, "" | "." | "..") && !piece.contains(['\0', '\\']);
    if !inner.split('/').all(is_piece) {
        return None;
    }
    let found = PathBuf::from(inner);
    found.components().all(|piece| matches!(piece, Component::Normal(_))).then_some(found)
}

/// A regular file in the directory of at most so many bytes; links that lead out of it are not followed.
fn open(directory: &Path, relative: &Path, bytes_max: u64) -> Option<Found> {
    let root = directory.canonicalize().ok()?;
    let place = root.join(relative).canonicalize().ok()?;
    if !place.starts_with(&root) {
        tracing::warn!(file = %relative.display(), "a file of the web interface is a link out of its directory");
        return None;
    }
    // A pipe would not open before somebody writes.
    if !place.metadata().ok()?.is_file() {
        return None;
    }
    let file = File::open(&place).ok()?;
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    if metadata.len() > bytes_max {
        tracing::warn!(file = %relative.display(), bytes = metadata.len(), bytes_max, "a file of the web interface is too large");
        return None;
    }
    let changed =
        metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let name = relative.to_str().unwrap_or_default();
    Some(Found {
        length: metadata.len(),
        tag: format!("\"{:x}-{:x}\"", metadata.len(), changed.as_nanos()),
        kind: kind(relative),
        is_immutable: is_main_script(name),
        file,
    })
}

/// Whether a name is that of the main script, whose digest is in it (API-16).
fn is_main_script(name: &str) -> bool {
    let digest = name.strip_prefix("main.").and_then(|rest| rest.strip_suffix(".js"));
    digest.is_some_and(|digest| {
        digest.len() == DIGEST_CHARS
            && digest.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
    })
}

/// What a file is, by its name.
fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" | "webmanifest" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "eot" => "application/vnd.ms-fontobject",
        "wasm" => "application/wasm",
        "xml" => "text/xml; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The text of a file; one that grows while it is read is cut off, and then it is none.
fn text(file: File) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(INDEX_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= INDEX_BYTES_MAX).then(|| String::from_utf8(bytes).ok())?
}

/// A page whose addresses are below a path (API-14): the value of the first `<base href="…">` is another.
fn with_base(page: &str, base: &str) -> String {
    const TAG: &str = "<base href=\"";
    let changed = page.split_once(TAG).and_then(|(before, rest)| {
        let (_, after) = rest.split_once('"')?;
        Some(format!("{before}{TAG}{}/\"{after}", escape(base)))
    });
    changed.unwrap_or_else(|| page.to_owned())
}

fn html_page(page: String) -> Response<Body> {
    let mut response = Response::new(body::full(page));
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An answer that nobody keeps.
fn uncached(mut response: Response<Body>) -> Response<Body> {
    for (name, value) in UNCACHED {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer with a file; without its bytes where the client has them.
fn sent(found: Found, asked: &HeaderMap) -> Response<Body> {
    let known = asked.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known
        .is_some_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == found.tag));
    let mut response = Response::new(body::empty());
    let (length, kind, is_immutable) = (found.length, found.kind, found.is_immutable);
    if let Ok(tag) = HeaderValue::from_str(&found.tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = body::file(found.file, length);
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    let cached = if is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(cached));
    response
}

/// The page where there is no web interface.
fn not_installed(directory: &Path, base: &str) -> String {
    let (directory, base) = (escape(&directory.display().to_string()), escape(base));
    let content = format!(
        "<h1>No web interface is installed</h1>\n\
         <p>This is the API server of Tiphys. It comes without a web interface, and there is no \
         <code>index.html</code> in <code>{directory}</code>.</p>\n\
         <p>To install one, put its built files there: those of Argo CD's web interface are in <code>/shared/app</code> \
         of its image. Another directory is set by <code>server.staticassets</code> in \
         <code>argocd-cmd-params-cm</code>, or by <code>ARGOCD_SERVER_STATIC_ASSETS</code>.</p>\n\
         <p>What works without it: <a href=\"{base}/swagger-ui\">the API</a>, and the command lines \
         <code>argocd</code> and <code>tiphys</code>.</p>\n"
    );
    html::page("Tiphys", &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_13_paths_mean_files_below_the_directory() {
        let found = |path: &str| relative(path).map(|it| it.to_str().unwrap().to_owned());
        for (path, expected) in [
            ("/", "index.html"),
            ("/index.html", "index.html"),
            ("/assets/a%20b.png", "assets/a b.png"),
            ("/a/...", "a/..."),
        ] {
            assert_eq!(found(path).as_deref(), Some(expected), "{path}");
        }
        for wrong in [
            "",
            "a",
            "/..",
            "/../a",
            "/a/../b",
            "/%2e%2e/a",
            "/a/%2e%2e%2fb",
            "/a//b",
            "//etc/passwd",
            "/%2fetc/passwd",
            "/a/",
            "/a%00.js",
            "/a\\..\\b",
            "/a%5c..%5cb",
            "/./a",
            "/%",
            "/%zz",
            "/%ff",
        ] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn api_14_addresses_of_a_page_are_below_its_base() {
        let page = "<head><base href=\"/\"><base href=\"/x/\"></head>";
        assert_eq!(with_base(page, ""), page);
        assert_eq!(with_base(page, "/argo"), "<head><base href=\"/argo/\"><base href=\"/x/\"></head>");
        assert!(with_base(page, "/\"><script>").contains("href=\"/&quot;&gt;&lt;script&gt;/\""));
        for other in ["", "<base href=\"/", "<base target=\"x\">"] {
            assert_eq!(with_base(other, "/argo"), other, "{other}");
        }
    }

    #[test]
    fn api_16_the_main_script_has_a_digest_in_its_name() {
        assert!(is_main_script("main.0123456789abcdef0123.js"));
        for other in [
            "main.js",
            "main.0123456789abcdef012.js",
            "main.0123456789ABCDEF0123.js",
            "main.0123456789abcdef01234.js",
            "x/main.0123456789abcdef0123.js",
            "main.0123456789abcdef0123.js.map",
            "main.0123456789abcdefg123.js",
        ] {
            assert!(!is_main_script(other), "{other}");
        }
    }

    #[test]
    fn api_13_without_an_interface_a_page_says_what_to_do() {
        let page = not_installed(Path::new("/a/<b>"), "/argo");
        for part in ["/a/&lt;b&gt;", "server.staticassets", "href=\"/argo/swagger-ui\""] {
            assert!(page.contains(part), "{part}");
        }
    }
}
