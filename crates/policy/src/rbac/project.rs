//! What a project adds to the policy for requests about it (API-96).

use tiphys_api::AppProject;

use super::config::check_length;
use super::layer::{Layer, LayerBuilder};
use super::lines::{PolicyError, read};
use super::pattern::MatchMode;
use crate::project::runtime_policy;

/// The policy of a project; the base alone where it cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct ProjectPolicy {
    /// What is above the base; `None` when nothing is.
    pub(super) layer: Option<Layer>,
    /// Why the text was not taken.
    pub(super) problem: Option<PolicyError>,
}

impl ProjectPolicy {
    pub(super) fn compile(base: &Layer, project: &AppProject, mode: MatchMode) -> Self {
        if project.spec.roles.is_empty() {
            return Self::default();
        }
        let origin = project.name();
        let text = text(project);
        let mut builder = LayerBuilder::above(Some(base));
        let outcome = check_length(origin, text.len())
            .and_then(|()| builder.add_text(origin, &text, mode, |_, _, _| {}));
        match outcome {
            Ok(()) => Self { layer: Some(builder.build()), problem: None },
            Err(problem) => Self { layer: None, problem: Some(problem) },
        }
    }
}

/// The text of a project's policy: of each role the right to see the project, its own lines, then its groups (API-96).
fn text(project: &AppProject) -> String {
    let lines = project.spec.roles.iter().flat_map(|role| runtime_policy(project, role));
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// Whether the text of a project's policy can be read (API-112).
pub(crate) fn syntax(project: &AppProject) -> Result<(), PolicyError> {
    let text = text(project);
    check_length(project.name(), text.len())?;
    read(project.name(), &text).try_for_each(|line| line.map(drop))
}
