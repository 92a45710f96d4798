//! What is counted of single applications (CTL-120, CTL-126).
//!
//! The labels of an application are held once, however much is counted of it, and written at a scrape. Its counters end
//! with it, begin anew when its project or its destination is another one, and all of them begin anew after the period
//! that `controller.metrics.cache.expiration` says: so there is never more than of the applications that exist.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_cluster::{Asked, Observer};

use super::body::Body;
use crate::app_key::AppKey;

/// Whose counters: an application with the labels that all of them bear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedApp<'a> {
    /// The application.
    pub(crate) key: &'a AppKey,
    /// Its project.
    pub(crate) project: &'a str,
    /// Destination server, as declared.
    pub(crate) server: &'a str,
}

/// Requests of one application that are counted under their own labels; the others are counted as [`OTHER`].
const REQUESTS_MAX: usize = 500;
/// The kind of all other requests.
const OTHER: &str = "other";

/// The counters of all applications. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppCounters {
    state: Arc<Mutex<State>>,
}

/// What requests of an application are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKey {
    /// The server of the cluster.
    server: SmolStr,
    kind: SmolStr,
    namespace: SmolStr,
    verb: &'static str,
    /// 0 where there was no answer.
    code: u16,
    is_dry_run: bool,
}

/// Counts the requests that an action of a sync makes.
#[derive(Clone, Debug)]
pub(crate) struct ActionTally {
    pub(crate) counters: AppCounters,
    pub(crate) key: AppKey,
    pub(crate) project: SmolStr,
    /// Destination server, as declared …
    pub(crate) destination: SmolStr,
    /// … and as found.
    pub(crate) server: SmolStr,
    /// Of the object.
    pub(crate) kind: SmolStr,
    pub(crate) namespace: SmolStr,
    pub(crate) is_dry_run: bool,
}

impl Observer for ActionTally {
    fn asked(&self, asked: &Asked<'_>) {
        let app = CountedApp { key: &self.key, project: &self.project, server: &self.destination };
        let request = RequestKey {
            server: self.server.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            verb: match asked.method {
                "GET" => "Get",
                "POST" => "Create",
                "PUT" => "Update",
                "PATCH" => "Patch",
                "DELETE" => "Delete",
                _ => "Unknown",
            },
            code: asked.code.unwrap_or(0),
            is_dry_run: self.is_dry_run,
        };
        self.counters.asked(app, request);
    }
}

#[derive(Debug, Default)]
struct State {
    apps: BTreeMap<AppKey, Counted>,
    /// When they began, on the clock's time since its start.
    since: Duration,
}

/// The counters of one application.
#[derive(Debug, Default)]
struct Counted {
    project: SmolStr,
    server: SmolStr,
    /// Ended operations by phase and whether they were dry runs.
    syncs: Vec<(SmolStr, bool, u64)>,
    /// Seconds of ended operations.
    seconds: f64,
    /// Requests of syncs.
    requests: BTreeMap<RequestKey, u64>,
}

impl State {
    fn of(&mut self, app: CountedApp<'_>) -> &mut Counted {
        // A clone of a key counts references at most.
        let counted = self.apps.entry(app.key.clone()).or_default();
        if counted.project != app.project || counted.server != app.server {
            let (project, server) = (SmolStr::new(app.project), SmolStr::new(app.server));
            *counted = Counted { project, server, ..Counted::default() };
        }
        counted
    }
}

impl AppCounters {
    /// Counts an ended operation.
    pub(crate) fn synced(&self, app: CountedApp<'_>, (phase, is_dry_run): (&str, bool), took: Duration) {
        let mut state = self.state.lock();
        let counted = state.of(app);
        counted.seconds += took.as_secs_f64();
        match counted.syncs.iter_mut().find(|(p, dry, _)| p == phase && *dry == is_dry_run) {
            Some((_, _, count)) => *count += 1,
            None => counted.syncs.push((SmolStr::new(phase), is_dry_run, 1)),
        }
    }

    /// Counts a request.
    fn asked(&self, app: CountedApp<'_>, request: RequestKey) {
        let mut state = self.state.lock();
        let requests = &mut state.of(app).requests;
        let is_known = requests.len() < REQUESTS_MAX || requests.contains_key(&request);
        let request = if is_known {
            request
        } else {
            RequestKey { kind: SmolStr::new_static(OTHER), namespace: SmolStr::default(), ..request }
        };
        *requests.entry(request).or_default() += 1;
    }

    /// An application is gone, and so is what was counted of it.
    pub(crate) fn gone(&self, key: &AppKey) {
        self.state.lock().apps.remove(key);
    }

    /// Forgets those that are gone: a round that ended after its application did may have counted once more.
    pub(super) fn keep(&self, lives: impl Fn(&AppKey) -> bool) {
        self.state.lock().apps.retain(|key, _| lives(key));
    }

    /// Begins anew when the counters are older than this (CTL-126); says whether they were. Zero is never.
    pub(super) fn expire(&self, after: Duration, now: Duration) -> bool {
        let mut state = self.state.lock();
        let is_over = !after.is_zero() && now.saturating_sub(state.since) >= after;
        if is_over {
            state.apps.clear();
            state.since = now;
        }
        is_over
    }

    /// Writes the families.
    pub(super) fn write(&self, body: &mut Body) {
        let state = self.state.lock();
        body.family("argocd_app_sync", "counter", "Number of application syncs");
        for (key, counted) in &state.apps {
            for (phase, is_dry_run, count) in &counted.syncs {
                let own = [("phase", phase.as_str()), ("dry_run", flag(*is_dry_run))];
                let labels = counted.labels(key).chain(own);
                body.sample("argocd_app_sync_total", labels, count);
            }
        }
        body.family("argocd_app_sync_duration_seconds", "counter", "Seconds of application syncs");
        for (key, counted) in state.apps.iter().filter(|(_, counted)| !counted.syncs.is_empty()) {
            let seconds = format_args!("{:?}", counted.seconds);
            body.sample("argocd_app_sync_duration_seconds_total", counted.labels(key), seconds);
        }
        body.family("argocd_app_k8s_request", "counter", "Number of requests to Kubernetes by syncs");
        for (key, counted) in &state.apps {
            for (request, count) in &counted.requests {
                let code = request.code.to_string();
                let own = [
                    ("server", request.server.as_str()),
                    ("response_code", code.as_str()),
                    ("verb", request.verb),
                    ("resource_kind", request.kind.as_str()),
                    ("resource_namespace", request.namespace.as_str()),
                    ("dry_run", flag(request.is_dry_run)),
                ];
                let labels = counted.labels(key).filter(|(label, _)| *label != "dest_server");
                body.sample("argocd_app_k8s_request_total", labels.chain(own), count);
            }
        }
    }
}

impl Counted {
    fn labels<'a>(&'a self, key: &'a AppKey) -> impl Iterator<Item = (&'a str, &'a str)> {
        [
            ("namespace", key.namespace.as_str()),
            ("name", key.name.as_str()),
            ("project", self.project.as_str()),
            ("dest_server", self.server.as_str()),
        ]
        .into_iter()
    }
}

fn flag(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(counters: &AppCounters) -> String {
        let mut body = Body::after(String::new());
        counters.write(&mut body);
        body.end()
    }

    #[test]
    fn ctl_120_syncs_are_counted_with_their_seconds() {
        let counters = AppCounters::default();
        let key = AppKey::new("argocd", "web");
        let app = CountedApp { key: &key, project: "default", server: "s" };
        counters.synced(app, ("Succeeded", false), Duration::from_millis(1_500));
        counters.synced(app, ("Succeeded", false), Duration::from_millis(500));
        counters.synced(app, ("Failed", true), Duration::ZERO);
        let labels = "namespace=\"argocd\",name=\"web\",project=\"default\",dest_server=\"s\"";
        for line in [
            format!("argocd_app_sync_total{{{labels},phase=\"Succeeded\",dry_run=\"false\"}} 2"),
            format!("argocd_app_sync_total{{{labels},phase=\"Failed\",dry_run=\"true\"}} 1"),
            format!("argocd_app_sync_duration_seconds_total{{{labels}}} 2.0"),
        ] {
            assert!(text(&counters).contains(&format!("\n{line}\n")), "{line}: {}", text(&counters));
        }
        let moved = CountedApp { server: "t", ..app };
        counters.synced(moved, ("Succeeded", false), Duration::ZERO);
        assert!(!text(&counters).contains("dest_server=\"s\""), "an application that moved begins anew");
        assert!(text(&counters).contains("dest_server=\"t\""));
    }

    #[test]
    fn ctl_120_requests_of_syncs_are_counted_by_application_and_bounded() {
        let counters = AppCounters::default();
        let tally = |kind: &str| ActionTally {
            counters: counters.clone(),
            key: AppKey::new("argocd", "web"),
            project: "default".into(),
            destination: "".into(),
            server: "https://h".into(),
            kind: kind.into(),
            namespace: "n".into(),
            is_dry_run: false,
        };
        let took = Duration::ZERO;
        let patch = Asked { host: "h", method: "PATCH", code: Some(200), took, sent: 0, received: None };
        tally("ConfigMap").asked(&patch);
        tally("ConfigMap").asked(&patch);
        for number in 0..REQUESTS_MAX + 2 {
            tally(&format!("Kind{number}")).asked(&patch);
        }
        let found = text(&counters);
        let line = |kind: &str, namespace: &str, count: u64| {
            format!(
                "\nargocd_app_k8s_request_total{{namespace=\"argocd\",name=\"web\",project=\"default\",\
                 server=\"https://h\",response_code=\"200\",verb=\"Patch\",resource_kind=\"{kind}\",\
                 resource_namespace=\"{namespace}\",dry_run=\"false\"}} {count}\n"
            )
        };
        for line in [line("ConfigMap", "n", 2), line("Kind0", "n", 1), line(OTHER, "", 3)] {
            assert!(found.contains(&line), "{line}: {found}");
        }
        assert_eq!(found.matches("\nargocd_app_k8s_request_total{").count(), REQUESTS_MAX + 1);
    }

    #[test]
    fn ctl_126_counters_end_with_their_application_and_with_their_period() {
        let counters = AppCounters::default();
        let (stays, goes, late) =
            (AppKey::new("a", "stays"), AppKey::new("a", "goes"), AppKey::new("a", "late"));
        for key in [&stays, &goes, &late] {
            let app = CountedApp { key, project: "p", server: "s" };
            counters.synced(app, ("Succeeded", false), Duration::ZERO);
        }
        counters.gone(&goes);
        counters.keep(|key| *key != late);
        let found = text(&counters);
        assert!(
            found.contains("name=\"stays\"") && !found.contains("goes") && !found.contains("late"),
            "{found}"
        );
        let hour = Duration::from_hours(1);
        assert!(!counters.expire(Duration::ZERO, hour * 100), "zero is never");
        assert!(!counters.expire(hour, Duration::from_secs(3599)));
        assert!(text(&counters).contains("stays"));
        assert!(counters.expire(hour, hour));
        assert!(!text(&counters).contains("stays"));
        assert!(!counters.expire(hour, hour + hour / 2), "the next period has begun");
    }
}
