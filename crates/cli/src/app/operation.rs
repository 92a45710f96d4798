//! Sync requests: from flags to the operation of one application (CLI-510..513, API-130, API-131).

use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::application::{
    Info, Operation, OperationState, RetryStrategy, StrategyForce, SyncResource, SyncStrategy,
};
use tiphys_api::codes::{OperationPhase, ResultCode, SyncStatusCode};
use tiphys_lifecycle::request::{self, RequestError};

use crate::app::filter::{self, ResourceFilter};
use crate::app::{selection, spec_edit};
use crate::failure::Failure;
use crate::flags::Parsed;

/// A sync as the flags ask for it, before any application is known.
#[derive(Debug)]
pub(crate) struct SyncRequest {
    pub(crate) dry_run: bool,
    prune: bool,
    revision: String,
    revisions: Vec<String>,
    positions: Vec<i64>,
    names: Vec<String>,
    pub(crate) resources: Vec<ResourceFilter>,
    resource_texts: Vec<String>,
    strategy: SyncStrategy,
    options: Vec<String>,
    retry: Option<RetryStrategy>,
    info: Vec<Info>,
    pub(crate) is_local: bool,
}

/// Reads and checks the flags of `sync`.
pub(crate) fn read(flags: &Parsed) -> Result<SyncRequest, Failure> {
    let count = flags.operands.len();
    if count > 0 && !flags.text("selector").is_empty() {
        return Err(Failure::fatal(
            "Cannot use selector option when application name(s) passed as argument(s)",
        ));
    }
    let revisions = flags.texts("revisions").to_vec();
    let positions = flags.ints("source-positions");
    let names = flags.texts("source-names").to_vec();
    for (given, what) in [(positions.len(), "source-positions"), (names.len(), "source-names")] {
        let pairs_none = positions.is_empty() && names.is_empty() && what == "source-positions";
        if count != 1 && (given > 0 || pairs_none && !revisions.is_empty()) {
            return Err(Failure::fatal(format!(
                "Cannot use --revisions and --{what} options when 0 or more than 1 application names are passed as argument(s)"
            )));
        }
    }
    selection::check_pairs((&positions, &names), &revisions).map_err(Failure::fatal)?;
    if positions.iter().any(|position| *position <= 0) {
        return Err(Failure::fatal(
            "source-position cannot be less than or equal to 0, Counting starts at 1",
        ));
    }
    let limit = flags.int("retry-limit");
    Ok(SyncRequest {
        dry_run: flags.is_on("dry-run"),
        prune: flags.is_on("prune"),
        revision: flags.text("revision").to_owned(),
        revisions,
        positions,
        names,
        resources: ResourceFilter::parse_all(flags.texts("resource"))?,
        resource_texts: flags.texts("resource").to_vec(),
        strategy: strategy(flags)?,
        options: options(flags),
        retry: (limit != 0).then(|| spec_edit::retry(flags, limit, "retry")),
        info: flags.texts("info").iter().map(|text| info(text)).collect::<Result<_, _>>()?,
        is_local: flags.is_set("local"),
    })
}

fn strategy(flags: &Parsed) -> Result<SyncStrategy, Failure> {
    let force = Some(StrategyForce { force: flags.is_on("force"), ..StrategyForce::default() });
    match flags.text("strategy") {
        "apply" => Ok(SyncStrategy { apply: force, ..SyncStrategy::default() }),
        "" | "hook" => Ok(SyncStrategy { hook: force, ..SyncStrategy::default() }),
        other => Err(Failure::fatal(format!("Unknown sync strategy: '{other}'"))),
    }
}

fn options(flags: &Parsed) -> Vec<String> {
    let all = [
        ("apply-out-of-sync-only", "ApplyOutOfSyncOnly=true"),
        ("replace", "Replace=true"),
        ("server-side", "ServerSideApply=true"),
    ];
    all.iter().filter(|(name, _)| flags.is_on(name)).map(|(_, option)| (*option).to_owned()).collect()
}

fn info(text: &str) -> Result<Info, Failure> {
    match text.split_once('=') {
        Some((name, value)) => Ok(Info { name: name.to_owned(), value: value.to_owned(), ..Info::default() }),
        None => Err(Failure::generic(format!("expected info of the form: name=value. Received: {text}"))),
    }
}

/// The operation as it is written, or the refusal with the code of an API server.
pub(crate) fn written(asked: Result<Operation, RequestError>) -> Result<Value, Failure> {
    let operation = asked.map_err(|error| Failure::status("FailedPrecondition", error.to_string()))?;
    serde_json::to_value(operation).map_err(|error| Failure::generic(error.to_string()))
}

impl SyncRequest {
    /// Whether only a part of the application is synced, given what labels selected.
    pub(crate) fn is_partial(&self, labelled: &[SyncResource]) -> bool {
        !self.resources.is_empty() || !labelled.is_empty()
    }

    /// Checks what depends on the application alone (CLI-511).
    pub(crate) fn check(&self, app: &Application) -> Result<(), Failure> {
        if app.is_multi_source() && !self.revision.is_empty() {
            return Err(Failure::fatal(
                "argocd cli does not work on multi-source app with --revision flag. Use --revisions and --source-positions instead.",
            ));
        }
        if app.is_multi_source() && self.is_local {
            return Err(Failure::fatal("argocd cli does not work on multi-source app with --local flag"));
        }
        if self.is_local && app.automated().is_some() && !self.dry_run {
            return Err(Failure::fatal(
                "Cannot use local sync when Automatic Sync Policy is enabled except with --dry-run",
            ));
        }
        Ok(())
    }

    /// The operation for an application (API-130..132). `labelled` are resources that `--label` selected,
    /// `manifests` local objects.
    pub(crate) fn operation(
        &self,
        app: &Application,
        labelled: &[SyncResource],
        manifests: &[String],
    ) -> Result<Value, Failure> {
        let mut resources = Vec::new();
        if !self.resources.is_empty() {
            resources = filter::selected(app, &self.resources);
            if resources.is_empty() {
                return Err(Failure::fatal(format!(
                    "No matching app resources found for resource filter: {}",
                    self.resource_texts.join(", ")
                )));
            }
        }
        resources.extend_from_slice(labelled);
        let asked = request::SyncRequest {
            dry_run: self.dry_run,
            prune: self.prune,
            revision: self.revision.clone(),
            revisions: self.chosen_revisions(app)?,
            resources,
            manifests: manifests.to_vec(),
            strategy: Some(self.strategy.clone()),
            options: (!self.options.is_empty()).then(|| self.options.clone()),
            retry: self.retry.clone(),
            info: self.info.clone(),
        };
        written(request::sync_operation(app, asked))
    }

    /// One revision per source for several sources; empty ones follow the target.
    fn chosen_revisions(&self, app: &Application) -> Result<Vec<String>, Failure> {
        if self.revisions.is_empty() || !app.is_multi_source() {
            return Ok(Vec::new());
        }
        let count = app.sources().len();
        let indexes = if self.names.is_empty() {
            selection::by_position(&self.positions, count)
                .map_err(|_range| Failure::status("InvalidArgument", "source position is out of range"))?
        } else {
            selection::by_name(app, &self.names)?
        };
        let mut chosen: Vec<String> =
            app.sources().iter().map(|source| source.target_revision.clone()).collect();
        for (index, revision) in indexes.into_iter().zip(&self.revisions) {
            if let Some(slot) = chosen.get_mut(index) {
                slot.clone_from(revision);
            }
        }
        Ok(chosen)
    }

    /// What the end of the operation means for the exit code (CLI-515).
    pub(crate) fn judge(
        &self,
        app: &Application,
        state: Option<&OperationState>,
        is_partial: bool,
    ) -> Result<(), Failure> {
        if self.dry_run {
            return Ok(());
        }
        let Some(state) = state else { return Ok(()) };
        if state.phase != OperationPhase::Succeeded {
            return Err(Failure::fatal(format!("Operation has completed with phase: {}", state.phase)));
        }
        let results = state.sync_result.as_ref().map_or(&[][..], |result| result.resources.as_slice());
        let pruning = results.iter().filter(|result| result.status == ResultCode::PruneSkipped).count();
        if !is_partial && app.status.sync.status != SyncStatusCode::Synced && pruning > 0 {
            return Err(Failure::fatal(format!("{pruning} resources require pruning")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sync::FLAGS;
    use crate::flags::parse;
    use serde_json::json;

    fn request(args: &[&str]) -> Result<SyncRequest, Failure> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        read(&parse(&args, &[FLAGS]).unwrap())
    }

    fn app(policy: &Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"destination": {},
            "source": {"repoURL": "u", "path": "p", "targetRevision": "main"}, "syncPolicy": policy},
            "status": {"resources": [{"kind": "Service", "namespace": "n", "name": "web"}]}}))
        .unwrap()
    }

    #[test]
    fn cli_513_the_operation_of_a_plain_sync() {
        let operation = request(&["a"]).unwrap().operation(&app(&Value::Null), &[], &[]).unwrap();
        assert_eq!(operation["sync"], json!({"syncStrategy": {"hook": {}}}));
    }

    #[test]
    fn cli_513_options_and_retries() {
        let operation = request(&[
            "a",
            "--prune",
            "--dry-run",
            "--strategy",
            "apply",
            "--force",
            "--replace",
            "--server-side",
            "--apply-out-of-sync-only",
            "--retry-limit",
            "2",
            "--info",
            "why=test",
            "--revision",
            "x",
        ])
        .unwrap()
        .operation(&app(&json!({"syncOptions": ["A=1"], "automated": {}})), &[], &[])
        .unwrap();
        assert_eq!(
            operation["sync"],
            json!({"prune": true, "dryRun": true, "revision": "x", "syncStrategy": {"apply": {"force": true}},
                "syncOptions": ["ApplyOutOfSyncOnly=true", "Replace=true", "ServerSideApply=true"]})
        );
        assert_eq!(
            operation["retry"],
            json!({"limit": 2, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m0s"}})
        );
        assert_eq!(operation["info"], json!([{"name": "why", "value": "test"}]));
        let own =
            request(&["a"]).unwrap().operation(&app(&json!({"syncOptions": ["A=1"]})), &[], &[]).unwrap();
        assert_eq!(own["sync"]["syncOptions"], json!(["A=1"]), "API-132: those of the application otherwise");
        assert_eq!(
            request(&["a", "--info", "x"]).unwrap_err().message,
            "expected info of the form: name=value. Received: x"
        );
    }

    #[test]
    fn cli_511_flags_that_contradict() {
        let fatal = |args: &[&str]| {
            let failure = request(args).unwrap_err();
            assert_eq!(failure.code, 1);
            failure.message
        };
        assert_eq!(
            fatal(&["a", "-l", "x=y"]),
            "Cannot use selector option when application name(s) passed as argument(s)"
        );
        assert!(
            fatal(&["--revisions", "x", "--source-positions", "1"])
                .starts_with("Cannot use --revisions and --source-positions")
        );
        assert!(
            fatal(&["a", "--revisions", "x", "--source-positions", "1,2"])
                .starts_with("While using --revisions and --source-positions")
        );
        assert_eq!(
            fatal(&["a", "--revisions", "x", "--source-positions", "0"]),
            "source-position cannot be less than or equal to 0, Counting starts at 1"
        );
        assert_eq!(fatal(&["a", "--strategy", "x"]), "Unknown sync strategy: 'x'");
    }

    #[test]
    fn cli_512_resources_are_resolved_against_the_status() {
        let operation =
            request(&["a", "--resource", "*:*:w*"]).unwrap().operation(&app(&Value::Null), &[], &[]).unwrap();
        assert_eq!(operation["sync"]["resources"][0]["name"], "web");
        let failure = request(&["a", "--resource", ":Pod:x"])
            .unwrap()
            .operation(&app(&Value::Null), &[], &[])
            .unwrap_err();
        assert_eq!(failure, Failure::fatal("No matching app resources found for resource filter: :Pod:x"));
    }

    #[test]
    fn api_131_automated_sync_refuses_other_revisions() {
        let automated = app(&json!({"automated": {}}));
        let failure =
            request(&["a", "--revision", "x"]).unwrap().operation(&automated, &[], &[]).unwrap_err();
        assert!(failure.message.ends_with("Cannot sync to x: auto-sync currently set to main"));
        assert!(request(&["a", "--revision", "main"]).unwrap().operation(&automated, &[], &[]).is_ok());
        assert!(request(&["a", "--revision", "x"]).unwrap().operation(&app(&Value::Null), &[], &[]).is_ok());
    }

    #[test]
    fn cli_515_the_verdict() {
        let state = |phase: &str| -> OperationState {
            serde_json::from_value(json!({"operation": {"sync": {}}, "phase": phase, "startedAt": "",
                "syncResult": {"revision": "x", "resources": [{"kind": "Service", "name": "s", "status": "PruneSkipped"}]}}))
            .unwrap()
        };
        let request = request(&["a"]).unwrap();
        let mut app = app(&Value::Null);
        app.status.sync.status = "OutOfSync".into();
        let judge = |phase, partial| {
            request
                .judge(&app, Some(&state(phase)), partial)
                .map_err(|failure| (failure.message, failure.code))
        };
        assert_eq!(judge("Failed", false), Err(("Operation has completed with phase: Failed".into(), 1)));
        assert_eq!(judge("Succeeded", false), Err(("1 resources require pruning".into(), 1)));
        assert_eq!(judge("Succeeded", true), Ok(()));
    }
}
