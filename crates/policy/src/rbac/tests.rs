//! What the statements of API section 3 say, one by one; then everything at once against an evaluator that is nothing
//! but these statements.

mod caller;
mod hostile;
mod naive;
mod properties;
mod questions;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tiphys_api::AppProject;

use super::{MatchMode, Rbac, RbacConfig, RbacOptions, Request};

/// The data of `argocd-rbac-cm`.
fn config(data: &[(&str, &str)]) -> RbacConfig {
    let data: BTreeMap<String, String> =
        data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    RbacConfig::read(&data).unwrap()
}

fn compile(data: &[(&str, &str)]) -> Rbac {
    Rbac::compile(&config(data)).unwrap()
}

/// The policy with these lines.
fn policy(lines: &str) -> Rbac {
    compile(&[("policy.csv", lines)])
}

fn project(name: &str, roles: &Value) -> AppProject {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"roles": roles}})).unwrap()
}

fn claims(value: Value) -> Map<String, Value> {
    let Value::Object(claims) = value else { panic!("claims are an object") };
    claims
}

/// A request written as in a policy: `resource, action, object`.
fn request(text: &str) -> Request<'_> {
    let mut words = text.splitn(3, ", ");
    let mut next = || words.next().unwrap_or_default();
    Request { resource: next(), action: next(), object: next() }
}

/// Whether somebody with these claims may.
fn may(rbac: &Rbac, who: Value, what: &str) -> bool {
    let claims = claims(who);
    let caller = rbac.caller(Some(&claims));
    let request = request(what);
    let answer = caller.may(&request);
    assert_eq!(
        caller.filter(request.resource, request.action).may(request.object),
        answer,
        "{what}: the filter"
    );
    answer
}

fn user(name: &str) -> Value {
    json!({"sub": name})
}

fn member(groups: &[&str]) -> Value {
    json!({"sub": "somebody", "groups": groups})
}

#[test]
fn api_80_a_subject_needs_an_allow_and_no_deny() {
    let rbac = policy(
        "p, role:dev, applications, *, shop/*, allow\ng, kim, role:dev\np, kim, applications, delete, *, deny\n\
         p, lee, applications, get, shop/web, maybe",
    );
    assert!(may(&rbac, user("kim"), "applications, sync, shop/web"));
    assert!(!may(&rbac, user("kim"), "applications, delete, shop/web"), "order does not matter");
    assert!(!may(&rbac, user("kim"), "applications, sync, web/shop"));
    assert!(!may(&rbac, user("kim"), "logs, get, shop/web"));
    assert!(!may(&rbac, user("lee"), "applications, get, shop/web"), "an unknown effect is inert");
    assert!(!may(&rbac, user("nobody"), "applications, get, shop/web"));
}

#[test]
fn api_80_links_are_followed_ten_times() {
    let chain = |links: usize| {
        let lines: Vec<String> = (0..links).map(|at| format!("g, n{at}, n{}", at + 1)).collect();
        policy(&format!("{}\np, n{links}, logs, get, */*, allow", lines.join("\n")))
    };
    assert!(may(&chain(10), user("n0"), "logs, get, a/b"));
    assert!(!may(&chain(11), user("n0"), "logs, get, a/b"));
    assert!(may(&chain(11), user("n1"), "logs, get, a/b"));
    assert!(
        may(&policy("p, kim, logs, get, */*, allow"), user("kim"), "logs, get, a/b"),
        "oneself is a role"
    );
}

#[test]
fn api_83_all_policy_keys_count() {
    let rbac = compile(&[
        ("policy.csv", "p, role:dev, logs, get, */*, allow"),
        ("policy.team.csv", "g, kim, role:dev"),
        ("other.csv", "g, lee, role:admin"),
    ]);
    assert!(may(&rbac, user("kim"), "logs, get, a/b"));
    assert!(!may(&rbac, user("lee"), "logs, get, a/b"));
    let error =
        Rbac::compile(&config(&[("policy.csv", "# fine"), ("policy.team.csv", "\ng, kim")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy.team.csv line 2: `g, kim`: a g line has 3 fields (g, member, role), this one has 2"
    );
}

/// What a pattern matches is in the tests of patterns; here is where patterns are.
#[test]
fn api_85_resource_action_and_object_are_globs() {
    let rbac = policy("p, kim, app*, \"{get,action/*}\", shop/[a-w]*, allow\np, kim, logs, get, [, allow");
    assert!(may(&rbac, user("kim"), "applications, get, shop/web"));
    assert!(may(&rbac, user("kim"), "applicationsets, action/apps/Deployment/restart, shop/web"));
    assert!(!may(&rbac, user("kim"), "applications, action, shop/web"));
    assert!(!may(&rbac, user("kim"), "applications, get, shop/xyz"));
    assert!(!may(&rbac, user("kim"), "logs, get, ["), "what does not compile never matches");
    assert!(may(&rbac, user("kim"), "apples, get, shop/web"), "words nobody knows are matched as well");
}

#[test]
fn api_86_expressions_are_searched_and_broken_ones_never_apply() {
    let lines = "p, kim, ^applications$, ^get$, shop/, allow\np, kim, ^logs$, get, *, allow\n\
                 p, kim, ^applications$, ^get$, (, deny";
    let rbac = compile(&[("policy.csv", lines), ("policy.matchMode", "regex")]);
    assert!(may(&rbac, user("kim"), "applications, get, my-shop/web"));
    assert!(!may(&rbac, user("kim"), "applications, get, web"));
    assert!(!may(&rbac, user("kim"), "applications, getall, shop/web"));
    assert!(!may(&rbac, user("kim"), "logs, get, a/b"), "* is no expression");
    let warned = rbac.warnings().join("\n");
    assert!(warned.contains("policy.csv line 2: the object \"*\" does not compile"), "{warned}");
    assert!(warned.contains("policy.csv line 3: the object \"(\" does not compile"), "{warned}");
}

#[test]
fn api_87_the_built_in_policy_is_globs_in_every_mode() {
    let lines = ("policy.csv", "g, ops, role:readonly");
    let rbac = compile(&[lines, ("policy.matchMode", "regex")]);
    assert!(may(&rbac, user("admin"), "applications, delete, shop/web"));
    assert!(may(&rbac, member(&["ops"]), "clusters, get, https://eu"));
    assert!(!may(&rbac, member(&["ops"]), "clusters, update, https://eu"));
    // Lines of projects follow the mode: `shop/*` is `shop` and any slashes.
    let role = json!([{"name": "r", "policies": ["p, proj:shop:r, applications, ^get$, b$, allow"]}]);
    let rbac = rbac.with_projects([&project("shop", &role)]);
    assert!(may(&rbac, user("proj:shop:r"), "applications, get, shop/web"));
    assert!(!may(&rbac, user("proj:shop:r"), "applications, get, shop/we"));
}

#[test]
fn api_88_members_and_roles_are_no_patterns() {
    for mode in ["glob", "regex"] {
        let lines = "g, dev*, role:admin\ng, kim, role:*\np, role:x, logs, get, a/b, allow\np, *, logs, get, a/b, allow";
        let rbac = compile(&[("policy.csv", lines), ("policy.matchMode", mode)]);
        assert!(!may(&rbac, member(&["devs"]), "logs, get, a/b"));
        assert!(!may(&rbac, user("kim"), "logs, get, a/b"));
        assert!(may(&rbac, member(&["dev*"]), "logs, get, a/b"));
    }
}

/// API-89 and API-97: who edits the policy wrongly changes nothing; projects go on to change.
#[test]
fn api_89_the_last_good_policy_stays_in_force() {
    use super::InForce;
    let read = |lines: &str| Rbac::compile(&config(&[("policy.csv", lines)]));
    let kim = "p, kim, logs, get, shop/*, allow";
    let mut in_force = InForce::begin(read(kim)).after(read("p, kim"));
    assert!(may(in_force.policy(), user("kim"), "logs, get, shop/a"));
    assert_eq!(in_force.problem().unwrap().place.line, 1);
    let role = json!([{"name": "r", "policies": ["p, proj:shop:r, logs, get, shop/*, allow"]}]);
    in_force.policy_mut().set_project(&project("shop", &role));
    assert!(may(in_force.policy(), user("proj:shop:r"), "logs, get, shop/a"));
    in_force.policy_mut().set_project(&project("shop", &json!([])));
    assert!(!may(in_force.policy(), user("proj:shop:r"), "logs, get, shop/a"));
    let in_force = in_force.after(read(""));
    assert!(in_force.problem().is_none() && !may(in_force.policy(), user("kim"), "logs, get, shop/a"));
    // At start there is no last one.
    let config = config(&[("policy.csv", "oops"), ("policy.default", "role:readonly")]);
    let in_force = InForce::begin(Rbac::compile(&config));
    assert!(may(in_force.policy(), user("admin"), "applications, delete, a/b"));
    assert!(!may(in_force.policy(), user("kim"), "applications, get, a/b"));
    assert!(in_force.problem().is_some());
}

#[test]
fn api_100_the_built_in_policy_is_always_there() {
    let rbac = policy("g, ops, role:admin\ng, eye, role:readonly");
    let (admin, eye) = (member(&["ops"]), member(&["eye"]));
    for (what, admin_may, eye_may) in [
        ("applications, get, a/b", true, true),
        ("applicationsets, get, a/b", true, true),
        ("logs, get, a/b", true, true),
        ("certificates, get, ", true, true),
        ("clusters, get, https://eu", true, true),
        ("write-repositories, get, https://r", true, true),
        ("accounts, get, kim", true, true),
        ("gpgkeys, get, ", true, true),
        ("applications, create, a/b", true, false),
        ("applications, update/apps/Deployment/ns/x, a/b", true, false),
        ("applications, delete/apps/Deployment/ns/x, a/b", true, false),
        ("applications, action/apps/Deployment/restart, a/b", true, false),
        ("applications, sync, a/b", true, false),
        ("applications, rollback, a/b", true, false),
        ("applications, override, a/b", true, false),
        ("applicationsets, delete, a/b", true, false),
        ("projects, delete, a", true, false),
        ("certificates, update, ", true, false),
        ("gpgkeys, create, ", true, false),
        ("gpgkeys, update, ", false, false),
        ("accounts, update, kim", true, false),
        ("accounts, delete, kim", false, false),
        ("exec, create, a/b", true, false),
        // API-101
        ("extensions, invoke, x", false, false),
        ("exec, get, a/b", false, false),
        ("applications, get, a", false, false),
        // ASET-279
        ("applicationsets, unscoped, *", true, false),
    ] {
        assert_eq!(may(&rbac, admin.clone(), what), admin_may, "admin: {what}");
        assert_eq!(may(&rbac, eye.clone(), what), eye_may, "readonly: {what}");
    }
    let without = Rbac::compile(&RbacConfig { with_builtin: false, ..RbacConfig::default() }).unwrap();
    assert!(!may(&without, user("admin"), "applications, get, a/b"));
}

/// The worked example of API section 3.2.
#[test]
fn api_92_the_worked_example() {
    let dev = "p, role:dev, applications, sync, shop/*, allow\ng, devs, role:dev\n";
    let no_prod = format!("{dev}p, role:dev, applications, sync, shop/prod-*, deny\n");
    let ops = format!("{no_prod}g, ops, role:admin\n");
    let answer = |lines: &str, who: Value, what: &str| {
        may(&compile(&[("policy.csv", lines), ("policy.default", "role:readonly")]), who, what)
    };
    assert!(answer(dev, member(&["devs"]), "applications, sync, shop/web"));
    assert!(answer(dev, member(&["devs"]), "applications, sync, shop/ns1/web"));
    assert!(!answer(&no_prod, member(&["devs"]), "applications, sync, shop/prod-web"));
    assert!(answer(&ops, member(&["devs", "ops"]), "applications, sync, shop/prod-web"));
    assert!(answer("p, alice, applications, get, */*, deny", user("alice"), "applications, get, shop/web"));
    let bob = "p, bob, applications, action/apps/Deployment/*, shop/*, allow";
    assert!(answer(bob, user("bob"), "applications, action/apps/Deployment/restart, shop/web"));
}

#[test]
fn api_104_certificates_have_the_empty_object() {
    let rbac = policy(
        "p, a, certificates, get, *, allow\np, b, certificates, get, , allow\np, c, certificates, get, git.acme.test, allow",
    );
    assert!(may(&rbac, user("a"), "certificates, get, "));
    assert!(may(&rbac, user("b"), "certificates, get, "));
    assert!(!may(&rbac, user("c"), "certificates, get, "));
    assert!(rbac.warnings().join("\n").contains("line 3: certificates have no object"));
}

#[test]
fn api_91_96_97_options_and_projects_change_while_the_policy_stays() {
    let rbac = policy("");
    assert_eq!(rbac.options(), RbacOptions::default());
    let mut rbac = rbac.with_options(RbacOptions { rollback_enforced: true, ..RbacOptions::default() });
    assert!(rbac.options().rollback_enforced);
    rbac.set_project(&project("shop", &json!([{"name": "r"}])));
    assert!(may(&rbac, user("proj:shop:r"), "projects, get, shop"));
    rbac.remove_project("shop");
    assert!(!may(&rbac, user("proj:shop:r"), "projects, get, shop"));
    assert_eq!(config(&[]).match_mode, MatchMode::Glob);
}
