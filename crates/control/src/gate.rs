//! Keeps one slow repository or cluster from taking all workers (CTL-141, INV-13, INV-16).
//!
//! A bounded number of workers is busy with one cluster, or waits for one repository or plugin or to render a large source,
//! at the same time; whoever comes on top of that gives its worker back and is put into the queue again when a place
//! becomes free. Nobody asks in a circle.
//!
//! All that one project does has a bound, too, however many repositories and clusters it names: three quarters of the
//! workers, and a quarter of them for its sources. The sources of all projects together take fewer than one cluster has
//! places.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tiphys_api::cluster::ClusterKey;

use crate::app_key::AppKey;
use crate::queue::row::prune;
use crate::queue::{Priority, Row};
use crate::scheduler::Scheduler;

/// What applications share, and may find slow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shared {
    /// A repository, by URL.
    Repository(String),
    /// The same for one project, by its name and the URL: a repository may be one for all teams.
    RepositoryOf(String, String),
    /// A destination cluster, by its identity.
    Cluster(ClusterKey),
    /// Workers of a project, whatever they do, by its name; of Applications that name a project which does not permit their
    /// namespace, by the namespace and a slash.
    Project(String),
    /// Sources that are resolved, fetched and rendered, of all projects together.
    Sources,
    /// The same of one project, by its name.
    SourcesOf(String),
    /// A plugin, by its name; an empty one stands for all that are asked whether a source is theirs.
    Plugin(String),
    /// The one turn of sources that take much memory.
    LargeRendering,
    /// The same for those of one project, by its name.
    LargeRenderingOf(String),
    /// Renderings of a project, by its name.
    Rendering(String),
}

/// How many workers may be inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// At one repository or plugin, or for renderings of one project, large ones besides.
    pub(crate) repository: usize,
    /// At one cluster, or for the turn of large renderings; half of that with the sources of one project.
    pub(crate) cluster: usize,
    /// With Applications of one project.
    pub(crate) project: usize,
}

impl Limits {
    /// At most half of the workers for one cluster, and of those half for one repository; three quarters for one project.
    pub(crate) fn of(workers: usize) -> Self {
        let cluster = (workers / 2).max(1);
        Self { repository: cluster.div_ceil(2), cluster, project: (workers - workers.div_ceil(4)).max(1) }
    }

    fn sources(self) -> usize {
        (self.cluster - self.cluster / 4).max(1)
    }

    /// How many may be inside.
    fn at(self, shared: &Shared) -> usize {
        match shared {
            Shared::Repository(_)
            | Shared::Plugin(_)
            | Shared::LargeRenderingOf(_)
            | Shared::Rendering(_) => self.repository,
            // A place is held until the sources are rendered, however long that takes.
            Shared::RepositoryOf(..) => (self.repository / 2).max(1),
            Shared::Cluster(_) | Shared::LargeRendering => self.cluster,
            // Whoever waits for a source keeps its place at the cluster, which most applications share: some of those
            // places stay for work that needs no source, such as healing.
            Shared::Sources => self.sources(),
            // Two at least, so that one repository of a project does not hold up another.
            Shared::SourcesOf(_) => self.cluster.div_ceil(2).max(2).min(self.sources()),
            Shared::Project(_) => self.project,
        }
    }
}

/// Counts who is where. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Gates {
    state: Arc<Mutex<HashMap<Shared, Gate>>>,
    scheduler: Scheduler,
    limits: Limits,
}

#[derive(Default)]
struct Gate {
    inside: usize,
    outside: Line,
}

/// Applications that found no place; bounded by their number, each stands once. Urgent ones go first, a few at a time.
#[derive(Default)]
struct Line {
    standing: HashMap<AppKey, Priority>,
    urgent: VecDeque<AppKey>,
    routine: VecDeque<AppKey>,
    row: Row,
}

impl Line {
    fn push(&mut self, key: &AppKey, priority: Priority) {
        if self.standing.get(key).is_some_and(|standing| *standing >= priority) {
            return;
        }
        // One that is raised leaves an outdated entry behind, which is skipped.
        self.standing.insert(key.clone(), priority);
        match priority {
            Priority::Urgent => self.urgent.push_back(key.clone()),
            Priority::Routine => self.routine.push_back(key.clone()),
        }
        let standing = &self.standing;
        prune(&mut self.routine, standing.len(), |key| standing.get(key) == Some(&Priority::Routine));
    }

    fn pop(&mut self) -> Option<(AppKey, Priority)> {
        for priority in self.row.order() {
            let list = match priority {
                Priority::Urgent => &mut self.urgent,
                Priority::Routine => &mut self.routine,
            };
            while let Some(key) = list.pop_front() {
                if self.standing.get(&key) == Some(&priority) {
                    self.standing.remove(&key);
                    self.row.took(priority, !self.routine.is_empty());
                    return Some((key, priority));
                }
            }
        }
        None
    }
}

/// A place; dropping it lets the next one in.
pub(crate) struct Place {
    gates: Gates,
    shared: Shared,
}

impl Gates {
    /// Who is let in later goes through the scheduler.
    pub(crate) fn new(limits: Limits, scheduler: Scheduler) -> Self {
        Self { state: Arc::default(), scheduler, limits }
    }

    /// A place at every one of these, or none at all and a place in the line.
    pub(crate) fn enter(
        &self,
        key: &AppKey,
        priority: Priority,
        all: impl IntoIterator<Item = Shared>,
    ) -> Option<Vec<Place>> {
        let mut places = Vec::new();
        for shared in all {
            let limit = self.limits.at(&shared);
            let mut state = self.state.lock();
            let gate = state.entry(shared.clone()).or_default();
            if gate.inside >= limit {
                gate.outside.push(key, priority);
                return None;
            }
            gate.inside += 1;
            drop(state);
            places.push(Place { gates: self.clone(), shared });
        }
        Some(places)
    }

    /// How many are inside at the busiest cluster.
    pub(crate) fn busiest_cluster(&self) -> usize {
        let state = self.state.lock();
        let clusters = state.iter().filter(|(shared, _)| matches!(shared, Shared::Cluster(_)));
        clusters.map(|(_, gate)| gate.inside).max().unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next: Vec<(AppKey, Priority)> = {
            let mut state = self.gates.state.lock();
            let Some(gate) = state.get_mut(&self.shared) else { return };
            gate.inside = gate.inside.saturating_sub(1);
            if gate.inside == 0 {
                // Who is called may find nothing left to do and never come in, and then would call nobody. So
                // the last one out calls all: whenever somebody stands outside, somebody is inside.
                let gate = state.remove(&self.shared);
                gate.into_iter().flat_map(|mut gate| std::iter::from_fn(move || gate.outside.pop())).collect()
            } else {
                gate.outside.pop().into_iter().collect()
            }
        };
        for (key, priority) in next {
            self.gates.scheduler.enqueue(key, priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(limit: usize) -> (Gates, Scheduler) {
        let queue = Scheduler::new(tiphys_source::Clock::real());
        (Gates::new(Limits { repository: limit, cluster: limit, project: limit }, queue.clone()), queue)
    }

    fn at(urls: &[&str]) -> Vec<Shared> {
        urls.iter().map(|url| Shared::Repository((*url).to_owned())).collect()
    }

    #[tokio::test]
    async fn ctl_141_one_repository_gets_its_share_only() {
        let (gates, queue) = gates(2);
        let key = |name| AppKey::new("argocd", name);
        let first = gates.enter(&key("a"), Priority::Routine, at(&["slow"])).unwrap();
        let second = gates.enter(&key("b"), Priority::Routine, at(&["slow", "other"])).unwrap();
        assert!(gates.enter(&key("c"), Priority::Routine, at(&["other", "slow"])).is_none());
        assert!(gates.enter(&key("c"), Priority::Routine, at(&["slow"])).is_none());
        assert!(gates.enter(&key("d"), Priority::Routine, at(&["other"])).is_some());
        assert_eq!(queue.depth(), 0);
        drop(first);
        assert_eq!(*queue.next().await.unwrap().key(), key("c"));
        assert_eq!(queue.depth(), 0);
        drop(second);
        assert!(gates.state.lock().is_empty());
    }

    #[tokio::test]
    async fn ctl_141_nobody_is_left_outside_an_empty_gate() {
        let (gates, queue) = gates(1);
        let key = |name| AppKey::new("argocd", name);
        let inside = gates.enter(&key("a"), Priority::Routine, at(&["slow"])).unwrap();
        assert!(gates.enter(&key("b"), Priority::Routine, at(&["slow"])).is_none());
        assert!(gates.enter(&key("c"), Priority::Routine, at(&["slow"])).is_none());
        drop(inside);
        // The first one called finds nothing to do and never enters; the second is called all the same.
        let called = [queue.next().await.unwrap().key().clone(), queue.next().await.unwrap().key().clone()];
        assert_eq!(called, [key("b"), key("c")]);
        assert!(gates.state.lock().is_empty());
    }

    #[tokio::test]
    async fn ctl_141_urgent_applications_are_let_in_first_and_once() {
        let (gates, queue) = gates(1);
        let key = |name| AppKey::new("argocd", name);
        let inside = gates.enter(&key("a"), Priority::Routine, at(&["slow"])).unwrap();
        for name in ["b", "c"] {
            assert!(gates.enter(&key(name), Priority::Routine, at(&["slow"])).is_none());
        }
        assert!(gates.enter(&key("c"), Priority::Urgent, at(&["slow"])).is_none());
        drop(inside);
        assert_eq!(queue.depth(), 2);
        assert_eq!(*queue.next().await.unwrap().key(), key("c"));
        assert_eq!(*queue.next().await.unwrap().key(), key("b"));
    }

    /// The line of a gate that is never empty, as the queue.
    #[test]
    fn inv_10_applications_that_are_raised_again_and_again_pile_nothing_up() {
        let key = |name: &str| AppKey::new("argocd", name);
        let flood: Vec<AppKey> = (0..8).map(|number| key(&format!("flood-{number}"))).collect();
        let mut line = Line::default();
        for name in ["quiet-0", "quiet-1"] {
            line.push(&key(name), Priority::Routine);
        }
        for _ in 0..1_000 {
            for key in &flood {
                line.push(key, Priority::Routine);
                line.push(key, Priority::Urgent);
            }
            for _ in 0..=flood.len() {
                let (key, priority) = line.pop().unwrap();
                if priority == Priority::Routine {
                    line.push(&key, Priority::Routine);
                }
            }
            assert!(line.routine.len() <= 2 * (flood.len() + 2), "{}", line.routine.len());
        }
    }

    #[test]
    fn inv_16_workers_are_left_whatever_a_project_names() {
        let key = AppKey::new("argocd", "a");
        for workers in [2, 3, 4, 5, 8, 40, 41] {
            let gates = Gates::new(Limits::of(workers), Scheduler::new(tiphys_source::Clock::real()));
            let enter = |project: &str, number: usize| {
                let cluster = ClusterKey::shared(&number.to_string());
                let all = [Shared::Cluster(cluster), Shared::Project(project.to_owned())];
                gates.enter(&key, Priority::Urgent, all)
            };
            let fetch = |project: &str, number: usize| {
                let all =
                    [Shared::SourcesOf(project.to_owned()), Shared::Repository(format!("{project}{number}"))];
                gates.enter(&key, Priority::Urgent, all)
            };
            let greedy: Vec<_> = (0..workers).filter_map(|number| enter("greedy", number)).collect();
            assert!(greedy.len() < workers && 2 * greedy.len() >= workers, "{workers}");
            assert!(enter("quiet", workers).is_some(), "{workers}");
            let fetching: Vec<_> = (0..workers).filter_map(|number| fetch("greedy", number)).collect();
            let quarter = (workers / 2).div_ceil(2).max(2);
            assert_eq!(fetching.len(), quarter.min(workers / 2), "{workers}");
            assert!(fetch("quiet", 0).is_some(), "{workers}");
        }
    }

    /// Forty repositories that answer a byte a second had all places at the cluster that everybody deploys to, and nothing
    /// there was healed for a minute.
    #[test]
    fn inv_16_slow_sources_leave_places_at_the_cluster() {
        let key = AppKey::new("argocd", "a");
        for workers in [8, 12, 40, 41] {
            let gates = Gates::new(Limits::of(workers), Scheduler::new(tiphys_source::Clock::real()));
            let enter = |project: &str| {
                let cluster = Shared::Cluster(ClusterKey::shared("one"));
                gates.enter(&key, Priority::Urgent, [Shared::Project(project.to_owned()), cluster])
            };
            // Who finds no place for its sources gives the others back.
            let fetch = |project: &str, number: usize| {
                let mut places = enter(project)?;
                let sources = [Shared::SourcesOf(project.to_owned()), Shared::Sources];
                places.extend(gates.enter(&key, Priority::Urgent, sources)?);
                let repository = Shared::Repository(format!("{project}{number}"));
                places.extend(gates.enter(&key, Priority::Urgent, [repository])?);
                Some(places)
            };
            let mut held: Vec<_> = (0..workers).filter_map(|number| fetch("greedy", number)).collect();
            assert!(fetch("quiet", 0).is_some(), "{workers}: one project leaves sources to the others");
            for project in ["another", "third"] {
                held.extend((0..workers).filter_map(|number| fetch(project, number)));
            }
            assert!(
                enter("quiet").is_some(),
                "{workers}: whatever projects do, what needs no source goes on"
            );
        }
    }

    /// A project whose renderings take long leaves places at a repository that other projects use, too.
    #[test]
    fn inv_16_a_project_has_half_of_the_places_at_a_repository() {
        let gates = Gates::new(Limits::of(40), Scheduler::new(tiphys_source::Clock::real()));
        let key = AppKey::new("argocd", "a");
        let enter = |project: &str| {
            let all = [Shared::RepositoryOf(project.into(), "one".into()), Shared::Repository("one".into())];
            gates.enter(&key, Priority::Routine, all)
        };
        let greedy: Vec<_> = (0..20).filter_map(|_| enter("greedy")).collect();
        assert_eq!(greedy.len(), 5);
        let others: Vec<_> = (0..20).filter_map(|_| enter("quiet")).collect();
        assert_eq!(others.len(), 5);
    }

    #[test]
    fn ctl_141_half_of_the_workers_are_kept_from_every_cluster() {
        let limits = Limits::of(40);
        assert_eq!((limits.cluster, limits.repository, limits.project), (20, 10, 30));
        assert_eq!((Limits::of(1).cluster, Limits::of(1).repository), (1, 1));
        let (gates, _) = gates(1);
        let key = AppKey::new("argocd", "a");
        let _one = gates.enter(&key, Priority::Routine, [Shared::Cluster(ClusterKey::shared("a"))]);
        // A cluster and a repository of the same name have nothing to do with each other.
        assert!(gates.enter(&key, Priority::Routine, at(&["a"])).is_some());
        assert_eq!(gates.busiest_cluster(), 1);
    }
}
