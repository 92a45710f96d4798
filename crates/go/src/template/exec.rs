//! Executing templates.
//!
//! A machine with a stack of its own for operands, variables, ranges and templates: however deep templates execute
//! each other, the program's stack stays where it is. Every instruction costs a step.

mod context;
mod fields;
mod machine;
mod rounds;

pub(crate) use context::Context;

use super::environment::Environment;
use super::error::{ErrorKind, TemplateError};
use super::functions::Operand;
use super::limits::Limits;
use super::templates::Templates;
use super::value::Value;
use crate::live;
use machine::Machine;

/// Executes templates. One engine is one run: its limits are for all of it, and what templates set in their data
/// stays for those that come later.
pub struct Engine<'e> {
    templates: &'e Templates,
    context: Context<'e>,
}

impl<'e> Engine<'e> {
    /// A run over some templates.
    pub fn new(templates: &'e Templates, environment: &'e dyn Environment, limits: Limits) -> Self {
        Self { templates, context: Context::new(templates, environment, limits) }
    }

    /// Executes a template by its name.
    ///
    /// # Errors
    /// With Go's text; what was written until then is lost.
    pub fn execute(&mut self, name: &str, dot: &Value) -> Result<Vec<u8>, TemplateError> {
        let Some(body) = self.templates.get(name.as_bytes()) else {
            return Err(no_template(name.as_bytes(), self.templates));
        };
        self.context.nested.clear();
        let bound = self.context.budget.limits().live_bytes;
        live::within(bound, || {
            Machine::new(self.templates, &mut self.context).run(body, Operand::plain(dot.clone()))
        })
    }

    /// Steps that were taken so far.
    pub fn steps(&self) -> u64 {
        self.context.budget.steps_used()
    }
}

pub(super) fn no_template(name: &[u8], templates: &Templates) -> TemplateError {
    let (name, set) = (super::quote::quote(name), super::quote::quote(templates.name().as_bytes()));
    TemplateError::new(
        ErrorKind::NoTemplate,
        format!("template: no template {name} associated with template {set}"),
    )
}
