//! Projects by way of an API server (API-160..165).

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tiphys_api::AppProject;
use tiphys_api::secret::Secret;
use tiphys_object::{Object, access};

use super::show::Scoped;
use super::token::Wanted;
use crate::core::{Remote, items, project_object};
use crate::failure::Failure;
use crate::server::is_aborted;

/// Attempts at a change that others may be making at the same time.
const ATTEMPTS_MAX: u32 = 10;

/// A project.
pub(super) async fn get(server: &Remote, name: &str) -> Result<Arc<Object>, Failure> {
    let answer = server.api.call(Method::GET, &["projects", name], (&[], None)).await?;
    project_object(answer)
}

/// What belongs to a project and stands elsewhere (API-164).
pub(super) async fn scoped(server: &Remote, name: &str) -> Result<Scoped, Failure> {
    let path = ["projects", name, "detailed"];
    let mut answer = server.api.call(Method::GET, &path, (&[], None)).await?;
    let mut texts = |list: &str, member: &str| -> Vec<String> {
        items(&mut answer, list).iter().map(|item| access::text(item, member).to_owned()).collect()
    };
    Ok(Scoped { repositories: texts("repositories", "repo"), clusters: texts("clusters", "server") })
}

/// Stores a new project, or changes the one of its name (API-161).
pub(super) async fn create(server: &Remote, project: &AppProject, is_upsert: bool) -> Result<(), Failure> {
    let body = json!({"project": sent(project)?, "upsert": is_upsert});
    server.api.call(Method::POST, &["projects"], (&[], Some(&body))).await.map(drop)
}

/// Changes a project by an edit of what the server has at that moment (API-162); `None` leaves it.
pub(super) async fn edit(
    server: &Remote,
    name: &str,
    change: impl Fn(&AppProject) -> Result<Option<AppProject>, Failure>,
) -> Result<(), Failure> {
    let mut attempt = 1;
    loop {
        let stored = super::work::read(&*get(server, name).await?)?;
        let Some(wanted) = change(&stored)? else { return Ok(()) };
        let body = json!({"project": sent(&wanted)?});
        match server.api.call(Method::PUT, &["projects", name], (&[], Some(&body))).await {
            Err(failure) if is_aborted(&failure) && attempt < ATTEMPTS_MAX => attempt += 1,
            answer => return answer.map(drop),
        }
    }
}

/// A project as it is sent: the version that was read goes with it, so that nobody's change is undone.
fn sent(project: &AppProject) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(project).map_err(|error| Failure::generic(error.to_string()))?;
    // Its tokens have calls of their own.
    access::ensure_object(&mut value).remove("status");
    Ok(value)
}

/// Deletes a project (API-163).
pub(super) async fn delete(server: &Remote, name: &str) -> Result<(), Failure> {
    server.api.call(Method::DELETE, &["projects", name], (&[], None)).await.map(drop)
}

/// Has a token of a role made (API-165).
pub(super) async fn create_token(server: &Remote, wanted: &Wanted<'_>) -> Result<Secret<String>, Failure> {
    let Wanted { project, role, id, expires_in } = *wanted;
    let body = json!({"project": project, "role": role, "id": id, "expiresIn": expires_in});
    let path = ["projects", project, "roles", role, "token"];
    let answer = server.api.call(Method::POST, &path, (&[], Some(&body))).await?;
    Ok(Secret::from(access::text(&answer, "token")))
}

/// Ends a token of a role (API-165).
pub(super) async fn delete_token(
    server: &Remote,
    (project, role): (&str, &str),
    issued_at: i64,
) -> Result<(), Failure> {
    let second = issued_at.to_string();
    let path = ["projects", project, "roles", role, "token", second.as_str()];
    server.api.call(Method::DELETE, &path, (&[], None)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_162_a_project_is_sent_with_the_version_that_was_read() {
        let project: AppProject = serde_json::from_value(json!({
            "metadata": {"name": "p", "resourceVersion": "7"}, "spec": {"description": "d"},
            "status": {"jwtTokensByRole": {"ci": {"items": [{"iat": 1}]}}}}))
        .unwrap();
        assert_eq!(
            sent(&project).unwrap(),
            json!({"metadata": {"name": "p", "resourceVersion": "7"}, "spec": {"description": "d"}})
        );
    }
}
