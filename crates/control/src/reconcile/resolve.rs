//! Project and destination of an application, and what they permit (CTL section 1.4, INV-6).

use std::sync::Arc;

use jiff::Timestamp;
use tiphys_api::AppProject;
use tiphys_api::application::Condition;
use tiphys_api::codes::ConditionType;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_cluster::Target;
use tiphys_engine::tracking::qualified_name;
use tiphys_installation::NoProject;
use tiphys_object::{GroupKind, Gvk, Object, ResourceKey};
use tiphys_policy::permit::{Governed, Permit};
use tiphys_policy::project::{Account, ServiceAccountError};
use tiphys_policy::spec_check::Finding;
use tiphys_policy::window::{self, SyncAttempt, WindowVerdict};

use super::load::AppContext;
use crate::clusters::{Destination, Unusable};
use crate::world::World;

/// What a valid spec resolves to.
#[derive(Clone)]
pub(crate) struct Resolved {
    pub(crate) project: Arc<AppProject>,
    pub(crate) destination: Arc<Destination>,
    /// As whom changes are made at the destination, `None` being the controller itself, or why nobody can (REP-190,
    /// REP-191). Reading goes on in both cases.
    pub(crate) account: Result<Option<Account>, ServiceAccountError>,
}

/// Why project and destination are not at hand.
pub(crate) enum Unresolved {
    /// The spec is wrong, with the conditions that say so.
    Invalid(Vec<Condition>),
    /// The cluster was just started and is not listed yet, or the project was just made.
    NotReady,
    /// The cluster cannot be reached, and why.
    Unreachable(String),
}

/// Checks the spec and resolves project and destination.
pub(crate) async fn resolve(cx: &AppContext<'_>) -> Result<Resolved, Unresolved> {
    let (app, world) = (&cx.app, &cx.world);
    let checked = match world.check_spec(app) {
        Ok(checked) => checked,
        Err(_) if is_project_late(cx).await => return Err(Unresolved::NotReady),
        Err(findings) => {
            let shown = |finding: Finding| Condition::new(finding.kind, finding.message);
            return Err(Unresolved::Invalid(findings.into_iter().map(shown).collect()));
        }
    };
    let Ok(project) = world.project(app.project()) else { return Err(Unresolved::Invalid(Vec::new())) };
    if let Some(text) = collision(cx) {
        let condition = Condition::new(ConditionType::InvalidSpecError, text);
        return Err(Unresolved::Invalid(vec![condition]));
    }
    match cx.controller.clusters.get(&checked.cluster.key()).await {
        Ok(destination) => {
            let account = account(cx, project, &checked.cluster.server);
            Ok(Resolved { project: Arc::clone(project), destination, account })
        }
        Err(Unusable::NotReady) => Err(Unresolved::NotReady),
        Err(Unusable::Failed(error)) => Err(Unresolved::Unreachable(error)),
    }
}

/// Whether the project exists although its watch has not shown it: whoever makes a project and an application together
/// is not told that there is no project, and their operation does not end by it.
async fn is_project_late(cx: &AppContext<'_>) -> bool {
    let name = cx.app.project();
    if !matches!(cx.world.project(name), Err(NoProject::Missing)) {
        return false;
    }
    let target = Target::new(Gvk::new(GROUP, VERSION, "AppProject"), &cx.controller.namespace, name);
    // Whoever cannot ask believes the watch.
    matches!(Box::pin(cx.controller.home.get(&target)).await, Ok(Some(_)))
}

/// Reason not to reconcile an application: another application has the same instance digest (TRK-55). The other
/// application is named only if it belongs to the same project (SEC-25).
pub(super) fn collision(cx: &AppContext<'_>) -> Option<String> {
    let store = &cx.controller.store;
    let (digest, other) = store.collision(&cx.key)?;
    let project = store.get(&other).and_then(|entry| entry.parse().ok());
    let is_own = project.is_some_and(|app| app.project() == cx.app.project());
    let other = if is_own {
        format!("application {}", qualified_name(&other.namespace, &other.name))
    } else {
        "an application of another project".to_owned()
    };
    Some(format!("application instance hash {digest} collides with {other}"))
}

/// As whom changes are made at a destination, or why nothing may be changed there (REP-191).
pub(super) fn account(
    cx: &AppContext<'_>,
    project: &AppProject,
    server: &str,
) -> Result<Option<Account>, ServiceAccountError> {
    cx.world.account(&cx.app, project, server)
}

impl Resolved {
    /// Whether objects of a kind live in namespaces, as the cluster says; a kind it does not know is refused
    /// (INV-6).
    pub(super) fn scope_of(&self, kind: &GroupKind) -> Result<bool, String> {
        let kinds = self.destination.index.discovery().snapshot();
        match kinds.and_then(|kinds| kinds.scope(kind)) {
            Some(scope) => Ok(scope == tiphys_cluster::Scope::Namespaced),
            None => Err(format!("failed to get API resource info for {kind}: unable to verify permissions")),
        }
    }

    /// The project and destination as they decide about each object that is written there (INV-6); without the account
    /// that it takes, nothing is (REP-191).
    pub(super) fn governed<'a>(&'a self, world: &'a World) -> Result<Governed<'a>, String> {
        let account = self.account.as_ref().map_err(ToString::to_string)?;
        Ok(world.governed(&self.project, &self.destination.cluster, account.as_ref()))
    }

    /// Permission to change an object at the destination, or the text of the refusal (ENG-158). Whether it is in a
    /// namespace is what discovery says.
    pub(super) fn permit(&self, object: &Object, world: &World) -> Result<Permit, String> {
        let namespaced = self.scope_of(&object.gvk().group_kind())?;
        self.governed(world)?.permit(&object.key(), namespaced)
    }

    /// Reason why an object with this key may not be changed at the destination, if any. Does not look the object up, so
    /// the refusal is the same whether it exists (SEC-25).
    pub(super) fn refusal(&self, key: &ResourceKey, world: &World) -> Option<String> {
        let namespaced = self.scope_of(&key.group_kind()).ok()?;
        self.governed(world).and_then(|governed| governed.permit(key, namespaced)).err()
    }

    /// What the sync windows of the project say.
    pub(super) fn windows(
        &self,
        cx: &AppContext<'_>,
        manual: bool,
        started: Option<Timestamp>,
        now: Timestamp,
    ) -> WindowVerdict {
        let attempt = SyncAttempt { manual, operation_started_at: started, now };
        window::can_sync_application(&self.project, cx.world.window_subject(&cx.app), attempt)
    }
}
