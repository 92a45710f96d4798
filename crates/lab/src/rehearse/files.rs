//! The manifests that the user names.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_cli::live::Taken;

use super::arguments::{Arguments, LIVE};
use super::content::name;
use super::{Play, Subject};

/// Bytes of a file with manifests.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files of all folders that are named.
const FILES_MAX: usize = 2000;
/// Applications that are rehearsed together.
const APPLICATIONS_MAX: usize = 200;

#[derive(Default)]
struct Found {
    /// Names of applications of the installation.
    names: Vec<String>,
    sets: Vec<Value>,
    applications: Vec<Value>,
    others: Vec<Value>,
}

/// Reads what is named. `live` reads applications of the installation, and what they manage where that is wanted.
pub(super) fn read(
    arguments: &Arguments,
    live: impl FnOnce(&[String], bool) -> anyhow::Result<Taken>,
) -> anyhow::Result<Play> {
    let mut found = Found::default();
    for path in &arguments.target {
        if let Some(name) =
            path.to_str().and_then(|text| text.strip_prefix("app/")).filter(|_| !path.exists())
        {
            found.names.push(name.to_owned());
        } else if path.is_dir() {
            for file in
                manifests(path).with_context(|| format!("cannot read the folder {}", path.display()))?
            {
                take(&file, true, &mut found)?;
            }
        } else {
            take(path, false, &mut found)?;
        }
    }
    let Found { names, mut sets, mut applications, mut others } = found;
    let wants_objects = arguments.from == LIVE && sets.is_empty();
    let taken = if names.is_empty() && !wants_objects {
        Taken::default()
    } else {
        let given = applications.iter().filter(|_| wants_objects).map(|app| name(app).to_owned());
        live(&names.iter().cloned().chain(given).collect::<Vec<_>>(), wants_objects)?
    };
    let Taken { namespace: own, applications: stored, others: surroundings, objects } = taken;
    // What a file says is tried out: it stands for what the installation has.
    applications.extend(stored.into_iter().take(names.len()));
    let identity = |object: &Value| (object.get("kind").cloned(), name(object).to_owned());
    let given: Vec<_> = others.iter().map(identity).collect();
    others.extend(surroundings.into_iter().filter(|object| !given.contains(&identity(object))));
    let fallback = if own.is_empty() { "argocd".to_owned() } else { own };
    let namespace = arguments.namespace.clone().unwrap_or(fallback);
    let subject = match (sets.len(), applications.len()) {
        (1, 0) => {
            let manifest = sets.pop().unwrap_or_default();
            let set: ApplicationSet =
                serde_json::from_value(manifest.clone()).context("this is no ApplicationSet")?;
            check_namespace("the set", &manifest, &namespace)?;
            Subject::Set { set: Box::new(set), manifest }
        }
        (0, 1..=APPLICATIONS_MAX) => {
            applications.sort_by(|one, other| name(one).cmp(name(other)));
            for app in &applications {
                check_namespace(&format!("the application {}", name(app)), app, &namespace)?;
            }
            if let Some([one, _]) = applications.array_windows().find(|[one, other]| name(one) == name(other))
            {
                bail!("there are two applications {}", name(one));
            }
            Subject::Applications(applications)
        }
        (0, 0) => bail!("one ApplicationSet, or Applications, are needed, and none is given"),
        (0, count) => {
            bail!("{count} Applications are given; {APPLICATIONS_MAX} are rehearsed together at most")
        }
        (count, 0) => bail!("one ApplicationSet is needed, {count} are given"),
        _ => bail!("Applications and an ApplicationSet are given; rehearse one after the other"),
    };
    Ok(Play { subject, others, namespace, objects })
}

fn check_namespace(what: &str, object: &Value, namespace: &str) -> anyhow::Result<()> {
    let own = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    if !own.is_empty() && own != namespace {
        bail!("{what} is in the namespace {own}; say so with -n, or rehearse it in {namespace}");
    }
    Ok(())
}

/// Manifests of a folder, in the order of their names.
fn manifests(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let is_manifest = path
                .extension()
                .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
            if kind.is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
                folders.push(path);
            } else if kind.is_file() && is_manifest {
                found.push(path);
            }
            if found.len() > FILES_MAX || folders.len() > FILES_MAX {
                bail!("it has more than {FILES_MAX} manifests; name the files");
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads one file. In a folder there may be manifests that are no subject of a rehearsal: these are passed over.
fn take(path: &Path, is_of_folder: bool, found: &mut Found) -> anyhow::Result<()> {
    let shown = path.display();
    let length = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    if length > FILE_BYTES_MAX {
        bail!("{shown} has more than {FILE_BYTES_MAX} bytes");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let limits = tiphys_go::yaml::Limits::default();
    let documents = tiphys_go::yaml::parse_documents(&text, tiphys_go::yaml::Dialect::Sigs, &limits);
    let documents = match documents {
        // A chart's template is no YAML.
        Err(_) if is_of_folder && !text.contains("argoproj.io/") => return Ok(()),
        documents => documents.with_context(|| format!("cannot read {shown}"))?,
    };
    for document in documents {
        let group = document.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let is_ours = group.starts_with("argoproj.io/");
        match document.get("kind").and_then(Value::as_str) {
            Some("ApplicationSet") => found.sets.push(document),
            Some("Application") if is_ours => found.applications.push(document),
            Some("AppProject") => found.others.push(document),
            Some("Secret" | "ConfigMap") if !is_of_folder || is_of_control_plane(&document) => {
                found.others.push(document);
            }
            _ if is_of_folder => {}
            Some(kind) => bail!(
                "{shown}: {kind} cannot be rehearsed; there are Application and ApplicationSet, and beside them \
                 AppProject, Secret and ConfigMap"
            ),
            None if document.is_null() => {}
            None => bail!("{shown}: a document has no kind"),
        }
    }
    Ok(())
}

/// Whether a `Secret` or `ConfigMap` of a folder is a setting, a repository or a cluster.
fn is_of_control_plane(object: &Value) -> bool {
    let label = |name: &str| object.pointer("/metadata/labels")?.get(name)?.as_str();
    label("argocd.argoproj.io/secret-type").is_some() || label("app.kubernetes.io/part-of") == Some("argocd")
}
