//! Health of an application from the health of its objects (ENG section 6.4).

use tiphys_api::names::annotation;
use tiphys_object::Object;

use crate::health::{Health, HealthCode, HealthError};
use crate::hook::Role;

/// One compared object: what is wanted and what is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppResource<'a> {
    /// Desired manifest.
    pub target: Option<&'a Object>,
    /// Live object.
    pub live: Option<&'a Object>,
}

/// The application itself, which may be one of its own objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppIdentity<'a> {
    /// Its namespace; empty matches any.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// Health of an application, with that of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppHealth {
    /// The worst of the objects that count.
    pub health: Health,
    /// Health of each object, in the order given; `None` where there is none, or where it is not looked at.
    pub resources: Vec<Option<Health>>,
    /// Text of the `ComparisonError` condition for objects that could not be judged (ENG-126).
    pub error: Option<String>,
}

/// Judges all objects and aggregates them.
pub fn app_health(
    resources: &[AppResource<'_>],
    application: AppIdentity<'_>,
    mut judge: impl FnMut(&Object) -> Result<Option<Health>, HealthError>,
) -> AppHealth {
    let mut worst = HealthCode::Healthy;
    let mut counted: Vec<(HealthCode, &Object)> = Vec::new();
    let mut verdicts = Vec::with_capacity(resources.len());
    let mut errors: Vec<String> = Vec::new();
    let (mut has_resources, mut has_live) = (false, false);
    for resource in resources {
        if is_hook_or_skipped(resource) {
            verdicts.push(None);
            continue;
        }
        has_resources = true;
        has_live |= resource.live.is_some();
        if resource.live.is_some_and(is_ignored) {
            verdicts.push(None);
            continue;
        }
        let Some(live) = resource.live else {
            verdicts.push(Some(Health::new(HealthCode::Missing, "")));
            continue;
        };
        if is_itself(live, application) {
            verdicts.push(None);
            continue;
        }
        let health = judge(live).unwrap_or_else(|error| {
            errors.push(judging_error(live, &error));
            Some(Health::new(HealthCode::Unknown, error.message))
        });
        if let Some(health) = &health
            && counts(live, health.status)
        {
            worst = worst.max(health.status);
            counted.push((health.status, live));
        }
        verdicts.push(health);
    }
    if has_resources && !has_live {
        worst = HealthCode::Missing;
    }
    let causes: Vec<&Object> =
        counted.iter().filter(|(status, _)| *status == worst).map(|(_, live)| *live).collect();
    AppHealth {
        health: Health::new(worst, message(worst, &causes)),
        resources: verdicts,
        error: error_text(&errors),
    }
}

/// Objects that are none of the application's own: neither their health nor their presence says anything
/// (ENG-122).
fn is_hook_or_skipped(resource: &AppResource<'_>) -> bool {
    let live_role = resource.live.map(Role::of);
    resource.target.map(Role::of) == Some(Role::Skipped) || live_role.is_some_and(|role| role.is_hook())
}

/// Objects whose health is not looked at, but which are there (ENG-122, ENG-124).
fn is_ignored(live: &Object) -> bool {
    live.annotation(annotation::IGNORE_HEALTHCHECK) == Some("true")
}

fn is_application(live: &Object) -> bool {
    live.gvk().group == "argoproj.io" && live.gvk().kind == "Application"
}

fn is_itself(live: &Object, application: AppIdentity<'_>) -> bool {
    is_application(live)
        && !application.name.is_empty()
        && live.name() == application.name
        && (application.namespace.is_empty() || live.namespace() == application.namespace)
}

/// Whether a verdict worsens the application (ENG-123).
fn counts(live: &Object, status: HealthCode) -> bool {
    !(is_application(live) && matches!(status, HealthCode::Missing | HealthCode::Unknown))
}

fn message(status: HealthCode, causes: &[&Object]) -> String {
    if matches!(status, HealthCode::Healthy | HealthCode::Missing) || causes.is_empty() {
        return String::new();
    }
    let named: Vec<String> = causes.iter().take(3).map(|live| short_name(live)).collect();
    let mut text = format!("Caused by {}", named.join(", "));
    if causes.len() > named.len() {
        text = format!("{text} and {} more", causes.len() - named.len());
    }
    text
}

/// `[<group>/]<Kind>:[<namespace>/]<name>`.
fn short_name(live: &Object) -> String {
    let gvk = live.gvk();
    let group = if gvk.group.is_empty() { String::new() } else { format!("{}/", gvk.group) };
    let namespace =
        if live.namespace().is_empty() { String::new() } else { format!("{}/", live.namespace()) };
    format!("{group}{}:{namespace}{}", gvk.kind, live.name())
}

fn judging_error(live: &Object, error: &HealthError) -> String {
    format!(
        "error setting app health: failed to get resource health for \"{}\" with name \"{}\" in namespace \"{}\": {error}",
        live.gvk().kind,
        live.name(),
        live.namespace()
    )
}

fn error_text(errors: &[String]) -> Option<String> {
    let (first, rest) = errors.split_first()?;
    Some(if rest.is_empty() { first.clone() } else { format!("{first} (and {} more)", rest.len()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(kind: &str, name: &str, status: &str, annotations: &Value) -> Object {
        let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        Object::from_value(&json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "n", "annotations": annotations},
            "status": status,
        }))
        .unwrap()
    }

    fn judge(live: &Object) -> Result<Option<Health>, HealthError> {
        let status = live.to_value().unwrap();
        match status["status"].as_str().unwrap() {
            "error" => Err(HealthError { message: "broken".to_owned() }),
            text => Ok(HealthCode::parse(text).map(|code| Health::new(code, ""))),
        }
    }

    fn run(live: &[Option<&Object>]) -> AppHealth {
        let target = object("ConfigMap", "t", "", &json!({}));
        let resources: Vec<AppResource<'_>> =
            live.iter().map(|live| AppResource { target: Some(&target), live: *live }).collect();
        app_health(&resources, AppIdentity { namespace: "n", name: "me" }, judge)
    }

    fn plain(kind: &str, name: &str, status: &str) -> Object {
        object(kind, name, status, &json!({}))
    }

    #[test]
    fn eng_122_some_objects_are_not_looked_at() {
        let ignored =
            object("Pod", "a", "Degraded", &json!({"argocd.argoproj.io/ignore-healthcheck": "true"}));
        let hook = object("Pod", "b", "Degraded", &json!({"argocd.argoproj.io/hook": "Sync"}));
        let itself = plain("argoproj.io/Application", "me", "Degraded");
        assert_eq!(run(&[Some(&ignored), Some(&hook), Some(&itself)]).health.status, HealthCode::Healthy);
    }

    #[test]
    fn eng_123_missing_objects_are_recorded_but_do_not_count() {
        let fine = plain("Pod", "a", "Healthy");
        let found = run(&[Some(&fine), None]);
        assert_eq!(found.health.status, HealthCode::Healthy);
        assert_eq!(found.resources[1], Some(Health::new(HealthCode::Missing, "")));
        let child = plain("argoproj.io/Application", "c", "Unknown");
        assert_eq!(run(&[Some(&child)]).health.status, HealthCode::Healthy);
    }

    #[test]
    fn eng_124_nothing_live_is_missing_and_nothing_at_all_is_healthy() {
        assert_eq!(run(&[None, None]).health, Health::new(HealthCode::Missing, ""));
        assert_eq!(run(&[]).health, Health::new(HealthCode::Healthy, ""));
    }

    #[test]
    fn eng_124_an_application_with_a_live_but_ignored_object_is_not_missing() {
        let ignored =
            object("Pod", "a", "Degraded", &json!({"argocd.argoproj.io/ignore-healthcheck": "true"}));
        let found = run(&[Some(&ignored), None]);
        assert_eq!(found.health.status, HealthCode::Healthy);
        assert_eq!(found.resources, [None, Some(Health::new(HealthCode::Missing, ""))]);
        // Its own hook is nothing that was to be there.
        let hook = object("Pod", "b", "Healthy", &json!({"argocd.argoproj.io/hook": "Sync"}));
        assert_eq!(run(&[Some(&hook), None]).health.status, HealthCode::Missing);
    }

    #[test]
    fn eng_125_the_message_names_three_causes() {
        let pods: Vec<Object> =
            (0..5).map(|n| plain("apps/Deployment", &format!("d{n}"), "Degraded")).collect();
        let live: Vec<Option<&Object>> = pods.iter().map(Some).collect();
        assert_eq!(
            run(&live).health.message,
            "Caused by apps/Deployment:n/d0, apps/Deployment:n/d1, apps/Deployment:n/d2 and 2 more"
        );
    }

    #[test]
    fn eng_126_errors_count_as_unknown() {
        let (broken, other) = (plain("Pod", "a", "error"), plain("Pod", "b", "error"));
        let found = run(&[Some(&broken), Some(&other)]);
        assert_eq!(found.health.status, HealthCode::Unknown);
        assert_eq!(
            found.error.unwrap(),
            "error setting app health: failed to get resource health for \"Pod\" with name \"a\" in namespace \"n\": broken (and 1 more)"
        );
    }
}
