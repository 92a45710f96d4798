//! Where charts and artifacts come from: a chart repository, and a registry of the machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use http::{Method, Uri};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::task::JoinHandle;

use crate::api::Api;

const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A gzipped tar of files.
pub(crate) fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A static chart repository on loopback.
pub(crate) struct ChartRepository {
    pub(crate) url: String,
    files: Files,
    charts: Mutex<Vec<(String, String)>>,
    task: JoinHandle<()>,
}

impl ChartRepository {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}/charts", listener.local_addr().unwrap().port());
        let files = Files::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&files));
        let task = tokio::spawn(async move {
            drop(axum::serve(listener, router).await);
        });
        Self { url, files, charts: Mutex::default(), task }
    }

    /// Publishes a version of a chart.
    pub(crate) fn publish(&self, name: &str, version: &str, chart: Vec<u8>) {
        let file = format!("{name}-{version}.tgz");
        let entry = json!({"name": name, "version": version, "digest": sha256(&chart), "urls": [file]});
        let mut charts = self.charts.lock().unwrap();
        charts.push((name.to_owned(), entry.to_string()));
        let mut entries: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (name, entry) in charts.iter() {
            entries.entry(name).or_default().push(serde_json::from_str(entry).unwrap());
        }
        let index = json!({"apiVersion": "v1", "entries": entries}).to_string();
        let mut files = self.files.lock().unwrap();
        files.insert("/charts/index.yaml".to_owned(), index.into_bytes());
        files.insert(format!("/charts/{file}"), chart);
    }
}

impl Drop for ChartRepository {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(files): State<Files>, uri: Uri) -> Response {
    let found = files.lock().unwrap().get(uri.path()).cloned();
    let response = Response::builder().status(if found.is_some() { 200 } else { 404 });
    response.body(found.unwrap_or_default().into()).unwrap()
}

/// A registry on loopback, without logins; ended when dropped.
pub(crate) struct Registry {
    /// Host and port.
    pub(crate) host: String,
    api: Api,
    _child: Child,
}

impl Registry {
    /// Starts the registry of this machine.
    ///
    /// # Errors
    /// What this machine lacks.
    pub(crate) async fn start(api: &Api, directory: &Path) -> Result<Self, String> {
        let program = ["/usr/bin/docker-registry", "/usr/local/bin/registry"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .ok_or("docker-registry is not installed")?;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host = format!("127.0.0.1:{port}");
        let configuration = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": directory.join("registry")}},
            "http": {"addr": host, "secret": "x"},
        });
        std::fs::write(directory.join("registry.yaml"), configuration.to_string()).unwrap();
        let child = tokio::process::Command::new(program)
            .arg("serve")
            .arg(directory.join("registry.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        for _ in 0..600 {
            if tokio::net::TcpStream::connect(&host).await.is_ok() {
                return Ok(Self { host, api: api.clone(), _child: child });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the registry does not start".to_owned())
    }

    /// Pushes a chart.
    pub(crate) async fn push_chart(&self, name: &str, version: &str, chart: &[u8]) {
        self.push(name, version, CHART_CONFIG, CHART_CONTENT, chart).await;
    }

    /// Pushes an artifact of one layer.
    pub(crate) async fn push_artifact(&self, name: &str, tag: &str, files: &[u8]) {
        self.push(name, tag, "application/vnd.example.config.v1+json", LAYER, files).await;
    }

    async fn push(&self, name: &str, tag: &str, config: &str, kind: &str, layer: &[u8]) {
        self.push_blob(name, b"{}").await;
        self.push_blob(name, layer).await;
        let digest = |bytes: &[u8]| format!("sha256:{}", sha256(bytes));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": config, "digest": digest(b"{}"), "size": 2},
            "layers": [{"mediaType": kind, "digest": digest(layer), "size": layer.len()}],
        });
        let url = format!("http://{}/v2/{name}/manifests/{tag}", self.host);
        let answer =
            self.api.send(Method::PUT, &url, &[("content-type", MANIFEST)], manifest.to_string()).await;
        assert_eq!(answer.unwrap().status(), 201);
    }

    async fn push_blob(&self, name: &str, bytes: &[u8]) {
        let url = format!("http://{}/v2/{name}/blobs/uploads/", self.host);
        let answer = self.api.send(Method::POST, &url, &[], "").await.unwrap();
        assert_eq!(answer.status(), 202);
        let place = answer.headers()["location"].to_str().unwrap();
        let url = format!("{place}&digest=sha256:{}", sha256(bytes));
        let headers = [("content-type", "application/octet-stream")];
        let answer = self.api.send(Method::PUT, &url, &headers, bytes.to_vec()).await.unwrap();
        assert_eq!(answer.status(), 201);
    }
}
