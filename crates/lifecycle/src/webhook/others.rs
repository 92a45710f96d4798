//! Pushes of Azure DevOps, Bitbucket Cloud and Bitbucket Server (API-195, API-196, API-201).
//!
//! None of them says which files changed in what it sends, nor, but for Azure, which branch is the default one: every
//! application that may be concerned is.

use serde::Deserialize;

use super::payload::text;
use super::sets::{AzureDelivery, or_nothing, read_azure};
use super::{Delivery, Push, short_revision};

/// References of one delivery that are looked at; each is looked up among all that are followed.
pub(super) const REFERENCES_MAX: usize = 1_000;

/// What is read of a delivery.
pub(super) enum Read {
    /// A delivery.
    Delivery(Delivery),
    /// An event that nobody asked for.
    Unsupported,
    /// No payload of this sender.
    Unreadable,
}

/// A delivery of Azure DevOps; which event it is stands in its body.
pub(super) fn azure(body: &[u8]) -> Read {
    let Some(AzureDelivery { event, pushes }) = read_azure(body) else { return Read::Unreadable };
    match event.as_str() {
        "git.push" => pushed(pushes),
        "git.pullrequest.created"
        | "git.pullrequest.updated"
        | "git.pullrequest.merged"
        | "build.complete" => Read::Delivery(Delivery::Ignored),
        _ => Read::Unsupported,
    }
}

/// What moved, if anything did.
fn pushed(pushes: Vec<Push>) -> Read {
    Read::Delivery(if pushes.is_empty() { Delivery::Ignored } else { Delivery::Pushes(pushes) })
}

/// A push to Bitbucket Cloud. A branch that was deleted leaves nothing to compare with (API-202).
pub(super) fn cloud(body: &[u8]) -> Read {
    let Ok(payload) = serde_json::from_slice::<Cloud>(body) else { return Read::Unreadable };
    let web_urls = filled([payload.repository.links.html.href]);
    let moved = payload.push.changes.into_iter().filter(|change| !change.new.name.is_empty());
    let push = |change: CloudChange| Push {
        web_urls: web_urls.clone(),
        revision: change.new.name,
        touched_head: true,
        ..Push::default()
    };
    pushed(moved.take(REFERENCES_MAX).map(push).collect())
}

/// References that moved on a Bitbucket Server.
pub(super) fn server(body: &[u8]) -> Read {
    let Ok(payload) = serde_json::from_slice::<Server>(body) else { return Read::Unreadable };
    let clones = payload.repository.links.clone.into_iter();
    let web_urls =
        filled(clones.filter(|link| matches!(link.name.as_str(), "http" | "ssh")).map(|link| link.href));
    let moved = payload.changes.into_iter().filter(|change| change.r#type != "DELETE");
    let push = |change: ServerChange| Push {
        web_urls: web_urls.clone(),
        revision: short_revision(&change.r#ref.id).to_owned(),
        touched_head: true,
        ..Push::default()
    };
    pushed(moved.take(REFERENCES_MAX).map(push).collect())
}

fn filled(urls: impl IntoIterator<Item = String>) -> Vec<String> {
    urls.into_iter().filter(|url| !url.is_empty()).collect()
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cloud {
    #[serde(deserialize_with = "or_nothing")]
    repository: CloudRepository,
    #[serde(deserialize_with = "or_nothing")]
    push: CloudPush,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CloudRepository {
    #[serde(deserialize_with = "or_nothing")]
    links: CloudLinks,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CloudLinks {
    #[serde(deserialize_with = "or_nothing")]
    html: Link,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Link {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    href: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CloudPush {
    #[serde(deserialize_with = "or_nothing")]
    changes: Vec<CloudChange>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CloudChange {
    #[serde(deserialize_with = "or_nothing")]
    new: Reference,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Reference {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    id: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Server {
    #[serde(deserialize_with = "or_nothing")]
    repository: ServerRepository,
    #[serde(deserialize_with = "or_nothing")]
    changes: Vec<ServerChange>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServerRepository {
    #[serde(deserialize_with = "or_nothing")]
    links: ServerLinks,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServerLinks {
    #[serde(deserialize_with = "or_nothing")]
    clone: Vec<Link>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServerChange {
    #[serde(deserialize_with = "or_nothing")]
    r#ref: Reference,
    #[serde(deserialize_with = "text")]
    r#type: String,
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use serde_json::{Value, json};

    use super::super::support::deliver;
    use super::super::{repository_matches, verify};
    use super::*;

    const BB: &str = "webhook.bitbucket.uuid";
    const BBS: &str = "webhook.bitbucketserver.secret";
    const AZURE: [(&str, &str); 2] =
        [("webhook.azuredevops.username", "u"), ("webhook.azuredevops.password", "p")];

    fn push(headers: &[(&str, &str)], secrets: &[(&str, &str)], body: &Value) -> Option<Push> {
        match deliver(headers, secrets, body.to_string().as_bytes()).1 {
            Delivery::Pushes(mut pushes) => Some(pushes.remove(0)),
            _ => None,
        }
    }

    fn status(headers: &[(&str, &str)], secrets: &[(&str, &str)], body: &[u8]) -> u16 {
        match deliver(headers, secrets, body).1 {
            Delivery::Refused { status, .. } => status,
            Delivery::Pushes(_) | Delivery::Tag(_) => 200,
            Delivery::Ignored => 204,
        }
    }

    #[test]
    fn api_201_a_push_to_bitbucket_cloud_names_its_branch() {
        let headers = [("x-hook-uuid", "{id}"), ("x-event-key", "repo:push")];
        let body = |new: Value| {
            json!({"repository": {"links": {"html": {"href": "https://bitbucket.org/shop/web"}}},
                "push": {"changes": [{"new": null}, {"new": new}]}})
        };
        let found = push(&headers, &[], &body(json!({"name": "feature/a"}))).unwrap();
        assert_eq!((found.revision.as_str(), found.touched_head), ("feature/a", true));
        assert!(repository_matches(&found.web_urls[0], "git@bitbucket.org:shop/web.git"));
        let name = deliver(&headers, &[], b"{}").0.unwrap().name();
        assert_eq!(name, "bitbucket");
        let gone = body(Value::Null).to_string();
        assert_eq!(status(&headers, &[], gone.as_bytes()), 204, "API-202: a deletion");
        let secret = [(BB, "{id}")];
        assert!(push(&headers, &secret, &body(json!({"name": "main"}))).is_some());
        let other = [("x-hook-uuid", "{no}"), ("x-event-key", "repo:push")];
        assert_eq!(status(&other, &secret, b"{}"), 400);
        let event = [("x-hook-uuid", "{id}"), ("x-event-key", "repo:fork")];
        assert_eq!(status(&event, &secret, b"{}"), 400);
    }

    #[test]
    fn api_201_references_of_a_bitbucket_server_are_matched_by_its_clone_links() {
        let event = ("x-event-key", "repo:refs_changed");
        let clone = json!([{"name": "http", "href": "https://bb.test/scm/shop/web.git"},
            {"name": "ssh", "href": "ssh://git@bb.test:7999/shop/web.git"}, {"name": "x", "href": "https://evil"}]);
        let body = json!({"repository": {"links": {"clone": clone}},
            "changes": [{"ref": {"id": "refs/heads/old"}, "type": "DELETE"},
                {"ref": {"id": "refs/heads/release/1"}, "type": "UPDATE"}]});
        let found = push(&[event], &[], &body).unwrap();
        assert_eq!((found.revision.as_str(), found.web_urls.len()), ("release/1", 2));
        for repo in ["https://bb.test/scm/shop/web.git", "ssh://git@bb.test:7999/shop/web"] {
            assert!(found.web_urls.iter().any(|url| repository_matches(url, repo)), "{repo}");
        }
        let secret = [(BBS, "s")];
        let text = body.to_string();
        // API-198: short and missing signatures end in an answer.
        for wrong in ["", "sha", "sha256=", "sha256=00", "sha1=00"] {
            assert_eq!(
                status(&[event, ("x-hub-signature", wrong)], &secret, text.as_bytes()),
                400,
                "{wrong:?}"
            );
        }
        assert_eq!(status(&[event], &secret, text.as_bytes()), 400);
        let signature = format!("sha256={}", hmac(b"s", text.as_bytes()));
        assert_eq!(status(&[event, ("x-hub-signature", &signature)], &secret, text.as_bytes()), 200);
        assert_eq!(status(&[("x-event-key", "diagnostics:ping")], &secret, b""), 204);
        assert_eq!(status(&[("x-event-key", "pr:opened")], &[], b"{}"), 400);
    }

    #[test]
    fn api_202_every_reference_of_a_push_counts_and_those_that_are_gone_do_not() {
        let revisions = |headers: &[(&str, &str)], body: &Value| -> Vec<(String, bool)> {
            match deliver(headers, &[], body.to_string().as_bytes()).1 {
                Delivery::Pushes(pushes) => {
                    assert!(pushes.iter().all(|push| push.web_urls.len() == 1));
                    pushes.into_iter().map(|push| (push.revision, push.touched_head)).collect()
                }
                Delivery::Ignored => Vec::new(),
                other => panic!("{other:?}"),
            }
        };
        let told = |names: [&str; 2], heads: [bool; 2]| -> Vec<(String, bool)> {
            names.map(str::to_owned).into_iter().zip(heads).collect()
        };
        let cloud = json!({"repository": {"links": {"html": {"href": "https://bitbucket.org/shop/web"}}},
            "push": {"changes": [{"new": {"name": "main"}}, {"new": null}, {"new": {"name": "v1"}}]}});
        let headers = [("x-hook-uuid", "{id}"), ("x-event-key", "repo:push")];
        assert_eq!(revisions(&headers, &cloud), told(["main", "v1"], [true, true]));
        let server = json!({"repository": {"links": {"clone": [{"name": "http", "href": "https://bb.test/scm/a"}]}},
            "changes": [{"ref": {"id": "refs/heads/main"}, "type": "UPDATE"},
                {"ref": {"id": "refs/heads/old"}, "type": "DELETE"}, {"ref": {"id": "refs/tags/v1"}, "type": "ADD"}]});
        assert_eq!(
            revisions(&[("x-event-key", "repo:refs_changed")], &server),
            told(["main", "v1"], [true, true])
        );
        let none = "0".repeat(40);
        let azure = json!({"eventType": "git.push", "resource": {"refUpdates": [
                {"name": "refs/heads/dev", "newObjectId": "b"}, {"name": "refs/heads/old", "newObjectId": none},
                {"name": "refs/heads/main", "newObjectId": "c"}],
            "repository": {"remoteUrl": "https://dev.azure.com/o/p/_git/r", "defaultBranch": "refs/heads/main"}}});
        assert_eq!(revisions(&[("x-vss-activityid", "1")], &azure), told(["dev", "main"], [false, true]));
        let gone = json!({"eventType": "git.push", "resource": {"refUpdates": [{"name": "x", "newObjectId": none}]}});
        assert_eq!(revisions(&[("x-vss-activityid", "1")], &gone), []);
        let many: Vec<Value> = (0..5_000).map(|nth| json!({"new": {"name": format!("b{nth}")}})).collect();
        let mut flood = cloud;
        flood["push"]["changes"] = many.into();
        assert_eq!(revisions(&headers, &flood).len(), REFERENCES_MAX);
    }

    /// The signature, digit by digit, by the function that checks it.
    fn hmac(key: &[u8], body: &[u8]) -> String {
        super::super::hmac_sha256(key, body)
    }

    #[test]
    fn api_201_a_push_to_azure_devops_says_whether_the_default_branch_moved() {
        let body = |name: &str| {
            json!({"eventType": "git.push", "resource": {"refUpdates": [{"name": name}],
                "repository": {"remoteUrl": "https://dev.azure.com/o/p/_git/r", "defaultBranch": "refs/heads/main"}}})
        };
        let header = ("x-vss-activityid", "1");
        let of = |name: &str| push(&[header], &[], &body(name)).map(|it| (it.revision, it.touched_head));
        assert_eq!(of("refs/heads/main"), Some(("main".to_owned(), true)));
        assert_eq!(of("refs/heads/a/b"), Some(("a/b".to_owned(), false)));
        let text = body("refs/heads/main").to_string();
        let basic = |pair: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
        let (right, wrong) = (basic("u:p"), basic("u:q"));
        assert_eq!(status(&[header, ("authorization", &right)], &AZURE, text.as_bytes()), 200);
        assert_eq!(status(&[header, ("authorization", &wrong)], &AZURE, text.as_bytes()), 400);
        assert_eq!(status(&[header], &AZURE, text.as_bytes()), 400);
        for (event, expected) in [("git.pullrequest.created", 204), ("build.complete", 204), ("x", 400)] {
            assert_eq!(status(&[header], &[], json!({"eventType": event}).to_string().as_bytes()), expected);
        }
        let (_, unreadable) = deliver(&[header], &[], b"{");
        let expected = "Webhook processing failed: payload must be valid JSON under 1 MB";
        assert_eq!(unreadable, Delivery::Refused { status: 400, body: expected.to_owned() });
        assert!(verify(b"s", b"x", &hmac(b"s", b"x")));
    }
}
