//! `admin import`: an installation as a backup says (CLI-902).
//!
//! What is there is read first, as a whole; a list that cannot be read ends the command before anything is changed
//! (INV-1, INV-8). Pruning takes objects of the installation away, never what they deployed: an Application goes without
//! its finalizers, an `ApplicationSet` leaves its Applications behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tiphys_api::names::{GPG_KEYS_CONFIG_MAP, annotation};
use tiphys_cluster::{ApiError, DeleteOptions, Deleted, Propagation, Target, Writer};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::{Gvk, Object, ResourceKey, access};
use tiphys_policy::permit::Permit;

use super::backup::{NAMESPACES, Part, Places};
use crate::command::Command;
use crate::core::{Core, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::session::{self, Ended, OK, Session};
use crate::terminal::{Terminal, read_input_within};

/// Bytes of a backup: ten thousand applications with their history.
const BACKUP_BYTES_MAX: u64 = 1 << 30;
/// Attempts at an object that others are changing.
const ATTEMPTS_MAX: u32 = 5;

const FLAGS: &[Flag] = &[
    flag("dry-run", Kind::Bool, "false", "Print what would be done"),
    flag(
        "prune",
        Kind::Bool,
        "false",
        "Remove Secrets, applications, sets and projects that the backup does not have",
    ),
    flag(
        "ignore-tracking",
        Kind::Bool,
        "false",
        "Leave the marks of objects that an application deploys as they are",
    ),
    flag(
        "override-on-conflict",
        Kind::Bool,
        "false",
        "Change an object again that somebody else has just changed",
    ),
    flag("verbose", Kind::Bool, "false", "Also tell of objects that are the same"),
    flag("stop-operation", Kind::Bool, "false", "Take operations of applications away"),
    flag(
        "skip-resources-with-label",
        Kind::Texts,
        "",
        "Leave objects with this label KEY=VALUE out, in the backup and in the cluster",
    ),
];

/// The command.
pub(super) const COMMAND: Command<()> = Command::new(
    (),
    ("import", "SOURCE"),
    "Make an installation what a backup says; - is standard input",
    &[FLAGS, NAMESPACES],
    (1, 1),
);

/// Runs the command and says the exit code.
pub(super) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("admin", &COMMAND), async |session, ()| {
        Box::pin(import(session)).await
    })
}

/// An object of a backup.
struct Wanted {
    part: Part,
    key: ResourceKey,
    value: Value,
}

impl Wanted {
    fn words(&self) -> String {
        words(&self.key)
    }
}

/// An object as the lines name it: `group/kind name`.
fn words(key: &ResourceKey) -> String {
    format!("{}/{} {}", key.group, key.kind, key.name)
}

async fn import(session: &Session<'_>) -> Result<Ended, Failure> {
    let (flags, terminal) = (session.flags, session.terminal);
    let skipped = labels(flags.texts("skip-resources-with-label"))?;
    let core = session.connect_to_cluster().await?;
    terminal.line(&format!("import process started {}", core.namespace));
    let started = terminal.now();
    let text = read_input_within(session.operand(0), BACKUP_BYTES_MAX).await?;
    let places = Places::of(&core, flags).await?;
    let wanted = documents(&text, session.operand(0), &places.namespace)?;
    drop(text);
    if wanted.is_empty() && flags.is_on("prune") {
        return Err(Failure::generic("the backup has no objects, and --prune would remove everything")
            .hint("see whether it was written to the end"));
    }
    let mut work = Import { session, core: &core, places, skipped, live: BTreeMap::new(), refused: 0 };
    for (part, object) in work.places.objects(&core).await? {
        let key = ResourceKey::new(&part.gvk().group, &part.gvk().kind, object.namespace(), object.name());
        work.live.insert(key, object);
    }
    let rest = work.rest(&wanted);
    // It would be found after everything else was done.
    if flags.is_on("prune")
        && let Some(key) = rest.iter().find(|key| key.kind == "ConfigMap")
    {
        let kind = &key.kind;
        return Err(Failure::fatal(format!("Unexpected kind '{kind}' in prune list"))
            .hint(format!("the backup has no ConfigMap {}, and it is never removed", key.name)));
    }
    for object in wanted {
        work.take(object).await?;
    }
    for key in rest {
        work.prune(&key).await?;
    }
    if work.refused > 0 {
        let text =
            format!("{} objects could not be changed, as said above; the others are done", work.refused);
        return Err(Failure::generic(text));
    }
    let took = terminal.now().duration_since(started);
    terminal.line(&format!(
        "Import process completed successfully in namespace {} at {}, duration: {}",
        core.namespace,
        terminal.rfc_3339(terminal.now().as_second()),
        tiphys_go::duration::format(took)
    ));
    Ok(OK)
}

/// Labels as flags give them.
fn labels(given: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let label = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::generic(format!(
            "--skip-resources-with-label: {text:?} is not of the form KEY=VALUE"
        ))),
    };
    given.iter().map(label).collect()
}

/// The objects of a backup, or why it is none: that is known before anything is changed.
fn documents(text: &str, path: &str, namespace: &str) -> Result<Vec<Wanted>, Failure> {
    let bad = |why: String| Failure::generic(format!("{path}: {why}"));
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let found = yaml::parse_documents(text, Dialect::Sigs, &Limits::default());
    for mut value in found.map_err(|error| bad(error.to_string()))? {
        let gvk = Gvk::of(&value);
        let name = access::name(&value).to_owned();
        if gvk.kind.is_empty() || name.is_empty() {
            return Err(bad("a document has no kind or no metadata.name; is it a backup?".to_owned()));
        }
        let Some(part) = Part::of(&gvk) else {
            let (kind, version) = (&gvk.kind, gvk.api_version());
            return Err(bad(format!(
                "{kind} {name:?} ({version}) does not belong into a backup: it has ConfigMaps, Secrets, AppProjects, \
                 Applications and ApplicationSets only"
            )));
        };
        let own = access::namespace(&value).to_owned();
        let own = if own.is_empty() { namespace.to_owned() } else { own };
        let may_be_elsewhere = matches!(part, Part::Application | Part::ApplicationSet);
        if own != namespace && !may_be_elsewhere {
            return Err(bad(format!(
                "{} {name:?} is in namespace {own:?}, and the installation in {namespace:?}",
                gvk.kind
            )));
        }
        access::metadata_mut(&mut value).insert("namespace".to_owned(), own.as_str().into());
        if part == Part::Secret {
            encode_texts(&mut value);
        }
        let key = ResourceKey::new(&gvk.group, &gvk.kind, &own, &name);
        if !seen.insert(key.clone()) {
            return Err(bad(format!("{} {name:?} is in the backup twice", gvk.kind)));
        }
        wanted.push(Wanted { part, key, value });
    }
    Ok(wanted)
}

/// Makes `stringData`, which people write and no server tells, the `data` that it stands for: it is compared and restored
/// as such.
fn encode_texts(secret: &mut Value) {
    let own = access::ensure_object(secret);
    // What is no map of texts is left for the API server to refuse.
    if !own.get("stringData").and_then(Value::as_object).is_some_and(|map| map.values().all(Value::is_string))
    {
        return;
    }
    let Some(Value::Object(texts)) = own.remove("stringData") else { return };
    let Some(data) = own.entry("data").or_insert_with(|| json!({})).as_object_mut() else { return };
    data.extend(texts.into_iter().map(|(key, text)| {
        let text = text.as_str().unwrap_or_default();
        (key, STANDARD.encode(text).into())
    }));
}

struct Import<'a> {
    session: &'a Session<'a>,
    core: &'a Core,
    places: Places,
    skipped: Vec<(String, String)>,
    /// What is there.
    live: BTreeMap<ResourceKey, Arc<Object>>,
    /// Objects that may not be changed.
    refused: usize,
}

impl Import<'_> {
    fn flags(&self) -> &Parsed {
        self.session.flags
    }

    fn line(&self, text: &str) {
        self.session.terminal.line(text);
    }

    fn is_dry(&self) -> bool {
        self.flags().is_on("dry-run")
    }

    fn dry(&self) -> &'static str {
        if self.is_dry() { " (dry run)" } else { "" }
    }

    fn skips<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.skipped.iter().any(|(key, value)| label(key) == Some(value))
    }

    /// What is there and not in the backup, in the order in which it is to go: who makes objects before what they made.
    fn rest(&self, wanted: &[Wanted]) -> Vec<ResourceKey> {
        let named: std::collections::BTreeSet<&ResourceKey> =
            wanted.iter().map(|object| &object.key).collect();
        let mut rest: Vec<ResourceKey> = self
            .live
            .iter()
            .filter(|(key, _)| !named.contains(key))
            // Backups of others do not have it.
            .filter(|(key, _)| !(key.kind == "ConfigMap" && key.name == GPG_KEYS_CONFIG_MAP))
            .filter(|(_, object)| !self.skips(|key| object.label(key)))
            .map(|(key, _)| key.clone())
            .collect();
        rest.sort_by_key(|key| match key.kind.as_str() {
            "ApplicationSet" => 0,
            "Application" => 1,
            "AppProject" => 2,
            _ => 3,
        });
        rest
    }

    /// Makes one object what the backup says.
    async fn take(&mut self, mut wanted: Wanted) -> Result<(), Failure> {
        let namespace = wanted.key.namespace.clone();
        if self.skips(|key| access::label(&wanted.value, key)) {
            self.line(&format!("Skipping {} in namespace {namespace}", wanted.words()));
            return Ok(());
        }
        if !self.places.count(wanted.part, &namespace) {
            self.session.warn(&format!(
                "{} is left out: applications of namespace {namespace} are not counted here",
                wanted.words()
            ));
            return Ok(());
        }
        let stops = wanted.part == Part::Application && self.flags().is_on("stop-operation");
        if stops {
            access::ensure_object(&mut wanted.value).remove("operation");
        }
        let target = Target::of(&wanted.value);
        let live = match self.live.remove(&wanted.key) {
            Some(live) => Some(live),
            // One that nothing marks as a part of the installation, yet.
            None if matches!(wanted.part, Part::ConfigMap | Part::Secret) => self.core.get(&target).await?,
            None => None,
        };
        let done = match live {
            None => self.create(&wanted).await,
            Some(live) => {
                if self.flags().is_on("ignore-tracking") {
                    self.keep_marks(&mut wanted.value, &live);
                }
                let value = value_of(&live)?;
                if is_same(wanted.part, &wanted.value, &value)
                    && !(stops && value.get("operation").is_some_and(|operation| !operation.is_null()))
                {
                    if self.flags().is_on("verbose") {
                        self.line(&format!("{} unchanged{}", wanted.words(), self.dry()));
                    }
                    return Ok(());
                }
                self.update(&wanted, value, stops).await
            }
        };
        self.settle(&wanted.key, done)
    }

    /// Goes on with the next object where one may not be changed.
    fn settle(&mut self, key: &ResourceKey, done: Result<(), Refused>) -> Result<(), Failure> {
        match done {
            Ok(()) => Ok(()),
            Err(Refused::Api(error)) if error.is_not_found() || error.code() == 403 => {
                self.session.warn(&format!("{}: {error}", words(key)));
                self.refused += 1;
                Ok(())
            }
            Err(Refused::Api(error)) => {
                let failure = Failure::from(error);
                Err(Failure { message: format!("{}: {}", words(key), failure.message), ..failure })
            }
            Err(Refused::Failure(failure)) => Err(failure),
        }
    }

    async fn create(&self, wanted: &Wanted) -> Result<(), Refused> {
        if !self.is_dry() {
            let writer = self.core.writer()?;
            let permit = Permit::operator(wanted.key.clone());
            let stored = writer.create(&permit, &wanted.value).await?;
            restore_status(writer, &permit, wanted, &stored).await?;
        }
        let (words, namespace) = (wanted.words(), &wanted.key.namespace);
        self.line(&format!("{words} in namespace {namespace} created{}", self.dry()));
        Ok(())
    }

    async fn update(&self, wanted: &Wanted, mut live: Value, stops: bool) -> Result<(), Refused> {
        let (words, namespace) = (wanted.words(), &wanted.key.namespace);
        if !self.is_dry() {
            let writer = self.core.writer()?;
            let permit = Permit::operator(wanted.key.clone());
            let mut attempt = 1;
            let stored = loop {
                overwrite(wanted.part, &mut live, &wanted.value, stops);
                match writer.update(&permit, &live).await {
                    Err(error) if error.is_conflict() => {
                        self.line(&format!("failed to update {words} in namespace {namespace}: {error}"));
                        if !self.flags().is_on("override-on-conflict") || attempt >= ATTEMPTS_MAX {
                            return Err(error.into());
                        }
                        attempt += 1;
                        let ResourceKey { group, kind, name, .. } = &wanted.key;
                        self.line(&format!(
                            "resource conflict: retry update for Group: {group}, Kind: {kind}, Name: {name}, \
                             Namespace: {namespace}"
                        ));
                        let target = Target::of(&wanted.value);
                        let now = self.core.get(&target).await?;
                        live = value_of(&*now.ok_or(Refused::Api(error))?)?;
                    }
                    stored => break stored?,
                }
            };
            restore_status(writer, &permit, wanted, &stored).await?;
        }
        self.line(&format!("{words} in namespace {namespace} updated{}", self.dry()));
        Ok(())
    }

    /// Whoever deploys the object now goes on to do so.
    fn keep_marks(&self, wanted: &mut Value, live: &Object) {
        let tracking = &self.places.tracking;
        for key in [annotation::TRACKING_ID, tracking.annotation_key.as_str()] {
            if let Some(mark) = live.annotation(key) {
                access::set_annotation(wanted, key, mark);
            }
        }
        if let Some(mark) = live.label(&tracking.label_key) {
            access::set_label(wanted, &tracking.label_key, mark);
        }
    }

    /// Removes what the backup does not have, or says that it should go.
    async fn prune(&mut self, key: &ResourceKey) -> Result<(), Failure> {
        let words = words(key);
        if !self.flags().is_on("prune") {
            self.line(&format!("{words} needs pruning"));
            return Ok(());
        }
        let Some(live) = self.live.remove(key) else { return Ok(()) };
        if !self.is_dry() {
            let question = format!("Are you sure you want to prune {words} ? [y/n]");
            if !self.session.confirms(&question).await {
                self.line(&format!("The command to prune {words} was cancelled."));
                return Ok(());
            }
            match remove(self.core.writer()?, key, &live).await {
                Ok(Deleted::Accepted) => {}
                Ok(Deleted::Absent) => {
                    self.session.warn(&format!("{words}: it is gone, or another one by now"));
                    return Ok(());
                }
                refused => return self.settle(key, refused.map(drop)),
            }
        }
        self.line(&format!("{words} pruned{}", self.dry()));
        Ok(())
    }
}

/// Why one object is not changed.
enum Refused {
    Api(ApiError),
    Failure(Failure),
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Removes an object as it was seen, without anything that it deployed.
async fn remove(writer: &Writer, key: &ResourceKey, live: &Object) -> Result<Deleted, Refused> {
    let permit = Permit::operator(key.clone());
    let part = [Part::Secret, Part::Project, Part::Application, Part::ApplicationSet]
        .into_iter()
        .find(|part| part.gvk().kind == key.kind)
        .ok_or_else(|| Failure::fatal(format!("Unexpected kind '{}' in prune list", key.kind)))?;
    let target = Target::new(part.gvk(), &key.namespace, &key.name);
    let metadata = live.metadata();
    let mut version = metadata.resource_version.clone();
    let deploys = matches!(part, Part::Application | Part::ApplicationSet);
    if deploys && !metadata.finalizers.is_empty() {
        // Somebody who has changed it meanwhile is a conflict.
        let patch =
            json!({"metadata": {"finalizers": null, "resourceVersion": version, "uid": metadata.uid}});
        match writer.merge_patch(&permit, &target, None, &patch).await {
            Ok(now) => version = now.metadata().resource_version.clone(),
            Err(error) if error.is_not_found() => return Ok(Deleted::Absent),
            Err(error) => return Err(error.into()),
        }
    }
    let options = DeleteOptions {
        // The cluster would remove what an ApplicationSet has made with it.
        propagation: if part == Part::ApplicationSet { Propagation::Orphan } else { Propagation::Background },
        uid: Some(metadata.uid.clone()),
        version: deploys.then_some(version),
        ..DeleteOptions::default()
    };
    Ok(writer.delete(&permit, &target, &options).await?)
}

/// Members of an object that a backup restores.
fn members(part: Part) -> &'static [&'static str] {
    match part {
        Part::ConfigMap => &["data", "binaryData"],
        Part::Secret => &["data"],
        Part::Project | Part::Application | Part::ApplicationSet => &["spec"],
    }
}

fn has_status(part: Part) -> bool {
    matches!(part, Part::Project | Part::Application | Part::ApplicationSet)
}

/// Whether nothing would be changed. A backup that says nothing of the status leaves it.
fn is_same(part: Part, wanted: &Value, live: &Value) -> bool {
    let own = ["annotations", "labels", "finalizers"];
    own.iter().all(|member| {
        let path = ["metadata", member];
        filled(access::at(wanted, &path)) == filled(access::at(live, &path))
    }) && members(part).iter().all(|member| filled(wanted.get(*member)) == filled(live.get(*member)))
        && (!has_status(part)
            || wanted.get("status").is_none_or(|status| settled(status) == settled(&live["status"])))
}

/// A member; one that is empty counts as none.
fn filled(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| match value {
        Value::Null => false,
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    })
}

/// A status without the times that change all the time.
fn settled(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(members) = status.as_object_mut() {
        members.remove("reconciledAt");
        members.remove("observedAt");
    }
    if filled(Some(&status)).is_none() { Value::Null } else { status }
}

/// Makes the object that is there the wanted one.
fn overwrite(part: Part, live: &mut Value, wanted: &Value, stops: bool) {
    let put = |into: &mut serde_json::Map<String, Value>, member: &str, value: Option<&Value>| match value {
        Some(value) => drop(into.insert(member.to_owned(), value.clone())),
        None => drop(into.remove(member)),
    };
    let metadata = access::metadata_mut(live);
    for member in ["annotations", "labels", "finalizers"] {
        put(metadata, member, access::at(wanted, &["metadata", member]));
    }
    let own = access::ensure_object(live);
    for member in members(part) {
        put(own, member, wanted.get(*member));
    }
    if has_status(part) && wanted.get("status").is_some() {
        put(own, "status", wanted.get("status"));
    }
    if stops {
        own.remove("operation");
    }
}

/// Writes the status where a write of the object itself leaves it out.
async fn restore_status(
    writer: &Writer,
    permit: &Permit,
    wanted: &Wanted,
    stored: &Object,
) -> Result<(), Refused> {
    let Some(status) = wanted.value.get("status").filter(|_| has_status(wanted.part)) else { return Ok(()) };
    let kept = value_of(stored)?;
    if filled(kept.get("status")) == filled(Some(status)) {
        return Ok(());
    }
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    writer.json_patch(permit, &Target::of(&wanted.value), Some("status"), &patch).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        documents(text, "FILE", "argocd")
            .map(|found| found.iter().map(|one| format!("{} {}", one.words(), one.key.namespace)).collect())
            .map_err(|failure| failure.message)
    }

    #[test]
    fn cli_902_a_file_that_is_no_backup_is_refused_as_a_whole() {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
        let app =
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a, namespace: team}\n";
        assert_eq!(
            read(&format!("{secret}---\n{app}---\n")).unwrap(),
            ["/Secret s argocd", "argoproj.io/Application a team"]
        );
        let pod = format!("{secret}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n");
        assert!(read(&pod).unwrap_err().contains("FILE: Pod \"p\" (v1) does not belong into a backup"));
        assert!(
            read(&format!("{secret}---\n{secret}")).unwrap_err().contains("\"s\" is in the backup twice")
        );
        assert!(read("a: b\n").unwrap_err().contains("no kind or no metadata.name"));
        let other = secret.replace("name: s", "name: s, namespace: kube-system");
        assert!(read(&other).unwrap_err().contains("is in namespace \"kube-system\""));
        assert!(read("kind: [").unwrap_err().starts_with("FILE: yaml: line"));
    }

    #[test]
    fn cli_902_what_decides_whether_an_object_is_the_same() {
        let app = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"project": "p"},
            "status": {"sync": {"status": "Synced"}, "reconciledAt": "1"}});
        let same = |change: &dyn Fn(&mut Value)| {
            let mut live = app.clone();
            change(&mut live);
            is_same(Part::Application, &app, &live)
        };
        assert!(same(&|live| live["status"]["reconciledAt"] = "2".into()));
        assert!(same(&|live| live["metadata"]["annotations"] = json!({})));
        assert!(!same(&|live| live["metadata"]["labels"]["x"] = "2".into()));
        assert!(!same(&|live| live["metadata"]["finalizers"] = json!(["f"])));
        assert!(!same(&|live| live["spec"]["project"] = "q".into()));
        assert!(!same(&|live| live["status"]["sync"]["status"] = "OutOfSync".into()));
        let mut without = app.clone();
        access::ensure_object(&mut without).remove("status");
        assert!(is_same(Part::Application, &without, &app), "the status is left");
    }

    #[test]
    fn cli_902_texts_of_secrets_are_restored_as_data() {
        let secret =
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: eA==}\nstringData: {b: \"y\"}\n";
        let read = documents(secret, "FILE", "argocd").map_err(|failure| failure.message).unwrap();
        assert_eq!(read[0].value["data"], json!({"a": "eA==", "b": "eQ=="}));
        assert!(read[0].value.get("stringData").is_none());
    }

    #[test]
    fn cli_902_labels_that_are_left_out_are_pairs() {
        assert_eq!(labels(&["a/b=c=d".to_owned()]).unwrap(), [("a/b".to_owned(), "c=d".to_owned())]);
        assert_eq!(labels(&["a".to_owned()]).unwrap_err().code, 20);
    }
}
