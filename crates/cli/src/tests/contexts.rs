//! `login`, `logout`, `context` and `configure` with a configuration file, and a server that answers what a test says.

use std::os::unix::fs::PermissionsExt as _;

use super::execute;
use super::web::serve;
use crate::run;
use crate::terminal::{Terminal, Written};

const FILE: &str = "contexts:
- {name: a, server: a.example, user: a}
- {name: b, server: b.example, user: b}
- {name: c, server: b.example, user: b}
current-context: a
servers:
- {server: a.example, grpc-web-root-path: '', core: true, mine: 1}
- {server: b.example, grpc-web-root-path: ''}
users:
- {name: a, auth-token: t0ken}
- {name: b, auth-token: t0ken}
others: [kept]
";

struct Home(tempfile::TempDir);

impl Home {
    fn with(text: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        if !text.is_empty() {
            std::fs::write(home.file(), text).unwrap();
            std::fs::set_permissions(home.file(), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        home
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("config")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap_or_default()
    }

    fn run(&self, args: &[&str]) -> (Written, u8) {
        let terminal = Terminal::memory("argocd", &[("ARGOCD_CONFIG_DIR", self.0.path().to_str().unwrap())]);
        let code = run(&terminal, args.iter().map(|arg| (*arg).to_owned()).collect());
        (terminal.written(), code)
    }

    fn said(&self, args: &[&str]) -> String {
        let (written, code) = self.run(args);
        assert_eq!((code, written.stderr.as_str()), (0, ""), "{args:?}");
        written.stdout
    }
}

#[test]
fn cli_212_contexts_are_listed_chosen_and_removed() {
    let home = Home::with(FILE);
    assert_eq!(
        home.said(&["context"]),
        "CURRENT  NAME  SERVER\n*        a     a.example\n         b     b.example\n         c     b.example\n"
    );
    assert_eq!(home.said(&["context", "b"]), "Switched to context 'b'\n");
    assert_eq!(home.said(&["ctx", "b"]), "Already at context 'b'\n");
    assert_eq!(home.said(&["context", "-"]), "Switched to context 'a'\n");
    assert_eq!(home.said(&["context", "b", "--delete"]), "Context 'b' deleted\n");
    let text = home.text();
    assert!(
        text.contains("server: b.example") && text.contains("mine: 1") && text.contains("- kept"),
        "{text}"
    );
    assert!(!text.contains("name: b\n"), "{text}");
    assert_eq!(std::fs::metadata(home.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(home.said(&["context", "c", "--delete"]), "Context 'c' deleted\n");
    assert!(!home.text().contains("b.example"), "nobody leads there any more");
    assert_eq!(home.said(&["context", "a", "--delete"]), "Context 'a' deleted\n");
    assert!(!home.file().exists());

    let home = Home::with(FILE);
    let (written, code) = home.run(&["context", "x"]);
    assert!(code == 1 && written.stderr.contains("Context 'x' undefined"), "{written:?}");
    let (written, code) = home.run(&["context", "x", "--delete"]);
    assert!(code == 20 && written.stderr.contains("context x does not exist"), "{written:?}");
    let (written, code) = home.run(&["context", "--delete"]);
    assert!(code == 1 && written.stdout.contains("argocd context [CONTEXT] [flags]"), "{written:?}");
    let (written, code) = Home::with("").run(&["context"]);
    assert!(code == 1 && written.stderr.contains("No local configuration found"), "{written:?}");
}

#[test]
fn cli_213_questions_are_configured() {
    let home = Home::with(FILE);
    let said = home.said(&["configure", "--prompts-enabled"]);
    assert_eq!(said, "Successfully updated the following configuration settings:\nprompts-enabled: true\n");
    assert!(home.text().contains("prompts-enabled: true\n"));
    assert!(home.said(&["configure", "--prompts-enabled=false"]).ends_with("prompts-enabled: false\n"));
    let (written, code) = Home::with("").run(&["configure", "--prompts-enabled"]);
    assert!(code == 1 && written.stderr.contains("No local configuration found"), "{written:?}");
}

#[test]
fn cli_140_kubernetes_is_a_context_too() {
    let home = Home::with("");
    assert_eq!(home.said(&["login", "--core"]), "Context 'kubernetes' updated\n");
    assert!(home.text().contains("core: true"));
    let (written, code) = home.run(&["relogin"]);
    assert!(code == 1 && written.stderr.contains("stands for Kubernetes itself"), "{written:?}");
}

/// A token whose claims say this; nobody verifies it here.
fn token(claims: &str) -> String {
    use base64::Engine as _;
    format!("h.{}.s", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims))
}

#[test]
fn cli_203_a_login_is_a_password_sent_once_and_a_token_kept() {
    let answer = format!("{{\"token\": \"{}\"}}", token(r#"{"iss": "argocd", "sub": "kim:login"}"#));
    let server = serve(move |request| match request.split(' ').nth(1) {
        Some("/api/v1/session") if request.contains("hunter2") => (200, "", answer.clone()),
        Some("/api/v1/session") => {
            (401, "", r#"{"code": 16, "message": "Invalid username or password"}"#.to_owned())
        }
        Some("/auth/logout") => (200, "", String::new()),
        _ => (404, "", String::new()),
    });
    let home = Home::with(FILE);
    let login = ["login", &*server, "--plaintext", "--username", "kim", "--name", "mine", "--password"];
    let (written, code) = home.run(&[&login[..], &["no"]].concat());
    assert!(code == 20 && written.stderr.contains("desc = Invalid username or password"), "{written:?}");
    let said = home.said(&[&login[..], &["hunter2"]].concat());
    assert_eq!(said, "'kim:login' logged in successfully\nContext 'mine' updated\n");
    let text = home.text();
    assert!(text.contains("current-context: mine") && text.contains("plain-text: true"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(home.said(&["context", "-"]), "Switched to context 'a'\n");
    let said = home.said(&["relogin", "--argocd-context", "mine", "--password", "hunter2"]);
    assert_eq!(said, "Relogging in as 'kim'\nContext 'mine' updated\n");
    assert_eq!(home.said(&["logout", "mine"]), "Logged out from 'mine'\n");
    assert!(home.text().contains("- name: mine\n") && !home.text().contains("auth-token: h."));
    let (written, code) = home.run(&["logout", "x"]);
    assert!(code == 1 && written.stderr.contains("Context x does not exist"), "{written:?}");
    let (written, code) = Home::with("").run(&["logout", "x"]);
    assert!(code == 1 && written.stderr.contains("Nothing to logout from"), "{written:?}");
}

/// A server that shows who asks, and for what.
#[test]
fn cli_103_a_flag_is_stronger_than_the_context_and_a_redirect_gets_no_token() {
    let server = serve(|request| {
        if request.starts_with("GET /moved/") {
            return (302, "location: http://127.0.0.1:1/\r\n", String::new());
        }
        let is_known = request.contains("authorization: Bearer mine") && request.contains("x-a: 1");
        if is_known { (200, "", "{}".to_owned()) } else { (401, "", "{}".to_owned()) }
    });
    let home = Home::with(FILE);
    let flags = ["--server", &*server, "--plaintext", "--auth-token", "mine", "-H", "x-a:1"];
    assert_eq!(home.said(&[&["app", "list", "-o", "json"], &flags[..]].concat()), "[]\n");
    let (written, code) = home.run(&[&["app", "list"], &flags[..4], &["t", "-H", "x-a:1"]].concat());
    assert!(code == 20 && written.stderr.contains("code = Unauthenticated"), "{written:?}");
    let moved = [&["app", "list", "--grpc-web-root-path", "moved"], &flags[..]].concat();
    let (written, code) = home.run(&moved);
    assert!(code == 20 && written.stderr.contains("302 Found"), "{written:?}");
}

#[test]
fn cli_124_nobody_answers() {
    for (server, text) in [
        ("127.0.0.1:1", "Failed to establish connection to 127.0.0.1:1: "),
        ("http://a.example", "is no address of a server"),
    ] {
        let (written, code) = execute("argocd", &[], &["app", "list", "--server", server]);
        assert!(code == 1 && written.stderr.contains(text), "{written:?}");
    }
}

/// CLI-123: the pod is found by its label; that a port of one is reached is shown in `cluster/src/forward.rs`.
#[test]
fn cli_123_a_server_is_reached_by_way_of_kubernetes_where_one_of_its_pods_is_ready() {
    let embedded = super::embedded::Embedded::start();
    let kubeconfig = embedded.directory.path().join("kubeconfig");
    let way = ["--port-forward-namespace", "argocd", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let none = "cannot find ready pod with selector: [app.kubernetes.io/name=argocd-server]";
    for args in [&["version"][..], &["app", "list"], &["login", "--username", "a", "--password", "b"]] {
        let (written, code) = execute("argocd", &[], &[args, &way[..]].concat());
        assert!(code == 20 && written.stderr.contains(none), "{args:?}: {written:?}");
    }
    let (written, code) = execute("argocd", &[], &[&["login", "a.example"], &way[..]].concat());
    assert!(code == 1 && written.stderr.contains("name none"), "{written:?}");
}

#[test]
fn cli_110_a_question_makes_no_file() {
    let home = Home::with("");
    for args in [&["context"][..], &["configure", "--prompts-enabled"], &["relogin"], &["logout", "x"]] {
        assert_eq!(home.run(args).1, 1, "{args:?}");
    }
    assert_eq!(std::fs::read_dir(home.0.path()).unwrap().count(), 0);
}
