//! Which order a strategy asks for, and whether it is one (ASET-242, ASET-253, ASET-254).

use std::collections::BTreeMap;

use tiphys_api::applicationset::{ApplicationSetStrategy, RolloutStep};

use crate::events::Event;
use crate::rollout::{InvalidLimit, is_operator, is_rolling, limit_of, membership, overlap_text, steps_of};

/// In which order Applications go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order<'a> {
    /// All at once, by the garbage collector.
    AllAtOnce,
    /// The steps of the roll-out from the last to the first, one Application at a time.
    Reverse(&'a [RolloutStep]),
    /// The steps of `deletionSync` in order, some Applications at a time.
    Custom(&'a [RolloutStep]),
}

/// Why an order is none (ASET-253).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOrder {
    /// There are no steps to go back.
    #[error("deletionOrder Reverse requires strategy type RollingSync with at least one rollingSync step")]
    NoRollout,
    /// There are no steps to follow.
    #[error("deletionOrder Custom requires at least one deletionSync step")]
    NoSteps,
    /// There is no such order.
    #[error("deletionOrder {0:?} is none of AllAtOnce, Reverse, Custom")]
    Unknown(String),
    /// An operator does not exist.
    #[error(
        "deletionOrder Custom: step {step} of deletionSync has an invalid matchExpression operator {operator:?}: supported operators are 'In' and 'NotIn'"
    )]
    Operator {
        /// The step, from 1.
        step: usize,
        /// The operator.
        operator: String,
    },
    /// So many at once make no progress.
    #[error("deletionOrder Custom: step {step} of deletionSync has an invalid maxUpdate value {text}")]
    MaxUpdate {
        /// The step, from 1.
        step: usize,
        /// What is written.
        text: String,
    },
}

impl<'a> Order<'a> {
    /// The order of a strategy.
    ///
    /// # Errors
    /// When it asks for one that it does not describe.
    pub fn of(strategy: Option<&'a ApplicationSetStrategy>) -> Result<Self, InvalidOrder> {
        let Some(strategy) = strategy else { return Ok(Self::AllAtOnce) };
        match strategy.deletion_order.to_ascii_lowercase().as_str() {
            "" | "allatonce" => Ok(Self::AllAtOnce),
            "reverse" => match steps_of(Some(strategy)) {
                steps if is_rolling(Some(strategy)) && !steps.is_empty() => Ok(Self::Reverse(steps)),
                _ => Err(InvalidOrder::NoRollout),
            },
            "custom" => match strategy.deletion_sync.as_ref().map_or(&[][..], |sync| sync.steps.as_slice()) {
                [] => Err(InvalidOrder::NoSteps),
                steps => {
                    steps.iter().zip(1..).try_for_each(|(step, number)| check(step, number))?;
                    Ok(Self::Custom(steps))
                }
            },
            _ => Err(InvalidOrder::Unknown(strategy.deletion_order.clone())),
        }
    }

    /// The word of the spec.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllAtOnce => "AllAtOnce",
            Self::Reverse(_) => "Reverse",
            Self::Custom(_) => "Custom",
        }
    }

    /// Steps as they are written.
    pub(super) fn steps(&self) -> &'a [RolloutStep] {
        match self {
            Self::AllAtOnce => &[],
            Self::Reverse(steps) | Self::Custom(steps) => steps,
        }
    }

    /// When a step is its turn, from 0.
    pub(super) fn position(&self, step: usize) -> usize {
        match self {
            Self::Reverse(steps) => steps.len().saturating_sub(step + 1),
            Self::AllAtOnce | Self::Custom(_) => step,
        }
    }

    /// How many Applications of a step may be on their way out.
    pub(super) fn at_once(&self, position: usize, left: usize) -> usize {
        match self {
            Self::Custom(steps) if position < steps.len() => {
                let max_update = steps.get(position).and_then(|step| step.max_update.as_ref());
                // Without a number, and with one that is none, one after the other.
                limit_of(max_update, left).ok().flatten().unwrap_or(1).max(1)
            }
            Self::Reverse(steps) if position < steps.len() => 1,
            // Those in no step go together.
            _ => usize::MAX,
        }
    }
}

fn check(step: &RolloutStep, number: usize) -> Result<(), InvalidOrder> {
    let operators = step.match_expressions.iter().map(|expression| &expression.operator);
    if let Some(operator) = operators.into_iter().find(|operator| !is_operator(operator)) {
        return Err(InvalidOrder::Operator { step: number, operator: operator.clone() });
    }
    let written = || {
        step.max_update.as_ref().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let invalid = |text: String| InvalidOrder::MaxUpdate { step: number, text };
    // A share of a hundred is 0 only where the share itself is not above 0.
    match limit_of(step.max_update.as_ref(), 100) {
        Err(InvalidLimit { text }) => Err(invalid(text)),
        Ok(Some(0)) => Err(invalid(written().unwrap_or_default())),
        Ok(_) if written().is_some_and(|text| text.starts_with('-') || is_zero_percent(&text)) => {
            Err(invalid(written().unwrap_or_default()))
        }
        Ok(_) => Ok(()),
    }
}

fn is_zero_percent(text: &str) -> bool {
    text.strip_suffix('%').and_then(|percent| percent.parse::<i64>().ok()) == Some(0)
}

/// What about the deletion of a living set is odd without being wrong (ASET-254).
pub fn order_warnings<'l>(
    strategy: Option<&ApplicationSetStrategy>,
    applications: impl IntoIterator<Item = (&'l str, &'l BTreeMap<String, String>)>,
) -> Vec<Event> {
    let Some(strategy) = strategy else { return Vec::new() };
    let has_steps = strategy.deletion_sync.is_some();
    let steps = match Order::of(Some(strategy)) {
        Ok(Order::Custom(steps)) => steps,
        Ok(other) if has_steps => {
            let message = format!("deletionSync is ignored: deletionOrder is {}, not Custom", other.name());
            return vec![Event::warning("DeletionSyncIgnored", message)];
        }
        Ok(_) | Err(_) => return Vec::new(),
    };
    let membership = membership(steps, applications);
    let empty: Vec<String> = (1..=steps.len())
        .filter(|step| membership.members(*step).next().is_none())
        .map(|step| step.to_string())
        .collect();
    let empty = (!empty.is_empty()).then(|| {
        format!("deletionSync steps [{}] have no applications matching their criteria", empty.join(" "))
    });
    let problems: Vec<String> =
        [overlap_text(&membership, "deletionSync steps"), empty].into_iter().flatten().collect();
    if problems.is_empty() {
        return Vec::new();
    }
    vec![Event::warning("DeletionStepsWarning", problems.join("; "))]
}
