//! Repositories and templates to push with (REP-23, REP-36, REP-50).

use std::sync::Mutex;

use bytes::Bytes;
use http::Request;
use serde_json::json;
use tiphys_api::repository::{CredentialTemplate, Repository};
use tiphys_cluster::{Connection, Discovery, Writer};
use tiphys_installation::{Installation, InstallationData};
use tiphys_object::ResourceKey;
use tiphys_policy::permit::Permit;
use tiphys_service::connection::Asking;
use tiphys_service::repository::{Create, Repositories};
use tiphys_service::template::Templates;
use tiphys_service::{Caller, Code, Error, Secrets, Store};
use tiphys_sim::{Options, Sim};
use tiphys_source::{MemoryRepositories, SourceOptions, Sources};

const URL: &str = "https://git.example/hydrated";

/// An installation, and a repository that answers.
struct Bed {
    store: Store,
    sources: Sources,
    secrets: Secrets,
}

impl Bed {
    async fn start() -> Self {
        let sim = Sim::new(Options::default()).unwrap();
        let connection =
            Connection::over("https://kubernetes.default.svc", move |request: Request<Bytes>| {
                let sim = sim.clone();
                async move { Ok(sim.call(request).await) }
            });
        let writer = Writer::new(connection.clone(), Discovery::new(connection));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
        let permit = Permit::operator(ResourceKey::of(&namespace));
        writer.create(&permit, &namespace).await.unwrap();
        let repositories = MemoryRepositories::default();
        repositories.commit(URL, "main", [("a".to_owned(), Bytes::from("a"))].into(), 0).unwrap();
        Self {
            store: Store::new(writer, "argocd"),
            sources: Sources::in_memory(SourceOptions::new(std::path::Path::new("/nowhere")), repositories),
            secrets: Secrets::new("argocd", []),
        }
    }
}

fn wanted(url: &str, project: &str, password: &str) -> Create {
    let mut repository =
        Repository { r#type: "git".to_owned(), project: project.to_owned(), ..Repository::bare(url) };
    repository.credentials.password = password.into();
    Create { repository, upsert: false, is_validated: false }
}

fn told(result: Result<bool, Error>) -> (Code, String) {
    let error = result.unwrap_err();
    (error.code(), error.to_string())
}

/// REP-50: nothing is answered while nothing is pushed; a repository to push to has credentials of its own and is always
/// tested, also one of a project.
#[tokio::test]
async fn rep_50_a_repository_to_push_to_has_credentials_and_answers() {
    let Bed { store, sources, mut secrets } = Bed::start().await;
    let installation = Installation::build(&InstallationData::default());
    let caller = Caller::operator();
    let disabled = Repositories::to_push(&store, caller, &installation, false).unwrap_err();
    assert_eq!(
        (disabled.code(), disabled.to_string()),
        (Code::Unimplemented, "hydrator is disabled".to_owned())
    );
    let calls = Repositories::to_push(&store, caller, &installation, true).unwrap();
    let bare = calls.create(&mut secrets, &wanted(URL, "", ""), &sources).await;
    assert_eq!(told(bare), (Code::InvalidArgument, "missing credentials in request".to_owned()));
    let missing = wanted("https://git.example/none", "shop", "p");
    let (code, text) = told(calls.create(&mut secrets, &missing, &sources).await);
    assert!(
        code == Code::FailedPrecondition && text.starts_with("error testing repository connectivity: "),
        "{text}"
    );
    assert!(calls.create(&mut secrets, &wanted(URL, "shop", "p"), &sources).await.unwrap());
    assert!(!calls.create(&mut secrets, &wanted(URL, "shop", "p"), &sources).await.unwrap(), "it exists");
    let now = "2026-08-01T10:00:00Z".parse().unwrap();
    let asking = Asking { sources: Some(&sources), known: None, is_forced: false, now };
    let listed = calls.list(&secrets, asking).await;
    let shown: Vec<_> =
        listed.iter().map(|one| (one.repository.project.as_str(), one.state.status.as_str())).collect();
    assert_eq!(shown, [("shop", "Successful")]);
    assert!(listed[0].repository.secret_name.starts_with("repo-write-"), "{:?}", listed[0]);
}

/// REP-23, REP-41: what reads and what pushes never stand for each other, and other rights are asked for.
#[tokio::test]
async fn rep_23_credentials_to_read_and_to_push_are_apart() {
    let Bed { store, sources, mut secrets } = Bed::start().await;
    let installation = Installation::build(&InstallationData::default());
    let asked = Mutex::new(Vec::new());
    let ask = |access: &tiphys_service::Access<'_>| {
        asked.lock().unwrap().push(format!("{} {}", access.resource.as_str(), access.object()));
        Ok(())
    };
    let caller = Caller::asking(&ask);
    let push = Repositories::to_push(&store, caller, &installation, true).unwrap();
    let read = Repositories::new(&store, caller, &installation);
    push.create(&mut secrets, &wanted(URL, "shop", "p"), &sources).await.unwrap();
    assert!(read.visible(&secrets).is_empty());
    let (code, _) = told(read.delete(&mut secrets, (URL, Some("shop")), None).await.map(|_left| true));
    assert_eq!(code, Code::PermissionDenied, "there is none to read with");
    assert!(asked.lock().unwrap().iter().all(|asked| asked == &format!("write-repositories shop/{URL}")));

    let template = CredentialTemplate {
        url: "https://git.example".to_owned(),
        credentials: wanted(URL, "", "q").repository.credentials,
        ..CredentialTemplate::default()
    };
    let disabled = Templates::to_push(&store, caller, false).unwrap_err();
    assert_eq!(disabled.code(), Code::Unimplemented);
    let templates = Templates::to_push(&store, caller, true).unwrap();
    assert!(templates.create(&mut secrets, &template, false).await.unwrap());
    assert_eq!(templates.list(&secrets).len(), 1, "REP-36: those to push with");
    assert!(Templates::new(&store, caller).list(&secrets).is_empty());
    // A template to push with gives nothing to what only reads.
    read.create(&mut secrets, &wanted(URL, "", ""), &sources).await.unwrap();
    let now = "2026-08-01T10:00:00Z".parse().unwrap();
    let asking = Asking { sources: Some(&sources), known: None, is_forced: false, now };
    assert!(!read.list(&secrets, asking).await[0].repository.inherited_credentials);
    assert_eq!(push.delete(&mut secrets, (URL, Some("shop")), None).await.unwrap(), Vec::<String>::new());
    assert!(push.visible(&secrets).is_empty() && read.visible(&secrets).len() == 1);
}
