//! Questions of the API (API-58, API-105, API-107, ASET-281), of the command line, and the proof of an answer.

use ResourceOperation::{Delete, Update};
use serde_json::json;
use tiphys_api::settings::SettingsData;
use tiphys_api::{Application, Settings};

use super::{claims, member, policy, project, request, user};
use crate::rbac::{ManagedResource, Rbac, RbacOptions, ResourceOperation};

fn can_i(rbac: &Rbac, what: &str) -> Result<bool, String> {
    let claims = claims(user("kim"));
    rbac.caller(Some(&claims)).can_i(&request(what), "argocd").map_err(|error| error.to_string())
}

#[test]
fn api_58_the_action_is_checked_first_then_the_resource() {
    let rbac = policy("p, kim, applications, *, shop/*, allow");
    assert_eq!(can_i(&rbac, "applications, sync, shop/web"), Ok(true));
    assert_eq!(can_i(&rbac, "applications, sync, web/shop"), Ok(false), "no, and no error");
    assert_eq!(
        can_i(&rbac, "pods, eat, x").unwrap_err(),
        "[get create update delete sync rollback override action invoke] does not contain eat"
    );
    assert_eq!(
        can_i(&rbac, "pods, get, x").unwrap_err(),
        "[clusters projects applications applicationsets repositories write-repositories certificates accounts gpgkeys \
         logs exec extensions] does not contain pods"
    );
    // Beyond: what is asked about when it is tried can be asked about before.
    assert_eq!(can_i(&rbac, "applications, action/apps/Deployment/restart, shop/web"), Ok(true));
    assert!(can_i(&rbac, "applications, action/, shop/web").is_err());
    assert!(can_i(&rbac, "applications, sync/x, shop/web").is_err());
}

#[test]
fn api_58_the_own_namespace_is_left_out_of_objects() {
    let rbac = policy("p, kim, *, get, shop/web, allow");
    for resource in ["applications", "applicationsets", "logs", "exec", "clusters", "repositories"] {
        assert_eq!(can_i(&rbac, &format!("{resource}, get, shop/argocd/web")), Ok(true), "{resource}");
        assert_eq!(can_i(&rbac, &format!("{resource}, get, shop/other/web")), Ok(false), "{resource}");
    }
    assert_eq!(can_i(&rbac, "projects, get, shop/argocd/web"), Ok(false));
    assert_eq!(can_i(&rbac, "applications, get, shop/argocd/web/x"), Ok(false));
}

#[test]
fn api_107_a_rollback_is_a_sync_unless_it_is_enforced() {
    let rbac = policy("p, kim, applications, sync, shop/*, allow");
    assert_eq!(can_i(&rbac, "applications, rollback, shop/web"), Ok(true));
    let enforced = rbac.with_options(RbacOptions { rollback_enforced: true, ..RbacOptions::default() });
    assert_eq!(can_i(&enforced, "applications, rollback, shop/web"), Ok(false));
    assert_eq!(can_i(&enforced, "applications, sync, shop/web"), Ok(true));
    assert_eq!(enforced.caller(None).rollback_action(), "rollback");
}

fn application(namespace: &str) -> Application {
    serde_json::from_value(
        json!({"metadata": {"name": "web", "namespace": namespace}, "spec": {"project": "shop"}}),
    )
    .unwrap()
}

#[test]
fn api_105_resources_need_their_own_right() {
    let asks = |lines: &str, inherited: bool, operation| {
        let options = RbacOptions { fine_grained_inherited: inherited, ..RbacOptions::default() };
        let rbac = policy(lines).with_options(options);
        let claims = claims(user("kim"));
        let pod = ManagedResource { group: "", kind: "Pod", namespace: "ns", name: "p" };
        rbac.caller(Some(&claims)).may_change(&application("argocd"), "argocd", operation, pod)
    };
    let plain = "p, kim, applications, update, shop/*, allow\np, kim, applications, delete, shop/*, allow";
    assert!(!asks(plain, false, Update).permitted && !asks(plain, false, Delete).permitted);
    assert!(asks(plain, true, Update).permitted && asks(plain, true, Delete).permitted);
    for inherited in [false, true] {
        assert!(asks("p, kim, applications, update/*, shop/*, allow", inherited, Update).permitted);
        assert!(asks("p, kim, applications, delete//Pod/ns/p, shop/web, allow", inherited, Delete).permitted);
        assert!(!asks("p, kim, applications, update/*, shop/*, allow", inherited, Delete).permitted);
        assert!(!asks("p, kim, applications, delete//Pod/*, other/*, allow", inherited, Delete).permitted);
    }
    assert_eq!(
        asks("", false, Delete).message.unwrap(),
        "permission denied: applications, delete//Pod/ns/p, shop/web, sub: kim"
    );
    // API-103: cluster-scoped resources leave their namespace empty, applications elsewhere have theirs.
    let rbac = policy("p, kim, applications, update//Namespace//prod, shop/team/web, allow");
    let claims = claims(user("kim"));
    let namespace = ManagedResource { group: "", kind: "Namespace", namespace: "", name: "prod" };
    assert!(
        rbac.caller(Some(&claims)).may_change(&application("team"), "argocd", Update, namespace).permitted
    );
}

#[test]
fn api_106_a_right_to_resources_is_none_to_the_application() {
    let rbac = policy(
        "p, kim, applications, delete/*, shop/*, allow\np, kim, applications, action/*, shop/*, allow",
    );
    assert_eq!(can_i(&rbac, "applications, delete, shop/web"), Ok(false));
    assert_eq!(can_i(&rbac, "applications, delete/apps/Deployment/ns/x, shop/web"), Ok(true));
    assert_eq!(can_i(&rbac, "applications, action, shop/web"), Ok(false));
    assert_eq!(can_i(&rbac, "applications, action//Pod/delete, shop/web"), Ok(true));
}

#[test]
fn aset_281_sets_outside_projects_need_a_right_of_their_own() {
    let restrict = RbacOptions { unscoped_restricted: true, ..RbacOptions::default() };
    let asks = |lines: &str, options| {
        let rbac = policy(lines).with_options(options).with_projects([&project("red", &json!([]))]);
        let claims = claims(member(&["devs"]));
        rbac.caller(Some(&claims)).may_be_unscoped("create")
    };
    let red = "g, devs, role:x\np, role:x, applicationsets, *, red/*, allow";
    assert!(asks(red, RbacOptions::default()).permitted, "nobody asks where it is not restricted");
    let refused = asks(red, restrict).message.unwrap();
    assert!(refused.contains("(applicationsets, create, */*)"), "{refused}");
    assert!(refused.contains("(applicationsets, unscoped, *)"), "{refused}");
    for lines in [
        "g, devs, role:x\np, role:x, applicationsets, create, */*, allow",
        "g, devs, role:x\np, role:x, applicationsets, unscoped, *, allow",
        "g, devs, role:admin",
    ] {
        assert!(asks(lines, restrict).permitted, "{lines}");
    }
    assert!(!asks("g, devs, role:x\np, role:x, applicationsets, update, */*, allow", restrict).permitted);
}

#[test]
fn api_107_aset_281_options_are_read_from_the_settings() {
    let options = |list: &[(&str, &str)]| {
        let cm = list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        RbacOptions::from_settings(&Settings::new(SettingsData { cm, ..SettingsData::default() }))
    };
    assert_eq!(options(&[]), RbacOptions::default());
    let inherit = "server.rbac.disableApplicationFineGrainedRBACInheritance";
    let all = options(&[
        ("server.rbac.rollback.enforce.enable", "true"),
        (inherit, "false"),
        ("rbac.reserveRoleNames", "true"),
        ("applicationset.unscoped.policy", "restrict"),
    ]);
    assert!(all.rollback_enforced && all.fine_grained_inherited);
    assert!(all.reserve_role_names && all.unscoped_restricted);
    assert!(!options(&[(inherit, "nonsense")]).fine_grained_inherited, "the strict reading");
    assert!(options(&[("applicationset.unscoped.policy", "alow")]).unscoped_restricted, "the strict reading");
    assert!(!options(&[("applicationset.unscoped.policy", "allow")]).unscoped_restricted);
}

#[test]
fn cli_910_the_command_line_asks_about_a_subject_alone() {
    let rbac = policy("p, devs, logs, get, shop/*, allow\np, , logs, get, web/*, allow");
    assert!(rbac.subject_may("devs", &request("logs, get, shop/a")), "a group needs no g line here");
    assert!(!rbac.subject_may("devs", &request("logs, get, web/a")), "nor has it what everybody has");
    assert!(rbac.subject_may("role:admin", &request("logs, get, web/a")));
    assert!(rbac.subject_may("admin", &request("logs, get, web/a")));
    let rbac = super::compile(&[("policy.csv", ""), ("policy.default", "role:readonly")]);
    assert!(rbac.subject_may("nobody", &request("logs, get, web/a")));
}

/// The proof is for one thing and one action.
#[test]
fn api_92_what_is_authorized_is_one_action_on_one_thing() {
    let rbac = policy("p, kim, applications, sync, shop/*, allow\np, kim, projects, get, shop, allow");
    let claims = claims(json!({"sub": "kim", "iat": 0}));
    let caller = rbac.caller(Some(&claims));
    let app = application("argocd");
    let authorized = caller.authorize("sync", &app, "argocd").unwrap();
    assert_eq!(authorized.allows("sync").unwrap().metadata.name, "web");
    assert!(authorized.allows("delete").is_none());
    assert_eq!(authorized.get().metadata.name, "web");
    assert_eq!(
        caller.authorize("delete", &app, "argocd").unwrap_err(),
        "permission denied: applications, delete, shop/web, sub: kim, iat: 1970-01-01T00:00:00Z"
    );
    assert!(caller.authorize("sync", &application("team"), "argocd").is_ok());
    assert!(caller.authorize("get", project("shop", &json!([])), "argocd").is_ok());
    assert!(caller.authorize("get", project("web", &json!([])), "argocd").is_err());
}
