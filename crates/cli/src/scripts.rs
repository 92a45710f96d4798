//! Users' programs in commands: health scripts, actions and jq expressions of the settings and Applications (SEC-10).
//!
//! They run in children of the program, which are killed at the deadlines that hold in the controller. Commands that do
//! not run as the program (tests of this crate) run them in the process, in counted steps.

use std::sync::OnceLock;
use std::time::Duration;

use tiphys_api::Settings;
use tiphys_engine::scripts::Runner;

/// Makes a runner for an owner, whose programs are suspended together, with a deadline for each jq expression.
pub type Scripts = fn(owner: &str, jq_deadline: Duration) -> Runner;

static CHILDREN: OnceLock<Scripts> = OnceLock::new();

/// Sets how programs are run from now on.
pub(crate) fn install(scripts: Scripts) {
    // The first one stays: there is one program in a process.
    let _ = CHILDREN.set(scripts);
}

/// Runner of the programs of an application, or of a command.
pub(crate) fn runner(owner: &str, settings: &Settings) -> Runner {
    runner_within(owner, settings.controller().jq_timeout)
}

/// [`runner`], where the settings are not known.
pub(crate) fn runner_within(owner: &str, jq_deadline: Duration) -> Runner {
    CHILDREN.get().map_or_else(Runner::default, |scripts| scripts(owner, jq_deadline))
}
