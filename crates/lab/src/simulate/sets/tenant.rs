//! What is done to a set: edits of all kinds, generators that fail, deletions; and the world that it asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_control::services::Services;
use tiphys_source::{MemoryRepositories, Trouble};

use super::plugin::{self, BAD, Mood, Plugin};
use super::{ELEMENTS, Generator, Max, NAME, Order, Outside, ROWS, SETS, Spec, State, Step, URL};
use crate::simulate::chance::Chance;
use crate::simulate::manifests::Files;
use crate::simulate::model::{CONTROL_PLANE, MAIN};
use crate::simulate::users::path_of;
use crate::simulate::wire::Wires;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const LETTERS: [char; 3] = ['a', 'b', 'c'];
const SECRETS: &str = "/api/v1/namespaces/argocd/secrets";

/// Who has the set.
pub(in crate::simulate) struct Tenant {
    wires: Arc<Wires>,
    servers: MemoryRepositories,
    chance: Chance,
    plugin: Plugin,
    spec: Spec,
    clusters: BTreeSet<String>,
    /// Whether the repository fails.
    is_down: bool,
}

impl Tenant {
    /// Makes the set, and what it asks.
    pub(in crate::simulate) fn install(
        wires: &Arc<Wires>,
        servers: &MemoryRepositories,
        mut chance: Chance,
    ) -> Self {
        let spec = Spec {
            generator: generator(&mut chance),
            edition: 0,
            is_broken: false,
            steps: if chance.permille(600) { steps(&mut chance) } else { Vec::new() },
            order: order(&mut chance),
        };
        let plugin = Plugin::new(some(&mut chance));
        let (wires, servers) = (Arc::clone(wires), servers.clone());
        let mut tenant =
            Self { wires, servers, chance, plugin, spec, clusters: BTreeSet::new(), is_down: false };
        tenant.prepare();
        let (status, answer) = tenant.direct(Method::POST, SETS, &tenant.spec.manifest());
        if status != 201 {
            let text = format!("the set cannot be made: {status} {answer}");
            tenant.wires.observer.lock().broken(Duration::ZERO, "simulation", text);
        }
        tenant.wires.observer.lock().model.generated = super::apps();
        tenant.note();
        tenant
    }

    /// Settings, the plugin, cluster Secrets and the repository.
    fn prepare(&mut self) {
        let settings = |name: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "argocd"}}, "data": data})
        };
        let flag = json!({"applicationsetcontroller.enable.progressive.syncs": "true"});
        let plugin = json!({"token": "$plugin:token", "baseUrl": "http://plugin.example"});
        let maps = format!("/api/v1/namespaces/{CONTROL_PLANE}/configmaps");
        self.direct(Method::POST, &maps, &settings("argocd-cmd-params-cm", flag));
        self.direct(Method::POST, &maps, &settings(plugin::NAME, plugin));
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "plugin", "labels": {"app.kubernetes.io/part-of": "argocd"}},
            "stringData": {"token": "a-token"}});
        self.direct(Method::POST, SECRETS, &secret);
        if self.spec.generator == Generator::Clusters {
            for element in some(&mut self.chance) {
                self.toggle_cluster(&element);
            }
        }
        let asks_directories = matches!(self.spec.generator, Generator::Directories | Generator::Matrix(_));
        let directories = if asks_directories { some(&mut self.chance) } else { all() };
        let files = some(&mut self.chance);
        let contents = directories.iter().map(|element| (directory(element), self.content()));
        let mut contents: Files = contents.collect();
        contents.extend(files.iter().map(|element| (file(element), parameters(element))));
        self.commit(contents);
    }

    fn content(&self) -> Bytes {
        let now = self.wires.now().as_millis().to_string();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"},
            "data": {"value": now}});
        Bytes::from(object.to_string())
    }

    fn files(&self) -> Files {
        let head = self.servers.get_ref(URL, MAIN);
        let files = head.and_then(|head| self.servers.files(URL, &head));
        files.map(|files| (*files).clone()).unwrap_or_default()
    }

    fn commit(&self, files: Files) {
        let seconds = i64::try_from(self.wires.now().as_secs()).unwrap_or(0);
        // A repository in memory refuses nothing of this.
        drop(self.servers.commit(URL, "main", files, seconds));
    }

    /// Services as a controller asks them.
    pub(in crate::simulate) fn services(&self) -> Services {
        Services { plugins: Arc::new(self.plugin.clone()), ..Services::of_network() }
    }

    /// What everybody would be told now.
    fn outside(&self) -> Outside {
        let files = self.files();
        let below = |prefix: &str, suffix: &str| -> BTreeSet<String> {
            let inside = files.keys().filter_map(|path| path.strip_prefix(prefix)?.strip_suffix(suffix));
            inside.map(str::to_owned).collect()
        };
        let is_readable = files.values().all(|content| serde_json::from_slice::<Value>(content).is_ok());
        let answers = !self.is_down;
        Outside {
            directories: answers.then(|| below("sets/", "/config.yaml")),
            files: (answers && is_readable).then(|| below("params/", ".json")),
            clusters: self.clusters.clone(),
            plugin: self.plugin.elements(),
        }
    }

    /// The observer learns what is in force from now on.
    fn note(&self) {
        let state = State { spec: self.spec.clone(), outside: self.outside() };
        let now = self.wires.now();
        self.wires.observer.lock().model.sets.note(now, state);
    }

    /// Does something; says what.
    pub(in crate::simulate) fn act(&mut self) -> String {
        let done = match self.chance.below(100) {
            0..=29 => self.change_elements(),
            30..=44 => {
                self.spec.edition += 1;
                self.patch("edits the template")
            }
            45..=59 => self.trouble(),
            60..=65 => {
                self.spec.is_broken = !self.spec.is_broken;
                self.patch("breaks or mends the template")
            }
            66..=74 => {
                let mut files = self.files();
                let path = directory(self.chance.pick(&ELEMENTS).copied().unwrap_or_default());
                let content = self.content();
                if let Some(old) = files.get_mut(&path) {
                    *old = content;
                }
                self.commit(files);
                "commits".to_owned()
            }
            75..=82 => {
                if self.chance.permille(500) {
                    self.spec.order = order(&mut self.chance);
                } else {
                    self.spec.steps =
                        if self.chance.permille(700) { steps(&mut self.chance) } else { Vec::new() };
                }
                self.patch("changes the strategy")
            }
            83..=87 => self.delete(),
            88..=91 => self.create_again(),
            92..=95 => self.meddle(),
            _ => {
                let patch = json!({"metadata": {"annotations": {"argocd.argoproj.io/application-set-refresh": "true"}}});
                format!("asks for a look: {}", self.direct_patch(&address(), &patch))
            }
        };
        self.note();
        format!("set: {done}")
    }

    fn change_elements(&mut self) -> String {
        let element = self.chance.pick(&ELEMENTS).copied().unwrap_or_default();
        let asks_plugin = match self.spec.generator {
            Generator::Plugin => true,
            Generator::Both(_) => self.chance.permille(500),
            _ => false,
        };
        if asks_plugin {
            self.plugin.toggle(element);
            return format!("the plugin changes its mind about {element}");
        }
        let (is_twice, is_row) = (self.chance.permille(100), self.chance.permille(500));
        match &mut self.spec.generator {
            Generator::List(names) | Generator::Both(names) => {
                toggle(names, element, is_twice);
                self.patch("changes the list")
            }
            Generator::Matrix(rows) if is_row => {
                let row = self.chance.pick(&ROWS).copied().unwrap_or_default();
                toggle(rows, row, false);
                self.patch("changes the rows")
            }
            Generator::Clusters => {
                self.toggle_cluster(element);
                format!("cluster {element} comes or goes")
            }
            Generator::Directories | Generator::Matrix(_) => {
                let mut files = self.files();
                if files.remove(&directory(element)).is_none() {
                    files.insert(directory(element), self.content());
                }
                self.commit(files);
                format!("directory {element} comes or goes")
            }
            Generator::Files | Generator::Plugin => {
                let mut files = self.files();
                if files.remove(&file(element)).is_none() {
                    let is_bad = self.chance.permille(200);
                    let content =
                        if is_bad { Bytes::from_static(b"{\"element\": [") } else { parameters(element) };
                    files.insert(file(element), content);
                }
                self.commit(files);
                format!("file {element} comes or goes")
            }
        }
    }

    fn toggle_cluster(&mut self, element: &str) {
        let name = format!("cluster-{element}");
        if self.clusters.remove(element) {
            self.direct(Method::DELETE, &format!("{SECRETS}/{name}"), &Value::Null);
            return;
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name,
                "labels": {"argocd.argoproj.io/secret-type": "cluster", "fleet": NAME}},
            "stringData": {"name": element, "server": format!("https://{element}.example"), "config": "{}"},
        });
        self.direct(Method::POST, SECRETS, &secret);
        self.clusters.insert(element.to_owned());
    }

    /// A generator fails, or works again.
    fn trouble(&mut self) -> String {
        let is_bad = self.chance.permille(650);
        let delay =
            Duration::from_secs(if self.chance.permille(300) { self.chance.within(1, 90) } else { 0 });
        let mood = self.chance.pick(&BAD).copied().filter(|_| is_bad).unwrap_or(Mood::Answers);
        self.plugin.set(mood, delay);
        self.is_down = is_bad;
        let failure = is_bad.then(|| "the server has a bad day".to_owned());
        self.servers.set_trouble(URL, Trouble { failure, delay });
        format!("generators are {mood:?}, after {delay:?}")
    }

    fn delete(&mut self) -> String {
        let (status, _) = self.direct(Method::DELETE, &address(), &Value::Null);
        if self.wires.get(&address()).is_none() {
            let now = self.wires.now();
            self.wires.observer.lock().model.sets.gone.get_or_insert(now);
        }
        format!("is deleted: {status}")
    }

    fn create_again(&mut self) -> String {
        if self.wires.get(&address()).is_some() {
            return "is there".to_owned();
        }
        let (status, _) = self.direct(Method::POST, SETS, &self.spec.manifest());
        self.wires.observer.lock().model.sets.gone = None;
        format!("is made again: {status}")
    }

    /// Somebody deletes or changes one of its Applications.
    fn meddle(&mut self) -> String {
        let names: Vec<String> = super::names().collect();
        let Some(name) = self.chance.pick(&names).cloned() else { return String::new() };
        let path = path_of(&name);
        let status = if self.chance.permille(500) {
            let patch = json!({"metadata": {"labels": {"letter": "z"}}, "spec": {"info": null}});
            self.direct_patch(&path, &patch)
        } else {
            self.direct(Method::DELETE, &path, &Value::Null).0
        };
        if status == 200 && self.wires.get(&path).is_none() {
            let now = self.wires.now();
            self.wires.observer.lock().died(&name, now);
        }
        format!("somebody meddles with {name}: {status}")
    }

    /// All generators work, and the template is right.
    pub(in crate::simulate) fn calm(&mut self) {
        self.plugin.set(Mood::Answers, Duration::ZERO);
        self.is_down = false;
        self.servers.set_trouble(URL, Trouble::default());
        self.note();
    }

    fn patch(&self, what: &str) -> String {
        let status = self.direct_patch(&address(), &json!({"spec": self.spec.value()}));
        format!("{what}: {status}")
    }

    fn direct_patch(&self, path: &str, patch: &Value) -> u16 {
        self.wires.direct(Method::PATCH, path, MERGE, patch).0
    }

    fn direct(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        self.wires.direct(method, path, JSON, body)
    }
}

fn address() -> String {
    format!("{SETS}/{NAME}")
}

fn directory(element: &str) -> String {
    format!("sets/{element}/config.yaml")
}

fn file(element: &str) -> String {
    format!("params/{element}.json")
}

fn parameters(element: &str) -> Bytes {
    Bytes::from(json!({"element": element}).to_string())
}

fn all() -> BTreeSet<String> {
    ELEMENTS.iter().map(ToString::to_string).collect()
}

fn some(chance: &mut Chance) -> BTreeSet<String> {
    let some = ELEMENTS.iter().filter(|_| chance.permille(500));
    some.map(ToString::to_string).collect()
}

/// Another one, or one less; with `twice` one more of the same.
fn toggle(names: &mut Vec<String>, name: &str, twice: bool) {
    if twice {
        names.push(name.to_owned());
    } else if names.iter().any(|known| known == name) {
        names.retain(|known| known != name);
    } else {
        names.push(name.to_owned());
    }
}

fn generator(chance: &mut Chance) -> Generator {
    let names = |chance: &mut Chance| some(chance).into_iter().collect();
    match chance.below(7) {
        0 => Generator::List(names(chance)),
        1 => Generator::Directories,
        2 => Generator::Files,
        3 => Generator::Clusters,
        4 => Generator::Plugin,
        5 => Generator::Matrix(ROWS.iter().map(ToString::to_string).collect()),
        _ => Generator::Both(names(chance)),
    }
}

fn steps(chance: &mut Chance) -> Vec<Step> {
    let mut left = LETTERS.to_vec();
    let mut steps = Vec::new();
    while !left.is_empty() && (steps.len() <= 1 || !chance.permille(200)) {
        let at = usize::try_from(chance.below(left.len() as u64)).unwrap_or(0);
        let mut letters = vec![left.swap_remove(at)];
        if chance.permille(150) {
            letters.extend(left.pop());
        }
        let max = match chance.below(6) {
            0 => Some(Max::Count(1)),
            1 => Some(Max::Count(2)),
            2 => Some(Max::Percent(50)),
            _ => None,
        };
        steps.push(Step { letters, max });
    }
    steps
}

fn order(chance: &mut Chance) -> Order {
    match chance.below(5) {
        0 => Order::AllAtOnce,
        1 | 2 => Order::Reverse,
        _ => Order::Custom(steps(chance)),
    }
}

/// Names of the Applications in the cluster that are the set's, with the objects.
pub(super) fn live(wires: &Wires) -> Option<BTreeMap<String, Value>> {
    let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/applications");
    let list = wires.get(&path)?;
    let items = list.get("items")?.as_array()?.iter().filter(|app| super::is_of_set(app));
    let named = items.map(|app| {
        let name = app.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        (name.to_owned(), app.clone())
    });
    Some(named.collect())
}
