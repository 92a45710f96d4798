//! Who may do what: role-based access, for callers that act as somebody else.
//!
//! The one who has the token may do everything. A caller that impersonates gets the rights of the roles that are
//! bound to that user and its groups.

use http::Method;
use serde_json::Value;
use tiphys_object::access;

use crate::request::{Place, Request};
use crate::state::State;
use crate::status::Status;
use crate::store::{Kind, Stored};

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// What comes before the namespace and name of a service account.
const ACCOUNT: &str = "system:serviceaccount:";

/// A user and its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl User {
    /// The user with the groups that everybody of its sort is in.
    pub(crate) fn new(name: &str, groups: Vec<String>) -> Self {
        let mut user = Self { name: name.to_owned(), groups };
        if let Some((namespace, _)) = name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'))
            && user.groups.is_empty()
        {
            user.groups =
                vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        user.groups.push("system:authenticated".to_owned());
        user
    }
}

/// What somebody wants to do with a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Wish<'_> {
    fn full_resource(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            below => format!("{}/{below}", self.resource),
        }
    }
}

/// Refuses what the user that a request is made as may not do.
pub(crate) fn authorize(state: &State, request: &Request) -> Result<(), Status> {
    let Some(user) = &request.user else { return Ok(()) };
    let Some(place) = Place::parse(&request.path) else { return Ok(()) };
    let wish = wish(request, &place);
    if may(state, user, &wish) {
        return Ok(());
    }
    let scope = match wish.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {:?} cannot {} resource {:?} in API group {:?} {scope}",
        user.name,
        wish.verb,
        wish.full_resource(),
        wish.group
    );
    let mut what = wish.resource.to_owned();
    if !wish.group.is_empty() {
        what = format!("{what}.{}", wish.group);
    }
    if !wish.name.is_empty() {
        what = format!("{what} {:?}", wish.name);
    }
    let status = Status::new(403, "Forbidden", format!("{what} is forbidden: {why}"));
    Err(status.about(wish.name, wish.group, wish.resource))
}

fn wish<'a>(request: &Request, place: &'a Place) -> Wish<'a> {
    let is_one = !place.name.is_empty();
    let verb = match request.method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_one => "delete",
        Method::DELETE => "deletecollection",
        _ if is_one => "get",
        _ if request.query.flag("watch") => "watch",
        _ => "list",
    };
    // A namespace is in itself.
    let is_namespace = place.group.is_empty() && place.plural == "namespaces";
    Wish {
        verb,
        group: &place.group,
        resource: &place.plural,
        subresource: &place.subresource,
        namespace: if is_namespace { &place.name } else { &place.namespace },
        name: &place.name,
    }
}

/// Whether a role that is bound to a user allows something.
pub(crate) fn may(state: &State, user: &User, wish: &Wish<'_>) -> bool {
    if user.groups.iter().any(|group| group == MASTERS) {
        return true;
    }
    // Everybody may ask about itself.
    if wish.verb == "create" && wish.resource.starts_with("selfsubject") {
        return true;
    }
    let everywhere = objects(state, "clusterrolebindings");
    let here = objects(state, "rolebindings")
        .filter(|binding| !wish.namespace.is_empty() && access::namespace(binding) == wish.namespace);
    everywhere
        .chain(here)
        .filter(|binding| is_bound(binding, user))
        .any(|binding| allows(state, &binding, wish))
}

fn objects<'a>(state: &'a State, plural: &str) -> impl Iterator<Item = Value> + use<'a> {
    let kind = Kind { group: "rbac.authorization.k8s.io".into(), plural: plural.into() };
    let found = state.store.objects(&kind);
    found.into_iter().flat_map(|objects| objects.values()).map(Stored::tree)
}

fn is_bound(binding: &Value, user: &User) -> bool {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    subjects.into_iter().flatten().any(|subject| {
        let name = access::text(subject, "name");
        match access::text(subject, "kind") {
            "User" => name == user.name,
            "Group" => user.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let namespace = access::text(subject, "namespace");
                let rest = user.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
                rest == Some((namespace, name))
            }
            _ => false,
        }
    })
}

fn allows(state: &State, binding: &Value, wish: &Wish<'_>) -> bool {
    let name = access::text_at(binding, &["roleRef", "name"]);
    let is_cluster_role = access::text_at(binding, &["roleRef", "kind"]) == "ClusterRole";
    let plural = if is_cluster_role { "clusterroles" } else { "roles" };
    let namespace = if is_cluster_role { "" } else { access::namespace(binding) };
    let role = objects(state, plural)
        .find(|role| access::name(role) == name && access::namespace(role) == namespace);
    match role {
        Some(role) => {
            let rules = role.get("rules").and_then(Value::as_array);
            rules.into_iter().flatten().any(|rule| covers(rule, wish))
        }
        None => is_cluster_role && stock_allows(name, wish),
    }
}

/// The roles that every cluster has and nobody stored.
fn stock_allows(role: &str, wish: &Wish<'_>) -> bool {
    match role {
        "cluster-admin" => true,
        "admin" | "edit" => !wish.namespace.is_empty(),
        "view" => matches!(wish.verb, "get" | "list" | "watch") && wish.resource != "secrets",
        _ => false,
    }
}

fn covers(rule: &Value, wish: &Wish<'_>) -> bool {
    let any = |member: &str, test: &dyn Fn(&str) -> bool| {
        let list = rule.get(member).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).any(test)
    };
    let full = wish.full_resource();
    let below = format!("*/{}", wish.subresource);
    let names = rule.get("resourceNames").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    any("verbs", &|verb| verb == "*" || verb == wish.verb)
        && any("apiGroups", &|group| group == "*" || group == wish.group)
        && any("resources", &|one| {
            one == "*" || one == full || (!wish.subresource.is_empty() && one == below)
        })
        && (!names || any("resourceNames", &|name| name == wish.name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{User, Wish, may};
    use crate::state::State;

    fn with(objects: &[(&str, Value)]) -> State {
        let mut state = State::new(1);
        for (plural, object) in objects {
            let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
            let key =
                state.builtin_key("rbac.authorization.k8s.io", plural, &text("namespace"), &text("name"));
            state.commit(&key, object.clone());
        }
        state
    }

    #[test]
    fn rights_come_from_the_roles_that_are_bound() {
        let state = with(&[
            (
                "roles",
                json!({"metadata": {"name": "r", "namespace": "a"}, "rules": [
                    {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/log"], "resourceNames": ["p"]}]}),
            ),
            (
                "rolebindings",
                json!({"metadata": {"name": "b", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "r"},
                    "subjects": [{"kind": "ServiceAccount", "namespace": "a", "name": "bot"}]}),
            ),
            (
                "clusterrolebindings",
                json!({"metadata": {"name": "c"}, "roleRef": {"kind": "ClusterRole", "name": "view"},
                    "subjects": [{"kind": "Group", "name": "readers"}]}),
            ),
        ]);
        let pod = Wish { verb: "get", resource: "pods", namespace: "a", name: "p", ..Wish::default() };
        let bot = User::new("system:serviceaccount:a:bot", Vec::new());
        let reader = User::new("eve", vec!["readers".to_owned()]);
        let nobody = User::new("nobody", Vec::new());
        assert!(may(&state, &bot, &pod));
        assert!(may(&state, &bot, &Wish { subresource: "log", ..pod.clone() }));
        assert!(!may(&state, &bot, &Wish { name: "q", ..pod.clone() }));
        assert!(!may(&state, &bot, &Wish { namespace: "b", ..pod.clone() }));
        assert!(!may(&state, &bot, &Wish { verb: "delete", ..pod.clone() }));
        assert!(may(&state, &reader, &Wish { namespace: "b", ..pod.clone() }));
        assert!(!may(&state, &reader, &Wish { resource: "secrets", ..pod.clone() }));
        assert!(!may(&state, &nobody, &pod));
        assert!(may(&state, &User::new("root", vec!["system:masters".to_owned()]), &pod));
    }
}
