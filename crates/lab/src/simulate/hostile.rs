//! The hostile tenant: somebody who may write to one project's repository and create Applications in it, and does
//! with that what it can to the others (INV-16).
//!
//! Nothing that it does is a fault of the server. Its applications may fail in every way; those of the others must
//! not notice, and whatever it makes stays inside of its own namespace.

mod account;
mod costs;
pub(super) mod judge;
pub(super) mod services;
mod shelf;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_source::MemoryRepositories;

use account::Account;
use costs::Costs;
use shelf::Shelf;

use super::api::ApiServer;
use super::chance::Chance;
use super::manifests::Files;
use super::model::{CONTROL_PLANE, Rules, annotation};
use super::users::path_of;
use super::wire::Wires;

/// The one project, and namespace, of the tenant.
pub(super) const PROJECT: &str = "hostile";
/// A cluster that accepts and never answers, which the tenant may deploy to.
const FROZEN: &str = "https://frozen.example";
/// Repositories of the tenant, and of somebody else.
const OWN: &str = "https://git.example/hostile.git";
const FOREIGN: &str = "https://git.example/0.git";
/// Objects of one kind that an application may have whose manifests leave the names to the server: those of one sync
/// for each commit, never one for each look.
const OBJECTS_MAX: usize = 80;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// An annotation of the others' objects that the tenant would like to be its own.
const TRACKING: &str = "argocd.argoproj.io/tracking-id";

/// What only objects of others hold.
const VAULT_VALUE: &str = "kept-in-a-vault";

/// What an application of the tenant is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Malice {
    /// A few kilobytes that become gigabytes when they are counted by number instead of by size.
    Bomb,
    /// Deeper than any reader should go.
    Depth,
    /// Objects in the namespace, and with the mark, of somebody else.
    Forgery,
    /// A pointer of Git's large file storage in place of manifests.
    Pointer,
    /// A manifest that ends in the middle.
    Half,
    /// Names that the server makes, of objects and of hooks.
    Generated,
    /// A manifest that the server refuses, to be applied by force.
    Force,
    /// More documents than anybody needs.
    Many,
    /// A jq expression without an end.
    Endless,
    /// A source that is only there to be referred to.
    OnlyRef,
    /// No source at all, but a hydrator.
    OnlyHydrator,
    /// The repository of another project.
    ForeignSource,
    /// A cluster that does not answer.
    Frozen,
}

const ALL: [Malice; 13] = [
    Malice::Bomb,
    Malice::Depth,
    Malice::Forgery,
    Malice::Pointer,
    Malice::Half,
    Malice::Generated,
    Malice::Force,
    Malice::Many,
    Malice::Endless,
    Malice::OnlyRef,
    Malice::OnlyHydrator,
    Malice::ForeignSource,
    Malice::Frozen,
];

/// The tenant of one run.
pub(super) struct Hostile {
    wires: Arc<Wires>,
    servers: MemoryRepositories,
    chance: Chance,
    apps: Vec<(String, Malice)>,
    /// Its account of the API server, where it has one.
    account: Option<Account>,
    /// Another project's hydrated manifests, which it would like to change.
    shelf: Option<Shelf>,
    /// Its Application that costs more than it is worth.
    costs: Option<Costs>,
}

impl Hostile {
    /// Moves in: a project with one namespace and one repository, and some applications.
    pub(super) fn install(
        wires: &Arc<Wires>,
        servers: &MemoryRepositories,
        chance: Chance,
        of_account: Option<Chance>,
    ) -> Self {
        let (mut account, mut shelf, mut costs) = (None, None, None);
        if let Some(mut chance) = of_account {
            let (of_shelf, of_costs) = (chance.fork(), chance.fork());
            let has_shelf = chance.permille(500);
            costs = chance.permille(250).then(|| Costs::new(wires, servers, of_costs));
            account = Some(Account::install(wires, chance));
            shelf = has_shelf.then(|| Shelf::install(wires, servers, of_shelf));
        }
        let (wires, servers) = (Arc::clone(wires), servers.clone());
        let mut tenant = Self { wires, servers, chance, apps: Vec::new(), account, shelf, costs };
        let project = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": PROJECT, "namespace": CONTROL_PLANE},
            "spec": {
                "sourceRepos": if tenant.shelf.is_some() { json!([OWN, shelf::URL]) } else { json!([OWN]) },
                "destinations": [{"server": "*", "namespace": PROJECT}],
            },
        });
        tenant.post("appprojects", &project);
        let rules = Rules { namespaces: BTreeSet::from([PROJECT.to_owned()]), ..Rules::default() };
        tenant.wires.observer.lock().model.projects.insert(PROJECT.to_owned(), vec![(Duration::ZERO, rules)]);
        let cluster = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "frozen", "namespace": CONTROL_PLANE,
                "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
            "stringData": {"name": "frozen", "server": FROZEN, "config": "{}"},
        });
        tenant.direct(Method::POST, &format!("/api/v1/namespaces/{CONTROL_PLANE}/secrets"), &cluster);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROJECT}});
        tenant.direct(Method::POST, "/api/v1/namespaces", &namespace);
        for number in 0..tenant.chance.within(1, 4) {
            let Some(malice) = tenant.chance.pick(&ALL).copied() else { continue };
            let name = format!("hostile-{number}");
            tenant.commit(&name, malice);
            tenant.create(&name, malice);
            tenant.apps.push((name, malice));
        }
        tenant
    }

    /// How many applications there are because of it.
    pub(super) fn count(&self) -> usize {
        let of_shelf = self.shelf.as_ref().map_or(0, |_| 2);
        self.apps.len() + of_shelf + usize::from(self.costs.is_some())
    }

    /// The way to the cluster that does not answer.
    pub(super) fn clusters() -> BTreeMap<String, Connection> {
        let never = |_request| {
            std::future::pending::<Result<http::Response<super::wire::Body>, super::wire::Error>>()
        };
        BTreeMap::from([(FROZEN.to_owned(), Connection::over(FROZEN, never))])
    }

    /// Does something; says what.
    pub(super) fn act(&mut self) -> String {
        let Some((name, malice)) = self.chance.pick(&self.apps).cloned() else { return String::new() };
        match self.chance.below(10) {
            0..=2 => {
                self.commit(&name, malice);
                format!("{name} ({malice:?}) commits")
            }
            3 => self.patch(&name, &json!({"operation": {"sync": {"prune": true, "revision": ""}}}), "syncs"),
            4 => {
                let foreign = json!({"repoURL": FOREIGN, "path": "apps/0", "targetRevision": "main"});
                let operation = json!({"operation": {"sync": {"source": foreign}}});
                self.patch(&name, &operation, "syncs somebody else's repository")
            }
            5 => {
                let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}});
                self.patch(&name, &refresh, "refreshes")
            }
            6 => {
                let (status, _) = self.direct(Method::DELETE, &path_of(&name), &Value::Null);
                format!("{name} ({malice:?}) is deleted: {status}")
            }
            7 => {
                self.create(&name, malice);
                format!("{name} ({malice:?}) is created again")
            }
            _ => self.unmark(),
        }
    }

    /// What else it does beside its Applications; says what.
    pub(super) fn act_apart(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        if let Some(account) = &mut self.account
            && let Some((app, _)) = self.chance.pick(&self.apps)
        {
            done.push(account.forge(app));
        }
        if let Some(shelf) = &mut self.shelf {
            shelf.check();
            done.push(shelf.act());
        }
        done.extend(self.costs.as_mut().map(Costs::act));
        done
    }

    /// Whether another project's manifests are hydrated while it tries to keep them from that, and its own Applications
    /// have a status. Nothing has gone wrong for a while; afterwards it stops.
    pub(super) fn calm(&mut self, loses_events: bool) {
        // What no event told of is found when everything is listed again, which is later.
        if let Some(costs) = self.costs.as_ref().filter(|_| !loses_events) {
            costs.check();
        }
        if let Some(shelf) = &self.shelf {
            if !loses_events {
                shelf.check_current();
            }
            shelf.withdraw();
        }
    }

    /// Takes back what never comes to rest; whether there was something.
    pub(super) fn pause(&self) -> bool {
        self.shelf.as_ref().map(Shelf::withdraw).is_some()
    }

    /// Begins again after a pause; says what.
    pub(super) fn intrude(&mut self) -> String {
        self.shelf.as_mut().map(Shelf::intrude).unwrap_or_default()
    }

    /// Whether it has something to be calm about.
    pub(super) fn intrudes(&self) -> bool {
        self.shelf.is_some() || self.costs.is_some()
    }

    /// The token of its account.
    pub(super) fn token(&self) -> Option<String> {
        self.account.as_ref().map(Account::token)
    }

    /// Tries something through the API server; says what.
    pub(super) async fn call(&mut self, api: &ApiServer) -> String {
        let Some(account) = &mut self.account else { return String::new() };
        let Some((app, _)) = self.chance.pick(&self.apps) else { return String::new() };
        account.attempt(api, app).await
    }

    /// Nothing of the tenant's is anywhere but in its namespace, and no more of it than it may have (INV-16).
    pub(super) fn check(&self) {
        if let Some(shelf) = &self.shelf {
            shelf.check();
        }
        for (plural, root) in [("configmaps", "/api/v1"), ("jobs", "/apis/batch/v1"), ("secrets", "/api/v1")]
        {
            let list = self.wires.get(&format!("{root}/{plural}"));
            let items = list.as_ref().and_then(|list| list.get("items")?.as_array());
            let mut own: BTreeMap<&str, usize> = BTreeMap::new();
            for item in items.into_iter().flatten() {
                let mark = annotation(item, TRACKING).filter(|mark| mark.starts_with("hostile-"));
                // What others were given so that it looks like the tenant's is not its doing.
                let mark =
                    mark.filter(|_| item.pointer("/data/value").is_none_or(|value| value != VAULT_VALUE));
                let Some((app, _)) = mark.and_then(|mark| mark.split_once(':')) else { continue };
                let namespace =
                    item.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
                *own.entry(app).or_default() += 1;
                if namespace != PROJECT {
                    self.broken(&format!("{plural} of the tenant are in {namespace}: {item}"));
                }
            }
            for (app, count) in own.into_iter().filter(|(_, count)| *count > OBJECTS_MAX) {
                self.broken(&format!("{count} {plural} of {app}"));
            }
        }
    }

    fn broken(&self, text: &str) {
        let now = self.wires.now();
        self.wires.observer.lock().broken(now, "INV-16", text.to_owned());
    }

    /// Takes the mark off its own objects: what was managed is nobody's, and its application has to notice.
    fn unmark(&mut self) -> String {
        let collection = format!("/api/v1/namespaces/{PROJECT}/configmaps");
        let list = self.wires.get(&collection).unwrap_or_default();
        let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(item) = self.chance.pick(&items) else { return "unmarks nothing".to_owned() };
        let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let patch = json!({"metadata": {"annotations": {TRACKING: null}}});
        let (status, _) = self.wires.direct(Method::PATCH, &format!("{collection}/{name}"), MERGE, &patch);
        format!("unmarks {name}: {status}")
    }

    fn post(&self, plural: &str, body: &Value) -> u16 {
        let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/{plural}");
        self.direct(Method::POST, &path, body).0
    }

    fn direct(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        self.wires.direct(method, path, JSON, body)
    }

    fn patch(&self, name: &str, patch: &Value, what: &str) -> String {
        let (status, _) = self.wires.direct(Method::PATCH, &path_of(name), MERGE, patch);
        format!("{name} {what}: {status}")
    }

    fn commit(&mut self, name: &str, malice: Malice) {
        let head = self.servers.get_ref(OWN, super::model::MAIN);
        let files = head.and_then(|head| self.servers.files(OWN, &head));
        let mut files: Files = files.map(|files| (*files).clone()).unwrap_or_default();
        let number = self.chance.below(100);
        files.insert(format!("{name}/all.yaml"), content(malice, name, number));
        let seconds = i64::try_from(self.wires.now().as_secs()).unwrap_or(0);
        // A repository in memory refuses nothing of this.
        drop(self.servers.commit(OWN, "main", files, seconds));
    }

    fn create(&self, name: &str, malice: Malice) {
        let own = json!({"repoURL": OWN, "path": name, "targetRevision": "main"});
        let server = if malice == Malice::Frozen { FROZEN } else { "https://kubernetes.default.svc" };
        let mut spec = json!({
            "project": PROJECT,
            "source": own,
            "destination": {"server": server, "namespace": PROJECT},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        });
        match malice {
            Malice::OnlyRef => {
                spec["source"] = Value::Null;
                spec["sources"] = json!([{"repoURL": OWN, "targetRevision": "main", "ref": "values"}]);
            }
            Malice::OnlyHydrator => {
                spec["source"] = Value::Null;
                spec["sourceHydrator"] = json!({
                    "drySource": {"repoURL": OWN, "path": name, "targetRevision": "main"},
                    "syncSource": {"targetBranch": "env", "path": name},
                });
            }
            Malice::ForeignSource => spec["source"]["repoURL"] = json!(FOREIGN),
            Malice::Endless => {
                let expressions = [
                    "last(repeat(1))",
                    "[range(1000000000)] | length",
                    "def f: f; f",
                    ".data | combinations",
                ];
                spec["ignoreDifferences"] =
                    json!([{"group": "*", "kind": "*", "jqPathExpressions": expressions}]);
            }
            _ => {}
        }
        let app = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": CONTROL_PLANE,
                "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": spec,
        });
        self.post("applications", &app);
    }
}

fn content(malice: Malice, name: &str, number: u64) -> Bytes {
    let config = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"value": number.to_string()}})
    };
    let text = match malice {
        Malice::Bomb => bomb(),
        Malice::Depth => {
            let (open, close) = ("{\"a\":".repeat(5000), "}".repeat(5000));
            format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"deep\"}},\"data\":{open}1{close}}}"
            )
        }
        Malice::Forgery => forgery(number),
        Malice::Pointer => format!(
            "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {number}\n",
            "0".repeat(64)
        ),
        Malice::Half => {
            format!("{}\n---\napiVersion: v1\nkind: [\nmetadata: {{}}\n", config(&format!("{name}-half")))
        }
        Malice::Generated => generated(name, number),
        Malice::Force => {
            let mut wrong = config(&format!("{name}-forced"));
            wrong["metadata"]["annotations"] = json!({"argocd.argoproj.io/sync-options": "Force=true"});
            if number.is_multiple_of(2) {
                wrong["data"]["value"] = json!(1);
            }
            wrong.to_string()
        }
        Malice::Many => (0..40).fold(String::new(), |mut text, index| {
            // Writing to a text cannot fail.
            let _ = write!(text, "{}\n---\n", config(&format!("{name}-many-{index}")));
            text
        }),
        _ => config(&format!("{name}-config")).to_string(),
    };
    Bytes::from(text)
}

/// Maps with one key in lists in maps: each costs hundreds of bytes of memory and eight of text.
fn bomb() -> String {
    let mut text = "a: &a [{a: 1},{a: 1},{a: 1},{a: 1},{a: 1},{a: 1},{a: 1},{a: 1}]\n".to_owned();
    for (known, next) in
        ["ab", "bc", "cd", "de", "ef", "fg", "gh"].iter().filter_map(|pair| pair.split_at_checked(1))
    {
        let all = vec![format!("*{known}"); 9].join(",");
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{next}: &{next} [{all}]");
    }
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bomb}}\n{text}")
}

/// Objects of others, with their marks, and an application in the control plane's namespace.
fn forgery(number: u64) -> String {
    let mark = format!("app-0:/ConfigMap:team-0/config-{number}");
    let config = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("config-{}", number % 6), "namespace": namespace,
                "annotations": {TRACKING: mark}},
            "data": {"value": "forged"}})
    };
    let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "app-0", "namespace": CONTROL_PLANE},
        "spec": {"project": "default"}});
    format!("{}\n---\n{}\n---\n{app}", config("team-0"), config(CONTROL_PLANE))
}

fn generated(name: &str, number: u64) -> String {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"generateName": format!("{name}-")}, "data": {"value": number.to_string()}});
    let hook = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"generateName": format!("{name}-"), "annotations": {"argocd.argoproj.io/hook": "PostSync"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/job:1"}]}}}});
    format!("{object}\n---\n{hook}")
}
