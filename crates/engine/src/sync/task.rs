//! One thing a sync does.

use jiff::Timestamp;

use crate::hook::SyncPhase;

/// The mark on hooks: which operation, attempt and phase made them (INV-9).
pub fn operation_id(started_at: Timestamp, attempt: i64, phase: SyncPhase) -> String {
    format!("{started_at}#{attempt}#{phase}")
}
