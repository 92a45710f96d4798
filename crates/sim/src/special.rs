//! Requests that are not about one stored object as it is: scales, evictions, bindings, tokens, reviews.

use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use tiphys_object::access;

use crate::access::{User, Wish, may};
use crate::answer::Reply;
use crate::books::{self, Writer};
use crate::clock::seconds;
use crate::read::present;
use crate::request::{Place, Request};
use crate::resource::{Resource, Scale};
use crate::state::State;
use crate::status::{FieldError, Status};
use crate::write::{self, Booking, Change, Options, update_object};

/// Who everybody is that has the token.
pub(crate) const USER: &str = "tiphys-demo-admin";
const GROUPS: [&str; 2] = ["system:masters", "system:authenticated"];

/// Whether a resource is a question and not a thing.
pub(crate) fn is_review(resource: &Resource) -> bool {
    matches!(resource.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
}

/// `POST` of a review.
pub(crate) fn review(state: &State, request: &Request, resource: &Resource) -> Result<Reply, Status> {
    let options = Options::parse(request, "CreateOptions")?;
    let write::Body { mut object, warnings } = write::read_body(request, resource, options.validation)?;
    check_review(resource, &object)?;
    let user = match &request.user {
        Some(user) => json!({"username": user.name, "groups": user.groups}),
        None => json!({"username": USER, "uid": USER, "groups": GROUPS}),
    };
    let status = match resource.plural.as_str() {
        "selfsubjectreviews" => json!({"userInfo": user}),
        "tokenreviews" if access::text_at(&object, &["spec", "token"]).is_empty() => {
            json!({"user": {}, "error": "spec.token: Required value"})
        }
        "tokenreviews" => json!({"user": {}, "error": "[invalid bearer token]"}),
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": is_allowed(state, request, resource, &object)}),
    };
    let members = access::ensure_object(&mut object);
    members.insert("status".to_owned(), status);
    let metadata = access::member_object_mut(members, "metadata");
    metadata.remove("creationTimestamp");
    if resource.plural == "selfsubjectreviews" {
        metadata.insert("creationTimestamp".to_owned(), json!(seconds(request.now)));
    }
    Ok(Reply::Object { code: 201, value: object, warnings })
}

/// The answer to a question about access. Paths that are no resources are open to everybody.
fn is_allowed(state: &State, request: &Request, resource: &Resource, review: &Value) -> bool {
    let spec = |path: &str| access::text_at(review, &["spec", path]).to_owned();
    let asked = if resource.plural == "selfsubjectaccessreviews" {
        request.user.clone()
    } else {
        let groups = access::at(review, &["spec", "groups"]).and_then(Value::as_array);
        let groups = groups.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        Some(User::new(&spec("user"), groups))
    };
    let Some(user) = asked else { return true };
    let Some(attributes) = access::at(review, &["spec", "resourceAttributes"]) else { return true };
    let text = |member: &str| access::text(attributes, member);
    let wish = Wish {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
    };
    may(state, &user, &wish)
}

/// What a question about access must say.
fn check_review(resource: &Resource, review: &Value) -> Result<(), Status> {
    if !resource.plural.ends_with("accessreviews") {
        return Ok(());
    }
    let has = |member: &str| access::at(review, &["spec", member]).is_some_and(|value| !value.is_null());
    let mut errors = Vec::new();
    if !has("resourceAttributes") && !has("nonResourceAttributes") {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, why));
    }
    let names_nobody = access::text_at(review, &["spec", "user"]).is_empty() && !has("groups");
    if resource.plural != "selfsubjectaccessreviews" && names_nobody {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &json!(""), why));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&resource.group, "", "", &errors)) }
}

/// `GET`, `PUT` and `PATCH` of the scale of an object.
pub(crate) fn scale(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
) -> Result<Reply, Status> {
    let paths = resource.scale.clone().ok_or_else(Status::no_such_path)?;
    let key = state.key(resource, &place.namespace, &place.name);
    let stored = state.store.get(&key);
    let stored = stored.ok_or_else(|| Status::not_found(&resource.group, &resource.plural, &place.name))?;
    let old = present(resource, stored);
    let shown = scale_of(&old, &paths);
    if request.method == http::Method::GET {
        return Ok(Reply::ok(shown));
    }
    let is_put = request.method == http::Method::PUT;
    let options = Options::parse(request, if is_put { "UpdateOptions" } else { "PatchOptions" })?;
    if request.media_type() == "application/apply-patch+yaml" {
        let config = write::applied_scale(request, resource, place, &paths.spec_replicas)?;
        let writer = Writer { manager: request.manager(), subresource: "scale", now: request.now };
        let force = request.query.flag("force");
        let new = books::apply(resource, Some(&old), &config, &place.namespace, force, writer)?;
        let change = Change { key: &key, old: &old, new, subresource: "scale", booking: Booking::Done };
        let changed = update_object(state, request, resource, &options, change)?;
        return Ok(Reply::ok(scale_of(&changed, &paths)));
    }
    let wanted = if is_put {
        write::body_tree(request, "autoscaling/v1", "Scale")?
    } else {
        write::patched_scale(request, &shown)?
    };
    if is_put {
        write::check_name(&wanted, place)?;
    }
    let replicas = access::at(&wanted, &["spec", "replicas"]).cloned().unwrap_or(json!(0));
    let Some(count) = replicas.as_i64() else {
        return Err(Status::bad_request(format!(
            "Scale in version \"v1\" cannot be handled as a Scale: spec.replicas is not a number: {replicas}"
        )));
    };
    if count < 0 {
        let error = FieldError::invalid("spec.replicas", &replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("autoscaling", "Scale", &place.name, &[error]));
    }
    let mut new = old.clone();
    let version = access::text_at(&wanted, &["metadata", "resourceVersion"]);
    if !version.is_empty() {
        access::metadata_mut(&mut new).insert("resourceVersion".to_owned(), json!(version));
    }
    set_at(&mut new, &paths.spec_replicas, json!(count));
    let change = Change { key: &key, old: &old, new, subresource: "scale", booking: Booking::Update };
    let changed = update_object(state, request, resource, &options, change)?;
    Ok(Reply::ok(scale_of(&changed, &paths)))
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim_start_matches('.').split('.').try_fold(object, |value, member| value.get(member))
}

fn set_at(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for member in path.trim_start_matches('.').split('.') {
        place = access::ensure_object(place).entry(member).or_insert(Value::Null);
    }
    *place = value;
}

fn scale_of(object: &Value, paths: &Scale) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or(Value::Null);
    let mut shown = Map::new();
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(member) {
            shown.insert(member.to_owned(), value.clone());
        }
    }
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut spec = json!({});
    if at(object, &paths.spec_replicas).is_some_and(|count| count != 0) {
        spec = json!({"replicas": number(&paths.spec_replicas)});
    }
    let mut status = Map::new();
    status.insert("replicas".to_owned(), json!(number(&paths.status_replicas)));
    let selector = match paths.selector.as_deref().and_then(|path| at(object, path)) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(selector @ Value::Object(_)) => {
            tiphys_object::selector::Selector::from_object(selector).ok().map(|selector| selector.to_string())
        }
        _ => None,
    };
    if let Some(selector) = selector {
        status.insert("selector".to_owned(), json!(selector));
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status})
}

/// `POST` to a subresource of an object.
pub(crate) fn post(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
) -> Result<Reply, Status> {
    let key = state.key(resource, &place.namespace, &place.name);
    let found = state.store.get(&key).map(|stored| present(resource, stored));
    let Some(object) = found else {
        return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
    };
    let success = |code: u16| {
        Ok(Reply::Object {
            code,
            value: json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}),
            warnings: Vec::new(),
        })
    };
    match (resource.plural.as_str(), place.subresource.as_str()) {
        ("pods", "eviction") => {
            let options = crate::delete::Options::in_background();
            crate::delete::delete_object(state, resource, &key, object, &options, request.now);
            success(201)
        }
        ("pods", "binding") => {
            let binding = write::body_tree(request, "v1", "Binding")?;
            let node = access::text_at(&binding, &["target", "name"]).to_owned();
            let mut pod = object;
            set_at(&mut pod, "spec.nodeName", json!(node));
            state.commit(&key, pod);
            success(201)
        }
        ("serviceaccounts", "token") => {
            let mut asked = write::body_tree(request, "authentication.k8s.io/v1", "TokenRequest")?;
            let seconds_asked = access::at(&asked, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
            let lasts = seconds_asked.unwrap_or(3_600);
            if lasts < 600 {
                let error = FieldError::invalid(
                    "spec.expirationSeconds",
                    &json!(lasts),
                    "may not specify a duration less than 10 minutes",
                );
                return Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
            }
            let until = request.now.checked_add(SignedDuration::from_secs(lasts)).unwrap_or(request.now);
            let token = state.draw.rng.suffix(48);
            let status = json!({"token": token, "expirationTimestamp": seconds(until)});
            let said = asked.get("spec").cloned().unwrap_or_default();
            let members = access::ensure_object(&mut asked);
            members.insert("kind".to_owned(), json!("TokenRequest"));
            members.insert("apiVersion".to_owned(), json!("authentication.k8s.io/v1"));
            members
                .insert("metadata".to_owned(), token_metadata(request, place, access::uid(&object), &said));
            let spec = access::member_object_mut(members, "spec");
            spec.insert("expirationSeconds".to_owned(), json!(lasts));
            spec.entry("boundObjectRef").or_insert(Value::Null);
            spec.entry("audiences").or_insert_with(|| json!(["https://kubernetes.default.svc"]));
            members.insert("status".to_owned(), status);
            Ok(Reply::Object { code: 201, value: asked, warnings: Vec::new() })
        }
        _ => Err(Status::no_such_path()),
    }
}

/// Metadata of a token, whose books tell which members of the request were said.
fn token_metadata(request: &Request, place: &Place, uid: &str, said: &Value) -> Value {
    let fields: Map<String, Value> = said
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, _)| (format!("f:{name}"), json!({})))
        .collect();
    let time = seconds(request.now);
    let entry = json!({"manager": request.manager(), "operation": "Update", "subresource": "token", "time": time,
        "apiVersion": "authentication.k8s.io/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}});
    json!({"name": place.name, "namespace": place.namespace, "uid": uid, "creationTimestamp": time,
        "managedFields": [entry]})
}

/// `PUT` of `finalize`: the finalizers of a namespace.
pub(crate) fn finalize(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
) -> Result<Reply, Status> {
    let options = Options::parse(request, "UpdateOptions")?;
    let key = state.key(resource, "", &place.name);
    let old = state.store.get(&key).map(|stored| present(resource, stored));
    let Some(old) = old else {
        return Err(Status::not_found("", "namespaces", &place.name));
    };
    let asked = write::body_tree(request, "v1", "Namespace")?;
    let mut new = old.clone();
    let kept = access::at(&asked, &["spec", "finalizers"]).cloned().unwrap_or(Value::Null);
    if kept.as_array().is_some_and(Vec::is_empty) {
        access::member_object_mut(access::ensure_object(&mut new), "spec").remove("finalizers");
    } else {
        set_at(&mut new, "spec.finalizers", kept);
    }
    let change = Change { key: &key, old: &old, new, subresource: "finalize", booking: Booking::Update };
    let changed = update_object(state, request, resource, &options, change)?;
    Ok(Reply::ok(changed))
}

/// A request for what nobody here can do: containers do not run.
pub(crate) fn no_container(subresource: &str) -> Status {
    Status::new(
        501,
        "NotImplemented",
        format!("{subresource} needs a running container; this server simulates them"),
    )
}
