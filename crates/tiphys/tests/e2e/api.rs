//! A small client of the API server: objects as JSON trees, paths from `group/version/plural`.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

pub(crate) const APPS: &str = "argoproj.io/v1alpha1/applications";
pub(crate) const SETS: &str = "argoproj.io/v1alpha1/applicationsets";
pub(crate) const PROJECTS: &str = "argoproj.io/v1alpha1/appprojects";
pub(crate) const CONFIG_MAPS: &str = "v1/configmaps";
pub(crate) const DEPLOYMENTS: &str = "apps/v1/deployments";
pub(crate) const JOBS: &str = "batch/v1/jobs";
pub(crate) const NAMESPACES: &str = "v1/namespaces";

/// Speaks to one API server with a bearer token, and to plain HTTP servers of the test.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: String,
    token: String,
}

impl Api {
    pub(crate) fn from_kubeconfig(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let limits = tiphys_go::yaml::Limits::default();
        let config = tiphys_go::yaml::parse(&text, tiphys_go::yaml::Dialect::Sigs, &limits).unwrap().unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().unwrap().trim_end_matches('/').to_owned();
        let token =
            config["users"][0]["user"]["token"].as_str().expect("a token in the kubeconfig").to_owned();
        let pem = base64::engine::general_purpose::STANDARD
            .decode(cluster["certificate-authority-data"].as_str().unwrap())
            .unwrap();
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.unwrap()).unwrap();
        }
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(connector.build());
        Self { client, server, token }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Sends a request as it is, to the API server when the target is only a path.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, String> {
        let to_server = target.starts_with('/');
        let uri = if to_server { format!("{}{target}", self.server) } else { target.to_owned() };
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if to_server {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.client.request(request).await.map_err(|error| format!("{error:?}"))
    }

    async fn call(&self, method: Method, path: &str, kind: &str, body: Bytes) -> (StatusCode, Value) {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let sent = self.send(method.clone(), path, &[("content-type", kind)], body.clone()).await;
            let response = match sent {
                Ok(response) => response,
                Err(_) if attempt < 5 => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                }
                Err(error) => panic!("{method} {path}: {error}"),
            };
            let status = response.status();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            return (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null));
        }
    }

    pub(crate) async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let path = path(kind, namespace, name);
        let (status, value) = self.call(Method::GET, &path, "application/json", Bytes::new()).await;
        match status.as_u16() {
            200 => Some(value),
            404 => None,
            _ => panic!("get {path}: {status} {value}"),
        }
    }

    pub(crate) async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let path = path(kind, namespace, "");
        let (status, value) = self.call(Method::GET, &path, "application/json", Bytes::new()).await;
        assert!(status.is_success(), "list {path}: {status} {value}");
        value["items"].as_array().cloned().unwrap_or_default()
    }

    /// What stands at a path.
    pub(crate) async fn read(&self, path: &str) -> Value {
        let (status, value) = self.call(Method::GET, path, "application/json", Bytes::new()).await;
        assert!(status.is_success(), "get {path}: {status} {value}");
        value
    }

    /// The version of a collection, from which a watch can go on.
    pub(crate) async fn version(&self, kind: &str, namespace: &str) -> String {
        let path = path(kind, namespace, "");
        let (status, value) = self.call(Method::GET, &path, "application/json", Bytes::new()).await;
        assert!(status.is_success(), "list {path}: {status} {value}");
        value["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    /// Creates or changes an object so that it has these fields.
    pub(crate) async fn apply(&self, kind: &str, object: &Value) -> Value {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or("");
        let path = path(kind, namespace, metadata["name"].as_str().unwrap());
        let path = format!("{path}?fieldManager=e2e&force=true");
        let body = Bytes::from(object.to_string());
        for _ in 0..40 {
            let (status, value) =
                self.call(Method::PATCH, &path, "application/apply-patch+yaml", body.clone()).await;
            if status.is_success() {
                return value;
            }
            // A definition that is new is served a moment later.
            assert_eq!(status, StatusCode::NOT_FOUND, "apply {path}: {value}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("apply {path}: not found");
    }

    /// A JSON merge patch.
    pub(crate) async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> Value {
        let path = path(kind, namespace, name);
        let body = Bytes::from(patch.to_string());
        let (status, value) = self.call(Method::PATCH, &path, "application/merge-patch+json", body).await;
        assert!(status.is_success(), "patch {path}: {status} {value}");
        value
    }

    /// Asks for a deletion; an object that is not there is as good.
    pub(crate) async fn delete(&self, kind: &str, namespace: &str, name: &str) {
        let path = path(kind, namespace, name);
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        let (status, value) =
            self.call(Method::DELETE, &path, "application/json", Bytes::from(body.to_string())).await;
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "delete {path}: {status} {value}");
    }
}

/// Path of a collection or of an object in it; an empty namespace is the cluster.
pub(crate) fn path(kind: &str, namespace: &str, name: &str) -> String {
    let (version, plural) = kind.rsplit_once('/').unwrap();
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("/{root}/{version}{namespace}/{plural}{name}")
}
