//! `rbac.*` beyond the examples of the table (EVAL-301..305).

#![expect(
    clippy::unwrap_used,
    reason = "an answer where a failure is expected fails the test, and the other way round"
)]

use serde_json::{Value, json};
use tiphys_lab::eval::{Strictness, evaluate};

fn answer(op: &str, input: Value) -> Value {
    evaluate(op, input, Strictness::Strict).unwrap()
}

/// Code and text of a failure.
fn fault(op: &str, input: Value) -> (String, String) {
    let fault = evaluate(op, input, Strictness::Strict).unwrap_err();
    (fault.code.as_str().to_owned(), fault.message)
}

fn enforce(rbac: &Value, claims: &Value, request: [&str; 3]) -> Value {
    let [resource, action, object] = request;
    answer(
        "rbac.enforce",
        json!({"rbac": rbac, "claims": claims, "request": {"resource": resource, "action": action, "object": object},
            "projects": [{"metadata": {"name": "shop"}, "spec": {"roles": [{"name": "ci", "groups": ["bots"]}]}}]}),
    )
}

#[test]
fn eval_301_answers_and_refusals() {
    let rbac =
        json!({"policy.csv": "p, kim, logs, get, shop/*, allow", "policy.default": "", "scopes": "teams"});
    let denied = enforce(&rbac, &json!({"sub": "kim", "iat": 0}), ["logs", "get", "web/ui"]);
    assert_eq!(
        denied,
        json!({"allowed": false, "code": "PermissionDenied",
            "message": "permission denied: logs, get, web/ui, sub: kim, iat: 1970-01-01T00:00:00Z"})
    );
    let nobody = enforce(&rbac, &Value::Null, ["logs", "get", "shop/ui"]);
    assert_eq!(nobody["message"], "permission denied: logs, get, shop/ui");
    let member = enforce(&rbac, &json!({"sub": "x", "teams": ["bots"]}), ["projects", "get", "shop"]);
    assert_eq!(member["allowed"], true);
    let member = enforce(&rbac, &json!({"sub": "x", "groups": ["bots"]}), ["projects", "get", "shop"]);
    assert_eq!(member["allowed"], false, "scopes name another claim");
}

#[test]
fn eval_21_a_policy_that_cannot_be_read_is_an_error() {
    let input =
        |rbac: Value| json!({"rbac": rbac, "claims": null, "request": {"resource": "logs", "action": "get"}});
    let (code, message) = fault("rbac.enforce", input(json!({"policy.team.csv": "# ok\np, kim"})));
    assert_eq!(code, "InvalidArgument");
    assert!(message.starts_with("policy.team.csv line 2: `p, kim`: a p line has 6 fields"), "{message}");
    assert_eq!(fault("rbac.can_i", input(json!({"scopes": "{}"}))).0, "InvalidArgument");
    assert_eq!(
        fault("rbac.enforce", json!({"request": {"resource": "logs", "action": "get"}})).0,
        "InvalidInput"
    );
}

#[test]
fn eval_302_questions_that_cannot_be_asked() {
    let ask = |resource: &str, action: &str, settings: Value| {
        json!({"rbac": {"policy.csv": "p, kim, applications, sync, shop/ui, allow"}, "claims": {"sub": "kim"},
            "settings": settings,
            "request": {"resource": resource, "action": action, "subresource": "shop/argocd/ui"}})
    };
    let (code, message) = fault("rbac.can_i", ask("pods", "eat", json!({})));
    assert_eq!(code, "InvalidArgument");
    assert_eq!(
        message,
        "[get create update delete sync rollback override action invoke] does not contain eat"
    );
    assert!(
        fault("rbac.can_i", ask("pods", "get", json!({})))
            .1
            .ends_with("exec extensions] does not contain pods")
    );
    let allowed =
        |settings| answer("rbac.can_i", ask("applications", "rollback", settings))["allowed"].clone();
    assert_eq!(allowed(json!({})), true, "API-107");
    assert_eq!(allowed(json!({"server.rbac.rollback.enforce.enable": true})), false);
}

#[test]
fn eval_303_inheritance_is_a_setting() {
    let ask = |operation: &str, settings: Value| {
        json!({"rbac": {"policy.csv": "p, kim, applications, update, shop/ui, allow"}, "claims": {"sub": "kim"},
            "settings": settings, "application": {"metadata": {"name": "ui"}, "spec": {"project": "shop"}},
            "operation": operation, "resource": {"kind": "Pod", "name": "p"}})
    };
    let inherit = json!({"server.rbac.disableApplicationFineGrainedRBACInheritance": "false"});
    assert_eq!(answer("rbac.resource_access", ask("update", json!({})))["allowed"], false);
    assert_eq!(answer("rbac.resource_access", ask("update", inherit.clone()))["allowed"], true);
    assert_eq!(answer("rbac.resource_access", ask("delete", inherit.clone()))["allowed"], false);
    assert_eq!(fault("rbac.resource_access", ask("patch", inherit)).0, "InvalidArgument");
}

#[test]
fn eval_304_names_of_objects() {
    let object = |input: Value| answer("rbac.object", input)["object"].clone();
    assert_eq!(object(json!({"type": "application", "app": "argocd/ui"})), "default/ui");
    assert_eq!(object(json!({"type": "cluster", "server": "https://eu"})), "https://eu");
    assert_eq!(
        object(json!({"type": "repository", "projectName": "shop", "repoURL": "https://r"})),
        "shop/https://r"
    );
    let set = json!({"metadata": {"name": "s"}, "spec": {"project": "red", "template": {"spec": {"project": "shop"}}}});
    assert_eq!(object(json!({"type": "applicationset", "applicationSet": set})), "red/s");
    assert_eq!(fault("rbac.object", json!({"type": "cluster"})).0, "InvalidInput");
    assert_eq!(fault("rbac.object", json!({"type": "pod"})).0, "InvalidArgument");
}

#[test]
fn eval_305_lines_and_warnings() {
    let review =
        answer("rbac.validate_policy", json!({"policy": "g, devs, role:dev\np, x, logs, get, *, allow"}));
    assert_eq!(
        review,
        json!({"valid": true, "line": null, "message": null,
            "warnings": ["user defined roles not found in policies: role:dev"]})
    );
    let input = json!({"policy": "p, x, logs, get, *, allow", "rbac": {"policy.matchMode": "regex"}});
    let review = answer("rbac.validate_policy", input);
    assert_eq!(
        review["warnings"],
        json!(["line 1: the object \"*\" does not compile as a pattern; the line never applies"])
    );
    assert_eq!(answer("rbac.validate_policy", json!({"policy": "p, a\ng, b"}))["line"], 1);
}
