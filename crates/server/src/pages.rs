//! What browsers are shown beside the calls of the API: its description, badges, the program, and the files of a web
//! interface.
//!
//! Nothing here asks who is there, but for badges where that is wanted, and nothing changes anything: requests are GET or
//! HEAD, their bodies are not looked at, and what an answer is follows from the snapshot of the installation, the catalog
//! and the files of the server.

mod assets;
mod badge;
mod extensions;
mod html;
mod program;
mod swagger;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Body as _;
use tiphys_api::Settings;

use crate::catalog::Catalog;
use crate::http::{Body, Front, Handler, body, plain};
use crate::services::Services;
use crate::world::World;

pub use assets::AssetOptions;
pub(crate) use badge::is_enabled as has_badges;
pub use program::Program;

/// Where files of a web interface are unless it is set.
const ASSETS: &str = "/shared/app";

/// How pages are set up.
#[derive(Clone, Debug)]
pub struct PagesOptions {
    /// Whether answers are compressed (API-20).
    pub gzip: bool,
    /// Whether the API is described (API-9).
    pub describes_api: bool,
    /// The version of the product.
    pub version: String,
    /// The files of a web interface (API-13).
    pub assets: AssetOptions,
    /// Where scripts are that extend it (API-17); none where others could put some there.
    pub extensions: Option<PathBuf>,
    /// The program that is handed out (API-10).
    pub program: Option<Program>,
}

/// A setting that is no value of a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: not a value of a header: it has a character that headers do not have")]
pub struct NoHeader(&'static str);

impl PagesOptions {
    /// Reads the parameters of the process. Everything is below `base`.
    ///
    /// # Errors
    /// When a value of a header is none.
    pub(crate) fn read(settings: &Settings, base: &str) -> Result<Self, NoHeader> {
        let is_hidden =
            crate::process::is_on(settings, "server.disable.swagger.ui", "ARGOCD_SERVER_DISABLE_SWAGGER_UI");
        let directory = settings.param("server.staticassets", "ARGOCD_SERVER_STATIC_ASSETS");
        let directory = directory.filter(|text| !text.is_empty()).unwrap_or(ASSETS);
        let header = |key: &'static str, variable: &str, default: &str| {
            // An empty value is a value here: it takes the header away.
            let set = settings.env().get(variable).or_else(|| settings.params().get(key));
            let text = set.map_or(default, String::as_str).trim();
            let value = HeaderValue::from_str(text).map_err(|_no_value| NoHeader(key))?;
            Ok((!text.is_empty()).then_some(value))
        };
        Ok(Self {
            gzip: true,
            describes_api: !is_hidden,
            version: String::new(),
            assets: AssetOptions {
                directory: directory.into(),
                base: base.to_owned(),
                frame_options: header(
                    "server.x.frame.options",
                    "ARGOCD_SERVER_X_FRAME_OPTIONS",
                    "sameorigin",
                )?,
                content_policy: header(
                    "server.content.security.policy",
                    "ARGOCD_SERVER_CONTENT_SECURITY_POLICY",
                    "frame-ancestors 'self';",
                )?,
            },
            extensions: None,
            program: None,
        })
    }
}

/// What answers.
pub struct Pages {
    /// How pages are set up.
    pub options: PagesOptions,
    /// The snapshot of the installation.
    pub world: Arc<ArcSwap<World>>,
    /// The applications.
    pub catalog: Arc<Catalog>,
    /// What knows who looks.
    pub services: Arc<Services>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Pages {
    /// Adds the paths to a front door, and answers everything that nobody else does (API-7).
    pub fn on(self, front: Front) -> Front {
        let Self { options, world, catalog, services } = self;
        let swagger = swagger::Swagger::new(options.describes_api, options.gzip, &options.version);
        let swagger = Arc::new(swagger);
        let page = Arc::clone(&swagger);
        let assets = Arc::new(assets::Assets::new(options.assets));
        let extensions = Arc::new(extensions::Extensions::new(options.extensions));
        let downloads = Arc::new(program::Downloads::new(options.program));
        let badge = move |parts: Parts, peer| {
            let (world, catalog, services) = (world.load_full(), Arc::clone(&catalog), Arc::clone(&services));
            async move { badge::serve(&world, &catalog, (&parts, peer), &services).await }.boxed()
        };
        front
            .at("/api/badge", handler(badge))
            .at("/swagger.json", handler(move |parts, _| Arc::clone(&swagger).document(parts).boxed()))
            .at("/swagger-ui", handler(move |parts, _| Arc::clone(&page).page(parts).boxed()))
            .below("/download/", handler(move |parts, _| Arc::clone(&downloads).serve(parts).boxed()))
            .at("/extensions.js", handler(move |_, _| Arc::clone(&extensions).serve().boxed()))
            .otherwise(handler(move |parts, _| Arc::clone(&assets).serve(parts).boxed()))
    }
}

/// Something that answers those who only look.
fn handler(
    answer: impl Fn(Parts, SocketAddr) -> BoxFuture<'static, Response<Body>> + Send + Sync + 'static,
) -> Handler {
    let answer = Arc::new(answer);
    Arc::new(move |request| {
        let ((parts, _unread), peer) = (request.http.into_parts(), request.peer);
        let answer = Arc::clone(&answer);
        async move {
            let is_head = parts.method == Method::HEAD;
            if !is_head && parts.method != Method::GET {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                return response;
            }
            let response = answer(parts, peer).await;
            if is_head { without_body(response) } else { response }
        }
        .boxed()
    })
}

/// The same answer to HEAD: what a body would be is said, and there is none.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = response.body().size_hint().exact()
        && response.status() != StatusCode::NOT_MODIFIED
    {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = body::empty();
    response
}

fn not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "Not Found\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tiphys_api::settings::SettingsData;

    use super::*;

    fn read(params: &[(&str, &str)], env: &[(&str, &str)]) -> Result<PagesOptions, NoHeader> {
        let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let data = SettingsData { params: map(params), env: map(env), ..SettingsData::default() };
        PagesOptions::read(&Settings::new(data), "/argo")
    }

    #[test]
    fn api_15_an_empty_value_takes_a_header_away() {
        let none = read(&[], &[]).unwrap();
        assert_eq!(none.assets.directory, PathBuf::from("/shared/app"));
        assert_eq!(none.assets.frame_options.unwrap(), "sameorigin");
        assert_eq!(none.assets.content_policy.unwrap(), "frame-ancestors 'self';");
        assert!(none.describes_api);
        let params = [
            ("server.x.frame.options", ""),
            ("server.content.security.policy", "default-src 'self'"),
            ("server.staticassets", "/srv/ui"),
            ("server.disable.swagger.ui", "true"),
        ];
        let set = read(&params, &[("ARGOCD_SERVER_CONTENT_SECURITY_POLICY", "")]).unwrap();
        assert_eq!((set.assets.frame_options, set.assets.content_policy), (None, None));
        assert_eq!(set.assets.directory, PathBuf::from("/srv/ui"));
        assert!(!set.describes_api);
        let wrong = read(&[("server.x.frame.options", "a\nb")], &[]).unwrap_err();
        assert!(wrong.to_string().starts_with("server.x.frame.options: "), "{wrong}");
    }
}
