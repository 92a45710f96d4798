//! `break`, `fix`, `drift`, `scale`: what they do inside a running demo (CLI-1003).

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tiphys_cluster::{Target, Writer};
use tiphys_object::Gvk;
use tiphys_policy::permit::Permit;
use tokio::sync::watch;

use super::applications::{All, application_gvk};
use super::control::{Action, Request};
use super::edit;
use super::git_server::GitServer;
use super::repository::{Change, Repository, message};
use super::scenario::{BRANCH, NAMESPACE};

/// Replicas that `drift` adds.
const DRIFT: u64 = 3;
/// A manifest that nobody can read.
const UNREADABLE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken\n";

/// A demo that can be worked on. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) repository: Repository,
    pub(crate) server: GitServer,
    pub(crate) writer: Writer,
    /// Address of the repository.
    pub(crate) url: String,
    pub(crate) applications: watch::Receiver<All>,
}

/// What an Application says about itself.
struct App {
    name: String,
    folder: String,
    self_heal: bool,
    is_synced: bool,
    resources: Vec<Target>,
}

impl Running {
    /// Does what was asked; returns the lines to print. `{program}` and `{data}` in them
    /// stand for how the client was called.
    pub(crate) async fn act(&self, request: &Request) -> anyhow::Result<Vec<String>> {
        let app = self.app(&request.app).await?;
        match request.action {
            Action::Break => self.break_app(&app).await,
            Action::Fix => self.fix(&app).await,
            Action::Drift => self.drift(&app).await,
            Action::Scale(replicas) => self.scale(&app, replicas).await,
        }
    }

    async fn break_app(&self, app: &App) -> anyhow::Result<Vec<String>> {
        if self.repository.open_break(&app.name).await?.is_some() {
            bail!("{0} is broken already; `{{program}} demo fix {0}{{data}}` takes it back", app.name);
        }
        let mut change = None;
        for path in self.files(app).await? {
            let Some(text) = self.repository.read(BRANCH, &path).await? else { continue };
            if let Some(edited) = edit::crash(&text) {
                change =
                    Some((path, edited, "its Pods crash", "new Pods crash, and the old ones go on serving"));
                break;
            }
        }
        let (path, text, what, effect) = change.unwrap_or_else(|| {
            let path = format!("{}/broken.yaml", app.folder).trim_start_matches("./").to_owned();
            (
                path,
                UNREADABLE.to_owned(),
                "a file that cannot be read",
                "an error is shown, and nothing is touched",
            )
        });
        let message = message("break", &app.name, &format!("Break {}: {what}", app.name));
        let commit = self.push(&message, &[(path.clone(), Some(text))]).await?;
        Ok(vec![
            format!("pushed {commit}: {path} now has {what}"),
            format!("what happens: {effect}"),
            format!("take it back: {{program}} demo fix {}{{data}}", app.name),
        ])
    }

    async fn fix(&self, app: &App) -> anyhow::Result<Vec<String>> {
        if let Some(broken) = self.repository.open_break(&app.name).await? {
            let changes = self.repository.before(&broken).await?;
            let paths: Vec<_> = changes.iter().map(|(path, _)| path.as_str()).collect();
            let message = message("fix", &app.name, &format!("Fix {}: as it was before", app.name));
            let commit = self.push(&message, &changes).await?;
            return Ok(vec![
                format!("pushed {commit}: {} as before the break", paths.join(", ")),
                "what happens: the cluster follows, and the application is healthy again".to_owned(),
            ]);
        }
        if app.is_synced {
            bail!("nothing to fix: {} is as Git says, and no commit broke it", app.name);
        }
        let operation = json!({"operation": {"initiatedBy": {"username": "demo"}, "sync": {}}});
        let target = Target::new(application_gvk(), NAMESPACE, &app.name);
        self.writer.merge_patch(&Permit::operator(target.key()), &target, None, &operation).await?;
        Ok(vec![
            format!("asked for a sync of {}", app.name),
            "what happens: the live objects become again what Git says".to_owned(),
        ])
    }

    async fn drift(&self, app: &App) -> anyhow::Result<Vec<String>> {
        let of = |kinds: &[&str]| app.resources.iter().find(|r| kinds.contains(&r.gvk.kind.as_str()));
        let (target, patch, what) = if let Some(target) = of(&["Deployment", "StatefulSet"]) {
            let live = self.writer.get(target).await?;
            let replicas = live.and_then(|live| live.to_value().ok()?.pointer("/spec/replicas")?.as_u64());
            let (old, new) = (replicas.unwrap_or(1), replicas.unwrap_or(1).saturating_add(DRIFT));
            (target, json!({"spec": {"replicas": new}}), format!("replicas from {old} to {new}"))
        } else if let Some(target) = of(&["ConfigMap"]) {
            let live = self.writer.get(target).await?.map(|live| live.to_value()).transpose()?;
            let data = live.as_ref().and_then(|live| live.get("data")?.as_object());
            let Some(key) = data.and_then(|data| data.keys().next().cloned()) else {
                bail!("the ConfigMap {} of {} has no data to change", target.name, app.name);
            };
            let what = format!("data.{key} to \"changed by hand\"");
            (target, json!({"data": {key: "changed by hand"}}), what)
        } else {
            bail!(
                "{} has no Deployment, StatefulSet or ConfigMap that could drift; try another one",
                app.name
            );
        };
        // The person at the terminal changes this, as `kubectl` would: no project governs it.
        self.writer.merge_patch(&Permit::operator(target.key()), target, None, &patch).await?;
        let effect = if app.self_heal {
            "self-heal is on: Tiphys sets it back".to_owned()
        } else {
            format!(
                "self-heal is off: {0} stays OutOfSync until `{{program}} demo fix {0}{{data}}` syncs it",
                app.name
            )
        };
        let (kind, ns, name) = (&target.gvk.kind, &target.namespace, &target.name);
        Ok(vec![
            format!("changed {kind} {ns}/{name} in the cluster, not in Git: {what}"),
            format!("what happens: {effect}"),
        ])
    }

    async fn scale(&self, app: &App, replicas: Option<u32>) -> anyhow::Result<Vec<String>> {
        for path in self.files(app).await? {
            let Some(text) = self.repository.read(BRANCH, &path).await? else { continue };
            let Some((edited, old, new)) = edit::scale(&text, replicas) else { continue };
            if old == new {
                bail!("{path} has {old} replicas already");
            }
            let message = format!("Scale {} from {old} to {new} replicas", app.name);
            let commit = self.push(&message, &[(path.clone(), Some(edited))]).await?;
            return Ok(vec![
                format!("pushed {commit}: replicas in {path} from {old} to {new}"),
                "what happens: Git is what counts, and the cluster follows".to_owned(),
            ]);
        }
        bail!("{} has no file with a number of replicas; try another one", app.name)
    }

    /// Commits and announces; returns the short name of the commit.
    pub(crate) async fn push(&self, message: &str, changes: &[Change]) -> anyhow::Result<String> {
        let commit = self.repository.commit(message, changes).await?;
        self.server.announce().await;
        Ok(commit.chars().take(7).collect())
    }

    async fn files(&self, app: &App) -> anyhow::Result<Vec<String>> {
        self.repository.files(&app.folder).await
    }

    async fn app(&self, name: &str) -> anyhow::Result<App> {
        let target = Target::new(application_gvk(), NAMESPACE, name);
        let found = self.writer.get(&target).await.context("the embedded API does not answer")?;
        let Some(found) = found else {
            let names = self.applications.borrow().keys().cloned().collect::<Vec<_>>().join(", ");
            bail!("there is no application {name:?}; there are {names}");
        };
        let value = found.to_value()?;
        let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or("");
        if text("/spec/source/repoURL") != self.url {
            bail!("{name} does not come from the demo's repository {}", self.url);
        }
        let resources = value.pointer("/status/resources").and_then(Value::as_array);
        Ok(App {
            name: name.to_owned(),
            folder: text("/spec/source/path").to_owned(),
            self_heal: value.pointer("/spec/syncPolicy/automated/selfHeal") == Some(&Value::Bool(true)),
            is_synced: text("/status/sync/status") == "Synced",
            resources: resources.into_iter().flatten().map(target_of).collect(),
        })
    }
}

/// The object that a row of `status.resources` means.
fn target_of(row: &Value) -> Target {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or("");
    let gvk = Gvk::new(text("group"), text("version"), text("kind"));
    Target::new(gvk, text("namespace"), text("name"))
}
