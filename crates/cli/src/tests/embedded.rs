//! Commands against the embedded API server, each test with a server of its own.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};
use tiphys_cluster::{Connection, Discovery, Target, Writer};
use tiphys_object::{Gvk, ResourceKey};
use tiphys_policy::permit::Permit;
use tiphys_sim::{Options, Server, Sim};

use super::execute;

/// The namespace of the installation.
pub(super) const NAMESPACE: &str = "argocd";

/// An installation without any controller.
pub(super) struct Embedded {
    pub(super) directory: tempfile::TempDir,
    pub(super) kubeconfig: String,
    writer: Writer,
    runtime: tokio::runtime::Runtime,
    _server: Server,
}

impl Embedded {
    /// A server with the definitions, a namespace and the default project.
    pub(super) fn start() -> Self {
        let started = Self::bare();
        started.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": "default", "namespace": NAMESPACE},
            "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}}));
        started
    }

    /// The same without a project.
    pub(super) fn bare() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let (server, writer) = runtime.block_on(async {
            let sim = Sim::new(Options::default()).unwrap();
            let server = Server::start(sim, "127.0.0.1:0".parse().unwrap()).await.unwrap();
            std::fs::write(&path, server.kubeconfig()).unwrap();
            let connection =
                Connection::from_kubeconfig(Some(&path), None, tiphys_api::settings::ClientLimits::default())
                    .await
                    .unwrap();
            let discovery = Discovery::new(connection.clone());
            let writer = Writer::new(connection, discovery.clone());
            for definition in tiphys_api::crd::manifests() {
                create(&writer, &definition).await;
            }
            discovery.refresh().await.unwrap();
            (server, writer)
        });
        let kubeconfig = path.to_str().unwrap().to_owned();
        let started = Self { directory, kubeconfig, writer, runtime, _server: server };
        started.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}));
        started
    }

    /// Creates an object.
    pub(super) fn put(&self, object: &Value) {
        self.runtime.block_on(create(&self.writer, object));
    }

    /// Replaces an object.
    pub(super) fn replace(&self, object: &Value) {
        let permit = Permit::operator(ResourceKey::of(object));
        self.runtime.block_on(self.writer.update(&permit, object)).unwrap();
    }

    /// The token of the server, which opens everything.
    pub(super) fn token(&self) -> String {
        let config: Value =
            serde_json::from_str(&std::fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        config["users"][0]["user"]["token"].as_str().unwrap().to_owned()
    }

    /// The address of the server.
    pub(super) fn server(&self) -> String {
        let config: Value =
            serde_json::from_str(&std::fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        config["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned()
    }

    /// Puts a token into the Secrets that ask for one, as a cluster does; the embedded server has nobody for it.
    pub(super) fn issue_tokens(&self, secrets: &'static [(&'static str, &'static str)], value: &str) {
        let writer = self.writer.clone();
        let data = json!({"data": {"token": base64::engine::general_purpose::STANDARD.encode(value)}});
        self.runtime.spawn(async move {
            for (namespace, name) in secrets {
                let target = Target::new(Gvk::new("", "v1", "Secret"), namespace, name);
                while writer.merge_patch(&Permit::operator(target.key()), &target, None, &data).await.is_err()
                {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            }
        });
    }

    /// Reads an object.
    pub(super) fn object(&self, api: (&str, &str), kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let target = Target::new(Gvk::new(api.0, api.1, kind), namespace, name);
        let found = self.runtime.block_on(self.writer.get(&target)).unwrap();
        found.map(|object| object.to_value().unwrap())
    }

    /// The texts in a Secret of the installation.
    pub(super) fn secret(&self, name: &str) -> Option<Value> {
        let secret = self.object(("", "v1"), "Secret", NAMESPACE, name)?;
        let engine = base64::engine::general_purpose::STANDARD;
        let text = |value: &Value| {
            Value::from(String::from_utf8(engine.decode(value.as_str().unwrap()).unwrap()).unwrap())
        };
        let data = secret["data"].as_object().unwrap();
        Some(Value::Object(data.iter().map(|(key, value)| (key.clone(), text(value))).collect()))
    }

    /// Creates a Secret of the installation as a person would.
    pub(super) fn put_secret(&self, name: &str, kind: &str, data: &Value) {
        self.put(
            &json!({"apiVersion": "v1", "kind": "Secret", "stringData": data, "metadata": {"name": name,
            "namespace": NAMESPACE, "labels": {"argocd.argoproj.io/secret-type": kind}}}),
        );
    }

    /// Runs a command; standard output, the message of the failure or the warnings, the exit code.
    pub(super) fn run(&self, args: &[&str]) -> (String, String, u8) {
        self.run_with(&[], args)
    }

    /// The same, with more in the environment.
    pub(super) fn run_with(&self, env: &[(&str, &str)], args: &[&str]) -> (String, String, u8) {
        let mut all = args.to_vec();
        all.extend(["--core", "--kubeconfig", &self.kubeconfig]);
        // These have another `--namespace`, and find the installation by themselves.
        if !matches!(args, ["cluster", "add" | "set", ..] | ["render", ..]) {
            all.extend(["-n", NAMESPACE]);
        }
        let path = std::env::var_os("PATH").unwrap_or_default().into_string().unwrap();
        let home = self.directory.path().to_str().unwrap();
        let mut variables = vec![("HOME", home), ("PATH", path.as_str())];
        variables.extend_from_slice(env);
        let (written, code) = execute("argocd", &variables, &all);
        let record: Value = serde_json::from_str(&written.stderr).unwrap_or_default();
        (written.stdout, record["msg"].as_str().unwrap_or(&written.stderr).to_owned(), code)
    }

    /// What a command that succeeds without a warning prints.
    pub(super) fn succeeds(&self, args: &[&str]) -> String {
        let (stdout, stderr, code) = self.run(args);
        assert_eq!((stderr.as_str(), code), ("", 0), "{args:?}: {stdout}");
        stdout
    }

    /// Message and exit code of a command that fails.
    pub(super) fn fails(&self, args: &[&str]) -> (String, u8) {
        let (stdout, message, code) = self.run(args);
        assert_eq!(stdout, "", "{args:?}");
        assert_ne!(code, 0, "{args:?}: {message}");
        (message, code)
    }

    /// A repository of this machine that the installation may read; its path is its URL.
    pub(super) fn repository(&self, name: &str) -> String {
        let path = self.directory.path().join("repositories").join(name);
        std::fs::create_dir_all(&path).unwrap();
        for args in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--allow-empty", "-m", "x"],
        ] {
            git(&path, args);
        }
        let roots = self.directory.path().join("repositories");
        let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-cmd-params-cm", "namespace": NAMESPACE,
                "labels": {"app.kubernetes.io/part-of": "argocd"}},
            "data": {"reposerver.local.repositories": roots}});
        if self.object(("", "v1"), "ConfigMap", NAMESPACE, "argocd-cmd-params-cm").is_none() {
            self.put(&settings);
        }
        path.to_str().unwrap().to_owned()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test prepares its repository as a person does")]
pub(super) fn git(directory: &Path, args: &[&str]) {
    let done = std::process::Command::new("git").current_dir(directory).args(args).status().unwrap();
    assert!(done.success(), "{args:?}");
}

async fn create(writer: &Writer, object: &Value) -> Arc<tiphys_object::Object> {
    // A server that was just told of a kind needs a moment.
    for _ in 0..200 {
        match writer.create(&Permit::operator(ResourceKey::of(object)), object).await {
            Ok(created) => return created,
            Err(error) if error.code() == 404 || error.code() == 0 => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{object} was not created");
}
