//! Calls whose requests may be large, and the right that is worth reading one for (SEC-48, INV-16).
//!
//! A caller who has the right for no object at all sends no more than every known caller may. Whether the right is one
//! for the object that the request names is decided when it was read.

use tiphys_policy::rbac::Resource;

use super::context::{Context, denied};
use crate::call::{Status, Via};

/// Bytes of an object that a cluster stores, as JSON, with room for what is around it.
const OBJECT_BYTES: usize = 3 << 20;
/// Bytes of credentials, keys and certificates of one repository or cluster.
const CREDENTIALS_BYTES: usize = 512 << 10;
/// Bytes of the manifests, or of the files, of a whole application.
const FILES_BYTES: usize = 64 << 20;
/// Bytes of one message with a part of an upload.
const CHUNK_BYTES: usize = 4 << 20;

/// A call with large requests.
struct Large {
    /// Its path.
    path: &'static str,
    resource: Resource,
    /// Actions of which one is needed.
    actions: &'static [&'static str],
    bytes: usize,
}

const fn large(
    path: &'static str,
    resource: Resource,
    actions: &'static [&'static str],
    bytes: usize,
) -> Large {
    Large { path, resource, actions, bytes }
}

const CHANGE: &[&str] = &["create", "update"];
const UPDATE: &[&str] = &["update"];
const GET: &[&str] = &["get"];
const CREATE: &[&str] = &["create"];
const UPLOAD: &str = "/application.ApplicationService/GetManifestsWithFiles";

/// All of them.
const LARGE: [Large; 29] = [
    large("/application.ApplicationService/Create", Resource::Applications, CHANGE, OBJECT_BYTES),
    large("/application.ApplicationService/Update", Resource::Applications, UPDATE, OBJECT_BYTES),
    large("/application.ApplicationService/UpdateSpec", Resource::Applications, UPDATE, OBJECT_BYTES),
    large("/application.ApplicationService/Patch", Resource::Applications, UPDATE, OBJECT_BYTES),
    large("/application.ApplicationService/Sync", Resource::Applications, &["sync"], OBJECT_BYTES),
    // Fine-grained rights have no single name; a caller that has one may see the application.
    large("/application.ApplicationService/PatchResource", Resource::Applications, GET, OBJECT_BYTES),
    large("/application.ApplicationService/ServerSideDiff", Resource::Applications, GET, FILES_BYTES),
    large(UPLOAD, Resource::Applications, GET, FILES_BYTES),
    large("/applicationset.ApplicationSetService/Create", Resource::ApplicationSets, CHANGE, OBJECT_BYTES),
    large("/applicationset.ApplicationSetService/Generate", Resource::ApplicationSets, CREATE, OBJECT_BYTES),
    large("/project.ProjectService/Create", Resource::Projects, CHANGE, OBJECT_BYTES),
    large("/project.ProjectService/Update", Resource::Projects, UPDATE, OBJECT_BYTES),
    large("/certificate.CertificateService/CreateCertificate", Resource::Certificates, CHANGE, OBJECT_BYTES),
    large("/gpgkey.GPGKeyService/Create", Resource::GpgKeys, CREATE, OBJECT_BYTES),
    large("/cluster.ClusterService/Create", Resource::Clusters, CHANGE, CREDENTIALS_BYTES),
    large("/cluster.ClusterService/Update", Resource::Clusters, UPDATE, CREDENTIALS_BYTES),
    large("/repository.RepositoryService/GetAppDetails", Resource::Repositories, GET, OBJECT_BYTES),
    large("/repository.RepositoryService/Create", Resource::Repositories, CHANGE, CREDENTIALS_BYTES),
    large(
        "/repository.RepositoryService/CreateRepository",
        Resource::Repositories,
        CHANGE,
        CREDENTIALS_BYTES,
    ),
    large("/repository.RepositoryService/Update", Resource::Repositories, UPDATE, CREDENTIALS_BYTES),
    large(
        "/repository.RepositoryService/UpdateRepository",
        Resource::Repositories,
        UPDATE,
        CREDENTIALS_BYTES,
    ),
    large("/repository.RepositoryService/ValidateAccess", Resource::Repositories, CREATE, CREDENTIALS_BYTES),
    large(
        "/repository.RepositoryService/CreateWriteRepository",
        Resource::WriteRepositories,
        CHANGE,
        CREDENTIALS_BYTES,
    ),
    large(
        "/repository.RepositoryService/UpdateWriteRepository",
        Resource::WriteRepositories,
        UPDATE,
        CREDENTIALS_BYTES,
    ),
    large(
        "/repository.RepositoryService/ValidateWriteAccess",
        Resource::WriteRepositories,
        CREATE,
        CREDENTIALS_BYTES,
    ),
    large(
        "/repocreds.RepoCredsService/CreateRepositoryCredentials",
        Resource::Repositories,
        CHANGE,
        CREDENTIALS_BYTES,
    ),
    large(
        "/repocreds.RepoCredsService/UpdateRepositoryCredentials",
        Resource::Repositories,
        UPDATE,
        CREDENTIALS_BYTES,
    ),
    large(
        "/repocreds.RepoCredsService/CreateWriteRepositoryCredentials",
        Resource::WriteRepositories,
        CHANGE,
        CREDENTIALS_BYTES,
    ),
    large(
        "/repocreds.RepoCredsService/UpdateWriteRepositoryCredentials",
        Resource::WriteRepositories,
        UPDATE,
        CREDENTIALS_BYTES,
    ),
];

/// Bytes that the caller of a call may send.
///
/// # Errors
/// When the caller has no right for which more than a small request is read.
pub(super) fn bytes_max(context: &Context<'_>) -> Result<usize, Status> {
    let head = &context.call().head;
    let Some(large) = LARGE.iter().find(|large| large.path == head.description().path) else { return Ok(0) };
    let resource = large.resource.as_str();
    let is_permitted = |action: &&str| context.caller().may_ever(resource, action);
    if !large.actions.iter().any(is_permitted) {
        let action = large.actions.first().copied().unwrap_or_default();
        let text = format!("permission denied: a request of this size needs the right {resource}, {action}");
        return Err(denied(text));
    }
    let is_in_parts = large.path == UPLOAD && head.via != Via::Rest;
    Ok(if is_in_parts { CHUNK_BYTES } else { large.bytes })
}

#[cfg(test)]
mod tests {
    use tiphys_wire::schema;

    use super::*;

    #[test]
    fn sec_48_large_requests_are_those_of_methods_that_there_are() {
        for large in &LARGE {
            assert!(schema().method_at(large.path).is_some(), "{}", large.path);
            for action in large.actions {
                assert!(large.resource.has_action(action), "{} {action}", large.path);
            }
        }
        let paths: std::collections::BTreeSet<&str> = LARGE.iter().map(|large| large.path).collect();
        assert_eq!(paths.len(), LARGE.len());
    }

    /// Every call with a body is decided about: those that are missing in the table stay small.
    #[test]
    fn sec_48_every_body_has_a_bound() {
        use tiphys_wire::schema::Body;
        let small = [
            "/account.AccountService/UpdatePassword",
            "/account.AccountService/CreateToken",
            "/application.ApplicationService/Rollback",
            "/application.ApplicationService/RunResourceAction",
            "/application.ApplicationService/RunResourceActionV2",
            "/project.ProjectService/CreateToken",
            "/session.SessionService/Create",
        ];
        for (_, method) in schema().methods() {
            let has_body = method.bindings.iter().any(|binding| binding.body != Body::None);
            let is_large = LARGE.iter().any(|large| large.path == method.path);
            assert!(!has_body || is_large || small.contains(&method.path.as_str()), "{}", method.path);
        }
    }
}
