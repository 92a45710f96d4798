//! Makes the installation ID, and puts a lost one back (TRK-67..69).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;
use tiphys_cluster::{ApiError, Target, Writer, error_chain};
use tiphys_engine::tracking::{IdAction, installation_id_at_start, setting};
use tiphys_installation::InstallationData;
use tiphys_installation::objects::{decoded, texts};
use tiphys_object::{Gvk, Object};
use tiphys_policy::permit::{Own, Permit};

use crate::surroundings::Random;

/// Where settings are.
const SETTINGS: &str = "argocd-cm";
/// The Secret that remembers the ID in use …
const RECORD: &str = "argocd-secret";
/// … under this key.
const RECORD_KEY: &str = "installation.id";
/// Attempts at a write that somebody else was faster with.
const ATTEMPTS_MAX: usize = 5;

/// What is needed to write settings of the installation itself.
#[derive(Clone, Copy)]
pub(crate) struct Home<'a> {
    pub(crate) writer: &'a Writer,
    pub(crate) namespace: &'a str,
    pub(crate) random: &'a Random,
}

/// Sees to it that the installation has the ID it should have, and that its record says so. `in_use` is the ID that this
/// process works with already. The settings that are to be in force are put into `data`.
///
/// # Errors
/// When the ID cannot be stored: one that changes with every start is worse than none.
pub(crate) async fn ensure(
    home: Home<'_>,
    data: &mut InstallationData,
    in_use: Option<&str>,
) -> Result<(), String> {
    // What the watch showed first; an installation that asks for nothing is not read again.
    if action(data.config_maps.get(SETTINGS).map(Arc::as_ref), in_use).is_none() {
        return Ok(());
    }
    for _ in 0..ATTEMPTS_MAX {
        let target = Target::new(Gvk::new("", "v1", "ConfigMap"), home.namespace, SETTINGS);
        let settings = home.writer.get(&target).await.map_err(|error| failed("read", SETTINGS, &error))?;
        if let Some(settings) = &settings {
            // Newer than what a late watch has shown.
            data.config_maps.insert(SETTINGS.to_owned(), Arc::clone(settings));
        }
        let recorded = recorded(home).await?;
        let known = in_use.or(recorded.as_deref());
        let Some((wanted, settings)) = action(settings.as_deref(), known).zip(settings) else {
            return Ok(());
        };
        let id = match wanted {
            IdAction::None | IdAction::OptOut => return Ok(()),
            IdAction::Keep => {
                let texts = texts(&settings);
                let id = texts.get(setting::INSTALLATION_ID).map_or("", String::as_str);
                return record(home, id, recorded.as_deref()).await;
            }
            IdAction::Restore => known.unwrap_or_default().to_owned(),
            IdAction::Generate => home.random.uuid(),
        };
        let version = &settings.metadata().resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "data": {setting::INSTALLATION_ID: id}});
        let permit = Permit::own(Own::Settings, home.namespace, SETTINGS);
        match home.writer.merge_patch(&permit, &target, None, &patch).await {
            Ok(written) => {
                if wanted == IdAction::Restore {
                    tracing::warn!(id, "the installation ID was lost from argocd-cm and has been put back");
                } else {
                    tracing::info!(id, "this installation has got an ID");
                }
                data.config_maps.insert(SETTINGS.to_owned(), written);
                return record(home, &id, recorded.as_deref()).await;
            }
            // Another replica, or a person: what is there now counts.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(failed("write the installation ID to", SETTINGS, &error)),
        }
    }
    Err(format!("cannot write the installation ID to ConfigMap {SETTINGS}: somebody else keeps changing it"))
}

/// Keeps an ID in force that the settings have lost, as long as it cannot be written.
pub(crate) fn keep_in_force(data: &mut InstallationData, id: &str) {
    let Some(settings) = data.config_maps.get(SETTINGS) else { return };
    let Ok(mut value) = settings.to_value() else { return };
    if let Some(map) = value.get_mut("data").and_then(Value::as_object_mut) {
        map.insert(setting::INSTALLATION_ID.to_owned(), id.into());
    }
    if let Ok(object) = Object::from_value(&value) {
        data.config_maps.insert(SETTINGS.to_owned(), Arc::new(object));
    }
}

/// Whether an ID has to be stored: the settings have lost the one in use, against what they themselves ask for (TRK-69), or
/// ask for one where there is none: they asked for none when this process began, or a list that was late then did not
/// show it (TRK-67, F3).
pub(crate) fn is_due(data: &InstallationData, in_use: Option<&str>) -> bool {
    let action = action(data.config_maps.get(SETTINGS).map(Arc::as_ref), in_use);
    matches!(action, Some(IdAction::Restore | IdAction::Generate))
}

/// What is to be done; nothing where the installation does not ask for IDs to be made.
fn action(settings: Option<&Object>, known: Option<&str>) -> Option<IdAction> {
    let texts = texts(settings?);
    let is_asked = texts.get(setting::AUTO_GENERATE).map(String::as_str) == Some("true");
    is_asked.then(|| installation_id_at_start(&texts, known))
}

fn record_target(home: Home<'_>) -> Target {
    Target::new(Gvk::new("", "v1", "Secret"), home.namespace, RECORD)
}

/// The ID in use as the record has it.
async fn recorded(home: Home<'_>) -> Result<Option<String>, String> {
    let secret =
        home.writer.get(&record_target(home)).await.map_err(|error| failed("read", RECORD, &error))?;
    secret.map_or(Ok(None), |secret| id_in(&secret))
}

/// The ID that a record holds; one that nobody can read is not the same as none, or a second one would be made.
fn id_in(secret: &Object) -> Result<Option<String>, String> {
    let is_kept = texts(secret).get(RECORD_KEY).is_some_and(|text| !text.is_empty());
    match decoded(secret).remove(RECORD_KEY) {
        None if is_kept => Err(format!(
            "{RECORD_KEY} in Secret {RECORD} is no base64 of a text, so nobody knows the installation ID in use; correct \
             it, or remove the key to have a new one made"
        )),
        id => Ok(id.filter(|id| !id.is_empty())),
    }
}

async fn record(home: Home<'_>, id: &str, recorded: Option<&str>) -> Result<(), String> {
    if recorded == Some(id) {
        return Ok(());
    }
    let (target, permit) = (record_target(home), Permit::own(Own::Secret, home.namespace, RECORD));
    let data = json!({RECORD_KEY: STANDARD.encode(id)});
    let answer = match home.writer.merge_patch(&permit, &target, None, &json!({"data": data})).await {
        Err(error) if error.is_not_found() => {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
                "name": RECORD, "namespace": home.namespace, "labels": {
                    "app.kubernetes.io/name": RECORD, "app.kubernetes.io/part-of": "argocd"}},
                "type": "Opaque", "data": data});
            home.writer.create(&permit, &secret).await
        }
        answer => answer,
    };
    answer.map(drop).map_err(|error| failed("write the installation ID to", RECORD, &error))
}

fn failed(what: &str, name: &str, error: &ApiError) -> String {
    format!("cannot {what} {name}: {}", error_chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trk_69_a_record_that_cannot_be_read_is_not_the_same_as_none() {
        let id = |data: Value| {
            id_in(
                &Object::from_value(&json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": RECORD}, "data": data}))
                .unwrap(),
            )
        };
        assert_eq!(id(json!({RECORD_KEY: "ZXUtMQ=="})), Ok(Some("eu-1".to_owned())));
        for none in [json!(null), json!({}), json!({"other": "eA=="}), json!({RECORD_KEY: ""})] {
            assert_eq!(id(none), Ok(None));
        }
        for broken in ["eu-1", "//79"] {
            assert!(id(json!({RECORD_KEY: broken})).unwrap_err().contains("correct it"), "{broken}");
        }
    }
}
