use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn params(pairs: &[(&str, &str)]) -> Settings {
    Settings::new(SettingsData { params: map(pairs), ..SettingsData::default() })
}

fn cm(pairs: &[(&str, &str)]) -> Settings {
    Settings::new(SettingsData { cm: map(pairs), ..SettingsData::default() })
}

#[test]
fn ctl_132_defaults_of_an_empty_installation() {
    let settings = Settings::default();
    let controller = settings.controller();
    assert_eq!(
        (controller.status_processors, controller.operation_processors, controller.hydration_processors),
        (20, 10, 5)
    );
    assert_eq!(controller.kubectl_parallelism_limit, Some(20));
    assert_eq!(controller.sync_timeout, None);
    assert_eq!(controller.sync_wave_delay, Duration::from_secs(2));
    assert_eq!(controller.repo_error_grace_period, Duration::from_mins(3));
    assert_eq!(controller.jq_timeout, Duration::from_secs(1));
    assert_eq!(controller.client_rate, None);
    assert!(controller.batch_events && !controller.server_side_diff && !controller.hydrator_enabled);
    assert_eq!(settings.warnings(), &[] as &[String]);
}

#[test]
fn ctl_28_refresh_timeouts() {
    let timeouts = Settings::default().refresh_timeouts();
    assert_eq!(timeouts.soft, Duration::from_mins(2));
    assert_eq!(timeouts.jitter, Duration::from_mins(1));
    assert_eq!(timeouts.hard, Duration::ZERO);
    let set = cm(&[("timeout.reconciliation", "3m"), ("timeout.reconciliation.jitter", "0")]);
    assert_eq!(set.refresh_timeouts().soft, Duration::from_mins(3));
    assert_eq!(set.refresh_timeouts().jitter, Duration::ZERO);
}

#[test]
fn ctl_132_unreadable_values_fall_back_with_a_warning() {
    let settings = params(&[
        ("controller.status.processors", "many"),
        ("controller.operation.processors", "-1"),
        ("controller.hydration.processors", "0"),
        ("controller.diff.server.side", "yes"),
        ("controller.repo.error.grace.period.seconds", "180"),
    ]);
    let controller = settings.controller();
    assert_eq!(
        (controller.status_processors, controller.operation_processors, controller.hydration_processors),
        (20, 10, 5)
    );
    assert!(!controller.server_side_diff);
    assert_eq!(controller.repo_error_grace_period, Duration::from_mins(3));
    assert_eq!(settings.warnings().len(), 5, "{:?}", settings.warnings());
}

#[test]
fn ctl_132_the_environment_beats_the_config_map() {
    let settings = Settings::new(SettingsData {
        params: map(&[("controller.status.processors", "7"), ("application.namespaces", "a, b")]),
        env: map(&[
            ("ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS", "9"),
            ("ARGOCD_RECONCILIATION_TIMEOUT", "1m"),
        ]),
        ..SettingsData::default()
    });
    assert_eq!(settings.controller().status_processors, 9);
    assert_eq!(settings.refresh_timeouts().soft, Duration::from_mins(1));
    assert_eq!(settings.application_namespaces(), ["a", "b"]);
    assert_eq!(params(&[("controller.status.processors", "7")]).controller().status_processors, 7);
}

#[test]
fn ctl_59_self_heal_backs_off() {
    let waits = |self_heal: SelfHeal| (0..8).map(|n| self_heal.wait(n).as_secs()).collect::<Vec<_>>();
    assert_eq!(waits(Settings::default().controller().self_heal), [0, 2, 6, 18, 54, 162, 300, 300]);
    let fixed = params(&[
        ("controller.self.heal.backoff.timeout.seconds", "0"),
        ("controller.self.heal.timeout.seconds", "5"),
    ]);
    assert_eq!(waits(fixed.controller().self_heal), [5; 8]);
    assert_eq!(Settings::default().controller().self_heal.wait(i64::MAX).as_secs(), 300);
}

#[test]
fn ctl_132_kubectl_limits_below_one_mean_none() {
    for text in ["0", "-3"] {
        assert_eq!(
            params(&[("controller.kubectl.parallelism.limit", text)]).controller().kubectl_parallelism_limit,
            None
        );
    }
}

#[test]
fn trk_7_missing_and_empty_mean_the_default() {
    for settings in [cm(&[]), cm(&[("application.resourceTrackingMethod", ""), ("installationID", "")])] {
        assert_eq!(settings.tracking_method(), "annotation");
        assert_eq!(settings.instance_label_key(), "app.kubernetes.io/instance");
        assert_eq!(settings.installation_id(), None);
    }
}

#[test]
fn trk_8_unknown_methods_mean_annotation() {
    let settings = cm(&[("application.resourceTrackingMethod", "Label")]);
    assert_eq!((settings.tracking_method(), settings.warnings().len()), ("annotation", 1));
    assert_eq!(cm(&[("application.resourceTrackingMethod", "label")]).tracking_method(), "label");
}

#[test]
fn eng_67_status_is_ignored_unless_told_otherwise() {
    for (text, expected, warns) in [
        ("", IgnoreStatus::All, 0),
        ("ignoreResourceStatusField: all", IgnoreStatus::All, 0),
        ("ignoreResourceStatusField: crd", IgnoreStatus::Crd, 0),
        ("ignoreResourceStatusField: none", IgnoreStatus::None, 0),
        ("ignoreResourceStatusField: off", IgnoreStatus::None, 0),
        ("ignoreResourceStatusField: 'off'", IgnoreStatus::None, 0),
        ("ignoreResourceStatusField: false", IgnoreStatus::None, 0),
        ("ignoreResourceStatusField: odd", IgnoreStatus::All, 1),
    ] {
        let settings = cm(&[("resource.compareoptions", text)]);
        assert_eq!(settings.compare_options().ignore_status, expected, "{text}");
        assert_eq!(settings.warnings().len(), warns, "{text}");
    }
    let options = cm(&[("resource.compareoptions", "ignoreAggregatedRoles: true")]).compare_options();
    assert!(options.ignore_aggregated_roles && options.ignore_differences_on_resource_updates);
    let quoted = cm(&[("resource.compareoptions", "ignoreDifferencesOnResourceUpdates: \"false\"")]);
    assert!(!quoted.compare_options().ignore_differences_on_resource_updates);
}

#[test]
fn eng_66_customizations_are_found_in_both_forms() {
    let settings = cm(&[
        ("resource.customizations", "a: {}"),
        ("resource.customizations.health.apps_Deployment", "return 1"),
        ("resource.customizationsx", "no"),
    ]);
    let keys: Vec<_> = settings.resource_customizations().map(|(key, _)| key).collect();
    assert_eq!(keys, ["resource.customizations", "resource.customizations.health.apps_Deployment"]);
}

#[test]
fn rep_185_188_global_projects() {
    let settings = cm(&[(
        "globalProjects",
        "- projectName: base\n  labelSelector:\n    matchLabels:\n      tier: x\n- projectName: all\n",
    )]);
    let names: Vec<_> = settings.global_projects().iter().map(|g| g.project_name.as_str()).collect();
    assert_eq!(names, ["base", "all"]);
    let broken = cm(&[("globalProjects", "projectName: base")]);
    assert!(broken.global_projects().is_empty());
    assert_eq!(broken.warnings().len(), 1);
}

#[test]
fn rep_switches_are_exact() {
    assert!(cm(&[("application.sync.impersonation.enabled", "true")]).impersonation_enabled());
    assert!(!cm(&[("application.sync.impersonation.enabled", "True")]).impersonation_enabled());
    assert!(Settings::default().impersonation_enforced());
    assert!(!cm(&[("cluster.inClusterEnabled", "false")]).in_cluster_enabled());
    assert!(cm(&[("cluster.inClusterEnabled", "no")]).in_cluster_enabled());
    assert_eq!(cm(&[("project.matching", "strict")]).project_matching(), ProjectMatching::Strict);
    assert!(cm(&[]).renderer_enabled("helm"));
    assert!(!cm(&[("helm.enable", "yes")]).renderer_enabled("helm"));
    assert_eq!(cm(&[]).helm_values_file_schemes(), ["https", "http"]);
    assert!(cm(&[("helm.valuesFileSchemes", "")]).helm_values_file_schemes().is_empty());
}

#[test]
fn sty_110_printing_settings_shows_no_secret() {
    let settings = Settings::new(SettingsData {
        secret: map(&[("webhook.github.secret", "s3cret")]),
        env: map(&[("TOKEN", "s3cret")]),
        ..SettingsData::default()
    });
    assert!(!format!("{settings:?}").contains("s3cret"));
    assert_eq!(settings.webhook_secrets().github.expose(), "s3cret");
}

#[test]
fn rep_108_clusters_are_asked_as_fast_as_somebody_says() {
    let rate = |pairs: &[(&str, &str)]| params(pairs).controller().client_rate;
    let (qps, burst) = ("controller.k8s.client.qps", "controller.k8s.client.burst");
    assert_eq!(rate(&[(qps, "1000")]), Some(ClientRate { per_second: 1000, burst: 2000 }));
    assert_eq!(rate(&[(qps, "20"), (burst, "0")]), Some(ClientRate { per_second: 20, burst: 1 }));
    assert_eq!(rate(&[(burst, "300")]), Some(ClientRate { per_second: 50, burst: 300 }));
    assert_eq!(rate(&[(qps, "0"), (burst, "300")]), None);
    assert_eq!(rate(&[(qps, "fast")]), Some(ClientRate { per_second: 50, burst: 100 }));
    let env = map(&[("ARGOCD_K8S_CLIENT_QPS", "7")]);
    let settings = Settings::new(SettingsData { env, ..SettingsData::default() });
    assert_eq!(settings.controller().client_rate.map(|rate| rate.per_second), Some(7));
}

/// REP-108: each limit has its default and its variable; 0 is none, and what cannot be read is told and changes nothing.
#[test]
fn rep_108_connections_have_the_limits_of_the_environment() {
    let names = [
        "ARGOCD_K8S_CLIENT_MAX_IDLE_CONNECTIONS",
        "ARGOCD_K8S_TLS_HANDSHAKE_TIMEOUT",
        "ARGOCD_K8S_TCP_TIMEOUT",
        "ARGOCD_K8S_TCP_KEEPALIVE",
        "ARGOCD_K8S_TCP_IDLE_TIMEOUT",
        "ARGOCD_K8S_SERVER_SIDE_TIMEOUT",
    ];
    let limits = |values: [&str; 6]| {
        let env = names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), value.to_owned()));
        let settings = Settings::new(SettingsData { env: env.collect(), ..SettingsData::default() });
        let of = settings.controller().client_limits;
        let times = [of.tls_handshake, of.tcp_connect, of.tcp_keep_alive, of.idle, of.request];
        let seconds = times.map(|time| time.map(|time| time.as_secs()));
        (of.idle_connections, seconds, settings.warnings().len())
    };
    let defaults = (Some(500), [Some(10), Some(30), Some(30), Some(300), None]);
    assert_eq!(limits([""; 6]), (defaults.0, defaults.1, 0));
    assert_eq!(limits(["x", "-1s", "1", "30", "fast", "1y"]), (defaults.0, defaults.1, 6));
    assert_eq!(limits(["0", "0s", "0", "0", "0s", "0"]), (None, [None; 5], 0));
    let all = limits(["7", "1s", "2s", "3s", "4m", "5s"]);
    assert_eq!(all, (Some(7), [Some(1), Some(2), Some(3), Some(240), Some(5)], 0));
}

#[test]
fn api_226_the_reasons_of_events_can_be_chosen() {
    let has_events = |set: Option<&str>, reason| {
        let env = set.map(|text| ("ARGOCD_ENABLE_K8S_EVENT".to_owned(), text.to_owned()));
        Settings::new(SettingsData { env: env.into_iter().collect(), ..SettingsData::default() })
            .has_events(reason)
    };
    for all in [None, Some("all"), Some("")] {
        assert!(has_events(all, "ResourceCreated"), "{all:?}");
    }
    assert!(!has_events(Some("none"), "ResourceCreated"));
    let some = Some("ResourceDeleted, OperationStarted");
    assert!(has_events(some, "OperationStarted") && !has_events(some, "ResourceCreated"));
}

#[test]
fn api_199_api_210_settings_of_webhooks_have_defaults_and_bounds() {
    let read = |parallelism: &str, jitter: &str, threshold: &str| {
        let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let settings = Settings::new(SettingsData {
            params: [set("server.webhook.parallelism.limit", parallelism)].into(),
            cm: [set("webhook.refresh.jitter", jitter), set("webhook.refresh.jitter.threshold", threshold)]
                .into(),
            ..SettingsData::default()
        });
        let Webhooks { parallelism, jitter, jitter_threshold } = settings.webhooks();
        (parallelism, jitter.as_secs(), jitter_threshold, settings.warnings().len())
    };
    assert_eq!(read("", "", ""), (50, 0, 10, 0));
    assert_eq!(read("1", "1m30s", "0"), (1, 90, 0, 0));
    assert_eq!(read("1001", "soon", "-1"), (50, 0, 10, 3));
}
