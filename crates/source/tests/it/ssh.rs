//! SSH, against a server in this process: the `ssh` program is the client, and nothing is skipped.

use std::fs;

use tiphys_source::{Freshness, Repository, Secret, SourceError};

use crate::ssh_server::SshServer;
use crate::world::World;

fn repository(server: &SshServer) -> Repository {
    let url = format!("ssh://git@127.0.0.1:{}/repo", server.port());
    Repository { ssh_private_key: Secret::from(server.client_key()), ..Repository::anonymous(&url) }
}

/// RND-26: a server whose key is not known, or is another one, is not spoken to; a client without the right key is
/// not let in.
#[tokio::test]
async fn rnd_26_keys_and_known_hosts() {
    let world = World::with(&[("a", "1")]).await;
    let server = SshServer::start(&world.root()).await;
    let repository = repository(&server);
    let known_hosts = world.path().join("known_hosts");

    let error = world.sources.resolve(&repository, "main", Freshness::Cached).await.unwrap_err();
    assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("Host key verification failed"), "{error}");

    fs::write(&known_hosts, server.other_host()).unwrap();
    let error = world.sources.resolve(&repository, "main", Freshness::Cached).await.unwrap_err();
    assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("Host key verification failed"), "{error}");

    fs::write(&known_hosts, server.known_host()).unwrap();
    let commit = world.sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    world.sources.tree(&repository, &commit).await.unwrap();

    let nobody = Repository { ssh_private_key: Secret::default(), ..repository.clone() };
    let stranger =
        Repository { ssh_private_key: Secret::from(SshServer::strange_key()), ..repository.clone() };
    for refused in [nobody, stranger] {
        let error = world.sources.resolve(&refused, "main", Freshness::Cached).await.unwrap_err();
        assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
        assert!(error.to_string().contains("Permission denied"), "{error}");
    }

    fs::remove_file(&known_hosts).unwrap();
    let insecure = Repository { insecure: true, ..repository };
    world.sources.resolve(&insecure, "main", Freshness::Cached).await.unwrap();
    // The files with keys are gone; what stays is the program that answers git's questions, and an empty directory.
    assert_eq!(fs::read_dir(world.path().join("cache/secrets")).unwrap().count(), 2);
}

/// RND-30: a push is followed over SSH as over HTTP, and a repository that is not there is an error.
#[tokio::test]
async fn rnd_30_pushes_are_followed_over_ssh() {
    let world = World::with(&[("a", "1")]).await;
    let server = SshServer::start(&world.root()).await;
    fs::write(world.path().join("known_hosts"), server.known_host()).unwrap();
    let repository = repository(&server);
    for content in ["2", "3"] {
        let commit = world.commit("next", &[("a", content)]).await;
        world.sources.invalidate(repository.url.expose());
        assert_eq!(world.sources.resolve(&repository, "main", Freshness::Cached).await.as_ref(), Ok(&commit));
        let tree = world.sources.tree(&repository, &commit).await.unwrap();
        let path = tiphys_render::TreePath::parse("a").unwrap();
        assert_eq!(tree.read(&path, 10).unwrap(), content);
    }
    let missing = Repository {
        ssh_private_key: repository.ssh_private_key.clone(),
        ..Repository::anonymous(&format!("ssh://git@127.0.0.1:{}/missing", server.port()))
    };
    let error = world.sources.resolve(&missing, "main", Freshness::Cached).await.unwrap_err();
    assert!(matches!(error, SourceError::Unavailable { .. }), "{error:?}");
}
