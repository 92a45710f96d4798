//! What a roll-out has come to, and in which order a deletion goes (CLI-606). Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_api::application::Metadata;
use tiphys_api::codes::SetConditionType;
use tiphys_api::printable;
use tiphys_appset::deletion::{Order, groups};
use tiphys_appset::rollout::{is_rolling, membership, steps_of};

use super::view::name_of;
use crate::app::summary::line;
use crate::table::Table;

/// The word of an Application that has arrived.
const HEALTHY: &str = "Healthy";

/// Steps and order of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stages {
    name: String,
    /// `RollingSync`, or `AllAtOnce`.
    strategy: &'static str,
    steps: Vec<Stage>,
    /// Applications in no step: the roll-out leaves them alone.
    unassigned: Vec<String>,
    /// What is wrong with the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
    deletion: Deletion,
}

/// One step of a roll-out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stage {
    step: usize,
    /// As it is written; nothing for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_update: Option<Value>,
    applications: Vec<Member>,
    /// What has to happen before this step is over; nothing when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
}

/// One Application of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Member {
    name: String,
    /// `Waiting`, `Pending`, `Progressing` or `Healthy`; empty where nothing is known yet.
    status: String,
    message: String,
}

/// In which order Applications go when the set is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    /// As it is written, `AllAtOnce` where nothing is.
    order: String,
    /// Why it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
    groups: Vec<Vec<String>>,
    /// Whether it is going on.
    is_deleting: bool,
    /// What it waits for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
}

impl Stages {
    /// The stages of a set whose live Applications have these metadata.
    pub(super) fn of(set: &ApplicationSet, live: &[Metadata]) -> Self {
        let strategy = set.spec.strategy.as_ref();
        let labelled = || live.iter().map(|metadata| (metadata.name.as_str(), &metadata.labels));
        let holding = |kind: SetConditionType| {
            let mut conditions = set.status.conditions.iter();
            let found = conditions.find(|condition| condition.r#type == kind && condition.status == "True");
            found.map(|condition| condition.message.clone())
        };
        let order = Order::of(strategy);
        let written = strategy.map_or("", |strategy| strategy.deletion_order.as_str());
        let deletion = Deletion {
            order: match &order {
                Ok(order) => order.name().to_owned(),
                Err(_) => written.to_owned(),
            },
            invalid: order.as_ref().err().map(ToString::to_string),
            // What is no order is none.
            groups: groups(&order.unwrap_or(Order::AllAtOnce), labelled())
                .into_iter()
                .map(|group| group.into_iter().map(str::to_owned).collect())
                .collect(),
            is_deleting: set.metadata.deletion_timestamp.is_some(),
            now: holding(SetConditionType::DeletionProgressing),
        };
        let mut stages = Self {
            name: name_of(set),
            strategy: "AllAtOnce",
            invalid: holding(SetConditionType::InvalidRolloutConfig),
            deletion,
            ..Self::default()
        };
        if is_rolling(strategy) {
            stages.strategy = "RollingSync";
            stages.roll(set, &labelled().collect::<Vec<_>>());
        }
        stages
    }

    /// Puts Applications into their steps: where the controller has, as it has, else by their labels.
    fn roll(&mut self, set: &ApplicationSet, labelled: &[(&str, &BTreeMap<String, String>)]) {
        let steps = steps_of(set.spec.strategy.as_ref());
        let members = membership(steps, labelled.iter().copied());
        let entries: BTreeMap<&str, _> =
            set.status.application_status.iter().map(|entry| (entry.application.as_str(), entry)).collect();
        let names = labelled.iter().map(|(name, _)| *name).chain(entries.keys().copied());
        let mut placed: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        for name in names {
            let step = match entries.get(name) {
                Some(entry) => entry.step.parse().ok(),
                None => members.step_of(name),
            };
            placed.insert(name, step);
        }
        for (step, number) in steps.iter().zip(1..) {
            let of_step = placed.iter().filter(|(_, step)| **step == Some(number));
            let applications = of_step.map(|(name, _)| Member {
                name: (*name).to_owned(),
                status: entries.get(name).map_or_else(String::new, |entry| entry.status.clone()),
                message: entries.get(name).map_or_else(String::new, |entry| entry.message.clone()),
            });
            let max_update = step.max_update.clone();
            let applications = applications.collect();
            self.steps.push(Stage { step: number, max_update, applications, waits_for: None });
        }
        let rest = placed.iter().filter(|(_, step)| step.is_none_or(|step| step == 0 || step > steps.len()));
        self.unassigned = rest.map(|(name, _)| (*name).to_owned()).collect();
        let mut first: Option<usize> = None;
        for stage in &mut self.steps {
            let open: Vec<String> = (stage.applications.iter())
                .filter(|member| member.status != HEALTHY)
                .map(|member| match member.status.as_str() {
                    "" => member.name.clone(),
                    status => format!("{} ({status})", member.name),
                })
                .collect();
            stage.waits_for = match (first, open.is_empty()) {
                (_, true) => None,
                (Some(before), false) => Some(format!("step {before}")),
                (None, false) => Some(open.join(", ")),
            };
            if !open.is_empty() && first.is_none() {
                first = Some(stage.step);
            }
        }
    }

    /// What people read.
    pub(super) fn print(&self) -> String {
        let mut out = String::new();
        line(&mut out, "Name:", &self.name);
        line(&mut out, "Strategy:", self.strategy);
        if let Some(invalid) = &self.invalid {
            line(&mut out, "Invalid:", invalid);
        }
        if !self.steps.is_empty() {
            out.push('\n');
            out.push_str(&self.table());
        }
        for stage in &self.steps {
            if let Some(waits_for) = &stage.waits_for {
                // Writing to a string cannot fail.
                let _written = writeln!(out, "step {} waits for {}", stage.step, printable::line(waits_for));
            }
        }
        out.push('\n');
        let deletion = &self.deletion;
        line(&mut out, "Deletion Order:", &deletion.order);
        if let Some(invalid) = &deletion.invalid {
            line(&mut out, "Invalid:", invalid);
        }
        for (group, number) in deletion.groups.iter().zip(1..) {
            line(&mut out, &format!("  {number}."), &group.join(", "));
        }
        if deletion.is_deleting {
            line(&mut out, "Deleting:", deletion.now.as_deref().unwrap_or("waiting for the controller"));
        }
        out
    }

    fn table(&self) -> String {
        let mut table = Table::new(&["STEP", "MAXUPDATE", "APPLICATION", "STATUS", "MESSAGE"]);
        for stage in &self.steps {
            let limit = match &stage.max_update {
                None | Some(Value::Null) => "<none>".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            let head = [stage.step.to_string(), limit];
            if stage.applications.is_empty() {
                let rest = ["<none>", "", ""].map(str::to_owned);
                table.row(head.iter().cloned().chain(rest).collect());
            }
            for member in &stage.applications {
                let rest = [member.name.clone(), member.status.clone(), member.message.clone()];
                table.row(head.iter().cloned().chain(rest).collect());
            }
        }
        for name in &self.unassigned {
            table.row(["-1", "", name, "", "in no step"].map(str::to_owned).to_vec());
        }
        table.print()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app(name: &str, tier: &str) -> Metadata {
        Metadata {
            name: name.to_owned(),
            labels: [("tier".to_owned(), tier.to_owned())].into(),
            ..Metadata::default()
        }
    }

    fn set(strategy: &Value, status: &Value) -> ApplicationSet {
        serde_json::from_value(json!({"metadata": {"name": "tiers", "namespace": "argocd"},
            "spec": {"generators": [], "template": {}, "strategy": strategy}, "status": status}))
        .unwrap()
    }

    fn rolling(order: &str) -> Value {
        let step =
            |tier: &str| json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": [tier]}]});
        let mut second = step("front");
        second["maxUpdate"] = json!("50%");
        json!({"type": "RollingSync", "rollingSync": {"steps": [step("db"), second]}, "deletionOrder": order})
    }

    #[test]
    fn cli_606_steps_and_order_of_a_roll_out() {
        let entry = |name: &str, step: &str, status: &str| json!({"application": name, "step": step, "status": status, "message": "m", "targetRevisions": []});
        let status =
            json!({"applicationStatus": [entry("db", "1", "Progressing"), entry("odd", "-1", "Waiting")]});
        let live = [app("db", "db"), app("web", "front"), app("odd", "x")];
        let stages = Stages::of(&set(&rolling("Reverse"), &status), &live);
        assert_eq!(
            stages.print(),
            "Name:               argocd/tiers\n\
             Strategy:           RollingSync\n\
             \n\
             STEP  MAXUPDATE  APPLICATION  STATUS       MESSAGE\n\
             1     <none>     db           Progressing  m\n\
             2     50%        web                       \n\
             -1               odd                       in no step\n\
             step 1 waits for db (Progressing)\n\
             step 2 waits for step 1\n\
             \n\
             Deletion Order:     Reverse\n\
             \x20 1.                web\n\
             \x20 2.                db\n\
             \x20 3.                odd\n"
        );
        let shown = serde_json::to_value(&stages).unwrap();
        assert_eq!(shown["steps"][1]["maxUpdate"], "50%");
        assert_eq!(shown["deletion"]["groups"], json!([["web"], ["db"], ["odd"]]));
        assert_eq!(shown["unassigned"], json!(["odd"]));
    }

    #[test]
    fn cli_606_a_deletion_names_its_group() {
        let condition = json!({"type": "DeletionProgressing", "status": "True", "reason": "x",
            "message": "deleting step 1 of 2: waiting for web"});
        let mut going = set(&rolling("Reverse"), &json!({"conditions": [condition]}));
        going.metadata.deletion_timestamp = Some("2026-08-01T10:00:00Z".to_owned());
        let text = Stages::of(&going, &[app("web", "front")]).print();
        assert!(text.ends_with("Deleting:           deleting step 1 of 2: waiting for web\n"), "{text}");
    }

    #[test]
    fn cli_606_without_steps_all_go_at_once() {
        let plain = Stages::of(&set(&Value::Null, &json!({})), &[app("b", "x"), app("a", "x")]);
        assert_eq!(
            plain.print(),
            "Name:               argocd/tiers\n\
             Strategy:           AllAtOnce\n\
             \n\
             Deletion Order:     AllAtOnce\n\
             \x20 1.                a, b\n"
        );
        let odd = Stages::of(&set(&json!({"deletionOrder": "Reverse"}), &json!({})), &[]);
        assert!(
            odd.print().contains("\nDeletion Order:     Reverse\nInvalid:            deletionOrder Reverse")
        );
    }
}
