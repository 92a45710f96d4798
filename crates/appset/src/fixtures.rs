//! A world that tests ask.

#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tiphys_api::cluster::{Cluster, Clusters};
use tiphys_api::settings::{ApplicationSets, Settings, SettingsData};
use tiphys_api::{AppProject, ApplicationSet};
use tiphys_go::template::Still;
use tiphys_tree::MemoryTree;

use crate::facts::{
    Access, Answer, DecisionQuestion, Decisions, Facts, GitContent, GitFile, GitQuestion, NoAnswer,
    PluginQuestion, ProviderQuestion, TextMap,
};
use crate::generate::{Generated, Request, Stop, find_directories, find_files, generate, parameters};
use crate::params::Params;
use crate::references::{Found, Namespaces, Purpose, Reference};
use crate::work::Work;

/// The time of all tests.
pub(crate) const NOW: &str = "2026-05-04T07:30:00Z";

/// What there is.
pub(crate) struct World {
    pub(crate) projects: BTreeMap<String, Arc<AppProject>>,
    pub(crate) clusters: Result<Arc<Clusters>, String>,
    pub(crate) repos: BTreeMap<String, MemoryTree>,
    /// Sets of parameters by plugin, provider or decision.
    pub(crate) given: BTreeMap<String, Result<Vec<Value>, String>>,
    pub(crate) decisions: Option<Decisions>,
    /// Projects of `ConfigMaps`, Secrets and repositories, where they belong to one.
    pub(crate) owners: BTreeMap<&'static str, &'static str>,
    pub(crate) settings: Settings,
    /// What was asked for, and whether first answers are late.
    pub(crate) asked: RefCell<Vec<String>>,
    pub(crate) is_late: bool,
    /// Whether repositories were to be read without credentials, question by question.
    pub(crate) anonymous: RefCell<Vec<bool>>,
    pub(crate) known: RefCell<BTreeSet<String>>,
}

impl Default for World {
    fn default() -> Self {
        let project = AppProject::default_project("argocd");
        Self {
            projects: BTreeMap::from([("default".to_owned(), Arc::new(project))]),
            clusters: Ok(Arc::new(Clusters::new(Vec::new(), true))),
            repos: BTreeMap::new(),
            given: BTreeMap::new(),
            decisions: None,
            owners: BTreeMap::new(),
            settings: Settings::default(),
            asked: RefCell::default(),
            is_late: false,
            anonymous: RefCell::default(),
            known: RefCell::default(),
        }
    }
}

impl World {
    pub(crate) fn with_project(mut self, project: Value) -> Self {
        let project: AppProject = serde_json::from_value(project).unwrap();
        self.projects.insert(project.name().to_owned(), Arc::new(project));
        self
    }

    pub(crate) fn with_clusters(mut self, clusters: Vec<Cluster>) -> Self {
        self.clusters = Ok(Arc::new(Clusters::new(clusters, true)));
        self
    }

    pub(crate) fn with_repo(mut self, url: &str, files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, content)| (*path, content.as_bytes().to_vec()));
        self.repos.insert(url.to_owned(), MemoryTree::from_files(files).unwrap());
        self
    }

    pub(crate) fn with_given(mut self, of: &str, sets: Value) -> Self {
        self.given.insert(of.to_owned(), Ok(sets.as_array().unwrap().clone()));
        self
    }

    pub(crate) fn with_failing(mut self, of: &str, error: &str) -> Self {
        self.given.insert(of.to_owned(), Err(error.to_owned()));
        self
    }

    pub(crate) fn with_params(mut self, params: &[(&str, &str)]) -> Self {
        let mut data = BTreeMap::new();
        for (key, value) in params {
            data.insert(format!("applicationsetcontroller.{key}"), (*value).to_owned());
        }
        self.settings = Settings::new(SettingsData { params: data, ..SettingsData::default() });
        self
    }

    pub(crate) fn with_cm(mut self, cm: &[(&str, &str)]) -> Self {
        let cm = cm.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.settings = Settings::new(SettingsData { cm, ..SettingsData::default() });
        self
    }

    pub(crate) fn sets(&self) -> &ApplicationSets {
        self.settings.application_sets()
    }

    /// Notes a question; the first time it is asked its answer may be late.
    fn ask(&self, question: String) -> Answer<()> {
        self.asked.borrow_mut().push(question.clone());
        if self.is_late && self.known.borrow_mut().insert(question) {
            return Err(NoAnswer::Pending);
        }
        Ok(())
    }

    fn given(&self, of: &str) -> Answer<Arc<[Params]>> {
        let given = self.given.get(of).ok_or_else(|| NoAnswer::failed(format!("{of} is not there")))?;
        let sets = given.as_ref().map_err(|error| NoAnswer::failed(error.clone()))?;
        Ok(sets.iter().map(|set| params_of(set.clone())).collect())
    }

    /// Objects have the right labels and keys here; their projects decide.
    fn usable(&self, access: &Access, references: &[Reference]) -> Answer<()> {
        let labels = TextMap::from([("argocd.argoproj.io/secret-type".to_owned(), "scm-creds".to_owned())]);
        for reference in references {
            let owner = self.owners.get(reference.name.as_str()).copied().unwrap_or_default();
            let data = TextMap::from([
                ("project".to_owned(), owner.to_owned()),
                ("baseUrl".to_owned(), "http://h".to_owned()),
                (reference.key.clone(), "-----BEGIN CERTIFICATE-----".to_owned()),
            ]);
            if let Some(refusal) = access.refusal(reference, Found::Object { labels: &labels, data: &data }) {
                return Err(NoAnswer::Failed(refusal));
            }
        }
        Ok(())
    }

    fn registered(&self, question: &GitQuestion) -> Answer<()> {
        self.anonymous.borrow_mut().push(question.without_credentials);
        let is_own =
            || self.owners.get(question.repo_url.as_str()).is_some_and(|own| *own == question.project);
        question.registration_refusal(is_own).map_or(Ok(()), |refusal| Err(NoAnswer::Failed(refusal)))
    }

    pub(crate) fn generate(&self, set: &ApplicationSet) -> Result<Generated, Stop> {
        with_request(self, set, |request| generate(request, self))
    }

    pub(crate) fn parameters(&self, set: &ApplicationSet) -> Result<Vec<Params>, Stop> {
        with_request(self, set, |request| parameters(request, self))
    }

    /// The sets of parameters as JSON texts, or the error.
    pub(crate) fn sets_of(&self, set: &ApplicationSet) -> Result<Vec<String>, String> {
        match self.parameters(set) {
            Ok(sets) => Ok(sets
                .into_iter()
                .map(|set| crate::params::for_json(Value::Object(set)).to_string())
                .collect()),
            Err(Stop::Pending) => Err("pending".to_owned()),
            Err(Stop::Failed(failure)) => Err(failure.message),
        }
    }
}

pub(crate) fn now() -> jiff::Timestamp {
    NOW.parse().unwrap()
}

pub(crate) fn with_request<T>(world: &World, set: &ApplicationSet, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    let (environment, work) = (Still(now()), Work::new(world.sets().template_steps));
    ask(&Request {
        set,
        settings: world.sets(),
        matching: world.settings.project_matching(),
        control_plane_namespace: "argocd",
        fresh: false,
        environment: &environment,
        work: &work,
    })
}

pub(crate) fn params_of(value: Value) -> Params {
    match crate::params::as_floats(value).unwrap() {
        Value::Object(set) => set,
        other => panic!("{other}"),
    }
}

impl Facts for World {
    fn project(&self, name: &str) -> Answer<Option<Arc<AppProject>>> {
        Ok(self.projects.get(name).cloned())
    }

    fn clusters(&self) -> Answer<Arc<Clusters>> {
        self.clusters.clone().map_err(NoAnswer::Failed)
    }

    fn directories(&self, question: &GitQuestion) -> Answer<Arc<[String]>> {
        self.ask(format!("directories of {} at {}", question.repo_url, question.revision))?;
        self.registered(question)?;
        let tree =
            self.repos.get(&question.repo_url).ok_or_else(|| NoAnswer::failed("no such repository"))?;
        let GitContent::Directories { hidden } = question.what else { panic!("{question:?}") };
        Ok(find_directories(tree, hidden, None).map_err(|error| NoAnswer::failed(error.to_string()))?.into())
    }

    fn files(&self, question: &GitQuestion) -> Answer<Arc<[GitFile]>> {
        let GitContent::Files { include, exclude, globbing } = &question.what else { panic!("{question:?}") };
        self.ask(format!("files {include:?} of {} at {}", question.repo_url, question.revision))?;
        self.registered(question)?;
        let tree =
            self.repos.get(&question.repo_url).ok_or_else(|| NoAnswer::failed("no such repository"))?;
        let found = find_files(tree, include, exclude, *globbing, None);
        Ok(found.map_err(|error| NoAnswer::failed(error.to_string()))?.into())
    }

    fn plugin(&self, question: &PluginQuestion) -> Answer<Arc<[Params]>> {
        self.ask(format!("plugin {} {}", question.config_map, Value::Object(question.parameters.clone())))?;
        let namespaces = Namespaces { set: "argocd", control_plane: "argocd" };
        let config = Reference::new(Purpose::PluginConfig, &namespaces, &question.config_map, "");
        self.usable(&question.access, &[config])?;
        self.given(&question.config_map)
    }

    fn repositories(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        self.ask(format!("repositories of {} {}", question.provider, Value::Object(question.block.clone())))?;
        self.usable(&question.access, &question.references())?;
        self.given(question.provider)
    }

    fn pull_requests(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        self.ask(format!(
            "pull requests of {} {}",
            question.provider,
            Value::Object(question.block.clone())
        ))?;
        self.given(question.provider)
    }

    fn decisions(&self, question: &DecisionQuestion) -> Answer<Decisions> {
        self.ask(format!("decisions of {}", question.config_map))?;
        self.decisions.clone().ok_or_else(|| NoAnswer::failed("no such ConfigMap"))
    }
}

/// A set called `s` with generators and a simple template.
pub(crate) fn set(spec: Value) -> ApplicationSet {
    let mut spec = spec;
    if spec.get("template").is_none() {
        spec["template"] = json!({"metadata": {"name": "{{name}}"}, "spec": {"project": "default",
            "source": {"repoURL": "https://h/r", "path": "p"}, "destination": {"name": "in-cluster"}}});
    }
    let metadata = json!({"name": "s", "namespace": "argocd", "uid": "u"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The same, which speaks Go templates.
pub(crate) fn go_set(generators: Value) -> ApplicationSet {
    set(json!({"goTemplate": true, "generators": generators, "template": {
        "metadata": {"name": "x"}, "spec": {"project": "default", "destination": {"name": "in-cluster"}}}}))
}

pub(crate) fn fast_set(generators: Value) -> ApplicationSet {
    set(json!({"generators": generators}))
}

/// A registered cluster.
pub(crate) fn cluster(name: &str, labels: &[(&str, &str)]) -> Cluster {
    Cluster {
        name: name.to_owned(),
        server: format!("https://{name}"),
        secret_name: format!("cluster-{name}"),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..Cluster::default()
    }
}
