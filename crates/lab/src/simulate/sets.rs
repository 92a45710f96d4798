//! The `ApplicationSet` of a run: what it says, what it means, and since when (INV-8, INV-12).
//!
//! One set in some of the runs. Its generators ask lists, repositories, cluster Secrets and a plugin; what they mean is
//! found out here from what those hold, without the product's generators. The observer keeps every state with its time:
//! a controller may act by one that was in force a while ago, and by none that never was.

mod judge;
mod plugin;
mod settled;
mod tenant;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::model::{App, Automated, CONTROL_PLANE};

pub(super) use settled::check;
pub(super) use tenant::Tenant;

/// The one set.
pub(super) const NAME: &str = "set";
/// Where its directories and files are.
pub(super) const URL: &str = "https://git.example/sets.git";
/// Address of sets.
pub(super) const SETS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets";
/// Elements of all generators. The first letter is a label, by which steps choose.
static ELEMENTS: [&str; 6] = ["a1", "a2", "b1", "b2", "c1", "c2"];
/// What a list says in a matrix.
static ROWS: [&str; 2] = ["x", "y"];
/// Applications that a set can have.
pub(super) const APPS_MAX: usize = 18;

/// Every name that an Application of the set can have.
pub(super) fn names() -> impl Iterator<Item = String> {
    let plain = ELEMENTS.iter().map(|element| format!("{NAME}-{element}"));
    let of_rows =
        ROWS.iter().flat_map(|row| ELEMENTS.iter().map(move |element| format!("{NAME}-{row}-{element}")));
    plain.chain(of_rows)
}

/// The Applications that the set can have. What they declare never changes, so they are known before they are there.
pub(super) fn apps() -> BTreeMap<String, App> {
    let app = |name: String| {
        let element = name.rsplit('-').next().unwrap_or_default();
        let app = App {
            url: URL.to_owned(),
            path: format!("sets/{element}"),
            namespace: name.clone(),
            project: "default".to_owned(),
            automated: Some(Automated { prune: true, self_heal: true }),
            cascades: true,
            deleted: false,
            name: name.clone(),
        };
        (name, app)
    };
    names().map(app).collect()
}

/// What a set is generated from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    /// Elements, one maybe twice.
    List(Vec<String>),
    /// Directories of the repository.
    Directories,
    /// Files of the repository.
    Files,
    /// Secrets of clusters.
    Clusters,
    /// A service.
    Plugin,
    /// Rows, each with all directories.
    Matrix(Vec<String>),
    /// Elements, and a service: the one goes on when the other fails, and nothing may come of it.
    Both(Vec<String>),
}

/// In which order Applications go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    AllAtOnce,
    Reverse,
    Custom(Vec<Step>),
}

/// A step: the letters of its Applications, and how many of them at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) letters: Vec<char>,
    pub(super) max: Option<Max>,
}

/// A `maxUpdate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Max {
    Count(usize),
    Percent(usize),
}

impl Max {
    fn value(self) -> Value {
        match self {
            Self::Count(count) => json!(count),
            Self::Percent(percent) => json!(format!("{percent}%")),
        }
    }

    /// How many of so many.
    pub(super) fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (all * percent / 100).max(1),
        }
    }
}

/// What the set says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) generator: Generator,
    /// Edits of the template so far.
    pub(super) edition: u64,
    /// Whether the template asks for a parameter that there is not.
    pub(super) is_broken: bool,
    /// Steps of a roll-out; without any there is none.
    pub(super) steps: Vec<Step>,
    pub(super) order: Order,
}

impl Spec {
    /// `spec` of the set; a merge patch too, which leaves nothing of what was there before.
    pub(super) fn value(&self) -> Value {
        let elements = |names: &[String], member: &str| {
            let elements: Vec<Value> = names.iter().map(|name| json!({ member: name })).collect();
            json!({"list": {"elements": elements}})
        };
        let git = |what: &str, pattern: &str| {
            json!({"git": {"repoURL": URL, "revision": "main", what: [{"path": pattern}],
                "requeueAfterSeconds": 60}})
        };
        let plugin = json!({"plugin": {"configMapRef": {"name": plugin::NAME}, "requeueAfterSeconds": 60}});
        let (generators, element) = match &self.generator {
            Generator::List(names) => (vec![elements(names, "element")], ".element"),
            Generator::Directories => (vec![git("directories", "sets/*")], ".path.basename"),
            Generator::Files => (vec![git("files", "params/*.json")], ".element"),
            Generator::Clusters => {
                let selector = json!({"matchLabels": {"fleet": NAME}});
                (vec![json!({"clusters": {"selector": selector}})], ".name")
            }
            Generator::Plugin => (vec![plugin], ".element"),
            Generator::Matrix(rows) => {
                let both = json!([elements(rows, "row"), git("directories", "sets/*")]);
                (vec![json!({"matrix": {"generators": both}})], ".path.basename")
            }
            Generator::Both(names) => (vec![elements(names, "element"), plugin], ".element"),
        };
        let name = match &self.generator {
            Generator::Matrix(_) => format!("{NAME}-{{{{ .row }}}}-{{{{ {element} }}}}"),
            _ => format!("{NAME}-{{{{ {element} }}}}"),
        };
        json!({
            "goTemplate": true,
            "goTemplateOptions": ["missingkey=error"],
            "generators": generators,
            "strategy": self.strategy(),
            "template": {
                "metadata": {"name": name, "labels": {
                    "letter": format!("{{{{ trunc 1 {element} }}}}"),
                    "edition": self.edition.to_string(),
                    "broken": self.is_broken.then_some("{{ .nothing }}"),
                }},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": URL, "targetRevision": "main", "path": format!("sets/{{{{ {element} }}}}")},
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": name},
                    "info": [{"name": "edition", "value": self.edition.to_string()}],
                    "syncPolicy": {
                        "automated": {"prune": true, "selfHeal": true},
                        "syncOptions": ["CreateNamespace=true"],
                    },
                },
            },
        })
    }

    fn strategy(&self) -> Value {
        let steps = |steps: &[Step]| -> Value {
            let step = |step: &Step| {
                let letters: Vec<String> = step.letters.iter().map(char::to_string).collect();
                let mut value =
                    json!({"matchExpressions": [{"key": "letter", "operator": "In", "values": letters}]});
                if let Some(max) = step.max {
                    value["maxUpdate"] = max.value();
                }
                value
            };
            json!({"steps": steps.iter().map(step).collect::<Vec<_>>()})
        };
        let rolls = !self.steps.is_empty();
        let (order, deletion) = match &self.order {
            Order::AllAtOnce => (Value::Null, Value::Null),
            Order::Reverse => (json!("Reverse"), Value::Null),
            Order::Custom(deletion) => (json!("Custom"), steps(deletion)),
        };
        json!({
            "type": if rolls { "RollingSync" } else { "AllAtOnce" },
            "rollingSync": if rolls { steps(&self.steps) } else { Value::Null },
            "deletionOrder": order,
            "deletionSync": deletion,
        })
    }

    /// Whether the order of its deletion is none: there is no roll-out to reverse.
    pub(super) fn is_misordered(&self) -> bool {
        self.order == Order::Reverse && self.steps.is_empty()
    }

    /// Whether somebody is asked who may be mistaken for a moment.
    pub(super) fn asks_plugin(&self) -> bool {
        matches!(self.generator, Generator::Plugin | Generator::Both(_))
    }

    /// In which step of a deletion an Application of a letter is, the first first, and how many of it may go at once. `None` when all
    /// go together; who is in no step goes last, with all others.
    pub(super) fn turn(&self, letter: char) -> Option<(usize, Max)> {
        let holds = |step: &Step| step.letters.contains(&letter);
        let (steps, turn, max) = match &self.order {
            _ if self.is_misordered() => return None,
            Order::AllAtOnce => return None,
            Order::Reverse => {
                let first = self.steps.iter().position(holds);
                (self.steps.len(), first.map(|first| self.steps.len() - first - 1), None)
            }
            Order::Custom(steps) => {
                let first = steps.iter().position(holds);
                let max = first.and_then(|first| steps.get(first)?.max);
                (steps.len(), first, max)
            }
        };
        Some(turn.map_or((steps, Max::Percent(100)), |turn| (turn, max.unwrap_or(Max::Count(1)))))
    }

    /// The object.
    pub(super) fn manifest(&self) -> Value {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": NAME, "namespace": CONTROL_PLANE},
            "spec": without_nulls(self.value()),
        })
    }
}

/// What a merge patch leaves of nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, member)| !member.is_null());
            Value::Object(members.map(|(name, member)| (name, without_nulls(member))).collect())
        }
        other => other,
    }
}

/// What the generators would be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outside {
    /// Directories and files of the repository; `None` while it does not answer.
    pub(super) directories: Option<BTreeSet<String>>,
    pub(super) files: Option<BTreeSet<String>>,
    pub(super) clusters: BTreeSet<String>,
    /// `None` while the plugin fails.
    pub(super) plugin: Option<BTreeSet<String>>,
}

/// What a set means: names of Applications, each with whether it stands there twice. `None`: nobody knows.
pub(super) type Meaning = Option<BTreeMap<String, bool>>;

/// A state of the set, and of what it asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) spec: Spec,
    pub(super) outside: Outside,
}

impl State {
    pub(super) fn meaning(&self) -> Meaning {
        meaning(&self.spec, &self.outside)
    }
}

fn meaning(spec: &Spec, outside: &Outside) -> Meaning {
    let elements: Vec<String> = match &spec.generator {
        Generator::List(names) => names.clone(),
        Generator::Directories => outside.directories.iter().flatten().cloned().collect(),
        Generator::Files => outside.files.iter().flatten().cloned().collect(),
        Generator::Clusters => outside.clusters.iter().cloned().collect(),
        Generator::Plugin => outside.plugin.iter().flatten().cloned().collect(),
        Generator::Both(names) => names.iter().chain(outside.plugin.iter().flatten()).cloned().collect(),
        Generator::Matrix(rows) => {
            let directories: Vec<&String> = outside.directories.iter().flatten().collect();
            let of_row = |row: &String| {
                directories.iter().map(|element| format!("{row}-{element}")).collect::<Vec<_>>()
            };
            rows.iter().flat_map(of_row).collect()
        }
    };
    let answers = match spec.generator {
        Generator::List(_) | Generator::Clusters => true,
        // Without rows nobody asks for directories.
        Generator::Matrix(ref rows) if rows.is_empty() => true,
        Generator::Directories | Generator::Matrix(_) => outside.directories.is_some(),
        Generator::Files => outside.files.is_some(),
        Generator::Plugin | Generator::Both(_) => outside.plugin.is_some(),
    };
    let mut found = BTreeMap::new();
    for element in elements {
        found.entry(format!("{NAME}-{element}")).and_modify(|is_twice| *is_twice = true).or_insert(false);
    }
    // A template without parameters is never rendered.
    (answers && (!spec.is_broken || found.is_empty())).then_some(found)
}

/// What a set said, what that meant with answers of some time, and when these could be had.
#[derive(Clone, Debug)]
pub(super) struct Lately<'a> {
    pub(super) spec: &'a Spec,
    pub(super) meaning: Meaning,
    pub(super) begin: Duration,
    pub(super) end: Duration,
}

/// All states, each with the time from which it was in force. Empty in runs without a set.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    states: Vec<(Duration, State)>,
    /// Since when there is no set.
    pub(super) gone: Option<Duration>,
}

impl History {
    /// From now on this is so.
    pub(super) fn note(&mut self, at: Duration, state: State) {
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((at, state));
        }
    }

    pub(super) fn now(&self) -> Option<&State> {
        self.states.last().map(|(_, state)| state)
    }

    /// Everything that may be acted by: what was said at some time since, with what was answered at some time since.
    /// Answers are kept for a while, so the one may be newer than the other.
    pub(super) fn lately(&self, since: Duration, now: Duration) -> impl Iterator<Item = Lately<'_>> {
        let ends = self.states.iter().skip(1).map(|(at, _)| *at).chain([now]);
        let all: Vec<_> = self.states.iter().zip(ends).filter(move |((_, _), end)| *end >= since).collect();
        let mut specs: Vec<&Spec> = all.iter().map(|((_, state), _)| &state.spec).collect();
        specs.dedup();
        specs.into_iter().flat_map(move |spec| {
            let of = move |((begin, state), end): &(&(Duration, State), Duration)| Lately {
                spec,
                meaning: meaning(spec, &state.outside),
                begin: *begin,
                end: *end,
            };
            all.iter().map(of).collect::<Vec<_>>()
        })
    }
}

/// The letter of an Application's name.
pub(super) fn letter(name: &str) -> char {
    name.rsplit('-').next().and_then(|element| element.chars().next()).unwrap_or('?')
}

/// Whether an Application is one of the set's.
pub(super) fn is_of_set(app: &Value) -> bool {
    let owners = app.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_it = |owner: &Value| {
        owner.get("kind").is_some_and(|kind| kind == "ApplicationSet")
            && owner.get("name").is_some_and(|name| name == NAME)
            && owner.get("controller") == Some(&Value::Bool(true))
    };
    owners.into_iter().flatten().any(is_it)
}
