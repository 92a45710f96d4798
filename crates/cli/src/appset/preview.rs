//! `appset preview` (CLI-606): what a set would create, change and delete, decided as the controller decides it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::ApplicationSet;
use tiphys_appset::live::{LiveApplication, owner_reference};
use tiphys_appset::reconcile::Plan;
use tiphys_object::{ResourceKey, access, merge_patch};

use super::{NAMESPACE, create, generate, input, set_name};
use crate::app::{Ended, OK, Session, diff};
use crate::core::{Core, Difference, Outcome, World, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::remote;

/// Flags of `preview`.
pub(super) const FLAGS: &[Flag] = &[
    flag("against", Kind::Text, "cluster", "What exists: cluster, or a file with Applications"),
    flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o'),
    NAMESPACE,
];

/// An Application that exists, as decisions read it and as people see it.
pub(super) struct Live {
    application: LiveApplication,
    value: Value,
}

/// What decisions read, by name.
pub(super) fn applications_of(live: &BTreeMap<String, Live>) -> BTreeMap<String, LiveApplication> {
    live.iter().map(|(name, live)| (name.clone(), live.application.clone())).collect()
}

/// `appset preview`.
pub(super) async fn preview(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    if core.server().is_some() {
        return by_server(session, &core).await;
    }
    let world = Arc::new(World::load(&core).await?);
    let generator = core.generator(&world, session.terminal)?;
    let (set, _desired) = subject(session, &core).await?;
    create::check(&set, &world)?;
    let outcome = generator.generate(&set).await?;
    let live = match flags.text("against") {
        "cluster" | "" => stored_live(&core, &set, &outcome).await?,
        file => live_of(input::documents_of(&remote::read(file).await?, "Application")?, &set)?,
    };
    generate::warn(session, &outcome.warnings, Some(&outcome.validation));
    let plan = outcome.plan(&applications_of(&live), session.terminal.now())?;
    if let Some(problem) = plan.problem().filter(|_| outcome.validation.errors.is_empty()) {
        session.warn(problem);
    }
    show(session, &Changes::of(&plan, &live, &set)).await
}

/// The same, by way of a server, which knows what its projects forbid and what is stored.
async fn by_server(session: &Session<'_>, core: &Core) -> Result<Ended, Failure> {
    let (set, desired) = subject(session, core).await?;
    let asked = match session.flags.text("against") {
        "cluster" | "" => json!({"preview": "stored"}),
        file => {
            let documents = input::documents_of(&remote::read(file).await?, "Application")?;
            let live = live_of(documents, &set)?;
            let existing: Vec<String> = live.values().map(|live| live.value.to_string()).collect();
            json!({"preview": "given", "existing": existing})
        }
    };
    let told = core.by_server()?.generate_set(&desired, asked).await?;
    let preview = told.changes()?;
    generate::warn_told(session, &told);
    let problem = access::text(preview, "problem");
    if !problem.is_empty() && told.refusals.as_ref().is_none_or(Vec::is_empty) {
        session.warn(problem);
    }
    show(session, &Changes::told(preview, &set)?).await
}

/// Prints what would be done, with what differs.
async fn show(session: &Session<'_>, changes: &Changes) -> Result<Ended, Failure> {
    let output = session.flags.text("output");
    match machine_format(output) {
        Some(format) => session.terminal.data(&print(&changes.value(), format)?),
        None if matches!(output, "wide" | "") => {
            session.terminal.print(&changes.lines());
            for difference in &changes.changed {
                diff::show(session.terminal, difference).await?;
            }
        }
        None => return Err(unknown_format(output)),
    }
    Ok(OK)
}

/// The set that is meant: of a file where there is one, else of the installation. One that is stored keeps its identity,
/// so that its Applications are known. In types, and as it is sent.
async fn subject(session: &Session<'_>, core: &Core) -> Result<(ApplicationSet, Value), Failure> {
    let operand = session.operand(0);
    let is_file = operand == "-"
        || operand.starts_with("http://")
        || operand.starts_with("https://")
        || std::path::Path::new(operand).is_file();
    if !is_file {
        let stored = core.application_set(&set_name(session, operand, core)).await?;
        let desired = value_of(&stored.object)?;
        return Ok((stored.set, desired));
    }
    let mut documents = input::sets_of(&remote::read(operand).await?)?;
    let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
        return Err(Failure::fatal("Input file must contain one ApplicationSet"));
    };
    let mut desired = input::whole(document);
    let given = session.flags.text("appset-namespace");
    input::put_namespace(&mut desired, if given.is_empty() { &core.namespace } else { given });
    let mut set = input::read(&desired)?;
    let name = set_name(session, &format!("{}/{}", set.metadata.namespace, set.metadata.name), core);
    if let Some(stored) = core.find_set(&name).await? {
        set.metadata.uid = stored.set.metadata.uid;
        set.status = stored.set.status;
    }
    Ok((set, desired))
}

/// The Applications that a set has, and those that have a generated name.
///
/// # Errors
/// When it is not known of one what it is: it might be the set's.
pub(super) async fn stored_live(
    core: &Core,
    set: &ApplicationSet,
    outcome: &Outcome,
) -> Result<BTreeMap<String, Live>, Failure> {
    let names: BTreeSet<&str> =
        outcome.applications.iter().map(|application| application.metadata.name.as_str()).collect();
    let stored = core.applications(&set.metadata.namespace, "").await?;
    if let Some(bad) = core.left_out().into_iter().next() {
        return Err(Failure::generic(bad));
    }
    let mut live = BTreeMap::new();
    for stored in stored {
        let one = Live::of(value_of(&stored.object)?)?;
        let name = one.application.name.clone();
        if one.application.is_of(set) || names.contains(name.as_str()) {
            live.insert(name, one);
        }
    }
    Ok(live)
}

/// The Applications of files; those that belong to nobody count as the set's.
pub(super) fn live_of(
    documents: Vec<Value>,
    set: &ApplicationSet,
) -> Result<BTreeMap<String, Live>, Failure> {
    let mut live = BTreeMap::new();
    for document in documents {
        let mut document = document;
        let metadata = access::metadata_mut(&mut document);
        metadata.insert("namespace".to_owned(), set.metadata.namespace.as_str().into());
        metadata
            .entry("ownerReferences")
            .or_insert_with(|| json!([owner_reference(&set.metadata.name, &set.metadata.uid)]));
        let one = Live::of(document)?;
        live.insert(one.application.name.clone(), one);
    }
    Ok(live)
}

impl Live {
    fn of(value: Value) -> Result<Self, Failure> {
        let application = LiveApplication::from_value(value.clone()).map_err(|error| {
            Failure::generic(format!("Application {} cannot be read: {error}", access::name(&value)))
        })?;
        Ok(Self { application, value })
    }
}

/// What would be done.
pub(super) struct Changes {
    namespace: String,
    added: Vec<String>,
    changed: Vec<Difference>,
    /// Applications that become others, of which nothing is shown, and why.
    hidden: Vec<(String, String)>,
    removed: Vec<String>,
    /// Applications that the set must not write, and why.
    refused: Vec<(String, String)>,
    unchanged: usize,
}

impl Changes {
    pub(super) fn of(plan: &Plan, live: &BTreeMap<String, Live>, set: &ApplicationSet) -> Self {
        let planned = tiphys_appset::preview::Changes::of(plan, live.len());
        let namespace = &set.metadata.namespace;
        let difference = |(name, patch): (String, Value)| {
            let live = &live.get(&name)?.value;
            Some(difference(namespace, &name, live.clone(), merge_patch::apply(live.clone(), &patch)))
        };
        Self {
            namespace: namespace.clone(),
            added: planned.added,
            changed: planned.changed.into_iter().filter_map(difference).collect(),
            hidden: Vec::new(),
            removed: planned.removed,
            refused: planned.refused,
            unchanged: planned.unchanged,
        }
    }

    /// What a server says would be done.
    fn told(preview: &Value, set: &ApplicationSet) -> Result<Self, Failure> {
        let namespace = &set.metadata.namespace;
        let mut changes = Self {
            namespace: namespace.clone(),
            added: Vec::new(),
            changed: Vec::new(),
            hidden: Vec::new(),
            removed: Vec::new(),
            refused: Vec::new(),
            unchanged: count(preview.get("unchanged")),
        };
        let read = |text: &str| {
            serde_json::from_str::<Value>(text).map_err(|error| {
                Failure::status("Internal", format!("the server sent no Application: {error}"))
            })
        };
        for change in preview.get("changes").and_then(Value::as_array).into_iter().flatten() {
            let member = |name: &str| access::text(change, name);
            let (name, message) = (member("name").to_owned(), member("message").to_owned());
            match member("action") {
                "add" => changes.added.push(name),
                "remove" => changes.removed.push(name),
                "refuse" => changes.refused.push((name, message)),
                _ if member("target").is_empty() => changes.hidden.push((name, message)),
                _ => {
                    let (live, target) = (read(member("live"))?, read(member("target"))?);
                    changes.changed.push(difference(namespace, &name, live, target));
                }
            }
        }
        Ok(changes)
    }

    pub(super) fn value(&self) -> Value {
        let changed = self.changed.iter().map(|difference| {
            json!({"name": difference.key.name.as_str(), "live": difference.live, "target": difference.target})
        });
        let hidden = self.hidden.iter().map(|(name, why)| json!({"name": name, "message": why}));
        let refused = self.refused.iter().map(|(name, why)| json!({"name": name, "message": why}));
        json!({
            "added": self.added,
            "changed": changed.chain(hidden).collect::<Vec<_>>(),
            "removed": self.removed,
            "refused": refused.collect::<Vec<_>>(),
            "unchanged": self.unchanged,
        })
    }

    pub(super) fn lines(&self) -> String {
        let namespace = &self.namespace;
        let mut out = String::new();
        let mut put = |mark: char, name: &str, why: &str| {
            let line = format!("{mark} {namespace}/{name}{why}");
            out.push_str(&tiphys_api::printable::line(&line));
            out.push('\n');
        };
        self.added.iter().for_each(|name| put('+', name, ""));
        self.changed.iter().for_each(|difference| put('~', &difference.key.name, ""));
        self.hidden.iter().for_each(|(name, why)| put('~', name, &format!(": {why}")));
        self.removed.iter().for_each(|name| put('-', name, ""));
        self.refused.iter().for_each(|(name, why)| put('!', name, &format!(": {why}")));
        let counts = format!(
            "{} added, {} changed, {} removed, {} unchanged\n",
            self.added.len(),
            self.changed.len() + self.hidden.len(),
            self.removed.len(),
            self.unchanged
        );
        out + &counts
    }
}

/// A number of an answer; large ones may be text in JSON.
fn count(value: Option<&Value>) -> usize {
    let number = value.and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// What becomes of an Application.
fn difference(namespace: &str, name: &str, live: Value, target: Value) -> Difference {
    let key = ResourceKey::new(tiphys_api::names::GROUP, "Application", namespace, name);
    Difference { key, live: declared(live), target: declared(target) }
}

/// What people declare of an Application, without what servers and controllers write.
fn declared(mut value: Value) -> Value {
    let members = access::ensure_object(&mut value);
    members.remove("status");
    let metadata = access::metadata_mut(&mut value);
    for member in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"] {
        metadata.remove(member);
    }
    value
}
