//! The status of a set: conditions, health, resources (ASET section 6).

use jiff::Timestamp;
use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_api::application::{HealthStatus, ResourceStatus};
use tiphys_api::applicationset::{ApplicationSetCondition, ApplicationSetStatus, RolloutApplicationStatus};
use tiphys_api::codes::{HealthCode, RolloutPhase, SetConditionType, SetReason};
use tiphys_api::names::{GROUP, VERSION};
use tiphys_object::merge_patch;

use crate::live::LiveApplication;
use crate::text::cut;

/// Bytes of a condition's text.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
/// Bytes that a status may come to; the API server takes one and a half million.
pub const STATUS_BYTES_MAX: usize = 1_000_000;
/// Bytes of a whole set without its managed fields.
const SET_BYTES_MAX: usize = 1_450_000;

/// A condition that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// Type.
    pub kind: SetConditionType,
    /// Whether it holds.
    pub holds: bool,
    /// Reason, for machines.
    pub reason: SetReason,
    /// Text for people.
    pub message: String,
}

impl Evaluated {
    /// One that holds.
    pub fn yes(kind: SetConditionType, reason: SetReason, message: impl Into<String>) -> Self {
        Self { kind, holds: true, reason, message: message.into() }
    }

    /// One that does not.
    pub fn no(kind: SetConditionType, reason: SetReason, message: impl Into<String>) -> Self {
        Self { kind, holds: false, reason, message: message.into() }
    }
}

/// The conditions of a look that found nothing wrong (ASET-151).
pub fn success() -> Vec<Evaluated> {
    let text = "All applications have been generated successfully";
    vec![
        Evaluated::no(SetConditionType::ErrorOccurred, SetReason::ApplicationSetUpToDate, text),
        parameters_generated(),
        Evaluated::yes(SetConditionType::ResourcesUpToDate, SetReason::ApplicationSetUpToDate, text),
    ]
}

/// The conditions of a look that failed (ASET-151).
pub fn failure(reason: SetReason, message: &str) -> Vec<Evaluated> {
    let error = SetReason::ErrorOccurred;
    let is_of_generation = matches!(
        reason,
        SetReason::ApplicationGenerationFromParamsError
            | SetReason::RenderTemplateParamsError
            | SetReason::ApplicationSetProjectError
            | SetReason::ApplicationSetUnscopedNotAllowed
    );
    let parameters = if is_of_generation {
        Evaluated::no(SetConditionType::ParametersGenerated, error, message)
    } else {
        parameters_generated()
    };
    vec![
        Evaluated::yes(SetConditionType::ErrorOccurred, reason, message),
        parameters,
        Evaluated::no(SetConditionType::ResourcesUpToDate, error, message),
    ]
}

fn parameters_generated() -> Evaluated {
    let reason = SetReason::ParametersGenerated;
    Evaluated::yes(
        SetConditionType::ParametersGenerated,
        reason,
        "Successfully generated parameters for all Applications",
    )
}

/// A time as it is stored: whole seconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or(time);
    seconds.to_string()
}

/// The conditions after a look: those that were looked at are new, those that are gone are removed, others stay
/// (ASET-152).
pub fn next_conditions(
    before: &[ApplicationSetCondition],
    evaluated: &[Evaluated],
    removed: &[SetConditionType],
    now: Timestamp,
) -> Vec<ApplicationSetCondition> {
    let is_replaced = |condition: &&ApplicationSetCondition| {
        evaluated.iter().any(|new| condition.r#type == new.kind)
            || removed.iter().any(|kind| condition.r#type == *kind)
    };
    let mut next: Vec<ApplicationSetCondition> = before.iter().filter(|c| !is_replaced(c)).cloned().collect();
    for new in evaluated {
        let mut condition = ApplicationSetCondition {
            r#type: new.kind.into(),
            status: if new.holds { "True" } else { "False" }.to_owned(),
            reason: new.reason.into(),
            message: cut(&new.message, MESSAGE_BYTES_MAX),
            last_transition_time: Some(rfc3339(now)),
        };
        if let Some(old) = before.iter().find(|old| old.r#type == condition.r#type) {
            let same = old.status == condition.status
                && old.reason == condition.reason
                && old.message == condition.message;
            if same {
                condition.last_transition_time.clone_from(&old.last_transition_time);
            }
        }
        next.push(condition);
    }
    next.sort_by(|a, b| a.r#type.cmp(&b.r#type));
    next
}

/// The conditions in one word (ASET-153).
pub fn health(conditions: &[ApplicationSetCondition]) -> HealthStatus {
    let holding = |kind: SetConditionType| {
        conditions.iter().find(|condition| condition.r#type == kind && condition.status == "True")
    };
    let of = |code: HealthCode, message: &str| HealthStatus {
        status: code.into(),
        message: message.to_owned(),
        ..HealthStatus::default()
    };
    if conditions.is_empty() {
        return of(HealthCode::Unknown, "No status conditions found for ApplicationSet");
    }
    for (kind, code) in [
        (SetConditionType::ErrorOccurred, HealthCode::Degraded),
        (SetConditionType::RolloutProgressing, HealthCode::Progressing),
        (SetConditionType::DeletionProgressing, HealthCode::Progressing),
        (SetConditionType::ResourcesUpToDate, HealthCode::Healthy),
    ] {
        if let Some(condition) = holding(kind) {
            return of(code, &condition.message);
        }
    }
    of(HealthCode::Unknown, "Waiting for health status to be determined")
}

/// The entries of live Applications, sorted by name (ASET-154).
pub fn resources<'a>(live: impl IntoIterator<Item = &'a LiveApplication>) -> Vec<ResourceStatus> {
    let entry = |application: &LiveApplication| ResourceStatus {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        kind: "Application".to_owned(),
        name: application.name.clone(),
        namespace: application.namespace.clone(),
        status: application.status.sync.clone(),
        health: (!application.status.health.is_empty())
            .then(|| HealthStatus { status: application.status.health.clone(), ..HealthStatus::default() }),
        ..ResourceStatus::default()
    };
    let mut entries: Vec<ResourceStatus> = live.into_iter().map(entry).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// Bytes of lists for which the rest of a set leaves room.
pub fn room(set: &ApplicationSet) -> usize {
    let rest = (&set.metadata, &set.spec, &set.status.conditions);
    let rest = serde_json::to_vec(&rest).map_or(0, |bytes| bytes.len());
    SET_BYTES_MAX.saturating_sub(rest).min(STATUS_BYTES_MAX)
}

/// Cuts what a status lists until it can be stored. The state of a roll-out is needed and stays, but for texts about
/// those that have arrived; resources are only shown, and their number is stored beside them. `bytes_max` comes from
/// [`room`].
pub fn bound(status: &mut ApplicationSetStatus, resources_max: Option<usize>, bytes_max: usize) {
    if let Some(max) = resources_max {
        status.resources.truncate(max);
    }
    let size_of = |entries: &[RolloutApplicationStatus]| entries.iter().map(entry_size).sum::<usize>();
    if size_of(&status.application_status) > bytes_max {
        for entry in
            status.application_status.iter_mut().filter(|entry| entry.status == RolloutPhase::Healthy)
        {
            entry.message.clear();
        }
    }
    let mut left = bytes_max.saturating_sub(size_of(&status.application_status));
    let fits = status.resources.iter().take_while(|resource| {
        let size = resource_size(resource);
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    let count = fits.count();
    status.resources.truncate(count);
}

/// What an entry takes as JSON, with room to spare.
fn entry_size(entry: &RolloutApplicationStatus) -> usize {
    let revisions: usize = entry.target_revisions.iter().map(|revision| revision.len() + 3).sum();
    let texts = entry.application.len() + entry.message.len() + entry.status.len() + entry.step.len();
    150 + texts + revisions
}

fn resource_size(resource: &ResourceStatus) -> usize {
    let health = resource.health.as_ref().map_or(0, |health| health.status.len() + 25);
    110 + resource.name.len() + resource.namespace.len() + resource.status.len() + health
}

/// The merge patch that makes the stored status the new one; `None` when they are equal. `stored` is as it was read:
/// entries that older writers left incomplete are written anew (ASET-5).
pub fn status_patch(stored: &Value, status: &ApplicationSetStatus) -> Option<Value> {
    // A status has no part that JSON lacks.
    let new = serde_json::to_value(status).unwrap_or_default();
    let patch = merge_patch::create(stored, &new).ok()?;
    let is_empty = patch.as_object().is_none_or(serde_json::Map::is_empty);
    (!is_empty).then(|| serde_json::json!({"status": patch}))
}

/// Whether a condition of the type is stored and holds for a reason.
pub(crate) fn holds_because(
    conditions: &[ApplicationSetCondition],
    kind: SetConditionType,
    reason: SetReason,
) -> bool {
    let same = |condition: &&ApplicationSetCondition| {
        condition.r#type == kind && condition.status == "True" && condition.reason == reason
    };
    conditions.iter().any(|condition| same(&condition))
}

#[cfg(test)]
mod tests;
