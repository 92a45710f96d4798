//! How an application's objects are marked and found: `app selector`, `app tracking`, `app migrate-tracking` (TRK-108,
//! TRK-120..122, CLI-546).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::application::{StrategyForce, SyncResource, SyncStrategy};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::tracking::{
    TrackingFormat, TrackingId, TrackingSettings, Unselectable, qualified_name, split_instance_name,
};
use tiphys_lifecycle::request::{SyncRequest, sync_operation};
use tiphys_object::{Object, ResourceKey, access};

use crate::app::operation::written;
use crate::app::wait::{Limits, until};
use crate::app::waiting::{Goal, Wait};
use crate::app::{Ended, NAMESPACE, OK, Session, Work, show};
use crate::core::{AppName, Core, Destination, Stored, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{Format, print, unknown_format};
use crate::table::Table;

/// Flags of `selector`.
pub(super) const SELECTOR_FLAGS: &[Flag] = &[
    flag("output", Kind::Text, "selector", "Output format: selector, kubectl or json").or('o'),
    flag(
        "all-variants",
        Kind::Bool,
        "false",
        "Accept every form of the digest that stands for the application",
    ),
    NAMESPACE,
];

/// Flags of `tracking`.
pub(super) const TRACKING_FLAGS: &[Flag] = &[
    flag("installation-id", Kind::Bool, "false", "Show installation IDs instead of instance names"),
    NAMESPACE,
];

/// Flags of `migrate-tracking`.
pub(super) const MIGRATE_FLAGS: &[Flag] = &[
    flag("selector", Kind::Text, "", "All applications with these labels").or('l'),
    flag("all", Kind::Bool, "false", "All applications"),
    flag("timeout", Kind::Uint, "0", "Seconds to wait for each; 0 waits for ever"),
    NAMESPACE,
];

/// How an application's objects can be found.
struct Finding {
    application: String,
    instance: String,
    tracking: TrackingSettings,
    selector: Result<String, Unselectable>,
    shared_with: Vec<String>,
}

impl Finding {
    fn of(world: &World, app: &Application, others: &[Stored], all_variants: bool) -> Self {
        let (tracking, instance) = identity(world, app);
        let label = label_of(&tracking, &instance);
        let mut shared_with: Vec<String> = Vec::new();
        for other in others {
            let metadata = &other.app.metadata;
            if metadata.name == app.metadata.name && metadata.namespace == app.metadata.namespace {
                continue;
            }
            let (other_tracking, other_instance) = identity(world, &other.app);
            if label.is_some() && label_of(&other_tracking, &other_instance) == label {
                shared_with.push(qualified_name(&metadata.namespace, &metadata.name).to_string());
            }
        }
        shared_with.sort();
        Self {
            application: qualified_name(&app.metadata.namespace, &app.metadata.name).to_string(),
            selector: tracking.selector(&instance, all_variants),
            instance,
            tracking,
            shared_with,
        }
    }

    /// What every tracking annotation of the application begins with.
    fn annotation_prefix(&self) -> String {
        let separator = match self.tracking.annotation_format {
            TrackingFormat::Colon => ':',
            TrackingFormat::Semicolon => ';',
        };
        format!("{}{separator}", self.instance)
    }

    /// One command line that shows the objects (TRK-121).
    fn kubectl(&self, app: &Application) -> Result<String, Failure> {
        let mut kinds: Vec<String> = Vec::new();
        for resource in app.status.resources.iter().filter(|resource| !resource.hook) {
            let kind = resource.kind.to_lowercase();
            let kind = if resource.group.is_empty() { kind } else { format!("{kind}.{}", resource.group) };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if kinds.is_empty() {
            return Err(Failure::generic(format!(
                "application \"{}\" has no resources yet, so there is nothing to list",
                self.instance
            ))
            .hint("run `app sync` first"));
        }
        kinds.sort();
        let kinds = kinds.join(",");
        match &self.selector {
            Ok(selector) => Ok(format!("kubectl get {kinds} -A -l '{selector}'")),
            Err(Unselectable::AnnotationOnly(_)) => Ok(format!(
                "kubectl get {kinds} -A -o json | jq -r '.items[] | select((.metadata.annotations[\"{}\"] // \"\") | \
                 startswith(\"{}\")) | [.kind, .metadata.namespace // \"\", .metadata.name] | @tsv'",
                self.tracking.annotation_key,
                self.annotation_prefix(),
            )),
            Err(error) => Err(Failure::generic(error.to_string())),
        }
    }

    /// Everything, for programs (TRK-122).
    fn value(&self) -> Value {
        json!({
            "application": self.application,
            "instanceName": self.instance,
            "method": self.tracking.method.as_str(),
            "labelSelector": self.selector.as_ref().ok(),
            "annotationKey": self.tracking.annotation_key.as_str(),
            "annotationPrefix": self.annotation_prefix(),
            "installationID": self.tracking.installation_id.as_str(),
            "truncated": self.tracking.is_truncated(&self.instance),
            "sharedWith": self.shared_with,
        })
    }
}

fn identity(world: &World, app: &Application) -> (TrackingSettings, String) {
    let tracking = world.tracking_of(app);
    let instance = tracking.instance_name(&app.metadata.namespace, &app.metadata.name).to_string();
    (tracking, instance)
}

/// The instance label that is written for an application, if any.
fn label_of(tracking: &TrackingSettings, instance: &str) -> Option<String> {
    tracking.label_value(instance).ok().flatten().map(std::borrow::Cow::into_owned)
}

/// `app selector`.
pub(super) async fn selector(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let format = flags.text("output");
    if !["selector", "kubectl", "json"].contains(&format) {
        return Err(unknown_format(format));
    }
    let core = session.connect().await?;
    let stored = core.application(&session.only_name(&core)).await?;
    let world = World::load(&core).await?;
    let others = show::visible(session, &core, "").await?;
    let finding = Finding::of(&world, &stored.app, &others, flags.is_on("all-variants"));
    if !finding.shared_with.is_empty() {
        session.warn(&format!("the label selects objects of {} too", finding.shared_with.join(", ")));
    }
    match format {
        "json" => session.terminal.print(&print(&finding.value(), Format::Json)?),
        "kubectl" => session.terminal.line(&finding.kubectl(&stored.app)?),
        _ => match &finding.selector {
            Ok(selector) => session.terminal.line(selector),
            Err(why) => {
                session.terminal.warn(&format!("{why}\n"));
                return Ok(Ended::Code(1));
            }
        },
    }
    Ok(OK)
}

/// `app tracking`.
pub(super) async fn tracking(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let stored = core.application(&session.only_name(&core)).await?;
    let world = World::load(&core).await?;
    let live = live(&core, &world, &stored).await?;
    let (tracking, instance) = identity(&world, &stored.app);
    let namespace = &stored.app.spec.destination.namespace;
    let shows_id = session.flags.is_on("installation-id");
    let mut table =
        Table::new(&["GROUP", "KIND", "NAMESPACE", "NAME", "METHOD", "RECORDED", "EXPECTED", "CONFLICT"]);
    for object in live {
        let marks = Marks::of(&object, &tracking, &instance, namespace)?;
        let (recorded, expected) =
            if shows_id { (marks.recorded_id, marks.expected_id) } else { (marks.recorded, marks.expected) };
        let gvk = object.gvk();
        table.row(vec![
            gvk.group.to_string(),
            gvk.kind.to_string(),
            object.namespace().to_owned(),
            object.name().to_owned(),
            tracking.method.as_str().to_owned(),
            recorded,
            expected,
            marks.conflict,
        ]);
    }
    session.terminal.print(&table.print());
    Ok(OK)
}

/// What stands on an object, and what an apply would write.
#[derive(Debug, PartialEq, Eq)]
struct Marks {
    recorded: String,
    expected: String,
    recorded_id: String,
    expected_id: String,
    conflict: String,
}

impl Marks {
    fn of(
        live: &Object,
        tracking: &TrackingSettings,
        instance: &str,
        namespace: &str,
    ) -> Result<Self, Failure> {
        let gvk = live.gvk();
        let mut stamped = json!({
            "apiVersion": gvk.api_version().as_str(), "kind": gvk.kind.as_str(),
            "metadata": {"name": live.name(), "namespace": live.namespace()}});
        tracking
            .stamp(&mut stamped, instance, namespace)
            .map_err(|error| Failure::generic(format!("{}: {error}", live.key())))?;
        let is_annotated = tracking.method.is_annotation_family();
        let (recorded, expected) = if is_annotated {
            let key = &tracking.annotation_key;
            (live.annotation(key), access::annotation(&stamped, key))
        } else {
            let key = &tracking.label_key;
            (live.label(key), access::label(&stamped, key))
        };
        let id_key = &tracking.installation_id_key;
        let recorded_id = live.annotation(id_key).or_else(|| live.label(id_key)).unwrap_or_default();
        let expected_id = access::annotation(&stamped, id_key)
            .or_else(|| access::label(&stamped, id_key))
            .unwrap_or_default();
        let conflict = conflict(recorded.unwrap_or_default(), recorded_id, tracking, instance);
        Ok(Self {
            recorded: recorded.unwrap_or_default().to_owned(),
            expected: expected.unwrap_or_default().to_owned(),
            recorded_id: recorded_id.to_owned(),
            expected_id: expected_id.to_owned(),
            conflict,
        })
    }
}

/// Who else claims an object; empty when nobody does.
fn conflict(recorded: &str, recorded_id: &str, tracking: &TrackingSettings, instance: &str) -> String {
    if !recorded_id.is_empty() && recorded_id != tracking.installation_id {
        return format!("installation {recorded_id}");
    }
    let owner = if tracking.method.is_annotation_family() {
        match TrackingId::read(recorded, tracking.annotation_format) {
            Ok(id) => id.instance.to_string(),
            Err(_) if recorded.is_empty() => return String::new(),
            Err(_) => return "unreadable mark".to_owned(),
        }
    } else {
        recorded.to_owned()
    };
    let is_own = owner.is_empty()
        || owner == instance
        || (tracking.method.is_hashed() && tracking.digests(instance).any(|digest| digest == owner));
    if is_own {
        return String::new();
    }
    let (namespace, name) = split_instance_name(&owner, &tracking.control_plane_namespace);
    format!("application {}", qualified_name(namespace, name))
}

/// `app migrate-tracking`: applies what exists with the marks of the settings in force.
pub(super) async fn migrate(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let (selector, all) = (flags.text("selector"), flags.is_on("all"));
    let ways = [!flags.operands.is_empty(), !selector.is_empty(), all];
    if ways.iter().filter(|way| **way).count() != 1 {
        return Ok(Ended::Help);
    }
    let core = session.connect().await?;
    let names = names(session, &core, selector).await?;
    let world = World::load(&core).await?;
    let work = Work { session, core: &core, world: &world };
    let mut failed = Vec::new();
    for name in &names {
        if let Err(failure) = Box::pin(migrate_one(work, name)).await {
            session.warn(&format!("application '{name}': {}", failure.message));
            failed.push(name.to_string());
        } else {
            session.terminal.line(&format!("application '{name}' marked anew"));
        }
    }
    if failed.is_empty() {
        return Ok(OK);
    }
    Err(Failure::generic(format!(
        "{} of {} applications keep their marks: {}",
        failed.len(),
        names.len(),
        failed.join(", ")
    ))
    .hint("nothing of them is lost; run the command again for these"))
}

async fn names(session: &Session<'_>, core: &Core, selector: &str) -> Result<Vec<AppName>, Failure> {
    let operands = &session.flags.operands;
    if !operands.is_empty() {
        return Ok(operands.iter().map(|text| session.name(text, core)).collect());
    }
    let found = show::visible(session, core, selector).await?;
    Ok(found.iter().map(Stored::name).collect())
}

async fn migrate_one(work: Work<'_>, name: &AppName) -> Result<(), Failure> {
    let Work { session, core, world } = work;
    let stored = core.application(name).await?;
    world.check_windows(&stored.app, session.terminal.now())?;
    let live = live(core, world, &stored).await?;
    let live: HashSet<ResourceKey> = live.iter().map(|object| object.key()).collect();
    core.start_operation(name, |app| written(sync_operation(app, stamping(app, &live)?))).await?;
    let mut wait = Wait::new(Goal { operation: true, ..Goal::default() });
    wait.saw_operation = true;
    let awaited = Box::pin(until(work, wait, &Limits::of(session, name))).await?;
    match awaited.operation_state {
        Some(state) if state.phase == "Succeeded" => Ok(()),
        Some(state) => {
            Err(Failure::generic(format!("the operation ended as {}: {}", state.phase, state.message)))
        }
        None => Err(Failure::generic("the operation did not end in time")),
    }
}

/// What lives of an application, with its marks: read in its cluster, or told by a server.
async fn live(core: &Core, world: &World, stored: &Stored) -> Result<Vec<Arc<Object>>, Failure> {
    if let Some(server) = core.server() {
        return server.live_objects(&stored.name()).await;
    }
    let destination = Destination::of(&stored.app, core, world).await?;
    core.managed(&stored.app, &destination, &no_rules()?).await
}

/// Live objects are read whole.
fn no_rules() -> Result<IgnoreRules, Failure> {
    IgnoreRules::compile(&[], &BTreeMap::new()).map_err(|error| Failure::generic(error.to_string()))
}

/// The sync that marks what is deployed and changes nothing else: no pruning, no hooks, no newer revision, and nothing that
/// somebody deleted comes back.
fn stamping(app: &Application, live: &HashSet<ResourceKey>) -> Result<SyncRequest, Failure> {
    let mut request = SyncRequest {
        strategy: Some(SyncStrategy { apply: Some(StrategyForce::default()), ..SyncStrategy::default() }),
        ..SyncRequest::default()
    };
    if app.automated().is_none() {
        // What was not deployed yet stays undeployed.
        let Some(last) = app.status.history.last() else {
            return Err(Failure::generic("it was never synced, so that nothing bears a mark"));
        };
        request.revision.clone_from(&last.revision);
        request.revisions.clone_from(&last.revisions);
    }
    let wanted = app.status.resources.iter().filter(|r| !r.hook && !r.requires_pruning);
    let (there, missing): (Vec<_>, Vec<_>) =
        wanted.partition(|r| live.contains(&ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name)));
    if !missing.is_empty() {
        if there.is_empty() {
            return Err(Failure::generic("none of its objects exists, so that nothing bears a mark"));
        }
        let selected = there.into_iter().map(|r| SyncResource {
            group: r.group.clone(),
            kind: r.kind.clone(),
            name: r.name.clone(),
            namespace: r.namespace.clone(),
            ..SyncResource::default()
        });
        request.resources = selected.collect();
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> TrackingSettings {
        let map: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TrackingSettings::from_settings(&map, "argocd")
    }

    fn finding(tracking: TrackingSettings) -> (Finding, Application) {
        let app = serde_json::from_value(
            json!({"metadata": {"name": "ui", "namespace": "argocd"}, "spec": {"destination": {}},
            "status": {"resources": [
                {"group": "apps", "version": "v1", "kind": "Deployment", "name": "a"},
                {"version": "v1", "kind": "ConfigMap", "name": "b"},
                {"version": "v1", "kind": "ConfigMap", "name": "c"},
                {"group": "batch", "version": "v1", "kind": "Job", "name": "d", "hook": true}]}}),
        )
        .unwrap();
        let finding = Finding {
            application: "argocd/ui".to_owned(),
            instance: "ui".to_owned(),
            selector: tracking.selector("ui", false),
            tracking,
            shared_with: Vec::new(),
        };
        (finding, app)
    }

    #[test]
    fn trk_121_one_line_lists_the_objects() {
        let (by_label, app) = finding(settings(&[("application.resourceTrackingMethod", "label")]));
        let line = by_label.kubectl(&app).unwrap();
        assert_eq!(line, "kubectl get configmap,deployment.apps -A -l 'app.kubernetes.io/instance=ui'");
        let (by_annotation, app) = finding(settings(&[]));
        let line = by_annotation.kubectl(&app).unwrap();
        assert!(line.starts_with("kubectl get configmap,deployment.apps -A -o json | jq -r "), "{line}");
        assert!(line.contains(r#"startswith("ui:")"#), "{line}");
        assert!(by_annotation.kubectl(&Application::default()).is_err());
    }

    #[test]
    fn trk_122_programs_get_everything() {
        let (finding, _) = finding(settings(&[("installationID", "eu-1")]));
        assert_eq!(
            finding.value(),
            json!({"application": "argocd/ui", "instanceName": "ui", "method": "annotation", "labelSelector": null,
                "annotationKey": "argocd.argoproj.io/tracking-id", "annotationPrefix": "ui:", "installationID": "eu-1",
                "truncated": false, "sharedWith": []})
        );
    }

    /// TRK-108: what exists is applied, and nothing else.
    #[test]
    fn trk_108_what_somebody_deleted_stays_deleted() {
        let app: Application = serde_json::from_value(json!({"metadata": {"name": "ui"}, "spec": {"destination": {}},
            "status": {"history": [{"id": 1, "revision": "c0ffee", "source": {}}], "resources": [
                {"version": "v1", "kind": "ConfigMap", "name": "b", "namespace": "n"},
                {"version": "v1", "kind": "ConfigMap", "name": "c", "namespace": "n"},
                {"version": "v1", "kind": "ConfigMap", "name": "old", "namespace": "n", "requiresPruning": true}]}}))
        .unwrap();
        let asked = |names: &[&str]| {
            stamping(&app, &names.iter().map(|name| ResourceKey::new("", "ConfigMap", "n", name)).collect())
        };
        let all = asked(&["b", "c"]).unwrap();
        assert_eq!((all.resources.len(), all.prune, all.revision.as_str()), (0, false, "c0ffee"));
        let some = asked(&["c", "old"]).unwrap();
        assert_eq!(some.resources.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["c"]);
        assert!(asked(&[]).unwrap_err().message.starts_with("none of its objects exists"));
    }

    fn marks(tracking: &TrackingSettings, metadata: &Value) -> Marks {
        let live =
            Object::from_value(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
        Marks::of(&live, tracking, "ui", "shop").unwrap()
    }

    #[test]
    fn cli_546_a_conflict_names_who_else_claims_the_object() {
        let with_id = settings(&[("installationID", "eu-1")]);
        let own = marks(
            &with_id,
            &json!({"name": "k", "namespace": "shop", "annotations": {
                "argocd.argoproj.io/tracking-id": "ui:/Secret:shop/k", "argocd.argoproj.io/installation-id": "eu-1"}}),
        );
        assert_eq!((own.recorded.as_str(), own.conflict.as_str()), ("ui:/Secret:shop/k", ""));
        assert_eq!((own.recorded, own.recorded_id), (own.expected, own.expected_id));
        let other = marks(
            &with_id,
            &json!({"name": "k", "namespace": "shop", "annotations": {
                "argocd.argoproj.io/tracking-id": "team_web:/Secret:shop/k"}}),
        );
        assert_eq!(other.conflict, "application team/web");
        let foreign = marks(
            &with_id,
            &json!({"name": "k", "namespace": "shop", "annotations": {"argocd.argoproj.io/installation-id": "us-1"}}),
        );
        assert_eq!((foreign.conflict.as_str(), foreign.expected_id.as_str()), ("installation us-1", "eu-1"));
        let digest = settings(&[("application.resourceTrackingMethod", "hash")]);
        let labels = json!({"app.kubernetes.io/instance": digest.label_value("ui").unwrap().unwrap()});
        let hashed = marks(&digest, &json!({"name": "k", "namespace": "shop", "labels": labels}));
        assert_eq!((hashed.conflict.as_str(), hashed.recorded), ("", hashed.expected));
    }

    #[test]
    fn trk_108_marking_anew_deploys_nothing() {
        let app = |value: Value| serde_json::from_value::<Application>(value).unwrap();
        let manual =
            app(json!({"metadata": {"name": "a"}, "spec": {"destination": {}}, "status": {"history": [
            {"id": 1, "revision": "one"}, {"id": 2, "revision": "two"}]}}));
        let request = stamping(&manual, &HashSet::new()).unwrap();
        assert_eq!((request.revision.as_str(), request.prune), ("two", false));
        assert!(request.strategy.is_some_and(|strategy| strategy.apply.is_some() && strategy.hook.is_none()));
        let never = app(json!({"metadata": {"name": "a"}, "spec": {"destination": {}}}));
        assert!(stamping(&never, &HashSet::new()).is_err());
    }
}
