//! Projects: what a call would change (REP C13).
//!
//! What a project permits is decided in `tiphys-policy`; here stands when a project may be stored or deleted, and in
//! which form it is stored.

mod reach;
mod shell;
#[cfg(test)]
mod tests;
pub mod token;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tiphys_api::application::Application;
use tiphys_api::cluster::Clusters;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_api::project::{DEFAULT_PROJECT, JwtToken, JwtTokens};
use tiphys_api::{AppProject, printable};
use tiphys_object::{Object, access};
use tiphys_policy::project::{self as rules, EffectiveInputs, Violation, effective, normalized_policy};
use tiphys_policy::spec_check::{Facts, ProjectLookup, permits_destination, permits_sources};
use tiphys_policy::window::stored_zone;

use crate::change::{Change, Sealed, Seen};
use crate::error::Code;

pub use shell::Projects;

/// Bytes of a project as JSON.
const BYTES_MAX: usize = 1 << 20;

/// Why a call about a project fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// There is no name.
    #[error("project name is missing")]
    MissingName,
    /// The name or a text of one line has a control character.
    #[error("{0} has a line break or another control character, remove it")]
    Control(String),
    /// It is larger than what is stored.
    #[error("project has {0} bytes, at most {BYTES_MAX} are stored")]
    TooLong(usize),
    /// A rule about projects is broken (REP-205, REP-206).
    #[error("{0}")]
    Violation(Violation),
    /// It exists with other rules (REP-207).
    #[error(
        "existing project spec is different; use upsert flag to force update; difference in keys \"{}\"", .0.join(",")
    )]
    Different(Vec<String>),
    /// There is none of this name.
    #[error("appprojects.{GROUP} \"{0}\" not found")]
    NotFound(String),
    /// The stored object is no project.
    #[error("project {name} cannot be read: {reason}")]
    Unreadable {
        /// Which.
        name: String,
        /// Why.
        reason: String,
    },
    /// It has no such role (REP-164).
    #[error("project '{project}' does not have role '{role}'")]
    NoRole {
        /// The project.
        project: String,
        /// The role.
        role: String,
    },
    /// Another token has the id (REP-164).
    #[error("Token id '{0}' has been used. ")]
    UsedTokenId(String),
    /// Applications would not be permitted any more (REP-208).
    #[error("as a result of project update {}", broken(*.sources, *.destinations))]
    Breaks {
        /// Applications whose sources would be refused.
        sources: usize,
        /// Applications whose destinations would be refused.
        destinations: usize,
    },
    /// It is always there (REP-209).
    #[error("name '{DEFAULT_PROJECT}' is reserved and cannot be deleted")]
    Reserved,
    /// Applications use it (REP-209).
    #[error("project is referenced by {0} applications")]
    Referenced(usize),
}

fn broken(sources: usize, destinations: usize) -> String {
    let parts = [(sources, "source"), (destinations, "destination")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, what)| format!("{count} applications {what} became invalid")).collect();
    parts.join(" and ")
}

impl ProjectError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::Violation(violation) => match violation.code {
                rules::Code::InvalidArgument => Code::InvalidArgument,
                rules::Code::AlreadyExists => Code::AlreadyExists,
                rules::Code::OutOfRange => Code::OutOfRange,
            },
            Self::NotFound(_) | Self::NoRole { .. } => Code::NotFound,
            Self::Unreadable { .. } => Code::FailedPrecondition,
            Self::MissingName
            | Self::Control(_)
            | Self::TooLong(_)
            | Self::UsedTokenId(_)
            | Self::Different(_)
            | Self::Breaks { .. }
            | Self::Reserved
            | Self::Referenced(_) => Code::InvalidArgument,
        }
    }
}

/// What surrounds a project: what it becomes with the settings, and who uses it.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// What the effective project is made of.
    pub inputs: EffectiveInputs<'a>,
    /// All clusters, the local one included.
    pub clusters: &'a Clusters,
    /// All applications of enabled namespaces.
    pub applications: &'a [Application],
    /// The control plane's namespace.
    pub namespace: &'a str,
}

/// Reads a stored project.
///
/// # Errors
/// When it is none.
pub fn read(object: &Object) -> Result<AppProject, ProjectError> {
    serde_json::from_slice(&object.raw()).map_err(|error| ProjectError::Unreadable {
        name: object.name().to_owned(),
        reason: error.to_string(),
    })
}

/// A project in the form in which it is stored: valid, policies with one blank after each comma (REP-163), windows with
/// a zone (REP-176), tokens alike in spec and status (REP-164).
///
/// # Errors
/// With the first rule that it breaks.
pub fn prepared(wanted: &AppProject) -> Result<AppProject, ProjectError> {
    if wanted.name().is_empty() {
        return Err(ProjectError::MissingName);
    }
    check_texts(wanted)?;
    rules::validate(wanted).map_err(ProjectError::Violation)?;
    let mut project = wanted.clone();
    for role in &mut project.spec.roles {
        for policy in &mut role.policies {
            *policy = normalized_policy(policy);
        }
    }
    for window in project.spec.sync_windows.iter_mut().flatten() {
        window.time_zone = stored_zone(&window.time_zone).to_owned();
    }
    level_tokens(&mut project);
    Ok(project)
}

/// Texts of one line are one line, and the whole is not too large.
fn check_texts(project: &AppProject) -> Result<(), ProjectError> {
    let spec = &project.spec;
    let bytes = serde_json::to_vec(project).map_or(0, |bytes| bytes.len());
    if bytes > BYTES_MAX {
        return Err(ProjectError::TooLong(bytes));
    }
    let named = |what: &str, texts: Vec<&String>| {
        let bad = texts.into_iter().any(|text| *printable::line(text) != **text);
        if bad { Err(ProjectError::Control(what.to_owned())) } else { Ok(()) }
    };
    named("project name", vec![&project.metadata.name])?;
    named("a source repository", spec.source_repos.iter().collect())?;
    named("a source namespace", spec.source_namespaces.iter().collect())?;
    let parts = spec.destinations.iter().flat_map(|it| [&it.server, &it.namespace, &it.name]);
    named("a destination", parts.collect())?;
    named("a policy of a role", spec.roles.iter().flat_map(|role| &role.policies).collect())
}

/// Tokens of spec and status become one list, newest first; those of vanished roles go (REP-164).
fn level_tokens(project: &mut AppProject) {
    let mut by_role: BTreeMap<String, JwtTokens> = std::mem::take(&mut project.status.jwt_tokens_by_role);
    let mut levelled = BTreeMap::new();
    for role in &mut project.spec.roles {
        let mut items = by_role.remove(&role.name).unwrap_or_default().items;
        for token in std::mem::take(&mut role.jwt_tokens) {
            if !items.iter().any(|other| is_same_token(other, &token)) {
                items.push(token);
            }
        }
        // A token without id is known by its time.
        for token in &mut items {
            if token.id.is_empty() {
                token.id = token.iat.to_string();
            }
        }
        items.sort_by_key(|token| std::cmp::Reverse(token.iat));
        if !items.is_empty() {
            role.jwt_tokens.clone_from(&items);
            levelled.insert(role.name.clone(), JwtTokens { items });
        }
    }
    project.status.jwt_tokens_by_role = levelled;
}

fn is_same_token(a: &JwtToken, b: &JwtToken) -> bool {
    let id = |token: &JwtToken| if token.id.is_empty() { token.iat.to_string() } else { token.id.clone() };
    a.iat == b.iat && id(a) == id(b)
}

/// What creating a project changes (REP-207): nothing when its spec is the stored one, the stored one with `upsert`.
///
/// # Errors
/// When it is not valid, or exists and is different.
pub fn plan_create(
    stored: Option<&Object>,
    wanted: &AppProject,
    upsert: bool,
    around: &Surroundings<'_>,
) -> Result<Change, ProjectError> {
    let wanted = prepared(wanted)?;
    let Some(object) = stored else {
        return Ok(Change::Create(Sealed::new(manifest(&wanted, around.namespace)?)));
    };
    let existing = read(object)?;
    let differing = differing_keys(&existing, &wanted)?;
    if differing.is_empty() {
        return Ok(Change::Keep);
    }
    if !upsert {
        return Err(ProjectError::Different(differing));
    }
    let merged = AppProject { spec: wanted.spec, ..existing };
    plan_update(object, &merged, around)
}

/// What storing a project instead of the stored one changes (REP-208). Labels, annotations and whatever else the
/// object has stay.
///
/// # Errors
/// When it is not valid, or applications would not be permitted any more.
pub fn plan_update(
    object: &Object,
    wanted: &AppProject,
    around: &Surroundings<'_>,
) -> Result<Change, ProjectError> {
    let wanted = prepared(wanted)?;
    let stored = read(object)?;
    if stored.spec == wanted.spec && stored.status == wanted.status {
        return Ok(Change::Keep);
    }
    check_applications(&stored, &wanted, around)?;
    let unreadable = |error: &dyn std::fmt::Display| ProjectError::Unreadable {
        name: object.name().to_owned(),
        reason: error.to_string(),
    };
    let mut value = object.to_value().map_err(|error| unreadable(&error))?;
    let members = access::ensure_object(&mut value);
    members
        .insert("spec".to_owned(), serde_json::to_value(&wanted.spec).map_err(|error| unreadable(&error))?);
    let status = serde_json::to_value(&wanted.status).map_err(|error| unreadable(&error))?;
    if members.contains_key("status") || status != json!({}) {
        members.insert("status".to_owned(), status);
    }
    Ok(Change::Replace(Seen::of(object), Sealed::new(value)))
}

/// What deleting a project changes (REP-209).
///
/// # Errors
/// When it is the default one, applications use it, or there is none.
pub fn plan_delete(
    object: Option<&Object>,
    name: &str,
    applications: &[Application],
) -> Result<Change, ProjectError> {
    if name == DEFAULT_PROJECT {
        return Err(ProjectError::Reserved);
    }
    let object = object.ok_or_else(|| ProjectError::NotFound(name.to_owned()))?;
    match applications.iter().filter(|app| app.project() == name).count() {
        0 => Ok(Change::Delete(Seen::of(object))),
        used => Err(ProjectError::Referenced(used)),
    }
}

/// Counts the applications that were permitted and would not be (REP-208). Deviation (REP-209): all sources count, and
/// what scoped repositories, clusters and global projects add.
fn check_applications(
    stored: &AppProject,
    wanted: &AppProject,
    around: &Surroundings<'_>,
) -> Result<(), ProjectError> {
    let name = stored.name();
    let (before, after) = (effective(stored, &around.inputs), effective(wanted, &around.inputs));
    let matching = around.inputs.settings.project_matching();
    let facts = |project| Facts {
        project: ProjectLookup::Found(project),
        clusters: Ok(around.clusters),
        matching,
        control_plane_namespace: around.namespace,
    };
    let (mut sources, mut destinations) = (0, 0);
    for app in around.applications.iter().filter(|app| app.project() == name) {
        if permits_sources(app, &before, matching) && !permits_sources(app, &after, matching) {
            sources += 1;
        }
        if permits_destination(app, &before, &facts(&before))
            && !permits_destination(app, &after, &facts(&after))
        {
            destinations += 1;
        }
    }
    if sources + destinations == 0 { Ok(()) } else { Err(ProjectError::Breaks { sources, destinations }) }
}

fn spec_members(project: &AppProject) -> Result<Map<String, Value>, ProjectError> {
    match serde_json::to_value(&project.spec) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Ok(Map::new()),
        Err(error) => {
            Err(ProjectError::Unreadable { name: project.name().to_owned(), reason: error.to_string() })
        }
    }
}

/// Members of the spec in which two projects differ, sorted.
fn differing_keys(stored: &AppProject, wanted: &AppProject) -> Result<Vec<String>, ProjectError> {
    let (stored, wanted) = (spec_members(stored)?, spec_members(wanted)?);
    let all: std::collections::BTreeSet<&String> = stored.keys().chain(wanted.keys()).collect();
    Ok(all.into_iter().filter(|key| stored.get(*key) != wanted.get(*key)).cloned().collect())
}

/// A new object.
fn manifest(project: &AppProject, namespace: &str) -> Result<Value, ProjectError> {
    let metadata = &project.metadata;
    let mut value = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "AppProject",
        "metadata": {"name": metadata.name, "namespace": namespace},
        "spec": spec_members(project)?,
    });
    let members = access::metadata_mut(&mut value);
    for (key, map) in [("labels", &metadata.labels), ("annotations", &metadata.annotations)] {
        if !map.is_empty() {
            members.insert(key.to_owned(), json!(map));
        }
    }
    if !metadata.finalizers.is_empty() {
        members.insert("finalizers".to_owned(), json!(metadata.finalizers));
    }
    Ok(value)
}
