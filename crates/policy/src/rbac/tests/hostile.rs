//! Policies and requests that are meant to cost (SEC-07). The inputs are so large that code without the bound would not
//! end; nothing here looks at a clock.

use serde_json::json;

use super::{claims, compile, may, member, policy, project, request, user};
use crate::rbac::{Rbac, RbacConfig};

#[test]
fn sec_07_cycles_of_groups_end() {
    // Everybody is member of everybody, and of themselves.
    let mut lines: Vec<String> =
        (0..100).flat_map(|a| (0..100).map(move |b| format!("g, n{a}, n{b}"))).collect();
    lines.push("p, n99, logs, get, */*, allow".to_owned());
    let rbac = policy(&lines.join("\n"));
    assert!(may(&rbac, user("n0"), "logs, get, a/b"));
    assert!(!may(&rbac, user("n0"), "logs, create, a/b"));
    let chain: Vec<String> = (0..10_000).map(|at| format!("g, n{at}, n{}", (at + 1) % 10_000)).collect();
    let rbac = policy(&format!("{}\np, n10, logs, get, */*, allow", chain.join("\n")));
    assert!(may(&rbac, user("n0"), "logs, get, a/b"));
    assert!(!may(&rbac, user("n11"), "logs, get, a/b"), "9999 links away");
}

/// One group of ten thousand roles costs in proportion, once for each answer.
#[test]
fn sec_07_many_roles_are_visited_once() {
    let links: Vec<String> =
        (0..10_000).flat_map(|at| [format!("g, hub, n{at}"), format!("g, n{at}, hub")]).collect();
    let rbac = policy(&links.join("\n"));
    assert!(!may(&rbac, member(&["hub", "n1", "n2"]), "logs, get, a/b"));
}

#[test]
fn sec_07_many_lines_are_read() {
    let lines: Vec<String> =
        (0..20_000).map(|at| format!("p, role:r{at}, applications, get, p{at}/*, allow")).collect();
    let rbac = policy(&format!("{}\ng, devs, role:r19999", lines.join("\n")));
    assert!(may(&rbac, member(&["devs"]), "applications, get, p19999/a"));
    assert!(!may(&rbac, member(&["devs"]), "applications, get, p1999/a"));
}

#[test]
fn sec_07_answers_that_take_too_long_are_no() {
    // Each pattern may match in thousands of ways.
    let lines: Vec<String> =
        (0..60).map(|at| format!("p, kim, logs, get, {}{at}, allow", "*?a".repeat(1_000))).collect();
    let rbac = policy(&format!("{}\np, kim, logs, get, aa*, allow", lines.join("\n")));
    assert!(may(&rbac, user("kim"), "logs, get, aab"));
    let long = "a".repeat(40_000);
    assert!(!may(&rbac, user("kim"), &format!("logs, get, {long}")));
}

#[test]
fn sec_07_requests_have_a_length() {
    let rbac = policy("p, kim, *, *, *, allow");
    assert!(may(&rbac, user("kim"), &format!("logs, get, {}", "a".repeat(60_000))));
    assert!(!may(&rbac, user("kim"), &format!("logs, get, {}", "a".repeat(70_000))));
    assert!(!rbac.subject_may("kim", &request(&format!("logs, get, {}", "a".repeat(70_000)))));
}

#[test]
fn sec_07_a_pattern_beyond_its_bounds_takes_the_policy_with_it() {
    let long = "a".repeat(20_000);
    let config =
        RbacConfig::of_text("policy.csv", &format!("# fine\np, kim, logs, get, {long}, deny")).unwrap();
    let error = Rbac::compile(&config).unwrap_err().to_string();
    assert!(error.starts_with("policy.csv line 2: the pattern `aaaa"), "{error}");
    assert!(error.ends_with("write several shorter ones") && error.len() < 400, "{error}");
    // In a project it takes what the project adds.
    let roles = json!([{"name": "r", "policies": ["p, kim, logs, get, shop/*, allow", format!("p, kim, logs, get, {long}, deny")]}]);
    let rbac = policy("").with_projects([&project("shop", &roles)]);
    assert!(!may(&rbac, user("kim"), "logs, get, shop/a"));
    assert!(rbac.project_problem("shop").is_some());
}

#[test]
fn sec_07_expressions_that_explode_elsewhere_do_not_here() {
    let rbac = compile(&[
        ("policy.csv", "p, kim, logs, get, ^(a+)+$, allow\np, kim, logs, get, (x*)*(x*)*y, allow"),
        ("policy.matchMode", "regex"),
    ]);
    assert!(may(&rbac, user("kim"), &format!("logs, get, {}", "a".repeat(30_000))));
    assert!(!may(&rbac, user("kim"), &format!("logs, get, {}!", "a".repeat(30_000))));
    assert!(!may(&rbac, user("kim"), &format!("logs, get, {}", "x".repeat(30_000))));
}

#[test]
fn sec_07_many_groups_count_once_each() {
    let groups: Vec<String> = (0..200_000).map(|at| format!("g{}", at % 1_000)).collect();
    let rbac = policy("g, g999, role:readonly");
    let claims = claims(json!({"sub": "x", "groups": groups}));
    assert!(rbac.caller(Some(&claims)).may(&request("logs, get, a/b")));
}

#[test]
fn sec_07_a_filter_forgets() {
    let rbac = policy("p, kim, logs, get, p1*/*, allow");
    let claims = claims(user("kim"));
    let caller = rbac.caller(Some(&claims));
    let filter = caller.filter("logs", "get");
    let found = (0..20_000).filter(|at| filter.may(&format!("p{at}/a"))).count();
    assert_eq!(found, 1 + 10 + 100 + 1_000 + 10_000);
}
