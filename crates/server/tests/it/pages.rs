//! What browsers are shown beside the calls of the API.

use std::io::Read as _;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use tiphys_server::pages::Program;

use crate::home::{Home, Setup};

/// A request with headers, and its answer with the bytes of its body.
pub(crate) async fn asked(
    home: &Home,
    verb: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> (u16, HeaderMap, Bytes) {
    let mut request = Request::builder().method(verb).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, body) = home.server.http1(request.body(Bytes::new()).unwrap()).await.into_parts();
    (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_9_the_api_is_described_to_everybody() {
    let home = Setup::new().start().await;
    let (status, headers, plain) = asked(&home, "GET", "/swagger.json", &[]).await;
    assert_eq!((status, &headers["content-type"]), (200, &"application/json".parse().unwrap()));
    let document: Value = serde_json::from_slice(&plain).unwrap();
    assert_eq!((&document["swagger"], &document["info"]["version"]), (&"2.0".into(), &"0.1.0".into()));
    assert!(!plain.contains(&b'\n'), "compact");
    let (_, headers, packed) = asked(&home, "GET", "/swagger.json", &[("accept-encoding", "gzip")]).await;
    assert_eq!(headers["content-encoding"], "gzip");
    assert!(packed.len() < plain.len() / 5, "{} of {}", packed.len(), plain.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
    let (status, headers, page) = asked(&home, "GET", "/swagger-ui", &[]).await;
    assert_eq!((status, &headers["content-type"]), (200, &"text/html; charset=utf-8".parse().unwrap()));
    assert!(String::from_utf8_lossy(&page).contains("/api/v1/applications/{name}"));
    for target in ["/swagger.json", "/swagger-ui"] {
        let (status, headers, body) = asked(&home, "HEAD", target, &[]).await;
        assert_eq!((status, body.len(), &headers["x-frame-options"]), (200, 0, &"DENY".parse().unwrap()));
        let policies: Vec<_> = headers.get_all("content-security-policy").iter().collect();
        assert_eq!(policies[0], "frame-ancestors 'none'");
        assert_ne!(headers["content-length"], "0", "{target}");
        assert_eq!(asked(&home, "POST", target, &[]).await.0, 405, "{target}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_9_whoever_wants_no_description_has_none() {
    let home = Setup::new().pages(|pages| pages.describes_api = false).start().await;
    for target in ["/swagger.json", "/swagger-ui"] {
        let (status, headers, _) = asked(&home, "GET", target, &[("accept", "text/html")]).await;
        assert_eq!((status, &headers["x-frame-options"]), (404, &"DENY".parse().unwrap()), "{target}");
    }
}

fn app(setup: &Setup, name: &str, project: &str, status: &Value) {
    let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd"}, "status": status,
        "spec": {"project": project, "destination": {"server": "https://c", "namespace": "n"},
            "source": {"repoURL": "https://git/r", "path": "p"}}});
    let target = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
    setup.ask(Method::POST, target, &object);
}

fn status(health: &str, sync: &str) -> Value {
    json!({"health": {"status": health}, "sync": {"status": sync}})
}

/// The texts of a badge: left, right, revision, name.
fn texts(svg: &[u8]) -> [String; 4] {
    let svg = String::from_utf8_lossy(svg);
    ["leftText", "rightText", "revisionText", "titleText"].map(|id| {
        let rest = svg.split(&format!("id=\"{id}\"")).nth(1).unwrap_or_else(|| panic!("{id}: {svg}"));
        let (_, rest) = rest.split_once('>').unwrap();
        rest.split_once('<').unwrap().0.to_owned()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_213_badges_say_how_applications_are_doing() {
    let setup = Setup::new().config_map("argocd-cm", &[("statusbadge.enabled", "true")]);
    let revision = "aa29b85f6a5e4d3c2b1a0f9e8d7c6b5a4f3e2d1c";
    let mut synced = status("Healthy", "Synced");
    synced["operationState"] = json!({"phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z", "operation": {},
        "syncResult": {"revision": revision}});
    app(&setup, "web", "shop", &synced);
    app(&setup, "api", "shop", &status("Progressing", "OutOfSync"));
    app(&setup, "new", "other", &json!({}));
    let home = setup.start().await;
    let says = async |query: &str| {
        let (status, headers, svg) = asked(&home, "GET", &format!("/api/badge{query}"), &[]).await;
        assert_eq!(status, 200, "{query}");
        assert_eq!(headers["content-type"], "image/svg+xml");
        assert_eq!(headers["cache-control"], "private, no-store");
        assert_eq!(headers["access-control-allow-origin"], "*");
        let [left, right, revision, title] = texts(&svg);
        [left, right, revision + &title].join("|")
    };
    let whole = format!("Healthy|Synced|({revision})");
    for (query, expected) in [
        ("", "Unknown|Unknown|"),
        ("?name=web", "Healthy|Synced|"),
        ("?name=web&revision=True", "Healthy|Synced|(aa29b85)"),
        ("?name=web&revision=true&keepFullRevision=true", whole.as_str()),
        ("?name=api&revision=true", "Progressing|OutOfSync|"),
        ("?name=new", "Unknown|Unknown|"),
        ("?name=web&showAppName=true", "Healthy|Synced|web"),
        ("?name=gone&showAppName=true", "Not Found||"),
        ("?name=web&namespace=elsewhere", "Not Found||"),
        ("?project=shop", "Degraded|OutOfSync|"),
        ("?project=empty", "Unknown|Unknown|"),
        ("?project=empty&project=other", "Degraded|OutOfSync|"),
    ] {
        assert_eq!(says(query).await, expected, "{query}");
    }
    for wrong in ["?name=A", "?name=a%22%3E", "?namespace=a.b", "?project=..", "?width=many", "?width=-5"] {
        let (status, _, body) = asked(&home, "GET", &format!("/api/badge{wrong}"), &[]).await;
        assert_eq!((status, body.len()), (400, 0), "{wrong}");
    }
    assert_eq!(asked(&home, "POST", "/api/badge", &[]).await.0, 405, "API-19: not behind the guard");
    let (_, _, wide) = asked(&home, "GET", "/api/badge?name=web&width=300", &[]).await;
    assert!(String::from_utf8_lossy(&wide).contains("width=\"300\" height=\"20\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_213_badges_tell_nothing_unless_they_are_on() {
    let setup = Setup::new();
    app(&setup, "web", "shop", &status("Healthy", "Synced"));
    let home = setup.start().await;
    for query in ["", "?name=web", "?name=A&width=x", "?project=shop&namespace=.."] {
        let (status, _, svg) = asked(&home, "GET", &format!("/api/badge{query}"), &[]).await;
        assert_eq!((status, texts(&svg).join("|").as_str()), (200, "Unknown|Unknown||"), "{query}");
    }
    let settings = home.nobody().get("/api/v1/settings").await.1;
    assert!(settings.get("statusBadgeEnabled").is_none(), "{settings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_219_badges_may_be_for_those_alone_who_may_see_what_they_say() {
    let policy = "p, role:shop, applications, get, shop/*, allow\ng, kim, role:shop\n";
    for setting in ["true", "yes"] {
        let settings = [
            ("statusbadge.enabled", "true"),
            ("statusbadge.requireToken", setting),
            ("accounts.kim", "login, apiKey"),
        ];
        let setup = Setup::new()
            .config_map("argocd-cm", &settings)
            .config_map("argocd-rbac-cm", &[("policy.csv", policy)]);
        app(&setup, "web", "shop", &status("Healthy", "Synced"));
        app(&setup, "other", "default", &status("Degraded", "OutOfSync"));
        let home = setup.start().await;
        let kim = home.account("kim");
        let says = async |query: &str, headers: &[(&str, &str)]| {
            let (status, _, svg) = asked(&home, "GET", &format!("/api/badge{query}"), headers).await;
            assert_eq!(status, 200, "{query}");
            texts(&svg).join("|")
        };
        let (cookie, bearer) = (format!("argocd.token={}", kim.token()), kim.bearer());
        for headers in [[("cookie", cookie.as_str())], [("authorization", bearer.as_str())]] {
            for (query, expected) in [
                ("?name=web&showAppName=true", "Healthy|Synced||web"),
                ("?name=other&showAppName=true", "Not Found|||"),
                ("?name=none&showAppName=true", "Not Found|||"),
                ("?project=shop", "Healthy|Synced||"),
                ("?project=default", "Unknown|Unknown||"),
                ("?project=default&project=shop", "Healthy|Synced||"),
            ] {
                assert_eq!(says(query, &headers).await, expected, "{query}");
            }
        }
        let forged = [("cookie", "argocd.token=a.b.c")];
        for headers in [&[][..], &forged] {
            for query in ["?name=web", "?name=other", "?name=none"] {
                assert_eq!(says(query, headers).await, "Not Found|||", "{query}");
            }
            assert_eq!(says("?project=shop", headers).await, "Unknown|Unknown||");
        }
    }
}

/// Files as a web interface has them, beside a secret.
fn interface() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let app = place.path().join("app");
    std::fs::create_dir_all(app.join("assets")).unwrap();
    std::fs::create_dir(app.join("folder")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    write("secret", "secret");
    write("app/index.html", "<html><head><base href=\"/\"></head><body>ui</body></html>");
    write("app/main.0123456789abcdef0123.js", "main()");
    write("app/assets/logo.svg", "<svg/>");
    write("app/assets/large.bin", &"x".repeat(300_000));
    std::os::unix::fs::symlink(place.path().join("secret"), app.join("link.txt")).unwrap();
    std::os::unix::fs::symlink(app.join("assets/logo.svg"), app.join("inner.svg")).unwrap();
    std::os::unix::fs::symlink("/etc", app.join("etc")).unwrap();
    place
}

const HTML: (&str, &str) = ("accept", "text/html,*/*");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_13_files_of_a_web_interface_are_served_and_nothing_beside_them() {
    let place = interface();
    let directory = place.path().join("app");
    let home = Setup::new()
        .pages(|pages| {
            pages.assets.directory = directory;
            pages.assets.base = "/argo".to_owned();
        })
        .start()
        .await;
    let page = "<html><head><base href=\"/argo/\"></head><body>ui</body></html>";
    for (target, accept) in
        [("/", "*/*"), ("/index.html", "*/*"), ("/applications/argocd/web", HTML.1), ("/link.txt", HTML.1)]
    {
        let (status, headers, body) = asked(&home, "GET", target, &[("accept", accept)]).await;
        assert_eq!((status, String::from_utf8_lossy(&body).as_ref()), (200, page), "{target}");
        for (name, value) in [
            ("cache-control", "no-cache, private, max-age=0"),
            ("expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("pragma", "no-cache"),
            ("x-accel-expires", "0"),
            ("x-frame-options", "sameorigin"),
            ("content-security-policy", "frame-ancestors 'self';"),
            ("x-xss-protection", "1"),
            ("x-robots-tag", "noindex, nofollow"),
        ] {
            assert_eq!(headers[name], value, "{target} {name}");
        }
    }
    let (_, headers, body) = asked(&home, "GET", "/main.0123456789abcdef0123.js", &[]).await;
    assert_eq!(headers["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(
        (headers["content-type"].to_str().unwrap(), &body[..]),
        ("text/javascript; charset=utf-8", &b"main()"[..])
    );
    let (status, headers, _) = asked(&home, "GET", "/main.ffffffffffffffffffff.js", &[]).await;
    assert_eq!((status, &headers["cache-control"]), (404, &"no-cache, private, max-age=0".parse().unwrap()));
    let (_, headers, body) = asked(&home, "GET", "/assets/logo.svg", &[HTML]).await;
    assert_eq!((&headers["content-type"], body.len()), (&"image/svg+xml".parse().unwrap(), 6));
    let tag = headers["etag"].to_str().unwrap();
    let (status, _, body) = asked(&home, "GET", "/assets/logo.svg", &[("if-none-match", tag)]).await;
    assert_eq!((status, body.len()), (304, 0));
    assert_eq!(asked(&home, "GET", "/inner.svg", &[]).await.0, 200, "a link within");
    let (_, headers, body) = asked(&home, "GET", "/assets/large.bin", &[]).await;
    assert_eq!((headers["content-length"].to_str().unwrap(), body.len()), ("300000", 300_000));
    let (status, headers, body) = asked(&home, "HEAD", "/assets/large.bin", &[]).await;
    assert_eq!((status, headers["content-length"].to_str().unwrap(), body.len()), (200, "300000", 0));
    for hidden in [
        "/link.txt",
        "/etc/passwd",
        "/../secret",
        "/%2e%2e/secret",
        "/assets/..%2f..%2fsecret",
        "//secret",
        "/assets",
        "/assets/",
        "/folder",
        "/none.js",
        "/a%00",
    ] {
        let (status, headers, body) = asked(&home, "GET", hidden, &[]).await;
        assert_eq!((status, &body[..]), (404, &b"Not Found\n"[..]), "{hidden}");
        assert_eq!(headers["x-frame-options"], "sameorigin", "{hidden}");
    }
    assert_eq!(asked(&home, "POST", "/", &[HTML]).await.0, 405);
    assert_eq!(
        asked(&home, "GET", "/api/none", &[HTML]).await.0,
        404,
        "the API is no address of the interface"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_13_without_a_web_interface_a_page_says_so() {
    let home = Setup::new().start().await;
    let (status, headers, page) = asked(&home, "GET", "/", &[]).await;
    assert_eq!((status, &headers["content-type"]), (200, &"text/html; charset=utf-8".parse().unwrap()));
    let page = String::from_utf8_lossy(&page).into_owned();
    for part in ["No web interface is installed", "/nowhere", "server.staticassets"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(asked(&home, "GET", "/applications", &[HTML]).await.0, 404);
    assert_eq!(asked(&home, "GET", "/main.js", &[]).await.2, "Not Found\n");
    assert_eq!(asked(&home, "GET", "/extensions.js", &[]).await.2, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_10_the_program_of_this_machine_is_handed_out_to_everybody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tiphys");
    let bytes: Vec<u8> = (0..300_000_u32).map(|nth| u8::try_from(nth % 251).unwrap()).collect();
    std::fs::write(&path, &bytes).unwrap();
    let program = Program { path, machine: "amd64".to_owned() };
    let home = Setup::new().pages(|pages| pages.program = Some(program)).start().await;
    for target in ["/download/argocd-linux", "/download/argocd-linux-amd64"] {
        let (status, headers, body) = asked(&home, "GET", target, &[]).await;
        assert_eq!((status, &headers["content-type"]), (200, &"application/octet-stream".parse().unwrap()));
        assert_eq!(headers["content-disposition"], "attachment; filename=\"argocd-linux-amd64\"");
        assert!(body == bytes && headers["content-length"] == "300000", "{target}");
        let (status, headers, body) = asked(&home, "HEAD", target, &[]).await;
        assert_eq!((status, &headers["content-length"], body.len()), (200, &"300000".parse().unwrap(), 0));
    }
    for target in ["/download/argocd-linux-arm64", "/download/argocd-darwin-amd64", "/download/"] {
        assert_eq!(asked(&home, "GET", target, &[("accept", "text/html")]).await.0, 404, "{target}");
    }
    let none = Setup::new().start().await;
    assert_eq!(asked(&none, "GET", "/download/argocd-linux", &[]).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_17_scripts_of_a_directory_extend_the_web_interface() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("extension-a.js"), "a()").unwrap();
    let directory = place.path().to_owned();
    let home = Setup::new().pages(|pages| pages.extensions = Some(directory)).start().await;
    let (status, headers, script) = asked(&home, "GET", "/extensions.js", &[]).await;
    assert_eq!((status, &headers["content-type"]), (200, &"application/javascript".parse().unwrap()));
    assert!(String::from_utf8_lossy(&script).contains("try {\na()\n} catch (e)"));
}
