//! Controls of a project that this version cannot exercise: what they protect is refused, never done without
//! them (REP C10, C12).

use tiphys_api::AppProject;
use tiphys_api::repo_url;
use tiphys_api::settings::Settings;

use crate::project::{SignaturePolicy, impersonated_user, signature_policy};

/// Why a source may not be rendered: the project wants its signature verified (REP-200, REP-201). Nobody wants
/// that where signatures are switched off for the whole installation (REP-87).
pub fn signature_refusal(project: &AppProject, settings: &Settings, url: &str) -> Option<String> {
    if !settings.signatures_enabled() {
        return None;
    }
    match signature_policy(project, url) {
        Ok(SignaturePolicy::Unchecked) => None,
        Ok(SignaturePolicy::Head { .. } | SignaturePolicy::Strict { .. }) => Some(format!(
            "project '{}' wants signatures of repository {} to be verified (signatureKeys or sourceIntegrity), which \
             this version of Tiphys cannot do; take the rule out of the project to use the repository unverified",
            project.name(),
            repo_url::redact(url)
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// Why nothing may be done in a destination: it must be done as another account (REP-190, REP-191).
pub fn impersonation_refusal(
    project: &AppProject,
    settings: &Settings,
    server: &str,
    destination_namespace: &str,
    application_namespace: &str,
) -> Option<String> {
    match impersonated_user(project, settings, server, destination_namespace, application_namespace) {
        Ok(None) => None,
        Ok(Some(user)) => Some(format!(
            "project '{}' wants syncs to act as {user} (application.sync.impersonation.enabled), which this version \
             of Tiphys cannot do; switch impersonation off in argocd-cm to let them act as Tiphys",
            project.name()
        )),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tiphys_api::settings::SettingsData;

    use super::*;

    fn project(spec: &str) -> AppProject {
        serde_json::from_str(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#)).unwrap()
    }

    fn settings(cm: &[(&str, &str)], env: &[(&str, &str)]) -> Settings {
        let map = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
            list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        Settings::new(SettingsData { cm: map(cm), env: map(env), ..SettingsData::default() })
    }

    /// B12: rules about signatures are no decoration.
    #[test]
    fn rep_200_what_must_be_signed_is_refused_until_signatures_are_verified() {
        let on = settings(&[], &[]);
        let refusal = |spec: &str, url: &str| signature_refusal(&project(spec), &on, url);
        let keys = r#"{"signatureKeys":[{"keyID":"4AEE18F83AFDEB23"}]}"#;
        let text = refusal(keys, "https://u:secret@h/r").unwrap();
        assert!(
            text.starts_with("project 'p' wants signatures of repository https://h/r to be verified"),
            "{text}"
        );
        let policy = |mode: &str| {
            format!(
                r#"{{"sourceIntegrity":{{"git":{{"policies":[{{"repos":[{{"url":"https://h/*"}}],"gpg":{{"mode":"{mode}"}}}}]}}}}}}"#
            )
        };
        assert!(refusal(&policy("strict"), "https://h/r").is_some());
        assert!(refusal(&policy("haed"), "https://h/r").is_some(), "a mode nobody knows");
        assert_eq!(refusal(&policy("none"), "https://h/r"), None);
        assert_eq!(refusal(&policy("head"), "https://other/r"), None);
        assert_eq!(refusal("{}", "https://h/r"), None);
        for value in ["false", "No"] {
            let off = settings(&[], &[("ARGOCD_GPG_ENABLED", value)]);
            assert_eq!(signature_refusal(&project(keys), &off, "https://h/r"), None);
        }
    }

    /// B12: who wants syncs to act as an account does not get them with all rights of the controller.
    #[test]
    fn rep_190_what_must_be_impersonated_is_refused_until_it_is() {
        let account = r#"{"destinationServiceAccounts":[{"server":"https://s","namespace":"shop",
            "defaultServiceAccount":"deployer"}]}"#;
        let enabled = ("application.sync.impersonation.enabled", "true");
        let lax = ("application.sync.impersonation.enforced", "false");
        let refusal = |spec: &str, cm: &[(&str, &str)], namespace: &str| {
            impersonation_refusal(&project(spec), &settings(cm, &[]), "https://s", namespace, "argocd")
        };
        assert_eq!(refusal(account, &[], "shop"), None);
        let text = refusal(account, &[enabled], "shop").unwrap();
        assert!(text.contains("act as system:serviceaccount:shop:deployer"), "{text}");
        assert!(refusal(account, &[enabled, lax], "shop").is_some());
        let text = refusal(account, &[enabled], "other").unwrap();
        assert!(text.starts_with("no matching service account found"), "{text}");
        assert_eq!(refusal(account, &[enabled, lax], "other"), None);
    }
}
