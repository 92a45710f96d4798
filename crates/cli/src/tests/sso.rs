//! `login --sso` with a provider on loopback and a browser that follows where it is sent.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use serde_json::json;

use super::double::{CLI_CLIENT, Double};
use super::web::serve;
use crate::run;
use crate::terminal::{Terminal, Written};

/// The time of terminals in memory.
const NOW: &str = "2026-08-01T10:00:00Z";

fn now() -> i64 {
    NOW.parse::<jiff::Timestamp>().unwrap().as_second()
}

/// A provider, a server that says so, and a home with nothing in it.
struct Place {
    double: Double,
    server: String,
    home: tempfile::TempDir,
    port: String,
    runtime: tokio::runtime::Runtime,
}

impl Place {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let double = runtime.block_on(Double::start(now()));
        let settings = json!({"oidcConfig": {"issuer": double.issuer, "clientID": "cd",
            "cliClientID": CLI_CLIENT, "scopes": ["openid", "email"]}});
        let server = serve(move |request| {
            if request.split(' ').nth(1) == Some("/api/v1/settings") {
                return (200, "", settings.to_string());
            }
            // What it is asked with, for whoever wants to see it.
            let token = request.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
            (200, "", json!({"items": [], "username": token}).to_string())
        });
        // Somebody may take it in between; nobody does on a machine of tests.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { double, server, home: tempfile::tempdir().unwrap(), port: port.to_string(), runtime }
    }

    fn terminal(&self) -> Terminal {
        Terminal::memory("argocd", &[("ARGOCD_CONFIG_DIR", self.home.path().to_str().unwrap())])
    }

    fn run(&self, args: &[&str]) -> (Written, u8) {
        let terminal = self.terminal();
        let code = run(&terminal, args.iter().map(|arg| (*arg).to_owned()).collect());
        (terminal.written(), code)
    }

    /// Runs a login, and meanwhile what a browser does with the address that is shown.
    fn signs_in(&self, args: &[&str], browse: impl AsyncFnOnce(&str) -> String) -> (Written, u8, String) {
        let terminal = Arc::new(self.terminal());
        let sso = ["--sso-launch-browser=false", "--sso-port", &self.port];
        let args: Vec<String> = args.iter().chain(&sso).map(|arg| (*arg).to_owned()).collect();
        let asking = Arc::clone(&terminal);
        let login = std::thread::spawn(move || run(&asking, args));
        let shown = || {
            let text = terminal.written().stdout;
            let line = text.lines().find_map(|line| line.strip_prefix("To authenticate, "));
            line.map(|line| line.split_once("browser: ").unwrap().1.to_owned())
        };
        let seen = self.runtime.block_on(async {
            let url = loop {
                if let Some(url) = shown() {
                    break url;
                }
                assert!(!login.is_finished(), "{:?}", terminal.written());
                tokio::task::yield_now().await;
            };
            browse(&url).await
        });
        let code = login.join().unwrap();
        (terminal.written(), code, seen)
    }

    fn login(&self) -> Vec<&str> {
        vec!["login", &self.server, "--plaintext", "--name", "cd", "--sso"]
    }

    fn config(&self) -> String {
        std::fs::read_to_string(self.home.path().join("config")).unwrap_or_default()
    }
}

/// Follows an address to its end.
async fn follow(url: &str) -> String {
    tiphys_cloud::provide_crypto();
    let answer = reqwest::get(url).await.unwrap();
    format!("{} {}", answer.status().as_u16(), answer.text().await.unwrap())
}

#[test]
fn cli_205_a_browser_signs_a_person_in() {
    let place = Place::new();
    let (written, code, seen) = place.signs_in(&place.login(), async |url| {
        assert!(url.contains("code_challenge_method=S256") && url.contains("client_id=cd-cli"), "{url}");
        assert!(follow(&url.replace("/auth?", "/nothing?")).await.starts_with("404"));
        follow(url).await
    });
    assert_eq!((code, written.stderr.as_str()), (0, ""), "{written:?}");
    assert!(seen.starts_with("200 ") && seen.contains("Authentication successful!"), "{seen}");
    assert!(written.stdout.starts_with("Performing authorization_code flow login: http"), "{written:?}");
    let end = "Authentication successful\n'kim@acme.test' logged in successfully\nContext 'cd' updated\n";
    assert!(written.stdout.ends_with(end), "{written:?}");
    let form = place.double.state.lock().forms.last().unwrap().clone();
    assert_eq!(form["code_verifier"].len(), 43);
    let (written, _) = place.run(&["account", "get-user-info"]);
    assert!(written.stdout.contains("Logged In: false"), "{written:?}");

    // relogin goes the same way, as the token is the provider's.
    let (written, code, _) = place.signs_in(&["relogin"], async |url| follow(url).await);
    assert_eq!(code, 0, "{written:?}");
    assert!(written.stdout.starts_with("Reinitiating SSO login\n"), "{written:?}");
    assert!(written.stdout.ends_with("Context 'cd' updated\n"), "{written:?}");
}

#[test]
fn cli_205_a_browser_of_another_login_is_refused() {
    let place = Place::new();
    for (query, text) in [
        ("code=x&state=other", "Unknown nonce"),
        ("error=access_denied&error_description=<no>", "access_denied: &lt;no&gt;"),
        ("x=y", "no code in request"),
    ] {
        let back = format!("http://127.0.0.1:{}/auth/callback?{query}", place.port);
        let (written, code, seen) = place.signs_in(&place.login(), async |_| follow(&back).await);
        assert!(code == 20 && written.stderr.contains(text), "{query}: {written:?}");
        assert!(seen.starts_with("400 ") && seen.contains(text), "{query}: {seen}");
    }
    assert_eq!(place.config(), "");
}

#[test]
fn cli_207_a_code_signs_a_person_in_who_has_a_browser_elsewhere() {
    let place = Place::new();
    let login = [&place.login()[..], &["--device"]].concat();
    let (written, code) = place.run(&login);
    assert_eq!(code, 20);
    assert!(written.stderr.contains("the provider offers no logins by a code"), "{written:?}");
    let issuer = &place.double.issuer;
    place.double.state.lock().metadata = json!({"device_authorization_endpoint": format!("{issuer}/device")});
    // The first provider is remembered by nobody: each login asks anew.
    let (written, code) = place.run(&login);
    assert_eq!((code, written.stderr.as_str()), (0, ""), "{written:?}");
    assert_eq!(
        written.stdout,
        format!(
            "To authenticate, open {issuer}/enter in a browser and enter the code AB-CD\nAuthentication successful\n\
             'kim@acme.test' logged in successfully\nContext 'cd' updated\n"
        )
    );
    place.double.state.lock().undecided = vec!["access_denied"];
    let (written, code) = place.run(&["relogin", "--device"]);
    assert!(code == 20 && written.stderr.contains("access_denied"), "{written:?}");
    let (written, code) = place.run(&["login", &place.server, "--plaintext", "--device"]);
    assert!(code == 1 && written.stderr.contains("--device is a way of --sso"), "{written:?}");
}

#[test]
fn cli_206_a_server_without_single_sign_on() {
    let place = Place::new();
    let server = serve(|_| (200, "", "{}".to_owned()));
    let (written, code) = place.run(&["login", &server, "--plaintext", "--sso"]);
    assert!(code == 1 && written.stderr.contains("is not configured with SSO"), "{written:?}");
}

#[test]
fn cli_122_a_token_that_is_over_is_renewed() {
    let place = Place::new();
    place.double.state.lock().refresh_token = "again".to_owned();
    let old = place.double.token_with(&json!({"exp": now() - 1}));
    let text = format!(
        "contexts: [{{name: a, server: '{0}', user: a}}]\ncurrent-context: a\nservers: [{{server: '{0}', plain-text: true}}]\n\
         users: [{{name: a, auth-token: {old}, refresh-token: again}}]\n",
        place.server
    );
    let path = place.home.path().join("config");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (written, code) = place.run(&["account", "get-user-info", "-o", "json"]);
    assert_eq!(code, 0, "{written:?}");
    assert!(!written.stdout.contains(&old) && written.stdout.contains("\"username\": \"ey"), "{written:?}");
    assert!(
        !place.config().contains(&old) && place.config().contains("refresh-token: "),
        "renewed for later, too"
    );

    // One that cannot be renewed is sent as it is: the server says what it thinks of it.
    std::fs::write(&path, place.config().replace("refresh-token: ", "refresh-token: not-")).unwrap();
    let renewed = place.config();
    let (written, _) = place.run(&["account", "list", "-o", "json"]);
    assert_eq!((written.stdout.as_str(), place.config()), ("[]\n", renewed), "it is still good");
}
