//! `appset generate --offline`: generation without server or cluster (ASET-305).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tiphys_api::Application;
use tiphys_appset::facts::Facts;
use tiphys_appset::generate::{Request, Stop, generate, parameters};
use tiphys_appset::params;
use tiphys_appset::validate::{self, Validation};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::access;

use super::preview::{self, Changes};
use super::{generate as online, input};
use crate::admin::files;
use crate::app::{Ended, OK, Session};
use crate::core::generation;
use crate::described::{Describe, Subject};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::terminal::{read_file, read_input};

/// Flags beside those of every generation.
pub(super) const FLAGS: &[Flag] = &[
    flag("offline", Kind::Bool, "false", "Generate without server or cluster, from what --inputs describes"),
    flag("inputs", Kind::Text, "", "File with clusters, projects, repositories and settings, for --offline"),
    flag(
        "validate",
        Kind::Bool,
        "false",
        "With --offline: say which Applications would not be written, and why",
    ),
    flag(
        "diff",
        Kind::Text,
        "",
        "With --offline: folder with the Applications that exist; show what changes",
    ),
];

/// What `--offline` is the condition of.
pub(super) fn check_flags(flags: &Parsed) -> Result<(), Failure> {
    let is_given = |name: &&str| match *name {
        "validate" => flags.is_on(name),
        name => !flags.text(name).is_empty(),
    };
    match ["inputs", "validate", "diff"].into_iter().find(is_given) {
        Some(name) if !flags.is_on("offline") => Err(Failure::fatal(format!("--{name} needs --offline"))),
        _ => Ok(()),
    }
}

/// What is wanted, as it goes to where it is worked out.
struct Asked {
    describe: Describe,
    subject: Subject,
    wants_parameters: bool,
    validates: bool,
    /// The Applications that exist.
    live: Option<Vec<Value>>,
}

/// What comes of it.
enum Answer {
    Parameters(Vec<Value>),
    Applications { applications: Vec<Application>, warnings: Vec<String>, validation: Validation },
    Changes { changes: Changes, warnings: Vec<String>, validation: Validation, problem: Option<String> },
}

/// `appset generate --offline`.
pub(super) async fn generate_offline(session: &Session<'_>, mut set: Value) -> Result<Ended, Failure> {
    let (flags, terminal) = (session.flags, session.terminal);
    let describe =
        terminal.describe.ok_or_else(|| Failure::fatal("--offline is not there in this program"))?;
    input::put_namespace(&mut set, flags.text("appset-namespace"));
    let live = match flags.text("diff") {
        "" => None,
        folder => Some(documents_of_folder(folder)?),
    };
    let (inputs, folder) = inputs_of(flags.text("inputs")).await?;
    let validates = flags.is_on("validate");
    let asked = Asked {
        describe,
        subject: Subject { set, inputs, folder, now: terminal.now() },
        wants_parameters: flags.is_on("output-parameters"),
        validates,
        live,
    };
    // A plugin on this machine may be asked, which takes its time.
    let answer = tokio::task::spawn_blocking(move || answer(asked)).await;
    match answer.map_err(|panic| Failure::generic(format!("generating failed unexpectedly: {panic}")))?? {
        Answer::Parameters(sets) => {
            for set in &sets {
                terminal.data(&format!("{set}\n"));
            }
            Ok(OK)
        }
        Answer::Applications { applications, warnings, validation } => {
            online::warn(session, &warnings, validates.then_some(&validation));
            online::show(session, &applications)?;
            Ok(ended(validates, &validation))
        }
        Answer::Changes { changes, warnings, validation, problem } => {
            online::warn(session, &warnings, Some(&validation));
            if let Some(problem) = problem {
                session.warn(&problem);
            }
            match flags.text("output") {
                "wide" | "" => terminal.print(&changes.lines()),
                other => {
                    let format = machine_format(other).ok_or_else(|| unknown_format(other))?;
                    terminal.data(&print(&changes.value(), format)?);
                }
            }
            Ok(ended(validates, &validation))
        }
    }
}

/// Whoever asks for a validation is told its result by the code, too.
fn ended(validates: bool, validation: &Validation) -> Ended {
    if validates && !validation.errors.is_empty() { Ended::Code(1) } else { OK }
}

/// The description, and where its paths begin.
async fn inputs_of(path: &str) -> Result<(Value, PathBuf), Failure> {
    if path.is_empty() { read_inputs(path) } else { inputs_in(path, &read_input(path).await?) }
}

/// The same, from a file.
pub(crate) fn read_inputs(path: &str) -> Result<(Value, PathBuf), Failure> {
    if path.is_empty() {
        return Ok((Value::Object(serde_json::Map::new()), PathBuf::new()));
    }
    inputs_in(path, &read_file(path)?)
}

fn inputs_in(path: &str, text: &str) -> Result<(Value, PathBuf), Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::generic(format!("--inputs {path}: {why}"));
    let documents = yaml::parse_documents(text, Dialect::Sigs, &Limits::default());
    let mut documents = documents.map_err(|error| failed(&error))?;
    documents.retain(|document| !document.is_null());
    match (documents.pop(), documents.len()) {
        (None, _) => Err(failed(&"the file is empty")),
        (Some(document), 0) => Ok((document, Path::new(path).parent().unwrap_or(Path::new("")).to_owned())),
        (Some(_), more) => Err(failed(&format!("one document is needed, there are {}", more + 1))),
    }
}

/// The Applications of a folder.
fn documents_of_folder(folder: &str) -> Result<Vec<Value>, Failure> {
    if !Path::new(folder).is_dir() {
        return Err(Failure::generic(format!("--diff {folder}: there is no such folder")));
    }
    let mut found = Vec::new();
    for file in files("diff", folder)? {
        let shown = file.display().to_string();
        let documents = input::documents_of(&read_file(&shown)?, "Application");
        let documents = documents.map_err(|error| Failure::generic(format!("--diff {shown}: {error}")))?;
        // Beside them there may be files of any sort.
        found.extend(documents.into_iter().filter(|document| document.get("kind").is_some()));
    }
    Ok(found)
}

fn answer(asked: Asked) -> Result<Answer, Failure> {
    let Asked { describe, subject, wants_parameters, validates, live } = asked;
    let now = subject.now;
    let described = describe(subject).map_err(|why| Failure::generic(format!("--inputs: {why}")))?;
    if validates && let Some(refusal) = described.refusal() {
        return Err(Failure::status(refusal.code.as_str(), &refusal.message));
    }
    let mut found = Err(Failure::generic("nothing was generated"));
    described.ask(&mut |request, facts| {
        found = if wants_parameters {
            let sets = parameters(request, facts).map_err(generation::stopped);
            sets.map(|sets| {
                let sets = sets.into_iter().map(|set| params::for_json(Value::Object(set)));
                Answer::Parameters(sets.collect())
            })
        } else {
            generated(request, facts, live.as_deref(), now)
        };
    });
    // What the description lacks is the better explanation of what failed.
    match (found, described.lacking()) {
        (Err(_), Some(what)) => {
            Err(Failure::generic(what).hint("add what the generator asks for to the inputs file"))
        }
        (found, _) => found,
    }
}

fn generated(
    request: &Request<'_>,
    facts: &dyn Facts,
    live: Option<&[Value]>,
    now: jiff::Timestamp,
) -> Result<Answer, Failure> {
    let generated = generate(request, facts).map_err(generation::stopped)?;
    let warnings = generated.warnings.clone();
    let mut applications = generated.applications.clone();
    let checked: Result<Validation, Stop> = validate::check(request, &mut applications, facts);
    let validation = checked.map_err(generation::stopped)?;
    let Some(documents) = live else {
        return Ok(Answer::Applications { applications, warnings, validation });
    };
    let set = request.set;
    // A folder may hold Applications of other namespaces: these are nobody's here.
    let is_here = |document: &&Value| {
        let namespace = access::namespace(document);
        namespace.is_empty() || namespace == set.metadata.namespace
    };
    let live = preview::live_of(documents.iter().filter(is_here).cloned().collect(), set)?;
    let applications: BTreeMap<_, _> = preview::applications_of(&live);
    let plan = generation::plan(request, facts, &Ok(generated), &applications, now)?;
    let problem = plan.problem().filter(|_| validation.errors.is_empty()).map(str::to_owned);
    Ok(Answer::Changes { changes: Changes::of(&plan, &live, set), warnings, validation, problem })
}
