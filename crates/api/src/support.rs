//! What becomes of every field and every setting: honoured, refused, or reported as without effect (B12).
//!
//! Nothing is silently inert. [`reports`] says what of an installation's settings has no effect; what is refused
//! makes a condition on the application. `docs/settings.md` is printed from these tables by
//! `cargo run -p tiphys-api --example settings` and held to them by a test, as are the custom resource
//! definitions and the readers of the settings.

mod tables;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::settings::Settings;
use tables::{
    ANNOTATIONS, APPLICATION, CM, ENVIRONMENT, OBJECT_ANNOTATIONS, PARAMS, PROJECT, REPOSITORY, SECRET,
};

/// What becomes of a field or a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what it says.
    Honoured,
    /// An application that needs it is refused, with a condition or an error that says why.
    Refused,
    /// It has no effect, and the log or a condition says so.
    Reported,
}

/// One line of a table: a field with all below it, or a key; one that ends with `.` means all that begin so.
pub(crate) struct Entry {
    name: &'static str,
    variable: &'static str,
    support: Support,
    note: &'static str,
}

/// The entry of a key: its own, else that of its longest beginning.
fn find(table: &'static [Entry], key: &str) -> Option<&'static Entry> {
    let covers =
        |entry: &&Entry| entry.name == key || (entry.name.ends_with('.') && key.starts_with(entry.name));
    table.iter().filter(covers).max_by_key(|entry| entry.name.len())
}

/// What becomes of a key of `argocd-cmd-params-cm`, or else of `argocd-cm`, that a flag stands for: its variable, whether
/// it does anything, and why not (CLI-1011).
pub fn parameter(key: &str) -> Option<(&'static str, Support, &'static str)> {
    let entry = find(PARAMS, key).or_else(|| find(CM, key))?;
    Some((entry.variable, entry.support, entry.note))
}

/// Whether a key of `argocd-cm` can have an effect at all.
pub fn has_effect(key: &str) -> bool {
    find(CM, key).is_some_and(|entry| entry.support != Support::Reported)
}

/// Settings that are there and have no effect, in words for the log: one text for each reason.
pub fn reports(settings: &Settings) -> Vec<String> {
    let mut found: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let maps = [("argocd-cm", CM, settings.cm()), ("argocd-cmd-params-cm", PARAMS, settings.params())];
    for (map, table, data) in maps {
        for key in data.iter().filter(|(_, value)| !value.is_empty()).map(|(key, _)| key) {
            let note = match find(table, key) {
                None => "no version of Argo CD or of Tiphys is known to have such a key",
                Some(entry) if entry.support == Support::Reported => entry.note,
                Some(_) => continue,
            };
            found.entry((map, note)).or_default().push(key);
        }
    }
    for entry in SECRET.iter().filter(|entry| entry.support == Support::Reported) {
        if settings.secret(entry.name).is_some_and(|value| !value.expose().is_empty()) {
            found.entry(("argocd-secret", entry.note)).or_default().push(entry.name);
        }
    }
    for entry in PARAMS.iter().chain(CM).filter(|entry| entry.support == Support::Reported) {
        if !entry.variable.is_empty() && settings.env().get(entry.variable).is_some_and(|v| !v.is_empty()) {
            found.entry(("the environment", entry.note)).or_default().push(entry.variable);
        }
    }
    for entry in ENVIRONMENT.iter().filter(|entry| entry.support == Support::Reported) {
        if settings.env().get(entry.name).is_some_and(|value| !value.is_empty()) {
            found.entry(("the environment", entry.note)).or_default().push(entry.name);
        }
    }
    found
        .into_iter()
        .map(|((place, note), keys)| format!("{place}: no effect of {}: {note}", keys.join(", ")))
        .collect()
}

/// Fields of a repository's Secret that are there and have no effect.
pub fn repository_reports(data: &BTreeMap<String, String>) -> Vec<String> {
    let set =
        |key: &str| data.get(key).is_some_and(|value| !value.is_empty() && value != "false" && value != "0");
    let inert = REPOSITORY.iter().filter(|entry| entry.support == Support::Reported && set(entry.name));
    inert.map(|entry| format!("no effect of {}: {}", entry.name, entry.note)).collect()
}

/// Annotations of an Application that ask for something this version does not do, for its condition.
pub fn annotation_reports(annotations: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in annotations {
        let asks = |entry: &&Entry| match entry.name.split_once('=') {
            Some((name, item)) => {
                name == key && value.split(',').any(|part| part.trim().strip_suffix("=true") == Some(item))
            }
            None => entry.name == key || (entry.name.ends_with('.') && key.starts_with(entry.name)),
        };
        let inert = ANNOTATIONS.iter().filter(|entry| entry.support == Support::Reported).filter(asks);
        found.extend(inert.map(|entry| format!("{key}: {}", entry.note)));
    }
    found
}

/// The tables as the page of the documentation.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Fields and settings\n\n\
         What becomes of every field of the custom resources and of every key of the settings.\n\
         *honoured*: it does what Argo CD's documentation says. *refused*: an application that needs it is not \
         synced, and a condition says why. *reported*: it has no effect, and the log or a condition says so.\n\
         A name that ends with a full stop means all keys that begin with it; a field means all fields below it \
         that have no line of their own.\n\n\
         While a process runs, a ConfigMap with settings (`argocd-cm`, `argocd-cmd-params-cm`, `argocd-rbac-cm`, \
         `argocd-tls-certs-cm`, `argocd-ssh-known-hosts-cm`, `argocd-gpg-keys-cm`) or the Secret `argocd-secret` that \
         is deleted, loses its label `app.kubernetes.io/part-of: argocd` or cannot be read changes nothing: its last \
         content stays in effect, so that no restriction is dropped. The log reports it once, the metric \
         `tiphys_settings_problem` shows it, and so does a warning of `GET /api/v1/settings` to callers who are \
         logged in. To take rights or trust away, remove the entries and keep the object. An object that is missing \
         when a process starts means the defaults.\n\n\
         This page is printed by `cargo run -p tiphys-api --example settings`.\n",
    );
    let parts = [
        ("Application", APPLICATION),
        ("AppProject", PROJECT),
        ("Annotations of an Application", ANNOTATIONS),
        ("Annotations of other objects", OBJECT_ANNOTATIONS),
        ("`argocd-cm`", CM),
        ("`argocd-cmd-params-cm` and environment", PARAMS),
        ("Other variables of the environment", ENVIRONMENT),
        ("`argocd-secret`", SECRET),
        ("Secrets of repositories and credential templates", REPOSITORY),
    ];
    for (title, table) in parts {
        // A string takes every write.
        let _written = write!(page, "\n## {title}\n\n| name | what becomes of it | |\n|---|---|---|\n");
        for entry in table {
            let support = match entry.support {
                Support::Honoured => "honoured",
                Support::Refused => "refused",
                Support::Reported => "reported",
            };
            let variable = match entry.variable {
                "" => String::new(),
                variable => format!(" (`{variable}`)"),
            };
            let _written = writeln!(page, "| `{}`{variable} | {support} | {} |", entry.name, entry.note);
        }
    }
    page
}

#[cfg(test)]
mod tests;
