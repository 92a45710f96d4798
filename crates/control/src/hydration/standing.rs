//! Whether an application may be hydrated, and whether the directory that it is hydrated to is its own (CTL-109, INV-16):
//! gathers the facts for `tiphys_lifecycle::hydration::ownership` and asks it. Looks, runs and rounds ask here.

use std::sync::Arc;

use tiphys_api::application::Hydrator;
use tiphys_api::names::annotation;
use tiphys_api::{AppProject, Application};
use tiphys_engine::tracking::qualified_name;
use tiphys_lifecycle::hydration::group;
use tiphys_lifecycle::hydration::ownership::{
    Age, BranchFacts, BranchId, Claim, Extent, Loss, Reader, Usage, claimed, held_since, loss, signed_claim,
    told,
};
use tiphys_lifecycle::hydration::record as decided;
use tiphys_policy::project::{namespace_enabled, namespace_permitted};
use tiphys_render::TreePath;

use super::record;
use crate::app_key::AppKey;
use crate::context::Context;
use crate::store::{AppEntry, BranchReader, Reads};
use crate::world::World;

/// The project of an application, where that admits it.
pub(super) fn project_of<'a>(world: &'a World, app: &Application) -> Result<&'a Arc<AppProject>, String> {
    let project = world.project(app.project()).map_err(|why| why.text(app.project()))?;
    let metadata = &app.metadata;
    let decision = namespace_permitted(project, &metadata.name, &metadata.namespace, &world.namespace);
    decision.message.map_or(Ok(project), Err)
}

/// Whether an application may be hydrated.
///
/// # Errors
/// Why not, in words for its own status alone.
pub(super) fn standing(
    context: &Context,
    world: &World,
    key: &AppKey,
    (app, hydrator): (&Application, &Hydrator),
) -> Result<(), String> {
    let project = project_of(world, app)?;
    if let Some(text) = group::refusal(hydrator, &|url| world.repository_refusal(project, url)) {
        return Err(text);
    }
    let Some(entry) = context.store.get(key) else { return Ok(()) };
    let (path, branches) = claimed(hydrator)?;
    for (branch, usage) in branches {
        let facts = Facts { context, world, branch: &branch, unread: None };
        let own = facts.claim(&entry, app.project(), (path.clone(), usage), hydrator);
        if let Some(loss) = loss(&own, &facts) {
            return Err(words(&loss, hydrator));
        }
    }
    Ok(())
}

/// The refusal of an application that stands, if its branch turns out to be the default branch of the repository: which
/// one that is, only the server says.
pub(super) fn default_branch_refusal(
    context: &Context,
    world: &World,
    key: &AppKey,
    (app, hydrator): (&Application, &Hydrator),
) -> Option<String> {
    if group::renders_default_branch(hydrator) {
        return Some(group::own_source(hydrator));
    }
    let entry = context.store.get(key)?;
    let (path, branches) = claimed(hydrator).ok()?;
    let (branch, usage) = branches.into_iter().find(|(_, usage)| *usage == Usage::Writes)?;
    let facts = Facts { context, world, branch: &branch, unread: None };
    let own = facts.claim(&entry, app.project(), (path, usage), hydrator);
    facts.is_precluded_by(&own, true).then(|| words(&Loss::Read, hydrator))
}

/// Why nothing is deployed from the branch of an application: its directory is another one's (INV-16). That others read
/// the branch keeps it from being written, and not from being synced.
pub(crate) fn foreign_directory(
    context: &Context,
    world: &World,
    key: &AppKey,
    app: &Application,
) -> Option<String> {
    let hydrator = app.spec.source_hydrator.as_ref()?;
    if !world.settings.controller().hydrator_enabled {
        return None;
    }
    // What names no directory is refused by itself.
    let (path, branches) = claimed(hydrator).ok()?;
    let entry = context.store.get(key)?;
    branches.into_iter().find_map(|(branch, usage)| {
        let facts = Facts { context, world, branch: &branch, unread: Some(key) };
        let own = facts.claim(&entry, app.project(), (path.clone(), usage), hydrator);
        loss(&own, &facts).map(|loss| words(&loss, hydrator))
    })
}

fn words(loss: &Loss, hydrator: &Hydrator) -> String {
    told(loss, hydrator, &|namespace, name| qualified_name(namespace, name).to_string())
}

/// Signs since when an application holds its directory, before it writes there for the first time (CTL-109). One claim is
/// decided after the other, so that two new ones do not both see none.
///
/// # Errors
/// When it does not stand any more, or that cannot be written.
pub(super) async fn hold(context: &Context, world: &World, key: &AppKey) -> Result<(), String> {
    let is_held = || -> Option<bool> {
        let entry = context.store.get(key)?;
        let hydrator = entry.parse().ok()?.spec.source_hydrator?;
        Some(since(world, &entry, &hydrator).is_some())
    };
    let Some(secret) = world.settings.secret("server.secretkey") else { return Ok(()) };
    if is_held().unwrap_or(true) {
        return Ok(());
    }
    let _one_at_a_time = context.hydrations.claims.lock().await;
    let Some(entry) = context.store.get(key) else { return Ok(()) };
    let Ok(app) = entry.parse() else { return Ok(()) };
    let Some(hydrator) = &app.spec.source_hydrator else { return Ok(()) };
    standing(context, world, key, (&app, hydrator))?;
    let uid = &entry.object.metadata().uid;
    let signed = signed_claim(secret.expose().as_bytes(), uid, hydrator, context.clock.now());
    match signed {
        Some(signed) => record::write(context, key, |app| decided::claim(app, &signed)).await,
        None => Ok(()),
    }
}

/// Since when an application is known to hold its directory.
fn since(world: &World, entry: &AppEntry, hydrator: &Hydrator) -> Option<jiff::Timestamp> {
    let secret = world.settings.secret("server.secretkey")?;
    let written = entry.object.annotation(annotation::HYDRATION_CLAIM);
    held_since(secret.expose().as_bytes(), &entry.object.metadata().uid, hydrator, written)
}

/// Facts about a branch, as the store and the projects have them.
struct Facts<'a> {
    context: &'a Context,
    world: &'a World,
    branch: &'a BranchId,
    /// An application that no reader precludes.
    unread: Option<&'a AppKey>,
}

impl Facts<'_> {
    fn claim(
        &self,
        entry: &AppEntry,
        project: &str,
        (path, usage): (TreePath, Usage),
        hydrator: &Hydrator,
    ) -> Claim {
        let age = Age { held_since: since(self.world, entry, hydrator), ..age(entry) };
        Claim { project: project.to_owned(), path, usage, age }
    }

    /// Whether an application counts: its namespace is worked on, and its project permits it and these repositories.
    fn is_permitted(&self, key: &AppKey, project: &str, urls: &[&str]) -> bool {
        let world = self.world;
        let Ok(project) = world.project(project) else { return false };
        namespace_enabled(&world.settings, &key.namespace, &world.namespace)
            && namespace_permitted(project, &key.name, &key.namespace, &world.namespace).permitted
            && urls.iter().all(|url| world.repository_refusal(project, url).is_none())
    }

    /// Whether a reader of the branch, or of the default branch, precludes a claim.
    fn is_precluded_by(&self, claim: &Claim, as_default: bool) -> bool {
        self.context.store.has_branch_reader(self.branch, as_default, &mut |read| {
            let project = &read.entry.declared.project;
            *project != claim.project.as_str()
                && reader(read).precludes(claim)
                && self.is_permitted(read.key, project, &[read.url])
        })
    }
}

impl BranchFacts for Facts<'_> {
    fn claims(&self, path: &TreePath) -> Vec<Claim> {
        let rivals = self.context.store.stakes(self.branch, Some(path)).into_iter();
        rivals
            .filter(|(key, stake, _)| {
                let [dry, sync] = &stake.urls;
                self.is_permitted(key, &stake.project, &[dry, sync])
            })
            .filter_map(|(_, stake, entry)| {
                let hydrator = entry.parse().ok()?.spec.source_hydrator?;
                Some(self.claim(&entry, &stake.project, (stake.path, stake.usage), &hydrator))
            })
            .collect()
    }

    fn is_precluded(&self, claim: &Claim) -> bool {
        let (namespace, name) = &claim.age.name;
        let is_unread = self.unread.is_some_and(|key| key.namespace == *namespace && key.name == *name);
        !is_unread && self.is_precluded_by(claim, false)
    }
}

fn age(entry: &AppEntry) -> Age {
    let object = &entry.object;
    Age {
        held_since: None,
        created: object.metadata().creation_timestamp.to_string(),
        name: (object.namespace().to_owned(), object.name().to_owned()),
    }
}

/// A plain or dry source as ownership sees it.
fn reader(read: &BranchReader<'_>) -> Reader {
    let extent = match &read.reads {
        Reads::Directory(path) => TreePath::parse(path).map_or(Extent::Branch, Extent::Directory),
        Reads::Branch => Extent::Branch,
    };
    Reader { project: read.entry.declared.project.to_string(), extent, age: age(read.entry) }
}
