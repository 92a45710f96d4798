//! `appset create` (CLI-602, CLI-607, ASET-300, ASET-301).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::ApplicationSet;
use tiphys_api::codes::SetConditionType;
use tiphys_appset::live::LiveApplication;
use tiphys_appset::permission::{self, ApiFacts};
use tiphys_appset::stale;
use tiphys_appset::status::resources;
use tiphys_object::access;

use super::{NAMESPACE, OUTPUT, generate, input, preview, show};
use crate::app::{Ended, OK, Session};
use crate::core::{AppName, Core, Outcome, StoredSet, World, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::machine_format;
use crate::remote;

/// Flags of `create`.
pub(super) const FLAGS: &[Flag] = &[
    flag("upsert", Kind::Bool, "false", "Change an ApplicationSet that exists"),
    flag("dry-run", Kind::Bool, "false", "Only show what would be stored, and the Applications of it"),
    flag("wait", Kind::Bool, "false", "Wait until the Applications are up to date"),
    flag("project", Kind::Text, "", "Project that the ApplicationSets are confined to"),
    OUTPUT,
    NAMESPACE,
];

/// `appset create`.
pub(super) async fn create(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let mut documents = Vec::new();
    for place in &flags.operands {
        documents.extend(input::sets_of(&remote::read(place).await?)?);
    }
    if documents.is_empty() {
        session.terminal.line("No ApplicationSets found while parsing the input file");
        return Ok(Ended::Code(1));
    }
    for document in &mut documents {
        let name = access::name(document).to_owned();
        if name.is_empty() {
            return Err(Failure::generic(
                "Error creating ApplicationSet. ApplicationSet does not have Name field set",
            ));
        }
        if input::put_namespace(document, flags.text("appset-namespace")) {
            let namespace = access::namespace(document);
            let text = format!(
                "ApplicationSet YAML file does not have namespace; using --appset-namespace=\"{namespace}\"."
            );
            if machine_format(flags.text("output")).is_some() {
                session.terminal.warn(&format!("{text}\n"));
            } else {
                session.terminal.line(&text);
            }
        }
        input::put_project(document, flags.text("project"))?;
    }
    let core = session.connect().await?;
    // A server checks by itself, and says what is odd.
    let world = match core.server() {
        Some(_) => None,
        None => Some(Arc::new(World::load(&core).await?)),
    };
    for document in documents {
        let mut desired = input::whole(document);
        input::put_namespace(&mut desired, &core.namespace);
        one(session, &core, world.as_ref(), &desired).await?;
    }
    Ok(OK)
}

async fn one(
    session: &Session<'_>,
    core: &Core,
    world: Option<&Arc<World>>,
    desired: &Value,
) -> Result<(), Failure> {
    let flags = session.flags;
    let (is_dry, upsert) = (flags.is_on("dry-run"), flags.is_on("upsert"));
    let set = input::read(desired)?;
    if let Some(world) = world {
        check(&set, world)?;
    }
    let name = AppName { namespace: set.metadata.namespace.clone(), name: set.metadata.name.clone() };
    let existing = core.find_set(&name).await?;
    let after = if let Some(world) = world {
        let change = Change { desired, set: &set, existing: existing.as_ref(), is_dry, upsert };
        store(session, core, world, change).await?
    } else {
        let (after, warnings) = core.by_server()?.create_set(desired, (upsert, is_dry)).await?;
        for warning in &warnings {
            session.warn(warning);
        }
        after
    };
    let is_other = existing.as_ref().map(|existing| permission::differs(&existing.set, &after.set));
    let verb = match is_other {
        None => "created",
        Some(false) => "unchanged",
        Some(true) if is_dry && !upsert => return Err(different()),
        Some(true) => "updated",
    };
    let suffix = if is_dry { " (dry-run)" } else { "" };
    session.terminal.warn(&format!("ApplicationSet '{}' {verb}{suffix}\n", name.name));
    show::show(session, &after, false)?;
    if flags.is_on("wait") && !is_dry {
        wait(core, &name).await?;
        session.terminal.warn(&format!("ApplicationSet '{}' resources are up to date\n", name.name));
    }
    Ok(())
}

/// What becomes of a set.
struct Change<'a> {
    desired: &'a Value,
    set: &'a ApplicationSet,
    existing: Option<&'a StoredSet>,
    is_dry: bool,
    upsert: bool,
}

/// Stores a set in Kubernetes, or finds out what that would come to.
async fn store(
    session: &Session<'_>,
    core: &Core,
    world: &Arc<World>,
    change: Change<'_>,
) -> Result<StoredSet, Failure> {
    let Change { desired, set, existing, is_dry, upsert } = change;
    let next = match existing {
        None => Some(desired.clone()),
        Some(stored) => decide(desired, set, stored, upsert)?,
    };
    if let (Some(stored), Some(next), false) = (existing, &next, is_dry) {
        left_behind(session, core, world, &stored.set, &input::read(next)?).await;
    }
    let after = match (existing, &next) {
        (Some(stored), None) => stored.clone(),
        (_, Some(next)) if is_dry => StoredSet::of(next)?,
        (None, _) => core.create_set(desired).await?,
        (Some(stored), Some(_)) => {
            let edit = |stored: &StoredSet| decide(desired, set, stored, upsert);
            core.change_set(&stored.name(), edit).await?
        }
    };
    if is_dry {
        let before = existing.map(|stored| &stored.set);
        return generated(session, core, world, before, &after).await;
    }
    Ok(after)
}

/// Checks a set as an API server does before it is stored (ASET-300). Who may is for Kubernetes to say.
pub(super) fn check(set: &ApplicationSet, world: &World) -> Result<(), Failure> {
    let project = |name: &str| world.projects.get(name).map(|project| &**project);
    let facts =
        ApiFacts { settings: &world.settings, project: &project, control_plane_namespace: &world.namespace };
    permission::validate(set, &facts)
        .map_err(|refusal| Failure::status(refusal.code.as_str(), &refusal.message))
}

/// The refusal of a set that exists and is another one (ASET-301). A dry run of a server does not look.
fn different() -> Failure {
    Failure::status(
        "InvalidArgument",
        "existing ApplicationSet spec is different, use upsert flag to force update",
    )
}

/// What replaces a set that exists; nothing where it is as wanted (ASET-301).
fn decide(
    desired: &Value,
    set: &ApplicationSet,
    stored: &StoredSet,
    upsert: bool,
) -> Result<Option<Value>, Failure> {
    if !permission::differs(&stored.set, set) {
        return Ok(None);
    }
    if !upsert {
        return Err(different());
    }
    let mut updated = value_of(&stored.object)?;
    access::ensure_object(&mut updated)
        .insert("spec".to_owned(), desired.get("spec").cloned().unwrap_or_default());
    for (key, value) in &set.metadata.labels {
        access::set_label(&mut updated, key, value);
    }
    for (key, value) in &set.metadata.annotations {
        access::set_annotation(&mut updated, key, value);
    }
    access::metadata_mut(&mut updated).insert("finalizers".to_owned(), json!(set.metadata.finalizers));
    // A set that only lacks labels which are merged over is as wanted.
    let is_same = permission::differs(&stored.set, &input::read(&updated)?);
    Ok(is_same.then_some(updated))
}

/// A set with the Applications that it generates in its status, as a dry run shows it (ASET-302). What would be left out
/// or deleted is said.
async fn generated(
    session: &Session<'_>,
    core: &Core,
    world: &Arc<World>,
    before: Option<&ApplicationSet>,
    stored: &StoredSet,
) -> Result<StoredSet, Failure> {
    let outcome = core.generator(world, session.terminal)?.generate(&stored.set).await?;
    generate::warn(session, &outcome.warnings, Some(&outcome.validation));
    let live = preview::stored_live(core, &stored.set, &outcome).await?;
    let applications = preview::applications_of(&live);
    let is_confined = before.is_some_and(|before| stale::confines(before, &stored.set));
    if let Some(warning) = stale_of(world, &stored.set, &outcome, &applications).filter(|_| is_confined) {
        session.warn(&warning);
    }
    let plan = outcome.plan(&applications, session.terminal.now())?;
    for removal in &plan.removals {
        session.warn(&format!("application '{}' would be deleted", removal.name));
    }
    let shown = outcome.applications.iter().map(|application| LiveApplication {
        name: application.metadata.name.clone(),
        namespace: application.metadata.namespace.clone(),
        ..LiveApplication::default()
    });
    let shown: Vec<LiveApplication> = shown.collect();
    let mut value = value_of(&stored.object)?;
    let status = access::ensure_object(&mut value).entry("status").or_insert_with(|| json!({}));
    access::ensure_object(status).insert("resources".to_owned(), json!(resources(&shown)));
    StoredSet::of(&value)
}

/// Says what adding a project to a set leaves behind, before it is stored: then they may be gone at once (ASET-285).
async fn left_behind(
    session: &Session<'_>,
    core: &Core,
    world: &Arc<World>,
    before: &ApplicationSet,
    after: &ApplicationSet,
) {
    if !stale::confines(before, after) {
        return;
    }
    let found = async {
        let outcome = core.generator(world, session.terminal)?.generate(after).await?;
        let live = preview::stored_live(core, after, &outcome).await?;
        Ok::<_, Failure>(stale_of(world, after, &outcome, &preview::applications_of(&live)))
    };
    let said = found.await.unwrap_or_else(|failure| Some(stale::unknown(after, &failure.message)));
    if let Some(warning) = &said {
        session.warn(warning);
    }
}

fn stale_of(
    world: &World,
    set: &ApplicationSet,
    outcome: &Outcome,
    live: &BTreeMap<String, LiveApplication>,
) -> Option<String> {
    let generated =
        outcome.applications.iter().map(|application| application.metadata.name.as_str()).collect();
    let owned = live.values().filter(|live| live.is_of(set)).map(|live| live.name.as_str());
    stale::warning(set, world.settings.application_sets(), &generated, owned)
}

/// Waits until the Applications of a set are up to date (CLI-602).
async fn wait(core: &Core, name: &AppName) -> Result<(), Failure> {
    core.follow_set(name, async |now| {
        let Some(now) = now else {
            return Err(Failure::generic(format!(
                "ApplicationSet \"{name}\" was deleted before reaching ResourcesUpToDate"
            )));
        };
        let mut conditions = now.set.status.conditions.iter();
        let is_it = conditions.any(|condition| {
            condition.r#type == SetConditionType::ResourcesUpToDate && condition.status == "True"
        });
        Ok(is_it.then_some(()))
    })
    .await
}
