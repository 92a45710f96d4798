//! Files that commands without a cluster read: manifests, alone or in folders.
//!
//! What cannot be read is invalid input, which has an exit code of its own: 1 means "no".

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tiphys_api::AppProject;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_installation::InstallationData;
use tiphys_object::{Object, access};

use crate::command::Command;
use crate::failure::Failure;
use crate::flags::Flag;
use crate::session::Ended;
use crate::terminal::{Terminal, read_input};

/// Exit code of what cannot be read (REP part D).
const INVALID: u8 = 2;
/// Files of a folder.
const FILES_MAX: usize = 10_000;

/// A command that answers from files alone: a wrong number of operands is invalid input too.
pub(super) const fn verb<V: Copy>(
    verb: V,
    (name, usage): (&'static str, &'static str),
    about: &'static str,
    flags: &'static [&'static [Flag]],
    operands: usize,
) -> Command<V> {
    Command { usage_code: INVALID, ..Command::new(verb, (name, usage), about, flags, (operands, operands)) }
}

/// Input that says nothing.
pub(super) fn invalid(text: impl Into<String>) -> Failure {
    Failure { code: INVALID, ..Failure::generic(text) }
}

/// An answer for people, and its exit code; a refusal has a reason.
pub(super) fn answer(terminal: &Terminal, refusal: Option<&str>) -> Ended {
    terminal.line(if refusal.is_none() { "Yes" } else { "No" });
    if let Some(reason) = refusal.filter(|reason| !reason.is_empty()) {
        terminal.warn(&format!("{}\n", tiphys_api::printable::line(reason)));
    }
    Ended::Code(u8::from(refusal.is_some()))
}

/// The one project of a file.
pub(super) async fn project(path: &str) -> Result<AppProject, Failure> {
    let mut found = documents("file", path).await?;
    found.retain(|value| value.get("kind").is_none_or(|kind| kind == "AppProject"));
    match found.as_slice() {
        [only] => serde_json::from_value(only.clone())
            .map_err(|error| invalid(format!("--file: {path}: no AppProject: {error}"))),
        [] => Err(invalid(format!("--file: {path}: there is no AppProject in this file"))),
        several => {
            Err(invalid(format!("--file: {path}: {} AppProjects, where one is expected", several.len())))
        }
    }
}

/// The manifests of a file.
pub(super) async fn documents(flag: &str, path: &str) -> Result<Vec<Value>, Failure> {
    if path.is_empty() {
        return Err(invalid(format!("--{flag}: name a file, or - for standard input")));
    }
    let text = read_input(path).await.map_err(|failure| invalid(format!("--{flag}: {}", failure.message)))?;
    yaml::parse_documents(&text, Dialect::Sigs, &Limits::default())
        .map_err(|error| invalid(format!("--{flag}: {path}: {error}")))
}

/// Takes the objects of one kind from a file, or from all YAML and JSON files of a folder; nothing without a path.
pub(super) async fn take(
    data: &mut InstallationData,
    flag: &str,
    path: &str,
    kind: &str,
) -> Result<(), Failure> {
    if path.is_empty() {
        return Ok(());
    }
    for file in files(flag, path)? {
        let file = file.to_string_lossy().into_owned();
        for mut value in documents(flag, &file).await? {
            if value.get("kind").and_then(Value::as_str) != Some(kind) {
                continue;
            }
            encode_texts(&mut value);
            let object =
                Object::from_value(&value).map_err(|error| invalid(format!("--{flag}: {file}: {error}")))?;
            data.take(Arc::new(object));
        }
    }
    Ok(())
}

/// The manifests of a folder, sorted by name, or the one file that is named.
pub(crate) fn files(flag: &str, path: &str) -> Result<Vec<PathBuf>, Failure> {
    if !Path::new(path).is_dir() {
        return Ok(vec![path.into()]);
    }
    let unreadable = |error: std::io::Error| invalid(format!("--{flag}: {path}: {error}"));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let is_manifest = file
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| ["yaml", "yml", "json"].contains(&extension));
        if is_manifest {
            found.push(file);
        }
        if found.len() > FILES_MAX {
            return Err(invalid(format!("--{flag}: {path}: more than {FILES_MAX} files")));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Texts that an API server would encode when it stores a Secret.
pub(super) fn encode_texts(secret: &mut Value) {
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|secret| secret.remove("stringData"))
    else {
        return;
    };
    let data = &mut secret["data"];
    for (key, text) in texts {
        if let Some(text) = text.as_str() {
            data[key] = STANDARD.encode(text).into();
        }
    }
}

/// The opposite: what a Secret holds, as texts that people read and write. A value that is no text stays as it is.
pub(super) fn decode_texts(secret: &mut Value) {
    let Some(Value::Object(data)) = secret.as_object_mut().and_then(|secret| secret.remove("data")) else {
        return;
    };
    let (mut texts, mut rest) = (Map::new(), Map::new());
    for (key, value) in data {
        let text = value
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok());
        match text {
            Some(text) => drop(texts.insert(key, text.into())),
            None => drop(rest.insert(key, value)),
        }
    }
    let members = access::ensure_object(secret);
    for (name, found) in [("data", rest), ("stringData", texts)] {
        if !found.is_empty() {
            access::member_object_mut(members, name).extend(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rep_237_texts_of_secrets_count_like_stored_ones() {
        let mut secret =
            json!({"kind": "Secret", "data": {"url": "eA=="}, "stringData": {"password": "p", "n": 1}});
        encode_texts(&mut secret);
        assert_eq!(secret, json!({"kind": "Secret", "data": {"url": "eA==", "password": "cA=="}}));
        let mut plain = json!({"kind": "Secret", "stringData": {"a": "b"}});
        encode_texts(&mut plain);
        assert_eq!(plain["data"]["a"], "Yg==");
    }
}
