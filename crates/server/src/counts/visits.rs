//! Requests to proxy extensions: how many were answered how, and how long that took (API-12).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Names that are told apart: settings that change all the time must not fill the memory.
const NAMES_MAX: usize = 200;
/// All others, in letters that no name has.
const OTHERS: &str = "(others)";
/// The status of a request whose sender left before it was answered.
const UNANSWERED: &str = "none";
/// Where seconds are divided (CTL-122).
const BOUNDS: [f64; 7] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0];

/// Requests to extensions. Cloning is cheap, and counts the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Visits(Arc<Mutex<BTreeMap<String, Of>>>);

/// Those to one.
#[derive(Clone, Debug, Default)]
struct Of {
    statuses: BTreeMap<String, u64>,
    /// How many took at most so long, and how many longer.
    within: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

/// A request that is on its way to an extension, and counted when this is dropped.
#[derive(Debug)]
pub(crate) struct Visiting {
    visits: Visits,
    extension: String,
    status: Option<StatusCode>,
    began: Instant,
}

impl Visiting {
    /// How it was answered.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for Visiting {
    fn drop(&mut self) {
        self.visits.ended(&self.extension, self.status, self.began.elapsed());
    }
}

impl Visits {
    pub(super) fn begin(&self, extension: &str) -> Visiting {
        let visits = self.clone();
        Visiting { visits, extension: extension.to_owned(), status: None, began: Instant::now() }
    }

    fn ended(&self, extension: &str, status: Option<StatusCode>, took: Duration) {
        let status = match status {
            None => UNANSWERED,
            // A service may answer with any number; those that mean something are few.
            Some(status) if status.canonical_reason().is_none() => "other",
            Some(ref status) => status.as_str(),
        };
        let mut all = self.0.lock();
        let is_told = all.contains_key(extension) || all.len() < NAMES_MAX;
        let of = all.entry(if is_told { extension } else { OTHERS }.to_owned()).or_default();
        *of.statuses.entry(status.to_owned()).or_insert(0) += 1;
        let seconds = took.as_secs_f64();
        for (count, bound) in of.within.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        of.count += 1;
        of.seconds += seconds;
    }

    pub(super) fn write(&self, text: &mut String) {
        let all = self.0.lock().clone();
        text.push_str(
            "# HELP argocd_proxy_extension_request Number of requests to proxy extensions.\n\
             # TYPE argocd_proxy_extension_request counter\n",
        );
        for (name, of) in &all {
            for (status, count) in &of.statuses {
                let _written = writeln!(
                    text,
                    "argocd_proxy_extension_request_total{{extension=\"{name}\",status=\"{status}\"}} {count}"
                );
            }
        }
        let family = "argocd_proxy_extension_request_duration_seconds";
        let _written = write!(
            text,
            "# HELP {family} Seconds until a proxy extension had answered.\n# TYPE {family} histogram\n"
        );
        for (name, of) in &all {
            for (count, bound) in of.within.iter().zip(BOUNDS) {
                let _written =
                    writeln!(text, "{family}_bucket{{extension=\"{name}\",le=\"{bound:?}\"}} {count}");
            }
            let Of { count, seconds, .. } = of;
            let _written = write!(
                text,
                "{family}_bucket{{extension=\"{name}\",le=\"+Inf\"}} {count}\n\
                 {family}_sum{{extension=\"{name}\"}} {seconds:?}\n\
                 {family}_count{{extension=\"{name}\"}} {count}\n"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(visits: &Visits) -> String {
        let mut text = String::new();
        visits.write(&mut text);
        text
    }

    #[tokio::test(start_paused = true)]
    async fn api_12_requests_to_extensions_are_counted_by_status_and_time() {
        let visits = Visits::default();
        for (status, millis) in [(Some(200), 100), (Some(502), 2_000), (Some(799), 0), (None, 60_000)] {
            let mut visiting = visits.begin("metrics");
            if let Some(status) = status {
                visiting.answered(StatusCode::from_u16(status).unwrap());
            }
            tokio::time::advance(Duration::from_millis(millis)).await;
        }
        let text = text(&visits);
        let family = "argocd_proxy_extension_request";
        for line in [
            format!("{family}_total{{extension=\"metrics\",status=\"200\"}} 1"),
            format!("{family}_total{{extension=\"metrics\",status=\"502\"}} 1"),
            format!("{family}_total{{extension=\"metrics\",status=\"other\"}} 1"),
            format!("{family}_total{{extension=\"metrics\",status=\"none\"}} 1"),
            format!("{family}_duration_seconds_bucket{{extension=\"metrics\",le=\"0.1\"}} 2"),
            format!("{family}_duration_seconds_bucket{{extension=\"metrics\",le=\"1.0\"}} 2"),
            format!("{family}_duration_seconds_bucket{{extension=\"metrics\",le=\"10.0\"}} 3"),
            format!("{family}_duration_seconds_bucket{{extension=\"metrics\",le=\"+Inf\"}} 4"),
            format!("{family}_duration_seconds_sum{{extension=\"metrics\"}} 62.1"),
            format!("{family}_duration_seconds_count{{extension=\"metrics\"}} 4"),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }

    #[test]
    fn api_12_names_of_extensions_do_not_grow_without_end() {
        let visits = Visits::default();
        for nth in 0..1_000 {
            visits.ended(&format!("e{nth}"), Some(StatusCode::OK), Duration::ZERO);
        }
        assert_eq!(visits.0.lock().len(), NAMES_MAX + 1);
        assert!(text(&visits).contains("_total{extension=\"(others)\",status=\"200\"} 800\n"));
    }
}
