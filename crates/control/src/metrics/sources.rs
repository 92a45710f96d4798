//! What servers of sources are asked (CTL-123), and what is rendered (RND-249).
//!
//! Sources name repositories and revisions as they like, so both are bounded: beyond [`REPOSITORIES_MAX`] repositories, and
//! [`REVISIONS_MAX`] failed revisions of one, the others are counted together as [`OTHER`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use smol_str::SmolStr;
use tiphys_source::{Ended, Observer, Request};

use super::MismatchLabels;
use super::body::Body;
use crate::histogram::Histogram;

/// Repositories that are counted under their own names.
const REPOSITORIES_MAX: usize = 2_000;
/// Revisions of a repository whose failures are counted under their own names.
const REVISIONS_MAX: usize = 50;
/// What all others are counted as.
const OTHER: &str = "other";
/// Bounds of the seconds of a question.
const QUESTION: [f64; 8] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0];
/// Bounds of the seconds that a rendering waits for its turn.
const WAIT: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0, 60.0, 120.0];
/// Bounds of the seconds of a rendering.
const RENDERING: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0, 90.0];

/// Questions to servers. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceMetrics {
    /// By URL without credentials.
    repositories: Arc<Mutex<BTreeMap<SmolStr, Asked>>>,
}

/// What was asked about one repository.
#[derive(Debug, Default)]
struct Asked {
    /// Questions that are under way.
    pending: usize,
    seconds: BTreeMap<Request, Histogram>,
    failures: BTreeMap<(Request, SmolStr), u64>,
}

/// What one repository is counted under.
fn entry<'a>(all: &'a mut BTreeMap<SmolStr, Asked>, repository: &str) -> &'a mut Asked {
    let is_known = all.len() < REPOSITORIES_MAX || all.contains_key(repository);
    all.entry(SmolStr::new(if is_known { repository } else { OTHER })).or_default()
}

impl Observer for SourceMetrics {
    fn begins(&self, repository: &str, _request: Request) {
        entry(&mut self.repositories.lock(), repository).pending += 1;
    }

    fn ended(&self, repository: &str, request: Request, ended: Option<Ended<'_>>) {
        let mut all = self.repositories.lock();
        let asked = entry(&mut all, repository);
        asked.pending = asked.pending.saturating_sub(1);
        let Some(ended) = ended else { return };
        let seconds = asked.seconds.entry(request).or_insert_with(|| Histogram::new(&QUESTION));
        seconds.observe(ended.took.as_secs_f64());
        // Of commits nobody counts what failed; it is told with the hydration.
        if ended.has_failed && FAILURES.iter().any(|(_, of, _)| *of == request) {
            let key = (request, SmolStr::new(ended.revision));
            let is_known = asked.failures.len() < REVISIONS_MAX || asked.failures.contains_key(&key);
            let key = if is_known { key } else { (request, SmolStr::new_static(OTHER)) };
            *asked.failures.entry(key).or_default() += 1;
        }
    }
}

/// What questions are counted by.
const PROTOCOLS: [(&str, &[(Request, &str)]); 3] = [
    ("git", &[(Request::LsRemote, "ls-remote"), (Request::Fetch, "fetch")]),
    (
        "commitserver_git",
        &[(Request::CommitLsRemote, "ls-remote"), (Request::CommitFetch, "fetch"), (Request::Push, "push")],
    ),
    (
        "oci",
        &[
            (Request::OciTags, "get-tags"),
            (Request::OciResolve, "resolve-revision"),
            (Request::OciExtract, "extract"),
            (Request::OciMetadata, "digest-metadata"),
            (Request::OciTest, "test-repo"),
        ],
    ),
];

/// Families of failures, and whether they name the revision.
const FAILURES: [(&str, Request, bool); 7] = [
    ("argocd_git_lsremote_fail", Request::LsRemote, true),
    ("argocd_git_fetch_fail", Request::Fetch, true),
    ("argocd_oci_get_tags_fail", Request::OciTags, false),
    ("argocd_oci_resolve_revision_fail", Request::OciResolve, true),
    ("argocd_oci_extract_fail", Request::OciExtract, true),
    ("argocd_oci_digest_metadata_fail", Request::OciMetadata, true),
    ("argocd_oci_test_repo_fail", Request::OciTest, false),
];

impl SourceMetrics {
    /// Writes the families.
    pub(super) fn write(&self, body: &mut Body) {
        let all = self.repositories.lock();
        let name = "argocd_repo_pending_request_total";
        body.family(name, "gauge", "Number of questions about a repository that are under way");
        for (repository, asked) in all.iter() {
            body.sample(name, [("repo", repository.as_str())], asked.pending);
        }
        for (protocol, requests) in PROTOCOLS {
            let each = || {
                all.iter().flat_map(|(repository, asked)| {
                    let of = move |(request, word): &(Request, &'static str)| {
                        let labels = [("repo", repository.as_str()), ("request_type", *word)];
                        Some((labels, asked.seconds.get(request)?))
                    };
                    requests.iter().filter_map(of)
                })
            };
            let name = format!("argocd_{protocol}_request");
            body.family(&name, "counter", "Number of questions about a repository");
            for (labels, seconds) in each() {
                body.sample(&format!("{name}_total"), labels, seconds.count());
            }
            let name = format!("argocd_{protocol}_request_duration_seconds");
            body.family(&name, "histogram", "Seconds of a question about a repository");
            for (labels, seconds) in each() {
                body.histogram(&name, &labels, seconds);
            }
        }
        for (name, request, names_revision) in FAILURES {
            body.family(name, "counter", "Number of questions about a repository that failed");
            for (repository, asked) in all.iter() {
                for ((_, revision), count) in asked.failures.iter().filter(|((of, _), _)| *of == request) {
                    let revision = names_revision.then_some(("revision", revision.as_str()));
                    let labels = [("repo", repository.as_str())].into_iter().chain(revision);
                    body.sample(&format!("{name}_total"), labels, count);
                }
            }
        }
    }
}

/// What became of a question for a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It was there.
    Hit,
    /// It has to be made.
    Miss,
    /// The failure was there.
    ErrorCached,
}

/// Renderings. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct RenderMetrics {
    /// Sources that a program renders otherwise than this process.
    pub(crate) mismatches: Family<MismatchLabels, Counter>,
    shared: Arc<Rendered>,
}

#[derive(Debug)]
struct Rendered {
    hits: AtomicU64,
    misses: AtomicU64,
    errors_cached: AtomicU64,
    /// By tool and by who is it.
    seconds: Mutex<BTreeMap<(&'static str, &'static str), Histogram>>,
    waits: Mutex<Histogram>,
}

impl Default for Rendered {
    fn default() -> Self {
        Self {
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            errors_cached: AtomicU64::new(0),
            seconds: Mutex::default(),
            waits: Mutex::new(Histogram::new(&WAIT)),
        }
    }
}

impl RenderMetrics {
    /// Counts a question for a rendering.
    pub(crate) fn looked_up(&self, found: Lookup) {
        let counter = match found {
            Lookup::Hit => &self.shared.hits,
            Lookup::Miss => &self.shared.misses,
            Lookup::ErrorCached => &self.shared.errors_cached,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Records how long a rendering waited for its turn.
    pub(crate) fn waited(&self, wait: Duration) {
        self.shared.waits.lock().observe(wait.as_secs_f64());
    }

    /// Records a rendering that came to an end.
    pub(crate) fn rendered(&self, tool: &'static str, renderer: &'static str, took: Duration) {
        let mut seconds = self.shared.seconds.lock();
        let seconds = seconds.entry((tool, renderer)).or_insert_with(|| Histogram::new(&RENDERING));
        seconds.observe(took.as_secs_f64());
    }

    /// Writes the families.
    pub(super) fn write(&self, body: &mut Body) {
        let Rendered { hits, misses, errors_cached, seconds, waits } = &*self.shared;
        let name = "argocd_repo_parallelism_wait_duration_seconds";
        body.family(name, "histogram", "Seconds that a rendering waited for its turn");
        body.histogram(name, &[], &waits.lock());
        let name = "tiphys_render_duration_seconds";
        body.family(name, "histogram", "Seconds of a rendering");
        for ((tool, renderer), seconds) in &*seconds.lock() {
            body.histogram(name, &[("renderer", renderer), ("tool", tool)], seconds);
        }
        body.family("tiphys_render_cache", "counter", "Number of questions for a rendering");
        for (result, count) in [("hit", hits), ("miss", misses), ("error_cached", errors_cached)] {
            let count = count.load(Ordering::Relaxed);
            body.sample("tiphys_render_cache_total", [("result", result)], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(metrics: &SourceMetrics, request: Request, revision: &str, has_failed: bool) {
        let ended = Ended { took: Duration::from_millis(300), has_failed, revision };
        metrics.ended("https://h/r", request, Some(ended));
    }

    fn text(write: impl FnOnce(&mut Body)) -> String {
        let mut body = Body::after(String::new());
        write(&mut body);
        body.end()
    }

    #[test]
    fn ctl_123_questions_are_counted_by_repository() {
        let metrics = SourceMetrics::default();
        for request in [Request::LsRemote, Request::Fetch, Request::Fetch, Request::OciTags, Request::Push] {
            metrics.begins("https://h/r", request);
        }
        end(&metrics, Request::LsRemote, "main", true);
        end(&metrics, Request::Fetch, "abc", false);
        end(&metrics, Request::OciTags, "", true);
        end(&metrics, Request::Push, "abc", true);
        let body = text(|body| metrics.write(body));
        for line in [
            "argocd_repo_pending_request_total{repo=\"https://h/r\"} 1",
            "argocd_git_request_total{repo=\"https://h/r\",request_type=\"ls-remote\"} 1",
            "argocd_git_request_total{repo=\"https://h/r\",request_type=\"fetch\"} 1",
            "argocd_git_request_duration_seconds_bucket{repo=\"https://h/r\",request_type=\"fetch\",le=\"0.25\"} 0",
            "argocd_git_request_duration_seconds_bucket{repo=\"https://h/r\",request_type=\"fetch\",le=\"0.5\"} 1",
            "argocd_git_request_duration_seconds_count{repo=\"https://h/r\",request_type=\"fetch\"} 1",
            "argocd_git_lsremote_fail_total{repo=\"https://h/r\",revision=\"main\"} 1",
            "argocd_oci_request_total{repo=\"https://h/r\",request_type=\"get-tags\"} 1",
            "argocd_commitserver_git_request_total{repo=\"https://h/r\",request_type=\"push\"} 1",
            "argocd_oci_get_tags_fail_total{repo=\"https://h/r\"} 1",
        ] {
            assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
        }
        assert!(!body.contains("argocd_git_fetch_fail_total{"), "{body}");
    }

    #[test]
    fn ctl_123_repositories_and_revisions_have_a_bound() {
        let metrics = SourceMetrics::default();
        for number in 0..REVISIONS_MAX + 5 {
            metrics.begins("https://h/r", Request::Fetch);
            end(&metrics, Request::Fetch, &format!("r{number}"), true);
        }
        for number in 0..REPOSITORIES_MAX + 5 {
            metrics.begins(&format!("https://h/{number}"), Request::Fetch);
        }
        let body = text(|body| metrics.write(body));
        let failures = body.matches("\nargocd_git_fetch_fail_total{").count();
        assert_eq!(failures, REVISIONS_MAX + 1);
        assert!(body.contains("\nargocd_git_fetch_fail_total{repo=\"https://h/r\",revision=\"other\"} 5\n"));
        assert!(body.contains("\nargocd_repo_pending_request_total{repo=\"other\"} 6\n"));
        let pending = body.matches("\nargocd_repo_pending_request_total{").count();
        assert_eq!(pending, REPOSITORIES_MAX + 1);
    }

    #[test]
    fn rnd_249_renderings_are_counted_by_tool_and_by_what_became_of_the_question() {
        let metrics = RenderMetrics::default();
        for found in [Lookup::Miss, Lookup::Hit, Lookup::Hit, Lookup::ErrorCached] {
            metrics.looked_up(found);
        }
        metrics.waited(Duration::from_secs(3));
        metrics.rendered("helm", "exec", Duration::from_secs(2));
        let body = text(|body| metrics.write(body));
        for line in [
            "tiphys_render_cache_total{result=\"hit\"} 2",
            "tiphys_render_cache_total{result=\"miss\"} 1",
            "tiphys_render_cache_total{result=\"error_cached\"} 1",
            "argocd_repo_parallelism_wait_duration_seconds_bucket{le=\"2.0\"} 0",
            "argocd_repo_parallelism_wait_duration_seconds_bucket{le=\"4.0\"} 1",
            "argocd_repo_parallelism_wait_duration_seconds_count 1",
            "tiphys_render_duration_seconds_count{renderer=\"exec\",tool=\"helm\"} 1",
        ] {
            assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
        }
    }
}
