//! The compiled policy answers as the statements do, for policies and requests from seeds (STY-72).

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tiphys_api::AppProject;

use super::naive::{Lines, Matches, Role, Rule, World};
use crate::rbac::{MatchMode, Rbac, RbacConfig, Request};

const NAMES: &[&str] = &[
    "kim",
    "lee",
    "devs",
    "ops",
    "role:dev",
    "role:x",
    "role:admin",
    "role:readonly",
    "admin",
    "proj:shop:ci",
    "proj:web:ci",
    "proj:shop:dev",
    "proj:web:dev",
    "a, b",
    "",
];
const RESOURCES: &[&str] = &[
    "applications",
    "applications",
    "logs",
    "projects",
    "clusters",
    "accounts",
    "*",
    "app*",
    "{logs,exec}",
    "[",
    "",
    "application?",
    "^app",
    "(logs|exec)",
    "certificates",
    "pods",
];
const ACTIONS: &[&str] = &[
    "get",
    "get",
    "sync",
    "*",
    "update/*",
    "action/*",
    "delete",
    "up*",
    "{get,sync}",
    "^get$",
    "e",
    "[",
    "rollback",
    "",
    "g?t",
    "[a-z]*",
];
const OBJECTS: &[&str] = &[
    "*",
    "*/*",
    "shop/*",
    "shop/*",
    "shop/web",
    "shop/prod-*",
    "web/*/ui",
    "*prod*",
    "s?op/*",
    "{shop,web}/*",
    "[",
    "",
    "shop",
    "kim",
    "sh*/w*b",
    "shop/[a-p]*",
    "**",
    "web/**",
    "^shop/",
    "web$",
    r"shop/\*",
    "/",
    "sho*",
    "shop/*/*",
];
const EFFECTS: &[&str] = &["allow", "allow", "allow", "deny", "deny", "Allow"];
const ASKED_RESOURCES: &[&str] = &[
    "applications",
    "applications",
    "logs",
    "projects",
    "clusters",
    "accounts",
    "exec",
    "certificates",
    "pods",
];
const ASKED_ACTIONS: &[&str] = &[
    "get",
    "get",
    "sync",
    "update/apps/Deployment/ns/x",
    "update",
    "delete",
    "action//Pod/x",
    "rollback",
    "odd",
    "",
];
const ASKED_OBJECTS: &[&str] = &[
    "shop/web",
    "shop/web",
    "shop/prod-web",
    "shop/ns/prod",
    "web/ns/ui",
    "web",
    "shop",
    "shop/",
    "kim",
    "",
    "other/x",
    "shop/*",
    "/",
    "web/prod",
    "*/*",
];

fn rule(mode: MatchMode) -> impl Strategy<Value = Rule> {
    (select(NAMES), select(RESOURCES), select(ACTIONS), select(OBJECTS), select(EFFECTS)).prop_map(
        move |(name, resource, action, object, effect)| Rule {
            fields: [name, resource, action, object, effect].map(str::to_owned),
            mode,
        },
    )
}

fn lines(mode: MatchMode, rules: usize, links: usize) -> impl Strategy<Value = Lines> {
    let link = (select(NAMES), select(NAMES)).prop_map(|(member, role)| (member.to_owned(), role.to_owned()));
    (prop::collection::vec(rule(mode), 0..=rules), prop::collection::vec(link, 0..=links))
        .prop_map(|(rules, links)| Lines { rules, links })
}

fn roles(mode: MatchMode) -> impl Strategy<Value = Vec<Role>> {
    let role = (select(vec!["ci", "dev"]), lines(mode, 3, 1), prop::collection::vec(select(NAMES), 0..3))
        .prop_map(|(name, lines, groups)| Role {
            name: name.to_owned(),
            lines,
            groups: groups.into_iter().map(str::to_owned).collect(),
        });
    prop::collection::vec(role, 0..3)
}

fn world() -> impl Strategy<Value = World> {
    let mode = prop_oneof![3 => Just(MatchMode::Glob), 2 => Just(MatchMode::Regex)];
    mode.prop_flat_map(|mode| {
        // One in eight projects cannot be read.
        let project = || prop::option::weighted(0.8, prop::option::weighted(0.875, roles(mode)));
        let scopes = select(vec![vec!["groups"], vec!["groups", "teams"], vec![]]);
        (lines(mode, 14, 6), select(vec!["", "", "role:dev", "role:readonly"]), scopes, project(), project())
            .prop_map(move |(user, default_role, scopes, shop, web)| World {
                user,
                default_role: default_role.to_owned(),
                scopes: scopes.into_iter().map(str::to_owned).collect(),
                projects: [("shop", shop), ("web", web)]
                    .into_iter()
                    .filter_map(|(name, roles)| Some((name.to_owned(), roles?)))
                    .collect(),
                mode,
            })
    })
}

fn claims() -> impl Strategy<Value = Option<Value>> {
    let groups = prop_oneof![
        6 => prop::collection::vec(select(NAMES), 0..4).prop_map(|names| json!(names)),
        1 => select(NAMES).prop_map(|name| json!(name)),
        1 => Just(json!([7, "devs", null])),
        1 => Just(json!({"devs": true})),
    ];
    let federated =
        prop_oneof![6 => Just(Value::Null), 1 => Just(json!({"user_id": "lee"})), 1 => Just(json!("x"))];
    let some =
        (select(NAMES), groups, select(NAMES), federated).prop_map(|(sub, groups, team, federated)| {
            Some(json!({"sub": sub, "groups": groups, "teams": [team], "federated_claims": federated}))
        });
    prop_oneof![12 => some, 1 => Just(None), 1 => Just(Some(json!({})))]
}

/// A field as a policy spells it.
fn field(text: &str) -> String {
    if text.contains([',', ' ']) { format!("\"{text}\"") } else { text.to_owned() }
}

fn csv(lines: &Lines) -> Vec<String> {
    let rules = lines
        .rules
        .iter()
        .map(|rule| format!("p, {}", rule.fields.each_ref().map(|text| field(text)).join(", ")));
    let links = lines.links.iter().map(|(member, role)| format!("g,{},  {}", field(member), field(role)));
    // Links among the rules: order is irrelevant.
    let mut all: Vec<String> = links.chain(rules).collect();
    let half = all.len() / 2;
    all.rotate_left(half);
    all
}

fn compiled(world: &World) -> Rbac {
    let config = RbacConfig {
        policies: vec![("policy.csv".into(), csv(&world.user).join("\n"))],
        default_role: world.default_role.as_str().into(),
        match_mode: world.mode,
        scopes: world.scopes.iter().map(|scope| scope.as_str().into()).collect(),
        ..RbacConfig::default()
    };
    let projects: Vec<AppProject> = world
        .projects
        .iter()
        .map(|(name, roles)| {
            let roles: Vec<Value> = match roles {
                Some(roles) => roles
                    .iter()
                    .map(|role| {
                        let groups: Vec<String> = role.groups.iter().map(|group| field(group)).collect();
                        json!({"name": role.name, "policies": csv(&role.lines), "groups": groups})
                    })
                    .collect(),
                None => vec![json!({"name": "ci", "policies": ["p, kim, *, *, *, allow", "oops"]})],
            };
            super::project(name, &json!(roles))
        })
        .collect();
    Rbac::compile(&config).unwrap().with_projects(&projects)
}

fn requests(indices: &[[Index; 3]]) -> impl Iterator<Item = Request<'static>> {
    indices.iter().map(|[resource, action, object]| Request {
        resource: resource.get::<&str>(ASKED_RESOURCES),
        action: action.get::<&str>(ASKED_ACTIONS),
        object: object.get::<&str>(ASKED_OBJECTS),
    })
}

#[test]
fn sty_72_the_compiled_policy_answers_as_the_statements_do() {
    let mut matches = Matches::default();
    let (mut yes, mut no) = (0_u32, 0_u32);
    for seed in 0..2_u8 {
        // PROPTEST_CASES=10000 looks longer.
        let default = Config::default();
        let config = Config { cases: default.cases / 4, failure_persistence: None, ..default };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let index = || any::<Index>();
        let asked = prop::collection::vec([index(), index(), index()], 24);
        let callers = prop::collection::vec(claims(), 3);
        let cells = std::cell::RefCell::new((&mut matches, &mut yes, &mut no));
        let outcome = runner.run(&(world(), callers, asked), |(world, callers, asked)| {
            let rbac = compiled(&world);
            let mut cells = cells.borrow_mut();
            let (matches, yes, no) = &mut *cells;
            for who in callers {
                let caller = rbac.caller(who.as_ref().and_then(Value::as_object));
                for request in requests(&asked) {
                    let triple = (request.resource, request.action, request.object);
                    let expected = world.may(who.as_ref(), triple, matches);
                    prop_assert_eq!(caller.may(&request), expected, "{:?} {:?}", &request, &who);
                    let filter = caller.filter(request.resource, request.action);
                    for _again in 0..2 {
                        prop_assert_eq!(
                            filter.may(request.object),
                            expected,
                            "filter: {:?} {:?}",
                            &request,
                            &who
                        );
                    }
                    let count = if expected { &mut **yes } else { &mut **no };
                    *count += 1;
                }
            }
            Ok(())
        });
        outcome.unwrap();
    }
    assert!(yes > 500 && no > 500, "{yes} {no}: the policies are too much alike");
}
