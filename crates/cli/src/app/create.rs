//! `app create` and `app set` (CLI-400..404, CLI-415, CLI-420).

use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::application::ApplicationSpec;
use tiphys_api::names::{GROUP, VERSION, annotation, finalizer};
use tiphys_engine::tracking::TrackingMethod;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::access;

use crate::app::spec_flags::{FLAGS as SPEC_FLAGS, WITHOUT_EFFECT};
use crate::app::{Ended, NAMESPACE, OK, Session, show, spec_edit};
use crate::core::{AppName, Core, Remote, Stored, World, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::remote;
use crate::server::is_denied;
use crate::terminal::read_input;

/// Flags of `create` beside those of the spec.
pub(crate) const FLAGS: &[Flag] = &[
    flag("name", Kind::Text, "", "Name of the application; deprecated, use the operand"),
    flag("file", Kind::Text, "", "File or URL with applications, - for standard input").or('f'),
    flag("label", Kind::Texts, "", "Label key=value").or('l'),
    flag("annotations", Kind::Texts, "", "Annotation key=value"),
    flag("set-finalizer", Kind::Bool, "false", "Delete the resources with the application"),
    TRACKING_METHOD,
    NAMESPACE,
];

/// The flag of `create` alone.
pub(super) const UPSERT: &[Flag] =
    &[flag("upsert", Kind::Bool, "false", "Change an application that exists")];

/// How the application's resources are marked (TRK-113).
const TRACKING_METHOD: Flag = flag(
    "tracking-method",
    Kind::Text,
    "",
    "Tracking method of the application alone; empty for the system's",
);

/// Flags of `set` beside those of the spec.
pub(super) const SET_FLAGS: &[Flag] =
    &[flag("source-position", Kind::Int, "-1", "Position of the source, from 1"), TRACKING_METHOD, NAMESPACE];

/// `app create`.
pub(super) async fn create(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let file = flags.text("file");
    let text = if file.is_empty() { None } else { Some(remote::read(file).await?) };
    let literal = values_literal(session).await?;
    let (apps, notes) = match build(flags, text.as_deref(), literal) {
        Ok(Some(built)) => built,
        Ok(None) => return Ok(Ended::Help),
        Err(failure) => return Err(failure),
    };
    for note in notes {
        session.terminal.log(session.style, "error", &note);
    }
    let core = session.connect().await?;
    let world = World::load(&core).await?;
    for mut app in apps {
        let metadata = access::metadata_mut(&mut app);
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            metadata.insert("namespace".to_owned(), core.namespace.as_str().into());
        }
        let put = put(&core, &world, &app, flags);
        let verb = Box::pin(put).await?;
        session.terminal.line(&format!("application '{}' {verb}", access::name(&app)));
    }
    Ok(OK)
}

pub(crate) async fn values_literal(session: &Session<'_>) -> Result<Option<String>, Failure> {
    let path = session.flags.text("values-literal-file");
    if path.is_empty() { Ok(None) } else { read_input(path).await.map(Some) }
}

pub(crate) type Built = (Vec<Value>, Vec<String>);

/// The applications to create, and what is wrong with the flags; `None` when none is named (CLI-401).
pub(crate) fn build(
    flags: &Parsed,
    file: Option<&str>,
    literal: Option<String>,
) -> Result<Option<Built>, Failure> {
    let operand = flags.operands.first().map_or("", String::as_str);
    let named = flags.text("name");
    let Some(text) = file else {
        if !operand.is_empty() && !named.is_empty() && operand != named {
            return Err(Failure::generic(format!(
                "--name argument '{named}' does not match app name {operand}"
            )));
        }
        let name = if operand.is_empty() { named } else { operand };
        if name.is_empty() {
            return Ok(None);
        }
        let empty = json!({"metadata": {"name": name}, "spec": {"destination": {}, "project": ""}});
        let mut notes = Vec::new();
        let app = edited(empty, flags, literal, &mut notes)?;
        return Ok(Some((vec![app], notes)));
    };
    let documents = read_documents(text)?;
    let mut notes = Vec::new();
    let mut apps = Vec::with_capacity(documents.len());
    for document in documents {
        let own = access::name(&document).to_owned();
        if flags.text("file") == "-" {
            apps.push(whole(document)?);
            continue;
        }
        if !operand.is_empty() && operand != own {
            return Err(Failure::generic(format!(
                "app name '{operand}' does not match app spec metadata.name '{own}'"
            )));
        }
        if !named.is_empty() && named != own {
            return Err(Failure::generic(format!("--name argument '{named}' does not match app name {own}")));
        }
        if own.is_empty() {
            return Ok(None);
        }
        apps.push(edited(document, flags, literal.clone(), &mut notes)?);
    }
    Ok(Some((apps, notes)))
}

fn read_documents(text: &str) -> Result<Vec<Value>, Failure> {
    let documents = yaml::parse_documents(text, Dialect::Sigs, &Limits::default())
        .map_err(|error| Failure::generic(error.to_string()))?;
    if documents.is_empty() {
        return Err(Failure::generic("no applications found in the input"));
    }
    Ok(documents)
}

/// A document with the flags applied (CLI-401, CLI-402, CLI-404).
fn edited(
    mut app: Value,
    flags: &Parsed,
    literal: Option<String>,
    notes: &mut Vec<String>,
) -> Result<Value, Failure> {
    let mut spec = spec_of(&app)?;
    if spec.sources.is_empty() {
        notes.extend(spec_edit::apply(&mut spec, flags, "", literal)?.errors);
    }
    put_spec(&mut app, &spec)?;
    for label in flags.texts("label") {
        match label.split('=').collect::<Vec<_>>().as_slice() {
            [key, value] => access::set_label(&mut app, key, value),
            _ => {
                return Err(Failure::generic(format!(
                    "labels should have key=value, but instead got: {label}"
                )));
            }
        }
    }
    for annotation in flags.texts("annotations") {
        let (key, value) = annotation.split_once('=').unwrap_or((annotation, ""));
        access::set_annotation(&mut app, key, value);
    }
    put_method(&mut app, flags)?;
    let metadata = access::metadata_mut(&mut app);
    if flags.is_set("app-namespace") {
        metadata.insert("namespace".to_owned(), flags.text("app-namespace").into());
    }
    if flags.is_on("set-finalizer") {
        let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut() {
            finalizers.push(finalizer::CASCADE.into());
        }
    }
    whole(app)
}

/// Chooses the tracking method of the application, or the system's (TRK-113).
fn put_method(app: &mut Value, flags: &Parsed) -> Result<(), Failure> {
    let method = flags.text("tracking-method");
    if !flags.is_set("tracking-method") {
        return Ok(());
    }
    if method.is_empty() {
        access::remove_annotation(app, annotation::TRACKING_METHOD);
    } else if TrackingMethod::parse(method).is_some() {
        access::set_annotation(app, annotation::TRACKING_METHOD, method);
    } else {
        let known = TrackingMethod::ALL.map(TrackingMethod::as_str).join(", ");
        return Err(Failure::generic(format!("--tracking-method: {method:?} is none of {known}")));
    }
    Ok(())
}

fn spec_of(app: &Value) -> Result<ApplicationSpec, Failure> {
    let spec = app.get("spec").cloned().unwrap_or_else(|| json!({}));
    serde_json::from_value(spec).map_err(|error| Failure::generic(error.to_string()))
}

pub(super) fn put_spec(app: &mut Value, spec: &ApplicationSpec) -> Result<(), Failure> {
    let spec = serde_json::to_value(spec).map_err(|error| Failure::generic(error.to_string()))?;
    access::ensure_object(app).insert("spec".to_owned(), spec);
    Ok(())
}

/// The object as it is stored: with kind and project, without what only controllers write (API-125).
fn whole(mut app: Value) -> Result<Value, Failure> {
    let mut spec = spec_of(&app)?;
    if spec.project.is_empty() {
        tiphys_api::project::DEFAULT_PROJECT.clone_into(&mut spec.project);
    }
    put_spec(&mut app, &spec)?;
    let members = access::ensure_object(&mut app);
    members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
    members.insert("kind".to_owned(), "Application".into());
    members.remove("status");
    members.remove("operation");
    Ok(app)
}

/// What storing an application would do to the one that exists (CLI-403, API-125).
#[derive(Debug, PartialEq)]
enum Put {
    Unchanged,
    Update(Box<Value>),
}

fn decide(desired: &Value, existing: &Application, stored: &Value, upsert: bool) -> Result<Put, Failure> {
    let wanted: Application =
        serde_json::from_value(desired.clone()).map_err(|error| Failure::generic(error.to_string()))?;
    let (a, b) = (&wanted.metadata, &existing.metadata);
    let same = wanted.spec == existing.spec
        && a.labels == b.labels
        && a.annotations == b.annotations
        && a.finalizers == b.finalizers;
    if same {
        return Ok(Put::Unchanged);
    }
    if !upsert {
        return Err(Failure::status(
            "InvalidArgument",
            "existing application spec is different, use upsert flag to force update",
        ));
    }
    let mut updated = stored.clone();
    access::ensure_object(&mut updated)
        .insert("spec".to_owned(), desired.get("spec").cloned().unwrap_or_default());
    for (key, value) in &a.labels {
        access::set_label(&mut updated, key, value);
    }
    for (key, value) in &a.annotations {
        access::set_annotation(&mut updated, key, value);
    }
    access::metadata_mut(&mut updated).insert("finalizers".to_owned(), json!(a.finalizers));
    Ok(Put::Update(Box::new(updated)))
}

async fn put(core: &Core, world: &World, desired: &Value, flags: &Parsed) -> Result<&'static str, Failure> {
    let upsert = flags.is_on("upsert");
    let app: Application =
        serde_json::from_value(desired.clone()).map_err(|error| Failure::generic(error.to_string()))?;
    if flags.is_on("validate") {
        world.check(&app)?;
    } else {
        world.check_project(&app)?;
    }
    let name = AppName { namespace: app.metadata.namespace.clone(), name: app.metadata.name.clone() };
    if let Some(server) = core.server() {
        return put_by(server, core, (&name, desired), flags).await;
    }
    let Some(existing) = core.find(&name).await? else {
        return core.create(desired).await.map(|_| "created");
    };
    let value = value_of(&existing.object)?;
    if decide(desired, &existing.app, &value, upsert)? == Put::Unchanged {
        return Ok("unchanged");
    }
    let change = |stored: &Stored| match decide(desired, &stored.app, &value_of(&stored.object)?, upsert)? {
        Put::Unchanged => Ok(None),
        Put::Update(value) => Ok(Some(*value)),
    };
    core.change(&name, change).await.map(|_| "updated")
}

/// Has a server store an application; what became of it is seen by what there was before (CLI-403).
async fn put_by(
    server: &Remote,
    core: &Core,
    (name, desired): (&AppName, &Value),
    flags: &Parsed,
) -> Result<&'static str, Failure> {
    let existing = match core.find(name).await {
        // What is not there has this answer, too.
        Err(failure) if is_denied(&failure) => None,
        found => found?,
    };
    let (upsert, validate) = (flags.is_on("upsert"), flags.is_on("validate"));
    let stored = server.create(desired, upsert, validate).await?;
    match existing {
        None => Ok("created"),
        Some(before) => {
            let is_same = decide(desired, &before.app, &value_of(&before.object)?, true)? == Put::Unchanged
                || before.app.metadata.resource_version == stored.app.metadata.resource_version;
            Ok(if is_same { "unchanged" } else { "updated" })
        }
    }
}

/// `app set`.
pub(super) async fn set(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let first = core.application(&name).await?;
    let is_edit = |flag: &Flag| flags.is_set(flag.long) && !WITHOUT_EFFECT.contains(&flag.long);
    if !SPEC_FLAGS.iter().chain([&TRACKING_METHOD]).any(is_edit) {
        session.terminal.log(session.style, "error", "Please set at least one option to update");
        return Ok(Ended::Help);
    }
    let literal = values_literal(session).await?;
    for note in edit_one(&mut first.app.clone(), flags, literal.clone())? {
        session.terminal.log(session.style, "error", &note);
    }
    let world = if flags.is_on("validate") { Some(World::load(&core).await?) } else { None };
    let change = |stored: &Stored| {
        let mut app = stored.app.clone();
        edit_one(&mut app, flags, literal.clone())?;
        if let Some(world) = &world {
            world.check(&app)?;
        }
        let mut value = value_of(&stored.object)?;
        put_spec(&mut value, &app.spec)?;
        put_method(&mut value, flags)?;
        Ok(Some(value))
    };
    if let Some(server) = core.server() {
        if let Some(value) = change(&first)? {
            let validate = flags.is_on("validate");
            if flags.is_set("tracking-method") {
                server.update(&value, validate).await?;
            } else {
                let spec = value.get("spec").cloned().unwrap_or_default();
                server.update_spec(&name, &spec, validate).await?;
            }
        }
        return Ok(OK);
    }
    core.change(&name, change).await?;
    Ok(OK)
}

/// Edits the source the flags choose (CLI-415).
fn edit_one(app: &mut Application, flags: &Parsed, literal: Option<String>) -> Result<Vec<String>, Failure> {
    let spec = &mut app.spec;
    if spec.sources.is_empty() {
        return Ok(spec_edit::apply(spec, flags, &app.status.source_type, literal)?.errors);
    }
    let index = show::chosen_source(&spec.sources, flags)?;
    let Some(chosen) = spec.sources.get_mut(index) else { return Ok(Vec::new()) };
    let observed = app.status.source_types.get(index).cloned().unwrap_or_default();
    let own_source = spec.source.replace(std::mem::take(chosen));
    let edited = spec_edit::apply(spec, flags, &observed, literal);
    let source = std::mem::replace(&mut spec.source, own_source);
    if let (Some(chosen), Some(source)) = (spec.sources.get_mut(index), source) {
        *chosen = source;
    }
    Ok(edited?.errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    fn flags(args: &[&str]) -> Parsed {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        parse(&args, &[SPEC_FLAGS, FLAGS]).unwrap()
    }

    const FILE: &str = "metadata: {name: a}\nspec: {source: {repoURL: u, path: p}, destination: {server: s}}\nstatus: {x: 1}\noperation: {}\n";

    #[test]
    fn cli_401_names_must_agree() {
        let text = |args: &[&str], file| build(&flags(args), file, None).unwrap_err().message;
        assert_eq!(
            text(&["b", "-f", "x"], Some(FILE)),
            "app name 'b' does not match app spec metadata.name 'a'"
        );
        assert_eq!(text(&["a", "--name", "b"], None), "--name argument 'b' does not match app name a");
        assert!(build(&flags(&[]), None, None).unwrap().is_none(), "help");
    }

    #[test]
    fn cli_401_flags_override_the_file() {
        let (apps, _) = build(
            &flags(&["-f", "x", "--path", "q", "-l", "a=b", "--set-finalizer", "-N", "n"]),
            Some(FILE),
            None,
        )
        .unwrap()
        .unwrap();
        assert_eq!(
            apps,
            [json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {"name": "a", "namespace": "n", "labels": {"a": "b"}, "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
                "spec": {"project": "default", "source": {"repoURL": "u", "path": "q"}, "destination": {"server": "s"}}})]
        );
    }

    #[test]
    fn cli_401_standard_input_ignores_flags() {
        let two = format!("{FILE}---\n{FILE}");
        let (apps, _) = build(&flags(&["-f", "-", "--path", "q"]), Some(&two), None).unwrap().unwrap();
        assert_eq!(apps.len(), 2);
        assert_eq!(apps[0]["spec"]["source"]["path"], "p");
    }

    #[test]
    fn cli_404_labels_have_one_equals_sign() {
        for bad in ["a", "a=b=c"] {
            let failure = build(&flags(&["x", "-l", bad]), None, None).unwrap_err();
            assert_eq!(failure.message, format!("labels should have key=value, but instead got: {bad}"));
        }
        let (apps, _) = build(&flags(&["x", "--annotations", "a=b=c", "--annotations", "d"]), None, None)
            .unwrap()
            .unwrap();
        assert_eq!(apps[0]["metadata"]["annotations"], json!({"a": "b=c", "d": ""}));
    }

    #[test]
    fn cli_403_existing_applications() {
        let desired = build(&flags(&["x", "--repo", "u", "--path", "p", "-l", "new=1"]), None, None)
            .unwrap()
            .unwrap()
            .0
            .remove(0);
        let same: Application = serde_json::from_value(desired.clone()).unwrap();
        assert_eq!(decide(&desired, &same, &desired, false).unwrap(), Put::Unchanged);
        let mut stored = desired.clone();
        stored["spec"]["source"]["path"] = "old".into();
        stored["metadata"]["labels"] = json!({"old": "1"});
        let existing: Application = serde_json::from_value(stored.clone()).unwrap();
        let failure = decide(&desired, &existing, &stored, false).unwrap_err();
        assert!(
            failure
                .message
                .ends_with("existing application spec is different, use upsert flag to force update")
        );
        assert_eq!(failure.code, 20);
        let Put::Update(updated) = decide(&desired, &existing, &stored, true).unwrap() else { panic!() };
        assert_eq!(updated["spec"]["source"]["path"], "p");
        assert_eq!(updated["metadata"]["labels"], json!({"old": "1", "new": "1"}));
    }

    #[test]
    fn cli_415_one_of_several_sources_is_edited() {
        let app = || -> Application {
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"destination": {}, "sources": [
                {"repoURL": "u", "path": "a"}, {"repoURL": "v", "path": "b", "name": "second"}]}}))
            .unwrap()
        };
        let edit = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let mut app = app();
            edit_one(&mut app, &parse(&args, &[SPEC_FLAGS, SET_FLAGS]).unwrap(), None).map(|_| app)
        };
        assert_eq!(edit(&["--path", "c", "--source-position", "2"]).unwrap().spec.sources[1].path, "c");
        assert!(edit(&["--path", "c", "--source-position", "2"]).unwrap().spec.source.is_none());
        assert!(
            edit(&["--path", "c"]).unwrap_err().message.starts_with("Source position should be specified")
        );
        assert!(edit(&["--path", "c", "--source-position", "3"]).unwrap_err().message.contains("less than"));
        assert_eq!(edit(&["--path", "c", "--source-name", "x"]).unwrap_err().code, 1);
    }
}
