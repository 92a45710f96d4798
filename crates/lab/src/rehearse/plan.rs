//! What is known before anything happens: who belongs to which step, and how many go at once (CLI-1063).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_api::applicationset::RolloutStep;
use tiphys_appset::deletion::Order;
use tiphys_appset::rollout::{Membership, is_rolling, limit_of, membership, steps_of};

use super::content::name;

/// Labels of applications by name.
fn labels(apps: &[Value]) -> BTreeMap<&str, BTreeMap<String, String>> {
    let of = |app: &Value| -> BTreeMap<String, String> {
        let labels = app.pointer("/metadata/labels").and_then(Value::as_object);
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        labels.into_iter().flatten().filter_map(text).collect()
    };
    apps.iter().map(|app| (name(app), of(app))).collect()
}

/// The steps of the roll-out with their members.
pub(super) fn rollout(set: &ApplicationSet, apps: &[Value]) -> String {
    let strategy = set.spec.strategy.as_ref();
    let mut text = format!("ApplicationSet {}: {}", set.metadata.name, count(apps.len(), "application"));
    if !is_rolling(strategy) {
        text.push_str(", no RollingSync: each syncs by itself\n");
        return text;
    }
    let steps = steps_of(strategy);
    let _written = writeln!(text, " in {}", count(steps.len(), "step"));
    let labels = labels(apps);
    let members = membership(steps, labels.iter().map(|(name, labels)| (*name, labels)));
    let limit = |step: &RolloutStep, total: usize| match (
        &step.max_update,
        limit_of(step.max_update.as_ref(), total),
    ) {
        (None, _) => "all at once".to_owned(),
        (Some(written), Ok(Some(0))) => {
            format!("maxUpdate {}: nobody, syncs are asked for by hand", plain(written))
        }
        (Some(written), Ok(limit)) => {
            format!("maxUpdate {} of {total}: {} at a time", plain(written), limit.unwrap_or(total))
        }
        (Some(written), Err(_)) => format!("maxUpdate {} is no number: 1 at a time", plain(written)),
    };
    table(&mut text, steps, &members, apps, limit, "no step, never synced by the set");
    text
}

/// The order of the deletion.
pub(super) fn deletion(set: &ApplicationSet, apps: &[Value]) -> String {
    let order = match Order::of(set.spec.strategy.as_ref()) {
        Ok(order) => order,
        Err(invalid) => return format!("{invalid}; all go at once\n"),
    };
    let labels = labels(apps);
    let labelled = || labels.iter().map(|(name, labels)| (*name, labels));
    let mut text = format!("Deletion, deletionOrder {}\n", order.name());
    match order {
        Order::AllAtOnce => {}
        Order::Reverse(steps) => {
            text = format!("{}, one application after the other, the last step first\n", text.trim_end());
            table(
                &mut text,
                steps,
                &membership(steps, labelled()),
                apps,
                |_, _| "1 at a time".to_owned(),
                "no step, at last",
            );
        }
        Order::Custom(steps) => {
            let limit = |step: &RolloutStep, total: usize| {
                let limit = limit_of(step.max_update.as_ref(), total).ok().flatten().unwrap_or(1).max(1);
                format!("{limit} at a time")
            };
            table(&mut text, steps, &membership(steps, labelled()), apps, limit, "no step, at last");
        }
    }
    text
}

fn table(
    text: &mut String,
    steps: &[RolloutStep],
    members: &Membership,
    apps: &[Value],
    limit: impl Fn(&RolloutStep, usize) -> String,
    rest: &str,
) {
    for (step, number) in steps.iter().zip(1..) {
        let names: Vec<&str> = members.members(number).collect();
        let conditions: Vec<String> = step
            .match_expressions
            .iter()
            .map(|expression| {
                format!("{} {} [{}]", expression.key, expression.operator, expression.values.join(", "))
            })
            .collect();
        let conditions =
            if conditions.is_empty() { "every application".to_owned() } else { conditions.join(", ") };
        let names_text = if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
        let _written =
            writeln!(text, "  step {number}  {conditions}: {names_text} ({})", limit(step, names.len()));
    }
    let mut others: Vec<&str> =
        apps.iter().map(name).filter(|name| members.step_of(name).is_none()).collect();
    others.sort_unstable();
    if !others.is_empty() {
        let _written = writeln!(text, "  {rest}: {}", others.join(", "));
    }
}

pub(super) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
