//! `admin proj …`: what a project permits, asked of its manifest alone (REP-230..235), and how projects are made and
//! changed (CLI-920, CLI-922).

use jiff::Timestamp;
use tiphys_api::AppProject;
use tiphys_api::cluster::Cluster;
use tiphys_api::project::SyncWindow;
use tiphys_api::settings::ProjectMatching;
use tiphys_engine::tracking::split_qualified_name;
use tiphys_installation::{Installation, InstallationData};
use tiphys_policy::Decision;
use tiphys_policy::project::{self, Resource, Target};
use tiphys_policy::window::{self, Subject, SyncAttempt};

use super::inputs::{self, answer, invalid, verb};
use super::{policies, spec};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::output::{Format, print};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

const FILE: &[Flag] =
    &[flag("file", Kind::Text, "", "File with the AppProject, - for standard input").or('f')];
const MODE: &[Flag] = &[flag("mode", Kind::Text, "compat", "How patterns are read: compat or strict")];
const DEPLOY: &[Flag] = &[
    flag("server", Kind::Text, "", "Server of the cluster"),
    flag("name", Kind::Text, "", "Name of the cluster"),
    flag("dest-namespace", Kind::Text, "", "Namespace of the destination; also --namespace"),
    flag("namespace", Kind::Text, "", "Namespace of the destination").or('n'),
    flag("project-cluster", Kind::Texts, "", "Cluster of the project: server=…,name=…"),
];
const RESOURCE: &[Flag] = &[
    flag("resource-name", Kind::Text, "", "Name of the object"),
    flag("cluster-scoped", Kind::Bool, "false", "Objects of the kind are in no namespace"),
];
const SYNC: &[Flag] = &[
    flag("app", Kind::Text, "", "Name of the application"),
    flag("dest-server", Kind::Text, "", "Server of the destination, as the application writes it"),
    flag("dest-name", Kind::Text, "", "Cluster of the destination, as the application writes it"),
    flag("dest-namespace", Kind::Text, "", "Namespace of the destination"),
    flag("manual", Kind::Bool, "false", "A person asks for the sync"),
    flag("started-at", Kind::Text, "", "When the sync began that goes on: RFC 3339"),
];
const AT: &[Flag] = &[flag("at", Kind::Text, "", "The time: RFC 3339")];
const USE: &[Flag] = &[
    flag("app-namespace", Kind::Text, "", "Namespace of the application"),
    flag("control-plane-namespace", Kind::Text, "argocd", "Namespace of the installation"),
];
const ACCOUNT: &[Flag] = &[
    flag("server", Kind::Text, "", "Server of the destination"),
    flag("dest-namespace", Kind::Text, "", "Namespace of the destination"),
    flag("app-namespace", Kind::Text, "", "Namespace of the application"),
];
const AROUND: &[Flag] = &[
    flag("cm", Kind::Text, "", "File with argocd-cm"),
    flag("projects", Kind::Text, "", "Folder or file with the other projects"),
    flag("secrets", Kind::Text, "", "Folder or file with the Secrets of repositories and clusters"),
];

#[derive(Clone, Copy, Debug)]
enum Verb {
    Ask(Question),
    GenerateSpec,
    GenerateAllowList,
    UpdateRolePolicy,
}

/// What is asked of a manifest alone.
#[derive(Clone, Copy, Debug)]
enum Question {
    Validate,
    CanSource,
    CanDeploy,
    CanResource,
    CanSync,
    Windows,
    CanUse,
    ServiceAccount,
    Effective,
}

static GROUP: Group<Verb> = Group {
    name: "admin proj",
    about: "Say what a project permits",
    commands: &[
        verb(
            Verb::Ask(Question::CanDeploy),
            ("can-deploy", ""),
            "Say whether a destination is permitted",
            &[FILE, DEPLOY, MODE],
            0,
        ),
        verb(
            Verb::Ask(Question::CanResource),
            ("can-resource", "GROUP KIND"),
            "Say whether objects of a kind are permitted; the core group is \"\"",
            &[FILE, RESOURCE],
            2,
        ),
        verb(
            Verb::Ask(Question::CanSource),
            ("can-source", "URL"),
            "Say whether a repository is permitted",
            &[FILE, MODE],
            1,
        ),
        verb(
            Verb::Ask(Question::CanSync),
            ("can-sync", ""),
            "Say whether the sync windows let an application sync",
            &[FILE, SYNC, AT],
            0,
        ),
        verb(
            Verb::Ask(Question::CanUse),
            ("can-use", ""),
            "Say whether applications of a namespace may use the project",
            &[FILE, USE],
            0,
        ),
        spec::of_project(Verb::GenerateSpec),
        policies::allow_list_command(Verb::GenerateAllowList),
        policies::update_command(Verb::UpdateRolePolicy),
        verb(
            Verb::Ask(Question::Effective),
            ("effective", ""),
            "Print the project in force",
            &[FILE, AROUND],
            0,
        ),
        verb(
            Verb::Ask(Question::ServiceAccount),
            ("service-account", ""),
            "Print the user that a sync acts as",
            &[FILE, ACCOUNT],
            0,
        ),
        verb(
            Verb::Ask(Question::Validate),
            ("validate", ""),
            "Print what is wrong with a project",
            &[FILE],
            0,
        ),
        verb(
            Verb::Ask(Question::Windows),
            ("windows", ""),
            "Print the sync windows, and which are open",
            &[FILE, AT],
            0,
        ),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin proj …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, async |session: &Session<'_>, verb| {
        Box::pin(perform(session, verb)).await
    })
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::Ask(question) => Box::pin(ask(session, question)).await,
        Verb::GenerateSpec => Box::pin(spec::project(session)).await,
        Verb::GenerateAllowList => Box::pin(policies::allow_list(session)).await,
        Verb::UpdateRolePolicy => Box::pin(policies::update(session)).await,
    }
}

async fn ask(session: &Session<'_>, question: Question) -> Result<Ended, Failure> {
    let (flags, terminal) = (session.flags, session.terminal);
    let project = inputs::project(flags.text("file")).await?;
    let decided = |decision: &Decision| {
        let reason = decision.message.as_deref().unwrap_or_default();
        answer(terminal, (!decision.permitted).then_some(reason))
    };
    Ok(match question {
        Question::Validate => match project::validate(&project) {
            Ok(()) => OK,
            Err(violation) => {
                terminal.line(&violation.message);
                Ended::Code(1)
            }
        },
        Question::CanSource => {
            decided(&project::source_permitted(&project, session.operand(0), matching(flags)?))
        }
        Question::CanDeploy => decided(&can_deploy(&project, flags)?),
        Question::CanResource => {
            let resource = Resource {
                group: session.operand(0),
                kind: session.operand(1),
                name: flags.text("resource-name"),
                namespaced: !flags.is_on("cluster-scoped"),
            };
            decided(&project::resource_permitted(&project, resource))
        }
        Question::CanSync => can_sync(terminal, &project, flags)?,
        Question::Windows => {
            terminal.print(&windows(&project, time(flags, "at")?)?);
            OK
        }
        Question::CanUse => {
            let (namespace, own) = (flags.text("app-namespace"), flags.text("control-plane-namespace"));
            let is_permitted = project::namespace_permitted(&project, "", namespace, own).permitted;
            let refusal = format!(
                "applications in namespace '{namespace}' are not permitted to use project '{}'",
                project.name()
            );
            answer(terminal, (!is_permitted).then_some(&*refusal))
        }
        Question::ServiceAccount => {
            let [server, destination, app] =
                ["server", "dest-namespace", "app-namespace"].map(|name| flags.text(name));
            let user = project::service_account(&project, server, destination, app);
            let user = user.map_err(|error| invalid(error.to_string()))?;
            if let Some(user) = user {
                terminal.line(&user);
                OK
            } else {
                terminal.warn("no account of the project is for this destination\n");
                Ended::Code(1)
            }
        }
        Question::Effective => {
            terminal.print(&effective(&project, flags).await?);
            OK
        }
    })
}

fn matching(flags: &Parsed) -> Result<ProjectMatching, Failure> {
    match flags.text("mode") {
        "compat" => Ok(ProjectMatching::Compat),
        "strict" => Ok(ProjectMatching::Strict),
        other => Err(invalid(format!("--mode: {other:?} is none of compat, strict"))),
    }
}

fn time(flags: &Parsed, name: &str) -> Result<Timestamp, Failure> {
    let text = flags.text(name);
    text.parse().map_err(|_error| invalid(format!("--{name}: {text:?} is no time like 2026-05-04T07:30:00Z")))
}

fn can_deploy(project: &AppProject, flags: &Parsed) -> Result<Decision, Failure> {
    let clusters: Vec<Cluster> = flags
        .texts("project-cluster")
        .iter()
        .map(|text| cluster_of(project, text))
        .collect::<Result<_, _>>()?;
    let [namespace, other] = ["namespace", "dest-namespace"].map(|name| flags.text(name));
    let target = Target {
        server: flags.text("server"),
        name: flags.text("name"),
        namespace: if namespace.is_empty() { other } else { namespace },
        ..Target::default()
    };
    let target = target.among(&clusters, project.name());
    if target.server.is_empty() && target.name.is_empty() {
        return Err(invalid("--server: name the cluster by its server or its name"));
    }
    Ok(project::destination_permitted(project, target, Ok(&clusters), matching(flags)?))
}

/// A cluster of the project: `server=…,name=…`.
fn cluster_of(project: &AppProject, text: &str) -> Result<Cluster, Failure> {
    let mut cluster = Cluster { project: project.name().to_owned(), ..Cluster::default() };
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("server", server)) => server.trim_end_matches('/').clone_into(&mut cluster.server),
            Some(("name", name)) => name.clone_into(&mut cluster.name),
            _ => return Err(invalid(format!("--project-cluster: {part:?} is none of server=…, name=…"))),
        }
    }
    Ok(cluster)
}

fn can_sync(terminal: &Terminal, project: &AppProject, flags: &Parsed) -> Result<Ended, Failure> {
    if flags.text("app").is_empty() {
        return Err(invalid("--app: name the application"));
    }
    let (_, application) = split_qualified_name(flags.text("app"), "");
    let subject = Subject {
        application,
        server: flags.text("dest-server"),
        cluster: flags.text("dest-name"),
        namespace: flags.text("dest-namespace"),
        resolved: None,
    };
    let started = if flags.text("started-at").is_empty() { None } else { Some(time(flags, "started-at")?) };
    let attempt =
        SyncAttempt { manual: flags.is_on("manual"), operation_started_at: started, now: time(flags, "at")? };
    let verdict = window::can_sync_application(project, subject, attempt);
    if let Some(message) = verdict.message {
        return Err(invalid(message));
    }
    let shown = |positions: &[usize]| positions.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let reason = match verdict.active.as_slice() {
        [] => format!("none of the allow windows is open (windows {})", shown(&verdict.matching)),
        active => format!("sync windows {} decide against it", shown(active)),
    };
    Ok(answer(terminal, (!verdict.allowed).then_some(&*reason)))
}

fn windows(project: &AppProject, now: Timestamp) -> Result<String, Failure> {
    let mut table = Table::new(&["INDEX", "KIND", "ACTIVE"]);
    for (at, window) in project.windows() {
        let SyncWindow { kind, .. } = window;
        let is_active = window::is_active(window, now)
            .map_err(|error| invalid(format!("spec.syncWindows[{at}]: {error}")))?;
        table.row(vec![at.to_string(), kind.clone(), is_active.to_string()]);
    }
    Ok(table.print())
}

/// The project with what scoped repositories and clusters and global projects add to it (REP-122).
async fn effective(project: &AppProject, flags: &Parsed) -> Result<String, Failure> {
    let mut data = InstallationData { namespace: "argocd".to_owned(), ..InstallationData::default() };
    inputs::take(&mut data, "cm", flags.text("cm"), "ConfigMap").await?;
    inputs::take(&mut data, "projects", flags.text("projects"), "AppProject").await?;
    inputs::take(&mut data, "secrets", flags.text("secrets"), "Secret").await?;
    inputs::take(&mut data, "file", flags.text("file"), "AppProject").await?;
    let installation = Installation::build(&data);
    let found = installation.projects.get(project.name()).ok_or_else(|| {
        invalid(format!(
            "--file: the AppProject {:?} cannot be used: it needs apiVersion, kind and metadata.name",
            project.name()
        ))
    })?;
    let value = serde_json::to_value(found.shown()).map_err(|error| invalid(error.to_string()))?;
    print(&value, Format::Yaml)
}
