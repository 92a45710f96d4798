//! Actions on live objects (ENG-135..142): which there are, and what they write.
//!
//! Those of a kind are [`Rules`]: what comes with the product (`builtin`), or what users define in `argocd-cm` as Lua
//! scripts (`custom`), or both. They decide; nothing is written here. Scripts are run by whoever is handed in.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tiphys_object::merge_patch;

use crate::scripts::{Runner, ScriptFault};

mod builtin;
mod custom;

use custom::Custom;

/// What can be done with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// Whether it would do nothing now; whoever runs it all the same is not stopped (ENG-137).
    pub disabled: bool,
    /// The class of its icon.
    pub icon: String,
    /// Its name for people, where that is another.
    pub display_name: String,
    /// The names of its parameters.
    pub params: Vec<String>,
}

/// A write that an action asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The live object that the action is run on becomes this.
    Patch(Value),
    /// Another live object gets these members; what it has besides stays. The script has not seen that object, so what
    /// it does not say is not meant to go.
    Merge(Value),
    /// This object is new.
    Create(Value),
}

impl Step {
    /// The object that it is about.
    pub fn object(&self) -> &Value {
        let (Self::Patch(object) | Self::Merge(object) | Self::Create(object)) = self;
        object
    }

    /// The same step with another object.
    #[must_use]
    pub fn with_object(&self, object: Value) -> Self {
        match self {
            Self::Patch(_) => Self::Patch(object),
            Self::Merge(_) => Self::Merge(object),
            Self::Create(_) => Self::Create(object),
        }
    }
}

/// Why an action does nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The kind has none of this name.
    #[error("built-in script does not exist: action {0:?} of this kind")]
    Unknown(String),
    /// A parameter that has to be a number is none.
    #[error("invalid number: {0}")]
    Number(String),
    /// The settings cannot be read.
    #[error("{key}: {reason}")]
    Settings {
        /// The key of `argocd-cm`.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A script of the settings failed, or was stopped.
    #[error("{0}")]
    Script(#[from] ScriptFault),
    /// What a script returned cannot be used.
    #[error("{what}: {reason}")]
    Result {
        /// The script.
        what: String,
        /// What is wrong with its result.
        reason: String,
    },
    /// An object is to be changed in another way than by a patch or as a new one (ENG-137).
    #[error("unsupported operation: {0}")]
    Operation(String),
    /// The application itself is to be changed in what rights and projects are asked for.
    #[error(
        "the action would change {0} of the application; an action may change its labels, its annotations, and of its \
         spec what says how it is synced"
    )]
    Itself(String),
}

/// The actions of one kind (ENG-135).
#[derive(Clone, Debug, Default)]
pub struct Rules(Option<Custom>);

impl Rules {
    /// Those of a kind, as the data of `argocd-cm` say.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn of(cm: &BTreeMap<String, String>, group: &str, kind: &str) -> Result<Self, ActionError> {
        Custom::of(cm, group, kind).map(Self)
    }

    /// Whether scripts of users are part of it.
    pub fn is_scripted(&self) -> bool {
        self.0.is_some()
    }

    /// What can be done with an object (ENG-136), by name.
    ///
    /// # Errors
    /// When a script failed.
    pub fn available(
        &self,
        object: &Value,
        scripts: &Runner,
        now: Timestamp,
    ) -> Result<Vec<Action>, ActionError> {
        let Some(custom) = &self.0 else { return Ok(builtin::available(object)) };
        let mut found = custom.available(object, scripts, now)?;
        if custom.keeps_builtin() {
            let shipped = builtin::available(object);
            let is_new = |action: &Action| !found.iter().any(|own| own.name == action.name);
            let shipped: Vec<Action> = shipped.into_iter().filter(is_new).collect();
            found.extend(shipped);
            found.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(found)
    }

    /// What an action writes (ENG-137, ENG-141): nothing, where it returns nothing.
    ///
    /// # Errors
    /// When the kind has no such action, a parameter is wrong, or a script failed.
    pub fn run(
        &self,
        object: &Value,
        (name, params): (&str, &BTreeMap<String, String>),
        scripts: &Runner,
        now: Timestamp,
    ) -> Result<Vec<Step>, ActionError> {
        let Some(custom) = &self.0 else { return builtin::run(object, name, params, now) };
        match custom.run(object, (name, params), scripts, now)? {
            Some(steps) => Ok(steps),
            None if custom.keeps_builtin() => builtin::run(object, name, params, now),
            None => Err(ActionError::Unknown(name.to_owned())),
        }
    }
}

/// The merge patch that makes of a live object what an action wants (ENG-140). Nulls of the live object count as absent,
/// as scripts do not see them.
pub fn patch(live: &Value, wanted: &Value) -> Map<String, Value> {
    match merge_patch::create(&without_nulls(live), wanted) {
        Ok(Value::Object(patch)) => patch,
        // Both are objects, so there is a patch.
        _ => Map::new(),
    }
}

/// Members of an application's spec that say from where to where it is deployed, and as part of what.
const DECIDED_BY_PROJECT: [&str; 5] = ["project", "destination", "source", "sources", "sourceHydrator"];

/// Whether a script may change the application it is run on by this patch. Whoever has the right to an action has not
/// thereby the rights to sync, or to deploy something else or to somewhere else (every such change is asked for).
///
/// # Errors
/// When the patch changes more than labels, annotations and how the application is synced.
pub fn check_own(patch: &Map<String, Value>) -> Result<(), ActionError> {
    let refused = |path: String| Err(ActionError::Itself(path));
    for (name, member) in patch {
        let mut inside = member.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let found = match name.as_str() {
            "metadata" => inside.find(|name| !matches!(*name, "labels" | "annotations")),
            "spec" if member.is_object() => inside.find(|name| DECIDED_BY_PROJECT.contains(name)),
            _ => return refused(name.clone()),
        };
        if let Some(found) = found {
            return refused(format!("{name}.{found}"));
        }
    }
    Ok(())
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(name, member)| (name.clone(), without_nulls(member))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
