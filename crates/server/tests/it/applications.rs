//! Applications over REST (API section 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_api::application::HealthStatus;
use tiphys_api::{Application, ApplicationSet};
use tiphys_appset::preview::{Changes, Existing, Preview};
use tiphys_appset::validate::Validation;
use tiphys_cluster::{
    ApiError, ExecEvent, ExecInput, ExecQuery, ExecSink, ExecStream, LogQuery, PatchKind, Removal,
};
use tiphys_object::{Object, ResourceKey};
use tiphys_server::call::Status;
use tiphys_server::catalog::AppKey;
use tiphys_server::live::{Lines, Live, Pair};
use tiphys_service::cluster::Watched;
use tiphys_wire::status::Code;
use tokio::sync::watch;

use crate::home::{Home, Setup, ask, until};

pub(crate) const APPS: &str = "/api/v1/applications";
pub(crate) const STORED: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";

/// A controller that knows one thing of everything.
#[derive(Default)]
pub(crate) struct Known {
    /// Told of changes of trees; even numbers all have one tree.
    pub(crate) trees: watch::Sender<u64>,
    /// What programs in containers were sent, each after its name.
    pub(crate) sent: Arc<Mutex<Vec<(String, ExecInput)>>>,
    /// Names of resources that do not belong to the application any more.
    pub(crate) gone: Arc<Mutex<Vec<String>>>,
}

impl Live for Known {
    fn check_sources<'a>(&'a self, app: &'a Application) -> BoxFuture<'a, Result<(), String>> {
        let is_right = app.sources().iter().all(|source| source.path != "broken");
        async move { if is_right { Ok(()) } else { Err("InvalidSpecError: no such path".to_owned()) } }
            .boxed()
    }

    fn tree<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Value, Status>> {
        let uid = ["u", "v"][usize::from(self.trees.borrow().is_multiple_of(2)) ^ 1];
        async move { Ok(json!({"nodes": [{"kind": "Pod", "name": key.name, "uid": uid}]})) }.boxed()
    }

    fn server_side_diff<'a>(
        &'a self,
        _key: &'a AppKey,
        pairs: &'a [Pair],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        let shown = |pair: &Pair| {
            let text = |value: &Option<Value>| value.as_ref().map(Value::to_string).unwrap_or_default();
            json!({"name": pair.key.name, "liveState": text(&pair.live), "targetState": text(&pair.target),
                "modified": pair.live != pair.target})
        };
        async move { Ok(pairs.iter().map(shown).collect()) }.boxed()
    }

    fn tree_changes(&self, _key: &AppKey) -> BoxStream<'static, ()> {
        let changes = self.trees.subscribe();
        futures::stream::unfold(changes, |mut changes| async move {
            changes.changed().await.ok().map(|()| ((), changes))
        })
        .boxed()
    }

    fn managed<'a>(&'a self, _key: &'a AppKey) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async { Ok(vec![json!({"kind": "Pod", "name": "a"}), json!({"kind": "Service", "name": "a"})]) }
            .boxed()
    }

    fn manifests<'a>(
        &'a self,
        _key: &'a AppKey,
        revisions: &'a [(usize, String)],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { Ok(vec![json!({"kind": "Pod", "at": format!("{revisions:?}")})]) }.boxed()
    }

    fn manifests_with_files<'a>(
        &'a self,
        _key: &'a AppKey,
        packed: Bytes,
        may_run_programs: bool,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        let mut pod = json!({"kind": "Pod", "bytes": packed.len()});
        if !may_run_programs {
            pod["programs"] = "none".into();
        }
        async move { Ok(vec![pod]) }.boxed()
    }

    fn resource<'a>(
        &'a self,
        _key: &'a AppKey,
        resource: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        async move { Ok(json!({"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": resource.name}})) }.boxed()
    }

    fn patch<'a>(
        &'a self,
        _key: &'a AppKey,
        resource: &'a ResourceKey,
        (kind, patch): (PatchKind, &'a Value),
    ) -> BoxFuture<'a, Result<Value, Status>> {
        async move { Ok(json!({"kind": resource.kind, "by": kind.as_str(), "patch": patch})) }.boxed()
    }

    fn delete<'a>(
        &'a self,
        _key: &'a AppKey,
        resource: &'a ResourceKey,
        how: Removal,
    ) -> BoxFuture<'a, Result<(), Status>> {
        // What was asked for comes back as a refusal.
        let text = format!("{}/{} {how:?}", resource.kind, resource.name);
        async move { if how.force { Err(Status::new(Code::FailedPrecondition, text)) } else { Ok(()) } }
            .boxed()
    }

    fn actions<'a>(
        &'a self,
        _key: &'a AppKey,
        resource: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { Ok(vec![json!({"name": format!("restart-{}", resource.name), "disabled": true})]) }
            .boxed()
    }

    fn run<'a>(
        &'a self,
        _key: &'a AppKey,
        resource: &'a ResourceKey,
        (action, params): (&'a str, &'a BTreeMap<String, String>),
    ) -> BoxFuture<'a, Result<Arc<Object>, Status>> {
        let text = format!("{action} {params:?}");
        let ResourceKey { kind, namespace, name, .. } = resource;
        let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        async move {
            match Object::from_value(&object) {
                Ok(object) if params.is_empty() => Ok(Arc::new(object)),
                _ => Err(Status::new(Code::FailedPrecondition, text)),
            }
        }
        .boxed()
    }

    fn events<'a>(
        &'a self,
        _key: &'a AppKey,
        (namespace, name, uid): (&'a str, &'a str, &'a str),
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { Ok(vec![json!({"message": format!("{namespace}/{name} {uid}")})]) }.boxed()
    }

    fn pods<'a>(
        &'a self,
        _key: &'a AppKey,
        below: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, Status>> {
        let count = below.name.parse().unwrap_or(2);
        let numbered = (0..count).map(|at| ("web".to_owned(), format!("pod-{at}"))).collect();
        let pods = if below.name == "endless" { vec![("web".into(), "endless".into())] } else { numbered };
        async move { Ok(pods) }.boxed()
    }

    fn log<'a>(
        &'a self,
        _key: &'a AppKey,
        (_, pod): (&'a str, &'a str),
        query: &'a LogQuery,
    ) -> BoxFuture<'a, Result<Lines, Status>> {
        let lines: Vec<Result<Bytes, Status>> = match pod {
            _ if query.previous => {
                return async { Err(Status::new(Code::Unavailable, "no such log")) }.boxed();
            }
            "pod-0" => ["2026-01-01T00:00:01.5Z one", "2026-01-01T00:00:03Z three\rfour"]
                .map(|it| Ok(it.into()))
                .into(),
            // A line each second.
            "endless" => {
                let lines = futures::stream::unfold((), |()| async {
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    Some((Ok(Bytes::from_static(b"2026-01-01T00:00:02Z on and on")), ()))
                });
                return async move { Ok(lines.boxed()) }.boxed();
            }
            _ => vec![Ok("2026-01-01T00:00:02Z TWO".into())],
        };
        async move { Ok(futures::stream::iter(lines).boxed()) }.boxed()
    }

    /// A shell `sh` that shows what is typed and ends with `exit`; no other program is there, and one pod is somebody
    /// else's.
    fn exec<'a>(
        &'a self,
        _key: &'a AppKey,
        query: &'a ExecQuery,
    ) -> BoxFuture<'a, Result<(ExecSink, ExecStream), Status>> {
        let program = query.command.join(" ");
        let (input, typed) = mpsc::unbounded::<ExecInput>();
        let sent = Arc::clone(&self.sent);
        async move {
            if query.pod == "foreign" {
                return Err(Status::invalid("Pod doesn't belong to specified app"));
            }
            let is_there = program == "sh";
            let events = typed.filter_map(|input| {
                let event = match input {
                    ExecInput::Typed(bytes) if bytes == "exit\r" => Some(ExecEvent::Ended(None)),
                    ExecInput::Typed(bytes) => Some(ExecEvent::Output(bytes)),
                    ExecInput::Size { .. } => None,
                };
                std::future::ready(event.map(Ok))
            });
            let events = if is_there {
                events.boxed()
            } else {
                futures::stream::iter([Ok(ExecEvent::Ended(Some("no such file".to_owned())))]).boxed()
            };
            let input = input.with(move |input: ExecInput| {
                sent.lock().push((program.clone(), input.clone()));
                std::future::ready(Ok::<_, mpsc::SendError>(input))
            });
            let input = input.sink_map_err(|error| ApiError::Unreachable { reason: error.to_string() });
            Ok((Box::pin(input) as ExecSink, events))
        }
        .boxed()
    }

    fn has<'a>(&'a self, _key: &'a AppKey, resource: &'a ResourceKey) -> BoxFuture<'a, Result<bool, Status>> {
        let is_gone = self.gone.lock().contains(&resource.name.to_string());
        async move { Ok(!is_gone) }.boxed()
    }

    fn health<'a>(&'a self, _key: &'a AppKey) -> BoxFuture<'a, Vec<(ResourceKey, HealthStatus)>> {
        let health = HealthStatus { status: "Degraded".into(), ..HealthStatus::default() };
        async move { vec![(ResourceKey::new("apps", "Deployment", "web", "a"), health)] }.boxed()
    }

    fn cluster(&self, _cluster: &tiphys_api::cluster::ClusterKey) -> Option<Watched> {
        Some(Watched { api_versions: vec!["apps/v1".to_owned()], kinds: 2, objects: 3 })
    }

    fn generate<'a>(
        &'a self,
        set: &'a ApplicationSet,
        existing: Existing,
    ) -> BoxFuture<'a, Result<Preview, Status>> {
        let made = json!({"metadata": {"name": "made", "namespace": "argocd"}, "spec": {"destination": {}}});
        let patch = json!({"spec": {"project": set.metadata.uid}});
        let changes = |looked_at: usize| Changes {
            added: vec!["made".to_owned()],
            changed: vec![("old".to_owned(), patch.clone()), ("hidden".to_owned(), patch.clone())],
            refused: vec![("other".to_owned(), "another's".to_owned())],
            unchanged: looked_at,
            ..Changes::default()
        };
        let preview = Preview {
            applications: vec![serde_json::from_value(made).unwrap()],
            validation: Validation { errors: [("argocd/made".to_owned(), "forbidden".to_owned())].into() },
            warnings: vec!["odd".to_owned()],
            changes: match existing {
                Existing::Unasked => None,
                Existing::Stored => Some(changes(7)),
                Existing::Given(given) => {
                    Some(changes(given.values().filter(|one| one.controller().is_some()).count()))
                }
            },
        };
        async { Ok(preview) }.boxed()
    }

    fn parameters<'a>(&'a self, set: &'a ApplicationSet) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { Ok(vec![json!({"name": set.metadata.name})]) }.boxed()
    }
}

pub(crate) fn setup() -> Setup {
    let policy = "p, role:shop, applications, *, shop/*, allow\ng, kim, role:shop\n";
    let destinations = json!([{"server": "https://kubernetes.default.svc", "namespace": "*"}]);
    Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login"), ("accounts.bo", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &json!({"sourceRepos": ["https://git/*"], "destinations": destinations}))
        .live(Arc::<Known>::default())
}

pub(crate) fn app(name: &str, project: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"project": project,
        "source": {"repoURL": "https://git/r", "path": "web"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}})
}

fn stored(home: &Home, name: &str) -> Value {
    ask(&home.sim, Method::GET, &format!("{STORED}/{name}"), &Value::Null)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_125_an_application_is_created_once_and_listed() {
    let home = setup().start().await;
    let kim = home.account("kim");
    let made = kim.ok("POST", APPS, &app("web", "shop")).await;
    assert_eq!((&made["metadata"]["name"], &made["spec"]["project"]), (&json!("web"), &json!("shop")));
    let list = kim.ok("GET", APPS, &Value::Null).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "web", "API-117: what was written is seen");
    assert_eq!(kim.ok("POST", APPS, &app("web", "shop")).await["metadata"]["uid"], made["metadata"]["uid"]);
    let mut other = app("web", "shop");
    other["spec"]["source"]["path"] = "else".into();
    let (status, text) = kim.refused("POST", APPS, &other).await;
    assert_eq!(
        (status, text.as_str()),
        (400, "existing application spec is different, use upsert flag to force update")
    );
    kim.ok("POST", &format!("{APPS}?upsert=true"), &other).await;
    assert_eq!(stored(&home, "web")["spec"]["source"]["path"], "else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_126_a_spec_that_breaks_rules_is_refused() {
    let home = setup().start().await;
    let kim = home.account("kim");
    let mut foreign = app("web", "shop");
    foreign["spec"]["source"]["repoURL"] = "https://elsewhere/r".into();
    let (status, text) = kim.refused("POST", APPS, &foreign).await;
    assert!(status == 400 && text.contains("https://elsewhere/r"), "{status} {text}");
    let mut broken = app("web", "shop");
    broken["spec"]["source"]["path"] = "broken".into();
    let (status, text) = kim.refused("POST", APPS, &broken).await;
    assert_eq!(
        (status, text.as_str()),
        (400, "application spec for web is invalid: InvalidSpecError: no such path")
    );
    kim.ok("POST", &format!("{APPS}?validate=false"), &broken).await;
    let (status, text) = kim.refused("POST", APPS, &app("web2", "default")).await;
    assert!(
        status == 403 && text.starts_with("permission denied: applications, create, default/web2"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_114_who_may_not_see_an_application_does_not_learn_that_it_exists() {
    let home = setup().start().await;
    home.account("admin").ok("POST", APPS, &app("secret", "default")).await;
    let kim = home.account("kim");
    for name in ["secret", "nothing"] {
        let answer = kim.refused("GET", &format!("{APPS}/{name}"), &Value::Null).await;
        assert_eq!(answer, (403, "permission denied".to_owned()));
        let given = kim.refused("GET", &format!("{APPS}/{name}?project=shop"), &Value::Null).await;
        assert_eq!(given, (404, format!("applications.argoproj.io \"{name}\" not found")));
        for (verb, path) in
            [("DELETE", ""), ("POST", "/sync"), ("GET", "/resource-tree"), ("GET", "/manifests")]
        {
            let body = if verb == "POST" { json!({}) } else { Value::Null };
            let answer = kim.refused(verb, &format!("{APPS}/{name}{path}"), &body).await;
            assert_eq!(answer, (403, "permission denied".to_owned()), "{verb} {path}");
        }
    }
    let odd = kim.refused("GET", &format!("{APPS}/a%25b"), &Value::Null).await;
    assert_eq!(odd, (403, "permission denied".to_owned()), "what nothing can be called is absent, too");
    assert_eq!(kim.ok("GET", APPS, &Value::Null).await["items"], json!([]));
    assert_eq!(home.nobody().send("GET", APPS, &Value::Null).await.0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_127_api_128_an_application_is_changed_and_keeps_what_the_controller_wrote() {
    let home = setup().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let status = json!({"status": {"sync": {"status": "Synced"}}});
    ask(&home.sim, Method::PATCH, &format!("{STORED}/web"), &status);
    let mut wanted = app("web", "shop");
    wanted["metadata"]["labels"] = json!({"a": "b"});
    kim.ok("PUT", &format!("{APPS}/web"), &wanted).await;
    let patch = json!({"name": "web", "patchType": "merge",
        "patch": json!({"spec": {"source": {"path": "patched"}}}).to_string()});
    kim.ok("PATCH", &format!("{APPS}/web"), &patch).await;
    let now = stored(&home, "web");
    assert_eq!(
        (&now["metadata"]["labels"]["a"], &now["spec"]["source"]["path"], &now["status"]["sync"]["status"]),
        (&json!("b"), &json!("patched"), &json!("Synced"))
    );
    let moving = json!({"name": "web", "patchType": "merge",
        "patch": json!({"spec": {"project": "default"}}).to_string()});
    assert_eq!(kim.refused("PATCH", &format!("{APPS}/web"), &moving).await.0, 403);
    let kind = json!({"name": "web", "patchType": "odd", "patch": "{}"});
    let answer = kim.refused("PATCH", &format!("{APPS}/web"), &kind).await;
    assert_eq!(answer, (400, "Patch type 'odd' is not supported".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_130_api_134_an_operation_is_asked_for_and_ended() {
    let home = setup().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let sync = json!({"name": "web", "revision": "main", "prune": true, "dryRun": true});
    kim.ok("POST", &format!("{APPS}/web/sync"), &sync).await;
    let operation = stored(&home, "web")["operation"].clone();
    assert_eq!(operation["initiatedBy"]["username"], "kim");
    assert_eq!((&operation["sync"]["revision"], &operation["sync"]["prune"]), (&json!("main"), &json!(true)));
    let (status, text) = kim.refused("POST", &format!("{APPS}/web/sync"), &sync).await;
    assert!(status >= 400 && text == "another operation is already in progress", "{status} {text}");
    let running = json!({"status": {"operationState": {"phase": "Running", "operation": {},
        "startedAt": "2026-01-01T00:00:00Z", "message": ""}}});
    ask(&home.sim, Method::PATCH, &format!("{STORED}/web"), &running);
    kim.ok("DELETE", &format!("{APPS}/web/operation"), &Value::Null).await;
    assert_eq!(stored(&home, "web")["status"]["operationState"]["phase"], "Terminating");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_129_a_deletion_takes_the_resources_along_unless_it_is_told_not_to() {
    let home = setup().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    kim.ok("DELETE", &format!("{APPS}/web"), &Value::Null).await;
    let going = stored(&home, "web");
    assert_eq!(going["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    kim.ok("POST", APPS, &app("bare", "shop")).await;
    kim.ok("DELETE", &format!("{APPS}/bare?cascade=false"), &Value::Null).await;
    assert_eq!(stored(&home, "bare")["reason"], "NotFound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_137_api_146_what_belongs_to_an_application_is_shown() {
    let home = setup().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let tree = kim.ok("GET", &format!("{APPS}/web/resource-tree"), &Value::Null).await;
    assert_eq!(tree["nodes"][0]["name"], "web");
    let managed = kim.ok("GET", &format!("{APPS}/web/managed-resources?kind=Service"), &Value::Null).await;
    assert_eq!(managed["items"].as_array().unwrap().len(), 1);
    let manifests = kim.ok("GET", &format!("{APPS}/web/manifests?revision=v1"), &Value::Null).await;
    assert!(manifests["manifests"][0].as_str().unwrap().contains("v1"), "{manifests}");
    let query = "namespace=web&resourceName=a&version=v1&kind=Pod&group=";
    for (rest, field) in [("manifests?noCache=true", "noCache"), ("manifests?revisions=v1", "revisions")] {
        let (status, text) = kim.refused("GET", &format!("{APPS}/web/{rest}"), &Value::Null).await;
        assert!(status == 400 && text.starts_with(&format!("`{field}`")), "{status} {text}");
    }
    let resource = kim.ok("GET", &format!("{APPS}/web/resource?{query}"), &Value::Null).await;
    assert!(resource["manifest"].as_str().unwrap().contains("\"name\":\"a\""), "{resource}");
    let events = kim.ok("GET", &format!("{APPS}/web/events"), &Value::Null).await;
    assert!(events["items"].is_array(), "{events}");
}

/// API-186, API-187, API-189: links are those whose conditions hold, of what the caller may see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_187_links_know_the_application_its_cluster_and_its_resource() {
    let policy = "p, role:shop, applications, *, shop/*, allow\np, role:shop, projects, get, shop, allow\ng, kim, role:shop\n";
    let of_app = "- {title: logs, url: 'https://logs/{{.app.metadata.name}}?c={{.cluster.name}}&by={{.managedByURL}}'}\n\
                  - {title: no, url: u, if: app.spec.project == 'other'}\n- {title: secret, url: '{{.cluster.config}}'}\n";
    let of_resource = "- {title: pod, url: '{{.resource.metadata.name}}/{{.project.metadata.name}}', if: resource.kind == 'Pod'}\n";
    let settings = [
        ("accounts.kim", "login"),
        ("accounts.bo", "login"),
        ("url", "https://cd"),
        ("application.links", of_app),
        ("resource.links", of_resource),
        (
            "project.links",
            "- {title: wiki, url: 'https://wiki/{{.project.metadata.name}}', description: D}\n",
        ),
    ];
    let destinations = json!([{"server": "https://kubernetes.default.svc", "namespace": "*"}]);
    let home = Setup::new()
        .config_map("argocd-cm", &settings)
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &json!({"sourceRepos": ["https://git/*"], "destinations": destinations}))
        .live(Arc::<Known>::default())
        .start()
        .await;
    let (kim, bo) = (home.account("kim"), home.account("bo"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let links = kim.ok("GET", &format!("{APPS}/web/links"), &Value::Null).await;
    let expected = json!([{"title": "logs", "url": "https://logs/web?c=in-cluster&by=https://cd"},
        {"title": "secret", "url": "<no value>"}]);
    assert_eq!(links["items"], expected);
    let query = "namespace=web&resourceName=a&version=v1&kind=Pod&group=";
    let links = kim.ok("GET", &format!("{APPS}/web/resource/links?{query}"), &Value::Null).await;
    assert_eq!(links["items"], json!([{"title": "pod", "url": "a/shop"}]));
    let links = kim.ok("GET", "/api/v1/projects/shop/links", &Value::Null).await;
    assert_eq!(links["items"], json!([{"title": "wiki", "url": "https://wiki/shop", "description": "D"}]));
    let (status, text) = bo.refused("GET", "/api/v1/projects/shop/links", &Value::Null).await;
    assert_eq!((status, text.as_str()), (403, "unauthorized access to project shop"));
    assert_eq!(bo.refused("GET", &format!("{APPS}/web/links"), &Value::Null).await.0, 403);
}

const DEPLOYED: &str = "namespace=web&resourceName=a&group=apps&kind=Deployment&version=v1";

/// `kim` may change one Deployment, `bo` nothing but look.
pub(crate) fn changing() -> Setup {
    let policy = "p, kim, applications, get, shop/*, allow\np, kim, applications, create, shop/*, allow\n\
        p, kim, applications, update, shop/*, allow\np, kim, logs, get, shop/*, allow\n\
        p, kim, applications, update/apps/Deployment/web/a, shop/*, allow\n\
        p, kim, applications, delete/apps/Deployment/web/a, shop/*, allow\n\
        p, kim, applications, action/apps/Deployment/scale, shop/*, allow\n\
        p, bo, applications, get, shop/*, allow\n";
    Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login"), ("accounts.bo", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project(
            "shop",
            &json!({"sourceRepos": ["https://git/*"],
                "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "*"}]}),
        )
        .live(Arc::<Known>::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_105_api_140_who_may_change_an_application_may_not_change_what_it_deploys() {
    let home = changing().start().await;
    let (kim, bo) = (home.account("kim"), home.account("bo"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let at = |query: &str| format!("{APPS}/web/resource?{query}");
    let patch = |kind: &str| format!("{}&patchType=application/{kind}", at(DEPLOYED));
    let body = json!("{\"spec\": {\"replicas\": 2}}");
    let changed = kim.ok("POST", &patch("merge-patch%2Bjson"), &body).await;
    let manifest: Value = serde_json::from_str(changed["manifest"].as_str().unwrap()).unwrap();
    assert_eq!(
        manifest,
        json!({"kind": "Deployment", "by": "application/merge-patch+json", "patch": {"spec": {"replicas": 2}}})
    );
    let (status, text) = kim.refused("POST", &patch("fancy"), &body).await;
    assert_eq!((status, text.as_str()), (400, "patch type \"application/fancy\" is not supported"));
    kim.ok("DELETE", &at(DEPLOYED), &Value::Null).await;
    let (_, text) =
        kim.refused("DELETE", &format!("{}&force=true&orphan=true", at(DEPLOYED)), &Value::Null).await;
    assert_eq!(text, "Deployment/a Removal { force: true, orphan: true }");
    // `update` on the application is no right on its resources, and the right on one is none on another.
    let other = DEPLOYED.replace("Deployment", "StatefulSet");
    for (client, query) in [(&kim, other.as_str()), (&bo, DEPLOYED)] {
        let hidden = (403, "permission denied".to_owned());
        assert_eq!(client.refused("DELETE", &at(query), &Value::Null).await, hidden, "{query}");
        let target = format!("{}&patchType=application/merge-patch%2Bjson", at(query));
        assert_eq!(client.refused("POST", &target, &body).await, hidden, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_149_api_153_logs_of_several_pods_come_in_order_and_say_that_they_end() {
    let home = changing().start().await;
    let (kim, bo) = (home.account("kim"), home.account("bo"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let read = async |query: &str| -> Vec<Value> {
        let (status, text) = kim.send("GET", &format!("{APPS}/web/logs?{query}"), &Value::Null).await;
        assert_eq!(status, 200, "{text}");
        let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["result"].take()).collect()
    };
    let contents = |entries: &[Value]| -> Vec<String> {
        entries.iter().map(|it| it["content"].as_str().unwrap().to_owned()).collect()
    };
    let all = read("").await;
    assert_eq!(contents(&all), ["one", "TWO", "three", "four", ""]);
    assert_eq!(
        (&all[0]["podName"], &all[0]["timeStampStr"], &all[0]["timeStamp"], &all[0]["last"]),
        (&json!("pod-0"), &json!("2026-01-01T00:00:01.5Z"), &json!("2026-01-01T00:00:01Z"), &json!(false))
    );
    assert_eq!((&all[4]["last"], &all[4]["podName"]), (&json!(true), &json!("")));
    assert_eq!(contents(&read("filter=two").await), ["TWO", ""]);
    assert_eq!(contents(&read("filter=two&matchCase=true").await), [""]);
    assert_eq!(contents(&read("filter=!t").await), ["one", "four", ""]);
    let until = read("untilTime=2026-01-01T00:00:01.7Z").await;
    assert_eq!(
        (contents(&until).as_slice(), &until[1]["last"]),
        (&["one".to_owned(), "TWO".to_owned()][..], &json!(true))
    );
    assert_eq!(contents(&read("previous=true&resourceName=1").await), ["no such log", ""], "API-151");
    assert_eq!(contents(&read("resourceName=0").await), [] as [&str; 0]);
    let (status, text) = kim.refused("GET", &format!("{APPS}/web/logs?resourceName=11"), &Value::Null).await;
    let many = "max pods to view logs are reached. Please provide more granular query";
    assert_eq!((status, text.as_str()), (400, many));
    let (status, text) = bo.refused("GET", &format!("{APPS}/web/logs"), &Value::Null).await;
    assert!(status == 403 && text.starts_with("permission denied: logs, get, shop/web"), "{status} {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_144_events_of_a_resource_come_from_where_it_is() {
    let home = changing().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let events = format!("{APPS}/web/events?resourceNamespace=web&resourceName=a&resourceUID=u-1");
    let shown = kim.ok("GET", &events, &Value::Null).await;
    assert_eq!(shown["items"][0]["message"], "web/a u-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_118_health_that_the_status_does_not_hold_is_filled_in() {
    let home = changing().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let resource = |kind: &str| json!({"group": "apps", "kind": kind, "namespace": "web", "name": "a"});
    let resources = json!([resource("Deployment"), resource("DaemonSet")]);
    let status = json!({"status": {"resourceHealthSource": "appTree", "resources": resources}});
    ask(&home.sim, Method::PATCH, &format!("{STORED}/web"), &status);
    let shown = kim.ok("GET", &format!("{APPS}/web"), &Value::Null).await;
    assert_eq!(shown["status"]["resources"][0]["health"]["status"], "Degraded");
    assert!(shown["status"]["resources"][1].get("health").is_none(), "what is not known stays blank");
    let status = json!({"status": {"resourceHealthSource": ""}});
    ask(&home.sim, Method::PATCH, &format!("{STORED}/web"), &status);
    let shown = kim.ok("GET", &format!("{APPS}/web"), &Value::Null).await;
    assert!(shown["status"]["resources"][0].get("health").is_none(), "the status itself holds it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_122_a_refresh_waits_for_its_answer_as_long_as_its_caller_does() {
    let home = setup().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let target = format!("{APPS}/web?refresh=hard");
    let annotation = || stored(&home, "web")["metadata"]["annotations"]["argocd.argoproj.io/refresh"].clone();
    let answering = async {
        while annotation() != "hard" {
            tokio::task::yield_now().await;
        }
        let done = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": null, "seen": "yes"}}});
        ask(&home.sim, Method::PATCH, &format!("{STORED}/web"), &done);
    };
    let (answer, ()) = tokio::join!(kim.ok("GET", &target, &Value::Null), answering);
    assert_eq!(answer["metadata"]["annotations"]["seen"], "yes");
    let request = http::Request::get(&target).header("authorization", kim.bearer());
    let request = request.header("grpc-timeout", "50m").body(Bytes::new()).unwrap();
    let (status, _, text) = crate::support::read(home.server.http1(request).await).await;
    assert!(status == 504 && text.contains("application refresh deadline exceeded"), "{status} {text}");
}

/// API-118: a watch of one application, a sync and a rollback tell it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_118_watches_of_one_and_syncs_tell_the_health_that_the_status_does_not_hold() {
    let home = setup().start().await;
    let kim = home.account("kim");
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let resource = json!({"group": "apps", "kind": "Deployment", "namespace": "web", "name": "a"});
    let source = json!({"repoURL": "https://git/r", "path": "p", "targetRevision": "main"});
    let history =
        json!([{"id": 3, "revision": "main", "source": source, "deployedAt": "2026-01-01T00:00:00Z"}]);
    let status =
        json!({"status": {"resourceHealthSource": "appTree", "resources": [resource], "history": history}});
    ask(&home.sim, Method::PATCH, &format!("{STORED}/web"), &status);
    let told = |answer: &Value| answer["status"]["resources"][0]["health"]["status"].clone();
    let first = async |query: &str| -> Value {
        let request = http::Request::get(format!("/api/v1/stream/applications?{query}"));
        let request = request.header("authorization", kim.bearer()).body(Bytes::new()).unwrap();
        let mut body = home.server.http1(request).await.into_body();
        let frame = http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap();
        let event: Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
        event["result"]["application"].clone()
    };
    assert_eq!(told(&first("name=web").await), "Degraded");
    assert_eq!(told(&first("projects=shop").await), Value::Null, "many leave it to the status");
    let rolled = kim.ok("POST", &format!("{APPS}/web/rollback"), &json!({"name": "web", "id": 3})).await;
    assert_eq!(told(&rolled), "Degraded");
    ask(&home.sim, Method::PATCH, &format!("{STORED}/web"), &json!({"operation": null}));
    let sync = json!({"name": "web", "revision": "main"});
    assert_eq!(told(&kim.ok("POST", &format!("{APPS}/web/sync"), &sync).await), "Degraded");
    let list = kim.ok("GET", APPS, &Value::Null).await;
    assert_eq!(told(&list["items"][0]), Value::Null, "lists do not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_142_an_action_needs_a_right_of_its_own() {
    let home = changing().start().await;
    let (kim, bo) = (home.account("kim"), home.account("bo"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let at = |path: &str| format!("{APPS}/web/resource/actions{path}");
    let list = bo.ok("GET", &format!("{}?{DEPLOYED}", at("")), &Value::Null).await;
    assert_eq!(list, json!({"actions": [{"name": "restart-a", "disabled": true}]}));
    let asked = |action: &str, parameters: Value| {
        json!({"name": "web", "namespace": "web", "resourceName": "a", "group": "apps", "kind": "Deployment",
            "version": "v1", "action": action, "resourceActionParameters": parameters})
    };
    kim.ok("POST", &at("/v2"), &asked("scale", json!([]))).await;
    let (_, text) =
        kim.refused("POST", &at("/v2"), &asked("scale", json!([{"name": "replicas", "value": "2"}]))).await;
    assert_eq!(text, "scale {\"replicas\": \"2\"}");
    // The first version has the name alone as its body.
    kim.ok("POST", &format!("{}?{DEPLOYED}", at("")), &json!("scale")).await;
    // API-225: what was done stands on the application and on the resource, both where the control plane is.
    let written = |kind: &str| {
        let events = ask(&home.sim, Method::GET, "/api/v1/namespaces/argocd/events", &Value::Null);
        let items = events["items"].as_array().cloned().unwrap_or_default();
        let about = |event: &&Value| {
            event["involvedObject"]["kind"] == kind && event["reason"] == "ResourceActionRan"
        };
        items.iter().filter(about).cloned().collect::<Vec<_>>()
    };
    until(|| !written("Application").is_empty() && !written("Deployment").is_empty()).await;
    let on_app = written("Application").remove(0);
    assert_eq!(on_app["message"], "kim ran action scale on resource apps/Deployment/a");
    let on_resource = written("Deployment").remove(0);
    assert_eq!(on_resource["message"], "kim ran action scale");
    assert_eq!(on_resource["metadata"]["annotations"]["resource-namespace"], "web");
    for (client, action) in [(&kim, "restart"), (&bo, "scale")] {
        let refused = client.refused("POST", &at("/v2"), &asked(action, json!([]))).await;
        assert_eq!(refused, (403, "permission denied".to_owned()), "{action}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_217_an_application_moves_by_rights_in_both_projects() {
    let destinations = json!([{"server": "https://kubernetes.default.svc", "namespace": "*"}]);
    let spec = json!({"sourceRepos": ["https://git/*"], "destinations": destinations});
    let policy = "p, role:shop, applications, *, shop/*, allow\np, all, applications, *, */*, allow\n\
        g, kim, role:shop\ng, lee, role:shop\np, lee, applications, create, new/*, allow\n\
        g, max, role:shop\np, max, applications, update, new/*, allow\n";
    let accounts = ["kim", "lee", "max", "all"].map(|name| format!("accounts.{name}"));
    let accounts: Vec<(&str, &str)> = accounts.iter().map(|name| (name.as_str(), "login")).collect();
    let home = Setup::new()
        .config_map("argocd-cm", &accounts)
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &spec)
        .project("new", &spec)
        .start()
        .await;
    home.account("all").ok("POST", APPS, &app("web", "shop")).await;
    let moved = app("web", "new");
    let patch = json!({"name": "web", "patchType": "merge", "patch": json!({"spec": {"project": "new"}}).to_string()});
    let ways = [
        ("PUT", format!("{APPS}/web"), moved.clone()),
        ("PUT", format!("{APPS}/web/spec"), moved["spec"].clone()),
        ("PATCH", format!("{APPS}/web"), patch),
        ("POST", format!("{APPS}?upsert=true"), moved),
    ];
    for (verb, target, body) in &ways {
        for name in ["kim", "lee", "max"] {
            let (status, text) = home.account(name).refused(verb, target, body).await;
            assert!(status == 403 && text.starts_with("permission denied"), "{name} {verb} {target}: {text}");
        }
        assert_eq!(stored(&home, "web")["spec"]["project"], "shop");
    }
    let (verb, target, body) = &ways[0];
    home.account("all").ok(verb, target, body).await;
    assert_eq!(stored(&home, "web")["spec"]["project"], "new");
}

/// Known makes the application `made` of every set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aset_285_whoever_confines_a_set_is_told_what_it_leaves_behind() {
    const SETS: &str = "/api/v1/applicationsets";
    let home = setup().start().await;
    let admin = home.account("admin");
    let set = |project: &str| {
        json!({"metadata": {"name": "all"}, "spec": {"project": project, "generators": [{"clusters": {}}],
            "template": {"metadata": {"name": "{{name}}"}, "spec": {"project": "shop",
                "source": {"repoURL": "https://git/r", "path": "."}, "destination": {"name": "in-cluster"}}}}})
    };
    let made = admin.ok("POST", SETS, &set("")).await;
    for name in ["made", "old", "older"] {
        let owner = json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "all",
            "uid": made["metadata"]["uid"], "controller": true}]);
        let mut app = app(name, "shop");
        app["apiVersion"] = "argoproj.io/v1alpha1".into();
        app["kind"] = "Application".into();
        app["metadata"]["ownerReferences"] = owner;
        ask(&home.sim, Method::POST, STORED, &app);
        admin.until(&format!("{APPS}/{name}"), 200).await;
    }
    let warnings = async |query: &str, project: &str| {
        let (status, headers, answer) =
            admin.whole("POST", &format!("{SETS}?upsert=true{query}"), &set(project)).await;
        assert_eq!(status, 200, "{answer}");
        headers.get_all("warning").iter().map(|text| text.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let expected = "299 - \"with spec.project 'shop' the set generates these applications no longer, and they are \
                    deleted: old, older\"";
    let dry = warnings("&dryRun=true", "shop").await;
    assert_eq!(dry, [expected, "299 - \"odd\"", "299 - \"application 'argocd/made': forbidden\""], "CLI-607");
    assert_eq!(warnings("", "").await, Vec::<String>::new(), "nothing is confined");
    assert_eq!(warnings("", "shop").await, [expected]);
    assert_eq!(warnings("", "shop").await, Vec::<String>::new(), "it was told");
}

/// CLI-606, CLI-607: what a set would change those learn who may make it, and of Applications those who may see them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cli_606_a_set_is_held_against_what_exists() {
    const GENERATE: &str = "/api/v1/applicationsets/generate";
    let policy = "p, role:shop, applications, *, shop/*, allow\np, role:shop, applicationsets, *, shop/*, allow\n\
                  g, kim, role:shop\n";
    let destinations = json!([{"server": "https://kubernetes.default.svc", "namespace": "*"}]);
    let home = Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login"), ("accounts.bo", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &json!({"sourceRepos": ["https://git/*"], "destinations": destinations}))
        .live(Arc::<Known>::default())
        .start()
        .await;
    let (admin, kim, bo) = (home.account("admin"), home.account("kim"), home.account("bo"));
    let set = json!({"metadata": {"name": "all"}, "spec": {"generators": [{"list": {"elements": []}}],
        "template": {"metadata": {"name": "{{name}}"}, "spec": {"project": "shop",
            "source": {"repoURL": "https://git/r", "path": "."}, "destination": {"name": "in-cluster"}}}}});
    for (name, project) in [("old", "shop"), ("hidden", "default")] {
        admin.ok("POST", APPS, &app(name, project)).await;
        admin.until(&format!("{APPS}/{name}"), 200).await;
    }
    let made = admin.ok("POST", "/api/v1/applicationsets", &set).await;
    let asked = |more: Value| {
        let mut body = json!({"applicationSet": set});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };

    let plain = kim.ok("POST", GENERATE, &asked(json!({}))).await;
    assert_eq!((&plain["isChecked"], &plain["warnings"]), (&json!(true), &json!(["odd"])));
    assert_eq!(plain["refusals"], json!([{"application": "argocd/made", "message": "forbidden"}]));
    assert_eq!(plain["applications"][0]["metadata"]["name"], "made");
    assert!(plain["preview"].is_null(), "{plain}");

    let parameters = kim.ok("POST", GENERATE, &asked(json!({"outputParameters": true}))).await;
    assert_eq!(parameters["parameters"], json!([r#"{"name":"all"}"#]), "ASET-304");

    let stored = kim.ok("POST", GENERATE, &asked(json!({"preview": "stored"}))).await;
    let changes = stored["preview"]["changes"].as_array().unwrap();
    let told: Vec<_> = changes.iter().map(|one| (one["name"].as_str(), one["action"].as_str())).collect();
    let expected = [("made", "add"), ("old", "change"), ("hidden", "change"), ("other", "refuse")];
    assert_eq!(told, expected.map(|(name, action)| (Some(name), Some(action))));
    assert_eq!(stored["preview"]["unchanged"], 7);
    let target: Value = serde_json::from_str(changes[1]["target"].as_str().unwrap()).unwrap();
    assert_eq!(target["spec"]["project"], made["metadata"]["uid"], "a stored set keeps its identity");
    let why = changes[2]["message"].as_str().unwrap();
    assert_eq!(why, "permission denied", "SEC-25: not whose it is");
    assert!(changes[2]["live"].as_str().is_none_or(str::is_empty), "{stored}");

    let existing = [json!({"metadata": {"name": "old"}, "spec": {"destination": {}}}).to_string()];
    let given = kim.ok("POST", GENERATE, &asked(json!({"preview": "given", "existing": existing}))).await;
    assert_eq!(given["preview"]["unchanged"], 1, "what belongs to nobody is the set's");
    assert_eq!(kim.refused("POST", GENERATE, &asked(json!({"preview": "x"}))).await.0, 400);
    for more in [json!({"outputParameters": true}), json!({"preview": "stored"})] {
        assert_eq!(bo.refused("POST", GENERATE, &asked(more)).await.0, 403);
    }
}
