//! `tiphys simulate`: whole installations in one thread each, from seeds (STY-73).
//!
//! What question does it answer: is there a history of users' acts and faults in which an invariant breaks? A
//! run is the real controller with an API server in the process, repositories in memory and a clock that
//! stands still while something is to be done; everything that happens follows from the seed. Each write is
//! judged by an observer that shares no decision with the product. The same seed gives the same history, so
//! a seed is all that a failure report needs.

mod api;
mod chance;
mod faults;
#[expect(clippy::indexing_slicing, reason = "members of our own JSON, by name")]
mod hostile;
mod log;
#[expect(clippy::indexing_slicing, reason = "members of our own JSON, by name")]
mod manifests;
#[expect(clippy::indexing_slicing, reason = "members of our own JSON, by name")]
mod model;
#[expect(clippy::indexing_slicing, reason = "members of our own JSON, by name")]
mod neighbour;
mod observer;
mod progress;
#[expect(clippy::indexing_slicing, reason = "members of our own JSON, by name")]
mod sets;
mod settled;
mod truth;
#[expect(clippy::indexing_slicing, reason = "members of our own JSON, by name")]
mod users;
mod watching;
mod wire;
#[expect(clippy::indexing_slicing, reason = "members of our own JSON, by name")]
mod world;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use faults::{Death, Troubles};
use parking_lot::Mutex;
use world::Outcome;

/// Run whole installations from seeds and check the invariants after every step.
#[derive(Parser, Debug)]
#[command(name = "tiphys simulate", disable_version_flag = true)]
struct Arguments {
    /// How many seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run this seed only
    #[arg(long)]
    seed: Option<u64>,
    /// Show everything that happens
    #[arg(long)]
    verbose: bool,
    /// Run every seed twice and compare the histories
    #[arg(long)]
    twice: bool,
    /// Run every seed once for each request of its controller, which dies there; nothing else goes wrong
    #[arg(long, conflicts_with = "twice")]
    crash_points: bool,
    /// The only thing that goes wrong: the controller dies before this request is carried out
    #[arg(long, requires = "seed", conflicts_with = "crash_points")]
    crash_before: Option<u64>,
    /// The only thing that goes wrong: the controller dies after this request was carried out
    #[arg(long, requires = "seed", conflicts_with_all = ["crash_points", "crash_before"])]
    crash_after: Option<u64>,
    /// Give an `ApplicationSet` to two of five seeds, whose histories are others then
    #[arg(long)]
    with_sets: bool,
    /// Give the hostile tenant, who is in four of five seeds then, an account of the API server
    #[arg(long)]
    with_api: bool,
    /// Seeds that run at the same time; 0 takes one per processor
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Failing seeds after which to stop
    #[arg(long, default_value_t = 10)]
    failures: u64,
}

/// Sums over all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Seeds that ran.
    pub seeds: u64,
    /// Runs: several of one seed when all points are tried at which its controller can die.
    pub runs: u64,
    /// Runs in which an invariant broke.
    pub failed: u64,
    /// Requests of controllers.
    pub requests: u64,
    /// Requests that changed something.
    pub writes: u64,
    /// Objects applied.
    pub applies: u64,
    /// Objects deleted.
    pub deletions: u64,
    /// Times a controller died.
    pub crashes: u64,
    /// Virtual seconds.
    pub seconds: u64,
}

/// Carries out `tiphys simulate`.
pub fn run(args: &[OsString]) -> ExitCode {
    let arguments = match tiphys_process::arguments::parse::<Arguments>("tiphys simulate", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let (from, count) = arguments.seed.map_or((arguments.from, arguments.seeds), |seed| (seed, 1));
    let began = tokio::time::Instant::now();
    let totals = many(&arguments, from, count);
    let took = began.elapsed();
    show(&format!(
        "{} seeds from {from}, {} runs in {:.1} s: {} failed; {} virtual hours, {} requests, {} writes, \
         {} applies, {} deletions, {} crashes",
        totals.seeds,
        totals.runs,
        took.as_secs_f64(),
        totals.failed,
        totals.seconds / 3600,
        totals.requests,
        totals.writes,
        totals.applies,
        totals.deletions,
        totals.crashes,
    ));
    if totals.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Runs seeds on some threads; the order in which they end is the only thing that is left to chance.
fn many(arguments: &Arguments, from: u64, count: u64) -> Totals {
    let jobs = match arguments.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let plan = plan(arguments);
    let next = AtomicU64::new(0);
    let totals = Mutex::new(Totals::default());
    let running = progress::Running::default();
    let (work, over) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (plan, next, totals, running, work) = (&plan, &next, &totals, &running, work.clone());
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || totals.lock().failed >= arguments.failures {
                        // The last one of these ends the reports.
                        drop(work);
                        return;
                    }
                    let seed = from.wrapping_add(number);
                    running.begin(seed);
                    let sums = one(seed, plan);
                    running.end(seed);
                    add(&mut totals.lock(), &sums);
                }
            });
        }
        drop(work);
        if count > 1 {
            progress::report(&running, &totals, count, &over);
        }
    });
    totals.into_inner()
}

/// What runs have besides users and their Applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extras {
    /// An `ApplicationSet` in two of five seeds.
    sets: bool,
    /// A hostile tenant with an account of the API server in four of five seeds.
    api: bool,
}

impl Extras {
    /// The options that ask for them.
    fn flags(self) -> String {
        let flags = [(self.sets, " --with-sets"), (self.api, " --with-api")];
        flags.into_iter().filter_map(|(has, flag)| has.then_some(flag)).collect()
    }
}

/// What is done with each seed.
struct Plan {
    verbose: bool,
    extras: Extras,
    kind: PlanKind,
}

enum PlanKind {
    /// It runs.
    Once,
    /// It runs twice, and the histories are compared.
    Twice,
    /// It runs with this death.
    Death(Death),
    /// It runs once for every place where its controller can die (F1, F2); or only for those around a write, from
    /// which the others differ in time alone.
    EveryDeath { only_writes: bool },
}

fn plan(arguments: &Arguments) -> Plan {
    let kind = match (arguments.crash_before, arguments.crash_after) {
        (Some(request), _) => PlanKind::Death(Death { request, is_after: false }),
        (None, Some(request)) => PlanKind::Death(Death { request, is_after: true }),
        (None, None) if arguments.crash_points => PlanKind::EveryDeath { only_writes: false },
        (None, None) if arguments.twice => PlanKind::Twice,
        (None, None) => PlanKind::Once,
    };
    Plan {
        verbose: arguments.verbose,
        extras: Extras { sets: arguments.with_sets, api: arguments.with_api },
        kind,
    }
}

/// Does with a seed what is planned.
fn one(seed: u64, plan: &Plan) -> Totals {
    let mut totals = Totals { seeds: 1, ..Totals::default() };
    let verbose = plan.verbose;
    match plan.kind {
        PlanKind::Once => {
            tell(
                &mut totals,
                seed,
                Troubles::OfSeed,
                plan,
                &observed(seed, Troubles::OfSeed, plan.extras, verbose),
            );
        }
        PlanKind::Twice => {
            let mut outcome = observed(seed, Troubles::OfSeed, plan.extras, verbose);
            if observed(seed, Troubles::OfSeed, plan.extras, false).trace != outcome.trace {
                outcome.violations.extend(failed("the same seed gave another history".to_owned()).violations);
            }
            tell(&mut totals, seed, Troubles::OfSeed, plan, &outcome);
        }
        PlanKind::Death(death) => {
            let troubles = Troubles::Only(Some(death));
            tell(&mut totals, seed, troubles, plan, &observed(seed, troubles, plan.extras, verbose));
        }
        PlanKind::EveryDeath { only_writes } => {
            let whole = observed(seed, Troubles::Only(None), plan.extras, verbose);
            tell(&mut totals, seed, Troubles::Only(None), plan, &whole);
            let points = if only_writes { whole.writing.clone() } else { (1..=whole.requests).collect() };
            let before = points.into_iter().map(|request| Death { request, is_after: false });
            let after = whole.writing.iter().map(|&request| Death { request, is_after: true });
            for death in before.chain(after) {
                let troubles = Troubles::Only(Some(death));
                tell(&mut totals, seed, troubles, plan, &observed(seed, troubles, plan.extras, verbose));
            }
        }
    }
    totals
}

fn observed(seed: u64, troubles: Troubles, extras: Extras, verbose: bool) -> Outcome {
    world::run(seed, troubles, extras, verbose)
        .unwrap_or_else(|error| failed(format!("the runtime cannot be made: {error}")))
}

fn failed(text: String) -> Outcome {
    let violation = observer::Violation { at: std::time::Duration::ZERO, invariant: "simulation", text };
    Outcome { violations: vec![violation], ..Outcome::default() }
}

/// Counts a run, and prints what broke in it.
fn tell(totals: &mut Totals, seed: u64, troubles: Troubles, plan: &Plan, outcome: &Outcome) {
    let sums = Totals {
        // Whoever plans the runs counts the seeds.
        seeds: 0,
        runs: 1,
        failed: u64::from(!outcome.violations.is_empty()),
        requests: outcome.requests,
        writes: outcome.writes,
        applies: outcome.applies,
        deletions: outcome.deletions,
        crashes: outcome.crashes,
        seconds: outcome.took.as_secs(),
    };
    add(totals, &sums);
    for violation in &outcome.violations {
        let at = violation.at.as_secs_f64();
        show(&format!("seed {seed} at {at:.3} s: {}: {}", violation.invariant, violation.text));
    }
    if !outcome.violations.is_empty() {
        let death = match troubles {
            Troubles::Only(Some(Death { request, is_after: false })) => format!(" --crash-before {request}"),
            Troubles::Only(Some(Death { request, is_after: true })) => format!(" --crash-after {request}"),
            // No request has this number.
            Troubles::Only(None) => " --crash-before 0".to_owned(),
            Troubles::OfSeed => String::new(),
        };
        let with = plan.extras.flags();
        show(&format!("replay: tiphys simulate --seed {seed}{death}{with} --verbose"));
    }
}

fn add(totals: &mut Totals, sums: &Totals) {
    totals.seeds += sums.seeds;
    totals.runs += sums.runs;
    totals.failed += sums.failed;
    totals.requests += sums.requests;
    totals.writes += sums.writes;
    totals.applies += sums.applies;
    totals.deletions += sums.deletions;
    totals.crashes += sums.crashes;
    totals.seconds += sums.seconds;
}

/// Runs seeds one after another and gives back the sums; what breaks is printed. For tests.
pub fn seeds(from: u64, count: u64, twice: bool) -> Totals {
    let kind = if twice { PlanKind::Twice } else { PlanKind::Once };
    all(from, count, &Plan { verbose: false, extras: Extras::default(), kind })
}

/// The same with an `ApplicationSet` in two of five seeds. For tests.
pub fn seeds_with_sets(from: u64, count: u64) -> Totals {
    all(
        from,
        count,
        &Plan { verbose: false, extras: Extras { sets: true, api: false }, kind: PlanKind::Once },
    )
}

/// Runs seeds with everything there is: sets, and a hostile tenant with an account of the API server. For tests.
pub fn seeds_with_api(from: u64, count: u64) -> Totals {
    let extras = Extras { sets: true, api: true };
    all(from, count, &Plan { verbose: false, extras, kind: PlanKind::Once })
}

/// Runs a seed for every write before and after which the controller of a seed can die (F1, F2). For tests.
pub fn crash_points(from: u64, count: u64) -> Totals {
    all(
        from,
        count,
        &Plan { verbose: false, extras: Extras::default(), kind: PlanKind::EveryDeath { only_writes: true } },
    )
}

fn all(from: u64, count: u64, plan: &Plan) -> Totals {
    let mut totals = Totals::default();
    for number in 0..count {
        add(&mut totals, &one(from.wrapping_add(number), plan));
    }
    totals
}

fn show(text: &str) {
    // A closed pipe ends quietly (CLI-1106). A line that waits in a buffer is a failing seed that nobody sees.
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}
