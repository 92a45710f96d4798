//! The installation that a request describes, as it answers the questions of a generation.

use super::super::render::repository::Repositories;
use super::super::world;
use super::{plugin, stopped};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::Input;
use jiff::Timestamp;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use tiphys_api::cluster::Clusters;
use tiphys_api::names::{SECRET_TYPE_LABEL, annotation};
use tiphys_api::project::AppProject;
use tiphys_api::repository::Repository;
use tiphys_api::settings::Settings;
use tiphys_api::{ApplicationSet, repo_url};
use tiphys_appset::facts::{
    Access, Answer, DecisionQuestion, Decisions, Facts, GitContent, GitFile, GitQuestion, NoAnswer,
    PluginQuestion, ProviderQuestion, TextMap,
};
use tiphys_appset::generate::{Request, Stop, find_directories, find_files};
use tiphys_appset::params::{Params, as_floats};
use tiphys_appset::references::{Found, Namespaces, Purpose, Reference};
use tiphys_appset::work::Work;
use tiphys_go::template::Still;
use tiphys_policy::project::{EffectiveInputs, effective};

/// What a request describes.
pub(super) struct Environment {
    pub(super) set: ApplicationSet,
    pub(super) settings: Settings,
    pub(super) control_plane: String,
    pub(super) now: Timestamp,
    pub(super) projects: BTreeMap<String, Arc<AppProject>>,
    clusters: Arc<Clusters>,
    repositories: Vec<Repository>,
    repos: Repositories,
    data: Value,
    pub(super) config_maps: Value,
    pub(super) secrets: Value,
    pub(super) plugins: Value,
    /// What would need more than the request holds.
    needs: RefCell<Option<Fault>>,
}

impl Environment {
    pub(super) fn read(input: &mut Input) -> Result<Self, Fault> {
        let control_plane = input.text("controlPlaneNamespace").to_owned();
        let settings = world::settings(input);
        let set = set_of("applicationSet", input.take("applicationSet"), &control_plane)?;
        let installation = Installation::read(input, &settings)?;
        Ok(Self {
            set,
            now: world::instant(input, "now")?,
            projects: installation.projects,
            clusters: installation.clusters,
            repositories: installation.repositories,
            repos: Repositories::read(input)?,
            data: input.take("generatorData"),
            config_maps: input.take("configMaps"),
            secrets: input.take("secrets"),
            plugins: input.take("plugins"),
            needs: RefCell::default(),
            settings,
            control_plane,
        })
    }

    pub(super) fn with_request<T>(&self, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        // Equal requests give equal answers: time and chance are those of the request (EVAL-4).
        let still = Still(self.now);
        let work = Work::new(self.settings.application_sets().template_steps);
        ask(&Request {
            set: &self.set,
            settings: self.settings.application_sets(),
            matching: self.settings.project_matching(),
            control_plane_namespace: &self.control_plane,
            fresh: self.set.metadata.annotations.contains_key(annotation::SET_REFRESH),
            environment: &still,
            work: &work,
        })
    }

    /// A generation's result; where it would have needed more than the request holds, that is the error (EVAL-5).
    pub(super) fn answer<T>(&self, result: Result<T, Stop>) -> Result<T, Fault> {
        result.map_err(|stop| self.needs.take().unwrap_or_else(|| stopped(stop)))
    }

    /// What would need the network.
    pub(super) fn needed(&self) -> Option<Fault> {
        self.needs.take()
    }

    pub(super) fn need_network(&self, what: &str) -> NoAnswer {
        let fault = Fault::new(Code::FailedPrecondition, what).with_reason("network-required");
        *self.needs.borrow_mut() = Some(fault);
        NoAnswer::failed(what)
    }

    /// Parameters of a kind of generator that the request gives.
    fn given(&self, kind: &str) -> Answer<Arc<[Params]>> {
        let Some(Value::Array(sets)) = self.data.get(kind) else {
            return Err(self.need_network(&format!("generatorData has no {kind}")));
        };
        let read = |set: &Value| match as_floats(set.clone()) {
            Ok(Value::Object(set)) => Ok(set),
            Ok(_) => Err(NoAnswer::failed(format!("generatorData.{kind}: a set of parameters is no object"))),
            Err(error) => Err(NoAnswer::failed(error.to_string())),
        };
        sets.iter().map(read).collect()
    }

    /// A reference to an object of the control plane's namespace.
    pub(super) fn reference(&self, purpose: Purpose, name: &str) -> Reference {
        let own = self.control_plane.as_str();
        Reference::new(purpose, &Namespaces { set: own, control_plane: own }, name, "")
    }

    /// The data of an object that the request describes, where the set may use it; `None` where it is not described.
    /// Labels are not described: an object has those that its use needs.
    pub(super) fn described(&self, access: &Access, reference: &Reference) -> Answer<Option<TextMap>> {
        let objects = if reference.purpose.is_secret() { &self.secrets } else { &self.config_maps };
        let data = objects.get(&reference.name).and_then(Value::as_object).map(|members| {
            let texts =
                members.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            texts.collect::<TextMap>()
        });
        let labels = TextMap::from([(SECRET_TYPE_LABEL.to_owned(), "scm-creds".to_owned())]);
        let found = data.as_ref().map_or(Found::Unread, |data| Found::Object { labels: &labels, data });
        match access.refusal(reference, found) {
            None => Ok(data),
            Some(refusal) => Err(NoAnswer::Failed(refusal)),
        }
    }

    /// Refuses what a provider may not be asked with, as far as the request describes it.
    fn check_provider(&self, question: &ProviderQuestion) -> Answer<()> {
        let allowed = &self.settings.application_sets().allowed_scm_providers;
        for reference in question.references() {
            let Some(data) = self.described(&question.access, &reference)? else { continue };
            if let Some(refusal) = question.address_refusal(&reference, &data, allowed) {
                return Err(NoAnswer::Failed(refusal));
            }
        }
        Ok(())
    }

    fn tree(&self, question: &GitQuestion) -> Answer<&dyn tiphys_render::Tree> {
        let url = &question.repo_url;
        let is_registered = || {
            let of = |repository: &&Repository| repository.project == question.project;
            self.repositories.iter().filter(of).any(|repository| repo_url::same(&repository.url, url))
        };
        if let Some(refusal) = question.registration_refusal(is_registered) {
            return Err(NoAnswer::failed(refusal));
        }
        self.repos.tree(url).ok_or_else(|| {
            NoAnswer::failed(format!("repository {:?} is not among repos", repo_url::redact(url)))
        })
    }
}

/// A set; `apiVersion` and `kind` are optional, and so is its namespace (EVAL-60).
pub(super) fn set_of(path: &str, manifest: Value, control_plane: &str) -> Result<ApplicationSet, Fault> {
    let mut set: ApplicationSet = world::typed(path, manifest)?;
    if set.metadata.namespace.is_empty() {
        control_plane.clone_into(&mut set.metadata.namespace);
    }
    Ok(set)
}

/// Projects, clusters and repositories of a request.
pub(super) struct Installation {
    pub(super) projects: BTreeMap<String, Arc<AppProject>>,
    pub(super) clusters: Arc<Clusters>,
    pub(super) repositories: Vec<Repository>,
}

impl Installation {
    pub(super) fn read(input: &mut Input, settings: &Settings) -> Result<Self, Fault> {
        let mut projects: Vec<AppProject> = world::typed_list(input, "projects")?;
        let has_default =
            projects.iter().any(|project| project.name() == tiphys_api::project::DEFAULT_PROJECT);
        if input.flag("defaultProject") && !has_default {
            projects.push(AppProject::default_project(input.text("controlPlaneNamespace")));
        }
        let mut secrets = world::clusters(input);
        for (number, cluster) in secrets.iter_mut().enumerate() {
            // Clusters of the input are Secrets, later ones with greater names (ASET-39).
            cluster.secret_name = format!("cluster-{number:06}");
        }
        let clusters = Clusters::new(secrets, settings.in_cluster_enabled());
        let mut repositories = world::repositories(input);
        for repo in input.list("repos") {
            let text = |name: &str| repo.get(name).and_then(Value::as_str).unwrap_or_default();
            if !text("project").is_empty() {
                repositories
                    .push(Repository { project: text("project").into(), ..Repository::bare(text("url")) });
            }
        }
        let inputs = EffectiveInputs {
            projects: &projects,
            repositories: &repositories,
            clusters: clusters.all(),
            settings,
        };
        let in_force =
            |project: &AppProject| (project.name().to_owned(), Arc::new(effective(project, &inputs)));
        Ok(Self {
            projects: projects.iter().map(in_force).collect(),
            clusters: Arc::new(clusters),
            repositories,
        })
    }
}

impl Facts for Environment {
    fn project(&self, name: &str) -> Answer<Option<Arc<AppProject>>> {
        Ok(self.projects.get(name).cloned())
    }

    fn clusters(&self) -> Answer<Arc<Clusters>> {
        Ok(Arc::clone(&self.clusters))
    }

    fn directories(&self, question: &GitQuestion) -> Answer<Arc<[String]>> {
        let GitContent::Directories { hidden } = question.what else {
            return Err(NoAnswer::failed("files are asked for as directories"));
        };
        let found = find_directories(self.tree(question)?, hidden, None);
        found.map(Into::into).map_err(|error| NoAnswer::failed(error.to_string()))
    }

    fn files(&self, question: &GitQuestion) -> Answer<Arc<[GitFile]>> {
        let GitContent::Files { include, exclude, globbing } = &question.what else {
            return Err(NoAnswer::failed("directories are asked for as files"));
        };
        let found = find_files(self.tree(question)?, include, exclude, *globbing, None);
        found.map(Into::into).map_err(|error| NoAnswer::failed(error.to_string()))
    }

    fn plugin(&self, question: &PluginQuestion) -> Answer<Arc<[Params]>> {
        plugin::ask(self, question)
    }

    fn repositories(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        self.check_provider(question)?;
        self.given("scmProvider")
    }

    fn pull_requests(&self, question: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        self.check_provider(question)?;
        self.given("pullRequest")
    }

    fn decisions(&self, question: &DecisionQuestion) -> Answer<Decisions> {
        self.described(&question.access, &self.reference(Purpose::DecisionConfig, &question.config_map))?;
        self.given("clusterDecisionResource").map(Decisions::Given)
    }
}
