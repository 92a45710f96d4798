//! How long ago something was, as `kubectl` shows it.

use jiff::Timestamp;
pub(super) use tiphys_go::duration::human;

/// The time from one moment to another; what is not a time is unknown.
pub(super) fn between(from: Option<Timestamp>, to: Timestamp) -> String {
    from.map_or_else(|| "<unknown>".to_owned(), |from| human(to.duration_since(from).as_secs()))
}
