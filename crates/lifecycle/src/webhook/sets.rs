//! Deliveries that concern `ApplicationSets`: pushes, and pull requests of GitHub, GitLab and Azure DevOps (ASET-185).
//!
//! Whom they concern is decided in `tiphys-appset`; who sent them is checked here as it is for Applications.

use serde::{Deserialize, Deserializer};

use super::others::REFERENCES_MAX;
use super::payload::{Payload, text};
use super::{
    MEGABYTE, Provider, Push, Request, SECRET_KEYS, UNVERIFIED_BYTES_MAX, body_bytes_max, is_object,
    megabytes, push, same_secret, short_revision, signature, verify,
};

const FAILED: &str = "Webhook processing failed";
/// What happens to pull requests of GitHub and matters (ASET-186).
const GITHUB_ACTIONS: [&str; 6] = ["opened", "closed", "synchronize", "labeled", "reopened", "unlabeled"];
/// What happens to merge requests of GitLab and matters (ASET-186).
const GITLAB_ACTIONS: [&str; 5] = ["open", "close", "reopen", "update", "merge"];
pub(super) const AZURE_HEADER: &str = "x-vss-activityid";
pub(super) const AZURE_USER: &str = "webhook.azuredevops.username";
pub(super) const AZURE_PASSWORD: &str = "webhook.azuredevops.password";

/// What a delivery tells a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetEvent {
    /// Branches or tags of one repository moved, at least one.
    Pushes(Vec<Push>),
    /// A pull request was opened, changed or closed.
    PullRequest(PullRequestEvent),
}

/// A pull request that was opened, changed or closed, as its provider names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequestEvent {
    /// GitHub.
    GitHub {
        /// Owner of the repository.
        owner: String,
        /// Its name.
        repository: String,
        /// Host of the API.
        api_host: String,
    },
    /// GitLab.
    GitLab {
        /// Id of the project.
        project_id: i64,
        /// Its path.
        project_path: String,
        /// Host that shows it.
        host: String,
    },
    /// Azure DevOps.
    AzureDevOps {
        /// Project.
        project: String,
        /// Repository.
        repository: String,
    },
}

/// What becomes of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetDelivery {
    /// It may concern sets.
    Event(SetEvent),
    /// Accepted, nothing to do.
    Ignored,
    /// Refused.
    Refused {
        /// HTTP status.
        status: u16,
        /// Answer body.
        body: String,
    },
}

fn refuse(status: u16, body: impl Into<String>) -> SetDelivery {
    SetDelivery::Refused { status, body: body.into() }
}

fn failed(why: &str) -> SetDelivery {
    refuse(400, format!("{FAILED}: {why}"))
}

/// Who sent a delivery, of those that sets listen to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    AzureDevOps,
    Known(Provider),
}

impl Sender {
    fn detect<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        if header(AZURE_HEADER).is_some() {
            return Some(Self::AzureDevOps);
        }
        if header("x-github-event").is_some() {
            Some(Self::Known(Provider::GitHub))
        } else if header("x-gitlab-event").is_some() {
            Some(Self::Known(Provider::GitLab))
        } else {
            None
        }
    }
}

/// Bytes of a body that are worth reading for sets (SEC-48).
pub fn set_body_bytes_max<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    secret: impl Fn(&str) -> String,
    megabytes_max: Option<&str>,
) -> usize {
    if header(AZURE_HEADER).is_none() {
        return body_bytes_max(header, secret, megabytes_max);
    }
    let all = megabytes(megabytes_max).saturating_mul(MEGABYTE);
    let is_configured = !secret(AZURE_USER).is_empty() || !secret(AZURE_PASSWORD).is_empty();
    if is_configured && is_azure_user(&header, &secret) { all } else { all.min(UNVERIFIED_BYTES_MAX) }
}

/// Reads one request completely: method, sender, size, signature, payload (ASET-185).
pub fn receive_for_sets<'a, H, S>(request: &Request<'a, H, S>) -> SetDelivery
where
    H: Fn(&str) -> Option<&'a str>,
    S: Fn(&str) -> String,
{
    let Some(sender) = Sender::detect(&request.header) else { return refuse(400, "Unknown webhook event") };
    if request.method != "POST" {
        return refuse(405, format!("{FAILED}: invalid HTTP Method"));
    }
    let bytes_max = set_body_bytes_max(&request.header, &request.secret, request.megabytes_max);
    if request.body.is_empty() || request.body.len() > bytes_max {
        return failed(&format!("payload must be valid JSON under {} MB", bytes_max / MEGABYTE));
    }
    let own = match sender {
        Sender::AzureDevOps => [AZURE_USER, AZURE_PASSWORD].map(|key| (request.secret)(key)).concat(),
        Sender::Known(provider) => (request.secret)(provider.secret_key()),
    };
    let is_unproven = own.is_empty() && !request.allow_without_secret;
    if is_unproven && SECRET_KEYS.iter().any(|key| !(request.secret)(key).is_empty()) {
        return failed("the sender has no secret of its own");
    }
    if !is_object(request.body) {
        return failed("error parsing payload");
    }
    match sender {
        Sender::AzureDevOps if !own.is_empty() && !is_azure_user(&request.header, &request.secret) => {
            failed("basic auth verification failed")
        }
        Sender::AzureDevOps => azure(request.body),
        Sender::Known(Provider::GitLab) => {
            let token = (request.header)("x-gitlab-token").unwrap_or("");
            if !same_secret(token, &own) {
                return failed("X-Gitlab-Token validation failed");
            }
            gitlab((request.header)("x-gitlab-event").unwrap_or(""), request.body)
        }
        Sender::Known(provider) => {
            let is_signed = || {
                signature(provider, &request.header)
                    .is_some_and(|signature| verify(own.as_bytes(), request.body, signature))
            };
            if !own.is_empty() && !is_signed() {
                return failed("HMAC verification failed");
            }
            github((request.header)("x-github-event").unwrap_or(""), request.body)
        }
    }
}

/// Whether the request has the configured user and password.
pub(super) fn is_azure_user<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    secret: impl Fn(&str) -> String,
) -> bool {
    use base64::Engine as _;
    let given = header("authorization").and_then(|text| text.strip_prefix("Basic ")).unwrap_or("");
    let decoded = base64::engine::general_purpose::STANDARD.decode(given.trim()).unwrap_or_default();
    let wanted = format!("{}:{}", secret(AZURE_USER), secret(AZURE_PASSWORD));
    same_secret(&String::from_utf8_lossy(&decoded), &wanted)
}

fn github(event: &str, body: &[u8]) -> SetDelivery {
    match event {
        "ping" => SetDelivery::Ignored,
        "push" => pushed(Provider::GitHub, body),
        "pull_request" => {
            let Ok(payload) = serde_json::from_slice::<GitHubPull>(body) else {
                return failed("error parsing payload");
            };
            if !GITHUB_ACTIONS.contains(&payload.action.as_str()) {
                return SetDelivery::Ignored;
            }
            SetDelivery::Event(SetEvent::PullRequest(PullRequestEvent::GitHub {
                owner: payload.repository.owner.login,
                repository: payload.repository.name,
                api_host: host_of(&payload.repository.url).to_owned(),
            }))
        }
        _ => failed("event not defined to be parsed"),
    }
}

fn gitlab(event: &str, body: &[u8]) -> SetDelivery {
    let Ok(kind) = serde_json::from_slice::<GitLabKind>(body) else { return failed("error parsing payload") };
    let word = [&kind.object_kind, &kind.event_name].into_iter().find(|word| !word.is_empty());
    match (event, word.map_or("", String::as_str)) {
        ("Push Hook" | "Tag Push Hook" | "System Hook", "push" | "tag_push") => {
            pushed(Provider::GitLab, body)
        }
        ("Merge Request Hook" | "System Hook", "merge_request") => {
            let Ok(payload) = serde_json::from_slice::<GitLabPull>(body) else {
                return failed("error parsing payload");
            };
            if !GITLAB_ACTIONS.contains(&payload.object_attributes.action.as_str()) {
                return SetDelivery::Ignored;
            }
            SetDelivery::Event(SetEvent::PullRequest(PullRequestEvent::GitLab {
                project_id: payload.object_attributes.target_project_id,
                project_path: payload.project.path_with_namespace,
                host: host_of(&payload.project.web_url).to_owned(),
            }))
        }
        ("System Hook", word) if !word.is_empty() => SetDelivery::Ignored,
        _ => failed("event not defined to be parsed"),
    }
}

fn azure(body: &[u8]) -> SetDelivery {
    let Ok(payload) = serde_json::from_slice::<Azure>(body) else { return failed("error parsing payload") };
    match payload.event_type.as_str() {
        "git.push" => {
            let pushes: Vec<Push> = azure_pushes(payload.resource).take(REFERENCES_MAX).collect();
            if pushes.is_empty() {
                SetDelivery::Ignored
            } else {
                SetDelivery::Event(SetEvent::Pushes(pushes))
            }
        }
        "git.pullrequest.created" | "git.pullrequest.updated" | "git.pullrequest.merged" => {
            let repository = payload.resource.repository;
            SetDelivery::Event(SetEvent::PullRequest(PullRequestEvent::AzureDevOps {
                project: repository.project.name,
                repository: repository.name,
            }))
        }
        _ => failed("unknown event type"),
    }
}

/// The references that moved; those that were deleted leave nothing to compare with (API-202).
fn azure_pushes(resource: AzureResource) -> impl Iterator<Item = Push> {
    let repository = resource.repository;
    let is_there = |update: &AzureUpdate| {
        update.new_object_id.is_empty() || update.new_object_id.bytes().any(|byte| byte != b'0')
    };
    resource.ref_updates.into_iter().filter(is_there).map(move |update| Push {
        web_urls: vec![repository.remote_url.clone()],
        touched_head: update.name == repository.default_branch,
        revision: short_revision(&update.name).to_owned(),
        before: update.old_object_id,
        after: update.new_object_id,
        ..Push::default()
    })
}

/// A delivery of Azure DevOps as Applications look at it.
pub(super) struct AzureDelivery {
    pub(super) event: String,
    pub(super) pushes: Vec<Push>,
}

/// Reads one; `None` when it is none.
pub(super) fn read_azure(body: &[u8]) -> Option<AzureDelivery> {
    let payload = serde_json::from_slice::<Azure>(body).ok().filter(|_| is_object(body))?;
    Some(AzureDelivery {
        event: payload.event_type,
        pushes: azure_pushes(payload.resource).take(REFERENCES_MAX).collect(),
    })
}

fn pushed(provider: Provider, body: &[u8]) -> SetDelivery {
    match serde_json::from_slice::<Payload>(body) {
        Ok(payload) => SetDelivery::Event(SetEvent::Pushes(vec![push(provider, payload)])),
        Err(_) => failed("error parsing payload"),
    }
}

/// The host of a URL, without user and port.
pub fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Null is nothing (SEC-49).
pub(super) fn or_nothing<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GitHubPull {
    #[serde(deserialize_with = "text")]
    action: String,
    #[serde(deserialize_with = "or_nothing")]
    repository: GitHubRepository,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GitHubRepository {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    url: String,
    #[serde(deserialize_with = "or_nothing")]
    owner: GitHubOwner,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GitHubOwner {
    #[serde(deserialize_with = "text")]
    login: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GitLabKind {
    #[serde(deserialize_with = "text")]
    object_kind: String,
    #[serde(deserialize_with = "text")]
    event_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GitLabPull {
    #[serde(deserialize_with = "or_nothing")]
    object_attributes: GitLabAttributes,
    #[serde(deserialize_with = "or_nothing")]
    project: GitLabProject,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GitLabAttributes {
    #[serde(deserialize_with = "text")]
    action: String,
    #[serde(deserialize_with = "or_nothing")]
    target_project_id: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GitLabProject {
    #[serde(deserialize_with = "text")]
    web_url: String,
    #[serde(deserialize_with = "text")]
    path_with_namespace: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Azure {
    #[serde(deserialize_with = "text")]
    event_type: String,
    #[serde(deserialize_with = "or_nothing")]
    resource: AzureResource,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AzureResource {
    #[serde(deserialize_with = "or_nothing")]
    ref_updates: Vec<AzureUpdate>,
    #[serde(deserialize_with = "or_nothing")]
    repository: AzureRepository,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AzureUpdate {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    old_object_id: String,
    #[serde(deserialize_with = "text")]
    new_object_id: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AzureRepository {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    remote_url: String,
    #[serde(deserialize_with = "text")]
    default_branch: String,
    #[serde(deserialize_with = "or_nothing")]
    project: AzureProject,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AzureProject {
    #[serde(deserialize_with = "text")]
    name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deliver(
        headers: &[(&str, &str)],
        secrets: &[(&str, &str)],
        method: &str,
        body: &Value,
    ) -> SetDelivery {
        let find = |list: &[(&str, &str)], name: &str| {
            list.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        receive_for_sets(&Request {
            method,
            header: |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value),
            body: body.to_string().as_bytes(),
            secret: |key: &str| find(secrets, key).unwrap_or_default(),
            megabytes_max: None,
            allow_without_secret: false,
        })
    }

    fn event(headers: &[(&str, &str)], body: &Value) -> Option<SetEvent> {
        match deliver(headers, &[], "POST", body) {
            SetDelivery::Event(event) => Some(event),
            SetDelivery::Ignored => None,
            other @ SetDelivery::Refused { .. } => panic!("{other:?}"),
        }
    }

    fn status(delivery: SetDelivery) -> (u16, String) {
        match delivery {
            SetDelivery::Refused { status, body } => (status, body),
            other => panic!("{other:?}"),
        }
    }

    const PULL: &[(&str, &str)] = &[("x-github-event", "pull_request")];
    const MERGE: &[(&str, &str)] = &[("x-gitlab-event", "Merge Request Hook")];
    const AZURE: &[(&str, &str)] = &[("x-vss-activityid", "1")];

    #[test]
    fn aset_185_pull_requests_of_github() {
        let body = |action: &str| json!({"action": action, "repository": {"name": "r", "owner": {"login": "O"}, "url": "https://api.github.com/repos/O/r"}});
        let expected = PullRequestEvent::GitHub {
            owner: "O".to_owned(),
            repository: "r".to_owned(),
            api_host: "api.github.com".to_owned(),
        };
        for action in ["opened", "closed", "synchronize", "labeled", "reopened", "unlabeled"] {
            assert_eq!(event(PULL, &body(action)), Some(SetEvent::PullRequest(expected.clone())), "{action}");
        }
        assert_eq!(event(PULL, &body("assigned")), None);
        assert_eq!(event(&[("x-github-event", "ping")], &json!({})), None);
        assert_eq!(status(deliver(&[("x-github-event", "issues")], &[], "POST", &json!({}))).0, 400);
    }

    #[test]
    fn aset_185_merge_requests_of_gitlab() {
        let body = |action: &str| {
            json!({"object_kind": "merge_request", "object_attributes": {"action": action, "target_project_id": 7},
                "project": {"web_url": "https://gitlab.com:443/g/p", "path_with_namespace": "g/p"}})
        };
        let expected = PullRequestEvent::GitLab {
            project_id: 7,
            project_path: "g/p".to_owned(),
            host: "gitlab.com".to_owned(),
        };
        for action in ["open", "close", "reopen", "update", "merge"] {
            assert_eq!(
                event(MERGE, &body(action)),
                Some(SetEvent::PullRequest(expected.clone())),
                "{action}"
            );
        }
        assert_eq!(event(MERGE, &body("approved")), None);
        assert_eq!(event(&[("x-gitlab-event", "System Hook")], &json!({"event_name": "user_create"})), None);
        assert_eq!(
            status(deliver(&[("x-gitlab-event", "Note Hook")], &[], "POST", &json!({"object_kind": "note"})))
                .0,
            400
        );
    }

    #[test]
    fn aset_185_events_of_azure_devops() {
        let repository = json!({"name": "r", "remoteUrl": "https://dev.azure.com/o/p/_git/r",
            "defaultBranch": "refs/heads/main", "project": {"name": "p"}});
        let push = json!({"eventType": "git.push", "resource": {"repository": repository,
            "refUpdates": [{"name": "refs/heads/main", "oldObjectId": "a", "newObjectId": "b"},
                {"name": "refs/heads/gone", "oldObjectId": "c", "newObjectId": "000"}, {"name": "refs/tags/v1"}]}});
        let Some(SetEvent::Pushes(found)) = event(AZURE, &push) else { panic!() };
        let told = |push: &Push| (push.revision.clone(), push.touched_head, push.web_urls.len());
        let wanted = [("main".to_owned(), true, 1), ("v1".to_owned(), false, 1)];
        assert_eq!(found.iter().map(told).collect::<Vec<_>>(), wanted);
        let pull = json!({"eventType": "git.pullrequest.created", "resource": {"repository": repository}});
        let expected = PullRequestEvent::AzureDevOps { project: "p".to_owned(), repository: "r".to_owned() };
        assert_eq!(event(AZURE, &pull), Some(SetEvent::PullRequest(expected)));
        assert_eq!(status(deliver(AZURE, &[], "POST", &json!({"eventType": "build.complete"}))).0, 400);
        let secrets = [(AZURE_USER, "u"), (AZURE_PASSWORD, "p")];
        assert_eq!(status(deliver(AZURE, &secrets, "POST", &push)).0, 400);
        let with = [AZURE[0], ("authorization", "Basic dTpw")];
        assert!(matches!(deliver(&with, &secrets, "POST", &push), SetDelivery::Event(_)));
    }

    #[test]
    fn aset_185_who_is_not_known_or_not_proven_is_refused() {
        let unknown = status(deliver(&[("x-gogs-event", "push")], &[], "POST", &json!({})));
        assert_eq!(unknown, (400, "Unknown webhook event".to_owned()));
        assert_eq!(status(deliver(PULL, &[], "GET", &json!({}))).0, 405);
        let secret = [("webhook.github.secret", "s")];
        let (code, body) = status(deliver(PULL, &secret, "POST", &json!({})));
        assert_eq!((code, body.starts_with("Webhook processing failed: ")), (400, true));
        assert_eq!(status(deliver(MERGE, &secret, "POST", &json!({}))).0, 400, "A7");
        assert_eq!(status(deliver(PULL, &[], "POST", &json!([]))).0, 400);
        assert_eq!(status(deliver(PULL, &[], "POST", &json!({"action": 7}))).0, 400);
        assert_eq!(event(PULL, &json!({"action": null, "repository": null})), None, "SEC-49");
        let nothing = json!({"eventType": "git.push", "resource": {"refUpdates": null, "repository": null}});
        assert_eq!(event(AZURE, &nothing), None);
    }

    #[test]
    fn aset_186_hosts_of_urls() {
        for (url, host) in [
            ("https://api.github.com/repos/o/r", "api.github.com"),
            ("http://u@h:8080/", "h"),
            ("h", "h"),
            ("", ""),
            ("https://h?x", "h"),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }
}
