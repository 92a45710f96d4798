//! A plain HTTP client with a token: what goes over the wire is what a case says.

use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

pub(crate) struct Client {
    http: Legacy<HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub(crate) server: String,
    token: String,
}

/// Times a request is sent while the server gives up connections.
const TRIES_MAX: u32 = 10;
/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) fn new(kubeconfig: &Value) -> Self {
        let cluster = &kubeconfig["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().unwrap().trim_end_matches('/').to_owned();
        let token = kubeconfig["users"][0]["user"]["token"].as_str().expect("a token in the kubeconfig");
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
        let http = Legacy::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(connector.build());
        Self { http, server, token: token.to_owned() }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.server));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let is_named = |name: header::HeaderName| headers.iter().any(|(one, _)| *one == name.as_str());
        if !is_named(header::AUTHORIZATION) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        }
        if !is_named(header::USER_AGENT) {
            request = request.header(header::USER_AGENT, "contract/1.0");
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        self.http.request(request).await.map_err(|error| format!("{error:?}"))
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Answer, String> {
        let mut tries = 0;
        let sent = loop {
            tries += 1;
            match self.send(method.clone(), path, headers, body.clone()).await {
                // The server gives up a connection after a body that is too large; it has not seen this request.
                Err(error) if error.contains("GoAway") && tries < TRIES_MAX => {
                    tokio::time::sleep(PAUSE).await;
                }
                sent => break sent?,
            }
        };
        let (parts, body) = sent.into_parts();
        let body = body.collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// What is at a path; `None` unless it answers with success.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let answer = self.call(Method::GET, path, &[], Bytes::new()).await.ok()?;
        answer.status.is_success().then(|| serde_json::from_slice(&answer.body).ok())?
    }
}
