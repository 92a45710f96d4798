//! Both renderers of a source, side by side (RND-159).

use std::fmt;

use serde_json::Value;
use tiphys_helm::{Strictness, compare_objects};

use crate::needs::Outcome;
use crate::tools::Tool;
use crate::{Reason, RenderError};

/// Differences that are told of one source.
const SHOWN_MAX: usize = 5;

/// What this process makes of a source that a program rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same objects in the same order.
    Equal,
    /// Something else: where, without the values, which may be secret.
    Differs(Vec<String>),
    /// It could not be told within the budget of the rendering.
    Unknown(String),
}

/// A source that was rendered twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whose source it is.
    pub tool: Tool,
    /// How the two results relate.
    pub comparison: Comparison,
}

impl fmt::Display for Compared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = self.tool.as_str();
        match &self.comparison {
            Comparison::Equal => write!(out, "{tool} and the built-in renderer agree"),
            Comparison::Differs(places) => {
                write!(out, "{tool} and the built-in renderer differ: {}", places.join("; "))
            }
            Comparison::Unknown(why) => {
                write!(out, "{tool} and the built-in renderer were not compared: {why}")
            }
        }
    }
}

/// Objects of one source, and how its two renderers compare where both were asked.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) objects: Vec<Value>,
    pub(crate) compared: Option<Compared>,
}

impl From<Vec<Value>> for Made {
    fn from(objects: Vec<Value>) -> Self {
        Self { objects, compared: None }
    }
}

/// The objects of the program, which count, beside what this process makes of the source.
pub(crate) fn beside(
    tool: Tool,
    objects: Vec<Value>,
    native: Result<Outcome<Vec<Value>>, RenderError>,
) -> Outcome<Made> {
    let comparison = match native {
        Ok(Outcome::Needs(needs)) => return Outcome::Needs(needs),
        Ok(Outcome::Done(native)) => {
            let differences = compare_objects(&objects, &native, Strictness::Values);
            let places = differences.iter().take(SHOWN_MAX).map(|one| one.place().to_string()).collect();
            if differences.is_empty() { Comparison::Equal } else { Comparison::Differs(places) }
        }
        Err(error) if matches!(error.reason, Reason::MemoryExceeded | Reason::BudgetExceeded) => {
            Comparison::Unknown(error.reason.as_str().to_owned())
        }
        // Its text may quote the source.
        Err(error) => Comparison::Differs(vec![format!("refused here: {}", error.reason.as_str())]),
    };
    Outcome::Done(Made { objects, compared: Some(Compared { tool, comparison }) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::needs::Need;

    fn comparison(native: Result<Outcome<Vec<Value>>, RenderError>) -> Comparison {
        let object = json!({"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}});
        match beside(Tool::Helm, vec![object.clone()], native) {
            Outcome::Done(made) => {
                assert_eq!(made.objects, [object], "the program's objects count");
                made.compared.unwrap().comparison
            }
            Outcome::Needs(_) => panic!("nothing is lacking"),
        }
    }

    #[test]
    fn rnd_159_two_results_are_compared_and_no_value_is_told() {
        let secret = |value: &str| {
            let object = json!({"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": value}});
            Ok(Outcome::Done(vec![object]))
        };
        assert_eq!(comparison(secret("hidden")), Comparison::Equal);
        let Comparison::Differs(places) = comparison(secret("other")) else { panic!("they differ") };
        assert_eq!(places, ["Secret /s .stringData.key differs"]);
        assert_eq!(
            comparison(Ok(Outcome::Done(Vec::new()))),
            Comparison::Differs(vec!["Secret /s is missing".to_owned()])
        );
    }

    #[test]
    fn rnd_159_a_refusal_differs_and_an_exceeded_budget_says_nothing() {
        let refused = RenderError::new(Reason::HelmRender, "bad value \"hidden\"");
        let Comparison::Differs(places) = comparison(Err(refused)) else {
            panic!("a refusal is no equality")
        };
        assert!(places[0].starts_with("refused here: ") && !places[0].contains("hidden"), "{places:?}");
        let exceeded = RenderError::new(Reason::MemoryExceeded, "too much");
        assert!(matches!(comparison(Err(exceeded)), Comparison::Unknown(_)));
    }

    #[test]
    fn rnd_159_what_this_process_lacks_is_asked_for() {
        let need = Need::Resource { url: "https://h/base.yaml".to_owned() };
        let outcome = beside(Tool::Kustomize, Vec::new(), Ok(Outcome::Needs(vec![need.clone()])));
        assert!(matches!(outcome, Outcome::Needs(needs) if needs == [need]));
    }
}
