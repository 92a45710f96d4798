//! Operations that people ask for: a sync and a rollback, from what was asked to what is written to `.operation`
//! (API-130..133, CTL-55). Command line and server call the same.

use tiphys_api::Application;
use tiphys_api::application::{
    ApplicationSource, HistoryEntry, Info, Operation, RetryStrategy, SyncOperation, SyncResource,
    SyncStrategy,
};

/// A sync as it is asked for.
#[derive(Clone, Debug, Default)]
pub struct SyncRequest {
    /// Only say what would happen.
    pub dry_run: bool,
    /// Delete what left the sources.
    pub prune: bool,
    /// Revision in place of what the only source targets; empty keeps that.
    pub revision: String,
    /// Revisions in place of what the sources target, one per source; none keeps them.
    pub revisions: Vec<String>,
    /// Sync these alone; none means all.
    pub resources: Vec<SyncResource>,
    /// Objects in place of those of the sources, each as JSON.
    pub manifests: Vec<String>,
    /// How objects are applied.
    pub strategy: Option<SyncStrategy>,
    /// Options in place of the application's.
    pub options: Option<Vec<String>>,
    /// Retries in place of the application's.
    pub retry: Option<RetryStrategy>,
    /// Notes for people.
    pub info: Vec<Info>,
}

/// Why an operation cannot be asked for now; each is a failed precondition of the application, not of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The application is being deleted.
    #[error("application is deleting")]
    Deleting,
    /// Automated sync would undo it at once.
    #[error("Cannot sync to {revision}: auto-sync currently set to {target}")]
    OtherRevision {
        /// What was asked for.
        revision: String,
        /// What the source targets.
        target: String,
    },
    /// The same, about one of several sources.
    #[error("Cannot sync source {repo_url} to {revision}: auto-sync currently set to {target}")]
    OtherRevisionOfSource {
        /// The source.
        repo_url: String,
        /// What was asked for.
        revision: String,
        /// What the source targets.
        target: String,
    },
    /// Automated sync would undo a rollback at once.
    #[error("rollback cannot be initiated when auto-sync is enabled")]
    RollbackOfAutomated,
    /// The history has a digest in place of the options.
    #[error(
        "cannot roll back to deployment {id}: its values were too large to be kept in the history; set the values in \
         the spec, and sync to its revision"
    )]
    OptionsOmitted {
        /// The entry of the history.
        id: i64,
    },
}

/// The operation of a sync (API-131, API-132).
///
/// # Errors
/// When the application is being deleted, or syncs itself to other revisions.
pub fn sync_operation(app: &Application, request: SyncRequest) -> Result<Operation, RequestError> {
    if app.metadata.deletion_timestamp.is_some() {
        return Err(RequestError::Deleting);
    }
    check_revisions(app, &request)?;
    let policy = app.spec.sync_policy.as_ref();
    let retry = request.retry.or_else(|| policy.and_then(|policy| policy.retry.clone()));
    let is_local = !request.manifests.is_empty();
    Ok(Operation {
        sync: Some(SyncOperation {
            revision: if is_local { String::new() } else { request.revision },
            revisions: request.revisions,
            prune: request.prune,
            dry_run: request.dry_run,
            sync_strategy: request.strategy,
            resources: request.resources,
            manifests: request.manifests,
            sync_options: request.options.unwrap_or_else(|| app.sync_options().to_vec()),
            ..SyncOperation::default()
        }),
        info: request.info,
        retry: retry.unwrap_or_default(),
        ..Operation::default()
    })
}

/// Automated sync would undo a sync to another revision at once (API-131).
fn check_revisions(app: &Application, request: &SyncRequest) -> Result<(), RequestError> {
    if app.automated().is_none() || request.dry_run {
        return Ok(());
    }
    let head = |text: &str| if text.is_empty() { "HEAD".to_owned() } else { text.to_owned() };
    if let Some(source) = app.single_source() {
        let (revision, target) = (&request.revision, head(&source.target_revision));
        if !revision.is_empty() && *revision != target {
            return Err(RequestError::OtherRevision { revision: revision.clone(), target });
        }
    }
    for (source, revision) in app.sources().iter().zip(&request.revisions) {
        let target = head(&source.target_revision);
        if head(revision) != target {
            let (repo_url, revision) = (source.repo_url.clone(), revision.clone());
            return Err(RequestError::OtherRevisionOfSource { repo_url, revision, target });
        }
    }
    Ok(())
}

/// A sync to what a history entry recorded (CTL-55, API-133).
///
/// # Errors
/// When the application is being deleted, or syncs itself, or the entry has digests in place of options.
pub fn rollback_operation(
    app: &Application,
    entry: &HistoryEntry,
    prune: bool,
) -> Result<Operation, RequestError> {
    if app.metadata.deletion_timestamp.is_some() {
        return Err(RequestError::Deleting);
    }
    if app.automated().is_some() {
        return Err(RequestError::RollbackOfAutomated);
    }
    if entry.source.iter().chain(&entry.sources).any(ApplicationSource::is_abridged) {
        return Err(RequestError::OptionsOmitted { id: entry.id });
    }
    Ok(Operation {
        sync: Some(SyncOperation {
            revision: entry.revision.clone(),
            revisions: entry.revisions.clone(),
            prune,
            sync_options: app.sync_options().to_vec(),
            source: entry.source.clone().filter(|source| !source.repo_url.is_empty()),
            sources: entry.sources.clone(),
            ..SyncOperation::default()
        }),
        ..Operation::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn app(policy: &Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"destination": {},
            "source": {"repoURL": "u", "path": "p", "targetRevision": "main"}, "syncPolicy": policy}}))
        .unwrap()
    }

    fn to(revision: &str) -> SyncRequest {
        SyncRequest { revision: revision.to_owned(), ..SyncRequest::default() }
    }

    #[test]
    fn api_132_what_the_request_leaves_out_is_the_applications() {
        let app = app(&json!({"syncOptions": ["A=1"], "retry": {"limit": 3}}));
        let operation = sync_operation(&app, to("x")).unwrap();
        assert_eq!(operation.retry.limit, 3);
        assert_eq!(operation.sync.as_ref().unwrap().sync_options, ["A=1"]);
        let none = SyncRequest { options: Some(Vec::new()), ..to("x") };
        assert!(sync_operation(&app, none).unwrap().sync.unwrap().sync_options.is_empty());
        let local = SyncRequest { manifests: vec!["{}".to_owned()], ..to("x") };
        assert_eq!(sync_operation(&app, local).unwrap().sync.unwrap().revision, "");
    }

    /// CTL-36: other values than those that were deployed are never deployed silently.
    #[test]
    fn ctl_36_a_rollback_to_omitted_values_is_refused() {
        let app = app(&Value::Null);
        let values = json!({"repoURL": "u", "helm": {"values": "x".repeat(10_000)}});
        let source: ApplicationSource = serde_json::from_value(values).unwrap();
        let whole = HistoryEntry { id: 7, source: Some(source.clone()), ..HistoryEntry::default() };
        assert!(rollback_operation(&app, &whole, true).is_ok());
        let one = HistoryEntry { source: Some(source.abridged()), ..whole.clone() };
        let several = HistoryEntry { source: None, sources: vec![source.abridged()], ..whole };
        for entry in [one, several] {
            let refused = rollback_operation(&app, &entry, true);
            assert_eq!(refused, Err(RequestError::OptionsOmitted { id: 7 }));
        }
    }

    #[test]
    fn api_131_api_133_automated_sync_keeps_its_revision() {
        let automated = app(&json!({"automated": {}}));
        let refused = sync_operation(&automated, to("x")).unwrap_err();
        assert_eq!(refused.to_string(), "Cannot sync to x: auto-sync currently set to main");
        assert!(sync_operation(&automated, to("main")).is_ok());
        assert!(sync_operation(&automated, SyncRequest { dry_run: true, ..to("x") }).is_ok());
        let entry = HistoryEntry::default();
        assert_eq!(rollback_operation(&automated, &entry, true), Err(RequestError::RollbackOfAutomated));
        let mut deleted = app(&Value::Null);
        deleted.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        assert_eq!(rollback_operation(&deleted, &entry, true), Err(RequestError::Deleting));
        assert_eq!(sync_operation(&deleted, to("")), Err(RequestError::Deleting));
    }
}
