//! `app wait`, and waiting itself, which `app sync` shares (CLI-514..516, CLI-520..523).

use std::time::Duration;

use tiphys_api::application::OperationState;
use tokio::time::Instant;

use crate::app::filter::ResourceFilter;
use crate::app::rows::{self, Row};
use crate::app::summary::{self, Windows};
use crate::app::tree::Detail;
use crate::app::waiting::{Goal, Verdict, Wait};
use crate::app::{Ended, NAMESPACE, OK, Session, TREE_OUTPUT, Work, show};
use crate::core::{AppName, Change, Core, Stored, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::table::Table;

/// Flags of `wait`.
pub(super) const FLAGS: &[Flag] = &[
    flag("sync", Kind::Bool, "false", "Wait for sync"),
    flag("health", Kind::Bool, "false", "Wait for health"),
    flag("suspended", Kind::Bool, "false", "Wait for suspension"),
    flag("degraded", Kind::Bool, "false", "Wait for degradation"),
    flag("operation", Kind::Bool, "false", "Wait for pending operations"),
    flag("delete", Kind::Bool, "false", "Wait for deletion"),
    flag("hydrated", Kind::Bool, "false", "Wait for hydration"),
    flag("timeout", Kind::Uint, "0", "Seconds to wait; 0 waits for ever"),
    flag("resource", Kind::Texts, "", "Wait for some resources: GROUP:KIND:[NAMESPACE/]NAME, ! excludes"),
    flag("selector", Kind::Text, "", "Wait for all applications with these labels").or('l'),
    TREE_OUTPUT,
    NAMESPACE,
];

/// Least width of a cell of the progress table (CLI-514).
const CELL_MIN: usize = 5;
/// Resources whose health is read for each line of progress; larger applications show it at the end only.
const PROGRESS_READS_MAX: usize = 200;

/// `app wait`.
pub(super) async fn wait(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let selector = flags.text("selector");
    if flags.operands.is_empty() && selector.is_empty() {
        return Ok(Ended::Help);
    }
    let goal = Goal {
        sync: flags.is_on("sync"),
        health: flags.is_on("health"),
        suspended: flags.is_on("suspended"),
        degraded: flags.is_on("degraded"),
        operation: flags.is_on("operation"),
        delete: flags.is_on("delete"),
        hydrated: flags.is_on("hydrated"),
        resources: ResourceFilter::parse_all(flags.texts("resource"))?,
    }
    .or_default();
    let core = session.connect().await?;
    let mut names: Vec<AppName> = flags.operands.iter().map(|text| session.name(text, &core)).collect();
    if !selector.is_empty() {
        names.extend(show::visible(session, &core, selector).await?.iter().map(Stored::name));
    }
    let world = World::load(&core).await?;
    let work = Work { session, core: &core, world: &world };
    for name in &names {
        let limits = Limits::of(session, name);
        Box::pin(until(work, Wait::new(goal.clone()), &limits)).await?;
    }
    Ok(OK)
}

/// Who is waited for, and how long.
pub(super) struct Limits<'a> {
    name: &'a AppName,
    seconds: u64,
    deadline: Option<Instant>,
}

impl<'a> Limits<'a> {
    /// The limits of `--timeout`, from now on.
    pub(super) fn of(session: &Session<'_>, name: &'a AppName) -> Self {
        let seconds = session.flags.uint("timeout");
        let deadline = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds));
        Self { name, seconds, deadline }
    }
}

/// How a wait ended well.
#[derive(Debug)]
pub(super) struct Awaited {
    /// The application as last seen; `None` when it is gone.
    pub(super) stored: Option<Stored>,
    /// The operation state when the goal was reached (CLI-516).
    pub(super) operation_state: Option<Box<OperationState>>,
}

/// Waits for one application and prints progress and result.
pub(super) async fn until(work: Work<'_>, mut wait: Wait, limits: &Limits<'_>) -> Result<Awaited, Failure> {
    let Work { session, core, world } = work;
    let terminal = session.terminal;
    let output = session.flags.text("output");
    let is_known = matches!(output, "wide" | "") || Detail::of(output).is_some();
    if machine_format(output).is_none() && !is_known {
        return Err(unknown_format(output));
    }
    let is_machine = machine_format(output).is_some();
    // One that does not exist fails at once, unless its end is what is waited for (CLI-530).
    let mut last = match core.find(limits.name).await? {
        Some(stored) => stored,
        None if wait.goal().delete => {
            terminal.line(&format!("Application '{}' deleted", limits.name));
            return Ok(Awaited { stored: None, operation_state: None });
        }
        None => return Err(crate::core::not_found(limits.name)),
    };
    let mut progress = Progress { header: Some(rows::progress_header()), is_silent: is_machine };
    let mut follow = core.follow(limits.name).await?;
    loop {
        let change = match limits.deadline {
            None => follow.next().await?,
            Some(deadline) => match tokio::time::timeout_at(deadline, follow.next()).await {
                Ok(change) => change?,
                Err(_) => return timed_out(work, &wait, &last, limits).await,
            },
        };
        let mut stored = match change {
            Change::Now(stored) => *stored,
            Change::Gone if wait.goal().delete => {
                terminal.line(&format!("Application '{}' deleted", limits.name));
                return Ok(Awaited { stored: None, operation_state: wait.operation_state });
            }
            Change::Gone => return Err(crate::core::not_found(limits.name)),
        };
        if !wait.goal().resources.is_empty() || stored.app.status.resources.len() <= PROGRESS_READS_MAX {
            core.fill_health(&mut stored.app, world).await;
        }
        let verdict = wait.observe(&stored.app);
        last = stored;
        match verdict {
            Verdict::Reached => {
                if wait.saw_operation {
                    last = refreshed(core, limits, last).await?;
                }
                print_final(work, &wait, &mut last).await?;
                return Ok(Awaited { stored: Some(last), operation_state: wait.operation_state });
            }
            Verdict::Degraded { from } => {
                print_final(work, &wait, &mut last).await?;
                let name = &limits.name.name;
                return Err(Failure::generic(format!(
                    "application '{name}' health state has transitioned from {from} to Degraded"
                )));
            }
            Verdict::Pending(rows) => progress.print(session, &rows),
        }
    }
}

/// The application after one more comparison, or as it was when that takes too long.
async fn refreshed(core: &Core, limits: &Limits<'_>, last: Stored) -> Result<Stored, Failure> {
    let refresh = core.refresh(limits.name, false);
    match limits.deadline {
        None => refresh.await,
        Some(deadline) => match tokio::time::timeout_at(deadline, refresh).await {
            Ok(refreshed) => refreshed,
            Err(_) => Ok(last),
        },
    }
}

async fn timed_out(
    work: Work<'_>,
    wait: &Wait,
    last: &Stored,
    limits: &Limits<'_>,
) -> Result<Awaited, Failure> {
    let session = work.session;
    let is_machine = machine_format(session.flags.text("output")).is_some();
    if !is_machine {
        session.terminal.print("\nThis is the state of the app after wait timed out:\n");
    }
    let mut last = last.clone();
    print_final(work, wait, &mut last).await?;
    if !is_machine {
        session.terminal.line("The command timed out waiting for the conditions to be met.");
    }
    let (seconds, name) = (limits.seconds, &limits.name.name);
    Err(Failure::generic(format!("timed out ({seconds}s) waiting for app \"{name}\" match desired state")))
}

/// Summary, operation and resources after a wait (CLI-515).
async fn print_final(work: Work<'_>, wait: &Wait, last: &mut Stored) -> Result<(), Failure> {
    let Work { session, core, world } = work;
    if let Some(format) = machine_format(session.flags.text("output")) {
        session.terminal.data(&print(&last.value(), format)?);
        return Ok(());
    }
    let app = &mut last.app;
    core.fill_health(app, world).await;
    let mut text = format!("\n{}\n", summary::summary(app, &world.url(app, core), &Windows::none()));
    if wait.goal().operation
        && let Some(state) = wait.operation_state.as_ref().or(app.status.operation_state.as_ref())
    {
        text.push_str(&summary::operation(state, session.terminal));
    }
    let table = show::resource_table(session, (core, world), app).await?;
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table);
    }
    session.terminal.print(&text);
    Ok(())
}

/// The progress table: each batch of rows is aligned by itself, the first with the header (CLI-514).
struct Progress {
    header: Option<Vec<String>>,
    is_silent: bool,
}

impl Progress {
    fn print(&mut self, session: &Session<'_>, rows: &[Row]) {
        if self.is_silent || (rows.is_empty() && self.header.is_none()) {
            return;
        }
        let terminal = session.terminal;
        let time = tiphys_go::time::format("2006-01-02T15:04:05-07:00", terminal.now(), &terminal.zone);
        let mut table = Table::headless(CELL_MIN);
        if let Some(header) = self.header.take() {
            table.row(header);
        }
        for row in rows {
            table.row(row.progress_cells(&time));
        }
        terminal.print(&table.print());
    }
}
