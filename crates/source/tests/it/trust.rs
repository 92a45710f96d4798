//! Who vouches for servers may change at any time, and counts at once (REP-80, REP-81). Each way to git is asked: the
//! one in this process, and the `git` program.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use tiphys_api::trust::TlsCertificates;
use tiphys_source::{Freshness, Repository, Secret, SourceError, Sources, Trust};

use crate::git_http::GitServer;
use crate::ssh_server::SshServer;
use crate::world::{World, openssl};

/// A CA, and a certificate that it made for the loopback address.
pub(crate) struct Authority {
    pub(crate) root: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) async fn new(world: &World) -> Self {
        let make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
        openssl(world, &format!("{make} -subj /CN=ca -keyout ca.key -out ca.pem")).await;
        let server = "-subj /CN=test -addext subjectAltName=IP:127.0.0.1 \
                      -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca.key -keyout s.key -out s.pem";
        openssl(world, &format!("{make} {server}")).await;
        let file = |name: &str| fs::read_to_string(world.path().join(name)).unwrap();
        Self { root: file("ca.pem"), certificate: file("s.pem"), key: file("s.key") }
    }
}

fn trust(entries: &[(&str, &str)]) -> Trust {
    let data: BTreeMap<String, String> =
        entries.iter().map(|(host, pem)| ((*host).to_owned(), (*pem).to_owned())).collect();
    Trust { tls: Arc::new(TlsCertificates::read(&data)), ..Trust::default() }
}

/// Sources that ask in-process, and sources that leave everything to the git program.
fn both(world: &World) -> [Sources; 2] {
    let by_git = world.restarted(|options| {
        options.cache_dir = world.path().join("other-cache");
        // A variable that names a proxy for nothing makes git ask.
        options.proxy_environment = vec![("ftp_proxy".to_owned(), "http://127.0.0.1:1".to_owned())];
    });
    [world.sources.clone(), by_git]
}

async fn fetch(sources: &Sources, repository: &Repository) -> Result<String, SourceError> {
    let commit = sources.resolve(repository, "main", Freshness::Cached).await?;
    sources.tree(repository, &commit).await.map(|_tree| commit)
}

#[tokio::test]
async fn rep_80_certificates_that_change_count_at_once() {
    let world = World::with(&[("a", "1")]).await;
    let authority = Authority::new(&world).await;
    let (certificate, key) = (authority.certificate.as_bytes(), authority.key.as_bytes());
    let server = GitServer::start_tls(&world.root(), certificate, key).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let known = trust(&[("127.0.0.1", &authority.root)]);
    for sources in both(&world) {
        let error = fetch(&sources, &repository).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
        assert!(text.contains("host \"127.0.0.1\"") && text.contains("argocd-tls-certs-cm"), "{text}");
        assert!(text.contains("nobody that the system trusts vouches"), "{text}");

        sources.set_trust(known.clone());
        let commit = fetch(&sources, &repository).await.unwrap();

        // What was listed and fetched meanwhile is not shown any more, by name or by commit.
        sources.set_trust(Trust::default());
        assert!(matches!(fetch(&sources, &repository).await, Err(SourceError::Denied { .. })));
        let seen = sources.tree(&repository, &commit).await.map(drop);
        assert!(matches!(seen, Err(SourceError::Denied { .. })), "{seen:?}");

        sources.set_trust(known.clone());
        sources.tree(&repository, &commit).await.unwrap();
    }
    // The way in this process needs nobody's help.
    let alone = world.restarted(|options| options.git_program = "/bin/false".into());
    alone.set_trust(known);
    alone.test(&repository).await.unwrap();
}

#[tokio::test]
async fn rep_80_the_certificates_of_a_host_are_the_only_ones_and_count_for_it_alone() {
    let world = World::with(&[("a", "1")]).await;
    let authority = Authority::new(&world).await;
    let other = Authority::new(&world).await;
    let (certificate, key) = (authority.certificate.as_bytes(), authority.key.as_bytes());
    let server = GitServer::start_tls(&world.root(), certificate, key).await;
    let repository = Repository::anonymous(&server.url("repo"));
    for sources in both(&world) {
        sources.set_trust(trust(&[("127.0.0.1", &other.root)]));
        let text = fetch(&sources, &repository).await.unwrap_err().to_string();
        assert!(text.contains("in ConfigMap argocd-tls-certs-cm do not vouch for it"), "{text}");
        sources.set_trust(trust(&[("127.0.0.1", &format!("{}{}", other.root, authority.root))]));
        fetch(&sources, &repository).await.unwrap();
        // Another name is another host.
        let named = Repository::anonymous(&server.url("repo").replace("127.0.0.1", "localhost"));
        assert!(fetch(&sources, &named).await.is_err());
    }
}

#[tokio::test]
async fn rep_80_an_entry_that_cannot_be_read_harms_its_host_alone() {
    let world = World::with(&[("a", "1")]).await;
    let authority = Authority::new(&world).await;
    let (certificate, key) = (authority.certificate.as_bytes(), authority.key.as_bytes());
    let server = GitServer::start_tls(&world.root(), certificate, key).await;
    let repository = Repository::anonymous(&server.url("repo"));
    for sources in both(&world) {
        sources.set_trust(trust(&[("127.0.0.1", &authority.root), ("git.acme.test", "nonsense")]));
        let commit = fetch(&sources, &repository).await.unwrap();
        sources.set_trust(trust(&[("127.0.0.1", "nonsense"), ("git.acme.test", &authority.root)]));
        for error in [
            fetch(&sources, &repository).await.map(drop).unwrap_err(),
            sources.tree(&repository, &commit).await.map(drop).unwrap_err(),
            sources.resolve(&repository, &commit, Freshness::Cached).await.map(drop).unwrap_err(),
        ] {
            assert!(matches!(error, SourceError::InvalidRepository { .. }), "{error:?}");
            assert!(
                error.to_string().starts_with(
                    "the certificates for host \"127.0.0.1\" in ConfigMap argocd-tls-certs-cm cannot be read: \
                     no valid PEM data received; "
                ),
                "{error}"
            );
        }
        // Who does not want the server to be checked needs no certificates.
        fetch(&sources, &Repository { insecure: true, ..repository.clone() }).await.unwrap();
    }
}

#[tokio::test]
async fn rep_81_known_hosts_that_change_count_at_once() {
    let world = World::with(&[("a", "1")]).await;
    let server = SshServer::start(&world.root()).await;
    let url = format!("ssh://git@127.0.0.1:{}/repo", server.port());
    let repository =
        Repository { ssh_private_key: Secret::from(server.client_key()), ..Repository::anonymous(&url) };
    let known = |text: String| Trust { known_hosts: Some(text.into()), ..Trust::default() };
    // The file of the options does not count where the installation says something.
    fs::write(world.path().join("known_hosts"), server.known_host()).unwrap();
    for strange in [String::new(), server.other_host()] {
        world.sources.set_trust(known(strange));
        let error = fetch(&world.sources, &repository).await.unwrap_err();
        assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("argocd-ssh-known-hosts-cm has no such key for host \"127.0.0.1\""), "{text}");
        world.sources.set_trust(known(format!("# ours\n{}", server.known_host())));
        fetch(&world.sources, &repository).await.unwrap();
    }
    world.sources.set_trust(known(String::new()));
    assert!(matches!(fetch(&world.sources, &repository).await, Err(SourceError::Denied { .. })));
    // The files with host keys are gone with their commands.
    assert_eq!(fs::read_dir(world.path().join("cache/secrets")).unwrap().count(), 2);
}
