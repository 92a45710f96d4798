//! Whose voice counts for a caller (API-90..99).

use serde_json::{Value, json};

use super::{claims, compile, may, member, policy, project, request, user};
use crate::rbac::{Rbac, RbacOptions};

#[test]
fn api_91_everybody_has_the_default_role() {
    let rbac = compile(&[("policy.csv", ""), ("policy.default", "role:readonly")]);
    assert!(may(&rbac, user("anybody"), "applications, get, a/b"));
    assert!(rbac.caller(None).may(&request("applications, get, a/b")), "nobody is somebody (API-99)");
    assert!(!may(&rbac, user("anybody"), "applications, sync, a/b"));
    assert!(!may(&policy(""), user("anybody"), "applications, get, a/b"));
}

#[test]
fn api_92_1_the_default_role_comes_first() {
    let lines = "p, kim, applications, get, a/*, deny\np, role:all, applications, get, secret/*, deny\n\
                 p, role:all, applications, get, *, allow\np, lee, applications, get, secret/*, allow";
    let rbac = compile(&[("policy.csv", lines), ("policy.default", "role:all")]);
    assert!(may(&rbac, user("kim"), "applications, get, a/b"), "a deny elsewhere does not override it");
    assert!(!may(&rbac, user("kim"), "applications, get, secret/b"));
    assert!(may(&rbac, user("lee"), "applications, get, secret/b"), "its deny does not stop the others");
}

#[test]
fn api_92_2_a_project_counts_for_its_own_requests() {
    let roles = json!([{"name": "dev", "groups": ["devs"], "policies": [
        "p, proj:shop:dev, applications, *, shop/*, allow", "p, proj:shop:dev, applications, delete, shop/prod, deny",
        "p, proj:shop:dev, applications, get, web/*, allow"]}]);
    let rbac = policy("").with_projects([&project("shop", &roles), &project("web", &json!([]))]);
    assert!(may(&rbac, member(&["devs"]), "applications, delete, shop/web"));
    assert!(may(&rbac, member(&["devs"]), "applications, get, shop/ns/web"));
    assert!(may(&rbac, member(&["devs"]), "projects, get, shop"), "API-96");
    assert!(!may(&rbac, member(&["devs"]), "applications, delete, shop/prod"));
    assert!(!may(&rbac, member(&["devs"]), "applications, get, web/a"), "another project");
    assert!(!may(&rbac, member(&["devs"]), "projects, get, web"));
}

#[test]
fn api_92_3_a_token_of_a_project_acts_in_it_alone() {
    let roles = json!([{"name": "ci", "groups": ["devs"], "policies": ["p, proj:shop:ci, applications, sync, shop/*, allow"]}]);
    let lines = "p, proj:web:ci, accounts, get, *, allow\np, proj:shop:ci, applications, get, web/*, allow\n\
                 g, devs, role:admin";
    let rbac = policy(lines).with_projects([&project("shop", &roles), &project("web", &json!([]))]);
    let token = |groups: &[&str]| json!({"sub": "proj:shop:ci", "groups": groups});
    assert!(may(&rbac, token(&[]), "applications, sync, shop/web"));
    assert!(!may(&rbac, token(&[]), "applications, get, web/a"), "not even by a global line");
    assert!(!may(&rbac, token(&["devs"]), "applications, delete, shop/web"), "groups do not count");
    assert!(may(&rbac, token(&["devs"]), "accounts, get, kim"), "no project is found: step 4");
    assert!(may(&rbac, user("proj:web:ci"), "accounts, get, kim"));
    assert!(!may(&rbac, user("proj:shop:ci:x"), "applications, sync, shop/web"), "four parts are no token");
    // The default role holds in its own project only where the project gives it something.
    let rbac = compile(&[("policy.csv", ""), ("policy.default", "role:all")]);
    let own = json!([{"name": "ci", "policies": ["p, role:all, applications, get, shop/*, allow"]}]);
    let rbac = rbac.with_projects([&project("shop", &own), &project("web", &json!([]))]);
    assert!(may(&rbac, user("proj:shop:ci"), "applications, get, shop/a"));
    assert!(!may(&rbac, user("proj:web:ci"), "applications, get, shop/a"));
    assert!(may(&rbac, user("kim"), "applications, get, shop/a"));
}

#[test]
fn api_92_4_each_subject_is_judged_on_its_own() {
    let rbac = policy(
        "g, a, role:a\ng, b, role:b\np, role:a, applications, *, *, allow\np, role:b, applications, *, */*, deny\n\
         p, kim, applications, get, */*, allow",
    );
    assert!(may(&rbac, member(&["a", "b"]), "applications, sync, x/y"));
    assert!(!may(&rbac, member(&["b"]), "applications, sync, x/y"));
    let kim = json!({"sub": "kim", "groups": ["b"]});
    assert!(may(&rbac, kim.clone(), "applications, get, x/y"));
    assert!(!may(&rbac, kim, "applications, sync, x/y"));
}

#[test]
fn api_92_5_the_empty_subject_is_everybody() {
    let rbac = policy("p, , applications, get, */*, allow").with_projects([&project("shop", &json!([]))]);
    assert!(may(&rbac, user("kim"), "applications, get, shop/a"));
    assert!(may(&rbac, user("proj:web:ci"), "applications, get, shop/a"));
    assert!(rbac.caller(None).may(&request("applications, get, shop/a")));
    assert!(!may(&rbac, user("kim"), "applications, sync, shop/a"));
    // A line of a project speaks for nobody who has a name.
    let roles = json!([{"name": "r", "policies": ["p, , applications, get, shop/*, allow"]}]);
    let rbac = policy("").with_projects([&project("shop", &roles)]);
    assert!(!may(&rbac, user("kim"), "applications, get, shop/a"));
    assert!(rbac.caller(None).may(&request("applications, get, shop/a")), "API-99: U is empty");
}

#[test]
fn api_93_a_group_needs_a_g_line() {
    let rbac = policy("p, devs, applications, get, */*, allow\np, kim, applications, get, */*, allow");
    assert!(!may(&rbac, member(&["devs"]), "applications, get, a/b"));
    assert!(may(&rbac, user("kim"), "applications, get, a/b"), "a user does not");
    let rbac = policy("p, devs, applications, get, */*, allow\ng, devs, role:x");
    assert!(may(&rbac, member(&["devs"]), "applications, get, a/b"), "any g line will do");
    let roles = json!([{"name": "r", "groups": ["devs"]}]);
    let rbac = policy("p, devs, applications, get, */*, allow").with_projects([&project("shop", &roles)]);
    assert!(may(&rbac, member(&["devs"]), "applications, get, shop/b"), "also one of the project");
    assert!(!may(&rbac, member(&["devs"]), "applications, get, web/b"));
}

#[test]
fn api_94_names_of_roles_can_be_claimed_unless_they_are_reserved() {
    let shop = project(
        "shop",
        &json!([{"name": "ci", "policies": ["p, proj:shop:ci, applications, get, shop/*, allow"]}]),
    );
    let open = policy("").with_projects([&shop]);
    let reserved =
        open.clone().with_options(RbacOptions { reserve_role_names: true, ..RbacOptions::default() });
    let sso = |sub: &str| json!({"iss": "https://idp", "sub": sub});
    for (who, what) in [
        (sso("admin"), "applications, delete, a/b"),
        (sso("role:admin"), "applications, delete, a/b"),
        (member(&["role:admin"]), "applications, delete, a/b"),
        (member(&["admin"]), "applications, delete, a/b"),
        (sso("proj:shop:ci"), "applications, get, shop/a"),
        (
            json!({"iss": "https://idp", "sub": "x", "federated_claims": {"user_id": "admin"}}),
            "applications, sync, a/b",
        ),
    ] {
        assert!(may(&open, who.clone(), what), "{who}");
        assert!(!may(&reserved, who.clone(), what), "{who}");
    }
    assert!(!may(&open, member(&["role:readonly"]), "applications, get, a/b"), "it is member of nothing");
    let own = |sub: &str| json!({"iss": "argocd", "sub": sub});
    assert!(may(&reserved, own("admin"), "applications, delete, a/b"));
    assert!(may(&reserved, own("proj:shop:ci"), "applications, get, shop/a"));
}

#[test]
fn api_95_the_project_is_in_the_object() {
    let lines = [
        ("applications", "shop/a"),
        ("applicationsets", "shop/a"),
        ("repositories", "shop/https://r"),
        ("clusters", "shop/https://c"),
        ("logs", "shop/ns/a"),
        ("exec", "shop/a"),
        ("projects", "shop"),
    ];
    let all = json!([{"name": "r", "groups": ["devs"], "policies": ["p, proj:shop:r, *, *, *, allow"]}]);
    let rbac = policy("").with_projects([&project("shop", &all)]);
    for (resource, object) in lines {
        assert!(may(&rbac, member(&["devs"]), &format!("{resource}, get, {object}")), "{resource}");
    }
    for what in [
        "write-repositories, get, shop/https://r",
        "accounts, get, shop",
        "certificates, get, ",
        "clusters, get, shop",
        "projects, get, shop/a",
        "pods, get, shop/a",
        "extensions, invoke, shop",
    ] {
        assert!(!may(&rbac, member(&["devs"]), what), "{what}");
    }
}

#[test]
fn api_96_what_a_project_adds_and_when_it_cannot_be_read() {
    let roles = json!([
        {"name": "a", "groups": ["\"team, one\"", "devs"], "policies": ["p, proj:shop:a, logs, get, shop/*, allow"]},
        {"name": "b", "policies": ["p, kim, logs, get, shop/*, allow", "g, lee, proj:shop:a"]},
    ]);
    let rbac = policy("g, ops, devs").with_projects([&project("shop", &roles)]);
    assert!(may(&rbac, member(&["team, one"]), "logs, get, shop/x"));
    assert!(
        may(&rbac, member(&["ops"]), "logs, get, shop/x"),
        "links of the base and of the project follow each other"
    );
    assert!(may(&rbac, user("kim"), "logs, get, shop/x") && may(&rbac, user("lee"), "logs, get, shop/x"));
    assert!(may(&rbac, user("proj:shop:b"), "projects, get, shop"));
    assert!(!may(&rbac, user("kim"), "logs, get, web/x"));
    let broken = json!([{"name": "a", "groups": ["devs"], "policies": ["p, proj:shop:a, logs, get, shop/*, allow", "p, x"]}]);
    let rbac = policy("p, kim, logs, get, shop/*, allow").with_projects([&project("shop", &broken)]);
    assert!(!may(&rbac, member(&["devs"]), "logs, get, shop/x"), "the base alone");
    assert!(may(&rbac, user("kim"), "logs, get, shop/x"));
    assert!(!may(&rbac, user("proj:shop:a"), "projects, get, shop"));
    assert_eq!(
        rbac.project_problem("shop").unwrap().to_string(),
        "shop line 3: `p, x`: a p line has 6 fields (p, subject, resource, action, object, effect), this one has 2"
    );
}

#[test]
fn api_96_links_through_a_project_are_counted_with_those_of_the_base() {
    let links: Vec<String> = (0..9).map(|at| format!("g, n{at}, n{}", at + 1)).collect();
    let roles =
        json!([{"name": "r", "groups": ["n9"], "policies": ["p, proj:shop:r, logs, get, shop/*, allow"]}]);
    let rbac = policy(&links.join("\n")).with_projects([&project("shop", &roles)]);
    assert!(may(&rbac, user("n0"), "logs, get, shop/a"), "ten links");
    let rbac =
        policy(&format!("{}\ng, more, n0", links.join("\n"))).with_projects([&project("shop", &roles)]);
    assert!(!may(&rbac, user("more"), "logs, get, shop/a"), "eleven");
}

/// API-67, API-90: odd claims are no groups, and no errors.
#[test]
fn api_67_groups_are_texts_in_the_claims_that_scopes_name() {
    let rbac = |scopes: &str| {
        compile(&[("policy.csv", "g, devs, role:admin\ng, kim@acme.test, role:admin"), ("scopes", scopes)])
    };
    let sees = |rbac: &Rbac, groups: Value| {
        may(rbac, json!({"sub": "x", "groups": groups, "email": "kim@acme.test"}), "applications, get, a/b")
    };
    let groups = rbac("");
    for yes in [json!(["devs"]), json!("devs"), json!([1, null, ["x"], {"a": 1}, "devs"])] {
        assert!(sees(&groups, yes.clone()), "{yes}");
    }
    for no in [
        json!(null),
        json!({"devs": true}),
        json!([["devs"]]),
        json!(7),
        json!("devs,ops"),
        json!([]),
        json!(""),
    ] {
        assert!(!sees(&groups, no.clone()), "{no}");
    }
    assert!(sees(&rbac("[groups, email]"), json!([])));
    assert!(sees(&rbac("email"), json!([])));
    assert!(!sees(&rbac("[]"), json!(["devs"])), "no claim holds groups");
    assert!(!sees(&rbac("[email-of-another]"), json!(["devs"])));
}

#[test]
fn api_53_the_identifier_is_the_federated_one_first() {
    let rbac = policy("p, fed, logs, get, a/b, allow\np, plain, logs, get, a/b, allow");
    let may = |who| may(&rbac, who, "logs, get, a/b");
    assert!(may(json!({"sub": "x", "federated_claims": {"user_id": "fed"}})));
    assert!(may(json!({"sub": "plain", "federated_claims": {"user_id": ""}})));
    assert!(may(json!({"sub": "plain", "federated_claims": {"user_id": 7}})));
    assert!(may(json!({"sub": "plain", "federated_claims": "fed"})));
    assert!(!may(json!({"sub": "plain", "federated_claims": {"user_id": "x"}})));
    assert!(!may(json!({"sub": ["plain"]})));
}

#[test]
fn api_98_refusals_say_what_was_asked_and_by_whom() {
    let rbac = policy("");
    let refusal = |who| rbac.caller(Some(&claims(who))).check(&request("logs, get, a/b")).message.unwrap();
    assert_eq!(
        refusal(json!({"sub": "kim", "iat": 1_700_000_000})),
        "permission denied: logs, get, a/b, sub: kim, iat: 2023-11-14T22:13:20Z"
    );
    assert_eq!(refusal(json!({"sub": "kim"})), "permission denied: logs, get, a/b, sub: kim");
    assert_eq!(
        refusal(json!({"sub": "kim", "iat": 1_700_000_000.9})),
        "permission denied: logs, get, a/b, sub: kim, iat: 2023-11-14T22:13:20Z"
    );
    for odd in [json!("soon"), json!(1e300), json!(null), json!([])] {
        assert_eq!(refusal(json!({"sub": "kim", "iat": odd})), "permission denied: logs, get, a/b, sub: kim");
    }
    assert_eq!(
        rbac.caller(None).check(&request("certificates, get, ")).message.unwrap(),
        "permission denied: certificates, get, "
    );
    assert!(
        policy("p, kim, logs, get, a/b, allow")
            .caller(Some(&claims(user("kim"))))
            .check(&request("logs, get, a/b"))
            .permitted
    );
}

/// SEC-48: whether there is any object for which a caller has a right, through roles, groups and projects.
#[test]
fn sec_48_a_right_for_some_object_is_found() {
    let lines = "p, role:dev, applications, create, shop/*, allow\ng, kim, role:dev\np, role:ops, *, *, */*, allow\ng, ops, role:ops\n\
                 p, ann, applications, get, */*, deny\np, lee, app*, sy*, a/b, allow\n";
    let roles = json!([{"name": "ci", "policies": ["p, proj:desk:ci, clusters, update, desk/*, allow"],
        "groups": ["desk-devs"]}]);
    let rbac = policy(lines).with_projects([&project("desk", &roles)]);
    let ever = |who: Value, resource: &str, action: &str| {
        let claims = claims(who);
        rbac.caller(Some(&claims)).may_ever(resource, action)
    };
    let kim = || json!({"iss": "argocd", "sub": "kim"});
    assert!(ever(kim(), "applications", "create") && !ever(kim(), "applications", "update"));
    assert!(!ever(kim(), "clusters", "create"));
    assert!(ever(json!({"sub": "x", "groups": ["ops"]}), "repositories", "update"));
    assert!(!ever(json!({"iss": "argocd", "sub": "ann"}), "applications", "get"));
    assert!(ever(json!({"iss": "argocd", "sub": "lee"}), "applications", "sync"));
    assert!(ever(json!({"iss": "argocd", "sub": "proj:desk:ci"}), "clusters", "update"));
    assert!(ever(json!({"sub": "x", "groups": ["desk-devs"]}), "clusters", "update"));
    assert!(!ever(json!({"iss": "argocd", "sub": "proj:shop:ci"}), "clusters", "update"));
    assert!(ever(json!({"iss": "argocd", "sub": "admin"}), "gpgkeys", "create"));
    assert!(!rbac.caller(None).may_ever("applications", "get"));
}
