//! From a set to its Applications: generators run, templates are rendered (ASET sections 3 and 4).
//!
//! [`generate`] is a pure function of the set and of what [`Facts`] answers. Where an answer is not there yet it goes
//! on to find out what else it has to ask, and ends as [`Stop::Pending`]. Any failure ends as [`Stop::Failed`]: then no
//! Application is created, changed or deleted (ASET-11, INV-8).

mod application;
mod clusters;
mod combine;
mod decision;
mod git;
mod list;
mod plugin;
mod provider;
mod visible;
mod volatile;

use std::time::Duration;

use serde_json::{Map, Value};
use tiphys_api::codes::SetReason;
use tiphys_api::settings::{ApplicationSets, ProjectMatching, UnknownGenerators};
use tiphys_api::{Application, ApplicationSet};
use tiphys_go::live;
use tiphys_go::memory::{Exceeded, Memory};
use tiphys_go::template::Environment;

use crate::facts::{Access, Facts, NoAnswer};
use crate::generator::{self, Generator, Kind, Level};
use crate::params::{self, Params, ParamsError};
use crate::references::{self, Reference};
use crate::scope::{Scope, ScopeError, namespace_of};
use crate::selector::{PostSelector, SelectorError};
use crate::template::{Language, RenderError, Templates};
use crate::work::{TooMuchWork, Work};

pub use decision::{DecisionConfig, DecisionError, decisions_of};
pub use git::{GitError, find_directories, find_files};
pub use plugin::{
    PLUGIN_PATH, PLUGIN_USER_AGENT, PluginConfig, PluginError, TokenReference, plugin_body,
    plugin_parameters, plugin_url,
};
pub(crate) use provider::providers_of;
pub use provider::{PullRequest, Repository};

/// Sets of parameters that one generator may come to.
pub const SETS_MAX: usize = 100_000;
/// Sets of parameters that all generators of a set may make together, on all levels.
pub const SETS_MADE_MAX: usize = 500_000;
/// Memory that parameters and Applications of one set may take.
pub const MEMORY_MAX: usize = 512 << 20;
/// Failures that are named beside the first one.
const FAILURES_NAMED_MAX: usize = 20;

/// What is generated, and with what.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The set.
    pub set: &'a ApplicationSet,
    /// Settings of the controller.
    pub settings: &'a ApplicationSets,
    /// How lists of projects are read.
    pub matching: ProjectMatching,
    /// Namespace Tiphys runs in.
    pub control_plane_namespace: &'a str,
    /// Whether revisions are resolved freshly: the set asks for a refresh (ASET-51).
    pub fresh: bool,
    /// What templates ask the world.
    pub environment: &'a dyn Environment,
    /// What the reconcile may still do.
    pub work: &'a Work,
}

/// What a set comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// Applications in the order of the generators, not validated.
    pub applications: Vec<Application>,
    /// What is odd without being wrong.
    pub warnings: Vec<String>,
}

/// Why nothing is generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Reason of the conditions.
    pub reason: SetReason,
    /// The first error.
    pub message: String,
    /// Further errors, for the log.
    pub others: Vec<String>,
}

impl Failure {
    /// A failure with one error.
    pub fn new(reason: SetReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), others: Vec::new() }
    }
}

/// Why a generation ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Questions are open; it has to be run again when they are answered.
    Pending,
    /// It failed.
    Failed(Failure),
}

/// Why a generator gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GenerateError {
    #[error("an answer is awaited")]
    Pending,
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Params(#[from] ParamsError),
    #[error("a generator comes to more than {SETS_MAX} sets of parameters")]
    TooManySets,
    #[error("the generators make more than {SETS_MADE_MAX} sets of parameters")]
    TooManySetsMade,
    #[error(transparent)]
    TooMuchWork(#[from] TooMuchWork),
    #[error(
        "generating the set holds more than {0} bytes of memory; the setting \
         applicationsetcontroller.generation.memory.mb raises the bound"
    )]
    Held(usize),
}

impl GenerateError {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }
}

impl From<NoAnswer> for GenerateError {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Pending => Self::Pending,
            NoAnswer::Failed(reason) => Self::Failed(reason),
        }
    }
}

impl From<Exceeded> for GenerateError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Params(exceeded.into())
    }
}

/// Runs the generators of a set and renders its template with what they give.
///
/// # Errors
/// When questions are open, or something failed; all generators run either way, so that all questions and errors are
/// found at once.
pub fn generate(request: &Request<'_>, facts: &dyn Facts) -> Result<Generated, Stop> {
    let mut run = Run::begin(request, facts)?;
    let mut found = Found::default();
    let unknown = run.unknown(&mut found);
    let template = &request.set.spec.template;
    for entry in &request.set.spec.generators {
        for (generator, outcome) in run.entry(entry) {
            match outcome {
                Ok(sets) => {
                    let own = generator.block.get("template").and_then(Value::as_object);
                    let merged = own.map(|own| application::merged_template(own, template));
                    run.render(&sets, merged.as_ref().unwrap_or(template), &mut found);
                }
                Err(error) => found.fail(SetReason::ApplicationGenerationFromParamsError, error),
            }
        }
    }
    found.generated.warnings.extend(volatile::warning(request.set));
    found.end(unknown)
}

/// Runs the generators of a set and gives their sets of parameters, selectors applied, without looking at the template
/// (ASET-304).
///
/// # Errors
/// As [`generate`].
pub fn parameters(request: &Request<'_>, facts: &dyn Facts) -> Result<Vec<Params>, Stop> {
    let mut run = Run::begin(request, facts)?;
    let mut found = Found::default();
    let unknown = run.unknown(&mut found);
    let mut all = Vec::new();
    for entry in &request.set.spec.generators {
        for (_, outcome) in run.entry(entry) {
            match outcome {
                Ok(sets) => all.extend(sets),
                Err(error) => found.fail(SetReason::ApplicationGenerationFromParamsError, error),
            }
        }
    }
    found.end(unknown)?;
    Ok(all)
}

/// The second entry of a matrix with each set of the first filled in, for whoever looks into it (ASET-186).
///
/// # Errors
/// As [`generate`].
pub(crate) fn interpolations(
    request: &Request<'_>,
    facts: &dyn Facts,
    first: &Map<String, Value>,
    second: &Map<String, Value>,
    level: Level,
) -> Result<Vec<Map<String, Value>>, Stop> {
    let mut run = Run::begin(request, facts)?;
    combine::interpolations(&mut run, first, second, level).map_err(|error| match error {
        GenerateError::Pending => Stop::Pending,
        other => {
            let reason = SetReason::ApplicationGenerationFromParamsError;
            Stop::Failed(Failure::new(reason, other.to_string()))
        }
    })
}

/// When a set is looked at again (ASET-27).
pub fn requeue_after(request: &Request<'_>) -> Option<Duration> {
    generator::requeue_after(request.set, request.settings)
}

/// Refuses references that are refused whatever the objects are, before anybody is asked.
fn unread_refusal(access: &Access, references: &[Reference]) -> Result<(), GenerateError> {
    let refusal =
        references.iter().find_map(|reference| access.refusal(reference, references::Found::Unread));
    refusal.map_or(Ok(()), |refusal| Err(GenerateError::Failed(refusal)))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    generated: Generated,
    is_pending: bool,
    failure: Option<Failure>,
}

impl Found {
    fn fail(&mut self, reason: SetReason, error: impl Into<GenerateError>) {
        let error = error.into();
        if error == GenerateError::Pending {
            self.is_pending = true;
            return;
        }
        match &mut self.failure {
            None => self.failure = Some(Failure::new(reason, error.to_string())),
            Some(first) if first.others.len() < FAILURES_NAMED_MAX => first.others.push(error.to_string()),
            Some(_) => {}
        }
    }

    fn end(self, unknown: Option<String>) -> Result<Generated, Stop> {
        match self.failure {
            // A failure does not wait for answers that cannot mend it.
            Some(failure) => Err(Stop::Failed(failure)),
            None if self.is_pending => Err(Stop::Pending),
            None => {
                let mut generated = self.generated;
                generated.warnings.extend(unknown);
                Ok(generated)
            }
        }
    }
}

/// One run over the generators of a set.
pub(crate) struct Run<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) facts: &'a dyn Facts,
    pub(crate) scope: Scope,
    pub(crate) language: Language,
    pub(crate) templates: Templates<'a>,
    memory: Memory,
    sets_left: usize,
}

impl<'a> Run<'a> {
    fn begin(request: &'a Request<'a>, facts: &'a dyn Facts) -> Result<Self, Stop> {
        if let Some(refusal) = &request.settings.refusal {
            return Err(Stop::Failed(Failure::new(SetReason::ErrorOccurred, refusal.clone())));
        }
        let scope = Scope::of(request.set, request.settings, request.control_plane_namespace, facts);
        let scope = scope.map_err(|error| match error {
            ScopeError::Pending => Stop::Pending,
            ScopeError::Refused(failure) => Stop::Failed(failure),
        })?;
        let language = Language::of(request.set);
        Ok(Self {
            templates: Templates::new(&language, request.environment, request.work),
            request,
            facts,
            scope,
            language,
            memory: Memory::new(MEMORY_MAX),
            sets_left: SETS_MADE_MAX,
        })
    }

    /// Secrets and `ConfigMaps` that a generator names.
    fn references(&self, kind: Kind, block: &Map<String, Value>) -> Vec<Reference> {
        let control_plane = self.request.control_plane_namespace;
        let namespaces =
            references::Namespaces { set: namespace_of(self.request.set, control_plane), control_plane };
        references::references_of(kind, block, &namespaces)
    }

    /// Generators that are not known: a warning, or where the settings say so an error (ASET-12).
    fn unknown(&self, found: &mut Found) -> Option<String> {
        let text = generator::unrecognized(self.request.set)?;
        if self.request.settings.unknown_generators == UnknownGenerators::Error {
            found.fail(SetReason::ApplicationGenerationFromParamsError, GenerateError::Failed(text.clone()));
        }
        Some(text)
    }

    /// The sets of each generator of an entry of the set.
    fn entry<'e>(
        &mut self,
        entry: &'e Map<String, Value>,
    ) -> Vec<(Generator<'e>, Result<Vec<Params>, GenerateError>)> {
        let selector = PostSelector::of_entry(entry);
        let mut outcomes = Vec::new();
        for generator in generator::generators_of(entry, Level::Top) {
            let sets = match &selector {
                Ok(selector) => {
                    self.generator(generator, Level::Top).and_then(|sets| self.select(sets, selector))
                }
                Err(error) => Err(error.clone().into()),
            };
            outcomes.push((generator, sets));
        }
        outcomes
    }

    /// The sets of the one generator of an entry inside a combination (ASET-73).
    pub(crate) fn child(
        &mut self,
        entry: &Map<String, Value>,
        level: Level,
    ) -> Result<Vec<Params>, GenerateError> {
        let selector = PostSelector::of_entry(entry)?;
        let mut generators = generator::generators_of(entry, level);
        let Some(first) = generators.next() else {
            return Err(GenerateError::failed("child generator generated no parameters"));
        };
        if generators.next().is_some() {
            return Err(GenerateError::failed("found more than one generator in matrix.Generators"));
        }
        let sets = self.generator(first, level)?;
        self.select(sets, &selector)
    }

    fn generator(&mut self, generator: Generator<'_>, level: Level) -> Result<Vec<Params>, GenerateError> {
        let block = generator.block;
        let sets = match generator.kind {
            Kind::List => list::generate(self, block),
            Kind::Clusters => clusters::generate(self, block),
            Kind::Git => git::generate(self, block),
            Kind::ScmProvider | Kind::PullRequest => provider::generate(self, generator.kind, block),
            Kind::ClusterDecisionResource => decision::generate(self, block),
            Kind::Matrix => combine::matrix(self, generator, level),
            Kind::Merge => combine::merge(self, generator, level),
            Kind::Plugin => plugin::generate(self, block),
        }?;
        if sets.len() > SETS_MAX {
            return Err(GenerateError::TooManySets);
        }
        Ok(sets)
    }

    fn select(&mut self, sets: Vec<Params>, selector: &PostSelector) -> Result<Vec<Params>, GenerateError> {
        if selector.is_everything() {
            return Ok(sets);
        }
        let mut selected = Vec::new();
        for set in sets {
            // What is looked at is thrown away again.
            let mut memory = self.memory;
            let flat = params::flatten(&set, &mut memory)?;
            self.request.work.spend(steps_of(memory.used().saturating_sub(self.memory.used())))?;
            if selector.matches(&flat) {
                selected.push(set);
            }
        }
        Ok(selected)
    }

    /// Takes a set that was made into the books.
    pub(crate) fn made(&mut self, set: Params, sets: &mut Vec<Params>) -> Result<(), GenerateError> {
        if sets.len() >= SETS_MAX {
            return Err(GenerateError::TooManySets);
        }
        self.sets_left = self.sets_left.checked_sub(1).ok_or(GenerateError::TooManySetsMade)?;
        self.charged(|memory| Ok(params::charge(&set, memory)?))?;
        sets.push(set);
        Ok(())
    }

    /// Takes memory, and pays for the work of filling it.
    fn charged<T>(
        &mut self,
        take: impl FnOnce(&mut Memory) -> Result<T, GenerateError>,
    ) -> Result<T, GenerateError> {
        let before = self.memory.used();
        let taken = take(&mut self.memory)?;
        live::check().map_err(|exceeded| GenerateError::Held(exceeded.bound))?;
        let bytes = self.memory.used().saturating_sub(before);
        self.request.work.spend(steps_of(bytes))?;
        Ok(taken)
    }

    /// The leaves of nested values, in fast mode; the values themselves in go mode.
    pub(crate) fn in_language(&self, set: Params) -> Result<Params, GenerateError> {
        if self.language.is_go() {
            return Ok(set);
        }
        let mut memory = self.memory;
        Ok(params::flat(&set, &mut memory)?)
    }

    /// Adds the `values` of a block, rendered with what is known (ASET-24).
    pub(crate) fn add_values(
        &mut self,
        block: &Map<String, Value>,
        set: &mut Params,
    ) -> Result<(), GenerateError> {
        let Some(values) = values_of(block)? else { return Ok(()) };
        let mut rendered = Vec::with_capacity(values.len());
        let mut rendering = self.templates.with(set);
        for (key, text) in values {
            rendered.push((key.clone(), rendering.text(text, key)?));
        }
        drop(rendering);
        put_values(rendered, set, self.language.is_go());
        Ok(())
    }

    fn render(&mut self, sets: &[Params], template: &Map<String, Value>, found: &mut Found) {
        for set in sets {
            let parts = application::Parts {
                set: self.request.set,
                namespace: namespace_of(self.request.set, self.request.control_plane_namespace),
                template,
                params: set,
            };
            let before = self.memory.used();
            let made = application::render(&mut self.templates, &parts, &mut self.memory);
            let bytes = self.memory.used().saturating_sub(before);
            let paid = self.request.work.spend(steps_of(bytes)).map_err(GenerateError::from);
            let held = live::check().map_err(|exceeded| GenerateError::Held(exceeded.bound));
            match made.and_then(|made| paid.and(held).map(|()| made)) {
                Ok(made) => found.generated.applications.push(made),
                Err(error) => {
                    found.fail(SetReason::RenderTemplateParamsError, error);
                    let others = found.failure.as_ref().map_or(0, |failure| failure.others.len());
                    if others >= FAILURES_NAMED_MAX {
                        return;
                    }
                }
            }
        }
    }
}

/// Steps of making what takes so many bytes: two or three nanoseconds for each.
fn steps_of(bytes: usize) -> u64 {
    (bytes / 16) as u64
}

/// The texts under `values`; `None` when there are none.
pub(crate) fn values_of(block: &Map<String, Value>) -> Result<Option<Vec<(&String, &str)>>, GenerateError> {
    let values = match block.get("values") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(values)) if values.is_empty() => return Ok(None),
        Some(Value::Object(values)) => values,
        Some(_) => return Err(GenerateError::failed("values is no map of texts")),
    };
    let text = |(key, value): (&'_ String, &'_ Value)| -> Result<(), GenerateError> {
        if value.is_string() {
            Ok(())
        } else {
            Err(GenerateError::failed(format!("the value {key:?} is no text")))
        }
    };
    values.iter().try_for_each(text)?;
    Ok(Some(values.iter().filter_map(|(key, value)| Some((key, value.as_str()?))).collect()))
}

/// Puts values where the language has them.
pub(crate) fn put_values(values: Vec<(String, String)>, set: &mut Params, is_go: bool) {
    if is_go {
        let values = values.into_iter().map(|(key, text)| (key, Value::String(text))).collect();
        set.insert("values".to_owned(), Value::Object(values));
    } else {
        set.extend(values.into_iter().map(|(key, text)| (format!("values.{key}"), Value::String(text))));
    }
}

#[cfg(test)]
mod tests;
