//! What one generation asked, and what it was answered.
//!
//! The generation runs where computations run, and cannot wait there: a question without an answer is noted, the answers
//! are gathered beside, and the generation is run again with them. Projects and clusters are those of one snapshot.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tiphys_api::AppProject;
use tiphys_api::cluster::Clusters;
use tiphys_appset::facts::{
    Answer, DecisionQuestion, Decisions, Facts, GitFile, GitQuestion, NoAnswer, PluginQuestion,
    ProviderQuestion,
};
use tiphys_appset::params::Params;
use tiphys_installation::NoProject;

use crate::World;

/// Questions of one generation.
const QUESTIONS_MAX: usize = 10_000;

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    Directories(GitQuestion),
    Files(GitQuestion),
    Plugin(PluginQuestion),
    Repositories(ProviderQuestion),
    PullRequests(ProviderQuestion),
    Decisions(DecisionQuestion),
}

impl Question {
    /// Equal for equal questions.
    fn key(&self) -> String {
        format!("{self:?}")
    }

    /// Whether somebody outside of the installation is asked, who may mind being asked often.
    fn is_outside(&self) -> bool {
        matches!(self, Self::Plugin(_) | Self::Repositories(_) | Self::PullRequests(_))
    }
}

/// What was answered.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Paths(Arc<[String]>),
    Files(Arc<[GitFile]>),
    Params(Arc<[Params]>),
    Decisions(Decisions),
}

/// Answers of services, for another look at the same set soon.
#[derive(Clone, Debug, Default)]
pub struct Remembered(HashMap<String, Given>);

/// Questions and answers of one generation.
pub struct Ledger {
    pub(crate) world: World,
    clusters: OnceLock<Arc<Clusters>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: HashMap<String, Result<Given, String>>,
    /// Answers of services, that may be used again.
    outside: Remembered,
    open: BTreeMap<String, Question>,
    /// There were too many.
    is_full: bool,
}

impl Ledger {
    /// Nothing was asked yet; what a former look was answered is used again.
    pub(crate) fn new(world: World, remembered: Remembered) -> Self {
        let answers = remembered.0.iter().map(|(key, given)| (key.clone(), Ok(given.clone()))).collect();
        let state = State { answers, outside: remembered, ..State::default() };
        Self { world, clusters: OnceLock::new(), state: Mutex::new(state) }
    }

    /// Takes the questions that are open.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn take_open(&self) -> Result<Vec<Question>, String> {
        let mut state = self.state.lock();
        if state.is_full {
            return Err(format!("the generators ask more than {QUESTIONS_MAX} questions"));
        }
        Ok(std::mem::take(&mut state.open).into_values().collect())
    }

    pub(crate) fn answered(&self, question: &Question, answer: Result<Given, String>) {
        let mut state = self.state.lock();
        let key = question.key();
        if let (true, Ok(given)) = (question.is_outside(), &answer) {
            state.outside.0.insert(key.clone(), given.clone());
        }
        state.answers.insert(key, answer);
    }

    /// What services answered, in this generation or in the one that it goes on from.
    pub fn outside(&self) -> Remembered {
        self.state.lock().outside.clone()
    }

    fn ask(&self, question: Question) -> Answer<Given> {
        let key = question.key();
        let mut state = self.state.lock();
        if let Some(answer) = state.answers.get(&key) {
            return answer.clone().map_err(NoAnswer::Failed);
        }
        if state.answers.len() + state.open.len() >= QUESTIONS_MAX {
            state.is_full = true;
        } else {
            state.open.insert(key, question);
        }
        Err(NoAnswer::Pending)
    }
}

/// What is answered is of the kind that was asked for.
fn mixed_up<T>() -> Answer<T> {
    Err(NoAnswer::failed("the answer is to another question"))
}

impl Facts for Ledger {
    fn project(&self, name: &str) -> Answer<Option<Arc<AppProject>>> {
        match self.world.project(name) {
            Ok(project) => Ok(Some(Arc::clone(project))),
            Err(NoProject::Missing) => Ok(None),
            Err(NoProject::Unreadable(text)) => Err(NoAnswer::failed(text)),
        }
    }

    fn clusters(&self) -> Answer<Arc<Clusters>> {
        Ok(Arc::clone(self.clusters.get_or_init(|| Arc::new(self.world.clusters.clone()))))
    }

    fn directories(&self, question: &GitQuestion) -> Answer<Arc<[String]>> {
        match self.ask(Question::Directories(question.clone()))? {
            Given::Paths(paths) => Ok(paths),
            _ => mixed_up(),
        }
    }

    fn files(&self, question: &GitQuestion) -> Answer<Arc<[GitFile]>> {
        match self.ask(Question::Files(question.clone()))? {
            Given::Files(files) => Ok(files),
            _ => mixed_up(),
        }
    }

    fn plugin(&self, question: &PluginQuestion) -> Answer<Arc<[Params]>> {
        match self.ask(Question::Plugin(question.clone()))? {
            Given::Params(sets) => Ok(sets),
            _ => mixed_up(),
        }
    }

    fn repositories(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        match self.ask(Question::Repositories(question.clone()))? {
            Given::Params(sets) => Ok(sets),
            _ => mixed_up(),
        }
    }

    fn pull_requests(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        match self.ask(Question::PullRequests(question.clone()))? {
            Given::Params(sets) => Ok(sets),
            _ => mixed_up(),
        }
    }

    fn decisions(&self, question: &DecisionQuestion) -> Answer<Decisions> {
        match self.ask(Question::Decisions(question.clone()))? {
            Given::Decisions(decisions) => Ok(decisions),
            _ => mixed_up(),
        }
    }
}
