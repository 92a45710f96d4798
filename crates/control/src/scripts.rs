//! Runs users' programs in processes that can be killed (ENG-69, ENG-131, ENG-214, RND-78, SEC-10).
//!
//! A small pool of children (`tiphys worker`) answers questions of [`tiphys_engine::scripts::wire`]. A child that
//! takes longer than the deadline for one program, or that dies of its limits, is thrown away; that program has no
//! result then, and everything else goes on. What an application may waste is bounded by the [`Ledger`].

mod jsonnet;
mod ledger;
mod programs;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use tiphys_engine::health::{Health, HealthError};
use tiphys_engine::normalize::delete_paths;
use tiphys_engine::scripts::{DataScript, HealthScript, Paths, Runner, ScriptFault, Scripts, wire};
use tiphys_exec::{Limits, Program, Service, ServiceError};
use tiphys_render::jsonnet::{Evaluator, InProcess};
use tiphys_source::{Clock, Size, Turn, Turns};

use ledger::Ledger;
pub(crate) use programs::Programs;

/// Children at once.
const CHILDREN_MAX: usize = 4;
/// Bytes of memory of one child.
const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Processor time of a child over its whole life; one that outlives its parent ends by it.
const PROCESSOR_TIME_MAX: Duration = Duration::from_mins(10);
/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Wall-clock limit of one Lua script (ENG-131).
const LUA_DEADLINE: Duration = Duration::from_secs(1);
/// Processor time of one Jsonnet program, between two of its imports.
pub(crate) const JSONNET_DEADLINE: Duration = Duration::from_secs(30);
/// Longest deadline of a jq expression that settings can ask for.
const JQ_DEADLINE_MAX: Duration = Duration::from_secs(10);
/// Expressions whose syntax is remembered; beyond, all are forgotten.
const CHECKED_MAX: usize = 1024;

/// Who runs users' programs for a controller. Cloning gives another handle to the same.
#[derive(Clone, Debug, Default)]
pub struct Interpreters(Option<Pools>);

/// Children by what they are for: Jsonnet may compute for long, and nobody else waits for it.
#[derive(Clone, Debug)]
struct Pools {
    scripts: Arc<Pool>,
    jsonnet: Arc<Pool>,
}

impl Interpreters {
    /// Programs run in this process, with budgets in steps: equal inputs give equal answers, and a hostile program
    /// can stop everything. For simulations and tests.
    pub fn in_process() -> Self {
        Self(None)
    }

    /// Programs run in children: `program worker` with the process that they belong to.
    pub fn children(program: PathBuf, clock: &Clock) -> Self {
        let program = Program {
            path: program,
            arguments: vec!["worker".to_owned(), std::process::id().to_string()],
            limits: Limits {
                memory_bytes: MEMORY_BYTES_MAX,
                cpu: PROCESSOR_TIME_MAX,
                file_bytes: 0,
                open_files: 16,
                address_bytes: None,
            },
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let pool = || Arc::new(Pool::new(program.clone(), clock.clone()));
        Self(Some(Pools { scripts: pool(), jsonnet: pool() }))
    }

    /// Runs the programs of one comparison of an application; `jq_deadline` is for each expression on each object.
    /// Whoever uses it holds a [`Self::turn`], or few do at once.
    pub fn runner(&self, owner: &str, jq_deadline: Duration) -> Runner {
        match &self.0 {
            None => Runner::default(),
            Some(pools) => Runner::new(OwnedPool {
                pool: Arc::clone(&pools.scripts),
                owner: owner.to_owned(),
                jq_deadline: jq_deadline.min(JQ_DEADLINE_MAX),
                spent: Mutex::default(),
            }),
        }
    }

    /// Waits until there is a child for one more thread of a project, without holding a thread. One child is left for
    /// other projects, whatever this one runs (INV-16).
    pub(crate) async fn turn(&self, project: &str) -> Option<Turn> {
        Some(self.0.as_ref()?.scripts.turns.take(project, Size::Small).await)
    }

    /// Who evaluates Jsonnet, each program for so long between two of its imports. Renderings wait for their turn, so
    /// few do at once.
    pub fn evaluator(&self, deadline: Duration) -> Arc<dyn Evaluator> {
        match &self.0 {
            None => Arc::new(InProcess),
            Some(pools) => Arc::new(jsonnet::Remote { pool: Arc::clone(&pools.jsonnet), deadline }),
        }
    }
}

/// Children that run programs.
struct Pool {
    program: Program,
    clock: Clock,
    children: Mutex<Children>,
    freed: Condvar,
    turns: Turns,
    /// What is wrong with expressions; nothing for those that compile.
    checked: Mutex<HashMap<String, Option<String>>>,
    ledger: Mutex<Ledger>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("program", &self.program.path).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Children {
    idle: Vec<Service>,
    /// Idle ones and those at work.
    count: usize,
}

/// A child taken from the pool; it goes back when it is sound.
struct Lease<'a> {
    pool: &'a Pool,
    child: Option<Service>,
}

impl Pool {
    fn new(program: Program, clock: Clock) -> Self {
        Self {
            turns: Turns::new(CHILDREN_MAX, Some(clock.clone())),
            program,
            clock,
            children: Mutex::default(),
            freed: Condvar::new(),
            checked: Mutex::default(),
            ledger: Mutex::default(),
        }
    }

    /// Takes a child, or starts one; waits while all are at work, which each of them is for a bounded time.
    fn lease(&self) -> Result<Lease<'_>, ScriptFault> {
        let mut children = self.children.lock();
        loop {
            if let Some(child) = children.idle.pop() {
                return Ok(Lease { pool: self, child: Some(child) });
            }
            if children.count < CHILDREN_MAX {
                children.count += 1;
                drop(children);
                let mut lease = Lease { pool: self, child: None };
                lease.restart()?;
                return Ok(lease);
            }
            self.freed.wait(&mut children);
        }
    }

    /// Asks one question and reads its answers until one is missing. When a child dies that answered others before,
    /// a new one is asked once more: the fault may be theirs.
    fn ask(
        &self,
        question: &[u8],
        answers: usize,
        deadline: Duration,
    ) -> (Vec<Vec<u8>>, Option<ScriptFault>) {
        let mut lease = match self.lease() {
            Ok(lease) => lease,
            Err(fault) => return (Vec::new(), Some(fault)),
        };
        loop {
            let was_new = lease.child.as_ref().is_none_or(|child| !child.has_answered());
            let mut found = Vec::with_capacity(answers);
            let Err(error) = lease.converse(question, answers, deadline, &mut found) else {
                return (found, None);
            };
            if let Err(fault) = lease.restart() {
                return (found, Some(fault));
            }
            if was_new || error == ServiceError::Overrun {
                return (found, Some(ScriptFault::Stopped(reason(error, deadline))));
            }
        }
    }
}

fn reason(error: ServiceError, deadline: Duration) -> String {
    match error {
        ServiceError::Overrun => format!("it took longer than {}ms", deadline.as_millis()),
        ServiceError::Ended => "it needs too much memory or nests too deep".to_owned(),
    }
}

impl Lease<'_> {
    fn converse(
        &mut self,
        question: &[u8],
        answers: usize,
        deadline: Duration,
        found: &mut Vec<Vec<u8>>,
    ) -> Result<(), ServiceError> {
        let child = self.child.as_mut().ok_or(ServiceError::Ended)?;
        child.ask(question.to_vec(), answers)?;
        while found.len() < answers {
            found.push(child.answer(deadline)?);
        }
        Ok(())
    }

    /// Throws the child away and starts another one.
    fn restart(&mut self) -> Result<(), ScriptFault> {
        self.child = None;
        match Service::start(&self.pool.program) {
            Ok(child) => {
                self.child = Some(child);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "the process that runs jq expressions and scripts does not start");
                Err(ScriptFault::Stopped("the process that runs it does not start".to_owned()))
            }
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut children = self.pool.children.lock();
        match self.child.take() {
            Some(child) => children.idle.push(child),
            None => children.count = children.count.saturating_sub(1),
        }
        drop(children);
        self.pool.freed.notify_one();
    }
}

/// The pool, as one comparison of one application uses it.
#[derive(Debug)]
struct OwnedPool {
    pool: Arc<Pool>,
    owner: String,
    jq_deadline: Duration,
    /// Time that the programs of this comparison took so far.
    spent: Mutex<Duration>,
}

impl OwnedPool {
    /// Why a program does not run now, if it does not.
    fn refused(&self, program: &str) -> Option<String> {
        self.pool.ledger.lock().refused(&self.owner, program, self.pool.clock.elapsed())
    }

    /// Asks, and takes the time of it.
    fn ask(
        &self,
        question: &[u8],
        answers: usize,
        deadline: Duration,
    ) -> (Vec<Vec<u8>>, Option<ScriptFault>) {
        let began = self.pool.clock.elapsed();
        let result = self.pool.ask(question, answers, deadline);
        let now = self.pool.clock.elapsed();
        let mut spent = self.spent.lock();
        *spent = spent.saturating_add(now.saturating_sub(began));
        self.pool.ledger.lock().spent(&self.owner, *spent, now);
        result
    }

    /// Keeps in mind how a program went.
    fn note(&self, program: &str, fault: Option<&ScriptFault>) {
        let reason = match fault {
            Some(ScriptFault::Stopped(reason)) => Some(reason.as_str()),
            Some(ScriptFault::Failed(_)) | None => None,
        };
        let now = self.pool.clock.elapsed();
        self.pool.ledger.lock().ran(&self.owner, program, reason, now);
    }

    /// Runs a Lua script; what it answers, or why it was stopped.
    fn lua(&self, text: &str, question: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, String> {
        if let Some(reason) = self.refused(text) {
            return Err(reason);
        }
        let (mut answers, fault) = self.ask(&question(), 1, LUA_DEADLINE);
        self.note(text, fault.as_ref());
        match (answers.pop(), fault) {
            (Some(answer), _) => Ok(answer),
            (None, Some(fault)) => Err(fault.to_string()),
            (None, None) => Err("it has no answer".to_owned()),
        }
    }

    /// Asks for the paths of expressions; ends with the first one that was stopped.
    fn some_paths(&self, expressions: &[&str], document: &Value) -> Vec<Result<Paths, ScriptFault>> {
        let question = wire::ask_paths(expressions, document);
        let (answers, fault) = self.ask(&question, expressions.len(), self.jq_deadline);
        let mut found: Vec<_> = answers.iter().map(|answer| wire::read_paths(answer)).collect();
        for (expression, result) in expressions.iter().zip(&found) {
            self.note(expression, result.as_ref().err());
        }
        if let (Some(fault), Some(expression)) = (fault, expressions.get(found.len())) {
            self.note(expression, Some(&fault));
            found.push(Err(fault));
        }
        found
    }
}

impl Scripts for OwnedPool {
    fn check_jq(&self, expression: &str) -> Result<(), String> {
        if let Some(known) = self.pool.checked.lock().get(expression) {
            return known.clone().map_or(Ok(()), Err);
        }
        if let Some(reason) = self.refused(expression) {
            return Err(reason);
        }
        let (answers, fault) = self.ask(&wire::ask_check(expression), 1, self.jq_deadline);
        let found = match (answers.first(), fault) {
            (Some(answer), _) => wire::read_check(answer),
            (None, Some(fault)) => Err(fault),
            (None, None) => Err(ScriptFault::Stopped("it has no answer".to_owned())),
        };
        self.note(expression, found.as_ref().err());
        let found = match found {
            // That an expression is right or wrong stays; why it did not run may go.
            Err(ScriptFault::Stopped(reason)) => return Err(reason),
            found => found.map_err(|fault| fault.to_string()),
        };
        let mut checked = self.pool.checked.lock();
        if checked.len() >= CHECKED_MAX {
            checked.clear();
        }
        checked.insert(expression.to_owned(), found.clone().err());
        found
    }

    fn jq_paths(&self, expressions: &[&str], document: &Value) -> Vec<Result<Paths, ScriptFault>> {
        let mut found = Vec::with_capacity(expressions.len());
        // Made when a part of the expressions has to be asked for again, without what the ones before it named.
        let mut rest: Option<Value> = None;
        while let Some(left) = expressions.get(found.len()..).filter(|left| !left.is_empty()) {
            let document = rest.as_ref().unwrap_or(document);
            // As many as may run; the first one that may not has its result without being run.
            let may = left.iter().take_while(|expression| self.refused(expression).is_none()).count();
            let some = match left.get(..may) {
                Some(some) if !some.is_empty() => self.some_paths(some, document),
                _ => {
                    let reason = left.first().and_then(|expression| self.refused(expression));
                    vec![Err(ScriptFault::Stopped(reason.unwrap_or_default()))]
                }
            };
            if some.is_empty() {
                found.push(Err(ScriptFault::Stopped("it has no answer".to_owned())));
                continue;
            }
            if found.len() + some.len() < expressions.len() {
                let mut without = document.clone();
                some.iter().flatten().for_each(|paths| delete_paths(&mut without, paths));
                rest = Some(without);
            }
            found.extend(some);
        }
        found
    }

    fn health(&self, script: HealthScript<'_>, object: &Value) -> Result<Option<Health>, HealthError> {
        let answer = self.lua(script.text, || wire::ask_health(script, object)).map_err(|reason| {
            let message =
                format!("context deadline exceeded: the health script was stopped, because {reason}");
            HealthError { message }
        })?;
        wire::read_health(&answer)
    }

    fn data(&self, script: DataScript<'_>, object: &Value) -> Result<Value, ScriptFault> {
        let answer = self.lua(script.text, || wire::ask_data(script, object)).map_err(|reason| {
            ScriptFault::Stopped(format!(
                "context deadline exceeded: the script of the action was stopped, because {reason}"
            ))
        })?;
        wire::read_data(&answer)
    }
}
