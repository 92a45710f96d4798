//! The statements of API-80 to API-99 as a program that does nothing but follow them: no index, no order, no memory.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tiphys_go::glob::Glob;
use tiphys_go::regexp::Regexp;

use crate::rbac::{MatchMode, builtin};

/// A `p` line.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) fields: [String; 5],
    pub(super) mode: MatchMode,
}

/// Rules and links.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub(super) rules: Vec<Rule>,
    pub(super) links: Vec<(String, String)>,
}

/// A role of a project.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) lines: Lines,
    pub(super) groups: Vec<String>,
}

/// An installation.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) user: Lines,
    pub(super) default_role: String,
    pub(super) scopes: Vec<String>,
    /// Roles by project; `None` for a policy that cannot be read.
    pub(super) projects: BTreeMap<String, Option<Vec<Role>>>,
    pub(super) mode: MatchMode,
}

/// Answers of patterns, which are slow to compile.
#[derive(Debug, Default)]
pub(super) struct Matches(BTreeMap<(bool, String, String), bool>);

impl Matches {
    fn matches(&mut self, mode: MatchMode, pattern: &str, text: &str) -> bool {
        let key = (mode == MatchMode::Regex, pattern.to_owned(), text.to_owned());
        *self.0.entry(key).or_insert_with(|| match mode {
            MatchMode::Glob => Glob::new(pattern, &[]).is_ok_and(|glob| glob.is_match(text)),
            MatchMode::Regex => Regexp::new(pattern).is_ok_and(|regexp| regexp.is_match(text)),
        })
    }
}

type Asked<'a> = (&'a str, &'a str, &'a str);

impl Lines {
    /// API-80: at most ten links.
    fn roles(&self, subject: &str) -> BTreeSet<String> {
        let mut roles = BTreeSet::from([subject.to_owned()]);
        for _ in 0..10 {
            let next: Vec<String> = self
                .links
                .iter()
                .filter(|(member, _)| roles.contains(member))
                .map(|(_, role)| role.clone())
                .collect();
            roles.extend(next);
        }
        roles
    }

    /// API-80: some allow and no deny.
    fn allow(&self, subject: &str, asked: Asked<'_>, matches: &mut Matches) -> bool {
        let roles = self.roles(subject);
        let mut effects = Vec::new();
        for Rule { fields: [name, resource, action, object, effect], mode } in &self.rules {
            if roles.contains(name)
                && matches.matches(*mode, resource, asked.0)
                && matches.matches(*mode, action, asked.1)
                && matches.matches(*mode, object, asked.2)
            {
                effects.push(effect.as_str());
            }
        }
        effects.contains(&"allow") && !effects.contains(&"deny")
    }

    fn and(&self, other: Self) -> Self {
        let mut all = self.clone();
        all.rules.extend(other.rules);
        all.links.extend(other.links);
        all
    }
}

impl World {
    /// API-84, API-100.
    fn base(&self) -> Lines {
        let mut base = Lines::default();
        for rule in builtin::rules() {
            let fields =
                [rule.subject, rule.resource, rule.action, rule.object, rule.effect].map(String::from);
            base.rules.push(Rule { fields, mode: MatchMode::Glob });
        }
        base.links.extend(builtin::links().map(|link| (link.member.into(), link.role.into())));
        base.and(self.user.clone())
    }

    /// API-96.
    fn of_project(&self, name: &str, roles: &[Role]) -> Lines {
        let mut lines = Lines::default();
        for role in roles {
            let subject = format!("proj:{name}:{}", role.name);
            let fields = [subject.clone(), "projects".into(), "get".into(), name.into(), "allow".into()];
            lines.rules.push(Rule { fields, mode: self.mode });
            lines = lines.and(role.lines.clone());
            lines.links.extend(role.groups.iter().map(|group| (group.clone(), subject.clone())));
        }
        lines
    }

    /// API-92, step by step.
    pub(super) fn may(&self, claims: Option<&Value>, asked: Asked<'_>, matches: &mut Matches) -> bool {
        let base = self.base();
        let subject = claims.map(identifier).unwrap_or_default();
        let groups = claims.map(|claims| self.groups(claims)).unwrap_or_default();
        let default = (!self.default_role.is_empty()).then_some(self.default_role.as_str());
        // 1
        if default.is_some_and(|role| base.allow(role, asked, matches)) {
            return true;
        }
        // 2
        let found = project(asked).and_then(|name| self.projects.get_key_value(&name));
        let policy = match found {
            Some((name, Some(roles))) => base.and(self.of_project(name, roles)),
            _ => base.clone(),
        };
        let token: Vec<&str> = subject.split(':').collect();
        let allows = match (found, token.as_slice()) {
            // 3
            (Some((name, _)), ["proj", own, _]) => {
                name == own
                    && (policy.allow(&subject, asked, matches)
                        || default.is_some_and(|role| policy.allow(role, asked, matches)))
            }
            // 4
            _ => {
                default.is_some_and(|role| policy.allow(role, asked, matches))
                    || policy.allow(&subject, asked, matches)
                    || groups.iter().any(|group| {
                        policy.links.iter().any(|(member, _)| member == group)
                            && policy.allow(group, asked, matches)
                    })
            }
        };
        // 5
        allows || base.allow("", asked, matches)
    }

    /// API-67.
    fn groups(&self, claims: &Value) -> Vec<String> {
        let mut groups = Vec::new();
        for scope in &self.scopes {
            match &claims[scope] {
                Value::String(group) => groups.push(group.clone()),
                Value::Array(items) => {
                    groups.extend(items.iter().filter_map(|item| item.as_str().map(str::to_owned)));
                }
                _ => {}
            }
        }
        groups
    }
}

/// API-53.
fn identifier(claims: &Value) -> String {
    match claims["federated_claims"]["user_id"].as_str() {
        Some(id) if !id.is_empty() => id.to_owned(),
        _ => claims["sub"].as_str().unwrap_or_default().to_owned(),
    }
}

/// API-95.
fn project((resource, _, object): Asked<'_>) -> Option<String> {
    let segments: Vec<&str> = object.split('/').collect();
    match resource {
        "applications" | "applicationsets" | "repositories" | "clusters" | "logs" | "exec" => {
            (segments.len() >= 2).then(|| segments[0].to_owned())
        }
        "projects" => Some(object.to_owned()),
        _ => None,
    }
}
