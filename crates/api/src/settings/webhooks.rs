//! How deliveries of webhooks are worked on (API-199, API-210).

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::Reader;

/// Deliveries that are read at the same time.
const PARALLELISM: i64 = 50;
/// Applications that one push asks at once before jitter begins.
const JITTER_THRESHOLD: usize = 10;

/// Settings of webhooks of Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Webhooks {
    /// `server.webhook.parallelism.limit`: deliveries that are read at the same time, 50 (1 to 1000).
    pub parallelism: usize,
    /// `webhook.refresh.jitter`: what an application waits at most that one push concerns beside many others; zero is not
    /// at all.
    pub jitter: Duration,
    /// `webhook.refresh.jitter.threshold`: applications of one push that do not wait, 10.
    pub jitter_threshold: usize,
}

impl Default for Webhooks {
    fn default() -> Self {
        let parallelism = usize::try_from(PARALLELISM).unwrap_or(1);
        Self { parallelism, jitter: Duration::ZERO, jitter_threshold: JITTER_THRESHOLD }
    }
}

impl Webhooks {
    /// Reads what `argocd-cmd-params-cm` and the environment say.
    pub(super) fn read_params(&mut self, reader: &mut Reader<'_>) {
        let variable = "ARGOCD_SERVER_WEBHOOK_PARALLELISM_LIMIT";
        let found = reader.number("server.webhook.parallelism.limit", variable, PARALLELISM, 1..=1_000);
        self.parallelism = usize::try_from(found).unwrap_or(self.parallelism);
    }

    /// Reads what `argocd-cm` says; no variable stands for these.
    pub(super) fn read_cm(&mut self, cm: &BTreeMap<String, String>, warnings: &mut Vec<String>) {
        let nothing = BTreeMap::new();
        let mut reader = Reader::with_warnings(cm, &nothing, std::mem::take(warnings));
        self.jitter = reader.duration("webhook.refresh.jitter", "", Duration::ZERO);
        self.jitter_threshold = reader.count("webhook.refresh.jitter.threshold", "", JITTER_THRESHOLD, 0);
        *warnings = reader.into_warnings();
    }
}
