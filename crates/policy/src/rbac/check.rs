//! What is odd about a policy that is read all the same (API-82, API-108).

use std::collections::BTreeSet;

use smol_str::SmolStr;
use tiphys_go::steps::Steps;

use super::layer::{Compiled, Rule};
use super::lines::{Place, PolicyError, PolicyRule, Statement};
use super::vocabulary::{Resource, is_action};
use super::{RbacConfig, builtin};

/// Warnings of one policy; more are only counted.
const WARNINGS_MAX: usize = 100;

/// What a look at a policy finds (API-108).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReview {
    /// Why it is not taken.
    pub error: Option<PolicyError>,
    /// What in it has no effect, in words.
    pub warnings: Vec<String>,
}

/// Looks at a policy without putting it in force (API-108).
pub fn review(config: &RbacConfig) -> PolicyReview {
    match super::Rbac::compile(config) {
        Ok(rbac) => PolicyReview { error: None, warnings: rbac.warnings().to_vec() },
        Err(error) => PolicyReview { error: Some(error), warnings: config.warnings.clone() },
    }
}

/// Gathers what is odd while a policy is compiled.
#[derive(Debug, Default)]
pub(super) struct Findings {
    warnings: Vec<String>,
    left_out: usize,
    /// Names that rules are about.
    subjects: BTreeSet<SmolStr>,
    /// Names that are members of a role.
    members: BTreeSet<SmolStr>,
    /// Roles that have members.
    roles: BTreeSet<SmolStr>,
}

impl Findings {
    pub(super) fn begin(config: &RbacConfig) -> Self {
        let mut findings = Self { warnings: config.warnings.clone(), ..Self::default() };
        if config.with_builtin {
            findings.subjects.extend(builtin::rules().map(|rule| rule.subject));
            findings.members.extend(builtin::links().map(|link| link.member));
        }
        findings
    }

    fn warn(&mut self, place: &Place, text: &str) {
        self.say(format!("{place}: {text}"));
    }

    fn say(&mut self, text: String) {
        if self.warnings.len() < WARNINGS_MAX { self.warnings.push(text) } else { self.left_out += 1 }
    }

    /// One line that was taken.
    pub(super) fn look_at(&mut self, place: &Place, statement: &Statement, compiled: &Compiled) {
        match statement {
            Statement::Rule(rule) => {
                self.subjects.insert(rule.subject.clone());
                self.blanks(
                    place,
                    [
                        ("subject", &rule.subject),
                        ("resource", &rule.resource),
                        ("action", &rule.action),
                        ("object", &rule.object),
                        ("effect", &rule.effect),
                    ],
                );
                self.rule(place, rule, compiled);
            }
            Statement::Link(link) => {
                self.roles.insert(link.role.clone());
                self.members.insert(link.member.clone());
                self.blanks(place, [("member", &link.member), ("role", &link.role)]);
            }
            Statement::Nothing => {}
        }
    }

    /// Blanks before a comma belong to the field, which then equals no name (API-82).
    fn blanks<const N: usize>(&mut self, place: &Place, fields: [(&str, &SmolStr); N]) {
        for (field, text) in fields {
            if text.ends_with(char::is_whitespace) {
                self.warn(
                    place,
                    &format!(
                        "the {field} {text:?} ends with a blank, which counts; take away the blank before the comma"
                    ),
                );
            }
        }
    }

    fn rule(&mut self, place: &Place, rule: &PolicyRule, compiled: &Compiled) {
        match compiled {
            Compiled::Inert => self.warn(
                place,
                &format!("the effect {:?} is neither allow nor deny; the line has no effect", rule.effect),
            ),
            Compiled::Never(field) => {
                let text = match *field {
                    "resource" => &rule.resource,
                    "action" => &rule.action,
                    _ => &rule.object,
                };
                self.warn(
                    place,
                    &format!("the {field} {text:?} does not compile as a pattern; the line never applies"),
                );
            }
            Compiled::Rule(patterns) => self.words(place, rule, patterns),
            Compiled::Link => {}
        }
    }

    /// Words that nothing is ever asked with.
    fn words(&mut self, place: &Place, rule: &PolicyRule, patterns: &Rule) {
        let [resource, action, object] = patterns.patterns();
        let resources: Vec<Resource> = resource.resources().collect();
        if resources.is_empty() {
            let known = Resource::ALL.map(Resource::as_str).join(", ");
            return self.warn(place, &format!("unknown resource {:?}; resources are {known}", rule.resource));
        }
        let has_path = rule.action.contains('/');
        let known = action.actions().next().is_some() || has_path && may_have_path(&rule.action);
        if !known {
            return self.warn(place, &format!("unknown action {:?}", rule.action));
        }
        let asked = |resource: &Resource| {
            has_path && *resource == Resource::Applications
                || action.actions().any(|word| resource.has_action(word))
        };
        if !resources.iter().any(asked) {
            return self.warn(
                place,
                &format!("{:?} have no action {:?}; the line has no effect", rule.resource, rule.action),
            );
        }
        let without_object = [Resource::Certificates, Resource::GpgKeys];
        let matches_nothing = || !object.is_match("", &mut Steps::unlimited()).unwrap_or(true);
        if resources.iter().all(|resource| without_object.contains(resource)) && matches_nothing() {
            self.warn(
                place,
                &format!(
                    "{} have no object, so that {:?} never matches; write *",
                    rule.resource, rule.object
                ),
            );
        }
    }

    /// All that was found.
    pub(super) fn end(mut self, config: &RbacConfig) -> Vec<String> {
        let missing: Vec<&str> =
            self.roles.difference(&self.subjects).map(SmolStr::as_str).take(WARNINGS_MAX).collect();
        if !missing.is_empty() {
            let text = format!("user defined roles not found in policies: {}", missing.join(","));
            self.say(text);
        }
        let role = &config.default_role;
        if !role.is_empty() && !self.subjects.contains(role) && !self.members.contains(role) {
            self.say(format!("policy.default: no line gives {role:?} any right"));
        }
        if self.left_out > 0 {
            self.warnings.push(format!("and {} more", self.left_out));
        }
        self.warnings
    }
}

/// Whether a pattern with a path can be one of the actions that have one: what stands before the path may be a pattern
/// itself.
fn may_have_path(action: &str) -> bool {
    let head = action.split('/').next().unwrap_or_default();
    !head.chars().all(|c| c.is_ascii_alphanumeric()) || is_action(&format!("{head}/x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> PolicyReview {
        review(&RbacConfig::of_text("", text).unwrap())
    }

    fn warnings(text: &str) -> Vec<String> {
        let review = look(text);
        assert_eq!(review.error, None);
        review.warnings
    }

    #[test]
    fn api_108_only_the_text_makes_a_policy_invalid() {
        assert_eq!(look("p, x, pods, eat, y, maybe").error, None);
        let error = look("# ok\np, kim, logs, get, *, allow\np, kim").error.unwrap();
        assert_eq!(error.place.line, 3);
        assert!(error.to_string().starts_with("line 3: `p, kim`: a p line has 6 fields"), "{error}");
    }

    #[test]
    fn api_108_roles_that_no_rule_is_about_are_named() {
        assert_eq!(
            warnings("g, devs, role:dev\ng, ops, role:admin\ng, x, role:b\ng, y, role:b"),
            ["user defined roles not found in policies: role:b,role:dev"]
        );
        assert!(warnings("g, devs, role:dev\np, role:dev, logs, get, */*, allow").is_empty());
    }

    #[test]
    fn api_108_words_that_nobody_asks_with_are_reported() {
        for (line, text) in [
            ("p, x, application, get, */*, allow", "line 1: unknown resource \"application\"; resources are"),
            ("p, x, applications, read, */*, allow", "line 1: unknown action \"read\""),
            ("p, x, applications, sync/x, */*, allow", "line 1: unknown action \"sync/x\""),
            ("p, x, logs, create, */*, allow", "line 1: \"logs\" have no action \"create\""),
            ("p, x, projects, update/*, *, allow", "line 1: \"projects\" have no action \"update/*\""),
            ("p, x, applications, get, */*, Allow", "line 1: the effect \"Allow\" is neither allow nor deny"),
            ("p, x, applications, get, sh[op/*, deny", "line 1: the object \"sh[op/*\" does not compile"),
            ("p, x, certificates, get, git.acme.test, allow", "line 1: certificates have no object"),
            ("p, x , applications, get, */*, allow", "line 1: the subject \"x \" ends with a blank"),
            ("g, x , role:admin", "line 1: the member \"x \" ends with a blank"),
        ] {
            let found = warnings(line);
            assert!(found.len() == 1 && found[0].starts_with(text), "{line}: {found:?}");
        }
        for line in [
            "p, x, *, *, *, allow",
            "p, x, applications, action/apps/Deployment/restart, */*, allow",
            "p, x, applications, action, */*, allow",
            "p, x, \"{logs,exec}\", \"{get,create}\", */*, deny",
            "p, x, applications, */Deployment/*, */*, deny",
            "p, x, applicationsets, unscoped, *, allow",
            "p, x, certificates, get, , allow",
            "p, x, extensions, invoke, httpbin, allow",
        ] {
            assert!(warnings(line).is_empty(), "{line}: {:?}", warnings(line));
        }
    }

    #[test]
    fn api_91_a_default_role_without_rules_is_reported() {
        let config = |role: &str| RbacConfig { default_role: role.into(), ..RbacConfig::default() };
        assert!(review(&config("role:readonly")).warnings.is_empty());
        assert_eq!(
            review(&config("role:readonly\n")).warnings,
            ["policy.default: no line gives \"role:readonly\\n\" any right"]
        );
    }

    #[test]
    fn sec_07_warnings_are_counted() {
        let found = warnings(&"p, x, pods, get, *, allow\n".repeat(5_000));
        assert_eq!(found.len(), 101);
        assert_eq!(found[100], "and 4900 more");
    }
}
