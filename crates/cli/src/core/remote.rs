//! Applications by way of an API server: it checks and decides, and its refusals are shown as they are (CLI-9).

mod logs;
mod manifests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Map, Value, json};
use tiphys_api::names::{GROUP, SETTINGS_CONFIG_MAP, VERSION};
use tiphys_object::{Object, access};

use super::stream::{Kind, Stream};
use super::{AppName, Core, Follow, Stored, Tree, Way};
use crate::failure::Failure;
use crate::server::{Api, Ask, is_not_found};

pub(crate) use logs::LogQuery;
pub(crate) use manifests::{Revisions, object};

/// An API server, and what it says of itself.
pub(crate) struct Remote {
    pub(crate) api: Arc<Api>,
    /// The answer of the settings service.
    pub(super) settings: Value,
}

/// A live resource of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Core {
    /// Asks a server who it is; nothing else is decided yet.
    pub(crate) async fn of_server(api: Api, advises: bool) -> Result<Self, Failure> {
        let settings = api.get(&["api", "v1", "settings"], &[]).await?;
        let namespace =
            settings.get("controllerNamespace").and_then(Value::as_str).unwrap_or(super::NAMESPACE);
        Ok(Self {
            namespace: namespace.to_owned(),
            way: Way::Server(Box::new(Remote { api: Arc::new(api), settings })),
            advises,
            environment: BTreeMap::new(),
            left_out: Mutex::default(),
        })
    }

    /// The server, for what Kubernetes alone does not do.
    pub(crate) fn by_server(&self) -> Result<&Remote, Failure> {
        self.server().ok_or_else(|| {
            Failure::fatal("this command asks a server").hint("`login SERVER`, and leave out `--core`")
        })
    }

    /// The server, where that is the way.
    pub(crate) fn server(&self) -> Option<&Remote> {
        match &self.way {
            Way::Server(server) => Some(server),
            Way::Kubernetes(_) => None,
        }
    }
}

/// The application of an answer, as it stands in Kubernetes.
pub(super) fn stored(value: Value) -> Result<Stored, Failure> {
    Stored::new(object_of(value, "Application")?)
}

/// An object of an answer, as it stands in Kubernetes.
pub(super) fn object_of(mut value: Value, kind: &str) -> Result<Arc<Object>, Failure> {
    let members = access::ensure_object(&mut value);
    members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
    members.insert("kind".to_owned(), kind.into());
    let object = Object::from_value(&value);
    object.map(Arc::new).map_err(|error| {
        Failure::status("Internal", format!("the server sent something that is no {kind}: {error}"))
    })
}

/// The project of an answer.
pub(crate) fn project_object(value: Value) -> Result<Arc<Object>, Failure> {
    object_of(value, "AppProject")
}

/// The applications that a query finds, of those that may be seen.
async fn listed(api: &Api, query: &[(&str, &str)]) -> Result<Vec<Stored>, Failure> {
    let mut answer = api.get(&["api", "v1", "applications"], query).await?;
    items(&mut answer, "items").into_iter().map(stored).collect()
}

/// A list of an answer; messages leave empty ones out.
pub(crate) fn items(answer: &mut Value, name: &str) -> Vec<Value> {
    match answer.get_mut(name).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// A state of a managed resource; null where there is none.
pub(crate) fn state(resource: &Value, name: &str) -> Result<Value, Failure> {
    match access::text(resource, name) {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text)
            .map_err(|_invalid| Failure::status("Internal", format!("{name} of a resource is no JSON"))),
    }
}

/// Where an application is in the API.
fn path_of<'a>(name: &'a AppName, more: &[&'a str]) -> Vec<&'a str> {
    let mut path = vec!["api", "v1", "applications", name.name.as_str()];
    path.extend_from_slice(more);
    path
}

impl Remote {
    async fn call(
        &self,
        method: Method,
        name: &AppName,
        more: &[&str],
        (query, body): (&[(&str, &str)], Option<&Value>),
    ) -> Result<Value, Failure> {
        let mut query = query.to_vec();
        if body.is_none() {
            query.push(("appNamespace", &name.namespace));
        }
        self.api.ask(&Ask { method: &method, path: &path_of(name, more), query: &query, body }).await
    }

    /// Reads an application that may not exist.
    pub(super) async fn find(&self, name: &AppName) -> Result<Option<Stored>, Failure> {
        match self.call(Method::GET, name, &[], (&[], None)).await {
            Ok(value) => stored(value).map(Some),
            Err(failure) if is_not_found(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Reads the applications that may be seen, by name.
    pub(super) async fn applications(&self, namespace: &str, selector: &str) -> Result<Vec<Stored>, Failure> {
        let mut apps = listed(&self.api, &[("appNamespace", namespace), ("selector", selector)]).await?;
        apps.sort_by_key(Stored::name);
        Ok(apps)
    }

    /// What a server tells of the installation, as the objects that say so in Kubernetes.
    pub(super) async fn installation(&self, namespace: &str) -> Result<Vec<Arc<Object>>, Failure> {
        let mut settings = Map::new();
        for (theirs, ours) in [
            ("url", "url"),
            ("appLabelKey", "application.instanceLabelKey"),
            ("trackingMethod", "application.resourceTrackingMethod"),
            ("installationID", "installationID"),
        ] {
            if let Some(text) = self.settings.get(theirs).filter(|text| text.is_string()) {
                settings.insert(ours.to_owned(), text.clone());
            }
        }
        // How objects are marked has more settings than an Argo CD knows.
        let tracking = self.settings.get("trackingSettings").and_then(Value::as_object);
        settings.extend(tracking.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        let options = self.settings.pointer("/kustomizeOptions/BuildOptions").filter(|text| text.is_string());
        settings.extend(options.map(|options| ("kustomize.buildOptions".to_owned(), options.clone())));
        settings.extend(customizations(&self.settings));
        let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": settings,
            "metadata": {"name": SETTINGS_CONFIG_MAP, "namespace": namespace}});
        let settings = Object::from_value(&settings).map_err(|error| Failure::generic(error.to_string()))?;
        let mut objects = vec![Arc::new(settings)];
        objects.extend(self.projects().await?);
        Ok(objects)
    }

    /// Reads the projects that may be seen.
    pub(super) async fn projects(&self) -> Result<Vec<Arc<Object>>, Failure> {
        let mut answer = self.api.get(&["api", "v1", "projects"], &[]).await?;
        items(&mut answer, "items").into_iter().map(project_object).collect()
    }

    /// Follows an application.
    pub(super) fn follow(&self, name: &AppName) -> Follow {
        Follow::Stream(Box::new(Stream::new(&self.api, Kind::Application, name)))
    }

    /// Stores a new application, or changes the one of its name (API-125).
    pub(crate) async fn create(
        &self,
        app: &Value,
        is_upsert: bool,
        is_validated: bool,
    ) -> Result<Stored, Failure> {
        let query = [("upsert", word(is_upsert)), ("validate", word(is_validated))];
        let path = ["api", "v1", "applications"];
        let body = sent(app);
        stored(
            self.api
                .ask(&Ask { method: &Method::POST, path: &path, query: &query, body: Some(&body) })
                .await?,
        )
    }

    /// Replaces what may be changed of an application.
    pub(crate) async fn update(&self, app: &Value, is_validated: bool) -> Result<Stored, Failure> {
        let path = ["api", "v1", "applications", access::name(app)];
        let query = [("validate", word(is_validated))];
        let body = sent(app);
        stored(
            self.api
                .ask(&Ask { method: &Method::PUT, path: &path, query: &query, body: Some(&body) })
                .await?,
        )
    }

    /// Replaces the spec of an application (API-127).
    pub(crate) async fn update_spec(
        &self,
        name: &AppName,
        spec: &Value,
        is_validated: bool,
    ) -> Result<(), Failure> {
        let query = [("validate", word(is_validated)), ("appNamespace", &name.namespace)];
        self.call(Method::PUT, name, &["spec"], (&query, Some(spec))).await.map(drop)
    }

    /// Patches an application (API-128).
    pub(crate) async fn patch(&self, name: &AppName, patch: &str, kind: &str) -> Result<Stored, Failure> {
        let body =
            json!({"name": name.name, "patch": patch, "patchType": kind, "appNamespace": name.namespace});
        stored(self.call(Method::PATCH, name, &[], (&[], Some(&body))).await?)
    }

    /// Asks for a comparison and waits until it was made.
    pub(super) async fn refresh(&self, name: &AppName, is_hard: bool) -> Result<Stored, Failure> {
        let kind = if is_hard { "hard" } else { "normal" };
        stored(self.call(Method::GET, name, &[], (&[("refresh", kind)], None)).await?)
    }

    /// Asks for a sync (API-130): the operation, in the words of the call.
    pub(super) async fn sync(&self, name: &AppName, operation: &Value) -> Result<Stored, Failure> {
        let body = sync_request(name, operation);
        stored(self.call(Method::POST, name, &["sync"], (&[], Some(&body))).await?)
    }

    /// Asks for an earlier deployment (API-133).
    pub(crate) async fn rollback(&self, name: &AppName, id: i64, is_pruned: bool) -> Result<Stored, Failure> {
        let body = json!({"name": name.name, "id": id, "prune": is_pruned, "appNamespace": name.namespace});
        stored(self.call(Method::POST, name, &["rollback"], (&[], Some(&body))).await?)
    }

    /// Asks a running operation to end.
    pub(super) async fn terminate(&self, name: &AppName) -> Result<(), Failure> {
        self.call(Method::DELETE, name, &["operation"], (&[], None)).await.map(drop)
    }

    /// Deletes an application (API-129).
    pub(crate) async fn delete(
        &self,
        name: &AppName,
        is_cascading: bool,
        policy: Option<&str>,
    ) -> Result<(), Failure> {
        let query = [("cascade", word(is_cascading)), ("propagationPolicy", policy.unwrap_or_default())];
        self.call(Method::DELETE, name, &[], (&query, None)).await.map(drop)
    }

    /// What differs, object by object (API-136).
    pub(crate) async fn managed_resources(&self, name: &AppName) -> Result<Vec<Value>, Failure> {
        let mut answer = self.call(Method::GET, name, &["managed-resources"], (&[], None)).await?;
        Ok(items(&mut answer, "items"))
    }

    /// The live resources of an application.
    pub(crate) async fn live(&self, name: &AppName) -> Result<Vec<Live>, Failure> {
        let all = self.managed_resources(name).await?;
        all.iter().filter_map(|resource| crate::app::live(resource).transpose()).collect()
    }

    async fn call_resource(
        &self,
        (method, more): (Method, &[&str]),
        (name, live): (&AppName, &Live),
        (query, body): (&[(&str, &str)], Option<&Value>),
    ) -> Result<Value, Failure> {
        let mut all = vec![
            ("appNamespace", name.namespace.as_str()),
            ("namespace", &live.namespace),
            ("resourceName", &live.name),
            ("version", &live.version),
            ("kind", &live.kind),
            ("group", &live.group),
        ];
        all.extend_from_slice(query);
        let path: Vec<&str> = ["resource"].iter().chain(more).copied().collect();
        self.api.ask(&Ask { method: &method, path: &path_of(name, &path), query: &all, body }).await
    }

    /// One live resource (API-139).
    pub(crate) async fn resource(&self, name: &AppName, live: &Live) -> Result<Value, Failure> {
        let answer = self.call_resource((Method::GET, &[]), (name, live), (&[], None)).await?;
        serde_json::from_str(access::text(&answer, "manifest"))
            .map_err(|_invalid| Failure::status("Internal", "the server sent a resource that is no JSON"))
    }

    /// Patches one live resource (API-140).
    pub(crate) async fn patch_resource(
        &self,
        name: &AppName,
        live: &Live,
        (patch, kind): (&str, &str),
    ) -> Result<(), Failure> {
        let (query, body) = ([("patchType", kind)], Value::from(patch));
        self.call_resource((Method::POST, &[]), (name, live), (&query, Some(&body))).await.map(drop)
    }

    /// Deletes one live resource (API-141).
    pub(crate) async fn delete_resource(
        &self,
        name: &AppName,
        live: &Live,
        (is_forced, is_orphaning): (bool, bool),
    ) -> Result<(), Failure> {
        let query = [("force", word(is_forced)), ("orphan", word(is_orphaning))];
        self.call_resource((Method::DELETE, &[]), (name, live), (&query, None)).await.map(drop)
    }

    /// What can be done with one live resource (API-142).
    pub(crate) async fn actions(&self, name: &AppName, live: &Live) -> Result<Vec<Value>, Failure> {
        let mut answer = self.call_resource((Method::GET, &["actions"]), (name, live), (&[], None)).await?;
        Ok(items(&mut answer, "actions"))
    }

    /// Runs an action on one live resource (API-142).
    pub(crate) async fn run_action(
        &self,
        name: &AppName,
        live: &Live,
        (action, params): (&str, &[Value]),
    ) -> Result<(), Failure> {
        let body = json!({"name": name.name, "appNamespace": name.namespace, "namespace": live.namespace,
            "resourceName": live.name, "version": live.version, "group": live.group, "kind": live.kind,
            "action": action, "resourceActionParameters": params});
        let more = ["resource", "actions", "v2"];
        self.call(Method::POST, name, &more, (&[], Some(&body))).await.map(drop)
    }

    /// What an application has, each object below its owner, and what lies beside it (API-137).
    pub(super) async fn tree(&self, name: &AppName) -> Result<Tree, Failure> {
        let tree = self.call(Method::GET, name, &["resource-tree"], (&[], None)).await?;
        Ok(Tree::told(&tree))
    }
}

/// A flag of a query.
pub(crate) fn word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

/// What a server tells of kinds whose differences are ignored, as settings say it.
fn customizations(settings: &Value) -> Map<String, Value> {
    let kinds = settings.get("resourceOverrides").and_then(Value::as_object);
    let told = kinds.into_iter().flatten().flat_map(|(kind, members)| {
        let kind = if kind == "*/*" { "all".to_owned() } else { kind.replace('/', "_") };
        let member = move |name: &str| {
            let text = members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())?;
            Some((format!("resource.customizations.{name}.{kind}"), Value::from(text)))
        };
        // What else there is nobody here compares with.
        ["ignoreDifferences", "knownTypeFields"].map(member)
    });
    told.flatten().collect()
}

/// An application as it is sent: without what only controllers write.
fn sent(app: &Value) -> Value {
    let mut app = app.clone();
    let members = access::ensure_object(&mut app);
    members.remove("status");
    members.remove("operation");
    app
}

/// An operation in the words of the call (API-130).
fn sync_request(name: &AppName, operation: &Value) -> Value {
    let mut body = Map::from_iter([
        ("name".to_owned(), Value::from(name.name.as_str())),
        ("appNamespace".to_owned(), name.namespace.as_str().into()),
    ]);
    let mut put = |name: &str, value: Option<&Value>| {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            body.insert(name.to_owned(), value.clone());
        }
    };
    let sync = operation.get("sync").unwrap_or(&Value::Null);
    for (theirs, ours) in [
        ("revision", "revision"),
        ("prune", "prune"),
        ("dryRun", "dryRun"),
        ("strategy", "syncStrategy"),
        ("resources", "resources"),
        ("manifests", "manifests"),
    ] {
        put(theirs, sync.get(ours));
    }
    // An operation has one revision for each source; the call has those that differ, with their positions.
    let revisions = sync.get("revisions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let given: Vec<(usize, &Value)> =
        revisions.iter().enumerate().filter(|(_, revision)| revision.as_str() != Some("")).collect();
    if !given.is_empty() {
        let positions = given.iter().map(|(at, _)| Value::from(at.saturating_add(1)));
        put("sourcePositions", Some(&positions.collect()));
        put("revisions", Some(&given.iter().map(|(_, revision)| (*revision).clone()).collect()));
    }
    put("infos", operation.get("info"));
    put("retryStrategy", operation.get("retry"));
    let options = sync.get("syncOptions").map(|options| json!({"items": options}));
    put("syncOptions", options.as_ref());
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_502_what_the_installation_ignores_a_server_tells() {
        let told = json!({"resourceOverrides": {"apps/Deployment": {"ignoreDifferences": "jsonPointers: [/spec/replicas]"},
            "*/*": {"ignoreDifferences": "managedFieldsManagers: [x]"}, "Service": {"health.lua": "return {}"}}});
        let customizations = Value::Object(customizations(&told));
        assert_eq!(
            customizations,
            json!({"resource.customizations.ignoreDifferences.apps_Deployment": "jsonPointers: [/spec/replicas]",
                "resource.customizations.ignoreDifferences.all": "managedFieldsManagers: [x]"})
        );
    }

    #[test]
    fn api_130_an_operation_is_asked_for_in_the_words_of_the_call() {
        let name = AppName { namespace: "team".into(), name: "web".into() };
        let operation = json!({"sync": {"prune": true, "syncStrategy": {"hook": {}}, "syncOptions": ["Replace=true"],
            "resources": [{"kind": "Service", "name": "a"}]}, "info": [{"name": "a", "value": "b"}], "retry": {"limit": 2}});
        assert_eq!(
            sync_request(&name, &operation),
            json!({"name": "web", "appNamespace": "team", "prune": true, "strategy": {"hook": {}},
                "syncOptions": {"items": ["Replace=true"]}, "resources": [{"kind": "Service", "name": "a"}],
                "infos": [{"name": "a", "value": "b"}], "retryStrategy": {"limit": 2}})
        );
        let several = sync_request(&name, &json!({"sync": {"revisions": ["", "x"]}}));
        assert_eq!((&several["revisions"], &several["sourcePositions"]), (&json!(["x"]), &json!([2])));
    }
}
