//! Commands against a real API server, without any controller. Needs `TIPHYS_TEST_KUBECONFIG`, else skipped
//! aloud: `hack/testbed/testbed run -- cargo test -p tiphys-cli`.

use serde_json::{Value, json};
use tiphys_cluster::{Connection, Discovery, Writer};
use tiphys_object::ResourceKey;
use tiphys_policy::permit::Permit;

use super::execute;

const NAMESPACE: &str = "tiphys-cli-test";

struct Bed {
    kubeconfig: String,
}

impl Bed {
    /// The control plane with the definitions, a namespace and a project in it.
    fn prepare() -> Option<Self> {
        let Some(kubeconfig) = std::env::vars_os().find(|(key, _)| key == "TIPHYS_TEST_KUBECONFIG") else {
            eprintln!("skipped: TIPHYS_TEST_KUBECONFIG is not set");
            return None;
        };
        let kubeconfig = kubeconfig.1.into_string().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connection = Connection::from_kubeconfig(
                Some(kubeconfig.as_ref()),
                None,
                tiphys_api::settings::ClientLimits::default(),
            )
            .await
            .unwrap();
            let discovery = Discovery::new(connection.clone());
            let writer = Writer::new(connection, discovery.clone());
            for definition in tiphys_api::crd::manifests() {
                put(&writer, &definition).await;
            }
            put(&writer, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
                .await;
            let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
                "metadata": {"name": "default", "namespace": NAMESPACE},
                "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}});
            for _ in 0..100 {
                discovery.refresh().await.unwrap();
                match writer.create(&Permit::operator(ResourceKey::of(&project)), &project).await {
                    Ok(_) => break,
                    Err(error) if error.is_already_exists() => break,
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
                }
            }
        });
        Some(Self { kubeconfig })
    }

    /// Makes an object exist.
    fn put(&self, object: &Value) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connection = Connection::from_kubeconfig(
                Some(self.kubeconfig.as_ref()),
                None,
                tiphys_api::settings::ClientLimits::default(),
            )
            .await
            .unwrap();
            let discovery = Discovery::new(connection.clone());
            put(&Writer::new(connection, discovery), object).await;
        });
    }

    /// Runs a command; standard output, the message of the failure, the exit code.
    fn run(&self, args: &[&str]) -> (String, String, u8) {
        let mut all = vec!["app"];
        all.extend(args);
        all.extend(["--core", "--kubeconfig", &self.kubeconfig, "-n", NAMESPACE]);
        let (written, code) = execute("argocd", &[], &all);
        let record: Value = serde_json::from_str(&written.stderr).unwrap_or_default();
        (written.stdout, record["msg"].as_str().unwrap_or(&written.stderr).to_owned(), code)
    }

    fn succeeds(&self, args: &[&str]) -> String {
        let (stdout, stderr, code) = self.run(args);
        assert_eq!((stderr.as_str(), code), ("", 0), "{args:?}: {stdout}");
        stdout
    }

    fn fails(&self, args: &[&str]) -> (String, u8) {
        let (stdout, message, code) = self.run(args);
        assert_eq!(stdout, "", "{args:?}");
        (message, code)
    }
}

async fn put(writer: &Writer, object: &Value) {
    match writer.create(&Permit::operator(ResourceKey::of(object)), object).await {
        Ok(_) => {}
        Err(error) if error.is_already_exists() => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn cli_140_an_application_from_creation_to_deletion() {
    let Some(bed) = Bed::prepare() else { return };
    let name = "life";
    // What an earlier run that failed left behind.
    bed.run(&["delete", name, "--cascade=false", "--wait"]);
    let create = [
        "create",
        name,
        "--repo",
        "https://git.example.com/a.git",
        "--path",
        "web",
        "--dest-server",
        "https://kubernetes.default.svc",
        "--dest-namespace",
        "web",
        "-l",
        "suite=life",
    ];
    assert_eq!(bed.succeeds(&create), "application 'life' created\n");
    assert_eq!(bed.succeeds(&create), "application 'life' unchanged\n");
    let mut other = create.to_vec();
    other.extend(["--revision", "main"]);
    let (message, code) = bed.fails(&other);
    assert!(message.ends_with("existing application spec is different, use upsert flag to force update"));
    assert_eq!(code, 20);
    other.push("--upsert");
    assert_eq!(bed.succeeds(&other), "application 'life' updated\n");

    assert_eq!(bed.succeeds(&["list", "-o", "name", "-l", "suite=life"]), "tiphys-cli-test/life\n");
    assert_eq!(bed.fails(&["list", "-o", "foo"]), ("unknown output format: foo".to_owned(), 20));
    assert!(bed.succeeds(&["get", name]).contains("\n  Target:           main\n"));
    bed.succeeds(&["set", name, "--path", "api"]);
    let shown: Value = serde_json::from_str(&bed.succeeds(&["get", name, "-o", "json"])).unwrap();
    assert_eq!(shown["spec"]["source"]["path"], "api");
    assert!(shown.get("kind").is_none(), "API-P6");
    let patched = bed.succeeds(&[
        "patch",
        name,
        "--type",
        "merge",
        "--patch",
        r#"{"spec": {"info": [{"name": "a", "value": "b"}]}}"#,
    ]);
    assert!(patched.contains("info:\n  - name: a\n"), "{patched}");
    assert_eq!(bed.succeeds(&["confirm-deletion", name]), "Application 'life' updated successfully\n");

    let (message, _) = bed.fails(&["terminate-op", name]);
    assert!(message.ends_with("Unable to terminate operation. No operation is in progress"));
    assert_eq!(bed.succeeds(&["sync", name, "--async", "--prune"]), "");
    let (message, code) = bed.fails(&["sync", name, "--async"]);
    assert_eq!(
        (message.as_str(), code),
        ("rpc error: code = FailedPrecondition desc = another operation is already in progress", 20)
    );
    let shown: Value = serde_json::from_str(&bed.succeeds(&["get", name, "-o", "json"])).unwrap();
    assert_eq!(shown["operation"]["sync"], json!({"prune": true, "syncStrategy": {"hook": {}}}));

    let (stdout, message, code) = bed.run(&["wait", name, "--health", "--timeout", "1"]);
    assert!(stdout.contains("\nThis is the state of the app after wait timed out:\n"), "{stdout}");
    assert!(stdout.ends_with("The command timed out waiting for the conditions to be met.\n"), "{stdout}");
    assert_eq!((message.as_str(), code), ("timed out (1s) waiting for app \"life\" match desired state", 20));

    assert_eq!(bed.succeeds(&["delete", name, "--cascade=false", "--wait"]), "application 'life' deleted\n");
    let (message, code) = bed.fails(&["get", name]);
    assert_eq!(
        (message.as_str(), code),
        ("rpc error: code = NotFound desc = applications.argoproj.io \"life\" not found", 20)
    );
    let (message, _) = bed.fails(&["delete", "-l", "suite=life"]);
    assert_eq!(message, "no apps match selector suite=life");
}

#[test]
fn api_126_a_spec_that_the_project_does_not_permit_is_refused() {
    let Some(bed) = Bed::prepare() else { return };
    let (message, code) =
        bed.fails(&["create", "refused", "--project", "nope", "--repo", "u", "--path", "p"]);
    assert!(message.contains("application spec for refused is invalid: InvalidSpecError"), "{message}");
    assert_eq!(code, 20);
}

/// CLI-910, CLI-911: the policy of a running installation.
#[test]
fn cli_910_the_policy_is_read_from_the_cluster() {
    let Some(bed) = Bed::prepare() else { return };
    let admin = |namespace: &str, args: &[&str]| {
        let mut all = vec!["admin", "settings", "rbac"];
        all.extend(args);
        all.extend(["--kubeconfig", &bed.kubeconfig, "-n", namespace]);
        let (written, code) = execute("argocd", &[], &all);
        (written.stdout, written.stderr, code)
    };
    bed.put(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "argocd-rbac-cm", "namespace": NAMESPACE},
        "data": {"policy.default": "role:readonly", "policy.csv": "p, kim, logs, create, */*, allow"}}));
    let asked = ["can", "kim", "get", "applications", "shop/web"];
    assert_eq!(admin(NAMESPACE, &asked), ("Yes\n".to_owned(), String::new(), 0));
    let (stdout, stderr, code) = admin(NAMESPACE, &["validate"]);
    assert_eq!((stdout.as_str(), code), ("Policy is valid.\n", 0));
    assert!(stderr.contains("policy.csv line 1: \"logs\" have no action \"create\""), "{stderr}");
    let (stdout, stderr, code) = admin("nowhere", &asked);
    assert_eq!((stdout.as_str(), code), ("No\n", 1));
    assert!(stderr.contains("there is no ConfigMap argocd-rbac-cm in namespace nowhere"), "{stderr}");
    assert_eq!(admin("nowhere", &["validate"]).2, 1);
}
