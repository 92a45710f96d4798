//! Whether an application may be hydrated, and whether the directory that it is hydrated to is its own (CTL-109, INV-16):
//! gathers the facts for `tiphys_lifecycle::hydration::ownership` and asks it. Looks, runs and rounds ask here.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::application::Hydrator;
use tiphys_api::names::annotation;
use tiphys_api::{AppProject, Application};
use tiphys_engine::tracking::qualified_name;
use tiphys_lifecycle::hydration::group;
use tiphys_lifecycle::hydration::ownership::{
    Age, BranchFacts, BranchId, Claim, Extent, Loss, Reader, Usage, claimed, held_since, is_precluded, loss,
    signed_claim, told,
};
use tiphys_lifecycle::hydration::record as decided;
use tiphys_policy::project::{namespace_enabled, namespace_permitted};
use tiphys_render::TreePath;
use tiphys_source::Repository;

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

/// Signs since when an application holds its directory, before it writes there for the first time, and anew when the key
/// was changed (CTL-109). One claim is decided after the other, so that two new ones do not both see none.
///
/// # Errors
/// When it does not stand any more, or that cannot be written.
pub(super) async fn hold(context: &Context, world: &World, key: &AppKey) -> Result<(), NotHeld> {
    let Some(secret) = world.settings.secret("server.secretkey") else { return Ok(()) };
    let secret = secret.expose().as_bytes();
    let stored = || {
        let entry = context.store.get(key)?;
        let app = entry.parse().ok()?;
        let written = entry.object.annotation(annotation::HYDRATION_CLAIM);
        let hydrator = app.spec.source_hydrator.as_ref()?;
        let is_signed = held_since(secret, &entry.object.metadata().uid, hydrator, written).is_some();
        (!is_signed).then_some((entry, app))
    };
    let Some((_, app)) = stored() else { return Ok(()) };
    match default_branch(context, world, key, &app).await {
        Ok(None) => {}
        Ok(Some(text)) => return Err(NotHeld::Refused(text)),
        // Nothing is signed before that is known; it is found out once more before anything is pushed.
        Err(error) => {
            tracing::debug!(application = %key, error, "the default branch of a hydrated repository is not known");
            return Ok(());
        }
    }
    let _one_at_a_time = context.hydrations.claims.lock().await;
    let Some((entry, app)) = stored() else { return Ok(()) };
    let Some(hydrator) = &app.spec.source_hydrator else { return Ok(()) };
    standing(context, world, key, (&app, hydrator)).map_err(NotHeld::Refused)?;
    let since = since(context, world, &entry, hydrator).unwrap_or_else(|| context.clock.now());
    match signed_claim(secret, &entry.object.metadata().uid, hydrator, since) {
        Some(signed) => {
            let written = record::write(context, key, |app| decided::claim(app, &signed)).await;
            written.map_err(NotHeld::Unwritten)
        }
        None => Ok(()),
    }
}

/// Why a claim is not signed.
#[derive(Debug)]
pub(super) enum NotHeld {
    /// The application does not stand.
    Refused(String),
    /// The API server did not take it.
    Unwritten(String),
}

/// The refusal of an application whose branch is the default branch of its repository and must not be.
async fn default_branch(
    context: &Context,
    world: &World,
    key: &AppKey,
    app: &Application,
) -> Result<Option<String>, String> {
    let Some(hydrator) = &app.spec.source_hydrator else { return Ok(None) };
    let Some(refusal) = default_branch_refusal(context, world, key, (app, hydrator)) else { return Ok(None) };
    let url = &hydrator.sync_source().repo_url;
    let repository = Repository::from(&world.push_repository(url, &BTreeSet::from([app.project()]))?);
    let asked = context.sources.is_default_branch(&repository, hydrator.target_branch()).await;
    Ok(asked.map_err(|error| error.to_string())?.then_some(refusal))
}

/// Since when an application is known to hold its directory: the controller signed that with the present key, or with a
/// former one and was seen by this process to have done so.
fn since(context: &Context, world: &World, entry: &AppEntry, hydrator: &Hydrator) -> Option<Timestamp> {
    let secret = world.settings.secret("server.secretkey")?;
    let object = &entry.object;
    let written = object.annotation(annotation::HYDRATION_CLAIM)?;
    let key = AppKey::new(object.namespace(), object.name());
    let seen = || Signed {
        uid: object.metadata().uid.clone(),
        written: written.into(),
        claimed: claimed(hydrator).ok(),
    };
    let mut signed = context.hydrations.signed.lock();
    let valid = held_since(secret.expose().as_bytes(), &object.metadata().uid, hydrator, Some(written));
    if valid.is_some() {
        if signed.get(&key).is_none_or(|known| known.written != written) {
            signed.insert(key, seen());
        }
        return valid;
    }
    let is_known = signed.get(&key).is_some_and(|known| *known == seen());
    written.split_once(' ').filter(|_| is_known).and_then(|(since, _)| since.parse().ok())
}

/// A claim whose signature was verified once in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    uid: SmolStr,
    written: SmolStr,
    claimed: Option<(TreePath, Vec<(BranchId, Usage)>)>,
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
        let age = Age { held_since: self.since(entry, hydrator), ..age(entry) };
        Claim { project: project.to_owned(), path, usage, age }
    }

    fn since(&self, entry: &AppEntry, hydrator: &Hydrator) -> Option<Timestamp> {
        since(self.context, self.world, entry, hydrator)
    }

    /// Whether an application counts: its namespace is worked on, and its project permits it and these repositories.
    fn is_permitted(&self, key: &AppKey, project: &str, urls: &[&str]) -> bool {
        let world = self.world;
        let Ok(project) = world.project(project) else { return false };
        namespace_enabled(&world.settings, &key.namespace, &world.namespace)
            && namespace_permitted(project, &key.name, &key.namespace, &world.namespace).permitted
            && urls.iter().all(|url| world.repository_refusal(project, url).is_none())
    }

    /// Whether readers of the branch, or of the default branch, preclude a claim.
    fn is_precluded_by(&self, claim: &Claim, as_default: bool) -> bool {
        let mut affected = BTreeSet::new();
        self.context.store.has_branch_reader(self.branch, as_default, &mut |read| {
            let project = &read.entry.declared.project;
            let is_other = *project != claim.project.as_str();
            let reader = is_other.then(|| reader(read)).filter(|reader| reader.is_affected(claim));
            if let Some(reader) = reader.filter(|reader| !affected.contains(&reader.extent))
                && self.is_permitted(read.key, project, &[read.url])
            {
                affected.insert(reader.extent);
            }
            false
        });
        is_precluded(&affected, &|extent| self.is_held_in(&claim.project, extent))
    }

    /// Whether an application of a project is known to hold a directory that is read.
    fn is_held_in(&self, project: &str, extent: &Extent) -> bool {
        let stakes = self.context.store.stakes(self.branch, None).into_iter();
        stakes
            .filter(|(_, stake, _)| stake.project == project && stake.usage == Usage::Writes)
            .filter(|(_, stake, _)| extent.reads(&stake.path))
            .any(|(_, _, entry)| {
                let hydrator = entry.parse().ok().and_then(|app| app.spec.source_hydrator);
                hydrator.is_some_and(|hydrator| self.since(&entry, &hydrator).is_some())
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
