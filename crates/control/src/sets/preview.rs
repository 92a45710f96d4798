//! What a set would make, for people who ask through the API: nothing is stored, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_appset::compare::ignore_rules;
use tiphys_appset::facts::Facts;
use tiphys_appset::generate::{Failure, Generated, Request, Stop, generate, parameters};
use tiphys_appset::live::LiveApplication;
use tiphys_appset::params;
use tiphys_appset::preview::{Changes, Existing, Preview};
use tiphys_appset::reconcile::{self, PassFacts};
use tiphys_appset::validate;
use tiphys_generation::{Inputs, Remembered};
use tiphys_object::Object;

use super::{Sets, live, pass};
use crate::app_key::{AppKey, SetKey};

/// A failure in words, with what else went wrong below it (ASET-302).
fn told(failure: Failure) -> String {
    let mut text = failure.message;
    for other in failure.others {
        text.push('\n');
        text.push_str(&other);
    }
    text
}

impl Sets {
    fn asked(&self, set: ApplicationSet) -> Arc<Inputs> {
        let world = self.shared.world.load_full();
        pass::inputs(self, Arc::new(set), world, Remembered::default())
    }

    /// The Applications that a set would make, whether it is stored or not, and what a pass would do about those that
    /// exist, where that is asked for.
    pub(crate) async fn preview(&self, set: ApplicationSet, existing: Existing) -> Result<Preview, String> {
        let inputs = self.asked(set.clone());
        let generated = inputs.converse(&self.answerer, generate).await.map_err(told)?;
        let shown = generated.applications.clone();
        let check = move |request: &Request<'_>, facts: &dyn Facts| -> Result<_, Stop> {
            let mut applications = shown.clone();
            let validation = validate::check(request, &mut applications, facts)?;
            Ok((applications, validation))
        };
        let (applications, validation) = inputs.converse(&self.answerer, check).await.map_err(told)?;
        let warnings = generated.warnings.clone();
        let names: BTreeSet<String> =
            applications.iter().map(|application| application.metadata.name.clone()).collect();
        let existing = match existing {
            Existing::Unasked => return Ok(Preview { applications, validation, warnings, changes: None }),
            Existing::Stored => self.stored(&set, names).await?,
            Existing::Given(given) => {
                given.into_iter().filter(|(name, live)| live.is_of(&set) || names.contains(name)).collect()
            }
        };
        let changes = self.changes(set, inputs, generated, existing).await?;
        Ok(Preview { applications, validation, warnings, changes: Some(changes) })
    }

    /// The Applications that a set has, and those that have one of these names.
    async fn stored(
        &self,
        set: &ApplicationSet,
        names: BTreeSet<String>,
    ) -> Result<BTreeMap<String, LiveApplication>, String> {
        let (namespace, store) = (&set.metadata.namespace, &self.shared.store);
        let of_set = store.by_set(&SetKey::new(namespace, &set.metadata.name));
        let wanted: BTreeSet<String> =
            of_set.into_iter().map(|key| key.name.to_string()).chain(names).collect();
        let found: Vec<Arc<Object>> = (wanted.iter())
            .filter_map(|name| store.get(&AppKey::new(namespace, name)).map(|entry| entry.object))
            .collect();
        self.shared.compute.run(move || live::read(&found)).await?
    }

    async fn changes(
        &self,
        set: ApplicationSet,
        inputs: Arc<Inputs>,
        generated: Generated,
        live: BTreeMap<String, LiveApplication>,
    ) -> Result<Changes, String> {
        let shared = &self.shared;
        let runner = {
            let world = shared.world.load();
            shared.interpreters.runner("preview of a set", world.settings.controller().jq_timeout)
        };
        let now = shared.clock.now();
        let _turn =
            if pass::has_jq(&set) { shared.interpreters.turn(set.rbac_project()).await } else { None };
        let planned = move || {
            inputs.with_request(|request| {
                let rules = ignore_rules(&request.set.spec.ignore_application_differences, runner)
                    .map_err(|error| format!("ignoreApplicationDifferences: {error}"))?;
                let plan = reconcile::plan(&PassFacts {
                    request,
                    generated: &Ok(generated),
                    live: &live,
                    facts: &inputs.ledger,
                    ignore: Ok(rules.as_ref()),
                    emptiness_is_confirmed: true,
                    now,
                });
                let plan = plan.map_err(|stop| match stop {
                    Stop::Failed(failure) => told(failure),
                    Stop::Pending => "projects or clusters are not known".to_owned(),
                })?;
                Ok(Changes::of(&plan, live.len()))
            })
        };
        shared.compute.run(planned).await?
    }

    /// The sets of parameters that the generators of a set give, whatever its template says (ASET-304).
    pub(crate) async fn parameters(&self, set: ApplicationSet) -> Result<Vec<Value>, String> {
        let inputs = self.asked(set);
        let found = inputs.converse(&self.answerer, parameters).await.map_err(told)?;
        Ok(found.into_iter().map(|set| params::for_json(Value::Object(set))).collect())
    }
}
