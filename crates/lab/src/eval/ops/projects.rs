//! `projects.*`: what a project permits, and when its applications may sync (REP part C).

use super::world::{
    self, CLUSTERS, CONTROL_PLANE, DESTINATION, NOW, PROJECT, PROJECTS, REPO_URL, REPOSITORIES, SETTINGS,
};
use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, optional, required};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_api::Application;
use tiphys_api::cluster::Cluster;
use tiphys_api::project::{AppProject, SyncWindow};
use tiphys_object::ResourceKey;
use tiphys_policy::Decision;
use tiphys_policy::project::{self, EffectiveInputs, Resource, SignaturePolicy, Target};
use tiphys_policy::window::{self, Subject, SyncAttempt, WindowVerdict};

const EFFECTIVE: Member = default("effective", Shape::Bool, "false");
const PERMITTED: &[Member] =
    &[required("permitted", Shape::Bool), required("message", Shape::OrNull(&Shape::Text))];
const WINDOW: Member = required("window", Shape::Map);
const APPLICATION: Member = required("application", Shape::Map);

const RESOURCE: Member = required(
    "resource",
    Shape::Members(&[
        default("group", Shape::Text, "\"\""),
        required("kind", Shape::Text),
        default("name", Shape::Text, "\"\""),
        default("namespaced", Shape::Bool, "true"),
    ]),
);
const ORPHAN: Member = required(
    "resource",
    Shape::Members(&[
        default("group", Shape::Text, "\"\""),
        required("kind", Shape::Text),
        default("namespace", Shape::Text, "\"\""),
        default("name", Shape::Text, "\"\""),
    ]),
);

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "projects.can_sync",
        summary: "Whether the sync windows let an application sync now.",
        stability: Stability::Stable,
        spec: &["EVAL-243", "REP-178", "REP-179", "REP-180"],
        input: &[
            optional("project", Shape::Map),
            optional("application", Shape::Map),
            optional("windows", Shape::List(&Shape::OrNull(&Shape::Map))),
            default("manual", Shape::Bool, "false"),
            default("operationStartedAt", Shape::OrNull(&Shape::Instant), "null"),
            NOW,
            EFFECTIVE,
            PROJECTS,
            REPOSITORIES,
            SETTINGS,
            CLUSTERS,
            CONTROL_PLANE,
        ],
        result: &[
            required("allowed", Shape::Bool),
            required("message", Shape::OrNull(&Shape::Text)),
            required("matching", Shape::List(&Shape::Integer)),
            required("active", Shape::List(&Shape::Integer)),
        ],
        example: (
            r#"{"windows":[{"kind":"deny","schedule":"0 6 * * *","duration":"2h","applications":["*"]}],"now":"2026-05-04T07:30:00Z"}"#,
            r#"{"allowed":false,"message":null,"matching":[0],"active":[0]}"#,
        ),
        run: can_sync,
    },
    Operation {
        name: "projects.destination_permitted",
        summary: "Whether a cluster and namespace may be a destination.",
        stability: Stability::Stable,
        spec: &["EVAL-232", "REP-140", "REP-146"],
        input: &[PROJECT, DESTINATION, EFFECTIVE, PROJECTS, REPOSITORIES, CLUSTERS, SETTINGS],
        result: PERMITTED,
        example: (
            r#"{"project":{"metadata":{"name":"shop"},"spec":{"destinations":[{"name":"eu","namespace":"shop-*"}]}},"destination":{"server":"https://eu.acme.test","name":"eu","namespace":"shop-ui"}}"#,
            r#"{"permitted":true,"message":null}"#,
        ),
        run: destination_permitted,
    },
    Operation {
        name: "projects.effective",
        summary: "The project in force: with scoped repositories, clusters and global projects.",
        stability: Stability::Stable,
        spec: &["EVAL-236", "REP-122", "REP-185"],
        input: &[PROJECT, PROJECTS, REPOSITORIES, CLUSTERS, SETTINGS],
        result: &[required("spec", Shape::Map)],
        example: (
            r#"{"project":{"metadata":{"name":"shop"},"spec":{}},"repositories":[{"name":"r","url":"https://git.acme.test/ui","project":"shop"}]}"#,
            r#"{"spec":{"clusterResourceBlacklist":[],"clusterResourceWhitelist":[],"destinationServiceAccounts":[],"destinations":[],"namespaceResourceBlacklist":[],"namespaceResourceWhitelist":[],"permitOnlyProjectScopedClusters":false,"roles":[],"signatureKeys":[],"sourceNamespaces":[],"sourceRepos":["https://git.acme.test/ui"],"syncWindows":[]}}"#,
        ),
        run: effective,
    },
    Operation {
        name: "projects.namespace_permitted",
        summary: "Whether applications of a namespace may use the project.",
        stability: Stability::Stable,
        spec: &["EVAL-234", "REP-155"],
        input: &[PROJECT, world::APP, CONTROL_PLANE],
        result: PERMITTED,
        example: (
            r#"{"project":{"spec":{"sourceNamespaces":["shop"]}},"app":"shop/ui"}"#,
            r#"{"permitted":true,"message":null}"#,
        ),
        run: namespace_permitted,
    },
    Operation {
        name: "projects.orphan_ignored",
        summary: "Whether an object never counts as an orphan.",
        stability: Stability::Stable,
        spec: &["EVAL-245", "REP-196"],
        input: &[PROJECT, ORPHAN],
        result: &[required("ignored", Shape::Bool)],
        example: (
            r#"{"project":{"spec":{"orphanedResources":{"ignore":[{"group":"batch","kind":"Job"}]}}},"resource":{"group":"batch","kind":"Job","namespace":"shop","name":"gc"}}"#,
            r#"{"ignored":true}"#,
        ),
        run: orphan_ignored,
    },
    Operation {
        name: "projects.resource_permitted",
        summary: "Whether objects of a kind may be managed.",
        stability: Stability::Stable,
        spec: &["EVAL-233", "REP-150", "REP-154"],
        input: &[PROJECT, RESOURCE, EFFECTIVE, PROJECTS, REPOSITORIES, CLUSTERS, SETTINGS],
        result: PERMITTED,
        example: (
            r#"{"project":{"spec":{"namespaceResourceBlacklist":[{"group":"","kind":"Secret"}]}},"resource":{"kind":"Secret"}}"#,
            r#"{"permitted":false,"message":"resource :Secret is not permitted in project "}"#,
        ),
        run: resource_permitted,
    },
    Operation {
        name: "projects.service_account",
        summary: "The user a sync acts as, impersonation taken as enabled.",
        stability: Stability::Stable,
        spec: &["EVAL-244", "REP-190", "REP-191"],
        input: &[PROJECT, DESTINATION, world::APP, CONTROL_PLANE],
        result: &[required("user", Shape::OrNull(&Shape::Text))],
        example: (
            r#"{"project":{"spec":{"destinationServiceAccounts":[{"server":"https://eu.*","namespace":"shop","defaultServiceAccount":"cd"}]}},"destination":{"server":"https://eu.acme.test","namespace":"shop"},"app":"ui"}"#,
            r#"{"user":"system:serviceaccount:shop:cd"}"#,
        ),
        run: service_account,
    },
    Operation {
        name: "projects.signature_policy",
        summary: "Which signatures a repository needs.",
        stability: Stability::Stable,
        spec: &["EVAL-246", "REP-200", "REP-201"],
        input: &[PROJECT, REPO_URL],
        result: &[required("mode", Shape::OrNull(&Shape::Text)), required("keys", Shape::List(&Shape::Text))],
        example: (
            r#"{"project":{"spec":{}},"repoURL":"https://git.acme.test/ui"}"#,
            r#"{"mode":null,"keys":[]}"#,
        ),
        run: signature_policy,
    },
    Operation {
        name: "projects.source_permitted",
        summary: "Whether a repository may be a source.",
        stability: Stability::Stable,
        spec: &["EVAL-231", "REP-130", "REP-137"],
        input: &[PROJECT, REPO_URL, EFFECTIVE, PROJECTS, REPOSITORIES, CLUSTERS, SETTINGS],
        result: PERMITTED,
        example: (
            r#"{"project":{"spec":{"sourceRepos":["https://git.acme.test/shop/*"]}},"repoURL":"https://git.acme.test/shop/ui"}"#,
            r#"{"permitted":true,"message":null}"#,
        ),
        run: source_permitted,
    },
    Operation {
        name: "projects.validate",
        summary: "What creating a project would answer.",
        stability: Stability::Stable,
        spec: &["EVAL-235", "REP-160", "REP-206"],
        input: &[PROJECT],
        result: &[
            required("valid", Shape::Bool),
            required("code", Shape::OrNull(&Shape::Text)),
            required("message", Shape::OrNull(&Shape::Text)),
        ],
        example: (
            r#"{"project":{"metadata":{"name":"shop"},"spec":{"sourceNamespaces":["shop-a","shop-b"]}}}"#,
            r#"{"valid":true,"code":null,"message":null}"#,
        ),
        run: validate,
    },
    Operation {
        name: "projects.window_active",
        summary: "Whether a sync window is open.",
        stability: Stability::Stable,
        spec: &["EVAL-241", "REP-173", "REP-177"],
        input: &[WINDOW, NOW],
        result: &[required("active", Shape::Bool)],
        example: (
            r#"{"window":{"kind":"deny","schedule":"0 6 * * *","duration":"2h","applications":["*"]},"now":"2026-05-04T07:30:00Z"}"#,
            r#"{"active":true}"#,
        ),
        run: window_active,
    },
    Operation {
        name: "projects.window_match",
        summary: "Whether a sync window is about an application.",
        stability: Stability::Stable,
        spec: &["EVAL-242", "REP-171", "REP-172"],
        input: &[WINDOW, APPLICATION, SETTINGS, CLUSTERS, CONTROL_PLANE],
        result: &[required("matches", Shape::Bool)],
        example: (
            r#"{"window":{"kind":"deny","schedule":"0 6 * * *","duration":"2h","namespaces":["shop-*"]},"application":{"metadata":{"name":"ui"},"spec":{"destination":{"name":"eu","namespace":"shop-ui"}}}}"#,
            r#"{"matches":true}"#,
        ),
        run: window_match,
    },
];

/// The project as given, or the effective one where `effective` asks for it.
fn project_in_force(input: &mut Input) -> Result<AppProject, Fault> {
    let given = world::project(input)?;
    if input.flag("effective") { extend(&given, input) } else { Ok(given) }
}

fn extend(given: &AppProject, input: &mut Input) -> Result<AppProject, Fault> {
    let projects = world::typed_list(input, "projects")?;
    let (repositories, clusters) = (world::repositories(input), world::clusters(input));
    let settings = world::settings(input);
    let inputs = EffectiveInputs {
        projects: &projects,
        repositories: &repositories,
        clusters: &clusters,
        settings: &settings,
    };
    Ok(project::effective(given, &inputs))
}

fn answer(decision: &Decision) -> Value {
    json!({"permitted": decision.permitted, "message": decision.message})
}

fn member<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn source_permitted(input: &mut Input) -> Result<Value, Fault> {
    let project = project_in_force(input)?;
    let matching = world::settings(input).project_matching();
    Ok(answer(&project::source_permitted(&project, input.text("repoURL"), matching)))
}

fn destination_permitted(input: &mut Input) -> Result<Value, Fault> {
    let project = project_in_force(input)?;
    let clusters = world::clusters(input);
    let matching = world::settings(input).project_matching();
    let destination = input.get("destination");
    let target = Target {
        server: member(destination, "server"),
        name: member(destination, "name"),
        namespace: member(destination, "namespace"),
        ..Target::default()
    };
    let target = target.among(&clusters, project.name());
    Ok(answer(&project::destination_permitted(&project, target, Ok(&clusters), matching)))
}

fn resource_permitted(input: &mut Input) -> Result<Value, Fault> {
    let project = project_in_force(input)?;
    let given = input.get("resource");
    let resource = Resource {
        group: member(given, "group"),
        kind: member(given, "kind"),
        name: member(given, "name"),
        namespaced: given.get("namespaced").and_then(Value::as_bool).unwrap_or(true),
    };
    Ok(answer(&project::resource_permitted(&project, resource)))
}

fn namespace_permitted(input: &mut Input) -> Result<Value, Fault> {
    let project = world::project(input)?;
    let (namespace, name) = world::app_of(input.get("app"));
    let control_plane = input.text("controlPlaneNamespace");
    Ok(answer(&project::namespace_permitted(&project, name, namespace, control_plane)))
}

fn validate(input: &mut Input) -> Result<Value, Fault> {
    Ok(match project::validate(&world::project(input)?) {
        Ok(()) => json!({"valid": true, "code": null, "message": null}),
        Err(violation) => {
            json!({"valid": false, "code": violation.code.as_str(), "message": violation.message})
        }
    })
}

/// Members of a spec that are always shown.
const SPEC_LISTS: [&str; 11] = [
    "clusterResourceBlacklist",
    "clusterResourceWhitelist",
    "destinationServiceAccounts",
    "destinations",
    "namespaceResourceBlacklist",
    "namespaceResourceWhitelist",
    "roles",
    "signatureKeys",
    "sourceNamespaces",
    "sourceRepos",
    "syncWindows",
];

fn effective(input: &mut Input) -> Result<Value, Fault> {
    let given = world::project(input)?;
    let project = extend(&given, input)?.shown();
    let spec = serde_json::to_value(&project.spec).map_err(Fault::invalid)?;
    let mut members: Map<String, Value> =
        SPEC_LISTS.iter().map(|name| ((*name).to_owned(), Value::Array(Vec::new()))).collect();
    members.insert("permitOnlyProjectScopedClusters".to_owned(), false.into());
    if let Value::Object(present) = spec {
        members.extend(present);
    }
    Ok(json!({"spec": members}))
}

fn window_active(input: &mut Input) -> Result<Value, Fault> {
    let window: SyncWindow = world::typed("window", input.take("window"))?;
    let active = window::is_active(&window, world::instant(input, "now")?).map_err(Fault::invalid)?;
    Ok(json!({"active": active}))
}

/// The cluster of an application's destination, where windows are to be matched with it too (REP-172).
fn resolved(application: &Application, input: &Input) -> Option<Cluster> {
    let wanted = world::settings(input).windows_resolve_destinations();
    let resolve = || {
        let (clusters, destination) = (world::all_clusters(input), &application.spec.destination);
        clusters.of_project(application.project()).resolve(destination).ok().cloned()
    };
    if wanted { resolve() } else { None }
}

fn window_match(input: &mut Input) -> Result<Value, Fault> {
    let window: SyncWindow = world::typed("window", input.take("window"))?;
    let application: Application = world::typed("application", input.take("application"))?;
    let cluster = resolved(&application, input);
    Ok(json!({"matches": window::matches(&window, Subject::new(&application, cluster.as_ref()))}))
}

fn can_sync(input: &mut Input) -> Result<Value, Fault> {
    let started: Option<Timestamp> = match input.get("operationStartedAt") {
        Value::Null => None,
        _ => Some(world::instant(input, "operationStartedAt")?),
    };
    let attempt = SyncAttempt {
        manual: input.flag("manual"),
        operation_started_at: started,
        now: world::instant(input, "now")?,
    };
    let verdict = if input.get("windows").is_null() {
        let application: Application = world::typed("application", input.need("application")?)?;
        let given: AppProject = world::typed("project", input.need("project")?)?;
        let project = if input.flag("effective") { extend(&given, input)? } else { given };
        let cluster = resolved(&application, input);
        window::can_sync_application(&project, Subject::new(&application, cluster.as_ref()), attempt)
    } else {
        let windows: Vec<Option<SyncWindow>> = typed_windows(input)?;
        let matching: Vec<(usize, &SyncWindow)> =
            windows.iter().enumerate().filter_map(|(at, window)| Some((at, window.as_ref()?))).collect();
        window::can_sync(&matching, attempt)
    };
    let WindowVerdict { allowed, message, matching, active } = verdict;
    Ok(json!({"allowed": allowed, "message": message, "matching": matching, "active": active}))
}

fn typed_windows(input: &mut Input) -> Result<Vec<Option<SyncWindow>>, Fault> {
    world::typed_list(input, "windows")
}

fn service_account(input: &mut Input) -> Result<Value, Fault> {
    let project = world::project(input)?;
    let destination = input.get("destination");
    let (app_namespace, _) = world::app_of(input.get("app"));
    let app_namespace =
        if app_namespace.is_empty() { input.text("controlPlaneNamespace") } else { app_namespace };
    let (server, namespace) = (member(destination, "server"), member(destination, "namespace"));
    let user =
        project::service_account(&project, server, namespace, app_namespace).map_err(Fault::invalid)?;
    Ok(json!({"user": user}))
}

fn orphan_ignored(input: &mut Input) -> Result<Value, Fault> {
    let project = world::project(input)?;
    let given = input.get("resource");
    let part = |name: &str| member(given, name);
    let key = ResourceKey::new(part("group"), part("kind"), part("namespace"), part("name"));
    Ok(json!({"ignored": project::orphan_ignored(&project, &key)}))
}

fn signature_policy(input: &mut Input) -> Result<Value, Fault> {
    let project = world::project(input)?;
    let policy = project::signature_policy(&project, input.text("repoURL")).map_err(Fault::invalid)?;
    Ok(match policy {
        SignaturePolicy::Unchecked => json!({"mode": null, "keys": []}),
        SignaturePolicy::Head { keys } => json!({"mode": "head", "keys": keys}),
        SignaturePolicy::Strict { keys } => json!({"mode": "strict", "keys": keys}),
    })
}
