//! `appset.validate` and `appset.permission`: what the API answers about a set (EVAL-505, EVAL-506).

use super::super::world;
use super::environment::{Installation, set_of};
use crate::eval::fault::Fault;
use crate::eval::operation::Input;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tiphys_api::AppProject;
use tiphys_api::settings::Settings;
use tiphys_appset::permission::{self, ApiFacts, Refusal, Verb};
use tiphys_policy::rbac::{Rbac, RbacConfig, RbacOptions};

pub(super) fn with_facts<T>(
    projects: &BTreeMap<String, Arc<AppProject>>,
    settings: &Settings,
    control_plane: &str,
    ask: impl FnOnce(&ApiFacts<'_>) -> T,
) -> T {
    let project = |name: &str| projects.get(name).map(AsRef::as_ref);
    ask(&ApiFacts { settings, project: &project, control_plane_namespace: control_plane })
}

fn answer(member: &str, outcome: Result<(), Refusal>) -> Value {
    let refusal = outcome.err();
    let mut members = Map::new();
    members.insert(member.to_owned(), refusal.is_none().into());
    members.insert("code".to_owned(), json!(refusal.as_ref().map(|refusal| refusal.code.as_str())));
    members.insert("message".to_owned(), json!(refusal.map(|refusal| refusal.message)));
    Value::Object(members)
}

pub(super) fn validate(input: &mut Input) -> Result<Value, Fault> {
    let control_plane = input.text("controlPlaneNamespace").to_owned();
    let settings = world::settings(input);
    let set = set_of("applicationSet", input.take("applicationSet"), &control_plane)?;
    let installation = Installation::read(input, &settings)?;
    let outcome = with_facts(&installation.projects, &settings, &control_plane, |facts| {
        permission::validate(&set, facts)
    });
    Ok(answer("valid", outcome))
}

pub(super) fn permission(input: &mut Input) -> Result<Value, Fault> {
    let control_plane = input.text("controlPlaneNamespace").to_owned();
    let settings = world::settings(input);
    let word = input.get("request").get("verb").and_then(Value::as_str).unwrap_or_default();
    let verb = Verb::parse(word).ok_or_else(|| {
        Fault::invalid(format!("request.verb: expected create, update, get or delete, got {word:?}"))
    })?;
    let mut optional = |member: &str| match input.take(member) {
        Value::Null => Ok(None),
        manifest => set_of(member, manifest, &control_plane).map(Some),
    };
    let (submitted, existing) = (optional("applicationSet")?, optional("existing")?);
    let claims = input.take("claims");
    let config = RbacConfig::read(&world::texts(input, "rbac")).map_err(Fault::invalid)?;
    let installation = Installation::read(input, &settings)?;
    let rbac = Rbac::compile(&config).map_err(Fault::invalid)?;
    let projects = installation.projects.values().map(AsRef::as_ref);
    let rbac = rbac.with_options(RbacOptions::from_settings(&settings)).with_projects(projects);
    let caller = rbac.caller(claims.as_object());
    let outcome = with_facts(&installation.projects, &settings, &control_plane, |facts| {
        permission::permit(verb, &caller, submitted.as_ref(), existing.as_ref(), facts)
    });
    Ok(answer("allowed", outcome))
}
