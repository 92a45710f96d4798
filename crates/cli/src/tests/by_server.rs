//! Groups of commands by way of a server that answers what a test says: what is asked, and how.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::execute;
use super::web::{Reply, serve};
use crate::terminal::Written;

/// A server that remembers what it was asked.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// The function is given method and path, and the body.
    fn start(answer: impl Fn(&str, &str) -> Reply + Send + 'static) -> Self {
        Self::told(json!({"controllerNamespace": "argocd"}), answer)
    }

    /// The same, with settings.
    fn told(settings: Value, answer: impl Fn(&str, &str) -> Reply + Send + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&asked);
        let address = serve(move |request| {
            let line = request.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
            let body = request.split_once("\r\n\r\n").unwrap().1;
            if line == "GET /api/v1/settings" {
                return (200, "", settings.to_string());
            }
            remembered.lock().unwrap().push(format!("{line} {body}"));
            answer(&line, body)
        });
        Self { address, asked }
    }

    fn run(&self, args: &[&str]) -> (Written, u8) {
        let way = ["--server", &self.address, "--plaintext", "--auth-token", "t0ken"];
        execute("argocd", &[], &[args, &way].concat())
    }

    fn says(&self, args: &[&str]) -> String {
        let (written, code) = self.run(args);
        assert_eq!((code, written.stderr.as_str()), (0, ""), "{args:?}: {}", written.stdout);
        written.stdout
    }

    fn refuses(&self, code: u8, args: &[&str]) -> String {
        let (written, got) = self.run(args);
        assert_eq!(got, code, "{args:?}: {written:?}");
        let record: Value = serde_json::from_str(&written.stderr).unwrap();
        record["msg"].as_str().unwrap().to_owned()
    }

    /// What it was asked since somebody wanted to know last.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "answers are written where they are given")]
fn ok(value: Value) -> Reply {
    (200, "", value.to_string())
}

/// CLI-1107: an address is written into logs, so a password is never part of one.
#[test]
fn cli_801_a_password_is_in_no_address() {
    let server = Server::start(|line, _| match line {
        "POST /repository.RepositoryService/ValidateAccess" => (200, "grpc-status: 0\r\n", String::new()),
        _ => ok(json!({})),
    });
    let url = "https://git.example/r";
    let add = ["repo", "add", url, "--username", "u", "--password", "hunter2", "--project", "p"];
    assert_eq!(server.says(&add), "Repository 'https://git.example/r' added\n");
    let creds = ["repocreds", "add", url, "--username", "u", "--password", "hunter2"];
    server.says(&creds);
    let asked = server.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    for one in &asked {
        let mut words = one.splitn(3, ' ');
        let (_method, path, body) = (words.next(), words.next().unwrap(), words.next().unwrap());
        assert!(!path.contains("hunter2") && body.contains("hunter2"), "{one}");
    }
    let body = asked[1].strip_prefix("POST /api/v1/repositories?upsert=false ").unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap(),
        json!({"repo": url, "type": "git", "project": "p", "username": "u", "password": "hunter2"})
    );
}

#[test]
fn cli_801_a_repository_that_does_not_answer_is_not_stored() {
    let server = Server::start(|_, _| (200, "grpc-status: 2\r\ngrpc-message: no%20way\r\n", String::new()));
    let text = server.refuses(20, &["repo", "add", "https://git.example/r"]);
    assert_eq!(text, "rpc error: code = Unknown desc = no way");
    assert_eq!(server.asked().len(), 1);
}

/// CLI-803: to a server the empty project is none, and the one repository there is belongs to somebody.
#[test]
fn cli_803_the_empty_project_does_not_mean_that_of_another() {
    let server = Server::start(|_, _| ok(json!({"repo": "https://h/r", "project": "theirs"})));
    let text = server.refuses(20, &["repo", "rm", "https://h/r", "--project", ""]);
    assert!(text.ends_with("repository not found for url \"https://h/r\" and project \"\""), "{text}");
    assert_eq!(server.asked(), ["GET /api/v1/repositories/https:%2F%2Fh%2Fr?forceRefresh=false "]);
    assert_eq!(
        server.says(&["repo", "rm", "https://h/r", "--project", "theirs"]),
        "Repository 'https://h/r' removed\n"
    );
    assert_eq!(server.asked(), ["DELETE /api/v1/repositories/https:%2F%2Fh%2Fr?appProject=theirs "]);
}

#[test]
fn api_p23_a_plus_in_an_address_stays_one() {
    let server = Server::start(|_, _| ok(json!({})));
    server.says(&["repocreds", "rm", "https://h/a+b c"]);
    assert_eq!(server.asked(), ["DELETE /api/v1/repocreds/https:%2F%2Fh%2Fa%2Bb%20c "]);
}

/// API-162: a change is made from what was read, and again from what somebody else made of it meanwhile.
#[test]
fn cli_703_a_change_of_somebody_else_is_kept() {
    let tries = Mutex::new(0);
    let server = Server::start(move |line, body| {
        let mut tries = tries.lock().unwrap();
        if line == "GET /api/v1/projects/p" {
            *tries += 1;
            let urls: Vec<String> = (1..*tries).map(|at| format!("https://theirs/{at}")).collect();
            let metadata = json!({"name": "p", "resourceVersion": tries.to_string()});
            return ok(json!({"metadata": metadata, "spec": {"sourceRepos": urls}}));
        }
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["project"]["metadata"]["resourceVersion"], tries.to_string());
        if *tries == 1 {
            return (409, "", json!({"code": 10, "message": "changed"}).to_string());
        }
        assert_eq!(body["project"]["spec"]["sourceRepos"], json!(["https://theirs/1", "https://h/r"]));
        ok(json!({}))
    });
    assert_eq!(server.says(&["proj", "add-source", "p", "https://h/r"]), "");
    assert_eq!(server.asked().len(), 4);
    assert_eq!(
        server.says(&["proj", "add-source", "p", "https://theirs/1"]),
        "Source repository 'https://theirs/1' already allowed in project\n"
    );
    assert_eq!(server.asked().len(), 1, "nothing to change, nothing is sent");
}

#[test]
fn cli_814_an_update_of_a_cluster_names_what_it_changes() {
    let server = Server::start(|_, _| ok(json!({})));
    assert_eq!(server.says(&["cluster", "set", "eu"]), "Specify the cluster field to be updated.\n");
    assert_eq!(server.asked(), [""; 0]);
    let set = ["cluster", "set", "eu", "--label", "a=b", "--namespace", "*"];
    assert_eq!(server.says(&set), "Cluster 'eu' updated.\n");
    let asked = server.asked();
    let (line, body) = asked[0].rsplit_once(' ').unwrap();
    assert_eq!(line, "PUT /api/v1/clusters/eu?id.type=name&updatedFields=namespaces&updatedFields=labels");
    assert_eq!(serde_json::from_str::<Value>(body).unwrap()["labels"], json!({"a": "b"}));
}

/// ASET-285: what a server says besides its answer is a warning.
#[test]
fn cli_602_a_set_is_stored_by_the_server_which_may_warn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.json");
    let set = json!({"kind": "ApplicationSet", "metadata": {"name": "s"}, "spec": {"generators": [],
        "template": {"metadata": {"name": "x"}, "spec": {"project": "p"}}}});
    std::fs::write(&file, set.to_string()).unwrap();
    let is_there = Mutex::new(false);
    let server = Server::start(move |line, body| {
        let mut is_there = is_there.lock().unwrap();
        let answer = json!({"metadata": {"name": "s", "namespace": "argocd"}, "spec": {"generators": [],
            "template": {"metadata": {"name": "x"}, "spec": {"project": "p"}}}, "status": {}});
        match line {
            "GET /api/v1/applicationsets/s?appsetNamespace=argocd" if !*is_there => {
                (404, "", json!({"code": 5, "message": "none"}).to_string())
            }
            "POST /api/v1/applicationsets?upsert=false&dryRun=false" => {
                *is_there = true;
                let sent: Value = serde_json::from_str(body).unwrap();
                assert_eq!(sent["metadata"]["namespace"], "argocd");
                (200, "warning: 299 - \"2 stay\"\r\n", answer.to_string())
            }
            _ => ok(answer),
        }
    });
    let create = ["appset", "create", file.to_str().unwrap()];
    for verb in ["created", "unchanged"] {
        let (written, code) = server.run(&create);
        assert_eq!(written.stderr, format!("Warning: 2 stay\nApplicationSet 's' {verb}\n"));
        assert!(code == 0 && written.stdout.starts_with("Name:               argocd/s\n"), "{written:?}");
    }
}

/// A file with a set.
fn set_file(folder: &tempfile::TempDir) -> String {
    let file = folder.path().join("set.json");
    let set = json!({"metadata": {"name": "s"}, "spec": {"generators": [],
        "template": {"metadata": {"name": "x"}, "spec": {"project": "p"}}}});
    std::fs::write(&file, set.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// CLI-603, CLI-606: an Argo CD answers with applications alone, whatever else it is asked.
#[test]
fn cli_603_a_server_that_tells_less_is_no_server_without_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let file = set_file(&folder);
    let server = Server::start(|line, body| {
        if line.starts_with("GET /api/v1/applicationsets/s?") {
            return (404, "", json!({"code": 5, "message": "none"}).to_string());
        }
        assert_eq!(line, "POST /api/v1/applicationsets/generate");
        let sent: Value = serde_json::from_str(body).unwrap();
        assert_eq!(sent["applicationSet"]["metadata"]["name"], "s");
        ok(json!({"applications": [{"metadata": {"name": "a"}, "spec": {"project": "p"}}]}))
    });
    let generate = ["appset", "generate", &file];
    let (written, code) = server.run(&[&generate[..], &["-o", "json"]].concat());
    let shown: Value = serde_json::from_str(&written.stdout).unwrap();
    assert_eq!((&shown["metadata"]["name"], &shown["kind"]), (&"a".into(), &"Application".into()));
    let warning = "Warning: this server does not tell which Applications their project forbids\n";
    assert_eq!((written.stderr.as_str(), code), (warning, 0));
    let text = server.refuses(1, &[&generate[..], &["--output-parameters"]].concat());
    assert_eq!(text, "this server does not tell parameters of an ApplicationSet");
    let text = server.refuses(1, &["appset", "preview", &file]);
    assert_eq!(text, "this server does not tell changes of an ApplicationSet");
}

#[test]
fn cli_606_a_server_says_what_a_set_would_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = set_file(&folder);
    let existing = folder.path().join("existing.json");
    let one = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "old"},
        "spec": {"destination": {}}});
    std::fs::write(&existing, one.to_string()).unwrap();
    let server = Server::start(|line, body| {
        if line.starts_with("GET ") {
            return (404, "", json!({"code": 5, "message": "none"}).to_string());
        }
        let sent: Value = serde_json::from_str(body).unwrap();
        if sent.get("outputParameters") == Some(&json!(true)) {
            return ok(json!({"applications": [], "parameters": [r#"{"n":1}"#, r#"{"n":2}"#]}));
        }
        let unchanged = if sent["preview"] == "given" {
            let given: Value = serde_json::from_str(sent["existing"][0].as_str().unwrap()).unwrap();
            assert_eq!(given["metadata"]["ownerReferences"][0]["name"], "s");
            json!(1)
        } else {
            assert_eq!(sent["preview"], "stored");
            json!("5")
        };
        let state = |replicas: u8| json!({"metadata": {"uid": "u"}, "spec": {"n": replicas}}).to_string();
        let changes = json!([{"name": "new", "action": "add"}, {"name": "gone", "action": "remove"},
            {"name": "web", "action": "change", "live": state(1), "target": state(2)},
            {"name": "hidden", "action": "change", "message": "permission denied"},
            {"name": "theirs", "action": "refuse", "message": "another's"}]);
        ok(json!({"applications": [], "isChecked": true, "warnings": ["odd"],
            "refusals": [{"application": "argocd/x", "message": "forbidden"}],
            "preview": {"changes": changes, "unchanged": unchanged, "problem": "p"}}))
    });
    let (written, code) = server.run(&["appset", "preview", &file, "-o", "json"]);
    let shown: Value = serde_json::from_str(&written.stdout).unwrap();
    assert_eq!(
        shown,
        json!({"added": ["new"], "removed": ["gone"], "unchanged": 5,
            "changed": [{"name": "web", "live": {"metadata": {}, "spec": {"n": 1}},
                "target": {"metadata": {}, "spec": {"n": 2}}}, {"name": "hidden", "message": "permission denied"}],
            "refused": [{"name": "theirs", "message": "another's"}]})
    );
    let warnings = "Warning: odd\nWarning: application 'argocd/x': forbidden\n";
    assert_eq!((written.stderr.as_str(), code), (warnings, 0));
    let (written, _) = server.run(&["appset", "preview", &file, "--against", existing.to_str().unwrap()]);
    let lines = "+ argocd/new\n~ argocd/web\n~ argocd/hidden: permission denied\n- argocd/gone\n\
                 ! argocd/theirs: another's\n1 added, 2 changed, 1 removed, 1 unchanged\n";
    assert!(written.stdout.starts_with(lines), "{written:?}");
    assert!(written.stdout.contains("===== argoproj.io/Application argocd/web ======"), "{written:?}");
    let parameters = server.says(&["appset", "generate", &file, "--output-parameters"]);
    assert_eq!(parameters, "{\"n\":1}\n{\"n\":2}\n");
}

/// TRK-120..122, CLI-546: settings that an Argo CD does not know are told by a Tiphys.
#[test]
fn trk_120_how_objects_are_marked_a_server_tells() {
    let marks = json!({"argocd.argoproj.io/tracking-id": "other:/ConfigMap:n/c"});
    let app = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "argocd"}, "spec": {"project": "p",
            "destination": {"server": "https://h", "namespace": "n"}}, "status": {}})
    };
    let server = Server::told(
        json!({"controllerNamespace": "argocd", "trackingMethod": "label", "appLabelKey": "mine/app",
            "trackingSettings": {"application.resourceTrackingMethod": "annotation+label",
                "application.instanceLabelKey": "mine/app"}}),
        move |line, _| match line {
            "GET /api/v1/projects" => ok(json!({"items": []})),
            "GET /api/v1/applications/web?appNamespace=argocd" => ok(app("web")),
            "GET /api/v1/applications/web/managed-resources?appNamespace=argocd" => {
                let live = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "c", "namespace": "n", "annotations": marks}});
                ok(
                    json!({"items": [{"kind": "ConfigMap", "namespace": "n", "name": "c", "liveState": live.to_string()},
                    {"kind": "ConfigMap", "namespace": "n", "name": "missing", "liveState": "null"}]}),
                )
            }
            "GET /api/v1/applications" => ok(json!({"items": [app("web")]})),
            other => (404, "", json!({"code": 5, "message": other}).to_string()),
        },
    );
    assert_eq!(server.says(&["app", "selector", "web"]), "mine/app=web\n");
    assert_eq!(
        server.says(&["app", "tracking", "web"]),
        "GROUP  KIND       NAMESPACE  NAME  METHOD            RECORDED              EXPECTED            CONFLICT\n\
         \x20      ConfigMap  n          c     annotation+label  other:/ConfigMap:n/c  web:/ConfigMap:n/c  application argocd/other\n"
    );
    let (written, code) = server.run(&["app", "migrate-tracking", "web"]);
    assert_eq!(code, 20);
    assert!(written.stderr.contains("1 of 1 applications keep their marks: argocd/web"), "{written:?}");
}

/// CLI-1030, CLI-1031: what `app manifests` of the same server prints; what would be rendered otherwise is said.
#[test]
fn cli_1030_a_server_is_asked_for_its_own_manifests_of_an_application() {
    let app = json!({"metadata": {"name": "web", "namespace": "argocd"}, "spec": {"project": "p",
        "source": {"repoURL": "https://g/r", "path": "x"}, "destination": {"server": "https://h"}},
        "status": {}});
    let server = Server::start(move |line, _| match line {
        "GET /api/v1/projects" => ok(json!({"items": []})),
        "GET /api/v1/applications/web?appNamespace=argocd" => ok(app.clone()),
        line if line.starts_with("GET /api/v1/applications/web/manifests?revision=v2&") => {
            ok(json!({"manifests": [r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#]}))
        }
        other => (404, "", json!({"code": 5, "message": other}).to_string()),
    });
    let text = server.says(&["render", "app/web", "--revision", "v2"]);
    assert_eq!(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n");
    for (flag, why) in [
        ("--repo-root=.", "--repo-root is for what is rendered here"),
        ("--tracking=none", "--tracking is for what is rendered here"),
        ("--path=y", "the flags change its source or destination"),
    ] {
        let (written, code) = server.run(&["render", "app/web", flag]);
        assert!(
            code == 20 && written.stderr.contains(why) && written.stderr.contains("--core"),
            "{written:?}"
        );
    }
}

#[test]
fn cli_9_refusals_are_shown_as_they_are() {
    let server =
        Server::start(|_, _| (403, "", json!({"code": 7, "message": "permission denied: x"}).to_string()));
    for args in [
        &["proj", "get", "p"][..],
        &["proj", "role", "create-token", "p", "r"],
        &["repo", "list"],
        &["repocreds", "list"],
        &["cluster", "get", "eu"],
        &["cert", "list"],
        &["gpg", "list"],
        &["appset", "get", "s"],
        &["appset", "delete", "s"],
    ] {
        let text = server.refuses(20, args);
        assert_eq!(text, "rpc error: code = PermissionDenied desc = permission denied: x", "{args:?}");
    }
}
