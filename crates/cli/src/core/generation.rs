//! What sets generate, asked inside this process in the way the controller asks (CLI-603, ASET-302).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiphys_api::{Application, ApplicationSet};
use tiphys_appset::compare::ignore_rules;
use tiphys_appset::facts::Facts;
use tiphys_appset::generate::{Failure as Generation, Generated, Request, Stop, generate, parameters};
use tiphys_appset::live::LiveApplication;
use tiphys_appset::params;
use tiphys_appset::reconcile::{self, PassFacts, Plan};
use tiphys_appset::validate::{self, Validation};
use tiphys_generation::services::Services;
use tiphys_generation::{Answerer, FromHome, Inputs, Outside, Remembered, Subject};
use tiphys_source::Compute;
use tokio_util::sync::CancellationToken;

use super::{Core, Kubernetes, Origins, World};
use crate::failure::Failure;
use crate::scripts;
use crate::terminal::Terminal;

/// Generates; made once per command, so that repositories are read once.
pub(crate) struct Generator {
    answerer: Answerer,
    world: Arc<World>,
    now: jiff::Timestamp,
    _origins: Origins,
}

/// What a set comes to.
pub(crate) struct Outcome {
    inputs: Arc<Inputs>,
    generated: Result<Generated, Generation>,
    /// Generated Applications in generator order, with the project of a scoped set.
    pub(crate) applications: Vec<Application>,
    /// What keeps some of them from being written.
    pub(crate) validation: Validation,
    /// What is odd.
    pub(crate) warnings: Vec<String>,
}

impl Core {
    /// Whoever generates with what this person may read.
    pub(crate) fn generator(&self, world: &Arc<World>, terminal: &Terminal) -> Result<Generator, Failure> {
        let origins = Origins::open(world, terminal)?;
        let Kubernetes { connection, discovery, writer } = self.kubernetes()?;
        let answerer = Answerer::new(Outside {
            services: Services::of_network(),
            objects: Arc::new(FromHome(writer.clone())),
            observer: None,
            environment: Arc::new(terminal.env.clone()),
            sources: origins.sources.clone(),
            namespace: self.namespace.clone(),
            compute: Compute::threads(),
            connection: connection.clone(),
            discovery: discovery.clone(),
            jitter: Arc::new(|| 0.5),
            cancel: CancellationToken::new(),
        });
        Ok(Generator { answerer, world: Arc::clone(world), now: terminal.now(), _origins: origins })
    }
}

impl Generator {
    /// Runs the generators, renders the template and validates what comes of it.
    pub(crate) async fn generate(&self, set: &ApplicationSet) -> Result<Outcome, Failure> {
        let inputs = self.inputs(set);
        let generated = inputs.converse(&self.answerer, generate).await.map_err(|error| failed(&error))?;
        let shown = generated.applications.clone();
        let check = move |request: &Request<'_>, facts: &dyn Facts| -> Result<_, Stop> {
            let mut applications = shown.clone();
            let validation = validate::check(request, &mut applications, facts)?;
            Ok((applications, validation))
        };
        let checked = inputs.converse(&self.answerer, check).await;
        let (applications, validation) = checked.map_err(|error| failed(&error))?;
        let warnings = generated.warnings.clone();
        Ok(Outcome { inputs, generated: Ok(generated), applications, validation, warnings })
    }

    /// The sets of parameters that the generators of a set give, whatever its template says (ASET-304).
    pub(crate) async fn parameters(&self, set: &ApplicationSet) -> Result<Vec<Value>, Failure> {
        let found = self.inputs(set).converse(&self.answerer, parameters).await;
        let found = found.map_err(|error| failed(&error))?;
        Ok(found.into_iter().map(|set| params::for_json(Value::Object(set))).collect())
    }

    fn inputs(&self, set: &ApplicationSet) -> Arc<Inputs> {
        Arc::new(Inputs::new(Subject {
            set: Arc::new(set.clone()),
            world: Arc::<World>::clone(&self.world),
            settings: self.world.settings.application_sets().clone(),
            fresh: true,
            now: self.now,
            chance: Arc::new(|bytes: &mut [u8]| {
                // Without chance a template shows zeros, which nobody uses: nothing is stored from here.
                let _drawn = aws_lc_rs::rand::fill(bytes);
            }),
            remembered: Remembered::default(),
        }))
    }
}

impl Outcome {
    /// What a pass of the controller would do where these Applications live.
    pub(crate) fn plan(
        &self,
        live: &BTreeMap<String, LiveApplication>,
        now: jiff::Timestamp,
    ) -> Result<Plan, Failure> {
        self.inputs.with_request(|request| plan(request, &self.inputs.ledger, &self.generated, live, now))
    }
}

/// Time of one jq expression on one Application, as the controller has it by default.
const JQ_DEADLINE: Duration = Duration::from_secs(1);

/// What a pass of the controller would do about a generation where these Applications live.
pub(crate) fn plan(
    request: &Request<'_>,
    facts: &dyn Facts,
    generated: &Result<Generated, Generation>,
    live: &BTreeMap<String, LiveApplication>,
    now: jiff::Timestamp,
) -> Result<Plan, Failure> {
    let rules = &request.set.spec.ignore_application_differences;
    let scripts = scripts::runner_within("ignoreApplicationDifferences", JQ_DEADLINE);
    let ignore = ignore_rules(rules, scripts)
        .map_err(|error| Failure::generic(format!("ignoreApplicationDifferences: {error}")))?;
    let plan = reconcile::plan(&PassFacts {
        request,
        generated,
        live,
        facts,
        ignore: Ok(ignore.as_ref()),
        emptiness_is_confirmed: true,
        now,
    });
    plan.map_err(stopped)
}

/// What ended a generation before there was a result.
pub(crate) fn stopped(stop: Stop) -> Failure {
    match stop {
        Stop::Failed(failure) => failed(&failure),
        Stop::Pending => Failure::generic("projects or clusters are not known"),
    }
}

/// A generation that failed: the error, then what else went wrong, as an API server says it (ASET-302).
fn failed(error: &Generation) -> Failure {
    let mut text = format!("unable to generate Applications of ApplicationSet: {}", error.message);
    for other in &error.others {
        text.push('\n');
        text.push_str(other);
    }
    Failure::status("Unknown", text)
}
