//! Evaluates Jsonnet in a child, and gives it the files that it imports.

use std::sync::Arc;
use std::time::Duration;

use tiphys_exec::ServiceError;
use tiphys_render::jsonnet::wire::{self, Said};
use tiphys_render::jsonnet::{Evaluator, Imports, JsonnetError, Program};

use super::Pool;

/// Files that one program asks for, each time that it does.
const IMPORTS_MAX: usize = 10_000;

/// Children that evaluate.
pub(super) struct Remote {
    pub(super) pool: Arc<Pool>,
    pub(super) deadline: Duration,
}

impl Evaluator for Remote {
    fn evaluate(&self, program: &Program, imports: &mut dyn Imports) -> Result<String, JsonnetError> {
        let stopped = |why: &str| JsonnetError::Exceeded(format!("the program was stopped, because {why}"));
        let mut lease = self.pool.lease().map_err(|fault| stopped(&fault.to_string()))?;
        let result = converse(&mut lease, self.deadline, program, imports);
        result.unwrap_or_else(|error| {
            // Whatever it still computes goes with it. If no other one starts, the next lease says so.
            drop(lease.restart());
            Err(stopped(&match error {
                ServiceError::Overrun => format!("it took longer than {}s", self.deadline.as_secs_f32()),
                ServiceError::Ended => "it needs too much memory or nests too deep".to_owned(),
            }))
        })
    }
}

/// The result, or why the child is of no use any more.
fn converse(
    lease: &mut super::Lease<'_>,
    deadline: Duration,
    program: &Program,
    imports: &mut dyn Imports,
) -> Result<Result<String, JsonnetError>, ServiceError> {
    let child = lease.child.as_mut().ok_or(ServiceError::Ended)?;
    child.ask(wire::ask(program), 1)?;
    for _ in 0..IMPORTS_MAX {
        match wire::read(&child.answer(deadline)?) {
            Some(Said::Done(result)) => return Ok(result),
            Some(Said::Wants { from, path }) => {
                let answer = match imports.load(&from, &path) {
                    Ok(file) => wire::found(&file),
                    Err(why) => wire::not_found(&why),
                };
                child.ask(answer, 1)?;
            }
            None => return Err(ServiceError::Ended),
        }
    }
    Err(ServiceError::Overrun)
}
