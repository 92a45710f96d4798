//! Actions that users define as Lua scripts (ENG-135..138).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::access;

use super::{Action, ActionError, Step};
use crate::scripts::{DataScript, Runner};

/// Writes one action may ask for.
const STEPS_MAX: usize = 100;
const MAP_KEY: &str = "resource.customizations";

/// The actions that users define for one kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Custom {
    #[serde(rename = "discovery.lua")]
    discovery: String,
    definitions: Vec<Definition>,
    #[serde(rename = "mergeBuiltinActions")]
    merge: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Definition {
    name: String,
    #[serde(rename = "action.lua")]
    script: String,
}

/// What discovery says of one action.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Discovered {
    disabled: Option<bool>,
    icon_class: Option<String>,
    display_name: Option<String>,
    params: Option<Vec<Param>>,
}

#[derive(Debug, Deserialize)]
struct Param {
    name: String,
}

/// One write as a script asks for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    operation: String,
    resource: Value,
}

impl Custom {
    /// Those of a kind: the key of its own, else what the map form says (ENG-66); nothing where neither is.
    pub(super) fn of(
        cm: &BTreeMap<String, String>,
        group: &str,
        kind: &str,
    ) -> Result<Option<Self>, ActionError> {
        let joined = |between: &str| {
            if group.is_empty() { kind.to_owned() } else { format!("{group}{between}{kind}") }
        };
        let split = format!("{MAP_KEY}.actions.{}", joined("_"));
        if let Some(text) = cm.get(&split) {
            return read(&split, text);
        }
        let Some(text) = cm.get(MAP_KEY) else { return Ok(None) };
        let wrong = |reason: String| ActionError::Settings { key: MAP_KEY.to_owned(), reason };
        let all = yaml::parse(text, Dialect::Sigs, &Limits::default())
            .map_err(|error| wrong(format!("it is no YAML: {error}")))?
            .unwrap_or_default();
        let name = joined("/");
        match all.get(&name).and_then(|one| one.get("actions")) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => read(&format!("{MAP_KEY}: {name}"), text),
            Some(_) => Err(wrong(format!("actions of {name} are no text; put `|` before their lines"))),
        }
    }

    pub(super) fn keeps_builtin(&self) -> bool {
        self.merge
    }

    /// What the discovery script says (ENG-136).
    pub(super) fn available(
        &self,
        object: &Value,
        scripts: &Runner,
        now: Timestamp,
    ) -> Result<Vec<Action>, ActionError> {
        let wrong = |reason: String| ActionError::Result { what: "discovery.lua".to_owned(), reason };
        let script = DataScript { text: &self.discovery, params: None, now: Some(now) };
        let found = match scripts.data(script, object)? {
            Value::Null => return Ok(Vec::new()),
            Value::Array(items) if items.is_empty() => return Ok(Vec::new()),
            Value::Object(found) => found,
            _ => return Err(wrong("it returned no table by names of actions".to_owned())),
        };
        let action = |(name, said): (String, Value)| {
            let said = match said {
                Value::Array(items) if items.is_empty() => Ok(Discovered::default()),
                Value::Object(_) => serde_json::from_value(said).map_err(|error| error.to_string()),
                _ => Err("it is no table".to_owned()),
            };
            let said: Discovered = said.map_err(|reason| wrong(format!("action {name:?}: {reason}")))?;
            Ok::<_, ActionError>(Action {
                name,
                disabled: said.disabled.unwrap_or(false),
                icon: said.icon_class.unwrap_or_default(),
                display_name: said.display_name.unwrap_or_default(),
                params: said.params.into_iter().flatten().map(|param| param.name).collect(),
            })
        };
        let mut actions = found.into_iter().map(action).collect::<Result<Vec<_>, ActionError>>()?;
        actions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(actions)
    }

    /// What an action writes (ENG-137); `None` when it is not defined here.
    pub(super) fn run(
        &self,
        object: &Value,
        (name, params): (&str, &BTreeMap<String, String>),
        scripts: &Runner,
        now: Timestamp,
    ) -> Result<Option<Vec<Step>>, ActionError> {
        let Some(definition) = self.definitions.iter().find(|definition| definition.name == name) else {
            return Ok(None);
        };
        let wrong = |reason: String| ActionError::Result { what: format!("action {name:?}"), reason };
        if definition.script.is_empty() {
            return Err(wrong("its definition has no action.lua".to_owned()));
        }
        let script = DataScript { text: &definition.script, params: Some(params), now: Some(now) };
        let steps = match scripts.data(script, object)? {
            Value::Null => Vec::new(),
            result @ Value::Object(_) => vec![patch(object, result)],
            Value::Array(asked) if asked.len() <= STEPS_MAX => {
                asked.into_iter().map(|one| step(object, one, &wrong)).collect::<Result<_, _>>()?
            }
            Value::Array(_) => return Err(wrong(format!("it asks for more than {STEPS_MAX} changes"))),
            _ => return Err(wrong("it returned no table".to_owned())),
        };
        Ok(Some(steps))
    }
}

fn read(key: &str, text: &str) -> Result<Option<Custom>, ActionError> {
    let wrong = |reason: String| ActionError::Settings { key: key.to_owned(), reason };
    let read = yaml::parse(text, Dialect::Sigs, &Limits::default());
    match read.map_err(|error| wrong(format!("it is no YAML: {error}")))? {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(|error| wrong(error.to_string())),
    }
}

/// One write of a list.
fn step(object: &Value, asked: Value, wrong: &dyn Fn(String) -> ActionError) -> Result<Step, ActionError> {
    if !asked.is_object() {
        return Err(wrong("a change is no table with operation and resource".to_owned()));
    }
    let Asked { operation, resource } =
        serde_json::from_value(asked).map_err(|error| wrong(error.to_string()))?;
    match operation.as_str() {
        _ if !resource.is_object() => Err(wrong("a change has no resource".to_owned())),
        "patch" => Ok(patch(object, resource)),
        "create" => Ok(Step::Create(resource)),
        _ => Err(ActionError::Operation(operation)),
    }
}

/// The object that the action is run on, changed; or another one.
fn patch(object: &Value, mut result: Value) -> Step {
    if name_of(object, "") != name_of(&result, namespace(object)) {
        return Step::Merge(result);
    }
    restore_maps(object, &mut result);
    Step::Patch(result)
}

fn namespace(object: &Value) -> &str {
    access::at(object, &["metadata", "namespace"]).and_then(Value::as_str).unwrap_or_default()
}

/// What tells objects apart; the namespace is another one where the object names none.
fn name_of<'a>(object: &'a Value, default: &'a str) -> [&'a str; 4] {
    let version = access::text(object, "apiVersion");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let name = access::at(object, &["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    let namespace = Some(namespace(object)).filter(|namespace| !namespace.is_empty()).unwrap_or(default);
    [group, access::text(object, "kind"), namespace, name]
}

/// Turns empty lists back into the maps that they were, as Lua cannot tell them apart (ENG-138).
fn restore_maps(original: &Value, result: &mut Value) {
    match (original, &mut *result) {
        (Value::Object(_), Value::Array(items)) if items.is_empty() => {
            *result = Value::Object(serde_json::Map::new());
        }
        (Value::Object(original), Value::Object(members)) => {
            for (name, member) in members {
                if let Some(original) = original.get(name) {
                    restore_maps(original, member);
                }
            }
        }
        (Value::Array(original), Value::Array(items)) => {
            original.iter().zip(items).for_each(|(original, item)| restore_maps(original, item));
        }
        _ => {}
    }
}
