//! The API server beside a controller: what it asks of it, and the one port that both answer on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tiphys_api::application::HealthStatus;
use tiphys_api::cluster::ClusterKey;
use tiphys_api::{Application, ApplicationSet};
use tiphys_appset::preview::{Existing, Preview};
use tiphys_cluster::{Connection, ExecQuery, ExecSink, ExecStream, Jitter, LogQuery, PatchKind, Removal};
use tiphys_control::{AskedPair, Controller, ShowError};
use tiphys_engine::actions::Action;
use tiphys_object::{Object, ResourceKey};
use tiphys_server::call::Status;
use tiphys_server::catalog::AppKey;
use tiphys_server::http::Handler;
use tiphys_server::live::{Lines, Live, Pair};
use tiphys_server::process::{Others, Server, ServerOptions};
use tiphys_server::services::Build;
use tiphys_service::cluster::Watched;
use tiphys_source::{Clock, Compute};
use tiphys_wire::status::Code;
use tower::ServiceExt as _;

/// A controller as the API server asks it.
struct Shows(Controller);

fn status(error: &ShowError) -> Status {
    let code = match error {
        ShowError::NotFound(_) => Code::InvalidArgument,
        ShowError::Unavailable(_) => Code::Unavailable,
        ShowError::Denied(_) => Code::PermissionDenied,
        _ => Code::FailedPrecondition,
    };
    Status::new(code, error.to_string())
}

fn named(key: &AppKey) -> (&str, &str) {
    (&key.namespace, &key.name)
}

impl Live for Shows {
    fn check_sources<'a>(&'a self, app: &'a Application) -> BoxFuture<'a, Result<(), String>> {
        async move {
            match self.0.check_sources(app.clone()).await {
                // What cannot be told now is no reason to refuse: the application's conditions will tell.
                Ok(()) | Err(ShowError::Unavailable(_)) => Ok(()),
                Err(error) => Err(format!("InvalidSpecError: {error}")),
            }
        }
        .boxed()
    }

    fn compute(&self) -> Option<Compute> {
        Some(self.0.compute().clone())
    }

    fn tree<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Value, Status>> {
        async move { self.0.resource_tree(&key.namespace, &key.name).await.map_err(|error| status(&error)) }
            .boxed()
    }

    fn managed<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { self.0.managed(&key.namespace, &key.name).await.map_err(|error| status(&error)) }.boxed()
    }

    fn server_side_diff<'a>(
        &'a self,
        key: &'a AppKey,
        pairs: &'a [Pair],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        let asked = |pair: &Pair| AskedPair {
            key: pair.key.clone(),
            live: pair.live.clone(),
            target: pair.target.clone(),
        };
        let pairs: Vec<AskedPair> = pairs.iter().map(asked).collect();
        async move { self.0.server_side_diff(named(key), &pairs).await.map_err(|error| status(&error)) }
            .boxed()
    }

    fn tree_changes(&self, key: &AppKey) -> BoxStream<'static, ()> {
        let changes = self.0.tree_changes(&key.namespace, &key.name);
        futures::stream::unfold(
            changes,
            |mut changes| async move { changes.next().await.map(|()| ((), changes)) },
        )
        .boxed()
    }

    fn manifests<'a>(
        &'a self,
        key: &'a AppKey,
        revisions: &'a [(usize, String)],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { self.0.manifests(named(key), revisions).await.map_err(|error| status(&error)) }.boxed()
    }

    fn manifests_with_files<'a>(
        &'a self,
        key: &'a AppKey,
        packed: Bytes,
        may_run_programs: bool,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move {
            let rendered = self.0.manifests_with_files(named(key), packed, may_run_programs).await;
            rendered.map_err(|error| status(&error))
        }
        .boxed()
    }

    fn resource<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        async move { self.0.resource(named(key), resource).await.map_err(|error| status(&error)) }.boxed()
    }

    fn patch<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
        patch: (PatchKind, &'a Value),
    ) -> BoxFuture<'a, Result<Value, Status>> {
        async move { self.0.patch_resource(named(key), resource, patch).await.map_err(|error| status(&error)) }
            .boxed()
    }

    fn delete<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
        how: Removal,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move { self.0.delete_resource(named(key), resource, how).await.map_err(|error| status(&error)) }
            .boxed()
    }

    fn actions<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move {
            let found =
                self.0.available_actions(named(key), resource).await.map_err(|error| status(&error))?;
            let shown = |action: &Action| {
                let params: Vec<Value> = action.params.iter().map(|name| json!({"name": name})).collect();
                json!({"name": action.name, "params": params, "disabled": action.disabled,
                    "iconClass": action.icon, "displayName": action.display_name})
            };
            Ok(found.iter().map(shown).collect())
        }
        .boxed()
    }

    fn run<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
        action: (&'a str, &'a BTreeMap<String, String>),
    ) -> BoxFuture<'a, Result<Arc<Object>, Status>> {
        async move { self.0.run_action(named(key), resource, action).await.map_err(|error| status(&error)) }
            .boxed()
    }

    fn events<'a>(
        &'a self,
        key: &'a AppKey,
        about: (&'a str, &'a str, &'a str),
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { self.0.resource_events(named(key), about).await.map_err(|error| status(&error)) }.boxed()
    }

    fn pods<'a>(
        &'a self,
        key: &'a AppKey,
        below: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, Status>> {
        async move { self.0.pods(named(key), below).await.map_err(|error| status(&error)) }.boxed()
    }

    fn log<'a>(
        &'a self,
        key: &'a AppKey,
        pod: (&'a str, &'a str),
        query: &'a LogQuery,
    ) -> BoxFuture<'a, Result<Lines, Status>> {
        async move {
            let lines = self.0.pod_log(named(key), pod, query).await.map_err(|error| status(&error))?;
            let lines = futures::stream::unfold(Some(lines), |lines| async move {
                let mut lines = lines?;
                match lines.next().await {
                    Ok(Some(line)) => Some((Ok(line), Some(lines))),
                    Ok(None) => None,
                    Err(error) => Some((Err(Status::new(Code::Unavailable, error.to_string())), None)),
                }
            });
            Ok(lines.boxed())
        }
        .boxed()
    }

    fn exec<'a>(
        &'a self,
        key: &'a AppKey,
        query: &'a ExecQuery,
    ) -> BoxFuture<'a, Result<(ExecSink, ExecStream), Status>> {
        async move { self.0.exec(named(key), query).await.map_err(|error| status(&error)) }.boxed()
    }

    fn has<'a>(&'a self, key: &'a AppKey, resource: &'a ResourceKey) -> BoxFuture<'a, Result<bool, Status>> {
        async move { self.0.is_visible(named(key), resource).await.map_err(|error| status(&error)) }.boxed()
    }

    fn health<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Vec<(ResourceKey, HealthStatus)>> {
        self.0.resource_health(&key.namespace, &key.name).boxed()
    }

    fn cluster(&self, cluster: &ClusterKey) -> Option<Watched> {
        self.0.watched(cluster)
    }

    fn generate<'a>(
        &'a self,
        set: &'a ApplicationSet,
        existing: Existing,
    ) -> BoxFuture<'a, Result<Preview, Status>> {
        async move { self.0.generated(set.clone(), existing).await.map_err(|error| status(&error)) }.boxed()
    }

    fn parameters<'a>(&'a self, set: &'a ApplicationSet) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        async move { self.0.set_parameters(set.clone()).await.map_err(|error| status(&error)) }.boxed()
    }
}

/// Opens an API server on whose port a router answers, too: webhooks, health, everything below some paths, and metrics
/// where nobody but this machine reaches the port: names of applications and repositories are not for everybody (API-1).
pub fn open(router: &Router, below: &[&'static str], has_metrics: bool) -> Server {
    let handler = handler(router.clone());
    let with = |path: &&'static str| (*path, Arc::clone(&handler));
    let metrics = if has_metrics { &["/metrics"][..] } else { &[] };
    let at = ["/api/webhook", "/healthz", "/readyz"].iter().chain(metrics).map(with).collect();
    Server::new(Others { at, below: below.iter().map(with).collect() })
}

fn handler(router: Router) -> Handler {
    Arc::new(move |request| {
        let router = router.clone();
        async move {
            let request = request.into_metered().map(axum::body::Body::new);
            let answer = router.oneshot(request).await;
            let response = answer.unwrap_or_else(|never| match never {});
            response.map(|body| {
                // A body of the router that fails in the middle ends there.
                let frames =
                    http_body_util::BodyStream::new(body).filter_map(|frame| async move { frame.ok() });
                tiphys_server::http::body::frames(frames)
            })
        }
        .boxed()
    })
}

/// Where an API server belongs.
pub struct Place {
    /// The API server that its objects are in.
    pub connection: Connection,
    /// Their namespace.
    pub namespace: String,
    /// The environment of the process.
    pub env: BTreeMap<String, String>,
    /// Whether nothing is written.
    pub read_only: bool,
    /// Whether the port stays plain text.
    pub insecure: bool,
    /// Whether a certificate is made where there is none.
    pub makes_certificate: bool,
    /// Where scripts are that extend the web interface.
    pub extensions: Option<PathBuf>,
    /// The time.
    pub clock: Clock,
    /// Spreads attempts.
    pub jitter: Jitter,
}

/// Answers calls beside a controller from now on.
///
/// # Errors
/// When it does not start.
pub async fn start(server: &Server, controller: &Controller, place: Place) -> anyhow::Result<()> {
    let options = ServerOptions {
        connection: place.connection,
        namespace: place.namespace,
        env: place.env,
        jitter: place.jitter,
        clock: place.clock,
        live: Some(Arc::new(Shows(controller.clone()))),
        sources: Some(controller.sources().clone()),
        build: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            compiler: "rustc".to_owned(),
            helm: tiphys_render::helm_version().to_owned(),
            kustomize: tiphys_render::KUSTOMIZE_VERSION.to_owned(),
            jsonnet: tiphys_render::JSONNET_VERSION.to_owned(),
            kubernetes: KUBERNETES_TYPES.to_owned(),
            platform: format!("{}/{}", std::env::consts::OS, go_arch()),
            ..Build::default()
        },
        may_write: !place.read_only,
        insecure: place.insecure,
        makes_certificate: place.makes_certificate,
        extensions: place.extensions,
        // This process, even when its file was replaced since.
        program: Some(crate::worker::PROGRAM.into()),
    };
    Ok(server.start(options).await?)
}

/// The version of Kubernetes whose fields are known (`hack/builtin-types`).
const KUBERNETES_TYPES: &str = "v1.36.1";

/// The machine in Go's words.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
