//! Rules a project must keep to be created or updated (REP C13).

use std::collections::BTreeSet;

use tiphys_api::AppProject;
use tiphys_go::glob::Glob;

use super::roles;
use super::service_account::FORBIDDEN;
use crate::window;

/// Class of a violation, with the names of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The value is wrong.
    InvalidArgument,
    /// The value repeats another.
    AlreadyExists,
    /// Something required is missing.
    OutOfRange,
}

impl Code {
    /// The name of gRPC.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "InvalidArgument",
            Self::AlreadyExists => "AlreadyExists",
            Self::OutOfRange => "OutOfRange",
        }
    }
}

/// What is wrong with a project.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// Class.
    pub code: Code,
    /// Text for people.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn exists(message: impl Into<String>) -> Self {
        Self::new(Code::AlreadyExists, message)
    }
}

/// The first violation, in the order of REP-206.
pub fn validate(project: &AppProject) -> Result<(), Violation> {
    destinations(project)?;
    source_namespaces(project)?;
    source_repos(project)?;
    roles::validate(project)?;
    window::validate_all(project)?;
    service_accounts(project)?;
    roles::validate_syntax(project)
}

fn destinations(project: &AppProject) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    for item in &project.spec.destinations {
        for (field, value) in [("name", &item.name), ("server", &item.server), ("namespace", &item.namespace)]
        {
            if value == "!*" {
                return Err(Violation::invalid(format!("{field} has an invalid format, '!*'")));
            }
        }
        let cluster = if item.server.is_empty() { &item.name } else { &item.server };
        let key = format!("{cluster}/{}", item.namespace);
        if seen.contains(&key) {
            return Err(Violation::invalid(format!("destination '{key}' already added")));
        }
        seen.insert(key);
    }
    Ok(())
}

fn source_namespaces(project: &AppProject) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    for namespace in &project.spec.source_namespaces {
        if !seen.insert(namespace) {
            return Err(Violation::invalid(format!("source namespace '{namespace}' already added")));
        }
    }
    Ok(())
}

fn source_repos(project: &AppProject) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    for repository in &project.spec.source_repos {
        if repository == "!*" {
            return Err(Violation::invalid("source repository has an invalid format, '!*'"));
        }
        if !seen.insert(repository) {
            return Err(Violation::invalid(format!("source repository '{repository}' already added")));
        }
    }
    Ok(())
}

fn service_accounts(project: &AppProject) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    for item in &project.spec.destination_service_accounts {
        for (field, value) in [("server", &item.server), ("namespace", &item.namespace)] {
            if value.contains('!') {
                return Err(Violation::invalid(format!("{field} has an invalid format, '{value}'")));
            }
        }
        let account = &item.default_service_account;
        if account.trim().is_empty() || account.contains(FORBIDDEN) {
            return Err(Violation::invalid(format!(
                "defaultServiceAccount has an invalid format, '{account}'"
            )));
        }
        for (field, value) in [("server", &item.server), ("namespace", &item.namespace)] {
            if Glob::new(value, &[]).is_err() {
                return Err(Violation::invalid(format!("{field} has an invalid format, '{value}'")));
            }
        }
        let key = format!("{}/{}", item.server, item.namespace);
        if seen.contains(&key) {
            return Err(Violation::invalid(format!("destinationServiceAccount '{key}' already added")));
        }
        seen.insert(key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &str) -> Option<String> {
        let text = format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#);
        validate(&serde_json::from_str(&text).unwrap())
            .err()
            .map(|violation| format!("{}: {}", violation.code.as_str(), violation.message))
    }

    #[test]
    fn rep_205_destinations_sources_and_namespaces() {
        for (spec, expected) in [
            (r#"{"destinations":[{"name":"!*"}]}"#, "name has an invalid format, '!*'"),
            (r#"{"destinations":[{"server":"!*"}]}"#, "server has an invalid format, '!*'"),
            (r#"{"destinations":[{"namespace":"!*"}]}"#, "namespace has an invalid format, '!*'"),
            (
                r#"{"destinations":[{"server":"s","namespace":"n"},{"server":"s","namespace":"n","name":"x"}]}"#,
                "destination 's/n' already added",
            ),
            (
                r#"{"destinations":[{"name":"c","namespace":"n"},{"name":"c","namespace":"n"}]}"#,
                "destination 'c/n' already added",
            ),
            (r#"{"sourceNamespaces":["a","a"]}"#, "source namespace 'a' already added"),
            (r#"{"sourceRepos":["!*"]}"#, "source repository has an invalid format, '!*'"),
            (r#"{"sourceRepos":["a","a"]}"#, "source repository 'a' already added"),
        ] {
            assert_eq!(check(spec), Some(format!("InvalidArgument: {expected}")), "{spec}");
        }
        assert_eq!(
            check(r#"{"destinations":[{"server":"s","namespace":"a"},{"name":"s","namespace":"b"}]}"#),
            None
        );
        assert_eq!(check(r#"{"sourceRepos":["a","A"],"sourceNamespaces":["a","b"]}"#), None);
    }

    #[test]
    fn rep_192_service_accounts() {
        let item = |server: &str, namespace: &str, account: &str| {
            format!(
                r#"{{"server":"{server}","namespace":"{namespace}","defaultServiceAccount":"{account}"}}"#
            )
        };
        let spec = |items: &[String]| format!(r#"{{"destinationServiceAccounts":[{}]}}"#, items.join(","));
        for (item, expected) in [
            (item("!s", "n", "a"), "server has an invalid format, '!s'"),
            (item("s", "n!", "a"), "namespace has an invalid format, 'n!'"),
            (item("[", "n", "a"), "server has an invalid format, '['"),
            (item("s", "n", ""), "defaultServiceAccount has an invalid format, ''"),
            (item("s", "n", "a*"), "defaultServiceAccount has an invalid format, 'a*'"),
        ] {
            assert_eq!(check(&spec(&[item])), Some(format!("InvalidArgument: {expected}")));
        }
        assert_eq!(
            check(&spec(&[item("s", "n", "a"), item("s", "n", "b")])),
            Some("InvalidArgument: destinationServiceAccount 's/n' already added".to_owned())
        );
        assert_eq!(check(&spec(&[item("s*", "{a,b}", "ns:a")])), None);
    }

    #[test]
    fn rep_206_the_first_group_wins() {
        let spec = r#"{"destinations":[{"name":"!*"}],"sourceNamespaces":["a","a"],"sourceRepos":["!*"]}"#;
        assert_eq!(check(spec).unwrap(), "InvalidArgument: name has an invalid format, '!*'");
        let policy =
            r#"{"roles":[{"name":"r","policies":["p, proj:p:r, applications, action/\"x, p/*, allow"]}]}"#;
        assert!(check(policy).unwrap().starts_with("InvalidArgument: policy syntax error: "));
    }
}
