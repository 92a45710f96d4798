//! `admin settings validate`: whether the settings of files or of a cluster can be read (CLI-912).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::account::accounts;
use tiphys_api::names::{PARAMS_CONFIG_MAP, SECRET, SETTINGS_CONFIG_MAP};
use tiphys_cluster::{ResourceFilter, Target};
use tiphys_engine::diff::DiffSettings;
use tiphys_engine::health::HealthOverrides;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::updates::UpdateRules;
use tiphys_installation::{Installation, InstallationData, objects};
use tiphys_object::{Gvk, Object};
use tiphys_render::KustomizeOptions;

use super::{inputs, policy_file};
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::{self, Ended, Group, OK, Session};
use crate::terminal::Terminal;

pub(super) const SOURCES: &[Flag] = &[
    flag(
        "argocd-cm-path",
        Kind::Text,
        "",
        "File with argocd-cm, and argocd-cmd-params-cm if it is there; - for standard input",
    ),
    flag("argocd-secret-path", Kind::Text, "", "File with argocd-secret"),
    flag("load-cluster-settings", Kind::Bool, "false", "Read what is not in files from the cluster"),
];
const VALIDATE: &[Flag] = &[
    flag("group", Kind::Csv, "", "Group to check: accounts, general, kustomize or resource-overrides"),
    flag("strict", Kind::Bool, "false", "Exit with 1 when something is wrong"),
];

#[derive(Clone, Copy, Debug)]
struct Validate;

static GROUP: Group<Validate> = Group {
    name: "admin settings",
    about: "Check settings",
    commands: &[Command::new(
        Validate,
        ("validate", ""),
        "Say whether the settings can be read",
        &[SOURCES, VALIDATE],
        (0, 0),
    )],
    groups: &[
        ("rbac", "Check who may do what"),
        ("resource-overrides", "Say what the customisations of a kind make of one object"),
    ],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin settings …`, and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, async |session: &Session<'_>, Validate| {
        Box::pin(validate(session)).await
    })
}

/// What belongs together, as the flag spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Accounts,
    General,
    Kustomize,
    ResourceOverrides,
}

impl Part {
    const ALL: [Self; 4] = [Self::Accounts, Self::General, Self::Kustomize, Self::ResourceOverrides];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::General => "general",
            Self::Kustomize => "kustomize",
            Self::ResourceOverrides => "resource-overrides",
        }
    }

    /// What is wrong with it, in words.
    fn problems(self, data: &InstallationData) -> Vec<String> {
        let installation = Installation::build(data);
        let cm = installation.settings.cm();
        match self {
            Self::Accounts => {
                let secret = data.secrets.get(SECRET).map(|secret| objects::decoded(secret));
                accounts(cm, &secret.unwrap_or_default())
                    .map_or_else(|error| vec![error.to_string()], |found| found.warnings)
            }
            Self::General => {
                let mut found = installation.settings.warnings().to_vec();
                found.extend(installation.tracking.problems.iter().cloned());
                found.extend(wrong(DiffSettings::from_settings(cm)));
                let settings = &installation.settings;
                let (excluded, included) = (settings.resource_exclusions(), settings.resource_inclusions());
                found.extend(wrong(ResourceFilter::parse(excluded, included)));
                found
            }
            Self::Kustomize => {
                wrong(KustomizeOptions::parse(installation.settings.kustomize_build_options()))
                    .map(|why| format!("kustomize.buildOptions: {why}"))
                    .into_iter()
                    .collect()
            }
            Self::ResourceOverrides => {
                let with_differences =
                    installation.settings.compare_options().ignore_differences_on_resource_updates;
                let mut found: Vec<String> = wrong(HealthOverrides::from_settings(cm)).into_iter().collect();
                found.extend(wrong(IgnoreRules::compile(&[], cm)));
                found.extend(wrong(UpdateRules::from_settings(cm, with_differences)));
                // Text that is no YAML is told by each of them.
                found.dedup();
                found
            }
        }
    }
}

fn wrong<T, E: std::fmt::Display>(read: Result<T, E>) -> Option<String> {
    read.err().map(|error| error.to_string())
}

async fn validate(session: &Session<'_>) -> Result<Ended, Failure> {
    let parts = parts(session.flags.texts("group"))?;
    let data = load(session).await?;
    for report in tiphys_api::support::reports(&Installation::build(&data).settings) {
        session.warn(&report);
    }
    let mut is_valid = true;
    for part in parts {
        let problems = part.problems(&data);
        is_valid &= problems.is_empty();
        session.terminal.line(&format!(
            "{} {}",
            if problems.is_empty() { "✅" } else { "❌" },
            part.as_str()
        ));
        for problem in problems {
            session.terminal.line(&tiphys_api::printable::line(&problem));
        }
    }
    Ok(if is_valid || !session.flags.is_on("strict") { OK } else { Ended::Code(1) })
}

fn parts(wanted: &[String]) -> Result<Vec<Part>, Failure> {
    if wanted.is_empty() {
        return Ok(Part::ALL.to_vec());
    }
    let part = |name: &String| {
        Part::ALL.into_iter().find(|part| part.as_str() == name).ok_or_else(|| {
            let all = Part::ALL.map(Part::as_str).join(", ");
            Failure::fatal(format!("--group: there is no group {name:?}")).hint(format!("name one of {all}"))
        })
    };
    wanted.iter().map(part).collect()
}

/// The settings of the files, and of the cluster where that is asked for and no file says them.
pub(super) async fn load(session: &Session<'_>) -> Result<InstallationData, Failure> {
    let flags = session.flags;
    let (settings, secret) = (flags.text("argocd-cm-path"), flags.text("argocd-secret-path"));
    let with_cluster = flags.is_on("load-cluster-settings");
    if settings.is_empty() && !with_cluster {
        return Err(Failure::fatal("please provide --argocd-cm-path, or --load-cluster-settings"));
    }
    let namespace = flags.text("namespace");
    let mut data = InstallationData {
        namespace: if namespace.is_empty() { "argocd" } else { namespace }.to_owned(),
        ..InstallationData::default()
    };
    if !settings.is_empty() {
        for (name, map) in config_maps(settings, inputs::documents("argocd-cm-path", settings).await?)? {
            take(&mut data, settings, &manifest("ConfigMap", name, &json!(map)))?;
        }
    }
    if !secret.is_empty() {
        inputs::take(&mut data, "argocd-secret-path", secret, "Secret").await?;
        if !data.secrets.contains_key(SECRET) {
            return Err(inputs::invalid(format!("{secret}: there is no Secret {SECRET} in this file")));
        }
    }
    if with_cluster {
        let core = session.connect_to_cluster().await?;
        data.namespace.clone_from(&core.namespace);
        for (kind, name) in
            [("ConfigMap", SETTINGS_CONFIG_MAP), ("ConfigMap", PARAMS_CONFIG_MAP), ("Secret", SECRET)]
        {
            if data.config_maps.contains_key(name) || data.secrets.contains_key(name) {
                continue;
            }
            let target = Target::new(Gvk::new("", "v1", kind), &core.namespace, name);
            if let Some(object) = core.get(&target).await? {
                data.take(object);
            }
        }
    }
    Ok(data)
}

/// Name and data of one.
type ConfigMap = (&'static str, BTreeMap<String, String>);

/// The settings among the manifests of a file; a `ConfigMap` that is alone needs no name.
fn config_maps(path: &str, manifests: Vec<Value>) -> Result<Vec<ConfigMap>, Failure> {
    let maps: Vec<Value> = manifests
        .into_iter()
        .filter(|value| value.get("kind").is_none_or(|kind| kind == "ConfigMap"))
        .collect();
    let named = |wanted: &str| {
        maps.iter().find(|map| map.pointer("/metadata/name").and_then(Value::as_str) == Some(wanted))
    };
    let params = named(PARAMS_CONFIG_MAP);
    let settings = named(SETTINGS_CONFIG_MAP).or(match maps.as_slice() {
        [only] if params.is_none() => Some(only),
        _ => None,
    });
    if settings.is_none() && params.is_none() {
        return Err(inputs::invalid(format!(
            "{path}: there is no ConfigMap {SETTINGS_CONFIG_MAP} in this file"
        )));
    }
    [(SETTINGS_CONFIG_MAP, settings), (PARAMS_CONFIG_MAP, params)]
        .into_iter()
        .filter_map(|(name, map)| Some((name, map?)))
        .map(|(name, map)| Ok((name, policy_file::data(path, map)?)))
        .collect()
}

fn manifest(kind: &str, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": data})
}

fn take(data: &mut InstallationData, path: &str, manifest: &Value) -> Result<(), Failure> {
    let object = Object::from_value(manifest).map_err(|error| inputs::invalid(format!("{path}: {error}")))?;
    data.take(Arc::new(object));
    Ok(())
}
