//! Logs by way of an API server (API-149..153).

use crate::core::{AppName, Remote};
use crate::failure::Failure;
use crate::server::Events;

use super::{path_of, word};

/// Which logs of an application are wanted; empty texts and zeros ask for all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogQuery<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) container: &'a str,
    pub(crate) is_followed: bool,
    pub(crate) tail_lines: i64,
    pub(crate) since_seconds: i64,
    pub(crate) until_time: &'a str,
    pub(crate) filter: &'a str,
    pub(crate) is_case_matched: bool,
    pub(crate) is_previous: bool,
}

impl Remote {
    /// Begins to read logs.
    pub(crate) async fn logs(&self, name: &AppName, wanted: &LogQuery<'_>) -> Result<Events, Failure> {
        let number = |number: i64| if number > 0 { number.to_string() } else { String::new() };
        let (tail, since) = (number(wanted.tail_lines), number(wanted.since_seconds));
        let query = [
            ("appNamespace", name.namespace.as_str()),
            ("group", wanted.group),
            ("kind", wanted.kind),
            ("resourceName", wanted.name),
            ("namespace", wanted.namespace),
            ("container", wanted.container),
            ("follow", word(wanted.is_followed)),
            ("tailLines", &tail),
            ("sinceSeconds", &since),
            ("untilTime", wanted.until_time),
            ("filter", wanted.filter),
            ("matchCase", word(wanted.is_case_matched)),
            ("previous", word(wanted.is_previous)),
        ];
        self.api.events(&path_of(name, &["logs"]), &query).await
    }
}
