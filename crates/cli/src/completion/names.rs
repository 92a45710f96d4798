//! Names in the place of operands and values: asked of the installation that a command would ask (CLI-1104).
//!
//! Somebody waits with a key pressed: who does not answer within a moment, or refuses, has no names, and nothing is said.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tiphys_object::access;

use crate::config_file;
use crate::core::{Core, World, items};
use crate::failure::Failure;
use crate::flags::{Flag, parse};
use crate::session::{self, Session};
use crate::terminal::Terminal;

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_millis(1_500);
/// Names that a shell is shown.
const NAMES_MAX: usize = 1_000;

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Application,
    Set,
    Project,
    Cluster,
    Repository,
    Context,
}

/// What the operand at a place of a command's line names.
pub(super) fn of_operand(words: &str, usage: &str, position: usize) -> Option<Named> {
    // Behind a bar stands what may be said instead.
    let line = usage.split(" | ").next().unwrap_or_default();
    let told = line.split(' ').map(|word| word.trim_matches(['[', ']']));
    let operands: Vec<&str> = told.filter(|word| !word.is_empty()).collect();
    let operand = operands.get(position).or_else(|| operands.last().filter(|last| last.ends_with("...")))?;
    let group = words.split(' ').next().unwrap_or_default();
    // What is to be made has no name that is known.
    let makes = words.ends_with(" create") && position + 1 == operands.len();
    match (operand.trim_end_matches('.'), group) {
        _ if makes => None,
        ("APPNAME", _) => Some(Named::Application),
        ("PROJECT", _) => Some(Named::Project),
        ("REPO", _) => Some(Named::Repository),
        ("SERVER/NAME", _) | ("NAME", "cluster") => Some(Named::Cluster),
        ("NAME" | "NAME|FILE", "appset") => Some(Named::Set),
        ("CONTEXT", "context" | "logout") => Some(Named::Context),
        _ => None,
    }
}

/// What the value of a flag names.
pub(super) fn of_flag(flag: &Flag) -> Option<Named> {
    match flag.long {
        "project" => Some(Named::Project),
        "argocd-context" => Some(Named::Context),
        _ => None,
    }
}

/// The names that begin like the current word. `words` is what stands before it.
pub(super) fn names(
    terminal: &Terminal,
    (words, tables): (&[String], &[&'static [Flag]]),
    named: Named,
    current: &str,
) -> Vec<String> {
    let Ok(mut flags) = parse(words, tables) else { return Vec::new() };
    let found = if named == Named::Context {
        contexts(terminal, flags.text("config"))
    } else {
        let asked = session::within(terminal, &mut flags, async |session| {
            let asking = Box::pin(asked(session, named, current));
            tokio::time::timeout(TIMEOUT, asking).await.unwrap_or_else(|_late| Ok(BTreeSet::new()))
        });
        asked.unwrap_or_default()
    };
    found.into_iter().filter(|name| name.starts_with(current) && is_plain(name)).take(NAMES_MAX).collect()
}

/// Whether a shell takes a word as it stands. Names come from others, and a shell puts them into the line unquoted.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._/:@%+,=".contains(letter))
}

fn contexts(terminal: &Terminal, path: &str) -> BTreeSet<String> {
    let config = config_file::read(path, terminal).ok().flatten();
    let names = config.iter().flat_map(config_file::Config::contexts);
    names.map(|(name, _)| name.to_owned()).collect()
}

async fn asked(session: &Session<'_>, named: Named, current: &str) -> Result<BTreeSet<String>, Failure> {
    let core = session.connect().await?;
    match named {
        Named::Application => {
            let namespace = session.flags.text("app-namespace");
            let home = if namespace.is_empty() { &core.namespace } else { namespace };
            let found = applications(&core, namespace).await?;
            Ok(found.into_iter().map(|(of, name)| shown((&of, &name), home, current)).collect())
        }
        Named::Set => {
            let namespace = session.flags.text("appset-namespace");
            let home = if namespace.is_empty() { &core.namespace } else { namespace };
            let found = core.application_sets(namespace, "").await?;
            let one = |name: crate::core::AppName| shown((&name.namespace, &name.name), home, current);
            Ok(found.iter().map(|stored| one(stored.name())).collect())
        }
        Named::Project => Ok(core.projects().await?.iter().map(|one| one.name().to_owned()).collect()),
        Named::Cluster => clusters(&core).await,
        Named::Repository => repositories(&core).await,
        Named::Context => Ok(BTreeSet::new()),
    }
}

/// A name as a command takes it: with its namespace where that is not the usual one, or is being written.
fn shown((namespace, name): (&str, &str), home: &str, current: &str) -> String {
    if namespace == home && !current.contains('/') { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Namespaces and names of applications; a server is asked for nothing else.
async fn applications(core: &Core, namespace: &str) -> Result<Vec<(String, String)>, Failure> {
    let Some(server) = core.server() else {
        let found = core.applications(namespace, "").await?;
        let names = found.iter().map(crate::core::Stored::name);
        return Ok(names.map(|name| (name.namespace, name.name)).collect());
    };
    let query = [("appNamespace", namespace), ("fields", "items.metadata.name,items.metadata.namespace")];
    let mut answer = server.api.get(&["api", "v1", "applications"], &query).await?;
    let pair = |one: Value| (access::namespace(&one).to_owned(), access::name(&one).to_owned());
    Ok(items(&mut answer, "items").into_iter().map(pair).collect())
}

/// Servers and names of clusters: commands take both.
async fn clusters(core: &Core) -> Result<BTreeSet<String>, Failure> {
    let Some(server) = core.server() else {
        let world = World::load(core).await?;
        let both = world.clusters.all().iter().flat_map(|one| [one.server.clone(), one.name.clone()]);
        return Ok(both.collect());
    };
    let mut answer = server.api.get(&["api", "v1", "clusters"], &[]).await?;
    let both = |one: Value| ["server", "name"].map(|member| access::text(&one, member).to_owned());
    Ok(items(&mut answer, "items").into_iter().flat_map(both).collect())
}

/// Addresses of repositories; one that holds a password is nothing that somebody types.
async fn repositories(core: &Core) -> Result<BTreeSet<String>, Failure> {
    let urls: Vec<String> = match core.server() {
        None => World::load(core).await?.repositories.iter().map(|one| one.url.clone()).collect(),
        Some(server) => {
            let mut answer = server.api.get(&["api", "v1", "repositories"], &[]).await?;
            items(&mut answer, "items").iter().map(|one| access::text(one, "repo").to_owned()).collect()
        }
    };
    let has_password = |url: &String| tiphys_api::repo_url::mask_password(url) != *url || url.contains("***");
    Ok(urls.into_iter().filter(|url| !has_password(url)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1104_the_words_of_a_usage_line_say_what_they_name() {
        let named = |words: &str, usage: &str, position: usize| of_operand(words, usage, position);
        assert_eq!(named("app get", "APPNAME", 0), Some(Named::Application));
        assert_eq!(named("app get", "APPNAME", 1), None);
        let several = "[APPNAME... | -l selector | --project project-name]";
        assert_eq!(named("app sync", several, 3), Some(Named::Application));
        assert_eq!(named("app rollback", "APPNAME [ID]", 1), None);
        assert_eq!(named("app delete", "APPNAME...", 3), Some(Named::Application));
        assert_eq!(named("app create", "APPNAME", 0), None, "it is to be made");
        assert_eq!(named("proj role create", "PROJECT ROLE", 0), Some(Named::Project));
        assert_eq!(named("proj role create", "PROJECT ROLE", 1), None);
        assert_eq!(named("proj create", "PROJECT", 0), None);
        assert_eq!(named("cluster set", "NAME", 0), Some(Named::Cluster));
        assert_eq!(named("cluster rm", "SERVER/NAME...", 2), Some(Named::Cluster));
        assert_eq!(named("appset preview", "NAME|FILE", 0), Some(Named::Set));
        assert_eq!(named("repo rm", "REPO...", 0), Some(Named::Repository));
        assert_eq!(named("repo add", "REPOURL", 0), None);
        assert_eq!(named("context", "[CONTEXT]", 0), Some(Named::Context));
        assert_eq!(named("cluster add", "CONTEXT", 0), None, "that of a kubeconfig");
    }

    #[test]
    fn cli_1104_a_name_that_a_shell_would_run_is_not_offered() {
        for plain in ["web", "team/web", "https://h:8443/a@b.git", "in-cluster"] {
            assert!(is_plain(plain), "{plain}");
        }
        for odd in ["", "-x", "$(id)", "a b", "a;b", "a`b", "a\nb", "a'b", "a\\b", "a&b", "a*", "~root", "é"]
        {
            assert!(!is_plain(odd), "{odd}");
        }
    }

    #[test]
    fn cli_1104_names_of_other_namespaces_have_them() {
        assert_eq!(shown(("argocd", "web"), "argocd", "w"), "web");
        assert_eq!(shown(("argocd", "web"), "argocd", "argocd/"), "argocd/web");
        assert_eq!(shown(("team", "web"), "argocd", ""), "team/web");
    }
}
