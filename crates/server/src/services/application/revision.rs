//! Revisions of an application's sources: what they mean, and what is told about them (API-131, API-148).

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::application::ApplicationSource;
use tiphys_api::repository::Repository as Stored;
use tiphys_source::{Freshness, Repository, SourceError, Sources};
use tiphys_wire::status::Code;

use super::access;
use super::requests::Named;
use crate::call::{Reply, Status};
use crate::services::context::{Context, source_failed};

/// `RevisionMetadataQuery`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Query {
    revision: String,
    source_index: i64,
    version_id: Option<i64>,
    #[serde(flatten)]
    named: Named,
}

/// A source with the credentials that its application may use.
struct Found<'c> {
    source: ApplicationSource,
    repository: Repository,
    sources: &'c Sources,
}

fn is_artifact(source: &ApplicationSource) -> bool {
    source.chart.is_empty() && source.repo_url.starts_with("oci://")
}

/// The source that a query means: of those of the spec, or of a deployment (API-148).
fn source_of(app: &Application, asked: &Query) -> Result<ApplicationSource, Status> {
    let sources: Vec<ApplicationSource> = match asked.version_id {
        None => app.sources().to_vec(),
        Some(id) => {
            let entry = app.status.history.iter().find(|entry| entry.id == id);
            let missing = || Status::invalid(format!("revision history not found for version ID {id}"));
            let entry = entry.ok_or_else(missing)?;
            if entry.sources.is_empty() {
                entry.source.iter().cloned().collect()
            } else {
                entry.sources.clone()
            }
        }
    };
    let index = asked.source_index;
    let found = usize::try_from(index).ok().and_then(|at| sources.get(at).cloned());
    found.ok_or_else(|| {
        Status::invalid(format!(
            "source index {index} not found because there are only {} sources",
            sources.len()
        ))
    })
}

/// The repository of a source, if the project permits it, with the credentials for that project.
fn repository_of(
    context: &Context<'_>,
    app: &Application,
    source: &ApplicationSource,
) -> Result<Repository, Status> {
    let installation = &context.world.installation;
    let Ok(project) = installation.project(app.project()) else {
        access::admitted(context, app)?;
        return Err(Status::internal("the project is not known"));
    };
    if let Some(refusal) = installation.repository_refusal(project, &source.repo_url) {
        return Err(Status::new(Code::PermissionDenied, refusal));
    }
    let found = installation.repository(&source.repo_url, app.project());
    let found = found.map_err(|text| Status::new(Code::FailedPrecondition, text))?;
    let mut repository = Repository::from(&found);
    repository.pass_credentials = source.helm.as_ref().is_some_and(|helm| helm.pass_credentials);
    Ok(repository)
}

async fn find<'c>(context: &'c Context<'_>, asked: &Query) -> Result<Found<'c>, Status> {
    let found = access::fresh(context, "get", &asked.named).await?;
    let app = found.proof.get();
    let source = source_of(app, asked)?;
    let repository = repository_of(context, app, &source)?;
    Ok(Found { source, repository, sources: context.sources()? })
}

/// Author, date, message and tags of a commit.
pub(super) async fn metadata(context: &Context<'_>, asked: Query) -> Result<Reply, Status> {
    let found = find(context, &asked).await?;
    let told = found.sources.revision_metadata(&found.repository, &asked.revision).await;
    let told = told.map_err(|error| source_failed(&error))?;
    let references: Vec<Value> = told
        .reference
        .iter()
        .map(|it| {
            json!({"commit": {"author": it.author, "date": it.date, "subject": it.subject, "body": it.body,
                "sha": it.sha, "repoUrl": it.repo_url}})
        })
        .collect();
    let date = jiff::Timestamp::from_second(told.date.as_second()).unwrap_or(told.date);
    Ok(Reply::value(json!({"author": told.author, "date": date.to_string(), "tags": told.tags,
        "message": told.message, "references": references})))
}

/// Description, home and maintainers of a chart.
pub(super) async fn chart(context: &Context<'_>, asked: Query) -> Result<Reply, Status> {
    let found = find(context, &asked).await?;
    if found.source.chart.is_empty() {
        return Err(Status::invalid(format!("no chart found for application: {}", asked.named.name)));
    }
    let told = found.sources.chart_details(&found.repository, &found.source.chart, &asked.revision).await;
    let told = told.map_err(|error| source_failed(&error))?;
    Ok(Reply::value(
        json!({"description": told.description, "home": told.home, "maintainers": told.maintainers}),
    ))
}

/// What an artifact says of itself.
pub(super) async fn artifact(context: &Context<'_>, asked: Query) -> Result<Reply, Status> {
    let found = find(context, &asked).await?;
    if !is_artifact(&found.source) {
        return Err(Status::invalid(format!("no artifact found for application: {}", asked.named.name)));
    }
    let told = found.sources.artifact_metadata(&found.repository, &asked.revision).await;
    let told = told.map_err(|error| source_failed(&error))?;
    Ok(Reply::value(json!({"createdAt": told.created_at, "authors": told.authors, "docsUrl": told.docs_url,
        "sourceUrl": told.source_url, "version": told.version, "description": told.description})))
}

/// What revisions mean now, one per source; those of the spec where none is named (API-131). Whoever cannot ask
/// repositories leaves it to the controller.
///
/// # Errors
/// When one of them means nothing, or nobody can tell.
pub(super) async fn resolve(
    context: &Context<'_>,
    app: &Application,
    (revision, revisions): (&str, &[String]),
) -> Result<Option<Vec<String>>, Status> {
    let Some(sources) = &context.parts.sources else { return Ok(None) };
    let mut found = Vec::with_capacity(app.sources().len());
    for (at, source) in app.sources().iter().enumerate() {
        let named = revisions.get(at).map_or(revision, String::as_str);
        let named = if named.is_empty() { source.target_revision.as_str() } else { named };
        let repository = repository_of(context, app, source)?;
        let resolved = if !source.chart.is_empty() {
            sources.resolve_chart(&repository, &source.chart, named, Freshness::Fetch).await
        } else if is_artifact(source) {
            sources.resolve_artifact(&repository, named, Freshness::Fetch).await
        } else {
            let prefix = &source.tag_prefix;
            let resolved = sources.resolve_tag(&repository, named, prefix, Freshness::Fetch).await;
            resolved.map(|resolved| resolved.commit)
        };
        let refused = |error: SourceError| {
            let text = tiphys_api::repo_url::redact_text(&error.to_string());
            Status::new(Code::FailedPrecondition, text)
        };
        found.push(resolved.map_err(refused)?);
    }
    Ok(Some(found))
}

/// The words of a condition about a repository that does not answer.
fn finding(repository: &Stored, why: &str) -> String {
    let url = tiphys_api::repo_url::redact(&repository.url);
    let (kind, name, project) = (repository.effective_type(), &repository.name, &repository.project);
    format!(
        "InvalidSpecError: repository not accessible: repositories not accessible: &Repository{{Repo: {url:?}, \
         Type: {kind:?}, Name: {name:?}, Project: {project:?}}}: error testing repository connectivity: {why}"
    )
}

/// Whether the repositories of an application answer; else the finding about the first that does not (API-126, REP-216).
/// Chart repositories that nobody has configured are asked when the chart is looked for.
pub(super) async fn check_access(context: &Context<'_>, app: &Application) -> Result<(), String> {
    let (Some(sources), installation) = (&context.parts.sources, &context.world.installation) else {
        return Ok(());
    };
    for source in app.sources() {
        let found = installation.repository(&source.repo_url, app.project());
        let repository = found.map_err(|text| finding(&Stored::bare(&source.repo_url), &text))?;
        let is_git = source.chart.is_empty() && !is_artifact(source);
        if !is_git && repository.secret_name.is_empty() {
            continue;
        }
        let asked = tiphys_service::connection::test(sources, &repository).await;
        asked.map_err(|trouble| finding(&repository, &trouble.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> Application {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"sources": [
            {"repoURL": "https://h/a", "path": "."}, {"repoURL": "https://h/b", "chart": "c"}]},
            "status": {"history": [{"id": 3, "revision": "x", "source": {"repoURL": "https://h/old"}}]}}))
        .unwrap()
    }

    #[test]
    fn api_148_the_source_is_one_of_the_spec_or_of_a_deployment() {
        let ask = |source_index, version_id| {
            let query = Query { source_index, version_id, ..Query::default() };
            source_of(&app(), &query).map(|source| source.repo_url).map_err(|status| status.message)
        };
        assert_eq!(ask(0, None).unwrap(), "https://h/a");
        assert_eq!(ask(1, None).unwrap(), "https://h/b");
        assert_eq!(ask(0, Some(3)).unwrap(), "https://h/old");
        let only = |index: i64, count: usize| {
            format!("source index {index} not found because there are only {count} sources")
        };
        assert_eq!(ask(2, None).unwrap_err(), only(2, 2));
        assert_eq!(ask(-1, None).unwrap_err(), only(-1, 2));
        assert_eq!(ask(1, Some(3)).unwrap_err(), only(1, 1));
        assert_eq!(ask(0, Some(9)).unwrap_err(), "revision history not found for version ID 9");
    }
}
