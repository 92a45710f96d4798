//! What would be, and what becomes of what is: dry runs, files that are sent along, watches (API-123, API-137, API-145,
//! API-147).

use std::sync::Arc;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::applications::{APPS, Known, app, changing};
use crate::home::{Client, Home};
use crate::support::{Answered, Reading, answered, call};

const DIFF: &str = "/application.ApplicationService/ServerSideDiff";
const FILES: &str = "/application.ApplicationService/GetManifestsWithFiles";
const WATCH: &str = "/application.ApplicationService/WatchResourceTree";

async fn grpc(home: &Home, client: &Client<'_>, path: &str, messages: &[Value]) -> Answered {
    let mut request = call(path, "application/grpc", messages);
    request.headers_mut().insert("authorization", client.bearer().parse().unwrap());
    answered(path, home.server.http2(request).await).await
}

fn config(name: &str, namespace: &str) -> Value {
    let namespace = if namespace.is_empty() { json!({}) } else { json!({"namespace": namespace}) };
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": namespace});
    object["metadata"]["name"] = name.into();
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_145_pairs_of_one_object_are_compared_and_others_refused() {
    let home = changing().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let item = |live: &Value| {
        let live = if live.is_null() { "null".to_owned() } else { live.to_string() };
        json!({"kind": "ConfigMap", "namespace": "web", "name": "a", "liveState": live})
    };
    let ask = async |items: Value, targets: Value| {
        let query = json!({"appName": "web", "liveResources": items, "targetManifests": targets});
        grpc(&home, &kim, DIFF, &[query]).await
    };
    let live = config("a", "web");
    // A manifest without a namespace is one of that of the item; nothing is `null`, or no text.
    let same = ask(json!([item(&live)]), json!([config("a", "").to_string()])).await;
    assert_eq!((same.status.as_str(), &same.messages[0]["modified"]), ("0", &json!(false)), "{same:?}");
    let several = json!([item(&live), item(&Value::Null), item(&live)]);
    let made = ask(several, json!([live.to_string(), live.to_string(), ""])).await;
    // Over gRPC what is false is not there.
    let items = made.messages[0]["items"].as_array().unwrap().iter();
    let modified: Vec<bool> = items.map(|item| item["modified"] == true).collect();
    assert_eq!(modified, [false, true, true], "{made:?}");
    assert_eq!(made.messages[0]["modified"], true);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "web"}});
    for (live, target, text) in [
        (config("b", "web"), config("a", "web"), "name mismatch: "),
        (config("a", "web"), config("a", "kube-system"), "namespace mismatch: "),
        (config("a", "other"), config("a", "web"), "namespace mismatch: "),
        (config("a", "web"), secret.clone(), "kind mismatch: "),
        (secret, config("a", "web"), "kind mismatch: "),
        (config("a", "web"), json!([]), "the target manifest of /ConfigMap/web/a is no object"),
    ] {
        let refused = ask(json!([item(&live)]), json!([target.to_string()])).await;
        assert!(refused.status == "3" && refused.text.starts_with(text), "{text}: {refused:?}");
    }
    let uneven = ask(json!([item(&config("a", "web"))]), json!([])).await;
    assert!(uneven.status == "3" && uneven.text.contains("are pairs"), "{uneven:?}");
    let unreadable = ask(json!([item(&config("a", "web"))]), json!(["{\"data\": hunter2"])).await;
    assert!(unreadable.status == "3" && !unreadable.text.contains("hunter2"), "{unreadable:?}");
    let many = vec![json!({}); 1_001];
    let many = ask(json!(many), json!(vec!["null"; 1_001])).await;
    assert!(many.status == "3" && many.text.contains("1000"), "{many:?}");
    let unknown = grpc(&home, &admin, DIFF, &[json!({"appName": "none"})]).await;
    assert_eq!((unknown.status.as_str(), unknown.text.as_str()), ("7", "permission denied"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_137_a_watch_tells_of_a_tree_when_it_is_another() {
    let known = Arc::<Known>::default();
    let shows: Arc<Known> = Arc::clone(&known);
    let home = changing().live(shows).start().await;
    let (kim, admin) = (home.account("kim"), home.account("admin"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let mut request = call(WATCH, "application/grpc", &[json!({"applicationName": "web"})]);
    request.headers_mut().insert("authorization", kim.bearer().parse().unwrap());
    let mut reading = Reading::of(WATCH, home.server.http2(request).await.into_body());
    crate::home::until(|| known.trees.receiver_count() > 0).await;
    // Two changes, of which the first changed nothing: one message, of the second.
    known.trees.send_replace(2);
    known.trees.send_replace(3);
    let tree = reading.next().await;
    assert_eq!(tree["nodes"][0]["uid"], "v", "{tree}");
    // Whoever may not see it any longer is told so with the next change.
    admin.ok("DELETE", &format!("{APPS}/web?cascade=false"), &Value::Null).await;
    admin.until(&format!("{APPS}/web"), 403).await;
    known.trees.send_replace(4);
    let rest = reading.body.collect().await.unwrap();
    assert_eq!(rest.trailers().unwrap()["grpc-status"], "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_137_the_tree_of_somebody_else_is_not_watched() {
    let home = changing().start().await;
    let kim = home.account("kim");
    let answer = grpc(&home, &kim, WATCH, &[json!({"applicationName": "web"})]).await;
    assert_eq!((answer.status.as_str(), answer.text.as_str()), ("7", "permission denied"));
}

/// SHA-256 of `abc`.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_147_files_are_what_their_checksum_says_or_nothing_is_rendered() {
    let home = changing().start().await;
    let (kim, bo) = (home.account("kim"), home.account("bo"));
    kim.ok("POST", APPS, &app("web", "shop")).await;
    let query = |checksum: &str| json!({"query": {"name": "web", "checksum": checksum}});
    let chunk = |text: &str| json!({"chunk": {"chunk": text}});
    let whole = [query(ABC), chunk("YWI="), chunk("Yw==")];
    // Programs receive the files only of callers who may update the application.
    let shown = [r#"{"bytes":3,"kind":"Pod"}"#, r#"{"bytes":3,"kind":"Pod","programs":"none"}"#];
    for (client, shown) in [(&kim, shown[0]), (&bo, shown[1])] {
        let made = grpc(&home, client, FILES, &whole).await;
        assert_eq!(made.messages, [json!({"manifests": [shown]})], "{made:?}");
    }
    // Over REST the messages stand one after another.
    let rest = async |body: String| {
        let request = http::Request::builder().method("POST").uri(format!("{APPS}/manifestsWithFiles"));
        let request =
            request.header("content-type", "application/json").header("authorization", kim.bearer());
        let (status, _, text) =
            crate::support::read(home.server.http1(request.body(body.into()).unwrap()).await).await;
        (status, text)
    };
    let lines = |messages: &[Value]| {
        messages.iter().flat_map(|one| [one.to_string(), "\n".to_owned()]).collect::<String>()
    };
    let made = rest(lines(&whole)).await;
    assert_eq!(made, (200, r#"{"manifests":["{\"bytes\":3,\"kind\":\"Pod\"}"]}"#.to_owned()));
    assert_eq!(rest(lines(&whole[..2]).replace('\n', "")).await.0, 400, "a chunk is missing");
    for (body, text) in [("{", "request cannot be read"), ("", "first message"), ("1", "read")] {
        let (status, said) = rest(body.to_owned()).await;
        assert!(status == 400 && said.contains(text), "{body}: {said}");
    }
    for (messages, text) in [
        (vec![], "the first message has to be a query"),
        (vec![chunk("YWI=")], "the first message has to be a query"),
        (vec![query(ABC), query(ABC)], "messages after the query have to be chunks"),
        (vec![query(ABC), chunk("")], "a chunk is empty"),
        (vec![query(ABC), chunk("YWI=")], "the checksum of the files is fb8e20fc"),
        (vec![query("")], "the checksum of the files is e3b0c442"),
    ] {
        let refused = grpc(&home, &kim, FILES, &messages).await;
        assert!(refused.status == "3" && refused.text.starts_with(text), "{text}: {refused:?}");
    }
    let hidden = [json!({"query": {"name": "none", "checksum": ABC}}), chunk("YWI=")];
    let refused = grpc(&home, &kim, FILES, &hidden).await;
    assert_eq!((refused.status.as_str(), refused.text.as_str()), ("7", "permission denied"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ui_1100_pages_and_counts_are_alike_over_rest_and_grpc() {
    let home = changing().start().await;
    let (kim, admin) = (home.account("kim"), home.account("admin"));
    for name in ["a", "b", "c"] {
        kim.ok("POST", APPS, &app(name, "shop")).await;
    }
    let theirs = json!({"metadata": {"name": "theirs"}, "spec": {"project": "default",
        "source": {"repoURL": "https://git/r", "path": "web"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}});
    admin.ok("POST", APPS, &theirs).await;
    let rest = kim.ok("GET", &format!("{APPS}?limit=2&search=WEB&order=desc"), &Value::Null).await;
    let names = names_of;
    assert_eq!(
        (names(&rest).as_slice(), &rest["stats"]["total"]),
        (&["c".to_owned(), "b".to_owned()][..], &json!(3))
    );
    assert_eq!(rest["metadata"]["remainingItemCount"], 1);
    let query = json!({"limit": 2, "search": "WEB", "order": "desc"});
    let list = "/application.ApplicationService/List";
    let grpc = grpc(&home, &kim, list, &[query]).await.messages.remove(0);
    let page = |list: &Value| {
        let counts = list["stats"]["facets"][2]["counts"].clone();
        (names(list), list["stats"]["total"].clone(), counts, list["metadata"]["continue"].clone())
    };
    assert_eq!(page(&grpc), page(&rest));
    assert_eq!(page(&rest).2, json!([{"value": "shop", "count": 3}]));
    let next = rest["metadata"]["continue"].as_str().unwrap();
    let rest =
        kim.ok("GET", &format!("{APPS}?limit=2&search=WEB&order=desc&continue={next}"), &Value::Null).await;
    assert_eq!((names(&rest).as_slice(), &rest["metadata"].get("continue")), (&["a".to_owned()][..], &None));
    let counts = |list: &Value| list["stats"]["facets"].to_string();
    assert!(!counts(&rest).contains("default\""), "what may not be seen is not counted: {rest}");
    let filtered = kim.ok("GET", &format!("{APPS}?filter[project]=default"), &Value::Null).await;
    assert!(names(&filtered).is_empty() && filtered.get("stats").is_none(), "{filtered}");
    let selected = format!("{APPS}?limit=1&fields=items.metadata.name");
    let selected = kim.ok("GET", &selected, &Value::Null).await;
    assert_eq!(
        (&selected["items"], &selected["stats"]["total"]),
        (&json!([{"metadata": {"name": "a"}}]), &json!(3))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_123_what_leaves_the_filter_of_a_watch_is_gone_for_who_watches() {
    let home = changing().start().await;
    let kim = home.account("kim");
    for name in ["a", "b"] {
        kim.ok("POST", APPS, &app(name, "shop")).await;
    }
    let stored = |name: &str| format!("/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/{name}");
    let health = |name: &str, health: &str| {
        let status = json!({"status": {"health": {"status": health}}});
        crate::home::ask(&home.sim, http::Method::PATCH, &stored(name), &status);
    };
    health("a", "Degraded");
    let degraded =
        async || names_of(&kim.ok("GET", &format!("{APPS}?filter[health]=Degraded"), &Value::Null).await);
    while degraded().await != ["a"] {}
    let watch = "/application.ApplicationService/Watch";
    let mut request = call(watch, "application/grpc", &[json!({"filter": {"health": "Degraded"}})]);
    request.headers_mut().insert("authorization", kim.bearer().parse().unwrap());
    let mut reading = Reading::of(watch, home.server.http2(request).await.into_body());
    let mut next = async || {
        let message = reading.next().await;
        let name = message["application"]["metadata"]["name"].as_str().unwrap();
        format!("{} {name}", message["type"].as_str().unwrap())
    };
    assert_eq!(next().await, "ADDED a");
    health("b", "Degraded");
    assert_eq!(next().await, "ADDED b");
    health("a", "Healthy");
    assert_eq!(next().await, "DELETED a");
}

fn names_of(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_p12_the_server_says_what_it_is_and_how_it_is_to_whoever_is_logged_in() {
    let home = changing().start().await;
    let (kim, nobody) = (home.account("kim"), home.nobody());
    let health = "/grpc.health.v1.Health/Check";
    let check = async |client: &Client<'_>, service: &str| {
        grpc(&home, client, health, &[json!({"service": service})]).await
    };
    assert_eq!(check(&kim, "").await.messages, [json!({"status": 1})]);
    assert_eq!(check(&kim, "version.VersionService").await.messages, [json!({"status": 1})]);
    assert_eq!(check(&kim, "no.Such").await.status, "5");
    assert_eq!(check(&nobody, "").await.status, "16", "API-30");
    let mut request =
        call("/grpc.health.v1.Health/Watch", "application/grpc", &[json!({"service": "no.Such"})]);
    request.headers_mut().insert("authorization", kim.bearer().parse().unwrap());
    let body = home.server.http2(request).await.into_body();
    assert_eq!(Reading::of("/grpc.health.v1.Health/Watch", body).next().await, json!({"status": 3}));
    let asked = [
        json!({"host": "h", "list_services": ""}),
        json!({"file_containing_symbol": "version.VersionService.Version"}),
        json!({"file_containing_symbol": "version.VersionMessage.Version"}),
        json!({"file_containing_symbol": "no.Such"}),
        json!({"file_by_filename": "tiphys/version.proto"}),
        json!({"file_by_filename": "no.proto"}),
        json!({"all_extension_numbers_of_type": "version.VersionMessage"}),
        json!({}),
    ];
    for path in [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        let answers = grpc(&home, &kim, path, &asked).await;
        assert_eq!((answers.status.as_str(), answers.messages.len()), ("0", asked.len()), "{answers:?}");
        let at = |nth: usize, member: &str| &answers.messages[nth][member];
        assert_eq!((at(0, "valid_host"), &at(0, "original_request")["host"]), (&json!("h"), &json!("h")));
        let services = at(0, "list_services_response")["service"].to_string();
        assert!(services.contains("application.ApplicationService") && services.contains("grpc.health.v1"));
        let files = |nth: usize| {
            at(nth, "file_descriptor_response")["file_descriptor_proto"].as_array().map(Vec::len)
        };
        assert!(files(1) > Some(1), "with what it needs");
        assert_eq!((files(2), files(4)), (Some(1), Some(1)), "what was sent is not sent again");
        for missing in [3, 5] {
            assert_eq!(at(missing, "error_response")["error_code"], 5);
        }
        assert_eq!(at(6, "all_extension_numbers_response")["base_type_name"], "version.VersionMessage");
        assert_eq!(at(7, "error_response")["error_code"], 3);
        assert_eq!(grpc(&home, &nobody, path, &asked).await.status, "16");
    }
}
