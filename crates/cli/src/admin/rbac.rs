//! `admin settings rbac can` and `validate` (CLI-910, CLI-911).

use tiphys_api::names::RBAC_CONFIG_MAP;
use tiphys_cluster::Target;
use tiphys_object::Gvk;
use tiphys_policy::rbac::{PolicyError, Rbac, RbacConfig, Request, Resource, review};

use crate::admin::policy_file;
use crate::command::Command;
use crate::core::value_of;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::{self, Ended, Group, OK, Session};
use crate::terminal::{Terminal, read_input};

const POLICY_FILE: Flag = flag(
    "policy-file",
    Kind::Text,
    "",
    "File with the policy: argocd-rbac-cm as a manifest, or CSV; - for standard input",
);

const CAN_FLAGS: &[Flag] = &[
    POLICY_FILE,
    flag("default-role", Kind::Text, "", "Role that everybody has, instead of policy.default"),
    flag("use-builtin-policy", Kind::Bool, "true", "Add the built-in policy"),
    flag("strict", Kind::Bool, "true", "Refuse resources and actions that do not exist"),
    flag("quiet", Kind::Bool, "false", "Print nothing, say it by the exit code").or('q'),
];

#[derive(Clone, Copy, Debug)]
enum Verb {
    Can,
    Validate,
}

static GROUP: Group<Verb> = Group {
    name: "admin settings rbac",
    about: "Check who may do what",
    commands: &[
        Command {
            name: "can",
            usage: "ROLE/SUBJECT ACTION RESOURCE [SUB-RESOURCE]",
            about: "Say whether a role or subject may do something",
            flags: &[CAN_FLAGS],
            operands: (3, 4),
            usage_code: 1,
            required: &[],
            verb: Verb::Can,
        },
        Command {
            name: "validate",
            usage: "",
            about: "Say whether a policy can be read, and what in it has no effect",
            flags: &[&[POLICY_FILE]],
            operands: (0, usize::MAX),
            usage_code: 1,
            required: &[],
            verb: Verb::Validate,
        },
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin settings rbac …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, async |session: &Session<'_>, verb| match verb {
        Verb::Can => Box::pin(can(session)).await,
        Verb::Validate => Box::pin(validate(session)).await,
    })
}

async fn can(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let mut operands = flags.operands.iter().map(String::as_str);
    let mut next = || operands.next().unwrap_or_default();
    let (subject, action, resource, object) = (next(), next(), next(), next());
    let config = load(session).await?.map_err(|error| invalid(&error))?;
    let request = request(action, resource, object, flags.is_on("strict"))?;
    let default_role = match flags.text("default-role") {
        "" => config.default_role.clone(),
        role => role.into(),
    };
    let config = RbacConfig { default_role, with_builtin: flags.is_on("use-builtin-policy"), ..config };
    let rbac = Rbac::compile(&config).map_err(|error| invalid(&error))?;
    let may = rbac.subject_may(subject, &request);
    if !flags.is_on("quiet") {
        session.terminal.line(if may { "Yes" } else { "No" });
    }
    Ok(Ended::Code(u8::from(!may)))
}

async fn validate(session: &Session<'_>) -> Result<Ended, Failure> {
    if !session.flags.operands.is_empty() {
        return Ok(Ended::HelpAnd("too many arguments"));
    }
    let review = match load(session).await? {
        Ok(config) if config.is_empty() => {
            return Err(Failure::fatal("Policy is empty or could not be loaded."));
        }
        Ok(config) => review(&config),
        Err(error) => {
            session.terminal.line(&format!("Policy is invalid: {error}"));
            return Ok(Ended::Code(1));
        }
    };
    for warning in &review.warnings {
        session.warn(warning);
    }
    match review.error {
        None => {
            session.terminal.line("Policy is valid.");
            Ok(OK)
        }
        Some(error) => {
            session.terminal.line(&format!("Policy is invalid: {error}"));
            Ok(Ended::Code(1))
        }
    }
}

fn invalid(error: &PolicyError) -> Failure {
    Failure::generic(format!("Policy is invalid: {error}"))
}

/// The policy of the file or of the cluster; one that is wrong in itself is the caller's to tell about.
async fn load(session: &Session<'_>) -> Result<Result<RbacConfig, PolicyError>, Failure> {
    let file = session.flags.text("policy-file");
    let namespace = session.flags.text("namespace");
    if file.is_empty() == namespace.is_empty() {
        return Err(Failure::fatal("please provide exactly one of --policy-file or --namespace"));
    }
    if !file.is_empty() {
        return policy_file::read(file, &read_input(file).await?);
    }
    let core = session.connect_to_cluster().await?;
    let target = Target::new(Gvk::new("", "v1", "ConfigMap"), namespace, RBAC_CONFIG_MAP);
    let Some(object) = core.get(&target).await? else {
        session.warn(&format!("there is no ConfigMap {RBAC_CONFIG_MAP} in namespace {namespace}"));
        return Ok(Ok(RbacConfig::default()));
    };
    Ok(RbacConfig::read(&policy_file::data(RBAC_CONFIG_MAP, &value_of(&object)?)?))
}

/// What is asked about. Short forms of resources are spelled out; where no object is named, it is all of them.
fn request<'a>(
    action: &'a str,
    resource: &'a str,
    object: &'a str,
    strict: bool,
) -> Result<Request<'a>, Failure> {
    let Some(known) = Resource::parse_alias(resource) else {
        if strict {
            let all = Resource::ALL.map(Resource::as_str).join(", ");
            let text = format!("error in RBAC request: '{resource}' is not a valid resource name");
            return Err(Failure::fatal(text).hint(format!("name one of {all}; or ask with --strict=false")));
        }
        return Ok(Request { resource, action, object });
    };
    if strict && !known.has_action(action) {
        let text = format!("error in RBAC request: '{action}' is not a valid action for {}", known.as_str());
        let all = known.actions().join(", ");
        return Err(Failure::fatal(text).hint(format!("name one of {all}; or ask with --strict=false")));
    }
    let object = if known.is_in_project() && ["", "*"].contains(&object) { "*/*" } else { object };
    Ok(Request { resource: known.as_str(), action, object })
}
