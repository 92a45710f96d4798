//! `admin tracking …`: how objects are marked and to whom they belong, without any cluster (TRK-123).

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_engine::compare::is_root;
use tiphys_engine::tracking::{
    TrackingId, TrackingMethod, TrackingSettings, expand_lists, setting, split_qualified_name,
};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::Object;

use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::output::{Format, print};
use crate::session::{self, Ended, Group, OK, Session};
use crate::terminal::{Terminal, read_input};

const SETTINGS: &[Flag] = &[
    flag("method", Kind::Text, "annotation", "Tracking method"),
    flag("label-key", Kind::Text, "", "Key of the instance label"),
    flag("annotation-key", Kind::Text, "", "Key of the tracking annotation"),
    flag("annotation-format", Kind::Text, "", "Form of the tracking annotation: colon or semicolon"),
    flag("hash-algorithm", Kind::Text, "", "Digest of the hash methods"),
    flag("installation-id", Kind::Text, "", "Installation ID"),
    flag("installation-carrier", Kind::Text, "", "Where the installation ID is written"),
    flag("control-plane-namespace", Kind::Text, "argocd", "Namespace of the installation"),
];
const APP: Flag = flag("app", Kind::Text, "", "Application, as NAME or NAMESPACE/NAME");
const APP_NAMESPACE: &[Flag] = &[flag("app-namespace", Kind::Text, "", "Namespace of the application")];
const FILE: Flag = flag("file", Kind::Text, "", "File with manifests, - for standard input").or('f');
const LIVE: Flag = flag("live", Kind::Text, "", "File with the live object");
const TARGET: Flag = flag("target", Kind::Text, "", "File with the desired object");
const STAMP: &[Flag] = &[FILE, APP, flag("dest-namespace", Kind::Text, "", "Namespace of the destination")];
const OWNER: &[Flag] = &[FILE, flag("apps", Kind::Csv, "", "Applications that exist, for the hash methods")];
const SIDES: &[Flag] = &[LIVE, TARGET, APP];

#[derive(Clone, Copy, Debug)]
enum Verb {
    Name,
    LabelValue,
    Hash,
    Parse,
    Stamp,
    Owner,
    SelfReference,
    Normalize,
}

const fn verb(
    verb: Verb,
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    flags: &'static [&'static [Flag]],
) -> Command<Verb> {
    let operands = if usage.is_empty() { (0, 0) } else { (1, 1) };
    Command::new(verb, (name, usage), about, flags, operands)
}

static GROUP: Group<Verb> = Group {
    name: "admin tracking",
    about: "Say how objects are marked, and to whom they belong",
    commands: &[
        verb(Verb::Hash, "hash", "INPUT", "Print the digest of a text", &[SETTINGS]),
        verb(
            Verb::LabelValue,
            "label-value",
            "APP",
            "Print the instance label of an application",
            &[SETTINGS, APP_NAMESPACE],
        ),
        verb(
            Verb::Name,
            "name",
            "APP",
            "Print the instance name of an application",
            &[SETTINGS, APP_NAMESPACE],
        ),
        verb(Verb::Normalize, "normalize", "", "Print a live object as it is compared", &[SETTINGS, SIDES]),
        verb(Verb::Owner, "owner", "", "Print the application that a live object names", &[SETTINGS, OWNER]),
        verb(Verb::Parse, "parse", "VALUE", "Read a tracking annotation", &[SETTINGS]),
        verb(
            Verb::SelfReference,
            "self-reference",
            "",
            "Say whether a live object bears its own mark, and not a copy",
            &[SETTINGS, SIDES],
        ),
        verb(
            Verb::Stamp,
            "stamp",
            "",
            "Print manifests with the marks of an application",
            &[SETTINGS, STAMP],
        ),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin tracking …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, async |session: &Session<'_>, verb| {
        Box::pin(perform(session, verb)).await
    })
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    let (flags, terminal) = (session.flags, session.terminal);
    let tracking = settings(flags)?;
    let operand = flags.operands.first().map_or("", String::as_str);
    match verb {
        Verb::Name => terminal.line(&instance(&tracking, flags, operand)),
        Verb::LabelValue => {
            let instance = instance(&tracking, flags, operand);
            if let Some(refusal) = tracking.label_too_long(&instance) {
                return Err(Failure::generic(refusal));
            }
            let value =
                tracking.label_value(&instance).map_err(|error| Failure::generic(error.to_string()))?;
            if let Some(value) = value {
                terminal.line(&value);
            }
        }
        Verb::Hash => terminal.line(&tracking.hash_algorithm.digest(operand)),
        Verb::Parse => terminal.print(&print(&parse(&tracking, operand)?, Format::Json)?),
        Verb::Stamp => terminal.print(&stamp(&tracking, flags).await?),
        Verb::Owner => terminal.line(&owner(&tracking, flags).await?),
        Verb::SelfReference => {
            let live = object("live", flags.text("live")).await?;
            let target = match flags.text("target") {
                "" => None,
                path => Some(object("target", path).await?),
            };
            terminal.line(&tracking.is_self_referenced(target.as_ref(), Some(&live)).to_string());
        }
        Verb::Normalize => {
            let mut live = document("live", flags.text("live")).await?;
            let target = document("target", flags.text("target")).await?;
            tracking.normalize_live(&app(&tracking, flags)?, &mut live, &target);
            terminal.print(&print(&live, Format::Yaml)?);
        }
    }
    Ok(OK)
}

/// The settings that the flags describe.
fn settings(flags: &Parsed) -> Result<TrackingSettings, Failure> {
    let keys = [
        ("method", setting::METHOD),
        ("label-key", setting::LABEL_KEY),
        ("annotation-key", setting::ANNOTATION_KEY),
        ("annotation-format", setting::ANNOTATION_FORMAT),
        ("hash-algorithm", setting::HASH_ALGORITHM),
        ("installation-id", setting::INSTALLATION_ID),
        ("installation-carrier", setting::CARRIER),
    ];
    let texts: BTreeMap<String, String> =
        keys.iter().map(|(flag, key)| ((*key).to_owned(), flags.text(flag).to_owned())).collect();
    let method = flags.text("method");
    if TrackingMethod::parse(method).is_none() {
        let known = TrackingMethod::ALL.map(TrackingMethod::as_str).join(", ");
        return Err(Failure::generic(format!("--method: {method:?} is none of {known}")));
    }
    let tracking = TrackingSettings::from_settings(&texts, flags.text("control-plane-namespace"));
    match tracking.problems.first() {
        Some(problem) => {
            let (key, problem) = problem.split_once("argocd-cm: ").unwrap_or(("", problem));
            let named = keys.iter().find(|(_, setting)| problem.starts_with(setting));
            let text = named.map_or_else(
                || format!("{key}{problem}"),
                |(flag, setting)| problem.replacen(setting, &format!("--{flag}"), 1),
            );
            Err(Failure::generic(text))
        }
        None => Ok(tracking),
    }
}

fn instance(tracking: &TrackingSettings, flags: &Parsed, text: &str) -> SmolStr {
    let (namespace, name) = split_qualified_name(text, flags.text("app-namespace"));
    tracking.instance_name(namespace, name)
}

/// The instance name of `--app`.
fn app(tracking: &TrackingSettings, flags: &Parsed) -> Result<SmolStr, Failure> {
    let text = flags.text("app");
    if text.is_empty() {
        return Err(Failure::generic("--app: name the application"));
    }
    let (namespace, name) = split_qualified_name(text, "");
    Ok(tracking.instance_name(namespace, name))
}

fn parse(tracking: &TrackingSettings, text: &str) -> Result<Value, Failure> {
    let id = TrackingId::read(text, tracking.annotation_format)
        .map_err(|error| Failure { code: 1, ..Failure::generic(error.to_string()) })?;
    Ok(json!({
        "instanceName": id.instance.as_str(),
        "group": id.key.group.as_str(),
        "kind": id.key.kind.as_str(),
        "namespace": id.key.namespace.as_str(),
        "name": id.key.name.as_str(),
    }))
}

async fn stamp(tracking: &TrackingSettings, flags: &Parsed) -> Result<String, Failure> {
    let instance = app(tracking, flags)?;
    let mut out = String::new();
    for mut manifest in expand_lists(documents("file", flags.text("file")).await?) {
        tracking
            .stamp(&mut manifest, &instance, flags.text("dest-namespace"))
            .map_err(|error| Failure::generic(error.to_string()))?;
        out.push_str("---\n");
        out.push_str(&print(&manifest, Format::Yaml)?);
    }
    Ok(out)
}

async fn owner(tracking: &TrackingSettings, flags: &Parsed) -> Result<String, Failure> {
    let live = object("file", flags.text("file")).await?;
    if !is_root(&live) {
        return Ok(String::new());
    }
    let mut named = HashMap::new();
    for text in flags.texts("apps") {
        let (namespace, name) = split_qualified_name(text, "");
        let instance = tracking.instance_name(namespace, name);
        named.extend(tracking.own_marks(&instance).into_iter().map(|mark| (mark, instance.clone())));
    }
    let claim = tracking.claim(live.metadata(), |mark| named.get(mark).cloned());
    Ok(claim.unwrap_or_default().to_string())
}

async fn object(flag: &str, path: &str) -> Result<Object, Failure> {
    let value = document(flag, path).await?;
    Object::from_value(&value).map_err(|error| Failure::generic(format!("--{flag}: {path}: {error}")))
}

async fn document(flag: &str, path: &str) -> Result<Value, Failure> {
    let mut all = documents(flag, path).await?;
    match (all.pop(), all.len()) {
        (Some(one), 0) => Ok(one),
        (_, more) => {
            Err(Failure::generic(format!("--{flag}: {path}: {} manifests, where one is expected", more + 1)))
        }
    }
}

async fn documents(flag: &str, path: &str) -> Result<Vec<Value>, Failure> {
    if path.is_empty() {
        return Err(Failure::generic(format!("--{flag}: name a file, or - for standard input")));
    }
    let text = read_input(path).await?;
    let documents = yaml::parse_documents(&text, Dialect::Sigs, &Limits::default())
        .map_err(|error| Failure::generic(format!("--{flag}: {path}: {error}")))?;
    if documents.is_empty() {
        return Err(Failure::generic(format!("--{flag}: {path}: holds no manifest")));
    }
    Ok(documents)
}
