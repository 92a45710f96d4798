//! Flags of Argo CD's components, read as those read them (CLI-1, CLI-1011).
//!
//! Most of them stand for a key of `argocd-cmd-params-cm`, and set the variable that does so, too: what becomes of the
//! key becomes of the flag. No flag stops a container that used to run, and none is ignored without a word: what has no
//! effect is named with the reason.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tiphys_api::support::{self, Support};

/// What the flags of a component come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) metrics_port: Option<u16>,
    pub(crate) metrics_address: Option<String>,
    /// Port of a listener of its own for webhooks of sets.
    pub(crate) webhook_port: Option<u16>,
    pub(crate) logformat: Option<String>,
    pub(crate) loglevel: Option<String>,
    /// Variables that flags stand for.
    pub(crate) variables: BTreeMap<String, String>,
    /// Flags without effect, and why.
    pub(crate) inert: Vec<(String, String)>,
    /// Whether only help is wanted.
    pub(crate) wants_help: bool,
}

/// A flag, and the key of `argocd-cmd-params-cm` or `argocd-cm` that it stands for.
pub(crate) type Known = (&'static str, &'static str);

/// Flags of `argocd-server`.
pub(crate) const SERVER: &[Known] = &[
    ("insecure", "server.insecure"),
    ("basehref", "server.basehref"),
    ("rootpath", "server.rootpath"),
    ("staticassets", "server.staticassets"),
    ("disable-auth", "server.disable.auth"),
    ("enable-gzip", "server.enable.gzip"),
    ("x-frame-options", "server.x.frame.options"),
    ("content-security-policy", "server.content.security.policy"),
    ("api-content-types", "server.api.content.types"),
    ("tlsminversion", "server.tls.minversion"),
    ("tlsmaxversion", "server.tls.maxversion"),
    ("tlsciphers", "server.tls.ciphers"),
    ("dex-server", "server.dex.server"),
    ("dex-server-plaintext", "server.dex.server.plaintext"),
    ("dex-server-strict-tls", "server.dex.server.strict.tls"),
    ("connection-status-cache-expiration", "server.connection.status.cache.expiration"),
    ("enable-proxy-extension", "server.enable.proxy.extension"),
    ("sync-with-replace-allowed", "server.sync.replace.allowed"),
    ("application-namespaces", "application.namespaces"),
    ("hydrator-enabled", "hydrator.enabled"),
    ("repo-server", "repo.server"),
    ("repo-server-timeout-seconds", "server.repo.server.timeout.seconds"),
    ("repo-server-plaintext", "server.repo.server.plaintext"),
    ("repo-server-strict-tls", "server.repo.server.strict.tls"),
    ("app-state-cache-expiration", "server.app.state.cache.expiration"),
    ("default-cache-expiration", "server.default.cache.expiration"),
    ("oidc-cache-expiration", "server.oidc.cache.expiration"),
    ("webhook-parallelism-limit", "server.webhook.parallelism.limit"),
    ("webhook-refresh-workers", "server.webhook.refresh.workers"),
    ("glob-cache-size", "server.glob.cache.size"),
    ("repo-cache-expiration", "reposerver.repo.cache.expiration"),
    ("revision-cache-expiration", "reposerver.revision.cache.expiration"),
    ("revision-cache-lock-timeout", "reposerver.revision.cache.lock.timeout"),
    ("appset-allowed-scm-providers", "applicationsetcontroller.allowed.scm.providers"),
    ("appset-enable-github-api-metrics", "applicationsetcontroller.enable.github.api.metrics"),
    ("appset-enable-new-git-file-globbing", "applicationsetcontroller.enable.new.git.file.globbing"),
    ("appset-enable-scm-providers", "applicationsetcontroller.enable.scm.providers"),
    ("appset-scm-root-ca-path", "applicationsetcontroller.scm.root.ca.path"),
    ("redis", "redis.server"),
    ("redisdb", "redis.db"),
    ("redis-compress", "redis.compression"),
    ("sentinel", "redis.sentinel"),
    ("sentinelmaster", "redis.sentinel.master"),
    ("otlp-address", "otlp.address"),
    ("otlp-insecure", "otlp.insecure"),
    ("otlp-headers", "otlp.headers"),
    ("otlp-attrs", "otlp.attrs"),
];

/// Flags of `argocd-application-controller`.
pub(crate) const CONTROLLER: &[Known] = &[
    ("status-processors", "controller.status.processors"),
    ("operation-processors", "controller.operation.processors"),
    ("hydration-processors", "controller.hydration.processors"),
    ("kubectl-parallelism-limit", "controller.kubectl.parallelism.limit"),
    ("self-heal-timeout-seconds", "controller.self.heal.timeout.seconds"),
    ("self-heal-backoff-timeout-seconds", "controller.self.heal.backoff.timeout.seconds"),
    ("self-heal-backoff-factor", "controller.self.heal.backoff.factor"),
    ("self-heal-backoff-cap-seconds", "controller.self.heal.backoff.cap.seconds"),
    ("self-heal-backoff-cooldown-seconds", "controller.self.heal.backoff.cooldown.seconds"),
    ("sync-timeout", "controller.sync.timeout.seconds"),
    ("persist-resource-health", "controller.resource.health.persist"),
    ("server-side-diff-enabled", "controller.diff.server.side"),
    ("ignore-normalizer-jq-execution-timeout-seconds", "controller.ignore.normalizer.jq.timeout"),
    ("sharding-method", "controller.sharding.algorithm"),
    ("app-state-cache-expiration", "controller.app.state.cache.expiration"),
    ("default-cache-expiration", "controller.default.cache.expiration"),
    ("metrics-application-labels", "controller.metrics.application.labels"),
    ("metrics-application-conditions", "controller.metrics.application.conditions"),
    ("metrics-cluster-labels", "controller.metrics.cluster.labels"),
    ("metrics-cache-expiration", "controller.metrics.cache.expiration"),
    ("repo-error-grace-period-seconds", "controller.repo.error.grace.period.seconds"),
    ("repo-server", "repo.server"),
    ("repo-server-timeout-seconds", "controller.repo.server.timeout.seconds"),
    ("repo-server-plaintext", "controller.repo.server.plaintext"),
    ("repo-server-strict-tls", "controller.repo.server.strict.tls"),
    ("commit-server", "commitserver.address"),
    ("application-namespaces", "application.namespaces"),
    ("hydrator-enabled", "hydrator.enabled"),
    ("redis", "redis.server"),
    ("redisdb", "redis.db"),
    ("redis-compress", "redis.compression"),
    ("sentinel", "redis.sentinel"),
    ("sentinelmaster", "redis.sentinel.master"),
    ("otlp-address", "otlp.address"),
    ("otlp-insecure", "otlp.insecure"),
    ("otlp-headers", "otlp.headers"),
    ("otlp-attrs", "otlp.attrs"),
];

/// Flags of `argocd-repo-server`.
pub(crate) const REPO: &[Known] = &[
    ("parallelismlimit", "reposerver.parallelism.limit"),
    ("allow-oob-symlinks", "reposerver.allow.oob.symlinks"),
    ("default-cache-expiration", "reposerver.default.cache.expiration"),
    ("repo-cache-expiration", "reposerver.repo.cache.expiration"),
    ("revision-cache-expiration", "reposerver.revision.cache.expiration"),
    ("revision-cache-lock-timeout", "reposerver.revision.cache.lock.timeout"),
    ("disable-tls", "reposerver.disable.tls"),
    ("enable-builtin-git-config", "reposerver.enable.builtin.git.config"),
    ("max-combined-directory-manifests-size", "reposerver.max.combined.directory.manifests.size"),
    ("streamed-manifest-max-extracted-size", "reposerver.streamed.manifest.max.extracted.size"),
    ("streamed-manifest-max-tar-size", "reposerver.streamed.manifest.max.tar.size"),
    ("tlsciphers", "reposerver.tls.ciphers"),
    ("tlsmaxversion", "reposerver.tls.maxversion"),
    ("tlsminversion", "reposerver.tls.minversion"),
    ("redis", "redis.server"),
    ("redisdb", "redis.db"),
    ("redis-compress", "redis.compression"),
    ("sentinel", "redis.sentinel"),
    ("sentinelmaster", "redis.sentinel.master"),
    ("otlp-address", "otlp.address"),
    ("otlp-insecure", "otlp.insecure"),
    ("otlp-headers", "otlp.headers"),
    ("otlp-attrs", "otlp.attrs"),
];

/// Flags of `argocd-applicationset-controller`.
pub(crate) const SETS: &[Known] = &[
    ("allowed-scm-providers", "applicationsetcontroller.allowed.scm.providers"),
    ("applicationset-namespaces", "applicationsetcontroller.namespaces"),
    ("argocd-repo-server", "repo.server"),
    ("concurrent-reconciliations", "applicationsetcontroller.concurrent.reconciliations.max"),
    ("concurrent-application-updates", "applicationsetcontroller.concurrent.application.updates"),
    ("dry-run", "applicationsetcontroller.dryrun"),
    ("enable-github-api-metrics", "applicationsetcontroller.enable.github.api.metrics"),
    ("enable-new-git-file-globbing", "applicationsetcontroller.enable.new.git.file.globbing"),
    ("enable-policy-override", "applicationsetcontroller.enable.policy.override"),
    ("enable-progressive-syncs", "applicationsetcontroller.enable.progressive.syncs"),
    ("enable-scm-providers", "applicationsetcontroller.enable.scm.providers"),
    ("max-resources-status-count", "applicationsetcontroller.status.max.resources.count"),
    ("metrics-applicationset-labels", "applicationsetcontroller.metrics.applicationset.labels"),
    ("policy", "applicationsetcontroller.policy"),
    ("preserved-annotations", "applicationsetcontroller.global.preserved.annotations"),
    ("preserved-labels", "applicationsetcontroller.global.preserved.labels"),
    ("repo-server-plaintext", "repo.server.plaintext"),
    ("repo-server-strict-tls", "repo.server.strict.tls"),
    ("repo-server-timeout-seconds", "repo.server.timeout.seconds"),
    ("scm-root-ca-path", "applicationsetcontroller.scm.root.ca.path"),
    ("token-ref-strict-mode", "applicationsetcontroller.enable.tokenref.strict.mode"),
    ("webhook-parallelism-limit", "applicationsetcontroller.webhook.parallelism.limit"),
];

/// Flags that are variables of the environment and no keys.
const VARIABLES: &[(&str, &str)] = &[
    ("enable-k8s-event", "ARGOCD_ENABLE_K8S_EVENT"),
    ("helm-manifest-max-extracted-size", "ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_EXTRACTED_SIZE"),
    (
        "disable-helm-manifest-max-extracted-size",
        "ARGOCD_REPO_SERVER_DISABLE_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
    ),
    ("helm-registry-max-index-size", "ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_INDEX_SIZE"),
    ("oci-manifest-max-extracted-size", "ARGOCD_REPO_SERVER_OCI_MANIFEST_MAX_EXTRACTED_SIZE"),
    ("disable-oci-manifest-max-extracted-size", "ARGOCD_REPO_SERVER_DISABLE_OCI_MANIFEST_MAX_EXTRACTED_SIZE"),
    ("oci-layer-media-types", "ARGOCD_REPO_SERVER_OCI_LAYER_MEDIA_TYPES"),
    ("include-hidden-directories", "ARGOCD_REPO_SERVER_INCLUDE_HIDDEN_DIRECTORIES"),
    ("plugin-tar-exclude", "ARGOCD_REPO_SERVER_PLUGIN_TAR_EXCLUSIONS"),
    ("plugin-use-manifest-generate-paths", "ARGOCD_REPO_SERVER_PLUGIN_USE_MANIFEST_GENERATE_PATHS"),
];

/// Flags of `argocd-application-controller` whose variables are spans of time; the flags are seconds.
const SECONDS: &[Known] = &[
    ("app-resync", "timeout.reconciliation"),
    ("app-hard-resync", "timeout.hard.reconciliation"),
    ("app-resync-jitter", "timeout.reconciliation.jitter"),
];

/// Keys whose flags may be repeated.
const LISTS: [&str; 9] = [
    "applicationsetcontroller.allowed.scm.providers",
    "applicationsetcontroller.global.preserved.annotations",
    "applicationsetcontroller.global.preserved.labels",
    "applicationsetcontroller.metrics.applicationset.labels",
    "applicationsetcontroller.namespaces",
    "controller.metrics.application.labels",
    "controller.metrics.application.conditions",
    "controller.metrics.cluster.labels",
    "application.namespaces",
];

/// Why flags that say how a cluster is reached have no effect.
const OTHER_WAY: &str = "the kubeconfig, or the account of the pod, says how the cluster is reached";

/// Reads the words of a container. A flag without `=` takes the word behind it, unless that is a flag, too: components have
/// no operands.
pub(crate) fn read(words: &[String], known: &[Known]) -> Told {
    let mut told = Told::default();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
            told.inert.push((word.clone(), "this component takes flags alone".to_owned()));
            continue;
        };
        let name = name.strip_prefix('-').unwrap_or(name);
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, rest.next_if(|next| is_value(next)).cloned()),
        };
        take(&mut told, (name, value), known);
    }
    told
}

/// Whether a word is no flag; a number may be negative.
pub(crate) fn is_value(word: &str) -> bool {
    !word.starts_with('-') || word.parse::<i64>().is_ok()
}

/// Whether a component has a flag that means something there, or is known to mean nothing here.
pub(crate) fn knows(known: &[Known], name: &str) -> bool {
    let is_of = |table: &[Known]| table.iter().any(|(flag, _)| *flag == name);
    is_of(known)
        || (known == CONTROLLER && is_of(SECONDS))
        || is_of(own_variables(known))
        || (known == SETS && ["webhook-addr", "debug"].contains(&name))
        || ((known == SERVER || known == REPO) && name == "metrics-address")
        || unknown(name) != UNKNOWN
}

/// The flags of a component that are variables.
fn own_variables(known: &[Known]) -> &'static [Known] {
    let (events, rest) = VARIABLES.split_at(1);
    if known == REPO {
        rest
    } else if known == SERVER || known == CONTROLLER {
        events
    } else {
        &[]
    }
}

/// Takes one flag in.
pub(crate) fn take(told: &mut Told, (name, value): (&str, Option<String>), known: &[Known]) {
    let flag = format!("--{name}");
    let text = value.clone().unwrap_or_default();
    let port = |told: &mut Told, text: &str| {
        let port = text.rsplit(':').next().unwrap_or(text).parse().ok();
        if port.is_none() {
            told.inert.push((flag.clone(), format!("{text:?} is no port")));
        }
        port
    };
    match name {
        "h" | "help" => told.wants_help = true,
        "kubeconfig" => told.kubeconfig = Some(text.into()),
        "context" => told.context = Some(text),
        "n" | "namespace" => told.namespace = Some(text),
        "address" => told.address = Some(text),
        "logformat" => told.logformat = Some(text),
        "loglevel" => told.loglevel = Some(text),
        "port" => told.port = port(told, &text).or(told.port),
        "metrics-port" | "metrics-addr" => told.metrics_port = port(told, &text).or(told.metrics_port),
        "metrics-address" => told.metrics_address = Some(text),
        "webhook-addr" if known == SETS => told.webhook_port = port(told, &text).or(told.webhook_port),
        "debug" if known == SETS => told.loglevel = Some("debug".to_owned()),
        _ if let Some((_, variable)) = own_variables(known).iter().find(|(flag, _)| *flag == name) => {
            let value = value.unwrap_or_else(|| "true".to_owned());
            // What may be repeated is a list with the mark that its reader splits at.
            let separator = if name == "plugin-tar-exclude" { ';' } else { ',' };
            let is_list = ["plugin-tar-exclude", "oci-layer-media-types", "enable-k8s-event"].contains(&name);
            let one = told.variables.entry((*variable).to_owned()).or_default();
            if is_list && !one.is_empty() {
                one.push(separator);
                one.push_str(&value);
            } else {
                *one = value;
            }
        }
        _ => match known.iter().find(|(flag, _)| *flag == name) {
            Some((_, key)) => stands_for(told, &flag, (key, value.unwrap_or_else(|| "true".to_owned()))),
            None => match SECONDS.iter().find(|(flag, _)| *flag == name) {
                Some((_, key)) if known == CONTROLLER => stands_for(told, &flag, (key, format!("{text}s"))),
                _ => told.inert.push((flag, unknown(name).to_owned())),
            },
        },
    }
}

/// A flag that stands for a key: it sets the variable of the key, or has no more effect than that.
fn stands_for(told: &mut Told, flag: &str, (key, value): (&str, String)) {
    match support::parameter(key) {
        Some((variable, Support::Honoured, _)) if !variable.is_empty() => {
            let one = told.variables.entry(variable.to_owned()).or_default();
            // A list may be given piece by piece; of everything else the last one counts.
            if LISTS.contains(&key) && !one.is_empty() {
                one.push(',');
                one.push_str(&value);
            } else {
                *one = value;
            }
        }
        Some((_, Support::Honoured, _)) => {
            let why = format!("set `{key}` in argocd-cmd-params-cm or argocd-cm instead");
            told.inert.push((flag.to_owned(), why));
        }
        Some((_, _, note)) => told.inert.push((flag.to_owned(), note.to_owned())),
        None => told.inert.push((flag.to_owned(), unknown(flag).to_owned())),
    }
}

/// What is said of a flag that nobody knows.
pub(crate) const UNKNOWN: &str = "this version has no such flag";

/// Why a flag has no effect that stands for no key.
fn unknown(name: &str) -> &'static str {
    const WAYS: [&str; 17] = [
        "server",
        "cluster",
        "user",
        "username",
        "password",
        "token",
        "as",
        "as-group",
        "as-uid",
        "certificate-authority",
        "client-certificate",
        "client-key",
        "insecure-skip-tls-verify",
        "proxy-url",
        "request-timeout",
        "tls-server-name",
        "disable-compression",
    ];
    let name = name.trim_start_matches('-');
    if WAYS.contains(&name) {
        OTHER_WAY
    } else if ["redis", "sentinel", "repo-server-redis", "repo-server-sentinel"]
        .iter()
        .any(|beginning| name.starts_with(beginning))
    {
        "there is no Redis"
    } else if name.starts_with("repo-server-") {
        "sources are rendered inside the controller"
    } else if name.starts_with("wq-") {
        "queues have no limits of rate: what fails waits longer each time"
    } else {
        match name {
            "gloglevel" => "client-go, whose log this is, is not a part of this program",
            "login-attempts-expiration" => "Argo CD ignores it, too",
            "dynamic-cluster-distribution-enabled" => "one controller works on all clusters",
            "enable-leader-election" => "of several processes one holds a lease and works, in every case",
            "probe-addr" => "`/healthz` is on every port",
            "allowed-plugin-gen-urls" => {
                "plugins of generators are named by ConfigMaps of the set's namespace"
            }
            _ => UNKNOWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &str, known: &[Known]) -> Told {
        let words: Vec<String> =
            words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        read(&words, known)
    }

    #[test]
    fn cli_1011_a_flag_sets_the_variable_that_it_stands_for() {
        let server = told("--insecure --basehref /cd --port=9090 --metrics-port 9091 -n team", SERVER);
        let variables = [("ARGOCD_SERVER_BASEHREF", "/cd"), ("ARGOCD_SERVER_INSECURE", "true")];
        assert_eq!(server.variables, variables.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
        assert_eq!(
            (server.port, server.metrics_port, server.namespace.as_deref()),
            (Some(9090), Some(9091), Some("team"))
        );
        assert_eq!(server.inert, []);
        let controller = told("--status-processors 5 --app-resync 60 --logformat text", CONTROLLER);
        assert_eq!(controller.variables["ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS"], "5");
        assert_eq!(controller.variables["ARGOCD_RECONCILIATION_TIMEOUT"], "60s");
        assert_eq!(controller.logformat.as_deref(), Some("text"));
        let lists = told(
            "--metrics-cluster-labels a --metrics-cluster-labels=b,c --self-heal-timeout-seconds -1",
            CONTROLLER,
        );
        let values: Vec<&str> = lists.variables.values().map(String::as_str).collect();
        assert_eq!(values, ["a,b,c", "-1"]);
    }

    #[test]
    fn cli_1011_a_flag_without_effect_is_named_with_the_reason() {
        let why = |words: &str, known: &[Known]| {
            let told = told(words, known);
            assert_eq!(told.variables, BTreeMap::new(), "{words}");
            told.inert.into_iter().map(|(flag, why)| format!("{flag}: {why}")).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(why("--redis argocd-redis:6379", SERVER), "--redis: there is no Redis");
        assert_eq!(why("--sentinelmaster=x", CONTROLLER), "--sentinelmaster: there is no Redis");
        assert_eq!(
            why("--repo-server argocd-repo-server:8081", CONTROLLER),
            "--repo-server: sources are rendered inside the controller"
        );
        assert_eq!(
            why("--nosuch --wq-burst 3", CONTROLLER),
            "--nosuch: this version has no such flag; --wq-burst: queues have no limits of rate: what fails waits longer each \
             time"
        );
        assert_eq!(why("--status-processors 3", &[]), "--status-processors: this version has no such flag");
        assert_eq!(why("--app-resync 3", SERVER), "--app-resync: this version has no such flag");
        assert_eq!(why("--token x", SERVER), format!("--token: {OTHER_WAY}"));
        assert_eq!(why("--port http", SERVER), "--port: \"http\" is no port");
        assert_eq!(why("run", SERVER), "run: this component takes flags alone");
    }

    #[test]
    fn cli_1011_every_flag_in_the_tables_is_taken_or_explained() {
        for known in [SERVER, CONTROLLER, REPO, SETS] {
            for (flag, _) in known.iter().chain(own_variables(known)) {
                let told = told(&format!("--{flag} 1"), known);
                let (taken, inert) = (told.variables.len(), told.inert.len());
                assert_eq!(taken + inert, 1, "{flag}: {told:?}");
                assert!(told.inert.iter().all(|(_, why)| *why != UNKNOWN), "{flag}: {told:?}");
                assert!(knows(known, flag), "{flag}");
            }
        }
        assert!(!knows(SETS, "status-processors") && !knows(REPO, "nosuch"));
    }

    #[test]
    fn cli_1011_flags_that_are_variables_set_them() {
        let repo =
            told("--plugin-tar-exclude *.png --plugin-tar-exclude docs --include-hidden-directories", REPO);
        let values: Vec<&str> = repo.variables.values().map(String::as_str).collect();
        assert_eq!(values, ["true", "*.png;docs"]);
        let events = told("--enable-k8s-event=none", CONTROLLER);
        assert_eq!(events.variables["ARGOCD_ENABLE_K8S_EVENT"], "none");
        let sets = told("--webhook-addr :7000 --debug --policy create-only --metrics-address ::", SETS);
        assert_eq!((sets.webhook_port, sets.loglevel.as_deref()), (Some(7000), Some("debug")));
        assert_eq!(sets.variables["ARGOCD_APPLICATIONSET_CONTROLLER_POLICY"], "create-only");
        assert_eq!((sets.metrics_address.as_deref(), sets.inert), (Some("::"), Vec::new()));
    }
}
