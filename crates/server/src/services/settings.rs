//! What clients show of the settings (API-181, API-182).

use serde_json::{Map, Value, json};
use tiphys_api::Settings;
use tiphys_go::yaml::{Dialect, Limits, parse};
use tiphys_wire::status::Code;

use super::context::Context;
use super::unimplemented;
use crate::call::{Reply, Status};

/// Where the settings have no pattern.
const PASSWORD_PATTERN: &str = "^.{8,32}$";

pub(super) fn call(context: &Context<'_>, method: &str) -> Result<Reply, Status> {
    match method {
        "Get" => Ok(Reply { warnings: problems(context), ..Reply::value(Value::Object(get(context))) }),
        "GetPlugins" => Ok(Reply::value(plugins(context)?)),
        _ => Err(unimplemented(method)),
    }
}

/// Settings objects that cannot be followed any more, for callers who logged in (API-89).
fn problems(context: &Context<'_>) -> Vec<String> {
    if !context.is_logged_in() && !context.is_unchecked() {
        return Vec::new();
    }
    context.world.installation.settings_problems.values().cloned().collect()
}

/// The config management plugins that are there now, by name (API-182).
fn plugins(context: &Context<'_>) -> Result<Value, Status> {
    let Some(sources) = &context.parts.sources else { return Ok(json!({})) };
    let found = sources.plugins().servers();
    let found = found.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
    if found.is_empty() {
        return Ok(json!({}));
    }
    let names: Vec<Value> = found.iter().map(|one| json!({"name": one.name})).collect();
    Ok(json!({"plugins": names}))
}

/// What there is, as far as the caller may know it (API-181).
fn get(context: &Context<'_>) -> Map<String, Value> {
    let world = &context.world;
    let settings = &world.installation.settings;
    let set = |key: &str| world.setting(key);
    let mut shown = Map::new();
    let mut put = |key: &str, value: Value| drop(shown.insert(key.to_owned(), value));
    put("url", set("url").into());
    put("additionalUrls", crate::sso::additional_urls(settings).into());
    if let Some(sso) = world.sso() {
        let (key, value) = sso.shown();
        put(key, value);
    }
    put("appLabelKey", settings.instance_label_key().into());
    put("kustomizeOptions", json!({"BuildOptions": settings.kustomize_build_options()}));
    put("kustomizeVersions", kustomize_versions(settings).into());
    put(
        "googleAnalytics",
        json!({"trackingID": set("ga.trackingid"), "anonymizeUsers": set("ga.anonymizeusers") != "false"}),
    );
    put("help", help(settings));
    // Where nobody knows who there is, nobody gets in.
    let has_logins = world.accounts().is_ok_and(|accounts| !accounts.has_no_logins());
    put("userLoginsDisabled", (!has_logins).into());
    put("statusBadgeEnabled", crate::pages::has_badges(world).into());
    put("statusBadgeRootUrl", set("statusbadge.url").into());
    put("uiCssURL", set("ui.cssurl").into());
    put("uiLoginButtonText", set("ui.loginButtonText").into());
    put("trackingMethod", settings.tracking_method().into());
    put("installationID", settings.installation_id().unwrap_or_default().into());
    put("execEnabled", super::terminal::is_enabled(world).into());
    put("appsInAnyNamespaceEnabled", (!settings.application_namespaces().is_empty()).into());
    put("impersonationEnabled", settings.impersonation_enabled().into());
    put(
        "hydratorEnabled",
        is_param_true(settings, "hydrator.enabled", "ARGOCD_HYDRATOR_ENABLED", false).into(),
    );
    let replace =
        is_param_true(settings, "server.sync.replace.allowed", "ARGOCD_SYNC_WITH_REPLACE_ALLOWED", true);
    put("syncWithReplaceAllowed", replace.into());
    put("resourceViewEnabled", (!world.is_set("ui.view.resources.disabled")).into());
    if context.is_logged_in() || context.is_unchecked() {
        put("uiBannerContent", set("ui.bannercontent").into());
        put("uiBannerURL", set("ui.bannerurl").into());
        put("uiBannerPermanent", (set("ui.bannerpermanent") == "true").into());
        put("uiBannerPosition", set("ui.bannerposition").into());
        put("controllerNamespace", world.namespace().into());
        put("resourceOverrides", overrides(settings));
        // How objects are marked, as far as somebody said so (TRK-120, CLI-546); other programs do not read it.
        let said = world.installation.said_of_tracking();
        put(
            "trackingSettings",
            said.map(|(key, text)| (key.to_owned(), text.into())).collect::<Map<_, _>>().into(),
        );
    }
    if context.is_logged_in() {
        let pattern =
            Some(set("passwordPattern")).filter(|text| !text.is_empty()).unwrap_or(PASSWORD_PATTERN);
        put("passwordPattern", pattern.into());
    }
    shown
}

/// A switch of the parameters; what is neither true nor false has its default (API-231).
fn is_param_true(settings: &Settings, key: &str, variable: &str, default: bool) -> bool {
    match settings.param(key, variable) {
        Some("1" | "t" | "T" | "TRUE" | "true" | "True") => true,
        Some("0" | "f" | "F" | "FALSE" | "false" | "False") => false,
        _ => default,
    }
}

fn yaml(text: &str) -> Value {
    parse(text, Dialect::Sigs, &Limits::default()).ok().flatten().unwrap_or(Value::Null)
}

fn help(settings: &Settings) -> Value {
    let cm = |key: &str| settings.cm().get(key).map_or("", String::as_str);
    let url = cm("help.chatUrl");
    let text = match (cm("help.chatText"), url) {
        ("", "") => "",
        ("", _) => "Chat now!",
        (text, _) => text,
    };
    let binaries: Map<String, Value> = settings
        .cm()
        .iter()
        .filter_map(|(key, url)| {
            Some((key.strip_prefix("help.download.")?.to_owned(), Value::from(url.as_str())))
        })
        .filter(|(_, url)| url != "")
        .collect();
    json!({"chatUrl": url, "chatText": text, "binaryUrls": binaries})
}

fn kustomize_versions(settings: &Settings) -> Vec<&str> {
    let versions = settings.cm().keys().filter_map(|key| {
        key.strip_prefix("kustomize.path.").or_else(|| key.strip_prefix("kustomize.version."))
    });
    let mut versions: Vec<&str> = versions.filter(|version| !version.is_empty()).collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

/// Customisations of kinds, as `resource.customizations.<what>.<group_kind>` set them.
fn overrides(settings: &Settings) -> Value {
    let mut kinds: Map<String, Value> = Map::new();
    let mut put = |kind: &str, key: &str, value: Value| {
        let entry = kinds.entry(kind.to_owned()).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(members) = entry {
            members.insert(key.to_owned(), value);
        }
    };
    for (key, text) in settings.resource_customizations() {
        let Some(rest) = key.strip_prefix("resource.customizations.") else { continue };
        let Some((what, kind)) = rest.split_once('.') else { continue };
        let kind = kind.replacen('_', "/", 1);
        let kind = if kind == "all" { "*/*".to_owned() } else { kind };
        match what {
            "health" => put(&kind, "health.lua", text.into()),
            "useOpenLibs" => put(&kind, "health.lua.useOpenLibs", (text == "true").into()),
            "actions" => put(&kind, "actions", text.into()),
            "ignoreDifferences" => put(&kind, "ignoreDifferences", ignored(text)),
            "ignoreResourceUpdates" => put(&kind, "ignoreResourceUpdates", ignored(text)),
            "knownTypeFields" => put(&kind, "knownTypeFields", yaml(text)),
            _ => {}
        }
    }
    Value::Object(kinds)
}

/// Ignore rules in the form in which answers have them: all three keys (API-P10).
fn ignored(text: &str) -> Value {
    let read = yaml(text);
    let keys = ["jqPathExpressions", "jsonPointers", "managedFieldsManagers"];
    let all: Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), read.get(*key).cloned().unwrap_or(Value::Null))).collect();
    tiphys_go::yaml::to_string(&Value::Object(all)).map_or(Value::Null, Value::from)
}
