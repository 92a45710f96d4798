//! Bitbucket's cloud. Its address cannot be chosen for repositories, so these are asked for through a proxy.

use serde_json::{Value, json};
use tiphys_scm::{Credentials, ScmError, ScmGenerator};

use crate::double::{Double, block, ok, password, pull_requests, status, token};

#[tokio::test]
async fn aset_64_open_pull_requests_of_bitbucket() {
    let request = |id: i64| {
        json!({
        "id": id, "title": "t", "source": {"branch": {"name": "feat"}, "commit": {"hash": "0123456789ab"}},
        "destination": {"branch": {"name": "main"}}, "author": {"nickname": "ann"}})
    };
    let server = Double::start(move |asked| match asked.target.as_str() {
        "/2.0/repositories/acme/web/pullrequests?state=OPEN&pagelen=50" => {
            ok(json!({"values": [request(1)], "next": "https://api.bitbucket.org/2.0/repositories/acme/web/pullrequests?state=OPEN&pagelen=50&page=2"}))
        }
        "/2.0/repositories/acme/web/pullrequests?state=OPEN&pagelen=50&page=2" => ok(json!({"values": [request(2)]})),
        _ => status(404),
    })
    .await;
    let of = |repository: &str, login: Value| {
        let mut own = json!({"owner": "acme", "repo": repository, "api": format!("{}/2.0", server.url)});
        own.as_object_mut().unwrap().extend(block(&login));
        json!({"bitbucket": own})
    };
    let basic = json!({"basicAuth": {"username": "u", "passwordRef": {"secretName": "s", "key": "k"}}});
    let found = pull_requests(&of("web", basic), &password("p")).await.unwrap();
    assert_eq!(found.iter().map(|one| one.number.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let first = found.first().unwrap();
    assert_eq!(
        (first.branch.as_str(), first.author.as_str(), first.head_sha.as_str()),
        ("feat", "ann", "0123456789ab")
    );
    assert_eq!(
        server.asked().last().unwrap().headers.get("authorization").map(String::as_str),
        Some("Basic dTpw")
    );
    let bearer = json!({"bearerToken": {"tokenRef": {"secretName": "s", "key": "k"}}});
    let error = pull_requests(&of("gone", bearer), &token("b")).await.unwrap_err();
    assert_eq!(error, ScmError::RepositoryNotFound("gone".to_owned()));
    assert_eq!(
        server.asked().last().unwrap().headers.get("authorization").map(String::as_str),
        Some("Bearer b")
    );
}

#[tokio::test]
async fn aset_58_the_block_of_bitbucket_needs_a_login() {
    let own = json!({"owner": "acme", "user": "u", "appPasswordRef": {"secretName": "s", "key": "k"}});
    let generator = ScmGenerator::read(&block(&json!({"bitbucket": own}))).unwrap();
    assert_eq!(generator.needs().password.as_ref().map(|key| key.key.as_str()), Some("k"));
    assert_eq!(generator.api(), "");
    let error =
        crate::double::repositories(&json!({"bitbucket": own}), &Credentials::default()).await.unwrap_err();
    assert_eq!(error, ScmError::Credentials("the password was not read".to_owned()));
    for missing in ["owner", "user", "appPasswordRef"] {
        let mut own = block(&own);
        own.remove(missing);
        let error = ScmGenerator::read(&block(&json!({"bitbucket": own}))).unwrap_err();
        assert!(error.to_string().contains(missing), "{error}");
    }
}
