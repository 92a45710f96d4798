//! Parameters of the application controller (CTL section 17).

use std::time::Duration;

use super::ClientLimits;
use super::reader::Reader;

/// Parameters of the application controller, with the defaults of CTL section 17.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Refreshes at once, 20.
    pub status_processors: usize,
    /// Operations at once, 10.
    pub operation_processors: usize,
    /// Hydrations at once, 5.
    pub hydration_processors: usize,
    /// Writes to one cluster at once; `None` = no limit. 20.
    pub kubectl_parallelism_limit: Option<usize>,
    /// How long self-heal waits.
    pub self_heal: SelfHeal,
    /// Longest operation; `None` = no limit.
    pub sync_timeout: Option<Duration>,
    /// Wait between waves, 2 s.
    pub sync_wave_delay: Duration,
    /// Longest call of the renderer, 60 s.
    pub repo_server_timeout: Duration,
    /// How long repository errors are not shown, 180 s (CTL-33).
    pub repo_error_grace_period: Duration,
    /// Whether health of objects is written to the Application.
    pub persist_resource_health: bool,
    /// Whether server-side diff is the default.
    pub server_side_diff: bool,
    /// Longest run of a jq program, 1 s.
    pub jq_timeout: Duration,
    /// `legacy`, `round-robin` or `consistent-hashing`.
    pub sharding_algorithm: String,
    /// 1 h.
    pub app_state_cache_expiration: Duration,
    /// 24 h.
    pub default_cache_expiration: Duration,
    /// Labels of Applications that become metrics.
    pub metrics_application_labels: Vec<String>,
    /// Conditions that become metrics.
    pub metrics_application_conditions: Vec<String>,
    /// Labels of clusters that become metrics.
    pub metrics_cluster_labels: Vec<String>,
    /// How long metrics live; zero = for ever.
    pub metrics_cache_expiration: Duration,
    /// Whether cluster events are handled in batches.
    pub batch_events: bool,
    /// Length of a batch, 100 ms.
    pub batch_events_interval: Duration,
    /// How fast one cluster is asked, where somebody says so (REP-108).
    pub client_rate: Option<ClientRate>,
    /// Limits of the connections to each cluster.
    pub client_limits: ClientLimits,
    /// Retries of a failed request, 0.
    pub client_retry_max: usize,
    /// First wait before such a retry, 100 ms.
    pub client_retry_backoff: Duration,
    /// Whether the hydrator runs.
    pub hydrator_enabled: bool,
    /// `controller.cluster.exec.programs`: credential plugins that cluster Secrets may name; the well-known ones when
    /// it is not set.
    pub cluster_exec_programs: Option<Vec<String>>,
    /// Format of the log.
    pub log_format: LogFormat,
    /// Level of the log: `debug`, `info`, `warn`, `error`.
    pub log_level: String,
}

/// A bound of requests (REP-108).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRate {
    /// Requests a second.
    pub per_second: u32,
    /// Requests at once, after a rest.
    pub burst: u32,
}

impl ClientRate {
    /// Nothing but these two settings asks for a bound: servers know their own, and say so (F10). With one of them the
    /// other has its default of client-go, and 0 requests a second are no bound.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        const QPS: (&str, &str) = ("controller.k8s.client.qps", "ARGOCD_K8S_CLIENT_QPS");
        const BURST: (&str, &str) = ("controller.k8s.client.burst", "ARGOCD_K8S_CLIENT_BURST");
        if reader.text(QPS.0, QPS.1).is_none() && reader.text(BURST.0, BURST.1).is_none() {
            return None;
        }
        let bounds = || 0..=i64::from(i32::MAX);
        let per_second = u32::try_from(reader.number(QPS.0, QPS.1, 50, bounds())).unwrap_or(50);
        let twice = i64::from(per_second.saturating_mul(2));
        let burst = u32::try_from(reader.number(BURST.0, BURST.1, twice, bounds())).unwrap_or(100);
        (per_second > 0).then_some(Self { per_second, burst: burst.max(1) })
    }
}

/// Waits of self-heal (CTL-59).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelfHeal {
    /// In force when `initial` is zero.
    pub fixed: Duration,
    /// First wait, 2 s.
    pub initial: Duration,
    /// Growth, 3.
    pub factor: f64,
    /// Longest wait, 300 s.
    pub cap: Duration,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One object per line.
    #[default]
    Json,
    /// For people.
    Text,
}

impl SelfHeal {
    /// The wait after `attempts` self-heals: 0, 2, 6, 18, 54, 162, 300, … with the defaults (CTL-59).
    pub fn wait(&self, attempts: i64) -> Duration {
        if self.initial.is_zero() {
            return self.fixed;
        }
        let Ok(growths) = i32::try_from(attempts.saturating_sub(1).min(1_000)) else { return Duration::ZERO };
        if attempts <= 0 {
            return Duration::ZERO;
        }
        let seconds = self.initial.as_secs_f64() * self.factor.powi(growths);
        Duration::try_from_secs_f64(seconds).map_or(self.cap, |wait| wait.min(self.cap))
    }
}

impl Controller {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let list = |text: Option<&str>| super::split_list(text.unwrap_or(""));
        let optional = |seconds: Duration| Some(seconds).filter(|s| !s.is_zero());
        let processors = |reader: &mut Reader<'_>, key: &str, variable: &str, default, least| {
            reader.count(key, &format!("ARGOCD_APPLICATION_CONTROLLER_{variable}"), default, least)
        };
        let kubectl = reader.number(
            "controller.kubectl.parallelism.limit",
            "ARGOCD_APPLICATION_CONTROLLER_KUBECTL_PARALLELISM_LIMIT",
            20,
            i64::MIN..=i64::from(i32::MAX),
        );
        let jq = reader.duration(
            "controller.ignore.normalizer.jq.timeout",
            "ARGOCD_IGNORE_NORMALIZER_JQ_TIMEOUT",
            Duration::ZERO,
        );
        Self {
            status_processors: processors(reader, "controller.status.processors", "STATUS_PROCESSORS", 20, 0),
            operation_processors: processors(
                reader,
                "controller.operation.processors",
                "OPERATION_PROCESSORS",
                10,
                0,
            ),
            hydration_processors: processors(
                reader,
                "controller.hydration.processors",
                "HYDRATION_PROCESSORS",
                5,
                1,
            ),
            kubectl_parallelism_limit: usize::try_from(kubectl).ok().filter(|limit| *limit > 0),
            self_heal: SelfHeal::read(reader),
            sync_timeout: optional(reader.seconds(
                "controller.sync.timeout.seconds",
                "ARGOCD_APPLICATION_CONTROLLER_SYNC_TIMEOUT",
                0,
            )),
            sync_wave_delay: reader.seconds(
                "controller.sync.wave.delay.seconds",
                "ARGOCD_SYNC_WAVE_DELAY",
                2,
            ),
            repo_server_timeout: reader.seconds(
                "controller.repo.server.timeout.seconds",
                "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_TIMEOUT_SECONDS",
                60,
            ),
            repo_error_grace_period: reader.duration(
                "controller.repo.error.grace.period.seconds",
                "ARGOCD_REPO_ERROR_GRACE_PERIOD_SECONDS",
                Duration::from_mins(3),
            ),
            persist_resource_health: reader.flag(
                "controller.resource.health.persist",
                "ARGOCD_APPLICATION_CONTROLLER_PERSIST_RESOURCE_HEALTH",
                false,
            ),
            server_side_diff: reader.flag(
                "controller.diff.server.side",
                "ARGOCD_APPLICATION_CONTROLLER_SERVER_SIDE_DIFF",
                false,
            ),
            jq_timeout: if jq.is_zero() { Duration::from_secs(1) } else { jq },
            cluster_exec_programs: reader
                .text("controller.cluster.exec.programs", "TIPHYS_CLUSTER_EXEC_PROGRAMS")
                .map(super::split_list),
            sharding_algorithm: reader
                .text("controller.sharding.algorithm", "ARGOCD_CONTROLLER_SHARDING_ALGORITHM")
                .unwrap_or("legacy")
                .to_owned(),
            app_state_cache_expiration: reader.duration(
                "controller.app.state.cache.expiration",
                "ARGOCD_APP_STATE_CACHE_EXPIRATION",
                Duration::from_hours(1),
            ),
            default_cache_expiration: reader.duration(
                "controller.default.cache.expiration",
                "ARGOCD_DEFAULT_CACHE_EXPIRATION",
                Duration::from_hours(24),
            ),
            metrics_application_labels: list(reader.text(
                "controller.metrics.application.labels",
                "ARGOCD_APPLICATION_CONTROLLER_METRICS_APPLICATION_LABELS",
            )),
            metrics_application_conditions: list(reader.text(
                "controller.metrics.application.conditions",
                "ARGOCD_APPLICATION_CONTROLLER_METRICS_APPLICATION_CONDITIONS",
            )),
            metrics_cluster_labels: list(reader.text(
                "controller.metrics.cluster.labels",
                "ARGOCD_APPLICATION_CONTROLLER_METRICS_CLUSTER_LABELS",
            )),
            metrics_cache_expiration: reader.duration(
                "controller.metrics.cache.expiration",
                "ARGOCD_APPLICATION_CONTROLLER_METRICS_CACHE_EXPIRATION",
                Duration::ZERO,
            ),
            batch_events: reader.flag(
                "controller.cluster.cache.batch.events.processing",
                "ARGOCD_CLUSTER_CACHE_BATCH_EVENTS_PROCESSING",
                true,
            ),
            batch_events_interval: reader.duration(
                "controller.cluster.cache.events.processing.interval",
                "ARGOCD_CLUSTER_CACHE_EVENTS_PROCESSING_INTERVAL",
                Duration::from_millis(100),
            ),
            client_rate: ClientRate::read(reader),
            client_limits: ClientLimits::read(reader),
            client_retry_max: reader.count(
                "controller.k8sclient.retry.max",
                "ARGOCD_K8SCLIENT_RETRY_MAX",
                0,
                0,
            ),
            client_retry_backoff: Duration::from_millis(
                u64::try_from(reader.number(
                    "controller.k8sclient.retry.base.backoff",
                    "ARGOCD_K8SCLIENT_RETRY_BASE_BACKOFF",
                    100,
                    0..=i64::from(i32::MAX),
                ))
                .unwrap_or(100),
            ),
            hydrator_enabled: reader.flag("hydrator.enabled", "ARGOCD_HYDRATOR_ENABLED", false),
            log_format: match reader
                .text("controller.log.format", "ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT")
                .unwrap_or("json")
            {
                "text" => LogFormat::Text,
                _ => LogFormat::Json,
            },
            log_level: reader
                .text("controller.log.level", "ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL")
                .unwrap_or("info")
                .to_owned(),
        }
    }
}

impl SelfHeal {
    fn read(reader: &mut Reader<'_>) -> Self {
        let variable = |suffix: &str| format!("ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_{suffix}");
        let factor = reader.number(
            "controller.self.heal.backoff.factor",
            &variable("BACKOFF_FACTOR"),
            3,
            0..=i64::from(i32::MAX),
        );
        Self {
            fixed: reader.seconds("controller.self.heal.timeout.seconds", &variable("TIMEOUT_SECONDS"), 0),
            initial: reader.seconds(
                "controller.self.heal.backoff.timeout.seconds",
                &variable("BACKOFF_TIMEOUT_SECONDS"),
                2,
            ),
            factor: f64::from(i32::try_from(factor).unwrap_or(3)),
            cap: reader.seconds(
                "controller.self.heal.backoff.cap.seconds",
                &variable("BACKOFF_CAP_SECONDS"),
                300,
            ),
        }
    }
}
