//! Which addresses credentials may be sent to, and which providers may be asked (ASET-59).

use serde_json::{Map, Value};

use crate::facts::Access;
use crate::generator::text;

/// Where the credentials of a provider would be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Address<'a> {
    /// The `api` that the generator names; empty for the public address of the provider.
    pub api: &'a str,
    /// The address that the Secret itself names (`githubAppEnterpriseBaseUrl`).
    pub own: &'a str,
    /// Whether the generator changes how the server is verified: `insecure`, `caRef`.
    pub is_verified_otherwise: bool,
}

/// Why a credential must not be sent to an address; `None` when it may. A project's own goes where the project says;
/// a shared one (`project` empty) only to the provider's public address, to the one that its Secret names, and to those
/// that an administrator lists.
pub fn address_refusal(project: &str, address: &Address<'_>, allowed: &[String]) -> Option<String> {
    if !project.is_empty() || allowed.iter().any(|entry| entry == address.api) {
        return None;
    }
    let list = "applicationsetcontroller.allowed.scm.providers";
    let is_own = !address.own.is_empty() && same_address(address.api, address.own);
    if !address.api.is_empty() && !is_own {
        return Some(format!(
            "a credential without a project is sent to listed addresses only: add {:?} to {list}, or set spec.project and \
             name a Secret of that project",
            address.api
        ));
    }
    address.is_verified_otherwise.then(|| {
        format!(
            "a credential without a project is sent to verified servers only: insecure and caRef need an api that {list} \
             contains, or a Secret of the ApplicationSet's project"
        )
    })
}

fn same_address(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

/// Why a provider must not be asked at all; `None` when it may. An `api` has to be on the list, byte for byte, where
/// there is one (ASET-59); a role of AWS always has to be, as this process would assume it with its own identity.
pub fn provider_refusal(
    provider: &str,
    block: &Map<String, Value>,
    access: &Access,
    allowed: &[String],
) -> Option<String> {
    let is_listed = |value: &str| allowed.iter().any(|entry| entry == value);
    if provider == "awsCodeCommit" {
        let role = text(block, "role");
        if !access.may_use_own_identity() {
            return Some(
                "awsCodeCommit is asked with the identity of the controller, which belongs to no project"
                    .to_owned(),
            );
        }
        return (!role.is_empty() && !is_listed(role)).then(|| {
            format!(
                "awsCodeCommit.role {role:?} is not permitted: an administrator adds it to \
                 applicationsetcontroller.allowed.scm.providers"
            )
        });
    }
    let api = text(block, "api");
    (!api.is_empty() && !allowed.is_empty() && !is_listed(api)).then(|| {
        format!(
            "scm provider not allowed: scm provider \"{api}\" not allowed, must use one of the following: {}",
            allowed.join(", ")
        )
    })
}
