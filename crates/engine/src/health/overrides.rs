//! The user's health rules: where they are read from and which one applies (ENG-66, ENG-98).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tiphys_go::glob::Glob;
use tiphys_go::yaml::{self, Dialect, Limits};

use super::HealthError;

const MAP_KEY: &str = "resource.customizations";
const SPLIT_TYPES: [&str; 6] =
    ["health", "useOpenLibs", "actions", "ignoreDifferences", "ignoreResourceUpdates", "knownTypeFields"];

/// One script of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) text: String,
    /// Whether the script may use all of the standard library that is harmless.
    pub(super) open_libraries: bool,
}

/// Where scripts take the time from; without one, `os.time` starts at the epoch.
pub type ScriptClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The user's health rules (ENG-98).
#[derive(Clone, Default)]
pub struct HealthOverrides {
    scripts: BTreeMap<String, Script>,
    pub(super) clock: Option<ScriptClock>,
}

impl fmt::Debug for HealthOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthOverrides").field("scripts", &self.scripts).finish_non_exhaustive()
    }
}

impl HealthOverrides {
    /// Reads them from the data of `argocd-cm`: the map form, and split keys, which win (ENG-66).
    ///
    /// # Errors
    /// When the settings are malformed.
    pub fn from_settings(settings: &BTreeMap<String, String>) -> Result<Self, HealthError> {
        let mut scripts: BTreeMap<String, Script> = BTreeMap::new();
        if let Some(text) = settings.get(MAP_KEY) {
            let map = yaml::parse(text, Dialect::Sigs, &Limits::default())
                .map_err(|error| problem(format!("{MAP_KEY} is no YAML: {error}")))?
                .unwrap_or(Value::Null);
            for (key, entry) in map.as_object().into_iter().flatten() {
                let script = entry.get("health.lua").and_then(Value::as_str).unwrap_or("").to_owned();
                let open_libraries =
                    entry.get("health.lua.useOpenLibs").and_then(Value::as_bool).unwrap_or(false);
                scripts.insert(key.clone(), Script { text: script, open_libraries });
            }
        }
        for (name, value) in settings {
            let Some(rest) = name.strip_prefix("resource.customizations.") else { continue };
            let Some((kind, key)) = rest.split_once('.') else { continue };
            if !SPLIT_TYPES.contains(&kind) {
                return Err(problem(format!("resource customization type {kind:?} is not known")));
            }
            let key = override_key(key)?;
            match kind {
                "health" => scripts.entry(key).or_default().text.clone_from(value),
                "useOpenLibs" => scripts.entry(key).or_default().open_libraries = value.trim() == "true",
                _ => {}
            }
        }
        scripts.retain(|_, script| !script.text.is_empty());
        Ok(Self { scripts, clock: None })
    }

    /// The same rules, with a clock for scripts that ask for the time.
    #[must_use]
    pub fn with_clock(self, clock: ScriptClock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Whether there are no rules of the user.
    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// The script for `group/Kind`, or `Kind` of the core group: the exact one, else the first wildcard.
    pub(super) fn script(&self, key: &str) -> Option<&Script> {
        self.scripts.get(key).or_else(|| {
            let wildcards = self.scripts.iter().filter(|(pattern, _)| pattern.contains('*'));
            wildcards
                .filter(|(pattern, _)| Glob::new(pattern, &[]).is_ok_and(|glob| glob.is_match(key)))
                .map(|(_, script)| script)
                .next()
        })
    }
}

/// `group/Kind` of the last part of a split key.
fn override_key(part: &str) -> Result<String, HealthError> {
    if part == "all" {
        return Ok("*/*".to_owned());
    }
    match part.matches('_').count() {
        0 | 1 => Ok(part.replace('_', "/")),
        _ => Err(problem(format!("resource customization key {part:?} has more than one underscore"))),
    }
}

fn problem(message: String) -> HealthError {
    HealthError { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(settings: &[(&str, &str)]) -> Result<HealthOverrides, HealthError> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        HealthOverrides::from_settings(&settings.collect())
    }

    #[test]
    fn eng_66_split_keys_replace_the_same_part_of_the_map() {
        let found = overrides(&[
            ("resource.customizations", "apps/Deployment:\n  health.lua: old\n  health.lua.useOpenLibs: true\nPod:\n  health.lua: pod\n"),
            ("resource.customizations.health.apps_Deployment", "new"),
            ("resource.customizations.actions.apps_Deployment", "ignored"),
            ("resource.customizations.health.a.b.c_Kind", "dotted"),
        ])
        .unwrap();
        let script = |key| found.script(key).cloned();
        assert_eq!(script("apps/Deployment"), Some(Script { text: "new".to_owned(), open_libraries: true }));
        assert_eq!(script("Pod").unwrap().text, "pod");
        assert_eq!(script("a.b.c/Kind").unwrap().text, "dotted");
        assert_eq!(script("Service"), None);
    }

    #[test]
    fn eng_66_malformed_keys_are_errors() {
        assert!(overrides(&[("resource.customizations.health.a_b_c", "x")]).is_err());
        assert!(overrides(&[("resource.customizations.wealth.a_b", "x")]).is_err());
        assert!(overrides(&[("resource.customizations", "a: [")]).is_err());
    }

    #[test]
    fn eng_98_empty_scripts_do_not_count() {
        assert!(overrides(&[("resource.customizations.health.Pod", "")]).unwrap().is_empty());
    }
}
