//! `argocd-rbac-cm` as data (API-83, API-90, API-91).

use std::collections::BTreeMap;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_go::yaml::{Dialect, Limits, parse};

use super::lines::{Place, PolicyError, PolicyProblem};
use super::pattern::MatchMode;

const POLICY: &str = "policy.csv";
const DEFAULT_ROLE: &str = "policy.default";
const MATCH_MODE: &str = "policy.matchMode";
const SCOPES: &str = "scopes";
/// The claim with the groups where `scopes` says nothing (API-90).
const DEFAULT_SCOPE: &str = "groups";

/// What is set in `argocd-rbac-cm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RbacConfig {
    /// The keys with policy text, in the order in which they count (API-83).
    pub policies: Vec<(SmolStr, String)>,
    /// The role everybody has; empty means none (API-91).
    pub default_role: SmolStr,
    /// How patterns of these texts and of projects are read.
    pub match_mode: MatchMode,
    /// Claims that hold groups (API-90).
    pub scopes: Vec<SmolStr>,
    /// Whether the built-in policy is in force (API-84). Only the command line goes without (CLI-910).
    pub with_builtin: bool,
    /// Keys and values that have no effect, in words.
    pub warnings: Vec<String>,
}

impl Default for RbacConfig {
    /// An absent `ConfigMap` (API-89).
    fn default() -> Self {
        Self {
            policies: Vec::new(),
            default_role: SmolStr::default(),
            match_mode: MatchMode::Glob,
            scopes: vec![DEFAULT_SCOPE.into()],
            with_builtin: true,
            warnings: Vec::new(),
        }
    }
}

impl RbacConfig {
    /// Reads the data of the `ConfigMap`.
    ///
    /// # Errors
    /// When `scopes` is not a list of names, or the texts are too long.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, PolicyError> {
        let mut config = Self::default();
        let text = |key: &str| data.get(key).map_or("", String::as_str);
        config.default_role = text(DEFAULT_ROLE).into();
        config.match_mode = match text(MATCH_MODE) {
            "regex" => MatchMode::Regex,
            "" | "glob" => MatchMode::Glob,
            other => {
                config
                    .warnings
                    .push(format!("{MATCH_MODE}: {other:?} is neither glob nor regex, glob is used"));
                MatchMode::Glob
            }
        };
        config.scopes = read_scopes(text(SCOPES))?;
        let own = data.get_key_value(POLICY).into_iter();
        let more = data.iter().filter(|(key, _)| is_policy(key) && *key != POLICY);
        config.policies = own.chain(more).map(|(key, text)| (SmolStr::from(key), text.clone())).collect();
        for key in data.keys() {
            if !is_policy(key) && ![DEFAULT_ROLE, MATCH_MODE, SCOPES].contains(&key.as_str()) {
                config.warnings.push(format!(
                    "{key}: has no effect; keys are policy.csv, policy.<name>.csv, {DEFAULT_ROLE}, {MATCH_MODE} and {SCOPES}"
                ));
            }
        }
        config.check_length()?;
        Ok(config)
    }

    /// A policy text alone, as a file may hold it (CLI-910).
    ///
    /// # Errors
    /// When the text is too long.
    pub fn of_text(origin: &str, text: &str) -> Result<Self, PolicyError> {
        let config = Self { policies: vec![(origin.into(), text.to_owned())], ..Self::default() };
        config.check_length()?;
        Ok(config)
    }

    /// Whether no policy text says anything.
    pub fn is_empty(&self) -> bool {
        self.policies.iter().all(|(_, text)| text.trim().is_empty())
    }

    fn check_length(&self) -> Result<(), PolicyError> {
        let mut bytes = 0_usize;
        for (key, text) in &self.policies {
            bytes = bytes.saturating_add(text.len());
            check_length(key, bytes)?;
        }
        Ok(())
    }
}

/// Refuses texts that together are too long.
pub(super) fn check_length(origin: &str, bytes: usize) -> Result<(), PolicyError> {
    if bytes > super::lines::POLICY_BYTES_MAX {
        let place = Place { origin: origin.into(), line: 1 };
        return Err(PolicyError { place, problem: PolicyProblem::TooLong });
    }
    Ok(())
}

fn is_policy(key: &str) -> bool {
    key.starts_with("policy.") && key.strip_suffix(".csv").is_some()
}

/// A list of names; one name alone is a list too, nothing means the default (API-90).
fn read_scopes(text: &str) -> Result<Vec<SmolStr>, PolicyError> {
    let wrong = |why: String| PolicyError {
        place: Place { origin: SCOPES.into(), line: 1 },
        problem: PolicyProblem::Scopes(why),
    };
    let value = parse(text, Dialect::Sigs, &Limits::default()).map_err(|error| wrong(error.to_string()))?;
    match value {
        None | Some(Value::Null) => Ok(vec![DEFAULT_SCOPE.into()]),
        Some(Value::String(name)) => Ok(vec![name.into()]),
        Some(Value::Array(names)) => {
            let name = |name: Value| match name {
                Value::String(name) => Ok(SmolStr::from(name)),
                other => Err(wrong(format!("{other} is no text"))),
            };
            names.into_iter().map(name).collect()
        }
        Some(other) => Err(wrong(format!("{other} is no list"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[(&str, &str)]) -> Result<RbacConfig, String> {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        RbacConfig::read(&data).map_err(|error| error.to_string())
    }

    #[test]
    fn api_83_policy_csv_is_first_then_the_others_by_name() {
        let config = read(&[
            ("policy.b.csv", "b"),
            ("policy.a.csv", "a"),
            ("policy.csv", "own"),
            ("policy.csv.bak", "no"),
            ("overlay.csv", "no"),
            ("policy.default", "role:x"),
            ("policy.default.csv", "d"),
        ])
        .unwrap();
        let keys: Vec<&str> = config.policies.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["policy.csv", "policy.a.csv", "policy.b.csv", "policy.default.csv"]);
        assert_eq!(config.default_role, "role:x");
        let warned = config.warnings.join("\n");
        assert!(
            warned.contains("policy.csv.bak: has no effect") && warned.contains("overlay.csv"),
            "{warned}"
        );
        assert_eq!(config.warnings.len(), 2);
    }

    #[test]
    fn api_85_any_mode_but_regex_is_glob() {
        assert_eq!(read(&[("policy.matchMode", "regex")]).unwrap().match_mode, MatchMode::Regex);
        assert_eq!(read(&[("policy.matchMode", "glob")]).unwrap(), RbacConfig::default());
        let odd = read(&[("policy.matchMode", "Regex")]).unwrap();
        assert_eq!(odd.match_mode, MatchMode::Glob);
        assert_eq!(odd.warnings.len(), 1);
    }

    #[test]
    fn api_90_scopes_are_a_list_or_one_name() {
        let scopes = |text: &str| read(&[("scopes", text)]).map(|config| config.scopes);
        assert_eq!(scopes("[groups, email]").unwrap(), ["groups", "email"]);
        assert_eq!(scopes("- a\n- b\n").unwrap(), ["a", "b"]);
        assert_eq!(scopes("groups").unwrap(), ["groups"]);
        for default in ["", "null", "~"] {
            assert_eq!(scopes(default).unwrap(), ["groups"], "{default}");
        }
        assert!(scopes("[]").unwrap().is_empty());
        for wrong in ["{a: b}", "[1]", "[a", "3"] {
            let text = scopes(wrong).unwrap_err();
            assert!(text.starts_with("scopes line 1: scopes: "), "{text}");
        }
    }

    #[test]
    fn api_89_an_absent_config_map_is_empty() {
        let config = read(&[]).unwrap();
        assert_eq!(config, RbacConfig::default());
        assert!(config.is_empty() && config.with_builtin);
        assert!(!RbacConfig::of_text("", "g, a, b").unwrap().is_empty());
    }

    #[test]
    fn sec_07_a_policy_of_ten_megabytes_is_refused() {
        let line = "p, kim, logs, get, shop/*, allow\n";
        let text = line.repeat(10_000_000 / line.len());
        let (half, rest) = text.split_at(text.len() / 2);
        for data in [&[("policy.csv", text.as_str())][..], &[("policy.a.csv", half), ("policy.b.csv", rest)]]
        {
            let error = read(data).unwrap_err();
            assert!(error.contains("more than 8388608 bytes"), "{error}");
        }
    }
}
