//! When a window is active (REP-173..177).

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use tiphys_api::project::SyncWindow;
use tiphys_go::cron::Schedule;
use tiphys_go::duration;

/// Why a window cannot be judged. The texts are part of the interface (REP-178, 181).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// The schedule does not parse.
    #[error("cannot parse schedule '{schedule}': {reason}")]
    Schedule {
        /// As written.
        schedule: String,
        /// Cause.
        reason: String,
    },
    /// The duration does not parse.
    #[error("cannot parse duration '{duration}': {reason}")]
    Duration {
        /// As written.
        duration: String,
        /// Cause.
        reason: String,
    },
}

/// Whether the window is open (REP-175). The instants of start and end are outside.
pub fn is_active(window: &SyncWindow, now: Timestamp) -> Result<bool, WindowError> {
    let schedule = parse_schedule(&window.schedule)?;
    let length = parse_duration(&window.duration)?;
    // The wall clock of the zone, taken as if it were UTC: the length is measured on the wall clock.
    let offset = SignedDuration::from_secs(i64::from(zone(&window.time_zone).to_offset(now).seconds()));
    let wall = now.saturating_add(offset).unwrap_or(now);
    let from = wall.saturating_sub(length).unwrap_or(wall);
    // A schedule that never occurs counts as always open in the reference (REP-177).
    Ok(schedule.next_after(from).is_none_or(|start| start < wall))
}

pub(super) fn parse_schedule(text: &str) -> Result<Schedule, WindowError> {
    Schedule::parse(text, TimeZone::UTC)
        .map_err(|error| WindowError::Schedule { schedule: text.to_owned(), reason: error.to_string() })
}

pub(super) fn parse_duration(text: &str) -> Result<SignedDuration, WindowError> {
    duration::parse(text)
        .map_err(|error| WindowError::Duration { duration: text.to_owned(), reason: error.to_string() })
}

/// The name of a zone as it is stored: `UTC` for an empty or unknown one (REP-176).
pub fn stored_zone(name: &str) -> &str {
    match TimeZoneDatabase::bundled().get(name) {
        Ok(zone) if zone.iana_name() == Some(name) => name,
        _ => "UTC",
    }
}

/// The zone by its exact name; empty and unknown names mean UTC (REP-176).
fn zone(name: &str) -> TimeZone {
    // The database compiled in, so that the answer does not depend on the machine.
    match TimeZoneDatabase::bundled().get(name) {
        Ok(zone) if zone.iana_name() == Some(name) => zone,
        _ => TimeZone::UTC,
    }
}
