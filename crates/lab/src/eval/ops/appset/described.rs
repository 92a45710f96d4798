//! The inputs file of `appset generate --offline`: what a request of `appset.generate` holds, in a file (ASET-305).

use super::super::world;
use super::api;
use super::environment::Environment;
use super::{CLUSTERS, CONFIG_MAPS, CONTROL_PLANE, DEFAULT_PROJECT, GENERATOR_DATA, NOW, PLUGINS, PROJECTS};
use super::{REPOS, REPOSITORIES, SECRETS, SETTINGS};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Strictness};
use crate::eval::shape::{self, Member, Shape, default};
use serde_json::{Map, Value};
use std::path::Path;
use tiphys_appset::facts::Facts;
use tiphys_appset::generate::Request;
use tiphys_appset::permission::{self, Refusal};
use tiphys_cli::{Described, Subject};

/// Members of the file. What requests call `params` is `controller` there.
const INPUTS: &[Member] = &[
    CLUSTERS,
    PROJECTS,
    DEFAULT_PROJECT,
    REPOS,
    REPOSITORIES,
    CONFIG_MAPS,
    SECRETS,
    PLUGINS,
    GENERATOR_DATA,
    SETTINGS,
    default(CONTROLLER, Shape::TextMap, "{}"),
    CONTROL_PLANE,
    NOW,
];
const CONTROLLER: &str = "controller";

/// Reads a description. Nothing in it is passed over: a member with another name, or another shape, is an error.
pub(in crate::eval) fn describe(subject: Subject) -> Result<Box<dyn Described>, Fault> {
    let Subject { set, inputs, folder, now } = subject;
    let Value::Object(mut given) = inputs else {
        return Err(unfit(format!("an object is expected; its members are {}", members())));
    };
    if let Some(unknown) = given.keys().find(|key| INPUTS.iter().all(|member| member.name != key.as_str())) {
        return Err(unfit(format!("unknown member \"{unknown}\"; there are {}", members())));
    }
    given.entry("now").or_insert_with(|| now.to_string().into());
    let mut checked = shape::check(given, INPUTS, Strictness::Strict)?;
    check_clusters(&checked)?;
    locate(&mut checked, &folder);
    let params = checked.remove(CONTROLLER).unwrap_or_default();
    checked.insert(world::PARAMS.name.to_owned(), params);
    checked.insert(super::SET.name.to_owned(), set);
    Ok(Box::new(Environment::read(&mut Input::of(checked))?))
}

fn unfit(text: String) -> Fault {
    Fault::new(Code::InvalidInput, text)
}

fn members() -> String {
    INPUTS.iter().map(|member| member.name).collect::<Vec<_>>().join(", ")
}

/// A cluster that is nowhere would be one that no Application is ever for.
fn check_clusters(checked: &Map<String, Value>) -> Result<(), Fault> {
    let clusters = checked.get(CLUSTERS.name).and_then(Value::as_array).into_iter().flatten();
    let is_nowhere =
        |cluster: &Value| cluster.get("server").and_then(Value::as_str).unwrap_or_default().is_empty();
    match clusters.enumerate().find(|(_, cluster)| is_nowhere(cluster)) {
        Some((index, _)) => Err(unfit(format!("clusters[{index}].server: required member is missing"))),
        None => Ok(()),
    }
}

/// Folders of repositories are meant as the file sees them.
fn locate(checked: &mut Map<String, Value>, folder: &Path) {
    let repos = checked.get_mut(REPOS.name).and_then(Value::as_array_mut).into_iter().flatten();
    for path in repos.filter_map(|repo| repo.get_mut("path")) {
        if let Some(relative) = path.as_str() {
            *path = folder.join(relative).to_string_lossy().into_owned().into();
        }
    }
}

impl Described for Environment {
    fn ask(&self, ask: &mut dyn FnMut(&Request<'_>, &dyn Facts)) {
        self.with_request(|request| ask(request, self));
    }

    fn lacking(&self) -> Option<String> {
        self.needed().map(|fault| fault.message)
    }

    fn refusal(&self) -> Option<Refusal> {
        api::with_facts(&self.projects, &self.settings, &self.control_plane, |facts| {
            permission::validate(&self.set, facts).err()
        })
    }
}
