use super::*;

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn cluster(pairs: &[(&str, &str)]) -> Cluster {
    Cluster::from_secret(&Metadata::default(), &data(pairs))
}

fn destination(server: &str, name: &str) -> Destination {
    Destination { server: server.to_owned(), name: name.to_owned(), ..Destination::default() }
}

#[test]
fn rep_b1_reads_the_secret() {
    let read = cluster(&[
        ("name", "eu"),
        ("server", "https://eu.test//"),
        ("namespaces", " a, ,b,"),
        ("clusterResources", "true"),
        ("shard", "2"),
        ("project", "shop"),
    ]);
    assert_eq!((read.name.as_str(), read.server.as_str()), ("eu", "https://eu.test"));
    assert_eq!(read.namespaces, ["a", "b"]);
    assert!(read.cluster_resources && read.is_namespaced());
    assert_eq!((read.shard, read.project.as_str()), (Some(2), "shop"));
}

#[test]
fn rep_b1_odd_values_fall_back() {
    let read = cluster(&[("server", "https://eu.test"), ("clusterResources", "True"), ("shard", "x")]);
    assert_eq!(read.name, "");
    assert!(!read.cluster_resources);
    assert_eq!(read.shard, None);
    assert_eq!(read.warnings.len(), 1);
}

#[test]
fn rep_101_own_labels_and_annotations_are_left_out() {
    let metadata = Metadata {
        labels: data(&[(SECRET_TYPE_LABEL, "cluster"), ("env", "prod")]),
        annotations: data(&[("managed-by", "x"), (LAST_APPLIED, "{}"), ("note", "n")]),
        ..Metadata::default()
    };
    let read = Cluster::from_secret(&metadata, &data(&[("server", "s")]));
    assert_eq!(read.labels, data(&[("env", "prod")]));
    assert_eq!(read.annotations, data(&[("note", "n")]));
}

#[test]
fn rep_104_config_is_read_and_hidden() {
    let read = cluster(&[
        ("server", "s"),
        (
            "config",
            r#"{"bearerToken":"t0p","tlsClientConfig":{"insecure":true,"caData":"Q0E="},"unknown":1,
                "awsAuthConfig":{"clusterName":"c","roleARN":"r"},
                "execProviderConfig":{"command":"get-token","args":["a"],"env":{"K":"v"}}}"#,
        ),
    ]);
    let config = read.parse_config().unwrap();
    assert_eq!(config.bearer_token.expose(), "t0p");
    assert!(config.tls_client_config.insecure);
    assert_eq!(config.aws_auth_config.as_ref().unwrap().role_arn, "r");
    assert_eq!(config.exec_provider_config.as_ref().unwrap().args, ["a"]);
    assert!(!format!("{read:?} {config:?}").contains("t0p"));
    assert_eq!(cluster(&[("server", "s")]).parse_config(), Ok(ClusterConfig::default()));
    assert!(matches!(
        cluster(&[("server", "s"), ("config", "{\"password\":\"p4ss\"")]).parse_config(),
        Err(ClusterError::Config { .. })
    ));
}

#[test]
fn rep_107_proxies_speak_http_or_socks() {
    let parse = |url: &str| {
        let text = serde_json::json!({ "proxyUrl": url }).to_string();
        cluster(&[("server", "s"), ("config", &text)]).parse_config().map(|_| ())
    };
    assert_eq!(parse("socks5://p:1"), Ok(()));
    assert_eq!(
        parse("ftp://p").unwrap_err().to_string(),
        "failed to parse proxy url, unsupported scheme \"ftp\", must be http, https, or socks5"
    );
}

#[test]
fn rep_110_the_local_cluster_exists_unless_switched_off() {
    let none = Clusters::new(vec![], true);
    assert_eq!(
        none.of_project("").resolve(&destination("", "in-cluster")).unwrap().server,
        IN_CLUSTER_SERVER
    );
    assert_eq!(
        none.of_project("").resolve(&destination("https://kubernetes.default.svc/", "")).unwrap().name,
        "in-cluster"
    );
    let own = cluster(&[("server", IN_CLUSTER_SERVER), ("name", "here")]);
    let replaced = Clusters::new(vec![own.clone()], true);
    assert_eq!(replaced.all().len(), 1);
    assert_eq!(replaced.of_project("").by_name("here").unwrap().server, IN_CLUSTER_SERVER);
    let off = Clusters::new(vec![own], false);
    assert!(off.all().is_empty());
    assert!(
        off.of_project("").by_server(IN_CLUSTER_SERVER).unwrap_err().to_string().ends_with("is disabled")
    );
}

#[test]
fn rep_111_destinations_resolve_to_one_cluster() {
    let clusters = Clusters::new(
        vec![
            cluster(&[("server", "https://b"), ("name", "twin")]),
            cluster(&[("server", "https://a"), ("name", "twin")]),
            cluster(&[("server", "https://eu"), ("name", "eu")]),
        ],
        true,
    );
    let fails = |server: &str, name: &str| {
        clusters.of_project("").resolve(&destination(server, name)).unwrap_err().to_string()
    };
    assert_eq!(clusters.of_project("").resolve(&destination("https://eu/", "")).unwrap().name, "eu");
    assert_eq!(clusters.of_project("").resolve(&destination("", "eu")).unwrap().server, "https://eu");
    assert_eq!(
        fails("https://eu", "eu"),
        "application destination can't have both name and server defined: eu https://eu"
    );
    assert_eq!(fails("", ""), "Destination server missing from app spec");
    assert_eq!(fails("", "us"), "there are no clusters with this name: us");
    assert_eq!(fails("", "twin"), "there are 2 clusters with the same name: [https://a https://b]");
    assert!(fails("https://us", "").starts_with("error getting cluster by server \"https://us\": "));
}

#[test]
fn rep_104_a_config_is_read_as_it_was_written() {
    let text = r#"{"awsAuthConfig":{"clusterName":"c","profile":"p","roleARN":"r"},"bearerToken":"t",
        "disableCompression":true,"execProviderConfig":{"apiVersion":"v","args":["a"],"command":"x","env":{"A":"b"},
        "installHint":"h","provideClusterInfo":true,"config":{"y":1}},"password":"w","proxyUrl":"http://p",
        "tlsClientConfig":{"caData":"Y2E=","certData":"Yw==","insecure":true,"keyData":"aw==","serverName":"n"},
        "username":"u"}"#;
    let written: Value = serde_json::from_str(text).unwrap();
    let config: ClusterConfig = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(config.to_json().expose()).unwrap(), written);
    assert_eq!(ClusterConfig::default().to_json().expose(), r#"{"tlsClientConfig":{"insecure":false}}"#);
}

#[test]
fn rep_103_a_refresh_has_a_time() {
    let with = |text: &str| {
        let annotations = data(&[(names::annotation::REFRESH, text)]);
        Cluster::from_secret(&Metadata { annotations, ..Metadata::default() }, &data(&[("server", "s")]))
    };
    let good = with("2026-08-01T10:00:00Z");
    assert_eq!(
        (good.refresh_requested_at.as_deref(), good.warnings.len()),
        (Some("2026-08-01T10:00:00Z"), 0)
    );
    let bad = with("now");
    assert_eq!((bad.refresh_requested_at.as_deref(), bad.warnings.len()), (None, 1), "{:?}", bad.warnings);
}

#[test]
fn rep_103_who_wants_a_version_and_what_of_a_cluster_is_for_people() {
    let with = |labels: &[(&str, &str)], name: &str| {
        let metadata = Metadata { labels: data(labels), name: name.to_owned(), ..Metadata::default() };
        Cluster::from_secret(&metadata, &data(&[("server", "s")]))
    };
    let asks = [(names::label::AUTO_LABEL_CLUSTER_INFO, "true")];
    assert!(with(&asks, "secret").wants_version_label());
    assert!(!with(&asks, "").wants_version_label(), "there is no Secret to write to");
    assert!(!with(&[(names::label::AUTO_LABEL_CLUSTER_INFO, "True")], "secret").wants_version_label());
    let plain = with(&[], "secret");
    assert!(plain.is_same_destination(&with(&asks, "secret")) && plain != with(&asks, "secret"));
    assert!(!plain.is_same_destination(&Cluster { name: "other".to_owned(), ..plain.clone() }));
}

/// A3: a project's entry is there for the project alone, and changes nothing for others.
#[test]
fn rep_111_destinations_resolve_in_the_own_project_first() {
    let entry = |server: &str, name: &str, project: &str| {
        cluster(&[("server", server), ("name", name), ("project", project)])
    };
    let clusters = Clusters::new(
        vec![
            entry("https://eu", "eu", ""),
            entry("https://us", "us", ""),
            entry("https://evil", "eu", "red"),
            entry("https://us", "other", "red"),
            entry("https://blue", "blue", "blue"),
            entry("https://one", "twin", "blue"),
            entry("https://two", "twin", "blue"),
        ],
        true,
    );
    let found = |project: &str, server: &str, name: &str| {
        let found = clusters.of_project(project).resolve(&destination(server, name));
        found.map(|cluster| cluster.key().to_string()).map_err(|error| error.to_string())
    };
    let ok = |text: &str| Ok(text.to_owned());
    for project in ["", "shop", "blue"] {
        assert_eq!(
            found(project, "", "eu"),
            ok("https://eu"),
            "{project}: a second name stops only its own project"
        );
        assert_eq!(found(project, "https://us", ""), ok("https://us"), "{project}");
    }
    assert_eq!(found("red", "", "eu"), ok("red/https://evil"));
    assert_eq!(found("red", "https://us", ""), ok("red/https://us"));
    assert_eq!(found("red", "", "us"), ok("https://us"), "the shared entry, not that of the same server");
    assert_eq!(found("blue", "", "blue"), ok("blue/https://blue"));
    assert_eq!(found("red", "", "blue").unwrap_err(), "there are no clusters with this name: blue");
    assert!(found("red", "https://blue", "").unwrap_err().contains("cluster \"https://blue\" not found"));
    assert!(found("", "https://blue", "").is_err(), "nothing without a project sees it");
    assert!(found("blue", "", "twin").unwrap_err().starts_with("there are 2 clusters with the same name"));
    assert_eq!(found("red", "", "twin").unwrap_err(), "there are no clusters with this name: twin");
}

/// A3: only the shared scope replaces the local cluster.
#[test]
fn rep_110_a_project_does_not_replace_the_local_cluster() {
    let own = cluster(&[("server", IN_CLUSTER_SERVER), ("name", "mine"), ("project", "red")]);
    let clusters = Clusters::new(vec![own], true);
    let found =
        |project: &str| clusters.of_project(project).by_server(IN_CLUSTER_SERVER).unwrap().name.clone();
    assert_eq!(
        (found("").as_str(), found("red").as_str(), found("blue").as_str()),
        ("in-cluster", "mine", "in-cluster")
    );
    let names: Vec<&str> = clusters.all().iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(names, ["in-cluster", "mine"]);
}

#[test]
fn inv_15_an_unreadable_own_cluster_is_no_shared_one() {
    let unread = |seen: Option<Cluster>| UnreadCluster {
        secret_name: "s".to_owned(),
        reason: "it is nested too deep".to_owned(),
        seen,
    };
    let shared = cluster(&[("server", "https://eu"), ("name", "eu")]);
    let own = cluster(&[("server", "https://red"), ("name", "eu"), ("project", "red")]);
    let clusters = Clusters::new(vec![shared], true).beside(vec![unread(Some(own))]);
    let error = clusters.of_project("red").by_name("eu").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cluster \"eu\" of the project is unknown: Secret s cannot be read: it is nested too deep"
    );
    assert!(clusters.of_project("red").doubt(&error).is_some());
    assert_eq!(clusters.of_project("blue").by_name("eu").unwrap().server, "https://eu");
    let missing = clusters.of_project("blue").by_server("https://red").unwrap_err();
    assert_eq!(clusters.of_project("blue").doubt(&missing), None, "another project's Secret is no doubt");
    let unknown = Clusters::new(vec![], true).beside(vec![unread(None)]);
    let missing = unknown.of_project("blue").by_server("https://red").unwrap_err();
    assert!(unknown.of_project("blue").doubt(&missing).is_some(), "nobody knows whose it is");
}
