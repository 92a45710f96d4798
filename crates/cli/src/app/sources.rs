//! `app add-source` and `app remove-source` (CLI-424, CLI-425).

use tiphys_api::Application;
use tiphys_api::application::{ApplicationSource, ApplicationSpec};

use crate::app::store::store_spec;
use crate::app::{Ended, NAMESPACE, OK, Session, create, show, spec_edit};
use crate::core::AppName;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};

/// Flags of `add-source` beside those of the spec.
pub(super) const ADD_FLAGS: &[Flag] = &[NAMESPACE];

/// Flags of `remove-source`.
pub(super) const REMOVE_FLAGS: &[Flag] = &[
    flag("source-position", Kind::Int, "-1", "Position of the source, from 1"),
    flag("source-name", Kind::Text, "", "Name of the source"),
    NAMESPACE,
];

const QUESTION: &str = "Are you sure you want to delete the source? [y/n]";

/// `app add-source`.
pub(super) async fn add(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let literal = create::values_literal(session).await?;
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let (source, notes) = spec_edit::source(flags, literal)?;
    for note in notes.errors {
        session.terminal.log(session.style, "error", &note);
    }
    store_spec(&core, &name, flags.is_on("validate"), |app| with(app, &source).map(Some)).await?;
    say_updated(session, &name);
    Ok(OK)
}

fn say_updated(session: &Session<'_>, name: &AppName) {
    session.terminal.line(&format!("Application '{}' updated successfully", name.name));
}

/// The spec with one more source.
fn with(app: &Application, source: &ApplicationSource) -> Result<ApplicationSpec, Failure> {
    let mut spec = app.spec.clone();
    if spec.sources.is_empty() {
        let name = &app.metadata.name;
        return Err(Failure::generic(format!(
            "Cannot add source: application {name} does not have spec.sources defined"
        )));
    }
    if [&source.repo_url, &source.path, &source.chart, &source.r#ref].iter().all(|text| text.is_empty()) {
        return Err(Failure::generic(
            "ApplicationSource needs atleast repoUrl, path or chart or ref field. No source to add.",
        ));
    }
    spec.sources.push(source.clone());
    Ok(spec)
}

/// `app remove-source`.
pub(super) async fn remove(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    // What no application makes right is said before one is asked for.
    if flags.text("source-name").is_empty() && flags.int("source-position") <= 0 {
        return Err(Failure::generic("Value of source-position must be greater than 0"));
    }
    let core = session.connect().await?;
    let name = session.only_name(&core);
    without(&core.application(&name).await?.app, flags)?;
    if !session.confirms(QUESTION).await {
        session.terminal.line("The command to delete the source was cancelled");
        return Ok(OK);
    }
    store_spec(&core, &name, false, |app| without(app, flags).map(Some)).await?;
    say_updated(session, &name);
    Ok(OK)
}

/// The spec without the source that the flags choose.
fn without(app: &Application, flags: &Parsed) -> Result<ApplicationSpec, Failure> {
    let mut spec = app.spec.clone();
    let position = flags.int("source-position");
    match spec.sources.len() {
        0 => return Err(Failure::generic("Application does not have multiple sources configured")),
        1 => return Err(Failure::generic("Cannot remove the only source remaining in the app")),
        count if i64::try_from(count).is_ok_and(|count| position > count) => {
            return Err(Failure::generic(format!("Application does not have source at {position}")));
        }
        _ => {}
    }
    let index = show::chosen_source(&spec.sources, flags)?;
    if index < spec.sources.len() {
        spec.sources.remove(index);
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::spec_flags::FLAGS as SPEC_FLAGS;
    use crate::flags::parse;

    fn app(count: usize) -> Application {
        let sources: Vec<_> =
            (1..=count).map(|at| json!({"repoURL": format!("u{at}"), "name": format!("n{at}")})).collect();
        serde_json::from_value(
            json!({"metadata": {"name": "many"}, "spec": {"destination": {}, "sources": sources}}),
        )
        .unwrap()
    }

    fn flags(args: &[&str], table: &'static [Flag]) -> Parsed {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        parse(&args, &[table]).unwrap()
    }

    #[test]
    fn cli_424_a_source_is_added_to_several() {
        let added = |count, args: &[&str]| {
            let (source, _) = spec_edit::source(&flags(args, SPEC_FLAGS), None).unwrap();
            with(&app(count), &source).map(|spec| spec.sources)
        };
        let sources = added(1, &["--repo", "v", "--path", "p", "--nameprefix", "x-"]).unwrap();
        assert_eq!((sources.len(), sources[1].path.as_str()), (2, "p"));
        assert_eq!(sources[1].kustomize.as_ref().unwrap().name_prefix, "x-");
        assert_eq!(
            added(0, &["--repo", "v"]).unwrap_err().message,
            "Cannot add source: application many does not have spec.sources defined"
        );
        assert_eq!(
            added(1, &["--revision", "main"]).unwrap_err().message,
            "ApplicationSource needs atleast repoUrl, path or chart or ref field. No source to add."
        );
    }

    #[test]
    fn cli_425_one_of_several_sources_is_removed() {
        let left = |count, args: &[&str]| {
            let spec = without(&app(count), &flags(args, REMOVE_FLAGS));
            spec.map(|spec| spec.sources.iter().map(|source| source.name.clone()).collect::<Vec<_>>())
                .map_err(|failure| failure.message)
        };
        assert_eq!(left(3, &["--source-position", "2"]).unwrap(), ["n1", "n3"]);
        assert_eq!(left(2, &["--source-name", "n1"]).unwrap(), ["n2"]);
        assert_eq!(
            left(0, &["--source-position", "1"]).unwrap_err(),
            "Application does not have multiple sources configured"
        );
        assert_eq!(
            left(1, &["--source-position", "1"]).unwrap_err(),
            "Cannot remove the only source remaining in the app"
        );
        assert_eq!(
            left(2, &["--source-position", "3"]).unwrap_err(),
            "Application does not have source at 3"
        );
        assert_eq!(left(2, &["--source-name", "no"]).unwrap_err(), "Unknown source name 'no'");
    }
}
