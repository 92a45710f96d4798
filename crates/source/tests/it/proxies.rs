//! Proxies and client certificates of repositories (REP-71, REP-75), against real servers.

use std::sync::{Arc, Mutex};

use tiphys_api::trust::TlsCertificates;
use tiphys_source::{Freshness, Repository, Secret, SourceError, Sources, Tls, Trust};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::git_http::GitServer;
use crate::trust::Authority;
use crate::world::{World, openssl};

/// What one client said: where it wants to go, and how it proved who it is.
type Call = (String, String);

/// How `me:hunter2` is told to a proxy.
const LOGIN: &str = "Basic bWU6aHVudGVyMg==";

/// A proxy for TLS that notes who came.
struct Proxy {
    port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// It wants to see this header, if any.
    async fn start(wants: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::<Mutex<Vec<Call>>>::default();
        let noted = Arc::clone(&calls);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(stream, wants, Arc::clone(&noted)));
            }
        });
        Self { port, calls, task }
    }

    fn url(&self, login: &str) -> String {
        format!("http://{login}127.0.0.1:{}", self.port)
    }

    fn taken(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn tunnel(stream: TcpStream, wants: Option<&'static str>, calls: Arc<Mutex<Vec<Call>>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let target = loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let target = line.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
        let mut login = String::new();
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.ok()?;
            match header.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("proxy-authorization") => {
                    login = value.to_owned();
                }
                Some(_) => {}
                None => break,
            }
        }
        if wants.is_none_or(|wanted| login == wanted) {
            calls.lock().unwrap().push((target.clone(), login));
            break target;
        }
        let refusal = "HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(refusal.as_bytes()).await.ok()?;
    };
    let mut far = TcpStream::connect(&target).await.ok()?;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
    tokio::io::copy_bidirectional(&mut stream, &mut far).await.ok().map(drop)
}

fn trusting(sources: &Sources, authority: &Authority) {
    let entry = ("127.0.0.1".to_owned(), authority.root.clone());
    let tls = Arc::new(TlsCertificates::read(&[entry].into()));
    sources.set_trust(Trust { tls, ..Trust::default() });
}

async fn fetch(sources: &Sources, repository: &Repository) -> Result<String, SourceError> {
    sources.invalidate(repository.url.expose());
    let commit = sources.resolve(repository, "main", Freshness::Fetch).await?;
    sources.tree(repository, &commit).await.map(|_tree| commit)
}

/// REP-75: a repository's own proxy is used, with its password; hosts of `noProxy` are reached without it; the proxy of the
/// environment is for repositories that name none.
#[tokio::test]
async fn rep_75_a_repository_is_reached_through_its_proxy() {
    let world = World::with(&[("a", "1")]).await;
    let authority = Authority::new(&world).await;
    let (certificate, key) = (authority.certificate.as_bytes(), authority.key.as_bytes());
    let server = GitServer::start_tls(&world.root(), certificate, key).await;
    let plain = Repository::anonymous(&server.url("repo"));
    let place = server.url("").trim_start_matches("https://").trim_end_matches('/').to_owned();
    let (own, environment) = (Proxy::start(Some(LOGIN)).await, Proxy::start(None).await);
    let url = environment.url("");
    let sources =
        world.restarted(|options| options.proxy_environment = vec![("https_proxy".to_owned(), url)]);
    trusting(&sources, &authority);

    let proxied = Repository { proxy: Secret::from(own.url("me:hunter2@")), ..plain.clone() };
    fetch(&sources, &proxied).await.unwrap();
    let calls = own.taken();
    assert!(!calls.is_empty() && calls.iter().all(|(target, _)| *target == place), "{calls:?}");
    assert!(calls.iter().all(|(_, seen)| seen == LOGIN), "{calls:?}");
    assert_eq!(environment.taken(), [], "its own proxy stands in the place of the environment's");

    let around = Repository { no_proxy: "example.com,127.0.0.1".to_owned(), ..proxied.clone() };
    world.commit("second", &[("a", "2")]).await;
    fetch(&sources, &around).await.unwrap();
    assert_eq!((own.taken(), environment.taken()), (Vec::new(), Vec::new()));
    let elsewhere = Repository { no_proxy: "example.com".to_owned(), ..proxied };
    world.commit("third", &[("a", "3")]).await;
    fetch(&sources, &elsewhere).await.unwrap();
    assert!(!own.taken().is_empty());

    // Without a proxy of its own nothing of `noProxy` counts.
    let bare = Repository { no_proxy: "127.0.0.1".to_owned(), ..plain };
    world.commit("fourth", &[("a", "4")]).await;
    fetch(&sources, &bare).await.unwrap();
    assert!(own.taken().is_empty() && !environment.taken().is_empty());
}

/// REP-71: who has a certificate shows it, and a server that wants one lets nobody else in; the key stands in no error.
#[tokio::test]
async fn rep_71_a_client_certificate_opens_the_server_that_wants_one() {
    let world = World::with(&[("a", "1")]).await;
    let authority = Authority::new(&world).await;
    let make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=client \
                -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca.key -keyout c.key -out c.pem";
    openssl(&world, make).await;
    let file = |name: &str| std::fs::read_to_string(world.path().join(name)).unwrap();
    let (certificate, key) = (authority.certificate.as_bytes(), authority.key.as_bytes());
    let server =
        GitServer::start_mutual_tls(&world.root(), certificate, key, authority.root.as_bytes()).await;
    trusting(&world.sources, &authority);
    let plain = Repository::anonymous(&server.url("repo"));
    let tls =
        Tls { client_certificate: file("c.pem"), client_key: Secret::from(file("c.key")), ..Tls::default() };
    let known = Repository { tls: tls.clone(), ..plain.clone() };
    fetch(&world.sources, &known).await.unwrap();
    let other = Authority::new(&world).await;
    let wrong = Tls {
        client_certificate: other.certificate,
        client_key: Secret::from(other.key.clone()),
        ..tls.clone()
    };
    let half = Tls { client_key: Secret::default(), ..tls };
    for tls in [Tls::default(), half, wrong] {
        let error =
            fetch(&world.sources, &Repository { tls, ..plain.clone() }).await.unwrap_err().to_string();
        for secret in [&file("c.key"), &other.key] {
            assert!(!error.contains(secret.lines().nth(1).unwrap()), "{error}");
        }
    }
    // What the one fetched, the others do not see.
    let commit = world.commit("second", &[("a", "2")]).await;
    assert_eq!(fetch(&world.sources, &known).await.unwrap(), commit);
    assert!(world.sources.tree(&plain, &commit).await.is_err());
    assert_eq!(
        std::fs::read_dir(world.path().join("cache/secrets")).unwrap().count(),
        2,
        "no key is left behind"
    );
}
