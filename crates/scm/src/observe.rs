//! What is told about questions to GitHub, for metrics (ASET-311).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

/// The set that asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A question to GitHub that was answered, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubRequest<'r> {
    /// Whose it was.
    pub set: &'r SetName,
    /// The method.
    pub method: &'r str,
    /// The path, with names of variables where names are: `/orgs/{org}/repos`.
    pub endpoint: &'r str,
    /// The status; nothing when there was no answer.
    pub status: Option<u16>,
    /// How long it took.
    pub duration: Duration,
    /// What is left of the limit, where the answer says so.
    pub rate_limit: Option<RateLimit>,
}

/// How often GitHub may be asked (`X-RateLimit-*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests that are left.
    pub remaining: i64,
    /// Requests in a period.
    pub limit: i64,
    /// Requests that were made.
    pub used: i64,
    /// Seconds until the period ends.
    pub reset_seconds: i64,
    /// Which limit it is, such as `core`.
    pub resource: String,
}

/// Is told about questions to GitHub.
pub trait Observer: Send + Sync {
    /// A question was asked.
    fn github(&self, request: &GithubRequest<'_>);
}

/// Who is told, about whose questions.
#[derive(Clone)]
pub(crate) struct Observed {
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) set: SetName,
}

/// A question as it was asked.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) endpoint: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) duration: Duration,
    pub(crate) headers: Option<&'a HeaderMap>,
    pub(crate) now: Timestamp,
}

impl Observed {
    pub(crate) fn tell(&self, asked: &Asked<'_>) {
        self.observer.github(&GithubRequest {
            set: &self.set,
            method: asked.method,
            endpoint: asked.endpoint,
            status: asked.status,
            duration: asked.duration,
            rate_limit: asked.headers.and_then(|headers| rate_limit(headers, asked.now)),
        });
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Observed").field("set", &self.set).finish_non_exhaustive()
    }
}

/// Names of limits that GitHub has; others would be labels of anybody's making.
const RESOURCES: [&str; 8] = [
    "core",
    "search",
    "code_search",
    "graphql",
    "integration_manifest",
    "dependency_snapshots",
    "scim",
    "code_scanning_upload",
];

fn rate_limit(headers: &HeaderMap, now: Timestamp) -> Option<RateLimit> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |name: &str| text(name).and_then(|digits| digits.trim().parse::<i64>().ok());
    let resource = text("x-ratelimit-resource").unwrap_or("core");
    let known = RESOURCES.iter().find(|known| **known == resource).copied().unwrap_or("other");
    Some(RateLimit {
        remaining: number("x-ratelimit-remaining")?,
        limit: number("x-ratelimit-limit")?,
        used: number("x-ratelimit-used").unwrap_or(0),
        reset_seconds: number("x-ratelimit-reset")?.saturating_sub(now.as_second()).max(0),
        resource: known.to_owned(),
    })
}
