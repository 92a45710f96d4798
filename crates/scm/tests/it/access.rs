//! Who may be asked, with what, and how generators are read.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tiphys_scm::{
    Credentials, GithubApp, PullRequestGenerator, Request, Scm, ScmError, ScmGenerator, ScmOptions,
    SecretKey, SetName, secret_value,
};

use crate::double::block;

#[test]
fn aset_59_secrets_have_the_key_that_is_named() {
    let texts = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let reference = SecretKey { secret_name: "s".to_owned(), key: "k".to_owned() };
    assert_eq!(secret_value(&reference, "ns", &texts(&[("k", "v")])).unwrap().expose(), "v");
    let error = secret_value(&reference, "ns", &texts(&[("other", "v")])).unwrap_err().to_string();
    assert!(error.contains("\"k\" in secret ns/s") && !error.contains('v'), "{error}");

    let app = |pairs: &[(&str, &str)]| GithubApp::of_secret("app", &texts(pairs));
    let found =
        app(&[("githubAppID", " 7 "), ("githubAppInstallationID", "8"), ("githubAppPrivateKey", "k")])
            .unwrap();
    assert_eq!((found.id, found.installation, found.base_url.as_str()), (7, 8, ""));
    for wrong in [
        vec![("githubAppID", "7")],
        vec![("githubAppPrivateKey", "k")],
        vec![("githubAppID", "x"), ("githubAppPrivateKey", "k")],
        vec![("githubAppID", "7"), ("githubAppInstallationID", "-1"), ("githubAppPrivateKey", "k")],
    ] {
        assert!(matches!(app(&wrong), Err(ScmError::Credentials(_))), "{wrong:?}");
    }
}

#[test]
fn aset_55_generators_are_read_completely() {
    let read = |generator: Value| ScmGenerator::read(&block(&generator)).map(|read| read.needs().clone());
    let error = |generator: Value| read(generator).unwrap_err().to_string();
    assert_eq!(error(json!({})), "no SCM provider implementation configured");
    assert_eq!(error(json!({"github": null, "bitbucket": 1})), "no SCM provider implementation configured");
    assert_eq!(error(json!({"github": {}})), "github.organization: a text is needed");
    assert_eq!(error(json!({"github": {"organization": 1}})), "github.organization: a text is needed");
    assert_eq!(
        error(json!({"github": {"organization": "o", "insecure": true}})),
        "github.insecure: there is no such field"
    );
    assert_eq!(
        error(json!({"github": {"organization": "o"}, "more": 1})),
        "scmProvider.more: there is no such field"
    );
    assert_eq!(
        error(json!({"github": {"organization": "o"}, "cloneProtocol": "git"})),
        "unknown clone protocol git"
    );
    assert_eq!(
        error(json!({"github": {"organization": "o"}, "cloneProtocol": "https-fips"})),
        "unknown clone protocol https-fips"
    );
    assert_eq!(
        error(json!({"github": {"organization": "o"}, "filters": [1]})),
        "scmProvider.filters: a list of objects is needed"
    );
    assert_eq!(
        error(json!({"github": {"organization": "o"}, "filters": [{"x": ""}]})),
        "filters.x: there is no such field"
    );
    assert_eq!(
        error(json!({"gitlab": {"group": "g", "includeSubgroups": "yes"}})),
        "gitlab.includeSubgroups: true or false is needed"
    );
    assert_eq!(error(json!({"gitea": {"owner": "o"}})), "gitea.api: a text is needed");
    assert_eq!(
        error(json!({"azureDevOps": {"organization": "o", "teamProject": "p"}})),
        "azureDevOps.accessTokenRef: an object is needed"
    );
    // Of several the first counts; what others read is passed over.
    let needs = read(json!({
        "gitlab": {"group": "g", "tokenRef": {"secretName": "s", "key": "k"}, "caRef": {"configMapName": "c", "key": "k"}},
        "gitea": {}, "values": {"a": "b"}, "template": {}, "requeueAfterSeconds": 60, "cloneProtocol": "https"}))
    .unwrap();
    assert_eq!(needs.token.map(|token| token.secret_name).as_deref(), Some("s"));
    assert_eq!(needs.ca.map(|ca| ca.name).as_deref(), Some("c"));

    let error = |generator: Value| PullRequestGenerator::read(&block(&generator)).unwrap_err().to_string();
    assert_eq!(error(json!({"azureDevOps": {}})), "no Pull Request provider implementation configured");
    assert_eq!(
        error(json!({"azuredevops": {"organization": "o", "project": "p"}})),
        "azuredevops.repo: a text is needed"
    );
    assert_eq!(
        error(json!({"github": {"owner": "o", "repo": "r", "labels": "x"}})),
        "github.labels: a list of texts is needed"
    );
    let generator =
        json!({"github": {"owner": "o", "repo": "r", "api": "https://h"}, "filters": [{"titleMatch": "x"}]});
    let read = PullRequestGenerator::read(&block(&generator)).unwrap();
    assert_eq!(read.api(), "https://h");
}

/// Whoever asks waits on any thread.
#[test]
fn aset_58_questions_are_sent_between_threads() {
    fn is_sent(_: impl Send) {}
    let (scm, credentials, set) =
        (Scm::new(ScmOptions::default()), Credentials::default(), SetName::default());
    let generator = ScmGenerator::read(&block(&json!({"github": {"organization": "o"}}))).unwrap();
    is_sent(scm.repositories(Request { generator: &generator, credentials: &credentials, set: &set }));
    let block = block(&json!({"github": {"owner": "o", "repo": "r"}}));
    let generator = PullRequestGenerator::read(&block).unwrap();
    is_sent(scm.pull_requests(Request { generator: &generator, credentials: &credentials, set: &set }));
}
