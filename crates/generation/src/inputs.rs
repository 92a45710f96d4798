//! One generation: what it is made from, and its conversation with those who answer.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use tiphys_api::ApplicationSet;
use tiphys_api::codes::SetReason;
use tiphys_api::settings::ApplicationSets;
use tiphys_appset::facts::Facts;
use tiphys_appset::generate::{Failure, Request, Stop};
use tiphys_appset::work::Work;
use tiphys_go::live;
use tiphys_go::template::Environment;
use tiphys_source::Size;

use crate::ledger::{Ledger, Remembered};
use crate::{Answerer, World, answer};

/// Bytes that a generation in a small turn may hold: those of some two thousand Applications.
const SMALL_BYTES_MAX: usize = 16 << 20;
/// Rounds of questions and answers of one generation: each matrix in the other asks once more.
const TURNS_MAX: usize = 16;

/// Fills bytes with chance.
pub type Chance = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// What templates ask the machine. They see no variables, hosts or clusters.
struct Machine {
    now: Timestamp,
    chance: Chance,
}

impl Environment for Machine {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn random(&self, bytes: &mut [u8]) {
        (self.chance)(bytes);
    }
}

/// What is generated, and when.
#[derive(Clone)]
pub struct Subject {
    /// The set.
    pub set: Arc<ApplicationSet>,
    /// The installation.
    pub world: World,
    /// Settings for sets: the installation's, or stricter ones.
    pub settings: ApplicationSets,
    /// Whether revisions are resolved freshly (ASET-51).
    pub fresh: bool,
    /// What templates take for the time.
    pub now: Timestamp,
    /// What templates take for chance.
    pub chance: Chance,
    /// What services answered a moment ago.
    pub remembered: Remembered,
}

impl fmt::Debug for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Subject").field("set", &self.set.metadata.name).finish_non_exhaustive()
    }
}

/// What a generation is made from; it goes to where computations run.
pub struct Inputs {
    /// The set.
    pub set: Arc<ApplicationSet>,
    /// What was asked, and what it was answered.
    pub ledger: Ledger,
    settings: ApplicationSets,
    machine: Machine,
    fresh: bool,
    /// What all runs over the generators may do together.
    work: Work,
}

impl Inputs {
    /// Nothing was asked yet.
    pub fn new(subject: Subject) -> Self {
        let Subject { set, world, settings, fresh, now, chance, remembered } = subject;
        Self {
            work: Work::new(settings.template_steps),
            set,
            ledger: Ledger::new(world, remembered),
            settings,
            machine: Machine { now, chance },
            fresh,
        }
    }

    /// Asks with the request that the inputs are.
    pub fn with_request<T>(&self, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        let world = &self.ledger.world;
        ask(&Request {
            set: &self.set,
            settings: &self.settings,
            matching: world.settings.project_matching(),
            control_plane_namespace: &world.namespace,
            fresh: self.fresh,
            environment: &self.machine,
            work: &self.work,
        })
    }

    /// Asks, answers and asks again until there is a result.
    ///
    /// # Errors
    /// When something failed, or nobody comes to an end.
    pub async fn converse<T: Send + 'static>(
        self: &Arc<Self>,
        by: &Answerer,
        work: impl Fn(&Request<'_>, &dyn Facts) -> Result<T, Stop> + Clone + Send + 'static,
    ) -> Result<T, Failure> {
        let failed = |why: String| Failure::new(SetReason::ApplicationGenerationFromParamsError, why);
        for _ in 0..TURNS_MAX {
            match self.in_turn(by, work.clone()).await.map_err(failed)? {
                Ok(done) => return Ok(done),
                Err(Stop::Failed(failure)) => return Err(failure),
                Err(Stop::Pending) => {}
            }
            let open = self.ledger.take_open().map_err(failed)?;
            answer::all(by, self, open).await;
        }
        Err(failed(format!("the generators ask further questions after {TURNS_MAX} answers")))
    }

    /// Works in a turn of the set's project: in a small one, and in the large one if the memory of that does not do.
    async fn in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        by: &Answerer,
        work: impl Fn(&Request<'_>, &dyn Facts) -> Result<T, Stop> + Clone + Send + 'static,
    ) -> Result<Result<T, Stop>, String> {
        for size in [Size::Small, Size::Large] {
            let turn = by.compute.turn(self.set.rbac_project(), size).await;
            let bound = match size {
                Size::Small => SMALL_BYTES_MAX.min(self.settings.generation_bytes),
                Size::Large => self.settings.generation_bytes,
            };
            let (inputs, work) = (Arc::clone(self), work.clone());
            let run = move || {
                let _turn = turn;
                live::within_noting(bound, || inputs.with_request(|request| work(request, &inputs.ledger)))
            };
            match by.compute.run(run).await? {
                (Err(Stop::Failed(_)), live::Noted::Refused) if size == Size::Small => {}
                (result, _) => return Ok(result),
            }
        }
        Err("the generators need too much memory".to_owned())
    }

    /// The settings that are in force.
    pub(crate) fn settings(&self) -> &ApplicationSets {
        &self.settings
    }
}
