//! `app/NAME`: an Application of the installation, with what stands for its repositories here (CLI-1030, CLI-1031).

use serde_json::Value;
use tiphys_engine::mask::SecretMask;

use super::targets::{self, Job, Repositories};
use crate::app::{self, Session};
use crate::core::{AppName, Instead, Marks, RenderPlan, Revisions, World, value_of};
use crate::failure::Failure;
use crate::flags::Parsed;

/// Flags that an Application of an installation leaves no room for, with the reason.
const FIXED: [(&str, &str); 6] = [
    ("set-option", "the settings are those of the installation"),
    ("name", "the Application has a name"),
    ("app-name", "the Application has a name"),
    ("project", "the Application has a project"),
    ("explain", "what is read is told for directories and files alone"),
    ("api-version", "it is --api-versions here"),
];

/// An Application, and its objects as `app manifests` shows them: Secrets are masked.
///
/// Sources that a directory stands for come from there, the others are fetched as the controller would. A server is asked
/// for its own manifests.
pub(super) async fn render(
    session: &Session<'_>,
    name: &str,
    marks: Option<Marks>,
    repositories: &Repositories,
) -> Result<(Job, Vec<Value>), Failure> {
    let flags = session.flags;
    if let Some((flag, why)) = FIXED.into_iter().find(|(flag, _)| flags.is_set(flag)) {
        return Err(Failure::generic(format!("app/{name}: --{flag} is not for a live Application: {why}")));
    }
    let core = session.connect().await?;
    let stored = core.application(&AppName::parse(name, &core.namespace)).await?;
    let world = World::load(&core).await?;
    let mut changed = stored.app.clone();
    let mut job = Job::of(format!("app/{name}"), stored.app.clone());
    targets::edit(&mut job, flags)?;
    if flags.is_set("namespace") {
        flags.text("namespace").clone_into(&mut job.spec.destination.namespace);
    }
    changed.spec = job.spec.clone();
    let count = changed.sources().len();
    if let Some(server) = core.server() {
        // Which revision is a question that a server answers.
        let mut asked = changed.spec.clone();
        let sources = asked.source.iter_mut().chain(&mut asked.sources);
        for (source, own) in sources.zip(stored.app.spec.source.iter().chain(&stored.app.spec.sources)) {
            source.target_revision.clone_from(&own.target_revision);
        }
        let is_changed = asked != stored.app.spec;
        if let Some(why) = refusal(flags, is_changed, marks.is_some()) {
            return Err(Failure::generic(format!(
                "app/{name}: {why}, and a server renders what it has itself"
            ))
            .hint("add `--core` to render here, with the rights of your kubeconfig"));
        }
        let revision = flags.text("revision").to_owned();
        let revisions = if revision.is_empty() || !changed.is_multi_source() {
            Revisions { single: revision, by_position: Vec::new() }
        } else {
            let positions = 1..=i64::try_from(count).unwrap_or_default();
            Revisions {
                single: String::new(),
                by_position: positions.map(|at| (at, revision.clone())).collect(),
            }
        };
        // It hides Secrets itself.
        return Ok((job, server.manifests(&stored.name(), &revisions).await?));
    }
    let revisions = match flags.text("revision") {
        "" if changed.spec == stored.app.spec => app::compared_revisions(&stored.app),
        given => vec![given.to_owned(); count],
    };
    let mut plan = revisions;
    plan.resize(count, String::new());
    let instead = Instead {
        directory: &|url| repositories.tree(url).ok(),
        kube_version: flags.text("kube-version"),
        api_versions: flags.texts("api-versions"),
        marks: marks.unwrap_or(Marks::Own),
    };
    let plan = RenderPlan::Revisions(plan);
    let rendered = core.render_instead(&changed, &world, (&plan, &instead), session.terminal).await?;
    let mask = SecretMask::from_settings(world.settings.cm());
    let mut values = Vec::with_capacity(rendered.objects.len());
    for object in &rendered.objects {
        let mut value = value_of(object)?;
        mask.hide(&mut [&mut value]).map_err(|error| Failure::generic(error.to_string()))?;
        values.push(value);
    }
    Ok((job, values))
}

/// Why a server cannot be asked for what these flags want.
fn refusal(flags: &Parsed, is_changed: bool, has_marks: bool) -> Option<String> {
    const HERE: [&str; 4] = ["repo", "repo-root", "kube-version", "api-versions"];
    if let Some(flag) = HERE.into_iter().find(|flag| flags.is_set(flag)) {
        return Some(format!("--{flag} is for what is rendered here"));
    }
    if has_marks {
        return Some("--tracking is for what is rendered here".to_owned());
    }
    is_changed.then(|| "the flags change its source or destination".to_owned())
}
