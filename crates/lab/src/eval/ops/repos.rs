//! `repos.*` and `clusters.*`: which Secret an access uses (REP parts A and B).

use super::world::{self, CLUSTERS, DESTINATION, PROJECT_NAME, REPO_URL, SETTINGS};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, required};
use serde_json::{Value, json};
use tiphys_api::AppProject;
use tiphys_api::application::Metadata;
use tiphys_api::cluster::{Cluster, ClusterError};
use tiphys_api::repo_url;
use tiphys_api::repository::{
    self, ApiSelectionError, CredentialTemplate, Inheritance, Repository, SecretKind,
};
use tiphys_policy::project::shared_source_matches;

const REPOSITORIES: Member = required("repositories", Shape::List(&Shape::TextMap));
const FIELDS: Member = required("fields", Shape::TextMap);
const SECRET: &[Member] = &[required("secret", Shape::OrNull(&Shape::Text))];

const ACCESS_MEMBERS: &[Member] =
    &[REPO_URL, PROJECT_NAME, default("credentialProject", Shape::Text, "\"\"")];

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "clusters.parse_secret",
        summary: "What a cluster Secret says; credentials are never shown.",
        stability: Stability::Stable,
        spec: &["EVAL-223", "REP-101", "REP-104"],
        input: &[required("data", Shape::TextMap)],
        result: &[
            required("name", Shape::Text),
            required("server", Shape::Text),
            required("namespaces", Shape::List(&Shape::Text)),
            required("clusterResources", Shape::Bool),
            required("shard", Shape::OrNull(&Shape::Integer)),
            required("project", Shape::Text),
        ],
        example: (
            r#"{"data":{"name":"eu","server":"https://eu.acme.test"}}"#,
            r#"{"name":"eu","server":"https://eu.acme.test","namespaces":[],"clusterResources":false,"shard":null,"project":""}"#,
        ),
        run: parse_cluster,
    },
    Operation {
        name: "clusters.resolve",
        summary: "The cluster a destination means to applications of a project.",
        stability: Stability::Stable,
        spec: &["EVAL-222", "REP-110", "REP-111"],
        input: &[DESTINATION, CLUSTERS, SETTINGS, PROJECT_NAME],
        result: &[required("server", Shape::Text), required("name", Shape::Text)],
        example: (
            r#"{"destination":{"name":"eu"},"clusters":[{"name":"eu","server":"https://eu.acme.test"}]}"#,
            r#"{"server":"https://eu.acme.test","name":"eu"}"#,
        ),
        run: resolve_cluster,
    },
    Operation {
        name: "clusters.secret_name",
        summary: "The name of the Secret for a cluster.",
        stability: Stability::Stable,
        spec: &["EVAL-221", "REP-100"],
        input: &[required("server", Shape::Text)],
        result: &[required("name", Shape::Text)],
        example: (
            r#"{"server":"https://k8s.acme.test:6443"}"#,
            r#"{"name":"cluster-k8s.acme.test-3643482865"}"#,
        ),
        run: |input| {
            Ok(
                json!({"name": repository::cluster_secret_name(input.text("server")).map_err(Fault::invalid)?}),
            )
        },
    },
    Operation {
        name: "repos.api_get",
        summary: "The repository a call of the API means.",
        stability: Stability::Stable,
        spec: &["EVAL-206", "REP-43"],
        input: &[REPOSITORIES, REPO_URL, PROJECT_NAME],
        result: SECRET,
        example: (
            r#"{"repositories":[{"name":"r","url":"https://git.acme.test/ui","project":"shop"}],"repoURL":"https://git.acme.test/ui","projectName":"shop"}"#,
            r#"{"secret":"r"}"#,
        ),
        run: api_get,
    },
    Operation {
        name: "repos.credential_kind",
        summary: "Which mechanism a set of credentials means.",
        stability: Stability::Stable,
        spec: &["EVAL-209", "REP-70"],
        input: &[FIELDS],
        result: &[required("kind", Shape::Text)],
        example: (r#"{"fields":{}}"#, r#"{"kind":"anonymous"}"#),
        run: |input| Ok(json!({"kind": template(input)?.credentials.kind().as_str()})),
    },
    Operation {
        name: "repos.has_credentials",
        summary: "Whether a Secret has credentials of its own.",
        stability: Stability::Stable,
        spec: &["EVAL-208", "REP-11"],
        input: &[FIELDS],
        result: &[required("hasCredentials", Shape::Bool)],
        example: (r#"{"fields":{"password":"x"}}"#, r#"{"hasCredentials":true}"#),
        run: |input| Ok(json!({"hasCredentials": template(input)?.credentials.is_present()})),
    },
    Operation {
        name: "repos.inheritance",
        summary: "The template whose credentials a repository takes, or why it takes none.",
        stability: Stability::Stable,
        spec: &["REP-22", "REP-33"],
        input: &[
            required("repository", Shape::TextMap),
            required("templates", Shape::List(&Shape::TextMap)),
            default("project", Shape::OrNull(&Shape::Map), "null"),
            SETTINGS,
        ],
        result: &[
            required("template", Shape::OrNull(&Shape::Text)),
            required("refusal", Shape::OrNull(&Shape::Text)),
        ],
        example: (
            r#"{"repository":{"url":"https://git.acme.test/ops/x","project":"shop"},"templates":[{"url":"https://git.acme.test","password":"p"}],"project":{"metadata":{"name":"shop"},"spec":{"sourceRepos":["https://git.acme.test/shop/*"]}}}"#,
            r#"{"template":null,"refusal":"sourceRepos of the project does not permit the URL"}"#,
        ),
        run: inheritance,
    },
    Operation {
        name: "repos.lookup",
        summary: "The Secret whose credentials an application of a project uses.",
        stability: Stability::Stable,
        spec: &["EVAL-204", "REP-20", "REP-21"],
        input: &[REPOSITORIES, REPO_URL, PROJECT_NAME],
        result: SECRET,
        example: (
            r#"{"repositories":[{"name":"r","url":"https://git.acme.test/ui","project":"shop"}],"repoURL":"https://git.acme.test/ui","projectName":"shop"}"#,
            r#"{"secret":"r"}"#,
        ),
        run: |input| {
            let repositories = world::repositories(input);
            let found = repository::select(&repositories, input.text("repoURL"), input.text("projectName"));
            Ok(json!({"secret": found.map(|found| &found.chosen.secret_name)}))
        },
    },
    Operation {
        name: "repos.mutation_target",
        summary: "The Secret that update and delete may touch.",
        stability: Stability::Stable,
        spec: &["EVAL-205", "REP-45", "REP-48"],
        input: &[REPOSITORIES, REPO_URL, PROJECT_NAME],
        result: SECRET,
        example: (
            r#"{"repositories":[{"name":"r","url":"https://git.acme.test/ui","project":"shop"}],"repoURL":"https://git.acme.test/ui","projectName":"ops"}"#,
            r#"{"secret":null}"#,
        ),
        run: |input| {
            let repositories = world::repositories(input);
            let (url, project) = (input.text("repoURL"), input.text("projectName"));
            let found = repository::mutation_target(&repositories, url, project);
            Ok(json!({"secret": found.map(|found| &found.chosen.secret_name)}))
        },
    },
    Operation {
        name: "repos.normalize_url",
        summary: "The spelling of a URL that decides which repository is meant.",
        stability: Stability::Stable,
        spec: &["EVAL-201", "REP-15"],
        input: &[required("url", Shape::Text)],
        result: &[
            required("normalized", Shape::Text),
            required("ssh", Shape::Bool),
            required("sshUser", Shape::Text),
        ],
        example: (
            r#"{"url":"ssh://git@git.acme.test/Shop/UI.git"}"#,
            r#"{"normalized":"git@git.acme.test/shop/ui","ssh":true,"sshUser":"git"}"#,
        ),
        run: |input| {
            let url = input.text("url");
            let user = repo_url::ssh_user(url);
            let (normalized, ssh) = (repo_url::normalize(url), user.is_some());
            Ok(json!({"normalized": normalized, "ssh": ssh, "sshUser": user.unwrap_or_default()}))
        },
    },
    Operation {
        name: "repos.parse_bool",
        summary: "A boolean of a Secret.",
        stability: Stability::Stable,
        spec: &["EVAL-210", "REP-6"],
        input: &[required("value", Shape::OrNull(&Shape::Text))],
        result: &[required("value", Shape::Bool)],
        example: (r#"{"value":"True"}"#, r#"{"value":true}"#),
        run: parse_bool,
    },
    Operation {
        name: "repos.same_url",
        summary: "Whether two URLs mean one repository.",
        stability: Stability::Stable,
        spec: &["EVAL-202", "REP-16", "REP-17"],
        input: &[required("a", Shape::Text), required("b", Shape::Text)],
        result: &[required("same", Shape::Bool)],
        example: (
            r#"{"a":"https://git.acme.test/ui","b":"https://git.acme.test/UI.git"}"#,
            r#"{"same":true}"#,
        ),
        run: |input| Ok(json!({"same": repo_url::same(input.text("a"), input.text("b"))})),
    },
    Operation {
        name: "repos.same_working_copy",
        summary: "Whether two accesses may share what was fetched.",
        stability: Stability::Stable,
        spec: &["EVAL-211", "REP-60", "REP-61", "REP-64"],
        input: &[
            required("a", Shape::Members(ACCESS_MEMBERS)),
            required("b", Shape::Members(ACCESS_MEMBERS)),
            world::PARAMS,
        ],
        result: &[required("same", Shape::Bool)],
        example: (
            r#"{"a":{"repoURL":"https://git.acme.test/ui"},"b":{"repoURL":"https://git.acme.test/api"}}"#,
            r#"{"same":false}"#,
        ),
        run: |input| Ok(json!({"same": same_working_copy(input)})),
    },
    Operation {
        name: "repos.secret_name",
        summary: "The name of the Secret for a repository or template.",
        stability: Stability::Stable,
        spec: &["EVAL-203", "REP-1"],
        input: &[required("url", Shape::Text), default("kind", Shape::Text, "\"repo\""), PROJECT_NAME],
        result: &[required("name", Shape::Text)],
        example: (
            r#"{"url":"https://git.acme.test/shop/ui","projectName":"shop"}"#,
            r#"{"name":"repo-857941404"}"#,
        ),
        run: secret_name,
    },
    Operation {
        name: "repos.template",
        summary: "The credential template that is applied to a URL.",
        stability: Stability::Stable,
        spec: &["EVAL-207", "REP-30", "REP-32"],
        input: &[required("templates", Shape::List(&Shape::TextMap)), REPO_URL, SETTINGS],
        result: &[required("url", Shape::OrNull(&Shape::Text))],
        example: (
            r#"{"templates":[{"url":"https://git.acme.test/shop"}],"repoURL":"https://git.acme.test/shop/ui"}"#,
            r#"{"url":"https://git.acme.test/shop"}"#,
        ),
        run: |input| {
            let templates = world::templates(input, "templates");
            let matching = world::settings(input).template_matching();
            let found = repository::select_template(&templates, input.text("repoURL"), matching);
            Ok(json!({"url": found.map(|found| &found.chosen.url)}))
        },
    },
];

/// A Secret with these fields; one that cannot be read is an error of the product.
fn template(input: &Input) -> Result<CredentialTemplate, Fault> {
    let template = CredentialTemplate::from_secret(&Metadata::default(), &world::texts(input, "fields"));
    match template.problem {
        Some(problem) => Err(Fault::invalid(problem)),
        None => Ok(template),
    }
}

fn inheritance(input: &mut Input) -> Result<Value, Fault> {
    let repository = Repository::from_secret(&Metadata::default(), &world::texts(input, "repository"));
    if let Some(problem) = repository.problem {
        return Err(Fault::invalid(problem));
    }
    let templates = world::templates(input, "templates");
    let settings = world::settings(input);
    let rules: Option<AppProject> = match input.take("project") {
        Value::Null => None,
        given => Some(world::typed("project", given)?),
    };
    let matching = settings.project_matching();
    // Without rules nothing is permitted, but to what belongs to no project.
    let is_shared = |found: &Repository| match &rules {
        Some(rules) => shared_source_matches(rules, &found.url, matching),
        None => found.project.is_empty(),
    };
    let found = repository::inheritance(&repository, &templates, settings.template_matching(), &is_shared);
    let (template, refusal) = match found {
        Inheritance::Nothing => (None, None),
        Inheritance::Template(template) => (Some(template.url.clone()), None),
        Inheritance::Refused(_, obstacle) => (None, Some(obstacle.to_string())),
    };
    Ok(json!({"template": template, "refusal": refusal}))
}

fn parse_bool(input: &mut Input) -> Result<Value, Fault> {
    let value = match input.get("value").as_str() {
        // An absent key is off (REP-6).
        None => false,
        Some(text) => repository::parse_bool(text)
            .ok_or_else(|| Fault::invalid(format!("{text:?} is not a boolean")))?,
    };
    Ok(json!({"value": value}))
}

fn secret_name(input: &mut Input) -> Result<Value, Fault> {
    let kind = match input.text("kind") {
        "repo" => SecretKind::Repository,
        "repo-write" => SecretKind::WriteRepository,
        "creds" => SecretKind::Template,
        "creds-write" => SecretKind::WriteTemplate,
        other => return Err(Fault::invalid(format!("unknown kind {other:?}"))),
    };
    Ok(json!({"name": repository::secret_name(kind, input.text("url"), input.text("projectName"))}))
}

fn same_working_copy(input: &Input) -> bool {
    let isolation = world::settings(input).checkout_isolation();
    let copy = |side: &str| {
        let text = |member: &str| input.get(side).get(member).and_then(Value::as_str).unwrap_or_default();
        let scope = isolation.scope(text("projectName"), text("credentialProject"));
        repository::working_copy(text("repoURL"), scope)
    };
    copy("a") == copy("b")
}

fn api_get(input: &mut Input) -> Result<Value, Fault> {
    let repositories = world::repositories(input);
    // A call without a project and one with an empty one are the same here (REP-43).
    let project = Some(input.text("projectName")).filter(|project| !project.is_empty());
    match repository::select_for_api(&repositories, input.text("repoURL"), project) {
        Ok(found) => Ok(json!({"secret": found.secret_name})),
        Err(problem @ ApiSelectionError::Denied) => {
            Err(Fault::new(Code::PermissionDenied, problem.to_string()))
        }
        // REP-44: `InvalidArgument`, where the reference says `Unknown`.
        Err(problem @ ApiSelectionError::Ambiguous { .. }) => Err(Fault::invalid(problem)),
        Err(problem) => Err(Fault::new(Code::Unknown, problem.to_string())),
    }
}

fn resolve_cluster(input: &mut Input) -> Result<Value, Fault> {
    let destination = world::typed("destination", input.take("destination"))?;
    let clusters = world::all_clusters(input);
    match clusters.of_project(input.text("projectName")).resolve(&destination) {
        Ok(cluster) => Ok(json!({"server": cluster.server, "name": cluster.name})),
        Err(problem) => Err(cluster_fault(&problem)),
    }
}

fn cluster_fault(problem: &ClusterError) -> Fault {
    match problem {
        ClusterError::UnknownName(_) | ClusterError::UnknownServer { .. } => Fault::not_found(problem),
        _ => Fault::invalid(problem),
    }
}

fn parse_cluster(input: &mut Input) -> Result<Value, Fault> {
    let cluster = Cluster::from_secret(&Metadata::default(), &world::texts(input, "data"));
    cluster.parse_config().map_err(Fault::invalid)?;
    Ok(json!({
        "name": cluster.name,
        "server": cluster.server,
        "namespaces": cluster.namespaces,
        "clusterResources": cluster.cluster_resources,
        "shard": cluster.shard,
        "project": cluster.project,
    }))
}
