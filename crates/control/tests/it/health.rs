//! What `/healthz` says of a process (API-8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tiphys_cluster::Connection;
use tiphys_control::http::{Endpoints, router};
use tower::ServiceExt as _;

use crate::support::{HOME, control_plane};
use crate::world::World;

async fn asked(router: &Router, target: &str) -> (u16, String) {
    let request = Request::get(target).body(axum::body::Body::empty()).unwrap();
    let (head, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn api_8_a_full_look_fails_while_the_settings_cannot_be_read() {
    let (sim, is_broken) = (control_plane(), Arc::new(AtomicBool::new(false)));
    let (behind, broken) = (sim.clone(), Arc::clone(&is_broken));
    let connection = Connection::over(HOME, move |request: Request<Bytes>| {
        let (sim, broken) = (behind.clone(), broken.load(Ordering::Relaxed));
        async move {
            if broken && request.uri().path().ends_with("/configmaps/argocd-cm") {
                let answer = sim.call(Request::get("/nothing").body(Bytes::new()).unwrap()).await;
                let (mut head, body) = Response::into_parts(answer);
                head.status = StatusCode::INTERNAL_SERVER_ERROR;
                return Ok(Response::from_parts(head, body));
            }
            Ok(sim.call(request).await)
        }
    });
    let world = World::start_on(sim, connection, |_| {}).await;
    let endpoints = Endpoints::new();
    let router = router(endpoints.clone());
    assert_eq!(asked(&router, "/healthz").await, (200, "ok\n".to_owned()), "alive while it starts");
    assert_eq!(asked(&router, "/readyz").await.0, 503);
    endpoints.ready(world.controller().clone());
    world.settings(&serde_json::json!({}));
    for target in ["/healthz", "/healthz?full=true", "/readyz"] {
        assert_eq!(asked(&router, target).await.0, 200, "{target}");
    }
    is_broken.store(true, Ordering::Relaxed);
    assert_eq!(asked(&router, "/healthz").await, (200, "ok\n".to_owned()));
    for target in ["/healthz?full=true", "/healthz?a=b&full=true"] {
        assert_eq!(asked(&router, target).await, (503, "the settings cannot be read\n".to_owned()));
    }
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(asked(&router, "/healthz?full=true").await.0, 200);
}
