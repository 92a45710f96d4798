use super::*;

const PEM: &str = include_str!("../../../api/src/trust/testdata/ecdsa.pem");
const OTHER: &str = include_str!("../../../api/src/trust/testdata/rsa.pem");
const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

fn config_map(data: &Value) -> Object {
    let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "cm", "uid": "u", "resourceVersion": "7"}});
    Object::from_value(&value).unwrap()
}

fn filter(host: &str, kind: &str, sub_type: &str) -> Filter {
    Filter {
        host: HostPattern::new(host),
        kind: CertificateType::read(kind).unwrap(),
        sub_type: sub_type.to_owned(),
    }
}

fn written(change: &Change) -> Value {
    match change {
        Change::Patch(_, patch) => patch.expose()["data"].clone(),
        Change::Create(manifest) => manifest.expose()["data"].clone(),
        other => panic!("{other:?}"),
    }
}

fn entry(host: &str, kind: &str, data: &str) -> KnownHost {
    KnownHost { host: host.to_owned(), kind: kind.to_owned(), data: data.to_owned() }
}

#[test]
fn rep_84_certificates_of_a_host() {
    let (change, made) = plan_create_tls(("argocd", None), ("Git.acme.test", PEM), false).unwrap();
    assert_eq!(written(&change), json!({"git.acme.test": PEM}));
    assert_eq!(made.len(), 1);
    assert_eq!((made[0].host.as_str(), made[0].sub_type.as_str()), ("git.acme.test", "ecdsa"));

    let stored = config_map(&json!({"git.acme.test": format!("# old\n{PEM}"), "other.test": "x"}));
    let unchanged = plan_create_tls(("argocd", Some(&stored)), ("git.acme.test", PEM), false).unwrap();
    assert_eq!(unchanged, (Change::Keep, Vec::new()), "unchanged entries are not returned as created");
    let error = plan_create_tls(("argocd", Some(&stored)), ("git.acme.test", OTHER), false).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.code()),
        (
            "TLS certificate for server 'git.acme.test' already exists, and upsert was not specified",
            Code::AlreadyExists
        )
    );
    let (change, made) = plan_create_tls(("argocd", Some(&stored)), ("git.acme.test", OTHER), true).unwrap();
    assert_eq!(written(&change), json!({"git.acme.test": OTHER}));
    assert_eq!(made[0].info, "CN=rsa.test");
    let Change::Patch(seen, patch) = change else { panic!() };
    assert_eq!((seen.version.as_str(), &patch.expose()["metadata"]["resourceVersion"]), ("7", &json!("7")));
}

#[test]
fn rep_84_errors_have_their_texts() {
    let tls = |host: &str, pem: &str| {
        plan_create_tls(("argocd", None), (host, pem), false).unwrap_err().to_string()
    };
    assert_eq!(tls("a/b", PEM), "invalid hostname in request: a/b");
    assert_eq!(tls("a:443", PEM), "invalid hostname in request: a:443");
    assert_eq!(tls("a", "x"), "no valid PEM data received");
    assert_eq!(tls("a", &PEM.repeat(257)), "limit exceeded");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(tls("a", broken), "certificate 1: the data is no X.509 certificate");
    let stored = config_map(&json!({"ssh_known_hosts": format!("h ssh-ed25519 {KEY}\n")}));
    let ssh = |entry: KnownHost| {
        plan_create_ssh(("argocd", Some(&stored)), &[entry], false).unwrap_err().to_string()
    };
    assert_eq!(
        ssh(entry("h", "ssh-ed25519", "AAAA")),
        "key for 'h' (subtype: 'ssh-ed25519') already exists, and upsert was not specified"
    );
    assert_eq!(ssh(entry("h h", "ssh-rsa", KEY)), "invalid hostname in request: h h");
    assert_eq!(ssh(entry("h", "ssh-rsa", "***")), "the key for 'h' (subtype: 'ssh-rsa') is not valid base64");
    let many: Vec<KnownHost> = (0..257).map(|n| entry(&format!("h{n}"), "ssh-rsa", KEY)).collect();
    assert_eq!(plan_create_ssh(("argocd", None), &many, true), Err(CertificateError::TooMany));
    assert_eq!(CertificateType::read("gpg").unwrap_err().to_string(), "unknown certificate type: gpg");
}

#[test]
fn rep_85_host_keys_are_changed_and_comments_stay() {
    let text = format!("# ours\nh ssh-ed25519 {KEY}\n# theirs\ng ssh-rsa AAAA\n");
    let stored = config_map(&json!({"ssh_known_hosts": text, "other": "x"}));
    let wanted =
        [entry("h", "ssh-ed25519", KEY), entry("g", "ssh-rsa", "BBBB"), entry("[new]:22", "ssh-rsa", "CCCC")];
    assert!(
        plan_create_ssh(("argocd", Some(&stored)), &wanted, false).is_err(),
        "nothing is stored by halves"
    );
    let (change, made) = plan_create_ssh(("argocd", Some(&stored)), &wanted, true).unwrap();
    let hosts: Vec<&str> = made.iter().map(|item| item.host.as_str()).collect();
    assert_eq!(hosts, ["g", "[new]:22"]);
    let expected = format!("# ours\nh ssh-ed25519 {KEY}\n# theirs\ng ssh-rsa BBBB\n[new]:22 ssh-rsa CCCC\n");
    assert_eq!(written(&change), json!({"ssh_known_hosts": expected}));

    let (change, removed) = plan_delete_ssh(("argocd", Some(&stored)), &filter("*", "ssh", "ssh-rsa"));
    assert_eq!(removed.len(), 1);
    assert_eq!(
        written(&change),
        json!({"ssh_known_hosts": format!("# ours\nh ssh-ed25519 {KEY}\n# theirs\n")})
    );
    assert_eq!(plan_delete_ssh(("argocd", Some(&stored)), &filter("", "https", "")).0, Change::Keep);
    assert_eq!(plan_delete_ssh(("argocd", None), &filter("", "", "")).0, Change::Keep);
}

#[test]
fn rep_83_lists_show_subjects_and_fingerprints() {
    let hosts = config_map(&json!({"ssh_known_hosts": format!("h ssh-ed25519 {KEY}\n")}));
    let tls = config_map(&json!({"a.test": format!("{PEM}{OTHER}"), "b.test": "x"}));
    let shown = |filter: &Filter| {
        let items = list(Some(&hosts), Some(&tls), filter);
        let line =
            |item: &Item| format!("{} {} {} {}", item.host, item.kind.as_str(), item.sub_type, item.info);
        items.iter().map(line).collect::<Vec<_>>()
    };
    let all = shown(&filter("", "", ""));
    assert_eq!(all[0], "h ssh ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
    assert!(all[1].starts_with("a.test https ecdsa CN=git.acme.test,"), "{}", all[1]);
    assert_eq!(all[2], "a.test https rsa CN=rsa.test");
    assert_eq!(all[3], "b.test https invalid no valid PEM data received");
    assert_eq!(shown(&filter("a.*", "", "ssh-rsa")).len(), 2, "REP-85: it filters SSH only");
    assert_eq!(shown(&filter("", "ssh", "ssh-rsa")).len(), 0);
    let (change, removed) = plan_delete_tls(("argocd", Some(&tls)), &filter("a.test", "tls", ""));
    assert_eq!((written(&change), removed.len()), (json!({"a.test": null}), 2));
}

#[test]
fn rep_83_an_answer_is_read_as_it_was_written() {
    for kind in [CertificateType::Ssh, CertificateType::Https] {
        let item = Item { host: "h".into(), kind, sub_type: "rsa".into(), info: "CN=h".into() };
        assert_eq!(Item::read(&item.to_value()).unwrap(), item);
    }
    assert!(Item::read(&json!({"certType": "x"})).is_err());
}
