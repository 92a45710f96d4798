//! Tags that are pushed to registries: GitHub's (GHCR) and Harbor (API-195, API-196, API-201, API-209).

use serde::Deserialize;
use tiphys_api::Application;
use tiphys_api::application::{ApplicationSource, Hydrator};
use tiphys_go::steps::{Steps, TooManySteps};

use super::payload::text;
use super::sets::or_nothing;
use super::{Delivery, RANGE_STEPS, STEPS_MAX};

/// Where GitHub keeps packages.
const GHCR: &str = "ghcr.io";

/// A tag of an artifact that was pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagPush {
    /// Registry and repository, in lower case.
    pub artifact: String,
    /// The tag.
    pub tag: String,
}

impl TagPush {
    fn new(registry: &str, repository: &str, tag: String) -> Self {
        Self { artifact: plain(&format!("{registry}/{repository}")), tag }
    }

    /// Whether a repository of sources is that of the artifact, or has it as a chart below.
    pub fn is_at_or_below(&self, repo_url: &str) -> bool {
        let rest = self.artifact.strip_prefix(plain(repo_url).as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether an application has a source that follows the tag. What takes too long to find out counts as one.
    pub fn concerns(&self, app: &Application) -> bool {
        let dry = app.spec.source_hydrator.as_ref().map(Hydrator::dry_source);
        let mut steps = Steps::new(STEPS_MAX);
        let sources = app.sources().iter().chain(dry);
        let mut found = sources.map(|source| self.is_of(source, &mut steps));
        found.any(|found| found.unwrap_or(true))
    }

    fn is_of(&self, source: &ApplicationSource, steps: &mut Steps) -> Result<bool, TooManySteps> {
        let (url, target) = (&source.repo_url, &source.target_revision);
        steps.spend(url.len().saturating_add(target.len().saturating_mul(RANGE_STEPS)))?;
        let is_here = plain(url) == self.artifact
            || (!source.chart.is_empty() && plain(&format!("{url}/{}", source.chart)) == self.artifact);
        Ok(is_here
            && (*target == self.tag || tiphys_go::semver::satisfies(target, &self.tag).unwrap_or(false)))
    }
}

/// An address without its scheme and one slash at its end, in lower case (API-209).
fn plain(address: &str) -> String {
    let lower = address.to_ascii_lowercase();
    let rest = lower.strip_prefix("oci://").unwrap_or(&lower);
    rest.strip_suffix('/').unwrap_or(rest).to_owned()
}

/// A package of GitHub; `None` of what is no payload.
pub(super) fn ghcr(body: &[u8]) -> Option<Delivery> {
    let Event { action, package } = serde_json::from_slice::<Event>(body).ok()?;
    let tag = package.version.container_metadata.tag.name;
    let is_tag = action == "published"
        && package.r#type.eq_ignore_ascii_case("container")
        && ![&tag, &package.owner.login, &package.name].into_iter().any(String::is_empty);
    let push = || TagPush::new(GHCR, &format!("{}/{}", package.owner.login, package.name), tag);
    Some(if is_tag { Delivery::Tag(push()) } else { Delivery::Ignored })
}

/// An event of Harbor; `None` of what is no payload.
pub(super) fn harbor(body: &[u8]) -> Option<Delivery> {
    let HarborEvent { r#type, event_data } = serde_json::from_slice::<HarborEvent>(body).ok()?;
    let HarborData { resources, repository } = event_data;
    let name = match repository.repo_full_name.as_str() {
        "" if repository.namespace.is_empty() || repository.name.is_empty() => String::new(),
        "" => format!("{}/{}", repository.namespace, repository.name),
        full => full.to_owned(),
    };
    let mut pushed = resources.into_iter().filter(|one| !one.tag.is_empty() && !one.resource_url.is_empty());
    Some(match pushed.next() {
        Some(one) if r#type == "PUSH_ARTIFACT" && !name.is_empty() => {
            let address =
                one.resource_url.split_once("://").map_or(one.resource_url.as_str(), |(_, rest)| rest);
            let host = address.split('/').next().unwrap_or_default();
            Delivery::Tag(TagPush::new(host, &name, one.tag))
        }
        _ => Delivery::Ignored,
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Event {
    #[serde(deserialize_with = "text")]
    action: String,
    #[serde(deserialize_with = "or_nothing")]
    package: Package,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Package {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(rename = "package_type", deserialize_with = "text")]
    r#type: String,
    #[serde(deserialize_with = "or_nothing")]
    owner: Owner,
    #[serde(rename = "package_version", deserialize_with = "or_nothing")]
    version: Version,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Owner {
    #[serde(deserialize_with = "text")]
    login: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Version {
    #[serde(deserialize_with = "or_nothing")]
    container_metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "or_nothing")]
    tag: Tag,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tag {
    #[serde(deserialize_with = "text")]
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HarborEvent {
    #[serde(deserialize_with = "text")]
    r#type: String,
    #[serde(deserialize_with = "or_nothing")]
    event_data: HarborData,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HarborData {
    #[serde(deserialize_with = "or_nothing")]
    resources: Vec<HarborResource>,
    #[serde(deserialize_with = "or_nothing")]
    repository: HarborRepository,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HarborResource {
    #[serde(deserialize_with = "text")]
    tag: String,
    #[serde(deserialize_with = "text")]
    resource_url: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HarborRepository {
    #[serde(deserialize_with = "text")]
    repo_full_name: String,
    #[serde(deserialize_with = "text")]
    namespace: String,
    #[serde(deserialize_with = "text")]
    name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Provider, hmac_sha256};
    use super::*;

    fn deliver(
        headers: &[(&str, &str)],
        secrets: &[(&str, &str)],
        body: &Value,
    ) -> (Option<Provider>, Delivery) {
        super::super::support::deliver(headers, secrets, body.to_string().as_bytes())
    }

    fn tag(artifact: &str, tag: &str) -> Delivery {
        Delivery::Tag(TagPush { artifact: artifact.to_owned(), tag: tag.to_owned() })
    }

    fn package(action: &str, kind: &str, name: &str) -> Value {
        json!({"action": action, "package": {"name": "Charts/web", "package_type": kind, "owner": {"login": "Acme"},
            "package_version": {"container_metadata": {"tag": {"name": name}}}}})
    }

    #[test]
    fn api_201_a_published_container_of_github_is_a_tag() {
        let event = [("x-github-event", "package")];
        let found = deliver(&event, &[], &package("published", "CONTAINER", "1.2.3"));
        assert_eq!(found, (Some(Provider::Ghcr), tag("ghcr.io/acme/charts/web", "1.2.3")));
        for (action, kind, name) in
            [("updated", "container", "1"), ("published", "npm", "1"), ("published", "container", "")]
        {
            assert_eq!(
                deliver(&event, &[], &package(action, kind, name)).1,
                Delivery::Ignored,
                "{action} {kind}"
            );
        }
        assert_eq!(deliver(&event, &[], &json!({"package": null})).1, Delivery::Ignored);
    }

    #[test]
    fn api_196_packages_of_github_are_signed() {
        let secret = [("webhook.github.secret", "s")];
        let body = package("published", "container", "1");
        let signature = format!("sha256={}", hmac_sha256(b"s", body.to_string().as_bytes()));
        let signed = [("x-github-event", "package"), ("x-hub-signature-256", signature.as_str())];
        assert_eq!(deliver(&signed, &secret, &body).1, tag("ghcr.io/acme/charts/web", "1"));
        let refused = deliver(&[("x-github-event", "package")], &secret, &body).1;
        assert_eq!(refused, Delivery::Refused { status: 401, body: "Unauthorized".to_owned() });
    }

    fn artifact(kind: &str) -> Value {
        json!({"type": kind, "event_data": {
            "repository": {"name": "web", "namespace": "library", "repo_full_name": "library/web"},
            "resources": [{"digest": "sha256:1"}, {"tag": "2.0.0", "resource_url": "Harbor.test:8443/library/web:2.0.0"}]}})
    }

    #[test]
    fn api_196_harbor_is_known_by_its_secret_alone() {
        let (secret, right) = ([("webhook.harbor.secret", "h")], [("authorization", "h")]);
        let found = deliver(&right, &secret, &artifact("PUSH_ARTIFACT"));
        assert_eq!(found, (Some(Provider::Harbor), tag("harbor.test:8443/library/web", "2.0.0")));
        assert_eq!(deliver(&right, &secret, &artifact("PULL_ARTIFACT")).1, Delivery::Ignored);
        let mut unnamed = artifact("PUSH_ARTIFACT");
        unnamed["event_data"]["repository"]["repo_full_name"] = "".into();
        assert_eq!(deliver(&right, &secret, &unnamed).1, tag("harbor.test:8443/library/web", "2.0.0"));
        for (headers, secrets) in [(&[("authorization", "x")][..], &secret[..]), (&right[..], &[][..])] {
            let (provider, delivery) = deliver(headers, secrets, &artifact("PUSH_ARTIFACT"));
            let unknown = Delivery::Refused { status: 400, body: "Unknown webhook event".to_owned() };
            assert_eq!((provider, delivery), (None, unknown));
        }
    }

    #[test]
    fn api_209_applications_follow_tags_by_address_and_version() {
        let push = TagPush::new("ghcr.io", "Acme/Charts/web", "1.2.3".to_owned());
        let concerned = |source: Value| {
            let app = json!({"metadata": {"name": "a"}, "spec": {"destination": {}, "source": source}});
            let app: Application = serde_json::from_value(app).unwrap();
            let is_candidate = push.is_at_or_below(&app.sources()[0].repo_url);
            let is_concerned = push.concerns(&app);
            assert!(is_candidate || !is_concerned);
            is_concerned
        };
        for (url, chart, target) in [
            ("oci://ghcr.io/acme/charts/web", "", "1.2.3"),
            ("ghcr.io/acme/charts/web/", "", "1.2.x"),
            ("ghcr.io/acme/charts", "web", "1.x"),
            ("oci://GHCR.io/Acme/charts", "web", ">=1.0 <2.0"),
        ] {
            assert!(
                concerned(json!({"repoURL": url, "chart": chart, "targetRevision": target})),
                "{url} {target}"
            );
        }
        for (url, chart, target) in [
            ("oci://ghcr.io/acme/charts/web", "", "HEAD"),
            ("oci://ghcr.io/acme/charts/web", "", ""),
            ("oci://ghcr.io/acme/charts/web", "", "2.x"),
            ("oci://ghcr.io/acme/charts", "", "1.2.3"),
            ("oci://ghcr.io/acme/charts", "webs", "1.2.3"),
            ("oci://ghcr.io/acme/charts/we", "b", "1.2.3"),
        ] {
            assert!(
                !concerned(json!({"repoURL": url, "chart": chart, "targetRevision": target})),
                "{url} {target}"
            );
        }
    }
}
