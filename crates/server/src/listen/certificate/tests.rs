use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use tiphys_cluster::{Connection, Discovery, Writer};
use tiphys_sim::{Options, Sim};

use super::*;
use crate::fixtures::{Data, now};
use crate::world::Seen;

const KEPT: May = May { make: true, write: true };
const HERE: May = May { make: true, write: false };
const NOTHING: May = May { make: false, write: false };
const SECRETS: &str = "/api/v1/namespaces/argocd/secrets";

fn world(data: &Data, own: Option<&Data>) -> World {
    let mut seen = Seen { data: data.installation().clone(), ..Seen::default() };
    if let Some(own) = own {
        seen.secrets = own.installation().secrets.clone();
    }
    World::build(&seen, None)
}

/// A certificate that can be used, with its key.
fn pair() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// A cluster with a namespace, and `argocd-secret`.
struct Cluster {
    sim: Sim,
    store: Store,
}

impl Cluster {
    fn new() -> Self {
        let sim = Sim::new(Options::default()).unwrap();
        let called = sim.clone();
        let connection = Connection::over("https://k", move |request: Request<Bytes>| {
            let sim = called.clone();
            async move { Ok(sim.call(request).await) }
        });
        let writer = Writer::new(connection.clone(), Discovery::new(connection));
        Self { sim, store: Store::new(writer, "argocd") }
    }

    async fn ask(&self, method: Method, target: &str, body: &Value) -> Value {
        let request =
            Request::builder().method(method).uri(target).header("content-type", "application/json");
        let response = self.sim.call(request.body(body.to_string().into()).unwrap()).await;
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    async fn with_secret(self, data: &Value) -> Self {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
        self.ask(Method::POST, "/api/v1/namespaces", &namespace).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "argocd-secret"}, "data": data});
        self.ask(Method::POST, SECRETS, &secret).await;
        self
    }

    /// What `argocd-secret` has.
    async fn keys(&self) -> Vec<String> {
        let secret = self.ask(Method::GET, &format!("{SECRETS}/argocd-secret"), &Value::Null).await;
        secret["data"].as_object().map(|data| data.keys().cloned().collect()).unwrap_or_default()
    }

    async fn first(&self, world: &World, may: May) -> Option<Arc<ServerConfig>> {
        first((world, &self.store), &TlsOptions::default(), may, now()).await.unwrap()
    }
}

#[test]
fn api_4_a_certificate_is_made_for_the_names_of_the_service() {
    let pair = self_signed("cd", now()).unwrap();
    assert!(configured(&TlsOptions::default(), &pair, "made").is_some());
    let der = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(
        pair.certificate.as_bytes(),
    )
    .unwrap();
    let has = |text: &str| der.windows(text.len()).any(|part| part == text.as_bytes());
    for text in [
        "Argo CD",
        "localhost",
        "argocd-server",
        "argocd-server.cd",
        "argocd-server.cd.svc",
        "argocd-server.cd.svc.cluster.local",
        // 2023-11-14 to 2024-11-13: a leap year.
        "231114000000Z",
        "241113000000Z",
    ] {
        assert!(has(text), "{text}");
    }
    let parsed = rustls::server::ParsedCertificate::try_from(&der).unwrap();
    let name = rustls::pki_types::ServerName::try_from("argocd-server.cd.svc").unwrap();
    assert!(rustls::client::verify_server_name(&parsed, &name).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn api_4_servers_that_start_at_once_keep_one_certificate() {
    let cluster = Cluster::new().with_secret(&json!({"server.secretkey": "eA=="})).await;
    let world = world(&Data::new(), None);
    let starts = (0..3).map(|_| cluster.first(&world, KEPT));
    let configs = futures::future::join_all(starts).await;
    assert!(configs.iter().all(Option::is_some));
    assert_eq!(cluster.keys().await, ["server.secretkey", "tls.crt", "tls.key"]);
    let secret = cluster.ask(Method::GET, &format!("{SECRETS}/argocd-secret"), &Value::Null).await;
    // One write was enough.
    assert_eq!(
        port_certificate::keep(&cluster.store, &self_signed("argocd", now()).unwrap()).await.unwrap(),
        { Pair::of(&tiphys_object::Object::from_value(&secret).unwrap()) }
    );
    let after = cluster.ask(Method::GET, &format!("{SECRETS}/argocd-secret"), &Value::Null).await;
    assert_eq!(after["metadata"]["resourceVersion"], secret["metadata"]["resourceVersion"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn api_4_who_only_looks_makes_a_certificate_and_writes_nothing() {
    let cluster = Cluster::new().with_secret(&json!({})).await;
    let none = world(&Data::new(), None);
    assert!(cluster.first(&none, HERE).await.is_some());
    assert!(cluster.first(&none, NOTHING).await.is_none());
    let (certificate, key) = pair();
    let own = Data::new().secret(TLS_SECRET, &[("tls.crt", &certificate), ("tls.key", &key)]);
    let both = Data::new().secret("argocd-secret", &[("tls.crt", &certificate), ("tls.key", &key)]);
    assert!(cluster.first(&world(&both, Some(&own)), HERE).await.is_some());
    assert_eq!(cluster.keys().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn api_4_a_certificate_of_its_own_takes_the_place_of_the_kept_one() {
    let (certificate, key) = pair();
    let kept = json!({"server.secretkey": "eA==", "tls.crt": "eA==", "tls.key": "eA=="});
    let cluster = Cluster::new().with_secret(&kept).await;
    let installation = Data::new().secret("argocd-secret", &[("tls.crt", "x"), ("tls.key", "x")]);
    // One that cannot be used drives nothing away, and nothing is written over the other, either.
    let bad = Data::new().secret(TLS_SECRET, &[("tls.crt", "no"), ("tls.key", &key)]);
    assert!(cluster.first(&world(&installation, Some(&bad)), KEPT).await.is_some());
    assert_eq!(cluster.keys().await, ["server.secretkey", "tls.crt", "tls.key"]);
    let own = Data::new().secret(TLS_SECRET, &[("tls.crt", &certificate), ("tls.key", &key)]);
    assert!(cluster.first(&world(&installation, Some(&own)), KEPT).await.is_some());
    assert_eq!(cluster.keys().await, ["server.secretkey"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn api_4_what_cannot_be_kept_is_used_all_the_same() {
    // There is no namespace, so that nothing can be written.
    let cluster = Cluster::new();
    assert!(cluster.first(&world(&Data::new(), None), KEPT).await.is_some());
}

#[test]
fn api_4_the_certificate_is_that_of_its_own_secret_else_that_of_the_installation() {
    let text = |world: &World| {
        let pair = own(world).or_else(|| kept(world));
        pair.map(|pair| format!("{} {}", pair.certificate, pair.key.expose()))
    };
    let (none, both) = (Data::new(), [("tls.crt", "c"), ("tls.key", "k")]);
    assert_eq!(text(&world(&none, None)), None);
    let installation = Data::new().secret("argocd-secret", &both);
    assert_eq!(text(&world(&installation, None)).as_deref(), Some("c k"));
    let of_its_own = Data::new().secret(TLS_SECRET, &[("tls.crt", "own"), ("tls.key", "k")]);
    assert_eq!(text(&world(&installation, Some(&of_its_own))).as_deref(), Some("own k"));
    let half = Data::new().secret(TLS_SECRET, &[("tls.crt", "own")]);
    assert_eq!(text(&world(&installation, Some(&half))).as_deref(), Some("c k"));
}

#[tokio::test(start_paused = true)]
async fn api_4_another_certificate_counts_for_new_connections_unless_it_cannot_be_used() {
    let (certificate, key) = pair();
    let tls = Arc::new(ArcSwapOption::empty());
    let known = Arc::new(ArcSwap::from_pointee(world(&Data::new(), None)));
    let following = follow(Arc::clone(&tls), Arc::clone(&known), TlsOptions::default());
    let following = tokio::spawn(following);
    let show = async |certificate: &str| {
        let own = Data::new().secret(TLS_SECRET, &[("tls.crt", certificate), ("tls.key", &key)]);
        // The first look comes before the change.
        tokio::task::yield_now().await;
        known.store(Arc::new(world(&Data::new(), Some(&own))));
        tokio::time::advance(TLS_INTERVAL).await;
        tokio::task::yield_now().await;
        tls.load_full()
    };
    let taken = show(&certificate).await;
    assert!(taken.is_some());
    let kept = show("no certificate").await;
    assert!(kept.is_some_and(|kept| taken.is_some_and(|taken| Arc::ptr_eq(&kept, &taken))));
    following.abort();
}
