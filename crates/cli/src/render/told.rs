//! What is told besides manifests: how they came about, and what a project would forbid (CLI-1030).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tiphys_api::AppProject;
use tiphys_api::application::ApplicationSource;
use tiphys_api::settings::Settings;
use tiphys_engine::compare::{Scope, builtin_scope};
use tiphys_object::{Gvk, access};
use tiphys_policy::project::{Resource, Target, destination_permitted, resource_permitted, source_permitted};
use tiphys_render::{Entry, Tree, TreeError, TreePath, WalkLimit};

use super::targets::Job;
use crate::failure::Failure;
use crate::terminal::read_file;

/// Files that an explanation lists.
const FILES_SHOWN: usize = 1_000;

/// A tree that notes which files are read.
pub(super) struct Noted {
    tree: Arc<dyn Tree>,
    read: Arc<Mutex<BTreeSet<TreePath>>>,
}

impl Noted {
    /// Notes into a set.
    pub(super) fn new(tree: Arc<dyn Tree>, read: Arc<Mutex<BTreeSet<TreePath>>>) -> Self {
        Self { tree, read }
    }
}

impl Tree for Noted {
    fn id(&self) -> &str {
        self.tree.id()
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        self.tree.subtree_id(path)
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        self.tree.entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        self.tree.list(path)
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        self.read.lock().insert(path.clone());
        self.tree.read(path, max_bytes)
    }

    fn escaping_link(&self, limit: &mut WalkLimit<'_>) -> Result<Option<TreePath>, TreeError> {
        self.tree.escaping_link(limit)
    }
}

/// How one source became manifests.
pub(super) fn explanation(job: &Job, source: &ApplicationSource, (kind, objects): (&str, usize)) -> String {
    let mut text = format!("{}: {}\n", job.shown, if kind.is_empty() { "only referenced" } else { kind });
    // Writing to a string cannot fail.
    let mut line = |name: &str, value: &str| {
        let _written = writeln!(text, "  {name}: {value}");
    };
    line("path", if source.path.is_empty() { "." } else { &source.path });
    if let Some(helm) = &source.helm {
        for file in &helm.value_files {
            line("value file", file);
        }
        if helm.values_object.is_some() || !helm.values.is_empty() {
            line("values", "of the source itself");
        }
        for one in &helm.parameters {
            let text = if one.force_string { " (text)" } else { "" };
            line("parameter", &format!("{}={}{text}", one.name, one.value));
        }
        for one in &helm.file_parameters {
            line("file parameter", &format!("{}={}", one.name, one.path));
        }
    }
    if let Some(kustomize) = &source.kustomize {
        for image in &kustomize.images {
            line("image", image);
        }
    }
    line("objects", &objects.to_string());
    text
}

/// The files that an application's sources were made from. Sources may read each other's, so they are told together.
pub(super) fn files(read: &BTreeSet<TreePath>) -> String {
    let mut text = String::new();
    for path in read.iter().take(FILES_SHOWN) {
        // Writing to a string cannot fail.
        let _written = writeln!(text, "  read: {}", path.as_str());
    }
    if read.len() > FILES_SHOWN {
        let _written = writeln!(text, "  read: {} more files", read.len() - FILES_SHOWN);
    }
    text
}

/// What a project would forbid of an application: its sources, its destination, and each object.
pub(super) fn forbidden(
    project: &AppProject,
    job: &Job,
    objects: &[Value],
    settings: &Settings,
) -> Vec<String> {
    let matching = settings.project_matching();
    // A directory is in no repository, and goes nowhere that anybody named.
    let sources = if job.is_directory() { &[] } else { job.sources() };
    let mut found: Vec<String> = sources
        .iter()
        .filter_map(|source| source_permitted(project, &source.repo_url, matching).message)
        .collect();
    let destination = &job.spec.destination;
    let target = |namespace| {
        let (server, name) = (destination.server.as_str(), destination.name.as_str());
        Target { server, name, namespace, ..Target::default() }
    };
    let own = &destination.namespace;
    let goes_somewhere = !destination.server.is_empty() || !destination.name.is_empty();
    if goes_somewhere {
        found.extend(destination_permitted(project, target(own), Ok(&[]), matching).message);
    }
    for object in objects {
        let gvk = Gvk::of(object);
        let name = access::name(object);
        let namespace = access::namespace(object);
        let scope = builtin_scope(&gvk.group_kind());
        // Without a cluster nobody says where others live: one that names a namespace lives in one.
        let namespaced = scope.map_or(!namespace.is_empty(), |scope| scope == Scope::Namespaced);
        let resource = Resource { group: &gvk.group, kind: &gvk.kind, name, namespaced };
        found.extend(resource_permitted(project, resource).message.map(|text| format!("{name}: {text}")));
        if goes_somewhere && namespaced && !namespace.is_empty() && namespace != own.as_str() {
            let refused = destination_permitted(project, target(namespace), Ok(&[]), matching).message;
            found.extend(refused.map(|text| format!("{}/{name}: {text}", gvk.kind)));
        }
    }
    found
}

/// The project of a file.
pub(super) fn read_project(path: &str) -> Result<AppProject, Failure> {
    let limits = tiphys_go::yaml::Limits { bytes_max: 64 << 20, depth_max: tiphys_go::nesting::DEPTH_MAX };
    let failed = |error: &dyn std::fmt::Display| Failure::generic(format!("{path}: {error}"));
    let value = tiphys_go::yaml::parse(&read_file(path)?, tiphys_go::yaml::Dialect::Sigs, &limits)
        .map_err(|error| failed(&error))?
        .unwrap_or_default();
    if value.get("kind").and_then(Value::as_str) != Some("AppProject") {
        return Err(failed(&"holds no AppProject"));
    }
    serde_json::from_value(value).map_err(|error| failed(&error))
}
