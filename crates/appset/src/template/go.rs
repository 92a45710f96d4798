//! Go templates (ASET-103, ASET-104), on the engine of `tiphys-go`.

use std::collections::HashMap;
use std::rc::Rc;

use tiphys_go::template::{
    Engine, Environment, ErrorKind, Exceeded, FunctionSet, Integers, Limits, MissingKey, TemplateError,
    Templates, Value,
};

use super::{Missing, OUTPUT_BYTES_MAX, RenderError, functions};
use crate::params::Params;
use crate::work::Work;

/// Name of each template, as errors have it.
const NAME: &str = "base";
/// Compiled templates that are kept.
const COMPILED_MAX: usize = 4_096;
/// Bounds of one string: less than a second of work (ASET-122).
const LIMITS: Limits = Limits {
    steps: 20_000_000,
    made_bytes: 256 << 20,
    live_bytes: 48 << 20,
    text_bytes: OUTPUT_BYTES_MAX,
    nesting: 1_000,
};
/// Steps of compiling a byte of a template.
const COMPILED_STEPS: u64 = 2;

/// The parameters as templates see them.
pub struct Root(Value);

/// Compiles and executes the templates of one set.
pub struct GoTemplates<'e> {
    environment: &'e dyn Environment,
    work: &'e Work,
    functions: FunctionSet,
    missing_key: Result<MissingKey, String>,
    compiled: HashMap<(Missing, String), Rc<Templates>>,
}

impl<'e> GoTemplates<'e> {
    pub(super) fn new(options: &[String], environment: &'e dyn Environment, work: &'e Work) -> Self {
        let functions = FunctionSet::isolated().and(FunctionSet::of(functions::FUNCTIONS));
        // Deviation (ASET-104): an option that does not exist is an error of each template, not a crash.
        let read = |_: MissingKey, option: &String| {
            MissingKey::of_option(option).map_err(|error| format!("invalid option {option:?}: {error}"))
        };
        let missing_key = options.iter().try_fold(MissingKey::default(), read);
        Self { environment, work, functions, missing_key, compiled: HashMap::new() }
    }

    pub(super) fn root(params: &Params) -> Root {
        let params = serde_json::Value::Object(params.clone());
        Root(Value::from_json_with(&params, Integers::Kept))
    }

    pub(super) fn render(
        &mut self,
        text: &str,
        root: &Root,
        missing: Missing,
        field: &str,
    ) -> Result<String, RenderError> {
        let templates = self.compile(text, missing)?;
        let left = self.work.left();
        let mut engine =
            Engine::new(&templates, self.environment, Limits { steps: LIMITS.steps.min(left), ..LIMITS });
        let made = engine.execute(NAME, &root.0);
        let spent = self.work.spend(engine.steps());
        let made = made.map_err(|error| match error.kind() {
            ErrorKind::Limit(Exceeded::Steps(_)) if left < LIMITS.steps => {
                RenderError::bound(field, self.work.exceeded())
            }
            _ => failed(text, field, &error),
        })?;
        spent.map_err(|exceeded| RenderError::bound(field, exceeded))?;
        Ok(match String::from_utf8(made) {
            Ok(made) => made,
            // What is no text becomes one, as `encoding/json` makes one of it.
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    fn compile(&mut self, text: &str, missing: Missing) -> Result<Rc<Templates>, RenderError> {
        let key = (missing, text.to_owned());
        if let Some(compiled) = self.compiled.get(&key) {
            return Ok(Rc::clone(compiled));
        }
        let steps = COMPILED_STEPS.saturating_mul(text.len() as u64);
        self.work.spend(steps).map_err(|exceeded| RenderError::bound("", exceeded))?;
        let asked = self.missing_key.clone().map_err(RenderError::new)?;
        let missing_key = if missing == Missing::Error { MissingKey::Error } else { asked };
        let mut templates = Templates::new(NAME, self.functions.clone()).with_missing_key(missing_key);
        templates
            .parse(NAME, text.as_bytes().to_vec())
            .map_err(|error| RenderError::new(format!("failed to parse template {text}: {error}")))?;
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
        }
        let templates = Rc::new(templates);
        self.compiled.insert(key, Rc::clone(&templates));
        Ok(templates)
    }
}

fn failed(text: &str, field: &str, error: &TemplateError) -> RenderError {
    match error.kind() {
        ErrorKind::Limit(exceeded) => RenderError::bound(field, exceeded),
        ErrorKind::Cancelled => RenderError::bound(field, "the time is up"),
        _ => {
            let message = error.message();
            let is_missing_key =
                message.contains("map has no entry for key") || message.contains("can't evaluate field");
            RenderError { text: format!("failed to execute go template {text}: {error}"), is_missing_key }
        }
    }
}
