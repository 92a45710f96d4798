//! What is wrong with the steps of a roll-out (ASET-215). It blocks nothing.

use tiphys_api::applicationset::RolloutStep;
use tiphys_api::codes::{SetConditionType, SetReason};

use super::limit::limit_of;
use super::steps::Membership;
use crate::status::Evaluated;
use crate::text::cut;

/// Bytes of a list of names.
const LIST_BYTES_MAX: usize = 4_000;

/// Whether an operator of a step exists.
pub fn is_operator(operator: &str) -> bool {
    matches!(operator, "In" | "NotIn")
}

/// The condition about the steps: the first thing that is wrong.
pub(super) fn condition(steps: &[RolloutStep], membership: &Membership) -> Evaluated {
    let problem = operators(steps)
        .or_else(|| overlap_text(membership, "steps"))
        .or_else(|| limits(steps))
        .or_else(|| empty_steps(steps, membership));
    let kind = SetConditionType::InvalidRolloutConfig;
    match problem {
        Some(problem) => Evaluated::yes(kind, SetReason::ApplicationSetInvalidRolloutConfig, problem),
        None => Evaluated::no(
            kind,
            SetReason::ApplicationSetValidRolloutConfig,
            "Rolling Sync Configured correctly",
        ),
    }
}

fn operators(steps: &[RolloutStep]) -> Option<String> {
    let mut numbers = Vec::new();
    let mut operators: Vec<&str> = Vec::new();
    for (step, number) in steps.iter().zip(1_usize..) {
        let invalid = step.match_expressions.iter().map(|expression| expression.operator.as_str());
        let invalid: Vec<&str> = invalid.filter(|operator| !is_operator(operator)).collect();
        if !invalid.is_empty() {
            numbers.push(number.to_string());
            operators.extend(invalid);
        }
    }
    let (word, verb) = match numbers.len() {
        0 => return None,
        1 => ("Step", "has"),
        _ => ("Steps", "have"),
    };
    let operators = cut(&operators.join(", "), LIST_BYTES_MAX);
    Some(format!(
        "{word} {} {verb} invalid matchExpression operators: {operators}. Supported Operators are 'In' and 'NotIn'",
        numbers.join(", ")
    ))
}

/// The text about Applications that several steps select; `None` when there are none.
pub fn overlap_text(membership: &Membership, of_what: &str) -> Option<String> {
    let overlaps: Vec<(&str, &[usize])> = membership.overlaps().collect();
    let dashed = |steps: &[usize]| {
        let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
        format!("({})", steps.join("-"))
    };
    match overlaps.as_slice() {
        [] => None,
        [(name, steps)] => {
            Some(format!("Application '{name}' is selected by multiple {of_what}: {}", dashed(steps)))
        }
        several => {
            let names: Vec<String> = several.iter().map(|(name, _)| format!("'{name}'")).collect();
            let steps: Vec<String> = several.iter().map(|(_, steps)| dashed(steps)).collect();
            Some(format!(
                "Applications {} are selected by multiple {of_what}: [{}]",
                cut(&names.join(", "), LIST_BYTES_MAX),
                cut(&steps.join(", "), LIST_BYTES_MAX)
            ))
        }
    }
}

fn limits(steps: &[RolloutStep]) -> Option<String> {
    let invalid: Vec<(usize, String)> = (steps.iter().zip(1..))
        .filter_map(|(step, number)| Some((number, limit_of(step.max_update.as_ref(), 1).err()?.text)))
        .collect();
    match invalid.as_slice() {
        [] => None,
        [(number, text)] => Some(format!("Step {number} has an invalid maxUpdate value: {text}")),
        several => {
            let numbers: Vec<String> = several.iter().map(|(number, _)| number.to_string()).collect();
            let texts: Vec<&str> = several.iter().map(|(_, text)| text.as_str()).collect();
            let texts = cut(&texts.join(", "), LIST_BYTES_MAX);
            Some(format!("Steps {} have invalid maxUpdate values: [{texts}]", numbers.join(", ")))
        }
    }
}

fn empty_steps(steps: &[RolloutStep], membership: &Membership) -> Option<String> {
    let empty = (1..=steps.len()).filter(|step| membership.members(*step).next().is_none());
    let empty: Vec<String> = empty.map(|step| step.to_string()).collect();
    (!empty.is_empty())
        .then(|| format!("Steps [{}] have no applications matching their criteria", empty.join(" ")))
}
