//! Nothing that was rendered leaves the process, so nobody else can put something in its place.

use std::net::TcpListener;
use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::world::World;

const MOMENT: Duration = Duration::from_secs(30);

/// SEC-57: there is no cache outside of the process, neither one that settings and variables of other systems name
/// nor one on the disk; what somebody left on the disk is not looked at.
#[tokio::test(start_paused = true)]
async fn sec_57_what_is_rendered_is_kept_in_the_process_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_with(|options| {
        options.cache_dir = folder.path().to_owned();
        for name in ["REDIS_SERVER", "ARGOCD_REDIS_SERVER", "ARGOCD_APPLICATION_CONTROLLER_REDIS"] {
            options.env.insert(name.to_owned(), address.clone());
        }
    })
    .await;
    let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"redis.server": address},
        "metadata": {"name": "argocd-cmd-params-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}});
    world.ask(Method::POST, "/api/v1/namespaces/argocd/configmaps", &parameters);
    for value in ["one", "two", "one"] {
        world.commit(value);
        world.create();
        world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}}));
        world.pass(MOMENT).await;
        assert_eq!(world.value(), value);
    }
    let asked = listener.accept().map(|(_, from)| from).map_err(|error| error.kind());
    assert_eq!(asked, Err(std::io::ErrorKind::WouldBlock));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
