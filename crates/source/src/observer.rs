//! Tells whoever counts what servers of sources are asked (CTL-123, RND-249).
//!
//! Questions are told, not answers from memory: a listing that several wait for is one question.

use std::sync::Arc;
use std::time::Duration;

use tiphys_api::repo_url;
use tokio::time::Instant;

use crate::Repository;

/// What a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// The references of a Git repository.
    LsRemote,
    /// Content of a Git repository.
    Fetch,
    /// The references of a repository that is committed to (CTL-124).
    CommitLsRemote,
    /// Content of a repository that is committed to.
    CommitFetch,
    /// To take commits in.
    Push,
    /// The tags of a repository of a registry.
    OciTags,
    /// The digest of a tag.
    OciResolve,
    /// The content of an artifact.
    OciExtract,
    /// What an artifact says about itself.
    OciMetadata,
    /// Whether a registry lets the caller in.
    OciTest,
}

/// Is told of questions. It must not wait.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A question begins; the URL of its repository has no credentials.
    fn begins(&self, repository: &str, request: Request);

    /// A question that was told to begin is over. `None` where nobody waited for its end.
    fn ended(&self, repository: &str, request: Request, ended: Option<Ended<'_>>);
}

/// How a question ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// How long it took.
    pub took: Duration,
    /// Whether it failed.
    pub has_failed: bool,
    /// The revision it was about; empty where it was about none.
    pub revision: &'a str,
}

/// A question that is under way until this is dropped.
struct Asking<'a> {
    observer: &'a Arc<dyn Observer>,
    repository: String,
    request: Request,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.observer.ended(&self.repository, self.request, None);
        }
    }
}

/// Asks, and tells the observer, where there is one.
pub(crate) async fn observed<T, E>(
    observer: Option<&Arc<dyn Observer>>,
    (repository, request, revision): (&Repository, Request, &str),
    asking: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(observer) = observer else { return asking.await };
    let repository = repo_url::redact(&repo_url::normalize(repository.url.expose()));
    observer.begins(&repository, request);
    let mut guard = Asking { observer, repository, request, is_over: false };
    let began = Instant::now();
    let result = asking.await;
    guard.is_over = true;
    let ended = Ended { took: began.elapsed(), has_failed: result.is_err(), revision };
    observer.ended(&guard.repository, request, Some(ended));
    result
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<String>>);

    impl Observer for Told {
        fn begins(&self, repository: &str, request: Request) {
            self.0.lock().push(format!("{repository} {request:?} begins"));
        }

        fn ended(&self, repository: &str, request: Request, ended: Option<Ended<'_>>) {
            let how = ended.map(|ended| (ended.has_failed, ended.revision.to_owned()));
            self.0.lock().push(format!("{repository} {request:?} {how:?}"));
        }
    }

    #[tokio::test]
    async fn ctl_123_a_question_is_told_without_credentials_however_it_ends() {
        let told = Arc::new(Told::default());
        let observer: Arc<dyn Observer> = Arc::<Told>::clone(&told);
        let repository = Repository::anonymous("https://me:secret@git.test/team/app.git");
        let fails = async { Err::<(), ()>(()) };
        let answer = observed(Some(&observer), (&repository, Request::Fetch, "abc"), fails).await;
        assert!(answer.is_err());
        let never = std::future::pending::<Result<(), ()>>();
        let asking = observed(Some(&observer), (&repository, Request::LsRemote, ""), never);
        assert!(futures::FutureExt::now_or_never(asking).is_none(), "nobody waits for it");
        let url = repo_url::redact(&repo_url::normalize("https://me:secret@git.test/team/app.git"));
        assert!(!url.contains("secret"), "{url}");
        let told = told.0.lock().clone();
        assert_eq!(
            told,
            [
                format!("{url} Fetch begins"),
                format!("{url} Fetch Some((true, \"abc\"))"),
                format!("{url} LsRemote begins"),
                format!("{url} LsRemote None"),
            ]
        );
    }
}
