//! `admin notifications`: what triggers and templates make of an application (CLI-930, NTF-900 to NTF-902), without
//! subscriptions and state.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tiphys_api::names;
use tiphys_cluster::Target;
use tiphys_go::expr::Run;
use tiphys_go::template::Still;
use tiphys_installation::objects;
use tiphys_notify::{Condition, Config, Destination, Notification, Request, Variables, evaluate};
use tiphys_object::{Gvk, access};

use super::{inputs, policy_file};
use crate::command::Command;
use crate::core::{AppName, Core, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::global;
use crate::output::{machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

/// The value of `--secret` that stands for a Secret without anything in it.
const EMPTY: &str = ":empty";
/// The service that prints.
const CONSOLE: &str = "console";
/// Letters of a message that a table shows.
const PREVIEW_MAX: usize = 100;

const SOURCES: &[Flag] = &[
    flag(
        "config-map",
        Kind::Text,
        "",
        "File with argocd-notifications-cm instead of the cluster's; - for standard input",
    ),
    flag(
        "secret",
        Kind::Text,
        "",
        "File with argocd-notifications-secret instead of the cluster's; :empty for none",
    ),
    flag(
        "argocd-repo-server",
        Kind::Text,
        "",
        "Accepted; functions that ask a repository are not available here",
    ),
    flag(
        "argocd-repo-server-plaintext",
        Kind::Bool,
        "false",
        "Accepted; functions that ask a repository are not available here",
    ),
];
const OUTPUT: &[Flag] =
    &[flag("output", Kind::Text, "wide", "Output format: wide, name, json or yaml").or('o')];
const RECIPIENTS: &[Flag] =
    &[flag("recipient", Kind::Texts, "", "Recipient service:recipient; console:stdout without one")];

#[derive(Clone, Copy, Debug)]
enum Verb {
    GetTriggers,
    RunTrigger,
    GetTemplates,
    NotifyTemplate,
}

static TRIGGER: Group<Verb> = Group {
    name: "admin notifications trigger",
    about: "Ask triggers of notifications",
    commands: &[
        Command::new(
            Verb::GetTriggers,
            ("get", "[NAME]"),
            "Print triggers and their conditions",
            &[SOURCES, OUTPUT],
            (0, 1),
        ),
        Command::new(
            Verb::RunTrigger,
            ("run", "NAME RESOURCE_NAME"),
            "Say which conditions of a trigger an application fulfils; it may be a file",
            &[SOURCES],
            (0, usize::MAX),
        ),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

static TEMPLATE: Group<Verb> = Group {
    name: "admin notifications template",
    about: "Try templates of notifications",
    commands: &[
        Command::new(Verb::GetTemplates, ("get", "[NAME]"), "Print templates", &[SOURCES, OUTPUT], (0, 1)),
        Command::new(
            Verb::NotifyTemplate,
            ("notify", "NAME RESOURCE_NAME"),
            "Print what a template says of an application; it may be a file",
            &[SOURCES, RECIPIENTS],
            (0, usize::MAX),
        ),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

static GROUP: Group<Verb> = Group {
    name: "admin notifications",
    about: "Try triggers and templates of notifications",
    commands: &[],
    groups: &[("template", "Try templates of notifications"), ("trigger", "Ask triggers of notifications")],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin notifications …` and says the exit code.
pub(super) fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    let tables: Vec<&'static [Flag]> = global::WORD_TABLES.iter().copied().chain([SOURCES]).collect();
    match crate::flags::take_word(&mut args, &tables).as_deref() {
        Some("trigger") => session::run(terminal, args, &TRIGGER, perform),
        Some("template") => session::run(terminal, args, &TEMPLATE, perform),
        word => {
            session::show_group(terminal, &GROUP, word);
            u8::from(word.is_some())
        }
    }
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    let operands = session.flags.operands.len();
    if matches!(verb, Verb::RunTrigger | Verb::NotifyTemplate) && operands != 2 {
        return Err(Failure::fatal(format!("expected two arguments, got {operands}")));
    }
    for name in ["argocd-repo-server", "argocd-repo-server-plaintext"] {
        if session.flags.is_set(name) {
            session.warn(&format!("--{name} changes nothing: functions that ask a repository fail here"));
        }
    }
    Box::pin(async {
        let context = Context::read(session).await?;
        match verb {
            Verb::GetTriggers => context.triggers(),
            Verb::GetTemplates => context.templates(),
            Verb::RunTrigger => context.run_trigger().await,
            Verb::NotifyTemplate => context.notify().await,
        }
    })
    .await
}

/// Objects whose texts are meant.
type Texts = BTreeMap<String, String>;

/// The configuration, and where else to look.
struct Context<'a> {
    session: &'a Session<'a>,
    core: Option<Core>,
    config: Config,
    secret: Texts,
}

impl<'a> Context<'a> {
    /// Reads files, and the cluster for what they do not say.
    async fn read(session: &'a Session<'a>) -> Result<Self, Failure> {
        let flags = session.flags;
        let (map, secret) = (flags.text("config-map"), flags.text("secret"));
        let mut core = None;
        if map.is_empty() || secret.is_empty() {
            core = Some(session.connect_to_cluster().await?);
        }
        let map = match &core {
            Some(core) if map.is_empty() => stored(core, "ConfigMap", tiphys_notify::CONFIG_MAP).await?,
            _ => of_file("config-map", map, "ConfigMap", tiphys_notify::CONFIG_MAP).await?,
        };
        let secret = match &core {
            _ if secret == EMPTY => Texts::new(),
            Some(core) if secret.is_empty() => stored(core, "Secret", tiphys_notify::SECRET).await?,
            _ => of_file("secret", secret, "Secret", tiphys_notify::SECRET).await?,
        };
        let config = Config::read(&map, &secret)
            .map_err(|error| Failure::fatal(format!("failed to parse config: {error}")))?;
        for warning in &config.warnings {
            session.warn(warning);
        }
        Ok(Self { session, core, config, secret })
    }

    /// What is printed of something that a name may choose.
    fn show<T>(
        &self,
        what: &str,
        all: &BTreeMap<String, T>,
        value: impl Fn(&T) -> Value,
        table: impl Fn(&BTreeMap<&String, &T>) -> Table,
    ) -> Result<Ended, Failure> {
        let (name, terminal) = (self.session.operand(0), self.session.terminal);
        let chosen: BTreeMap<&String, &T> =
            all.iter().filter(|(known, _)| name.is_empty() || *known == name).collect();
        if chosen.is_empty() && !name.is_empty() {
            return Err(Failure::fatal(format!("{what} '{name}' does not exist")));
        }
        let format = self.session.flags.text("output");
        match (machine_format(format), format) {
            (Some(machine), _) => {
                let members = chosen.iter().map(|(name, one)| ((*name).clone(), value(one)));
                terminal.data(&print(&Value::Object(members.collect()), machine)?);
            }
            (None, "name") => chosen.keys().for_each(|name| terminal.line(name)),
            (None, "wide" | "") => terminal.print(&table(&chosen).print()),
            (None, other) => return Err(unknown_format(other)),
        }
        Ok(OK)
    }

    fn triggers(&self) -> Result<Ended, Failure> {
        let condition = |one: &Condition| json!({"when": one.when, "oncePer": one.once_per, "description": one.description, "send": one.send});
        self.show(
            "trigger",
            &self.config.triggers,
            |conditions| conditions.iter().map(condition).collect(),
            |chosen| {
                let mut table = Table::new(&["NAME", "TEMPLATE", "CONDITION"]);
                for (name, conditions) in chosen {
                    for condition in *conditions {
                        let templates = condition.send.join(", ");
                        table.row(vec![(*name).clone(), templates, condition.when.clone()]);
                    }
                }
                table
            },
        )
    }

    fn templates(&self) -> Result<Ended, Failure> {
        self.show("template", &self.config.templates, members, |chosen| {
            let mut table = Table::new(&["NAME", "PREVIEW"]);
            for (name, template) in chosen {
                let mut letters = template.message.chars();
                let mut preview: String = letters.by_ref().take(PREVIEW_MAX).collect();
                if letters.next().is_some() {
                    preview.push_str("...");
                }
                table.row(vec![(*name).clone(), preview]);
            }
            table
        })
    }

    async fn run_trigger(&self) -> Result<Ended, Failure> {
        let name = self.session.operand(0);
        let Some(conditions) = self.config.triggers.get(name) else {
            return Err(Failure::fatal(format!(
                "failed to execute trigger {name}: trigger '{name}' does not exist"
            )));
        };
        let (application, project) = self.application().await?;
        let environment = self.variables(&application, project.as_ref()).environment();
        let environment = environment
            .map_err(|error| Failure::fatal(format!("failed to execute trigger {name}: {error}")))?;
        let mut table = Table::new(&["CONDITION", "RESULT"]);
        for outcome in evaluate(conditions, &environment, &Run::at(self.session.terminal.now())) {
            if let Some(error) = &outcome.error {
                self.session.warn(&format!("condition {}: {error}", outcome.index));
            }
            table.row(vec![outcome.when.clone(), outcome.is_triggered.to_string()]);
        }
        self.session.terminal.print(&table.print());
        Ok(OK)
    }

    async fn notify(&self) -> Result<Ended, Failure> {
        let name = self.session.operand(0);
        if !self.config.templates.contains_key(name) {
            return Err(Failure::fatal(format!("failed to notify: template '{name}' does not exist")));
        }
        let recipients = match self.session.flags.texts("recipient") {
            [] => vec![Destination::parse("console:stdout")],
            given => given.iter().map(|text| Destination::parse(text)).collect(),
        };
        for Destination { service, .. } in &recipients {
            if service != CONSOLE {
                let known = if self.config.services.contains_key(service) {
                    "this version sends nothing but to `console`"
                } else {
                    "the configuration does not have it"
                };
                return Err(Failure::fatal(format!("failed to notify: service '{service}': {known}")));
            }
        }
        let (application, project) = self.application().await?;
        let now = self.session.terminal.now();
        let still = Still(now);
        let request = Request {
            config: &self.config,
            config_namespace: None,
            variables: self.variables(&application, project.as_ref()),
            now,
            environment: &still,
        };
        for destination in &recipients {
            let made = tiphys_notify::render(&request, &[name.to_owned()], destination)
                .map_err(|error| Failure::fatal(format!("failed to notify: {error}")))?;
            self.session.terminal.data(&print(&members(&made), crate::output::Format::Yaml)?);
        }
        Ok(OK)
    }

    fn variables<'v>(&'v self, application: &'v Value, project: Option<&'v Value>) -> Variables<'v> {
        Variables { application, project, context: &self.config.context, secrets: Some(&self.secret) }
    }

    /// The application of the second operand, a file or a name, and its project where a cluster tells of it.
    async fn application(&self) -> Result<(Value, Option<Value>), Failure> {
        let text = self.session.operand(1);
        let is_file = text == "-" || Path::new(text).is_file();
        if is_file {
            let mut found = inputs::documents("RESOURCE_NAME", text).await?;
            return match (found.pop(), found.is_empty()) {
                (Some(only), true) => Ok((only, None)),
                _ => Err(Failure::fatal(format!("{text}: one application is expected in this file"))),
            };
        }
        let connected;
        let core = if let Some(core) = &self.core {
            core
        } else {
            connected = self.session.connect_to_cluster().await?;
            &connected
        };
        let stored = core.application(&AppName::parse(text, &core.namespace)).await?;
        let application = value_of(&stored.object)?;
        let name = match access::text_at(&application, &["spec", "project"]) {
            "" => tiphys_api::project::DEFAULT_PROJECT,
            name => name,
        };
        let target = Target::new(Gvk::new(names::GROUP, names::VERSION, "AppProject"), &core.namespace, name);
        let project = core.get(&target).await?.map(|object| value_of(&object)).transpose()?;
        Ok((application, project))
    }
}

/// A notification as its template is written.
fn members(notification: &Notification) -> Value {
    let mut members = notification.blocks.clone();
    if !notification.message.is_empty() {
        members.insert("message".to_owned(), notification.message.as_str().into());
    }
    Value::Object(members)
}

/// The texts of an object of the cluster; one that does not exist has none (NTF-1).
async fn stored(core: &Core, kind: &str, name: &str) -> Result<Texts, Failure> {
    let target = Target::new(Gvk::new("", "v1", kind), &core.namespace, name);
    let found = core.get(&target).await?;
    Ok(found.map_or_else(Texts::new, |object| match kind {
        "Secret" => objects::decoded(&object),
        _ => objects::texts(&object),
    }))
}

/// The texts of the object in a file; of several the one with the name.
async fn of_file(flag: &str, path: &str, kind: &str, name: &str) -> Result<Texts, Failure> {
    let mut found = inputs::documents(flag, path).await?;
    found.retain(|value| value.get("kind").is_none_or(|own| own == kind));
    if found.len() > 1 {
        found.retain(|value| access::name(value) == name);
    }
    let Some(mut only) = found.pop() else {
        return Err(Failure::fatal(format!("--{flag}: {path}: there is no {kind} {name} in this file")));
    };
    if kind != "Secret" {
        return policy_file::data(path, &only);
    }
    // As an API server would store it, and as people write it.
    inputs::encode_texts(&mut only);
    inputs::decode_texts(&mut only);
    let texts = only.get("stringData").and_then(Value::as_object).into_iter().flatten();
    Ok(texts.filter_map(|(key, text)| Some((key.clone(), text.as_str()?.to_owned()))).collect())
}
