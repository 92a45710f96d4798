use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};
use tiphys_api::names::SECRET_TYPE_LABEL;
use tiphys_object::Object;

use super::*;
use crate::change::Seen;
use crate::connection::State;

const KIND: Purpose = Purpose::Read;

fn plan_create(
    secrets: &Secrets,
    purpose: Purpose,
    wanted: &Repository,
    upsert: bool,
) -> Result<Change, RepositoryError> {
    super::plan_create(secrets, purpose, wanted, upsert).map(Planned::into_change)
}

fn plan_update(secrets: &Secrets, purpose: Purpose, wanted: &Repository) -> Result<Change, RepositoryError> {
    super::plan_update(secrets, purpose, wanted).map(Planned::into_change)
}

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// A Secret; `ours` are those that the product may delete.
fn secret(name: &str, kind: Option<&str>, ours: bool, data: &[(&str, &str)]) -> Arc<Object> {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, text)| ((*key).to_owned(), encode(text).into())).collect();
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
        "metadata": {"name": name, "namespace": "argocd", "uid": format!("uid-{name}"), "resourceVersion": "7"}});
    if let Some(kind) = kind {
        object["metadata"]["labels"] = json!({SECRET_TYPE_LABEL: kind});
    }
    if ours {
        object["metadata"]["annotations"] = json!({"managed-by": "argocd.argoproj.io"});
    }
    Arc::new(Object::from_value(&object).unwrap())
}

fn secrets(objects: Vec<Arc<Object>>) -> Secrets {
    Secrets::new("argocd", objects)
}

fn wanted(url: &str, project: &str) -> Repository {
    let mut repository =
        Repository { r#type: "git".to_owned(), project: project.to_owned(), ..Repository::bare(url) };
    repository.credentials.username = "me".to_owned();
    repository.credentials.password = "hunter2".into();
    repository
}

fn seen(name: &str) -> Seen {
    Seen { name: name.to_owned(), uid: format!("uid-{name}").into(), version: "7".into() }
}

/// The texts that a change writes.
fn data(change: &Change) -> Value {
    let (Change::Create(sealed) | Change::Patch(_, sealed)) = change else { panic!("{change:?}") };
    let engine = base64::engine::general_purpose::STANDARD;
    let texts = sealed.expose()["data"].as_object().unwrap().iter().map(|(key, value)| {
        let bytes = engine.decode(value.as_str().unwrap()).unwrap();
        (key.clone(), Value::from(String::from_utf8(bytes).unwrap()))
    });
    Value::Object(texts.collect())
}

#[test]
fn rep_1_3_a_new_secret_has_its_name_and_marks() {
    let change = plan_create(&secrets(vec![]), KIND, &wanted("https://git.acme.test/shop/ui", "shop"), false);
    let change = change.unwrap();
    let Change::Create(manifest) = &change else { panic!("{change:?}") };
    assert_eq!(
        manifest.expose()["metadata"],
        json!({"name": "repo-857941404", "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": "repository"},
            "annotations": {"managed-by": "argocd.argoproj.io"}})
    );
    assert_eq!(
        data(&change),
        json!({"url": "https://git.acme.test/shop/ui", "project": "shop", "type": "git", "username": "me",
            "password": "hunter2"})
    );
    assert!(!format!("{change:?}").contains("aHVudGVyMg"), "STY-110");
}

/// REP-2: URL and project stand side by side without anything between them.
#[test]
fn rep_2_a_name_that_another_pair_took_is_not_the_end() {
    let other =
        secret("repo-857941404", Some("repository"), true, &[("url", "https://git.acme.test/shop/uishop")]);
    let found = secrets(vec![other]);
    let change = plan_create(&found, KIND, &wanted("https://git.acme.test/shop/ui", "shop"), false).unwrap();
    let Change::Create(manifest) = &change else { panic!("{change:?}") };
    assert_eq!(manifest.expose()["metadata"]["name"], "repo-857941404-1");
    // Somebody took them all.
    let take = |at: usize| {
        let name = if at == 0 { "repo-857941404".to_owned() } else { format!("repo-857941404-{at}") };
        secret(&name, Some("cluster"), false, &[])
    };
    let full = secrets((0..32).map(take).collect());
    let refused =
        plan_create(&full, KIND, &wanted("https://git.acme.test/shop/ui", "shop"), false).unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
}

#[test]
fn rep_4_an_unlabelled_secret_of_the_name_is_refused() {
    let found = secrets(vec![secret("repo-857941404", None, false, &[("url", "x")])]);
    let refused =
        plan_create(&found, KIND, &wanted("https://git.acme.test/shop/ui", "shop"), true).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "secret \"repo-857941404\" doesn't have the proper \"argocd.argoproj.io/secret-type\" label: please fix \
         the secret or delete it"
    );
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[test]
fn rep_47_what_exists_is_kept_refused_or_changed() {
    let stored = [("url", "https://h/r"), ("project", "shop"), ("username", "me"), ("password", "hunter2")];
    let found = secrets(vec![secret("mine", Some("repository"), false, &stored)]);
    let same = wanted("https://h/r", "shop");
    assert_eq!(plan_create(&found, KIND, &same, false).unwrap(), Change::Keep, "an empty type is git");

    let mut other = same;
    other.credentials.password = "changed".into();
    other.insecure = true;
    let refused = plan_create(&found, KIND, &other, false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "existing repository spec is different; use upsert flag to force update; difference in keys \
         \"insecure,password\""
    );
    assert_eq!(refused.code(), Code::InvalidArgument);
    let change = plan_create(&found, KIND, &other, true).unwrap();
    assert!(matches!(&change, Change::Patch(at, _) if *at == seen("mine")));
    assert_eq!(data(&change), json!({"insecure": "true", "password": "changed", "type": "git"}));

    // The same URL in another project, or in none, is another repository.
    for project in ["", "ops"] {
        let change = plan_create(&found, KIND, &wanted("https://h/r", project), false).unwrap();
        assert!(matches!(change, Change::Create(_)), "{project:?}");
    }
}

#[test]
fn rep_5_keys_are_emptied_never_removed_and_those_of_others_stay() {
    let stored = [("url", "https://h/r"), ("enableLfs", "true"), ("password", "p"), ("theirs", "x")];
    let found = secrets(vec![secret("s", Some("repository"), true, &stored)]);
    let bare = Repository { r#type: "git".to_owned(), ..Repository::bare("https://h/r") };
    let change = plan_update(&found, KIND, &bare).unwrap();
    assert_eq!(data(&change), json!({"enableLfs": "false", "password": "", "type": "git"}));
    let Change::Patch(_, patch) = &change else { panic!() };
    assert_eq!(patch.expose()["metadata"], json!({"resourceVersion": "7"}), "written on what was read");
}

#[test]
fn rep_9_a_second_spelling_does_not_bring_a_value_back() {
    let stored = [("url", "https://h/r"), ("azureServicePrincipalClientID", "old")];
    let found = secrets(vec![secret("s", Some("repository"), true, &stored)]);
    let mut changed = Repository { r#type: "git".to_owned(), ..Repository::bare("https://h/r") };
    changed.credentials.azure_client_id = "new".to_owned();
    let change = plan_update(&found, KIND, &changed).unwrap();
    assert_eq!(
        data(&change),
        json!({"azureServicePrincipalClientID": "new", "azureServicePrincipalClientId": "new", "type": "git"})
    );
}

#[test]
fn rep_48_an_update_never_touches_another_project() {
    let all = || {
        secrets(vec![
            secret("unscoped", Some("repository"), true, &[("url", "https://h/r")]),
            secret("ops", Some("repository"), true, &[("url", "https://H/r.git"), ("project", "ops")]),
            secret("write", Some("repository-write"), true, &[("url", "https://h/r"), ("project", "shop")]),
        ])
    };
    let refused = plan_update(&all(), KIND, &wanted("https://h/r", "shop")).unwrap_err();
    assert_eq!(
        (refused.to_string().as_str(), refused.code()),
        ("repo 'https://h/r' not found", Code::NotFound)
    );
    let change = plan_update(&all(), KIND, &wanted("https://h/r", "ops")).unwrap();
    assert!(matches!(change, Change::Patch(at, _) if at.name == "ops"));
    // The rules are asked about the stored one, which is the very one that changes, and about the requested one.
    let needs = |wanted: &Repository| super::plan_update(&all(), KIND, wanted).unwrap().needs();
    assert_eq!(
        needs(&wanted("https://h/R", "ops")),
        ["update ops/https://H/r.git", "update ops/https://h/R"]
    );
    assert_eq!(needs(&wanted("https://h/r", "")), ["update https://h/r"]);
}

#[test]
fn rep_3_45_a_deletion_spares_secrets_made_by_hand() {
    let data = [("url", "https://h/r"), ("project", "shop")];
    let found = secrets(vec![
        secret("hand", Some("repository"), false, &data),
        secret("other", Some("repository"), true, &[("url", "https://h/r")]),
    ]);
    let removal = plan_delete(&found, KIND, "https://h/r", "shop").unwrap();
    assert_eq!(removal.planned.needs(), ["delete shop/https://h/r"]);
    let Change::Patch(at, patch) = removal.planned.into_change() else { panic!() };
    assert_eq!(at, seen("hand"));
    assert_eq!(
        *patch.expose(),
        json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": null}, "resourceVersion": "7"}})
    );
    let removal = plan_delete(&found, KIND, "https://h/r", "").unwrap();
    assert_eq!((removal.planned.into_change(), removal.left), (Change::Delete(seen("other")), vec![]));
    assert_eq!(plan_delete(&found, KIND, "https://h/r", "ops").unwrap_err().code(), Code::NotFound);
}

#[test]
fn rep_21_other_secrets_for_the_same_repository_are_named() {
    let of = |name: &str| secret(name, Some("repository"), true, &[("url", "https://h/r")]);
    let removal = plan_delete(&secrets(vec![of("b"), of("a")]), KIND, "https://h/r", "").unwrap();
    assert_eq!(removal.planned.into_change(), Change::Delete(seen("a")));
    assert_eq!(removal.left, ["b"]);
}

#[test]
fn rep_6_a_secret_with_a_bad_field_is_different_and_can_be_mended() {
    let stored = [("url", "https://h/r"), ("type", "git"), ("insecure", "maybe"), ("depth", "")];
    let found = secrets(vec![secret("s", Some("repository"), true, &stored)]);
    let good = Repository { r#type: "git".to_owned(), ..Repository::bare("https://h/r") };
    assert_eq!(
        plan_create(&found, KIND, &good, false).unwrap_err(),
        RepositoryError::Different(vec!["insecure"])
    );
    let change = plan_create(&found, KIND, &good, true).unwrap();
    assert_eq!(data(&change), json!({"insecure": "false", "depth": "0"}));
}

/// Hostile input: what is refused is named by its field, and nothing of it is repeated.
#[test]
fn sec_values_that_are_no_line_or_too_long_are_refused() {
    let refused = |edit: &dyn Fn(&mut Repository)| {
        let mut repository = wanted("https://u:secret@h/r", "shop");
        edit(&mut repository);
        let error = plan_create(&secrets(vec![]), KIND, &repository, false).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        let text = error.to_string();
        assert!(!text.contains("secret") && !text.contains("hunter2") && text.len() < 200, "{text}");
        text
    };
    for (edit, field) in [
        (&(|r: &mut Repository| r.url.push('\n')) as &dyn Fn(&mut Repository), "url"),
        (&|r| r.name = "a\u{1b}[2J".to_owned(), "name"),
        (&|r| r.project = "a\nb".to_owned(), "project"),
        (&|r| r.r#type = "git\0".to_owned(), "type"),
        (&|r| r.credentials.username = "a\u{202e}".to_owned(), "username"),
        (&|r| r.credentials.proxy = "http://p\r\nx: y".to_owned(), "proxy"),
    ] {
        assert_eq!(
            refused(edit),
            format!("field \"{field}\" has a line break or another control character, remove it")
        );
    }
    let megabyte = "x".repeat(1 << 20);
    assert_eq!(
        refused(&|r| r.credentials.password = megabyte.as_str().into()),
        "field \"password\" has 1048576 bytes, at most 262144 are stored"
    );
    assert_eq!(
        refused(&|r| r.url = format!("https://h/{megabyte}")),
        "field \"url\" has 1048586 bytes, at most 4096 are stored"
    );
    assert_eq!(check(&Repository::bare(" ")).unwrap_err().to_string(), "must specify URL");
}

#[test]
fn rep_18_errors_do_not_show_what_stands_before_the_host() {
    let refused = plan_update(&secrets(vec![]), KIND, &wanted("https://u:secret@h/r", "")).unwrap_err();
    assert_eq!(refused.to_string(), "repo 'https://h/r' not found");
}

#[test]
fn rep_13_answers_have_no_secrets() {
    let mut repository = wanted("https://h/r", "shop");
    repository.insecure_ignore_host_key = true;
    repository.depth = 3;
    repository.credentials.ssh_private_key = "KEY".into();
    repository.credentials.proxy = "http://u:p@proxy:1".to_owned();
    repository.credentials.azure_client_secret = "az".into();
    repository.credentials.azure_client_id = "id".to_owned();
    assert_eq!(
        shown(&repository, &State::unknown("")),
        json!({"repo": "https://h/r", "type": "git", "project": "shop", "username": "me", "insecure": true,
            "depth": 3, "proxy": "http://***@proxy:1", "azureServicePrincipalClientId": "id",
            "connectionState": {"status": "Unknown", "message": "", "attemptedAt": null}})
    );
    assert_eq!(shown(&wanted("https://u:p@h/r", ""), &State::unknown(""))["repo"], "https://u:***@h/r");
}

mod templates {
    use super::*;
    use crate::template::{self, TemplateError, plan_delete};
    use tiphys_api::repository::{CredentialTemplate, Credentials};

    fn plan_create(
        secrets: &Secrets,
        purpose: Purpose,
        wanted: &CredentialTemplate,
        upsert: bool,
    ) -> Result<Change, TemplateError> {
        template::plan_create(secrets, purpose, wanted, upsert).map(Planned::into_change)
    }

    fn plan_update(
        secrets: &Secrets,
        purpose: Purpose,
        wanted: &CredentialTemplate,
    ) -> Result<Change, TemplateError> {
        template::plan_update(secrets, purpose, wanted).map(Planned::into_change)
    }

    fn template(url: &str) -> CredentialTemplate {
        CredentialTemplate {
            url: url.to_owned(),
            r#type: "git".to_owned(),
            credentials: Credentials { password: "p".into(), ..Credentials::default() },
            ..CredentialTemplate::default()
        }
    }

    #[test]
    fn rep_34_templates_are_compared_with_templates_only() {
        let found = secrets(vec![secret("r", Some("repository"), true, &[("url", "https://h/o")])]);
        let change = plan_create(&found, KIND, &template("https://h/o"), false).unwrap();
        let Change::Create(manifest) = &change else { panic!("{change:?}") };
        assert_eq!(manifest.expose()["metadata"]["labels"]["argocd.argoproj.io/secret-type"], "repo-creds");
        assert!(manifest.expose()["metadata"]["name"].as_str().unwrap().starts_with("creds-"));
        assert_eq!(plan_create(&found, KIND, &template(""), false).unwrap_err(), TemplateError::MissingUrl);
        let stored = [("url", "https://H/o.git"), ("password", "q"), ("type", "git")];
        let found = secrets(vec![secret("t", Some("repo-creds"), true, &stored)]);
        assert_eq!(
            plan_create(&found, KIND, &template("https://h/o"), false).unwrap_err(),
            TemplateError::Different(vec!["url", "password"])
        );
        assert!(matches!(plan_create(&found, KIND, &template("https://h/o"), true), Ok(Change::Patch(..))));
    }

    #[test]
    fn rep_35_a_longer_url_does_not_reach_a_shorter_template() {
        let found = secrets(vec![secret("t", Some("repo-creds"), true, &[("url", "https://h/o")])]);
        let refused = plan_delete(&found, KIND, "https://u:pw@h/o/app").unwrap_err();
        assert_eq!(refused, TemplateError::NotFound("https://h/o/app".to_owned()));
        assert_eq!(
            plan_update(&found, KIND, &template("https://h/o/app")).unwrap_err().code(),
            Code::NotFound
        );
        let removal = plan_delete(&found, KIND, "https://H/o").unwrap();
        assert_eq!(removal.planned.needs(), ["delete https://h/o"], "the stored one");
        assert_eq!(removal.planned.into_change(), Change::Delete(seen("t")));
    }

    #[test]
    fn rep_13_answers_about_templates_have_no_secrets() {
        let mut shown = template("https://u:p@h/o");
        shown.credentials.username = "me".to_owned();
        shown.credentials.enable_oci = true;
        assert_eq!(
            template::shown(&shown),
            json!({"url": "https://u:***@h/o", "username": "me", "type": "git", "enableOCI": true})
        );
    }
}
