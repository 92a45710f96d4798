//! A web server in front of `git http-backend`, with credentials and counters.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use gix_pack::data;
use gix_pack::data::entry::Header;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What the server wants to see before it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Auth {
    None,
    Basic(&'static str, &'static str),
    Bearer(&'static str),
}

/// How the server behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behaviour {
    /// Speaks only the first version of the protocol, which gives out advertised commits only.
    pub(crate) is_old: bool,
    /// Answers everything with a redirect.
    pub(crate) redirects: bool,
    /// Answers everything with status 403.
    pub(crate) forbids: bool,
    /// Answers everything with an error that repeats the credentials it was sent.
    pub(crate) echoes: bool,
    /// Reads requests and never answers.
    pub(crate) hangs: bool,
    /// What happens to answers about refs and commits.
    pub(crate) damage: Damage,
}

/// What a bad connection, or a bad server, makes of an answer to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Damage {
    #[default]
    None,
    /// The body ends early, and says so.
    CutShort,
    /// The connection ends in the middle of the body.
    BreaksOff,
    /// A byte near the end, inside of the last objects of a pack, is another one.
    Flipped,
    /// The body is a page for people.
    Page,
    /// The list of refs never ends.
    Endless,
    /// The pack never ends.
    EndlessPack,
    /// The pack is small, and its differences repeat a large file again and again.
    Bomb,
}

pub(crate) struct GitServer {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    root: PathBuf,
    auth: Auth,
    behaviour: Mutex<Behaviour>,
    listings: AtomicUsize,
    refs: AtomicUsize,
    fetches: AtomicUsize,
    discoveries: AtomicUsize,
    requests: AtomicUsize,
    connections: AtomicUsize,
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

impl GitServer {
    pub(crate) async fn start(root: &Path, auth: Auth) -> Self {
        Self::start_with(root, auth, Behaviour::default()).await
    }

    pub(crate) async fn start_with(root: &Path, auth: Auth, behaviour: Behaviour) -> Self {
        Self::listen(root, auth, behaviour, None).await
    }

    /// A server that speaks TLS with this certificate and key.
    pub(crate) async fn start_tls(root: &Path, certificate: &[u8], key: &[u8]) -> Self {
        Self::start_with_verifier(root, certificate, key, WebPkiClientVerifier::no_client_auth()).await
    }

    /// The same, and clients have to show a certificate of this CA.
    pub(crate) async fn start_mutual_tls(root: &Path, certificate: &[u8], key: &[u8], ca: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca).unwrap()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        Self::start_with_verifier(root, certificate, key, verifier).await
    }

    async fn start_with_verifier(
        root: &Path,
        certificate: &[u8],
        key: &[u8],
        verifier: Arc<dyn ClientCertVerifier>,
    ) -> Self {
        let chain = CertificateDer::pem_slice_iter(certificate).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::listen(root, Auth::None, Behaviour::default(), Some(acceptor)).await
    }

    async fn listen(root: &Path, auth: Auth, behaviour: Behaviour, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            root: root.to_owned(),
            auth,
            behaviour: Mutex::new(behaviour),
            listings: AtomicUsize::new(0),
            refs: AtomicUsize::new(0),
            fetches: AtomicUsize::new(0),
            discoveries: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (shared, tls) = (Arc::clone(&accepting), tls.clone());
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    match tls {
                        None => shared.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                shared.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url: format!("{scheme}://127.0.0.1:{port}"), shared, task }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// From now on the server behaves like this.
    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// Requests read, answered or not.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Connections accepted.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// `ls-refs` commands answered.
    pub(crate) fn listings(&self) -> usize {
        self.shared.listings.load(Ordering::SeqCst)
    }

    /// Refs in the last answer to an `ls-refs` command.
    pub(crate) fn refs(&self) -> usize {
        self.shared.refs.load(Ordering::SeqCst)
    }

    /// `fetch` commands answered.
    pub(crate) fn fetches(&self) -> usize {
        self.shared.fetches.load(Ordering::SeqCst)
    }

    /// Requests for the capabilities of the server.
    pub(crate) fn discoveries(&self) -> usize {
        self.shared.discoveries.load(Ordering::SeqCst)
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read_request(&mut stream).await {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let behaviour = *self.behaviour.lock().unwrap();
            if behaviour.hangs {
                std::future::pending::<()>().await;
            }
            let mut answer = self.answer(&request, behaviour).await;
            if behaviour.damage == Damage::Endless && request.method == "POST" {
                endless(stream.get_mut()).await;
                return;
            }
            let is_fetch = String::from_utf8_lossy(&request.body).contains("command=fetch");
            if behaviour.damage == Damage::EndlessPack && is_fetch {
                endless_pack(stream.get_mut()).await;
                return;
            }
            if behaviour.damage == Damage::Bomb && is_fetch {
                let has_negotiated = String::from_utf8_lossy(&request.body).contains("done");
                answer = bomb(has_negotiated);
            }
            let breaks_off = behaviour.damage == Damage::BreaksOff && request.method == "POST";
            if breaks_off {
                answer.truncate(answer.len() - 10);
            }
            let is_written = stream.get_mut().write_all(&answer).await.is_ok();
            let is_flushed = stream.get_mut().flush().await.is_ok();
            if breaks_off || !is_written || !is_flushed {
                return;
            }
        }
    }

    async fn answer(&self, request: &Request, behaviour: Behaviour) -> Vec<u8> {
        if behaviour.forbids {
            return response("403 Forbidden", "", b"");
        }
        if behaviour.echoes {
            let header = request.header("authorization");
            let encoded = header.rsplit(' ').next().unwrap_or("");
            let plain = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
            let body = format!("You sent {header}\nwhich is {}\n", String::from_utf8_lossy(&plain));
            return response("500 Oops", "Content-Type: text/plain\r\n", body.as_bytes());
        }
        if behaviour.redirects {
            return response("302 Found", "Location: http://127.0.0.1:1/elsewhere\r\n", b"");
        }
        if !self.is_allowed(request) {
            let scheme = if matches!(self.auth, Auth::Bearer(_)) { "Bearer" } else { "Basic realm=\"test\"" };
            return response("401 Unauthorized", &format!("WWW-Authenticate: {scheme}\r\n"), b"");
        }
        if let Some(answer) = self.lfs(request) {
            return answer;
        }
        let text = String::from_utf8_lossy(&request.body);
        if text.contains("command=ls-refs") {
            self.listings.fetch_add(1, Ordering::SeqCst);
        }
        if text.contains("command=fetch") {
            self.fetches.fetch_add(1, Ordering::SeqCst);
        }
        if request.method == "GET" {
            self.discoveries.fetch_add(1, Ordering::SeqCst);
        }
        let protocol = if behaviour.is_old { "" } else { request.header("git-protocol") };
        let mut child = tokio::process::Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", &request.path)
            .env("QUERY_STRING", &request.query)
            .env("REQUEST_METHOD", &request.method)
            .env("CONTENT_TYPE", request.header("content-type"))
            .env("CONTENT_LENGTH", request.body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", request.header("content-encoding"))
            .env("GIT_PROTOCOL", protocol)
            .env("HOME", "/dev/null")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let body = request.body.clone();
        let writer = tokio::spawn(async move { stdin.write_all(&body).await });
        let output = child.wait_with_output().await.unwrap();
        drop(writer.await);
        let end = output.stdout.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
        let (head, body) = output.stdout.split_at(end);
        let head = String::from_utf8_lossy(head);
        let mut status = "200 OK".to_owned();
        let mut headers = String::new();
        for line in head.lines() {
            match line.strip_prefix("Status: ") {
                Some(text) => text.clone_into(&mut status),
                None => headers = format!("{headers}{line}\r\n"),
            }
        }
        let mut body = body.get(4..).unwrap_or(b"").to_vec();
        if text.contains("command=ls-refs") {
            let lines = body.split(|byte| *byte == b'\n').filter(|line| line.len() > 40);
            self.refs.store(lines.count(), Ordering::SeqCst);
        }
        if request.method == "POST" {
            let end = body.len();
            match behaviour.damage {
                Damage::None | Damage::BreaksOff | Damage::Endless | Damage::EndlessPack | Damage::Bomb => {}
                Damage::CutShort => body.truncate(end - 10),
                // Before the checksum of a pack and the end of the message.
                Damage::Flipped => body[end - 30] ^= 1,
                Damage::Page => body = b"<html>Please log in</html>".to_vec(),
            }
        }
        response(&status, &headers, &body)
    }

    /// Files of Git LFS lie in one directory, whatever the repository.
    fn lfs(&self, request: &Request) -> Option<Vec<u8>> {
        let file = |oid: &str| std::fs::read(self.root.join("files").join(oid)).ok();
        if request.path.ends_with(".git/info/lfs/objects/batch") {
            let asked: Value = serde_json::from_slice(&request.body).unwrap();
            assert_eq!(request.header("content-type"), "application/vnd.git-lfs+json");
            let objects = asked["objects"].as_array().unwrap().iter().map(|object| {
                let oid = object["oid"].as_str().unwrap();
                let href = format!("http://{}/files/{oid}?signed=yes", request.header("host"));
                match file(oid) {
                    Some(_) => {
                        json!({"oid": oid, "size": object["size"], "actions": {"download": {"href": href}}})
                    }
                    None => json!({"oid": oid, "error": {"code": 404, "message": "not here"}}),
                }
            });
            let body = json!({"transfer": "basic", "objects": objects.collect::<Vec<_>>()}).to_string();
            return Some(response("200 OK", "", body.as_bytes()));
        }
        let content = file(request.path.strip_prefix("/files/")?)?;
        assert_eq!(request.query, "signed=yes");
        Some(response("200 OK", "", &content))
    }

    fn is_allowed(&self, request: &Request) -> bool {
        let expected = match self.auth {
            Auth::None => return true,
            Auth::Basic(user, password) => {
                let text = format!("{user}:{password}");
                format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
            }
            Auth::Bearer(token) => format!("Bearer {token}"),
        };
        request.header("authorization") == expected
    }
}

/// Refs with long names until nobody listens any more.
async fn endless(stream: &mut (impl AsyncWrite + Unpin)) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\r\n";
    let packet = format!("fde8{} {}", "1".repeat(40), "x".repeat(65_000 - 45));
    let mut is_heard = stream.write_all(head.as_bytes()).await.is_ok();
    while is_heard {
        is_heard = stream.write_all(packet.as_bytes()).await.is_ok();
    }
}

/// A pack of the same file again and again, stored without compression, until nobody listens any more.
async fn endless_pack(stream: &mut (impl AsyncWrite + Unpin)) {
    const SIZE: u16 = 60_000;
    // A blob's size: four bits, then seven a byte.
    let digits = |shift: u16, mask: u16| u8::try_from((SIZE >> shift) & mask).unwrap();
    let mut entry = vec![0x80 | (3 << 4) | digits(0, 15), 0x80 | digits(4, 127), digits(11, 127)];
    entry.extend_from_slice(&[0x78, 0x01, 1]);
    entry.extend_from_slice(&SIZE.to_le_bytes());
    entry.extend_from_slice(&(!SIZE).to_le_bytes());
    entry.extend_from_slice(&vec![0; usize::from(SIZE)]);
    // Adler-32 of zeros.
    entry.extend_from_slice(&[digits(8, 255), digits(0, 255), 0, 1]);
    let packet = |content: &[u8]| [format!("{:04x}\u{1}", content.len() + 5).as_bytes(), content].concat();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\r\n000dpackfile\n";
    let mut is_heard = stream.write_all(head.as_bytes()).await.is_ok()
        && stream.write_all(&packet(b"PACK\0\0\0\x02\0\x01\0\0")).await.is_ok();
    let packet = packet(&entry);
    while is_heard {
        is_heard = stream.write_all(&packet).await.is_ok();
    }
}

/// A pack of some kilobytes whose objects come to gigabytes: each difference repeats its base of 1 MiB.
fn bomb(has_negotiated: bool) -> Vec<u8> {
    const MEBIBYTES: usize = 96;
    let deflated = |content: &[u8]| {
        let mut out = gix::zlib::stream::deflate::Write::new(Vec::new(), gix::zlib::Compression::BEST_SPEED);
        out.write_all(content).unwrap();
        out.flush().unwrap();
        out.into_inner()
    };
    let size_of = |mut size: usize| {
        let mut bytes = Vec::new();
        while size > 127 {
            bytes.push(u8::try_from(size & 127).unwrap() | 128);
            size >>= 7;
        }
        bytes.push(u8::try_from(size).unwrap());
        bytes
    };
    let base = vec![b'a'; 1 << 20];
    let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, &base).unwrap();
    let mut entries = vec![(Header::Blob, base.clone())];
    for number in 0..40_u8 {
        let mut delta = size_of(base.len());
        delta.extend(size_of((MEBIBYTES << 20) + 1));
        for _ in 0..MEBIBYTES {
            // Copies 1 MiB from the beginning.
            delta.extend_from_slice(&[0x80 | 0x40, 0x10]);
        }
        delta.extend_from_slice(&[1, number]);
        entries.push((Header::RefDelta { base_id: id }, delta));
    }
    let count = u32::try_from(entries.len()).unwrap();
    let mut pack = data::header::encode(data::Version::V2, count).to_vec();
    for (header, content) in &entries {
        header.write_to(content.len() as u64, &mut pack).unwrap();
        pack.extend_from_slice(&deflated(content));
    }
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(&pack);
    pack.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
    let acknowledged = if has_negotiated { "" } else { "0014acknowledgments\n000aready\n0001" };
    let mut body = format!("{acknowledged}000dpackfile\n").into_bytes();
    for part in pack.chunks(60_000) {
        body.extend_from_slice(format!("{:04x}\u{1}", part.len() + 5).as_bytes());
        body.extend_from_slice(part);
    }
    body.extend_from_slice(b"0000");
    response("200 OK", "Content-Type: application/x-git-upload-pack-result\r\n", &body)
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

async fn read_request(stream: &mut BufReader<impl AsyncRead + Unpin>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut request = Request { method, path, query, headers, body: Vec::new() };
    if request.header("transfer-encoding") == "chunked" {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let length = usize::from_str_radix(line.trim(), 16).ok()?;
            let mut chunk = vec![0; length + 2];
            stream.read_exact(&mut chunk).await.ok()?;
            if length == 0 {
                break;
            }
            request.body.extend_from_slice(&chunk[..length]);
        }
    } else if let Ok(length) = request.header("content-length").parse() {
        request.body = vec![0; length];
        stream.read_exact(&mut request.body).await.ok()?;
    }
    Some(request)
}
