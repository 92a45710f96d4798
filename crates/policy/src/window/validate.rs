//! Rules about windows when a project is written (REP-181).

use std::collections::BTreeMap;

use jiff::Timestamp;
use tiphys_api::AppProject;
use tiphys_api::project::SyncWindow;

use super::schedule::{parse_duration, parse_schedule};
use crate::project::{Code, Violation};

const DESCRIPTION_BYTES_MAX: usize = 255;

/// Start of the search for an occurrence: the answer must not depend on the day. 2024-01-01, so that a leap day
/// lies within the five years that are searched.
const SEARCH_FROM_SECONDS: i64 = 1_704_067_200;

/// First violation among the windows, in order; `null` entries are skipped.
pub(crate) fn validate_all(project: &AppProject) -> Result<(), Violation> {
    let mut seen = BTreeMap::new();
    for (_, window) in project.windows() {
        let identity = identity(window);
        if let Some(hash) = seen.get(&identity) {
            return Err(Violation::exists(format!(
                "sync window with kind '{}', schedule '{}', and duration '{}' already exists (hash={hash}, duplicate detected)",
                window.kind, window.schedule, window.duration
            )));
        }
        let hash = tiphys_go::fnv::fnv1a_64(&identity);
        seen.insert(identity, hash);
        validate(window)?;
        if window.applications.is_empty() && window.clusters.is_empty() && window.namespaces.is_empty() {
            return Err(Violation::new(
                Code::OutOfRange,
                format!(
                    "window '{}':'{}':'{}' requires one of application, cluster or namespace",
                    window.kind, window.schedule, window.duration
                ),
            ));
        }
    }
    Ok(())
}

fn validate(window: &SyncWindow) -> Result<(), Violation> {
    if !["allow", "deny"].contains(&window.kind.as_str()) {
        return Err(Violation::invalid(format!(
            "kind '{}' mismatch: can only be allow or deny",
            window.kind
        )));
    }
    let schedule = parse_schedule(&window.schedule).map_err(|error| Violation::invalid(error.to_string()))?;
    parse_duration(&window.duration).map_err(|error| Violation::invalid(error.to_string()))?;
    if window.description.len() > DESCRIPTION_BYTES_MAX {
        return Err(Violation::invalid(format!(
            "description must not exceed {DESCRIPTION_BYTES_MAX} characters"
        )));
    }
    // Deviation (REP-177): the reference accepts it and then treats the window as always active.
    let from = Timestamp::from_second(SEARCH_FROM_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH);
    if schedule.next_after(from).is_none() {
        return Err(Violation::invalid(format!("schedule '{}' never occurs", window.schedule)));
    }
    Ok(())
}

/// What makes two windows the same; lists are ordered.
fn identity(window: &SyncWindow) -> String {
    serde_json::json!([
        window.kind,
        window.schedule,
        window.duration,
        window.applications,
        window.namespaces,
        window.clusters,
        window.time_zone,
        window.and_operator
    ])
    .to_string()
}
