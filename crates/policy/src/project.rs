//! What a project permits (REP part C, CTL section 7).
//!
//! Decisions are made on the *effective* project ([`effective`]): the stored one with what its scoped
//! repositories, clusters and global projects add. Destinations are judged by the resolved cluster, not by
//! what the Application says.

mod destination;
mod effective;
mod integrity;
mod orphans;
mod resource;
mod roles;
mod service_account;
mod source;
mod validate;

use tiphys_api::AppProject;
use tiphys_api::settings::Settings;

use crate::{Decision, pattern};

pub use destination::{ClusterLookup, Target, cluster_reachable, destination_permitted};
pub(crate) use destination::{destination_refusal, namespace_refusal};
pub use effective::{EffectiveInputs, effective, global_projects};
pub use integrity::{SignaturePolicy, SignaturePolicyError, signature_policy};
pub use orphans::{Candidate, is_orphan, monitors_orphans, orphan_warning};
pub use resource::{Resource, kind_permitted, live_permitted, orphan_ignored, resource_permitted};
pub use roles::{normalized_policy, runtime_policy};
pub use service_account::{Account, ServiceAccountError, impersonated_user, service_account};
pub(crate) use source::source_refusal;
pub(crate) use source::{AddressSpelling, denial_spellings};
pub use source::{
    helm_dependencies_permitted, shared_rules_match, shared_source_matches, source_matches, source_permitted,
};
pub use validate::{Code, Violation, validate};

/// Whether an Application of a namespace may use the project (REP-155). An empty namespace means the control
/// plane's.
pub fn namespace_permitted(
    project: &AppProject,
    application_name: &str,
    application_namespace: &str,
    control_plane_namespace: &str,
) -> Decision {
    let permitted = application_namespace.is_empty()
        || application_namespace == control_plane_namespace
        || pattern::regex_list(&project.spec.source_namespaces, application_namespace);
    Decision::when(permitted, || {
        format!(
            "application '{application_name}' in namespace '{application_namespace}' is not permitted to use project '{}'",
            project.name()
        )
    })
}

/// Whether Applications of a namespace are processed at all (CTL-19).
pub fn namespace_enabled(settings: &Settings, namespace: &str, control_plane_namespace: &str) -> bool {
    namespace == control_plane_namespace || pattern::regex_list(settings.application_namespaces(), namespace)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tiphys_api::settings::SettingsData;

    use super::*;

    fn project(text: &str) -> AppProject {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn rep_155_source_namespaces_are_a_regex_list() {
        let shop =
            project(r#"{"metadata":{"name":"shop"},"spec":{"sourceNamespaces":["shop","/^team-[ab]$/"]}}"#);
        let decide = |namespace: &str| namespace_permitted(&shop, "ui", namespace, "argocd");
        for namespace in ["", "argocd", "shop", "team-a"] {
            assert!(decide(namespace).permitted, "{namespace}");
        }
        assert_eq!(
            decide("team-c").message.as_deref(),
            Some("application 'ui' in namespace 'team-c' is not permitted to use project 'shop'")
        );
        let none = project(r#"{"metadata":{"name":"p"},"spec":{}}"#);
        assert!(!namespace_permitted(&none, "ui", "shop", "argocd").permitted);
    }

    #[test]
    fn ctl_19_namespaces_are_enabled_globally() {
        let settings = Settings::new(SettingsData {
            params: BTreeMap::from([("application.namespaces".to_owned(), "shop, /^team-/".to_owned())]),
            ..SettingsData::default()
        });
        let enabled = |namespace: &str| namespace_enabled(&settings, namespace, "argocd");
        assert!(enabled("argocd") && enabled("shop") && enabled("team-x"));
        assert!(!enabled("other") && !enabled(""));
    }
}
