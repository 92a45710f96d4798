//! The running program as a file, for those who want its commands (API-10).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;

use super::not_found;
use crate::http::{Body, body, plain};

/// Programs that are sent at a time: anybody may ask, and each takes a while.
const DOWNLOADS_MAX: usize = 16;
/// What files for Linux are named by, before the machine.
const FOR_LINUX: &str = "argocd-linux";

/// The program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// The machine that it runs on, in Go's words (`amd64`).
    pub machine: String,
}

/// What sends it.
pub(super) struct Downloads {
    program: Option<Program>,
    places: Arc<Semaphore>,
}

impl Downloads {
    pub(super) fn new(program: Option<Program>) -> Self {
        Self { program, places: Arc::new(Semaphore::new(DOWNLOADS_MAX)) }
    }

    /// Answers a request below `/download/`; there is one program, that of this machine.
    pub(super) async fn serve(self: Arc<Self>, parts: Parts) -> Response<Body> {
        let asked = parts.uri.path().strip_prefix("/download/").unwrap_or_default();
        let Some(program) = self.program.as_ref().filter(|program| is_meant(asked, &program.machine)) else {
            return not_found();
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too many downloads, try again later\n");
        };
        let path = program.path.clone();
        let (file, length) = match tokio::task::spawn_blocking(move || open(&path)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::error!(%error, "the program cannot be read for a download");
                return not_found();
            }
            Err(_ended) => return not_found(),
        };
        let body = body::file(file, length).map_frame(move |frame| {
            let _until_the_end = &place;
            frame
        });
        let mut response = Response::new(body.boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CONTENT_LENGTH, length.into());
        let disposition = format!("attachment; filename=\"{FOR_LINUX}-{}\"", program.machine);
        if let Ok(disposition) = HeaderValue::from_str(&disposition) {
            headers.insert(header::CONTENT_DISPOSITION, disposition);
        }
        response
    }
}

/// Whether a name means the program of a machine; without a machine it is that of the server.
fn is_meant(asked: &str, machine: &str) -> bool {
    match asked.strip_prefix(FOR_LINUX) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-') == Some(machine),
        None => false,
    }
}

fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_10_a_name_means_the_program_of_one_machine() {
        assert!(is_meant("argocd-linux", "amd64") && is_meant("argocd-linux-amd64", "amd64"));
        for other in ["argocd-linux-arm64", "argocd-linux-", "argocd-linuxamd64", "argocd-darwin-amd64", ""] {
            assert!(!is_meant(other, "amd64"), "{other}");
        }
    }
}
