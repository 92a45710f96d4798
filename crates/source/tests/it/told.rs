//! What an observer is told of questions to a Git server.

use std::sync::Arc;

use parking_lot::Mutex;
use tiphys_source::{Ended, Freshness, Observer, Repository, Request};

use crate::git_http::{Auth, GitServer};
use crate::world::World;

#[derive(Debug, Default)]
struct Told {
    ended: Mutex<Vec<(Request, bool, String)>>,
    pending: Mutex<i64>,
}

impl Observer for Told {
    fn begins(&self, repository: &str, _request: Request) {
        assert!(repository.starts_with("http://"), "{repository}");
        *self.pending.lock() += 1;
    }

    fn ended(&self, _repository: &str, request: Request, ended: Option<Ended<'_>>) {
        *self.pending.lock() -= 1;
        let Some(ended) = ended else { return };
        self.ended.lock().push((request, ended.has_failed, ended.revision.to_owned()));
    }
}

/// Questions are told, and not what is answered from memory.
#[tokio::test]
async fn ctl_123_listings_and_fetches_are_told_once() {
    let world = World::with(&[("a.yaml", "kind: A\n")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let told = Arc::new(Told::default());
    let observer = Arc::<Told>::clone(&told);
    let sources = world.restarted(|options| options.observer = Some(observer));
    let commit = sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    for _ in 0..3 {
        sources.tree(&repository, &commit).await.unwrap();
        sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    }
    let missing = "0".repeat(40);
    assert!(sources.tree(&repository, &missing).await.is_err());
    let ended = told.ended.lock().clone();
    let expected = [
        (Request::LsRemote, false, "main".to_owned()),
        (Request::Fetch, false, commit),
        (Request::Fetch, true, missing),
    ];
    assert_eq!(ended.get(..3), Some(&expected[..]), "{ended:?}");
    assert_eq!(*told.pending.lock(), 0);
}
