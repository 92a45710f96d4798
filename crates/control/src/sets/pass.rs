//! One look at a living set (ASET-10): generate, plan, write, conclude.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tiphys_api::ApplicationSet;
use tiphys_api::applicationset::ApplicationSetStatus;
use tiphys_api::codes::SetReason;
use tiphys_api::names::annotation;
use tiphys_appset::compare::ignore_rules;
use tiphys_appset::deletion;
use tiphys_appset::events;
use tiphys_appset::generate::{Failure, Generated, Request, Stop, generate};
use tiphys_appset::live::LiveApplication;
use tiphys_appset::reconcile::{self, Action, Conclusion, Outcomes, PassFacts, Plan, Requeue};
use tiphys_appset::status;
use tiphys_engine::scripts::Runner;
use tiphys_generation::{Inputs, Remembered};
use tokio::time::Instant;

use super::record::{SetContext, WriteError};
use super::store::{GeneratorsId, SetMemory};
use super::{Sets, Wish, carry_out, live, lost, witness};
use crate::world::World;

/// Shortest time until a set is looked at again without a reason.
const SHORTEST: Duration = Duration::from_secs(1);
/// Time until clusters are looked for again that the watch does not show yet; when it does, that is a look, too.
const CLUSTERS_AGAIN: Duration = Duration::from_secs(30);
/// Looks that meet somebody else's writes before that is told.
const CONFLICTS_MAX: u32 = 5;

/// What a generation of a set is made from.
pub(super) fn inputs(
    sets: &Sets,
    set: Arc<ApplicationSet>,
    world: Arc<World>,
    remembered: Remembered,
) -> Arc<Inputs> {
    let random = sets.random.clone();
    Arc::new(Inputs::new(tiphys_generation::Subject {
        settings: world.settings.application_sets().clone(),
        world,
        fresh: set.metadata.annotations.contains_key(annotation::SET_REFRESH),
        set,
        now: sets.shared.clock.now(),
        chance: Arc::new(move |bytes: &mut [u8]| random.fill(bytes)),
        remembered,
    }))
}

/// What a look is decided from, once everything is known.
struct Pass {
    inputs: Arc<Inputs>,
    /// Settings, projects and clusters as they were when the look began.
    world: Arc<World>,
    /// The set as it is stored now: its finalizer may have been added meanwhile.
    set: Arc<ApplicationSet>,
    generated: Result<Generated, Failure>,
    live: BTreeMap<String, LiveApplication>,
    runner: Runner,
    emptiness_is_confirmed: bool,
    now: Timestamp,
}

impl Pass {
    fn with_facts<T>(&self, ask: impl FnOnce(&PassFacts<'_>) -> T) -> T {
        let rules = ignore_rules(&self.set.spec.ignore_application_differences, self.runner.clone());
        let rules = rules.map_err(|error| error.to_string());
        self.inputs.with_request(|request| {
            ask(&PassFacts {
                request: &Request { set: &self.set, ..*request },
                generated: &self.generated,
                live: &self.live,
                facts: &self.inputs.ledger,
                ignore: rules.as_ref().map(Option::as_ref).map_err(String::as_str),
                emptiness_is_confirmed: self.emptiness_is_confirmed,
                now: self.now,
            })
        })
    }

    /// What is to be done; where that cannot be decided nothing is.
    fn plan(&mut self) -> Plan {
        let failure = match self.with_facts(reconcile::plan) {
            Ok(plan) => return plan,
            Err(Stop::Failed(failure)) => failure,
            Err(Stop::Pending) => {
                let reason = SetReason::ApplicationGenerationFromParamsError;
                Failure::new(reason, "projects or clusters are not known")
            }
        };
        self.generated = Err(failure);
        self.with_facts(reconcile::plan).unwrap_or_default()
    }
}

/// Looks at a set and makes its Applications what it says.
pub(super) async fn pass(cx: &mut SetContext<'_>, world: &Arc<World>) -> Wish {
    let sets = cx.sets;
    let settings = world.settings.application_sets();
    if deletion::needs_finalizer(&cx.set, settings)
        && !cx.is_dry()
        && let Err(error) = cx.add_finalizer().await
    {
        return failed(cx, &error);
    }
    let deliveries = remembered(cx, |memory| memory.deliveries).unwrap_or_default();
    let (asks, answers) = remembered(cx, |memory| {
        let asks = memory.begins_to_ask(cx.asked.is_some(), Instant::now());
        (asks, if asks { Remembered::default() } else { std::mem::take(&mut memory.answers) })
    })
    .unwrap_or_default();
    let inputs = inputs(sets, Arc::clone(&cx.set), Arc::clone(world), answers);
    let generated = match lost::refusal(cx).await {
        None => inputs.converse(&sets.answerer, generate).await,
        Some(failure) => Err(failure),
    };
    if let Err(failure) = &generated {
        tracing::warn!(set = %cx.key, error = %failure.message, others = ?failure.others, "nothing is generated");
    }
    let names: BTreeSet<String> = generated
        .iter()
        .flat_map(|generated| &generated.applications)
        .map(|application| application.metadata.name.clone())
        .collect();
    for warning in generated.iter().flat_map(|generated| &generated.warnings) {
        tracing::warn!(set = %cx.key, warning, "the set is odd");
    }
    let live = match live::applications(cx, names).await {
        Ok(live) => live,
        Err(error) => {
            tracing::warn!(set = %cx.key, error, "the set's Applications are not known");
            return Wish::Backoff;
        }
    };
    let generators = GeneratorsId::of(&cx.set);
    let mut pass = Pass {
        world: Arc::clone(world),
        set: Arc::clone(&cx.set),
        generated,
        live,
        runner: sets
            .shared
            .interpreters
            .runner(&format!("set {}", cx.key), world.settings.controller().jq_timeout),
        emptiness_is_confirmed: remembered(cx, |memory| {
            memory.is_confirmed_empty(asks, generators, sets.shared.clock.now())
        })
        .unwrap_or_default(),
        now: sets.shared.clock.now(),
        inputs,
    };
    let planned = {
        let _turn = if has_jq(&pass.set) {
            sets.shared.interpreters.turn(pass.set.rbac_project()).await
        } else {
            None
        };
        sets.shared
            .compute
            .run(move || {
                let plan = pass.plan();
                (pass, plan)
            })
            .await
    };
    let (pass, plan) = match planned {
        Ok((pass, plan)) => (Arc::new(pass), plan),
        Err(error) => {
            tracing::error!(set = %cx.key, error, "a look ended unexpectedly; this is a bug");
            return Wish::Backoff;
        }
    };
    remembered(cx, |memory| {
        memory.answers = pass.inputs.ledger.outside();
        memory.note_emptiness(plan.is_suddenly_empty(), pass.emptiness_is_confirmed, generators, pass.now);
    });
    write(cx, &pass, plan, deliveries, settings.concurrent_application_updates).await
}

/// Writes what was planned, and what came of it.
async fn write(
    cx: &mut SetContext<'_>,
    pass: &Arc<Pass>,
    plan: Plan,
    deliveries: u64,
    at_once: usize,
) -> Wish {
    let is_dry = cx.is_dry();
    let entries = cx.set.status.application_status.clone();
    if is_dry {
        tell_dry(cx, &plan);
    } else if plan.rollout_patch(&cx.stored()).is_some() {
        // What a roll-out allows is stored before it happens (ASET-217).
        if let Err(error) = cx.write_status(&plan.status).await {
            return failed(cx, &error);
        }
        if !cx.is_behind && plan.rollout_patch(&cx.stored()).is_some() {
            return not_kept(cx, pass.now).await;
        }
    }
    if !is_dry && let Some(wish) = unsure(cx, pass, &plan).await {
        return wish;
    }
    let done =
        if is_dry { carry_out::Done::default() } else { carry_out::carry_out(cx, &plan, at_once).await };
    if done.is_cut {
        return Wish::Done;
    }
    let mut outcomes = done.outcomes;
    if !done.stale.is_empty() {
        let conflicts = remembered(cx, |memory| {
            memory.conflicts = memory.conflicts.saturating_add(1);
            memory.conflicts
        });
        if conflicts.is_none_or(|conflicts| conflicts <= CONFLICTS_MAX) {
            return Wish::Backoff;
        }
        let told = |name: String| {
            let why = format!("Application {name} is being changed by others all the time");
            (name, why)
        };
        outcomes.failed.extend(done.stale.into_iter().map(told));
    }
    let concluded = conclude(cx, pass, plan, outcomes).await;
    let mut conclusion = match concluded {
        Ok(conclusion) => conclusion,
        Err(error) => {
            tracing::error!(set = %cx.key, error, "a look ended unexpectedly; this is a bug");
            return Wish::Backoff;
        }
    };
    tell(cx, &conclusion);
    if is_dry {
        return wish(&conclusion);
    }
    if conclusion.succeeded
        && remembered(cx, |memory| memory.deliveries) == Some(deliveries)
        && let Err(error) = cx.remove_request().await
    {
        let message = error.to_string();
        let evaluated = status::failure(SetReason::RefreshApplicationError, &message);
        let conditions = status::next_conditions(&conclusion.status.conditions, &evaluated, &[], pass.now);
        conclusion.status.health = Some(status::health(&conditions));
        conclusion.status.conditions = conditions;
        conclusion.requeue = Requeue::Backoff;
    }
    if let Err(error) = cx.write_status(&conclusion.status).await {
        return failed(cx, &error);
    }
    show(cx, &conclusion.status);
    let is_asked = remembered(cx, |memory| memory.deliveries) != Some(deliveries);
    // Another phase of a roll-out may follow at once; nobody else tells of it.
    let rolls = cx.set.status.application_status != entries && !cx.set.status.application_status.is_empty();
    if is_asked || rolls { Wish::Now } else { wish(&conclusion) }
}

/// What has to be made sure of before Applications are created or go, and is not; nothing is written then.
async fn unsure(cx: &mut SetContext<'_>, pass: &Pass, plan: &Plan) -> Option<Wish> {
    if plan.writes.iter().any(|write| matches!(write.action, Action::Create(_))) {
        if let Err(error) = cx.confirm().await {
            return Some(failed(cx, &error));
        }
        if cx.is_behind {
            return Some(Wish::Now);
        }
    }
    if plan.removals.is_empty() || !super::reads_clusters(&pass.set) {
        return None;
    }
    match witness::knows_clusters(cx, &pass.world, &pass.live, plan).await {
        Ok(true) => None,
        Ok(false) => {
            tracing::warn!(set = %cx.key, "there are clusters that are not known yet; nothing is removed");
            Some(Wish::After(CLUSTERS_AGAIN))
        }
        Err(error) => {
            tracing::warn!(set = %cx.key, error, "whether all clusters are known cannot be asked; nothing is removed");
            Some(Wish::Backoff)
        }
    }
}

/// The API server dropped parts of the bookkeeping. A roll-out that forgets would begin anew at each look: nothing is
/// written to Applications.
async fn not_kept(cx: &mut SetContext<'_>, now: Timestamp) -> Wish {
    let message = "the installed definition of ApplicationSets drops fields of status.applicationStatus, without which \
                   no roll-out goes on; install it anew with `tiphys install --crds-only | kubectl apply \
                   --server-side -f -`";
    tracing::warn!(set = %cx.key, message, "the set is not rolled out");
    let evaluated = status::failure(SetReason::ApplicationSetRolloutError, message);
    let mut status = cx.set.status.clone();
    status.conditions = status::next_conditions(&status.conditions, &evaluated, &[], now);
    status.health = Some(status::health(&status.conditions));
    match cx.write_status(&status).await {
        Ok(()) => Wish::After(reconcile::RETRY_AFTER),
        Err(error) => failed(cx, &error),
    }
}

async fn conclude(
    cx: &SetContext<'_>,
    pass: &Arc<Pass>,
    plan: Plan,
    outcomes: Outcomes,
) -> Result<Conclusion, String> {
    let (pass, stored) = (Arc::clone(pass), cx.stored());
    let work = move || pass.with_facts(|facts| reconcile::conclude(facts, &plan, &outcomes, &stored));
    cx.sets.shared.compute.run(work).await
}

pub(super) fn has_jq(set: &ApplicationSet) -> bool {
    set.spec.ignore_application_differences.iter().any(|rule| !rule.jq_path_expressions.is_empty())
}

/// Asks or changes what is remembered of the set; `None` when it is gone.
pub(super) fn remembered<T>(cx: &SetContext<'_>, ask: impl FnOnce(&mut SetMemory) -> T) -> Option<T> {
    cx.sets.store.get(&cx.key).map(|entry| ask(&mut entry.memory.lock()))
}

/// Something about the set itself could not be written.
pub(super) fn failed(cx: &SetContext<'_>, error: &WriteError) -> Wish {
    match error {
        // The watch will say so; where it does not, nothing is done by this answer alone but to ask again.
        WriteError::Gone => Wish::After(reconcile::RETRY_AFTER),
        WriteError::Conflict | WriteError::Refused(_) => {
            tracing::warn!(set = %cx.key, %error, "the set could not be written");
            Wish::Backoff
        }
    }
}

fn wish(conclusion: &Conclusion) -> Wish {
    match conclusion.requeue {
        Requeue::Backoff => Wish::Backoff,
        Requeue::After(after) => Wish::After(after.max(SHORTEST)),
        Requeue::OnEvent => Wish::Done,
    }
}

/// What a look says: in events, once for what lasts.
fn tell(cx: &SetContext<'_>, conclusion: &Conclusion) {
    let warnings: BTreeSet<(String, String)> = conclusion
        .events
        .iter()
        .filter(|event| event.is_warning)
        .map(|event| (event.reason.clone(), event.message.clone()))
        .collect();
    let told = remembered(cx, |memory| std::mem::replace(&mut memory.told, warnings)).unwrap_or_default();
    let is_news = |event: &&events::Event| {
        !event.is_warning || !told.contains(&(event.reason.clone(), event.message.clone()))
    };
    let news: Vec<&events::Event> = conclusion.events.iter().filter(is_news).collect();
    let shown = events::told(news.iter().copied());
    for event in &shown {
        cx.sets.note(&cx.object, event);
    }
    for event in news.into_iter().filter(|event| !shown.contains(event)) {
        tracing::info!(set = %cx.key, reason = event.reason, message = event.message, "event that is only counted");
    }
}

/// What would be done if anything were.
fn tell_dry(cx: &SetContext<'_>, plan: &Plan) {
    for write in &plan.writes {
        tracing::info!(set = %cx.key, application = %write.name, "would be written");
    }
    for removal in &plan.removals {
        tracing::info!(set = %cx.key, application = %removal.name, "would be deleted");
    }
}

/// What metrics show of the set.
fn show(cx: &SetContext<'_>, status: &ApplicationSetStatus) {
    let shown = super::shown(status);
    remembered(cx, |memory| memory.shown = shown);
}
