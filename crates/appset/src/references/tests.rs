use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;
use crate::generator::Kind;

const NAMESPACES: Namespaces<'static> = Namespaces { set: "team", control_plane: "argocd" };

fn texts(pairs: &[(&str, &str)]) -> TextMap {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn access(project: &str, registered_only: bool) -> Access {
    Access { project: project.to_owned(), registered_only }
}

fn reference(purpose: Purpose) -> Reference {
    Reference::new(purpose, &NAMESPACES, "x", "k")
}

/// Labels and data of an object of a type and a project.
fn object(kind: &str, project: &str) -> (TextMap, TextMap) {
    let mut data =
        texts(&[("k", PEM_BEGIN), ("baseUrl", "http://h"), ("token", "$a:b"), ("kind", "placements")]);
    if !project.is_empty() {
        data.insert("project".to_owned(), project.to_owned());
    }
    let labels = match kind {
        "" => TextMap::new(),
        "part" => texts(&[(PART_OF_LABEL, PART_OF)]),
        kind => texts(&[(SECRET_TYPE_LABEL, kind), (PART_OF_LABEL, PART_OF)]),
    };
    (labels, data)
}

fn may(access: &Access, reference: &Reference, (labels, data): &(TextMap, TextMap)) -> bool {
    access.refusal(reference, Found::Object { labels, data }).is_none()
}

const ALL: [Purpose; 6] = [
    Purpose::ProviderToken,
    Purpose::GithubApp,
    Purpose::Certificates,
    Purpose::PluginConfig,
    Purpose::PluginToken,
    Purpose::DecisionConfig,
];

#[test]
fn sec_only_labelled_secrets_are_tokens() {
    let own = access("p", false);
    for kind in
        ["", "part", "cluster", "repository", "repository-write", "repo-creds", "repo-write-creds", "other"]
    {
        let object = object(kind, "p");
        assert!(!may(&own, &reference(Purpose::ProviderToken), &object), "{kind}");
        assert_eq!(may(&own, &reference(Purpose::GithubApp), &object), kind == "repo-creds", "{kind}");
        assert_eq!(may(&own, &reference(Purpose::PluginToken), &object), kind == "part", "{kind}");
    }
    for purpose in ALL {
        assert!(may(&own, &reference(purpose), &object("scm-creds", "p")), "{purpose:?}");
    }
}

#[test]
fn sec_objects_of_the_installation_are_never_used() {
    let labelled = object("scm-creds", "");
    for purpose in ALL {
        let reserved: &[&str] = if purpose.is_secret() { &RESERVED_SECRETS } else { &RESERVED_CONFIG_MAPS };
        for name in reserved {
            let named = Reference::new(purpose, &NAMESPACES, name, "k");
            for access in [access("", false), access("p", false)] {
                assert!(!may(&access, &named, &labelled), "{purpose:?} {name}");
                assert!(access.refusal(&named, Found::Unread).is_some(), "{purpose:?} {name}");
            }
        }
        assert_eq!(access("p", false).refusal(&reference(purpose), Found::Unread), None);
    }
    let certificates = Reference::new(Purpose::Certificates, &NAMESPACES, "argocd-tls-certs-cm", "k");
    assert!(may(&access("", false), &certificates, &labelled));
}

#[test]
fn aset_275_objects_of_another_project_are_not_used() {
    for purpose in ALL {
        let may =
            |access: &Access, project: &str| may(access, &reference(purpose), &object("scm-creds", project));
        let (unscoped, scoped, strict) = (access("", false), access("p", false), access("p", true));
        assert!(may(&unscoped, "") && !may(&unscoped, "p") && !may(&unscoped, "q"), "{purpose:?}");
        assert!(may(&scoped, "") && may(&scoped, "p") && !may(&scoped, "q"), "{purpose:?}");
        assert!(may(&strict, "p") && !may(&strict, "q"), "{purpose:?}");
        assert_eq!(may(&strict, ""), purpose == Purpose::PluginToken, "{purpose:?}");
    }
    let part = object("part", "");
    assert!(!may(&access("p", true), &reference(Purpose::PluginToken), &part));
    assert!(may(&access("p", true), &reference(Purpose::PluginToken), &object("part", "p")));
}

#[test]
fn sec_missing_and_forbidden_objects_get_one_answer() {
    for purpose in ALL {
        for access in [access("", false), access("p", false), access("p", true)] {
            let reference = reference(purpose);
            let missing = access.refusal(&reference, Found::Missing).unwrap();
            for (labels, data) in [object("scm-creds", "q"), object("cluster", "q"), <_>::default()] {
                let found = Found::Object { labels: &labels, data: &data };
                assert_eq!(access.refusal(&reference, found).unwrap(), missing, "{purpose:?}");
            }
            assert!(!missing.contains('q'), "{missing}");
        }
    }
}

#[test]
fn sec_plugins_take_no_keys_of_the_installation() {
    let may = |project: &str, registered_only, key: &str, config: &str| {
        access(project, registered_only).own_key_refusal(key, config).is_none()
    };
    assert!(may("", false, "plugin.regions.token", "") && may("p", false, "k", ""));
    for key in
        ["server.secretkey", "admin.password", "accounts.kim.tokens", "webhook.github.secret", "tls.key"]
    {
        assert!(!may("", false, key, ""), "{key}");
    }
    assert!(!may("p", false, "k", "p"), "the ConfigMap of a project");
    assert!(!may("p", true, "k", ""));
}

#[test]
fn sec_shared_credentials_go_to_listed_addresses() {
    let listed = ["https://git.acme".to_owned()];
    let to = |api| Address { api, ..Address::default() };
    for api in ["", "https://evil", "https://git.acme"] {
        assert_eq!(address_refusal("p", &to(api), &[]), None, "its own goes where the project says");
    }
    assert_eq!(address_refusal("", &to(""), &[]), None);
    assert_eq!(address_refusal("", &to("https://git.acme"), &listed), None);
    for (api, allowed) in
        [("https://evil", &[][..]), ("https://evil", &listed), ("https://git.acme/", &listed)]
    {
        assert!(address_refusal("", &to(api), allowed).unwrap().contains("allowed.scm.providers"), "{api}");
    }
    let enterprise = Address { own: "https://ghe.acme", ..to("https://ghe.acme/") };
    assert_eq!(address_refusal("", &enterprise, &[]), None, "where its Secret says");
    let unverified = |api| Address { is_verified_otherwise: true, ..to(api) };
    assert!(address_refusal("", &unverified(""), &listed).is_some());
    assert_eq!(address_refusal("", &unverified("https://git.acme"), &listed), None);
    assert_eq!(address_refusal("p", &unverified(""), &[]), None);
}

#[test]
fn sec_roles_of_aws_are_listed() {
    let ask = |role: &str, access: &Access, allowed: &[String]| {
        let block = json!({"role": role});
        provider_refusal("awsCodeCommit", block.as_object().unwrap(), access, allowed)
    };
    let role = "arn:aws:iam::1:role/reader";
    assert_eq!(ask("", &access("p", false), &[]), None);
    assert!(ask(role, &access("", false), &[]).unwrap().contains(role));
    assert_eq!(ask(role, &access("p", false), &[role.to_owned()]), None);
    assert!(ask("", &access("p", true), &[]).is_some(), "the controller's identity is shared");
}

/// Members of a schema that name a Secret or `ConfigMap`, below generators of each kind.
fn named_by_schema(schema: &Value, path: &mut Vec<String>, into: &mut BTreeSet<Vec<String>>) {
    let Some(members) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, member) in members {
        if matches!(name.as_str(), "template" | "selector" | "values" | "input") {
            continue;
        }
        path.push(name.clone());
        let has = |inner: &str| member.pointer(&format!("/properties/{inner}")).is_some();
        let lower = name.to_lowercase();
        let is_named = has("secretName")
            || has("configMapName")
            || ["ref", "secret", "configmap", "secretname"].iter().any(|end| lower.ends_with(end));
        if is_named {
            into.insert(path.clone());
        } else {
            named_by_schema(member, path, into);
            if let Some(items) = member.get("items") {
                named_by_schema(items, path, into);
            }
        }
        path.pop();
    }
}

/// SEC: a field of the CRD that names a Secret or `ConfigMap` and has no row here would be read without a decision.
#[test]
fn sec_every_reference_of_the_crd_has_a_row() {
    let manifests = tiphys_api::crd::manifests();
    let sets = manifests.iter().find(|crd| crd["metadata"]["name"] == "applicationsets.argoproj.io").unwrap();
    let entry = sets
        .pointer(
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/generators/items/properties",
        )
        .unwrap();
    let mut of_schema = BTreeSet::new();
    let mut kinds = BTreeMap::new();
    for kind in Kind::ALL {
        kinds.insert(kind.name(), kind);
        if kind.is_combination() {
            continue;
        }
        named_by_schema(&entry[kind.name()], &mut vec![kind.name().to_owned()], &mut of_schema);
    }
    let unknown: Vec<&String> = entry
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| !kinds.contains_key(name.as_str()) && *name != "selector")
        .collect();
    assert!(unknown.is_empty(), "generators without a row: {unknown:?}");
    let of_table: BTreeSet<Vec<String>> = FIELDS
        .iter()
        .map(|field| {
            std::iter::once(field.kind.name()).chain(field.path.iter().copied()).map(str::to_owned).collect()
        })
        .collect();
    assert_eq!(of_table, of_schema);
}

/// SEC: references are found at every level of a set, and templated ones wait for their parameters.
#[test]
fn sec_references_are_checked_at_every_level() {
    let check = |generator: &Value, params: &[(&str, &str)]| {
        let world = crate::fixtures::World::default().with_params(params);
        check_set(&crate::fixtures::fast_set(json!([generator])), world.sets(), "argocd")
    };
    let with = |name: &str| {
        json!({"scmProvider": {"gitea": {"owner": "o", "api": "https://h",
        "tokenRef": {"secretName": name, "key": "k"}}}})
    };
    let nested = |name: &str| json!({"matrix": {"generators": [{"list": {}}, {"merge": {"generators": [with(name), {"list": {}}]}}]}});
    assert!(check(&with("argocd-secret"), &[]).is_err() && check(&nested("argocd-secret"), &[]).is_err());
    for name in ["token", "{{ name }}"] {
        assert_eq!(check(&with(name), &[]), Ok(()));
        assert_eq!(check(&nested(name), &[]), Ok(()));
    }
    let listed = [("allowed.scm.providers", "https://a")];
    assert!(check(&nested("token"), &listed).unwrap_err().contains("scm provider not allowed"));
    let values =
        json!({"scmProvider": {"values": {"api": "https://h"}, "gitea": {"owner": "o", "api": "{{ x }}"}}});
    assert_eq!(check(&values, &listed), Ok(()));
}
