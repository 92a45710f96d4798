//! A sync of Applications, from what is deployed to what their sources declare now (CLI-1060..1062).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::codes::OperationPhase;
use tiphys_engine::seen::Seen;
use tiphys_lifecycle::request::{SyncRequest, sync_operation};
use tiphys_source::MemoryRepositories;
use tokio::time::Instant;

use super::arguments::{Arguments, EMPTY, LIVE, Output};
use super::content::{self, name};
use super::show::seconds;
use super::stage::{self, Stage};
use super::steps::{STEPS_MAX, State, Step};
use super::tape::Tape;
use super::{End, Play, chart, plan, show};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Without news for this long, beyond what workloads need, it stands still.
const STILL: Duration = Duration::from_mins(10);
/// Time until what was taken over from a cluster is well, beyond what workloads need.
const SETTLED: Duration = Duration::from_mins(2);
/// Who asks for the sync.
const USER: &str = "rehearsal";

/// Rehearses a sync of all applications at once.
pub(super) async fn rehearse(arguments: &Arguments, play: &Play, apps: &[Value]) -> anyhow::Result<End> {
    let servers = MemoryRepositories::default();
    let is_there = [EMPTY, LIVE].contains(&arguments.from.as_str());
    let first = if is_there { arguments.to.as_deref() } else { Some(arguments.from.as_str()) };
    content::deploy(&servers, &arguments.source, apps, first)?;
    let tape = Tape::new(&play.namespace, &arguments.health_delay, &arguments.faults);
    // What makes its namespace itself is not helped.
    let helped = |app: &&Value| !makes_namespace(app) && arguments.from != LIVE;
    let others: Vec<Value> = apps.iter().filter(helped).cloned().collect();
    let stage = Stage::begin(play, servers.clone(), &content::namespaces(&others), &tape).await?;
    for app in apps {
        stage.admit_application(&by_hand(app)).await?;
    }
    let end = play_out(arguments, &stage, apps, &servers, &tape).await;
    stage.end();
    end
}

async fn play_out(
    arguments: &Arguments,
    stage: &Stage,
    apps: &[Value],
    servers: &MemoryRepositories,
    tape: &Tape,
) -> anyhow::Result<End> {
    let patience = STILL.saturating_add(content::longest(&arguments.health_delay));
    if arguments.from == LIVE {
        // Pods of what was taken over are made anew, and everything is well before it begins.
        tokio::time::sleep(SETTLED.saturating_add(content::longest(&arguments.health_delay))).await;
    } else if arguments.from != EMPTY {
        ask(stage, apps, &SyncRequest::default()).await?;
        let before = Sync::follow(stage, apps, tape, patience).await;
        if let Some((app, _, message)) =
            before.ends().find(|(_, phase, _)| *phase != OperationPhase::Succeeded)
        {
            bail!("{} cannot be deployed at {}: {message}", app, arguments.from);
        }
        content::deploy(servers, &arguments.source, apps, arguments.to.as_deref())?;
    }
    let options = (!arguments.sync_option.is_empty()).then(|| arguments.sync_option.clone());
    let request = SyncRequest { prune: arguments.prune, options, ..SyncRequest::default() };
    tape.begin();
    ask(stage, apps, &request).await?;
    let sync = Sync::follow(stage, apps, tape, patience).await;
    sync.show(arguments, apps);
    for object in tape.unmet() {
        show::complain(&format!("--faults: the sync did not write to {object}"));
    }
    Ok(sync.end())
}

/// Asks for a sync of each application, as the command line does.
async fn ask(stage: &Stage, apps: &[Value], request: &SyncRequest) -> anyhow::Result<()> {
    for app in apps {
        let read: Application = serde_json::from_value(by_hand(app))
            .with_context(|| format!("the application {} cannot be read", name(app)))?;
        let operation = sync_operation(&read, request.clone())?;
        let mut operation = serde_json::to_value(operation)?;
        if let Some(operation) = operation.as_object_mut() {
            operation.insert("initiatedBy".to_owned(), json!({"username": USER}));
        }
        stage.patch_application(name(app), &json!({"operation": operation})).await?;
    }
    Ok(())
}

/// An application that syncs when it is asked to and not before.
fn by_hand(app: &Value) -> Value {
    let mut app = app.clone();
    if let Some(policy) = app.pointer_mut("/spec/syncPolicy").and_then(Value::as_object_mut) {
        policy.remove("automated");
    }
    // A policy that says nothing is taken out by the controller, which is no part of the sync.
    if app.pointer("/spec/syncPolicy") == Some(&json!({}))
        && let Some(spec) = app.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("syncPolicy");
    }
    for member in ["status", "operation"] {
        if let Some(object) = app.as_object_mut() {
            object.remove(member);
        }
    }
    app
}

fn makes_namespace(app: &Value) -> bool {
    let options = app.pointer("/spec/syncPolicy/syncOptions").and_then(Value::as_array);
    options.into_iter().flatten().any(|option| option == "CreateNamespace=true")
}

/// What is known of an application's operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Operation {
    phase: String,
    message: String,
    retries: u64,
    /// When it ended.
    over: Option<Duration>,
}

/// A sync that was followed to its end.
struct Sync {
    steps: Vec<Step>,
    operations: BTreeMap<String, Operation>,
    /// What was said of retries.
    notes: Vec<(Duration, String)>,
    /// When something happened last.
    changed: Duration,
    is_still: bool,
}

impl Sync {
    async fn follow(stage: &Stage, apps: &[Value], tape: &Tape, patience: Duration) -> Self {
        let began = Instant::now();
        let mut sync = Self {
            steps: Vec::new(),
            operations: BTreeMap::new(),
            notes: Vec::new(),
            changed: Duration::ZERO,
            is_still: false,
        };
        loop {
            let at = began.elapsed();
            let mut is_news = sync.take(tape);
            sync.fall_ill(stage, tape, at).await;
            for step in sync.steps.iter_mut().filter(|step| step.until.is_none()) {
                match stage::look(stage.cluster(&step.server), &step.path).await {
                    Seen::Present(live) => is_news |= step.look(Some(&live), at),
                    Seen::Absent => is_news |= step.look(None, at),
                    Seen::Unknown(_) => {}
                }
            }
            for app in apps {
                let live = stage.application(name(app)).await;
                is_news |= sync.operation(name(app), &live, at);
            }
            if is_news {
                sync.changed = at;
            }
            let is_over = sync.operations.values().all(|operation| operation.over.is_some());
            if is_over && sync.steps.iter().all(|step| step.until.is_some()) {
                return sync;
            }
            if at.saturating_sub(sync.changed) >= patience {
                sync.is_still = true;
                return sync;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Takes what was written.
    fn take(&mut self, tape: &Tape) -> bool {
        let mut is_news = false;
        for write in tape.take() {
            is_news = true;
            let has_room = self.steps.len() < STEPS_MAX;
            let last = self.steps.iter_mut().rev().find(|step| step.path == write.path);
            match last {
                Some(step) if step.is_again(&write) => {
                    step.refusals += 1;
                    step.until = Some(write.at);
                }
                // A finalizer of a hook that goes.
                Some(step) if step.is_hook && write.verb == "update" => {}
                // The rest of the same change.
                Some(step) if step.until.is_none() && write.refused.is_none() && step.verb == write.verb => {}
                Some(step) if step.verb == "delete" && step.until.is_none() && write.verb == "update" => {}
                _ if has_room => self.steps.push(Step::begin(write)),
                _ => {}
            }
        }
        is_news
    }

    /// Lets workloads fall ill whose time has come.
    async fn fall_ill(&self, stage: &Stage, tape: &Tape, at: Duration) {
        for (index, fault, patch) in tape.due(at) {
            let is_it = |step: &&Step| fault.is_of(&step.gvk.group, &step.gvk.kind, &step.name);
            if let Some(step) = self.steps.iter().rev().find(is_it) {
                stage::change(stage.cluster(&step.server), &step.path, &patch).await;
                tape.met(index);
            }
        }
    }

    /// Takes what an application says of its operation; whether that is news.
    fn operation(&mut self, app: &str, live: &Value, at: Duration) -> bool {
        let state = live.pointer("/status/operationState").unwrap_or(&Value::Null);
        let text = |member: &str| state.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_over = live.get("operation").is_none() && !text("finishedAt").is_empty();
        let old = self.operations.entry(app.to_owned()).or_default();
        let new = Operation {
            phase: text("phase"),
            message: text("message"),
            retries: state.get("retryCount").and_then(Value::as_u64).unwrap_or_default(),
            over: is_over.then(|| old.over.unwrap_or(at)),
        };
        if new.retries > old.retries {
            self.notes.push((at, format!("{app}: retry {}: {}", new.retries, new.message)));
        }
        let is_news = *old != new;
        *old = new;
        is_news
    }

    /// Applications with the end of their operations.
    fn ends(&self) -> impl Iterator<Item = (&str, OperationPhase, &str)> {
        self.operations.iter().map(|(app, operation)| {
            let phase = operation.over.and_then(|_over| OperationPhase::parse(&operation.phase));
            (app.as_str(), phase.unwrap_or(OperationPhase::Running), operation.message.as_str())
        })
    }

    fn end(&self) -> End {
        let is_well = |step: &Step| step.until.is_some();
        let succeeded = self.ends().all(|(_, phase, _)| phase == OperationPhase::Succeeded);
        if succeeded && self.steps.iter().all(is_well) { End::Reached } else { End::Stuck }
    }

    fn show(&self, arguments: &Arguments, apps: &[Value]) {
        let mut steps: Vec<&Step> = self.steps.iter().collect();
        let pace = arguments.pace();
        if pace.is_some() {
            // Nothing is told before it is over.
            steps.sort_by_key(|step| step.until.unwrap_or(Duration::MAX));
        }
        let width = steps.iter().map(|step| step.what().chars().count()).max().unwrap_or(0);
        let is_one = apps.len() == 1
            && steps
                .iter()
                .all(|step| step.app.is_empty() || Some(step.app.as_str()) == apps.first().map(name));
        let mut notes = self.notes.iter().peekable();
        let mut told = Duration::ZERO;
        for step in steps {
            let at = step.until.unwrap_or(self.changed);
            while let Some((when, text)) = notes.next_if(|(when, _)| *when <= step.at) {
                note(arguments, *when, text);
            }
            if let Some(pace) = pace {
                let wait = at.saturating_sub(told).as_secs_f64() / pace;
                std::thread::sleep(Duration::try_from_secs_f64(wait).unwrap_or_default());
                told = told.max(at);
            }
            match arguments.output {
                Output::Jsonl => show::print(&format!("{}\n", step.json())),
                Output::Text if is_one => show::print(&step.line(width)),
                Output::Text => show::print(&format!("{:<20} {}", step.app, step.line(width))),
            }
        }
        for (when, text) in notes {
            note(arguments, *when, text);
        }
        if arguments.gantt {
            let steps: Vec<&Step> = self.steps.iter().collect();
            show::print(&chart::draw(&steps, self.changed));
        }
        for (app, phase, message) in self.ends() {
            self.result(arguments, app, (phase, message), is_one);
        }
    }

    /// The last line about an application.
    fn result(
        &self,
        arguments: &Arguments,
        app: &str,
        (phase, message): (OperationPhase, &str),
        is_one: bool,
    ) {
        let own = || self.steps.iter().filter(|step| is_one || step.app == app);
        let done = |step: &&Step| !matches!(step.state, State::Refused(_));
        let applied = own().filter(done).filter(|step| !step.is_hook && step.verb != "delete").count();
        let hooks = own().filter(done).filter(|step| step.is_hook && step.verb != "delete").count();
        let pruned = own().filter(done).filter(|step| !step.is_hook && step.verb == "delete").count();
        let waiting: Vec<&Step> = own().filter(|step| step.until.is_none()).collect();
        let over = own()
            .filter_map(|step| step.until)
            .chain(self.operations.get(app).and_then(|operation| operation.over))
            .max();
        let over = over.unwrap_or(self.changed);
        if arguments.output == Output::Jsonl {
            let waits: Vec<String> = waiting.iter().map(|step| step.what()).collect();
            let line = json!({"application": app, "result": phase.as_str(), "message": message,
                "seconds": over.as_secs_f64(), "applied": applied, "hooks": hooks, "pruned": pruned,
                "standsStill": self.is_still, "waitsFor": waits});
            show::print(&format!("{line}\n"));
            return;
        }
        let of = if is_one { String::new() } else { format!(" of {app}") };
        let mut counts = vec![format!("{applied} applied")];
        if hooks > 0 {
            counts.push(plan::count(hooks, "hook"));
        }
        if pruned > 0 {
            counts.push(format!("{pruned} pruned"));
        }
        let counts = counts.join(" · ");
        let text = if phase == OperationPhase::Running {
            format!(
                "Result{of}: stands still since {} (virtual) · {counts}: {message}\n",
                seconds(self.changed)
            )
        } else if phase == OperationPhase::Succeeded {
            format!("Result{of}: {} in {} (virtual) · {counts}\n", phase.as_str(), seconds(over))
        } else {
            format!(
                "Result{of}: {} after {} (virtual) · {counts}: {message}\n",
                phase.as_str(),
                seconds(over)
            )
        };
        show::print(&text);
        for step in waiting {
            let why = match &step.state {
                State::Waits(health) => {
                    let colon = if health.message.is_empty() { "" } else { ": " };
                    format!("{}{colon}{}", health.status.as_str(), health.message)
                }
                _ => String::new(),
            };
            show::print(&format!("  waits for {}: {why}\n", step.what()));
        }
    }
}

fn note(arguments: &Arguments, at: Duration, text: &str) {
    match arguments.output {
        Output::Text => show::print(&format!("{text} ({})\n", seconds(at))),
        Output::Jsonl => show::print(&format!("{}\n", json!({"at": at.as_secs_f64(), "note": text}))),
    }
}
