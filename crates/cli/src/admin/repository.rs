//! `admin repo …`: which Secret is meant, asked of URLs and files alone (REP-236, REP-237).

use tiphys_api::names::SECRET_TYPE_LABEL;
use tiphys_api::repo_url;
use tiphys_api::repository::TemplateMatching;
use tiphys_api::repository::{self, CredentialTemplate, Repository, SecretKind, secret_name};
use tiphys_installation::{Installation, InstallationData, objects};

use super::inputs::{self, answer, invalid, verb};
use super::spec;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::{self, Ended, Group, OK, Session};
use crate::terminal::Terminal;

const PROJECT: Flag = flag("project", Kind::Text, "", "Project");
const NAME: &[Flag] = &[
    PROJECT,
    flag("kind", Kind::Text, "repo", "Kind of the Secret: repo, repo-write, creds or creds-write"),
];
const RESOLVE: &[Flag] = &[
    PROJECT,
    flag(
        "projects",
        Kind::Text,
        "",
        "Folder or file with the projects; without them every URL counts as permitted",
    ),
    flag("secrets", Kind::Text, "", "Folder or file with the Secrets"),
    flag("url", Kind::Text, "", "URL of the repository"),
    flag("write", Kind::Bool, "false", "Look for credentials to push with"),
];

#[derive(Clone, Copy, Debug)]
enum Verb {
    Normalize,
    Same,
    SecretName,
    Resolve,
    GenerateSpec,
}

static REPO: Group<Verb> = Group {
    name: "admin repo",
    about: "Say which repository and which Secret is meant",
    commands: &[
        spec::of_repository(Verb::GenerateSpec),
        verb(Verb::Normalize, ("normalize", "URL"), "Print the spelling that URLs are compared by", &[], 1),
        verb(Verb::Resolve, ("resolve", ""), "Say which credentials are used", &[RESOLVE], 0),
        verb(Verb::Same, ("same", "URL URL"), "Say whether two URLs mean one repository", &[], 2),
        verb(Verb::SecretName, ("secret-name", "URL"), "Print the name of the Secret", &[NAME], 1),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin repo …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &REPO, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    let terminal = session.terminal;
    let operand = session.operand(0);
    match verb {
        Verb::Normalize => {
            let normalized = repo_url::normalize(operand);
            if normalized.is_empty() {
                return Err(invalid(format!("{:?} is no URL of a repository", repo_url::redact(operand))));
            }
            terminal.line(&normalized);
        }
        Verb::Same => {
            let is_same = repo_url::same(operand, session.operand(1));
            return Ok(answer(terminal, (!is_same).then_some("")));
        }
        Verb::SecretName => {
            let kind = match session.flags.text("kind") {
                "repo" => SecretKind::Repository,
                "repo-write" => SecretKind::WriteRepository,
                "creds" => SecretKind::Template,
                "creds-write" => SecretKind::WriteTemplate,
                other => {
                    return Err(invalid(format!(
                        "--kind: {other:?} is none of repo, repo-write, creds, creds-write"
                    )));
                }
            };
            terminal.line(&secret_name(kind, operand, session.flags.text("project")));
        }
        Verb::GenerateSpec => return Box::pin(spec::repository(session)).await,
        Verb::Resolve => return Box::pin(resolve(session)).await,
    }
    Ok(OK)
}

/// Says which Secrets an access uses, with the names of the fields that are set, never with their values.
async fn resolve(session: &Session<'_>) -> Result<Ended, Failure> {
    let (flags, terminal) = (session.flags, session.terminal);
    let (url, project) = (flags.text("url"), flags.text("project"));
    for name in ["url", "secrets"] {
        if flags.text(name).is_empty() {
            return Err(invalid(format!("--{name}: is missing")));
        }
    }
    let mut data = InstallationData::default();
    inputs::take(&mut data, "secrets", flags.text("secrets"), "Secret").await?;
    let kinds = if flags.is_on("write") {
        ["repository-write", "repo-write-creds"]
    } else {
        ["repository", "repo-creds"]
    };
    let (mut repositories, mut templates) = (Vec::new(), Vec::new());
    for secret in data.secrets.values() {
        let kind = secret.label(SECRET_TYPE_LABEL).unwrap_or_default();
        if !kinds.contains(&kind) {
            continue;
        }
        let metadata =
            objects::metadata(secret).map_err(|error| invalid(format!("{}: {error}", secret.name())))?;
        let fields = objects::decoded(secret);
        if kind == kinds[0] {
            repositories.push(Repository::from_secret(&metadata, &fields));
        } else {
            templates.push(CredentialTemplate::from_secret(&metadata, &fields));
        }
    }
    let matching = TemplateMatching::default();
    let has_rules = !flags.text("projects").is_empty();
    if has_rules {
        inputs::take(&mut data, "projects", flags.text("projects"), "AppProject").await?;
    }
    let installation = Installation::build(&data);
    let is_shared = |found: &Repository| !has_rules || installation.serves(project, found);
    let found = repository::resolve(&repositories, &templates, (url, project), matching, &is_shared)
        .map_err(|error| invalid(error.to_string()))?;
    let secret = repository::select(&repositories, url, project);
    let template =
        repository::select_template(&templates, url, matching).filter(|_| found.inherited_credentials);
    let or_none = |name: Option<&str>| name.unwrap_or("none").to_owned();
    terminal.line(&format!("Secret:   {}", or_none(secret.map(|one| one.chosen.secret_name.as_str()))));
    terminal.line(&format!("Template: {}", or_none(template.map(|one| one.chosen.secret_name.as_str()))));
    terminal.line(&format!(
        "Scope:    {}",
        or_none(Some(found.project.as_str()).filter(|name| !name.is_empty()))
    ));
    terminal.line(&format!("Access:   {}", found.credentials.kind().as_str()));
    let mut set: Vec<&str> = found
        .fields()
        .iter()
        .filter(|field| !field.is_zero && field.key != "url")
        .map(|field| field.key)
        .collect();
    set.sort_unstable();
    terminal.line(&format!("Fields:   {}", if set.is_empty() { "none".to_owned() } else { set.join(", ") }));
    Ok(OK)
}
