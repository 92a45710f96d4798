//! B13: what an answer about rights costs, with 1,000 policy lines with globs, 200 projects of 5 roles each, and a user in
//! 20 groups. `cargo bench -p tiphys-policy --bench rbac`; prints the targets beside what it measures.

#![expect(clippy::print_stdout, reason = "a benchmark talks to its user")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tiphys_api::AppProject;
use tiphys_policy::rbac::{PolicyError, Rbac, RbacConfig, Request};

const TEAMS: usize = 100;
const LINES_PER_TEAM: usize = 10;
const PROJECTS: usize = 200;
const GROUPS: usize = 20;
const APPLICATIONS: usize = 10_000;
const ROUNDS: usize = 15;
/// Objects of one part of the work, a millisecond or less.
const PART: usize = 250;

/// A hundred teams with ten lines each: patterns on all three fields, some of them denials.
fn lines() -> String {
    let mut text = String::new();
    for team in 0..TEAMS {
        // A string takes every write.
        let _written = writeln!(text, "g, group-{team}, role:team-{team}");
        for line in 0..LINES_PER_TEAM {
            let project = (team * LINES_PER_TEAM + line) % PROJECTS;
            let (resource, action, object, effect) = match line % 5 {
                0 => ("applications", "*", format!("project-{project}/*"), "allow"),
                1 => ("applications", "get", format!("project-{project}/web-*"), "allow"),
                2 => ("app*", "action/*", format!("project-{project}/*/prod-?"), "allow"),
                3 => ("logs", "get", format!("*/team-{team}-*"), "allow"),
                _ => ("applications", "*", format!("*/*-secret-{team}"), "deny"),
            };
            let _written = writeln!(text, "p, role:team-{team}, {resource}, {action}, {object}, {effect}");
        }
    }
    text
}

fn project(number: usize) -> Result<AppProject, serde_json::Error> {
    let name = format!("project-{number}");
    let roles: Vec<Value> = (0..5)
        .map(|role| {
            let subject = format!("proj:{name}:role-{role}");
            let group = (number * 5 + role) % TEAMS;
            json!({
                "name": format!("role-{role}"),
                "groups": [format!("group-{group}")],
                "policies": [
                    format!("p, {subject}, applications, sync, {name}/web-{role}*, allow"),
                    format!("p, {subject}, applications, action/apps/*, {name}/*, allow"),
                    format!("p, {subject}, logs, get, {name}/*, allow"),
                ],
            })
        })
        .collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"roles": roles}}))
}

fn objects() -> Vec<String> {
    (0..APPLICATIONS)
        .map(|at| {
            let project = at % PROJECTS;
            match at % 3 {
                0 => format!("project-{project}/web-{at}"),
                1 => format!("project-{project}/api-{at}"),
                _ => format!("project-{project}/ns-{at}/batch-{at}"),
            }
        })
        .collect()
}

/// A mix of questions: one in four is about logs.
fn ask(at: usize, object: &str) -> Request<'_> {
    const ACTIONS: [&str; 3] = ["get", "sync", "action/apps/Deployment/restart"];
    if at.is_multiple_of(4) {
        return Request { resource: "logs", action: "get", object };
    }
    let action = ACTIONS.get((at + object.len()) % ACTIONS.len()).copied().unwrap_or_default();
    Request { resource: "applications", action, object }
}

/// The shortest of many rounds over each part of the work: others share the machine.
#[expect(clippy::disallowed_methods, reason = "this measures time")]
fn time(parts: usize, mut work: impl FnMut(usize) -> usize) -> (Duration, usize) {
    let (mut spent, mut result) = (Duration::ZERO, 0);
    for part in 0..parts {
        let mut best = (Duration::MAX, 0);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let found = black_box(work(part));
            best = best.min((start.elapsed(), found));
        }
        spent += best.0;
        result += best.1;
    }
    (spent, result)
}

fn rate(what: &str, target: &str, decisions: usize, (spent, allowed): (Duration, usize)) {
    let count = u32::try_from(decisions).unwrap_or(u32::MAX);
    let rate = f64::from(count) / spent.as_secs_f64();
    println!("{what:<44} {rate:>10.0} decisions/s   target {target:<12} ({allowed} of {decisions} allowed)");
}

fn config(mode: &str) -> Result<RbacConfig, PolicyError> {
    RbacConfig::read(&BTreeMap::from([
        ("policy.csv".to_owned(), lines()),
        ("policy.matchMode".to_owned(), mode.to_owned()),
    ]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let projects = (0..PROJECTS).map(project).collect::<Result<Vec<_>, _>>()?;
    let objects = objects();
    let groups = |first: usize| {
        let names: Vec<String> = (first..first + GROUPS).map(|at| format!("group-{at}")).collect();
        let mut claims = Map::new();
        claims.insert("iss".to_owned(), json!("https://idp.acme.test"));
        claims.insert("sub".to_owned(), json!("CgVhZG1pbhIFbG9jYWw"));
        claims.insert("groups".to_owned(), json!(names));
        claims
    };
    let member = groups(0);
    // Groups that no line is about.
    let stranger = groups(1_000);
    for mode in ["glob", "regex"] {
        let config = config(mode)?;
        let (spent, _) = time(1, |_| Rbac::compile(&config).map_or(0, |rbac| rbac.warnings().len()));
        let rbac = Rbac::compile(&config)?;
        let (with, _) = time(1, |_| rbac.clone().with_projects(&projects).warnings().len());
        println!("{mode}: {:.1} ms to compile the policy, {:.1} ms for the projects", ms(spent), ms(with));
        let rbac = rbac.with_projects(&projects);
        let parts: Vec<&[String]> = objects.chunks(PART).collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or_default().iter().enumerate();
        for (who, claims) in [("member of 20 groups", &member), ("stranger", &stranger)] {
            let cold = time(parts.len(), |at| {
                let may = |(at, object): &(usize, &String)| {
                    rbac.caller(Some(black_box(claims))).may(&ask(*at, object))
                };
                part(at).filter(may).count()
            });
            rate(&format!("{mode}, {who}, from the claims"), ">= 200000", APPLICATIONS, cold);
            let kept = time(parts.len(), |at| {
                let caller = rbac.caller(Some(black_box(claims)));
                part(at).filter(|(at, object)| caller.may(&ask(*at, object))).count()
            });
            rate(&format!("{mode}, {who}, caller kept"), ">= 200000", APPLICATIONS, kept);
            let (spent, allowed) = time(1, |_| {
                let caller = rbac.caller(Some(black_box(claims)));
                let filter = caller.filter("applications", "get");
                objects.iter().filter(|object| filter.may(object)).count()
            });
            println!(
                "{:<44} {:>10.2} ms             target <= 20 ms     ({allowed} of {APPLICATIONS} allowed)",
                format!("{mode}, {who}, filter"),
                ms(spent)
            );
        }
    }
    Ok(())
}

fn ms(spent: Duration) -> f64 {
    spent.as_secs_f64() * 1000.0
}
