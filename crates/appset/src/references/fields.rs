//! Fields of generators that name Secrets and `ConfigMaps`. A test compares the table with the CRD.

use serde_json::{Map, Value};

use super::{Namespaces, Purpose, Reference};
use crate::generator::Kind;

/// A field that names a Secret or `ConfigMap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Generator that has it.
    pub kind: Kind,
    /// Members that lead to it.
    pub path: &'static [&'static str],
    /// What the object is for.
    pub purpose: Purpose,
}

const fn scm(path: &'static [&'static str], purpose: Purpose) -> Field {
    Field { kind: Kind::ScmProvider, path, purpose }
}

const fn pull(path: &'static [&'static str], purpose: Purpose) -> Field {
    Field { kind: Kind::PullRequest, path, purpose }
}

/// All of them.
pub const FIELDS: [Field; 23] = [
    scm(&["github", "tokenRef"], Purpose::ProviderToken),
    scm(&["github", "appSecretName"], Purpose::GithubApp),
    scm(&["gitlab", "tokenRef"], Purpose::ProviderToken),
    scm(&["gitlab", "caRef"], Purpose::Certificates),
    scm(&["gitea", "tokenRef"], Purpose::ProviderToken),
    scm(&["bitbucketServer", "basicAuth", "passwordRef"], Purpose::ProviderToken),
    scm(&["bitbucketServer", "bearerToken", "tokenRef"], Purpose::ProviderToken),
    scm(&["bitbucketServer", "caRef"], Purpose::Certificates),
    scm(&["bitbucket", "appPasswordRef"], Purpose::ProviderToken),
    scm(&["azureDevOps", "accessTokenRef"], Purpose::ProviderToken),
    pull(&["github", "tokenRef"], Purpose::ProviderToken),
    pull(&["github", "appSecretName"], Purpose::GithubApp),
    pull(&["gitlab", "tokenRef"], Purpose::ProviderToken),
    pull(&["gitlab", "caRef"], Purpose::Certificates),
    pull(&["gitea", "tokenRef"], Purpose::ProviderToken),
    pull(&["bitbucketServer", "basicAuth", "passwordRef"], Purpose::ProviderToken),
    pull(&["bitbucketServer", "bearerToken", "tokenRef"], Purpose::ProviderToken),
    pull(&["bitbucketServer", "caRef"], Purpose::Certificates),
    pull(&["bitbucket", "basicAuth", "passwordRef"], Purpose::ProviderToken),
    pull(&["bitbucket", "bearerToken", "tokenRef"], Purpose::ProviderToken),
    pull(&["azuredevops", "tokenRef"], Purpose::ProviderToken),
    Field { kind: Kind::Plugin, path: &["configMapRef"], purpose: Purpose::PluginConfig },
    Field { kind: Kind::ClusterDecisionResource, path: &["configMapRef"], purpose: Purpose::DecisionConfig },
];

/// References of one generator, nested ones aside.
pub fn references_of(kind: Kind, block: &Map<String, Value>, namespaces: &Namespaces<'_>) -> Vec<Reference> {
    let mut found = Vec::new();
    for field in FIELDS.iter().filter(|field| field.kind == kind) {
        let value = field.path.split_first().and_then(|(first, rest)| {
            rest.iter().try_fold(block.get(*first)?, |value, member| value.get(*member))
        });
        let Some((name, key)) = value.and_then(named) else { continue };
        found.push(Reference::new(field.purpose, namespaces, name, key));
    }
    found
}

/// Name and key of a reference: a text, or an object with the name under one of these members.
fn named(value: &Value) -> Option<(&str, &str)> {
    let member = |name: &str| value.get(name).and_then(Value::as_str);
    let name =
        value.as_str().or_else(|| ["secretName", "configMapName", "name"].into_iter().find_map(member));
    Some((name.filter(|name| !name.is_empty())?, member("key").unwrap_or("")))
}
