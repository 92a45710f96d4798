//! What repositories hold: folders of the user, or one workload for each application.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use serde_json::{Value, json};
use tiphys_api::repo_url;
use tiphys_source::{CheckoutLimits, MemoryRepositories, checkout_files};

use super::fault::Fault;

/// Files of a folder, and bytes of all of them.
const FILES_MAX: usize = 20_000;
const BYTES_MAX: usize = 256 << 20;
/// The branch that `HEAD` means.
const MAIN: &str = "main";

/// `--source URL=DIR`.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    url: String,
    path: PathBuf,
}

impl FromStr for Folder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((url, path)) if !url.is_empty() && !path.is_empty() => {
                Ok(Self { url: url.to_owned(), path: path.into() })
            }
            _ => Err("URL=DIR is needed".to_owned()),
        }
    }
}

impl Folder {
    /// Commits what the folder holds, or held at a revision.
    pub(super) fn commit(&self, servers: &MemoryRepositories, revision: Option<&str>) -> anyhow::Result<()> {
        let files = if let Some(revision) = revision {
            let limits = CheckoutLimits { files: FILES_MAX, bytes: BYTES_MAX as u64 };
            checkout_files(&self.path, revision, limits)?
        } else {
            let (mut files, mut bytes) = (BTreeMap::new(), 0);
            gather(&self.path, &self.path, &mut files, &mut bytes)
                .with_context(|| format!("cannot read the folder {}", self.path.display()))?;
            files
        };
        servers.commit(&self.url, MAIN, files, 0)?;
        Ok(())
    }
}

fn gather(
    root: &Path,
    folder: &Path,
    files: &mut BTreeMap<String, Bytes>,
    bytes: &mut usize,
) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if entry.file_name() == ".git" {
            continue;
        }
        if kind.is_dir() {
            gather(root, &path, files, bytes)?;
        } else if kind.is_file() {
            let content = std::fs::read(&path)?;
            *bytes += content.len();
            let name = path.strip_prefix(root)?.to_str().context("a name is no text")?.to_owned();
            files.insert(name, content.into());
            if files.len() > FILES_MAX || *bytes > BYTES_MAX {
                bail!("it has more than {FILES_MAX} files, or more than {BYTES_MAX} bytes");
            }
        }
    }
    Ok(())
}

/// `--health-delay KIND=DURATION`.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    pub(super) kind: String,
    /// As it was written, which is how the server reads it too.
    pub(super) text: String,
}

/// Kinds that have containers, and need a time until they are well.
const WORKLOADS: [&str; 5] = ["Deployment", "StatefulSet", "DaemonSet", "Job", "Pod"];

impl Delay {
    fn time(&self) -> Duration {
        let read = tiphys_go::duration::parse(&self.text).ok();
        read.and_then(|duration| Duration::try_from(duration).ok()).unwrap_or_default()
    }
}

/// The longest time that a workload needs.
pub(super) fn longest(delays: &[Delay]) -> Duration {
    delays.iter().map(Delay::time).max().unwrap_or_default()
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("KIND=DURATION is needed, where KIND is one of {}", WORKLOADS.join(", "));
        let (kind, time) = text.split_once('=').ok_or_else(wrong)?;
        if !WORKLOADS.contains(&kind) {
            return Err(wrong());
        }
        match tiphys_go::duration::parse(time) {
            Ok(duration) if !duration.is_negative() => {
                Ok(Self { kind: kind.to_owned(), text: time.to_owned() })
            }
            _ => Err("a duration such as 10s or 2m is needed".to_owned()),
        }
    }
}

/// What stand-ins are made from.
pub(super) struct Content<'a> {
    pub(super) folders: &'a [Folder],
    pub(super) delays: &'a [Delay],
    pub(super) faults: &'a [Fault],
}

/// A repository of stand-ins, or the names under which a folder is asked for.
#[derive(Default)]
struct Made {
    url: String,
    files: BTreeMap<String, Bytes>,
    revisions: BTreeSet<String>,
}

impl Made {
    fn commit(self, servers: &MemoryRepositories) -> anyhow::Result<()> {
        let Self { url, files, revisions } = self;
        let commit = match servers.get_ref(&url, &format!("refs/heads/{MAIN}")) {
            Some(commit) => commit,
            None => servers.commit(&url, MAIN, files, 0)?,
        };
        revisions.iter().try_for_each(|revision| point(servers, &url, revision, &commit))
    }
}

/// Lets a branch that is asked for mean a commit.
fn point(servers: &MemoryRepositories, url: &str, revision: &str, commit: &str) -> anyhow::Result<()> {
    if revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!("targetRevision {revision} of {url} is a commit; name a branch or a tag to rehearse it");
    }
    if !revision.is_empty() && revision != "HEAD" {
        servers.set_ref(url, &format!("refs/heads/{revision}"), commit);
    }
    Ok(())
}

/// Commits what the folders hold, or held at a revision, to every branch that the applications ask for.
pub(super) fn deploy(
    servers: &MemoryRepositories,
    folders: &[Folder],
    apps: &[Value],
    revision: Option<&str>,
) -> anyhow::Result<()> {
    folders.iter().try_for_each(|folder| folder.commit(servers, revision))?;
    for app in apps {
        for source in sources(app) {
            let text = |member: &str| source.get(member).and_then(Value::as_str).unwrap_or_default();
            let url = text("repoURL");
            if source.get("chart").is_some() {
                bail!(
                    "application {} takes the chart {} from a repository of charts, which a rehearsal does not ask; \
                     put the chart into a folder",
                    name(app),
                    text("chart")
                );
            }
            let folder = folders.iter().find(|folder| repo_url::same(&folder.url, url));
            let commit =
                folder.and_then(|folder| servers.get_ref(&folder.url, &format!("refs/heads/{MAIN}")));
            let Some(commit) = commit else {
                bail!(
                    "application {} needs the repository {url}; give it a folder: --source {url}=DIR",
                    name(app)
                );
            };
            point(servers, url, text("targetRevision"), &commit)?;
        }
    }
    Ok(())
}

impl Content<'_> {
    /// Makes the repositories of applications that no folder is given for, and the branches of all.
    pub(super) fn stand_in(&self, servers: &MemoryRepositories, apps: &[Value]) -> anyhow::Result<()> {
        let known: BTreeSet<&str> = apps.iter().map(name).collect();
        if let Some(fault) = self.faults.iter().find(|fault| !known.contains(fault.name.as_str())) {
            bail!("--faults: there is no application {}; there are {}", fault.name, names(&known));
        }
        let mut repositories: BTreeMap<String, Made> = BTreeMap::new();
        for app in apps {
            for source in sources(app) {
                let text = |member: &str| source.get(member).and_then(Value::as_str).unwrap_or_default();
                let url = text("repoURL");
                let made = repositories.entry(repo_url::normalize(url)).or_default();
                url.clone_into(&mut made.url);
                made.revisions.insert(text("targetRevision").to_owned());
                if self.folders.iter().any(|folder| repo_url::same(&folder.url, url)) {
                    continue;
                }
                let odd = ["chart", "helm", "kustomize", "plugin"];
                if let Some(field) = odd.into_iter().find(|field| source.get(*field).is_some()) {
                    bail!(
                        "application {} has a source with {field}, for which there is no stand-in; give its \
                         repository a folder: --source {url}=DIR",
                        name(app)
                    );
                }
                let path = text("path").trim_start_matches("./").trim_matches('/');
                let path = if path.is_empty() || path == "." { String::new() } else { format!("{path}/") };
                let object = self.workload(name(app));
                made.files.insert(format!("{path}{}.yaml", name(app)), Bytes::from(object.to_string()));
            }
        }
        repositories.into_values().try_for_each(|made| made.commit(servers))
    }

    fn workload(&self, app: &str) -> Value {
        let fault = self.faults.iter().find(|fault| fault.name == app);
        let delay =
            self.delays.iter().find(|delay| delay.kind == "Deployment").map_or("10s", |delay| &delay.text);
        let fault = fault.and_then(|fault| fault.what.behaviour());
        let behaviour = fault.map_or_else(|| format!("ready-after={delay}"), str::to_owned);
        let labels = json!({"app": app});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app}, "spec": {
            "replicas": 1, "progressDeadlineSeconds": 60, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": {"tiphys.dev/sim": behaviour}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/stand-in:1"}]}}}})
    }
}

pub(super) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn names(all: &BTreeSet<&str>) -> String {
    all.iter().take(20).copied().collect::<Vec<_>>().join(", ")
}

fn sources(app: &Value) -> Vec<&Value> {
    let one = app.pointer("/spec/source");
    let several = app.pointer("/spec/sources").and_then(Value::as_array);
    several.map_or_else(|| one.into_iter().collect(), |several| several.iter().collect())
}

/// Namespaces of destinations.
pub(super) fn namespaces(apps: &[Value]) -> Vec<String> {
    let of = |app: &Value| Some(app.pointer("/spec/destination/namespace")?.as_str()?.to_owned());
    let all: BTreeSet<String> = apps.iter().filter_map(of).filter(|name| !name.is_empty()).collect();
    all.into_iter().collect()
}
