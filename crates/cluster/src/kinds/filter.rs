//! Which kinds are indexed: `resource.exclusions` and `resource.inclusions` (ENG-7).

use serde::Deserialize;
use serde_json::Value;
use tiphys_go::glob::Glob;
use tiphys_go::yaml::{Dialect, Limits};
use tiphys_object::GroupKind;

/// Why the settings text is not a filter; the previous filter stays in force.
#[derive(Debug, thiserror::Error)]
#[error("{setting} is not a list of resource filters: {reason}")]
pub struct FilterError {
    /// Key in `argocd-cm`.
    pub setting: &'static str,
    /// What is wrong.
    pub reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleText {
    api_groups: Option<Vec<String>>,
    kinds: Option<Vec<String>>,
    clusters: Option<Vec<String>>,
}

/// One rule; an empty list matches everything.
#[derive(Clone, Debug, Default)]
struct Rule {
    api_groups: Vec<Pattern>,
    kinds: Vec<String>,
    clusters: Vec<Pattern>,
}

/// A glob; an invalid one matches nothing.
#[derive(Clone, Debug)]
struct Pattern(Option<Glob>);

/// Decides which kinds of a cluster are indexed and managed.
#[derive(Clone, Debug, Default)]
pub struct ResourceFilter {
    exclusions: Vec<Rule>,
    inclusions: Vec<Rule>,
}

impl ResourceFilter {
    /// Reads both settings, YAML lists; an empty text is an empty list.
    ///
    /// # Errors
    /// When a text is not a list of rules.
    pub fn parse(exclusions: &str, inclusions: &str) -> Result<Self, FilterError> {
        Ok(Self {
            exclusions: rules("resource.exclusions", exclusions)?,
            inclusions: rules("resource.inclusions", inclusions)?,
        })
    }

    /// Whether a kind of the cluster at `server` is indexed (ENG-7).
    pub fn is_included(&self, kind: &GroupKind, server: &str) -> bool {
        if is_always_excluded(kind) || self.exclusions.iter().any(|rule| rule.matches(kind, server)) {
            return false;
        }
        self.inclusions.iter().any(|rule| rule.matches(kind, server))
            || !self.inclusions.iter().any(|rule| rule.is_about(server))
    }
}

/// Exclusions that no setting turns off (ENG-7).
fn is_always_excluded(kind: &GroupKind) -> bool {
    matches!(
        (kind.group.as_str(), kind.kind.as_str()),
        ("events.k8s.io" | "metrics.k8s.io", _) | ("", "Event") | ("coordination.k8s.io", "Lease")
    )
}

impl Rule {
    fn matches(&self, kind: &GroupKind, server: &str) -> bool {
        let matches_kind = |rule: &String| rule == "*" || *rule == kind.kind.as_str();
        any_or_empty(&self.api_groups, &kind.group)
            && (self.kinds.is_empty() || self.kinds.iter().any(matches_kind))
            && self.is_about(server)
    }

    fn is_about(&self, server: &str) -> bool {
        any_or_empty(&self.clusters, server)
    }
}

fn any_or_empty(patterns: &[Pattern], text: &str) -> bool {
    patterns.is_empty()
        || patterns.iter().any(|pattern| pattern.0.as_ref().is_some_and(|glob| glob.is_match(text)))
}

fn rules(setting: &'static str, text: &str) -> Result<Vec<Rule>, FilterError> {
    let fail = |reason: String| FilterError { setting, reason };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let value: Option<Value> = tiphys_go::yaml::parse(text, Dialect::Sigs, &Limits::default())
        .map_err(|error| fail(error.to_string()))?;
    let Some(value) = value else { return Ok(Vec::new()) };
    let texts: Vec<RuleText> = serde_json::from_value(value).map_err(|error| fail(error.to_string()))?;
    Ok(texts.into_iter().map(rule).collect())
}

fn rule(text: RuleText) -> Rule {
    let patterns = |texts: Option<Vec<String>>| -> Vec<Pattern> {
        texts.unwrap_or_default().iter().map(|text| Pattern(Glob::new(text, &[]).ok())).collect()
    };
    Rule {
        api_groups: patterns(text.api_groups),
        kinds: text.kinds.unwrap_or_default(),
        clusters: patterns(text.clusters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "https://c";

    fn included(filter: &ResourceFilter, group: &str, kind: &str) -> bool {
        filter.is_included(&GroupKind::new(group, kind), SERVER)
    }

    #[test]
    fn eng_7_built_in_exclusions_cannot_be_turned_off() {
        let filter = ResourceFilter::default();
        for (group, kind) in [
            ("", "Event"),
            ("events.k8s.io", "Event"),
            ("metrics.k8s.io", "X"),
            ("coordination.k8s.io", "Lease"),
        ] {
            assert!(!included(&filter, group, kind), "{group}/{kind}");
        }
        assert!(included(&filter, "", "Pod"));
    }

    #[test]
    fn eng_7_an_inclusion_for_the_cluster_excludes_the_rest() {
        let inclusions = "- apiGroups: ['*.io']\n  kinds: ['*']\n  clusters: ['https://c*']\n";
        let filter = ResourceFilter::parse("- {kinds: [Secret]}", inclusions).unwrap();
        assert!(included(&filter, "x.io", "A"));
        assert!(!included(&filter, "apps", "Deployment"));
        assert!(!included(&filter, "x.io", "Secret"));
        assert!(filter.is_included(&GroupKind::new("apps", "Deployment"), "https://other"));
    }

    #[test]
    fn eng_7_malformed_settings_are_an_error() {
        assert!(ResourceFilter::parse("{a: b}", "").is_err());
        assert!(ResourceFilter::parse("- [", "").is_err());
    }
}
