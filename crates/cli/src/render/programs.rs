//! The real `helm` and `kustomize`, started as somebody at a terminal would (RND-92, RND-243).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tiphys_api::application::ApplicationSource;
use tiphys_exec::{Invocation, Limits};
use tiphys_render::eval::escape_parameter;

use crate::failure::Failure;

/// Name of the releases.
pub(super) const RELEASE: &str = "rel";
/// Namespace of the releases.
pub(super) const NAMESPACE: &str = "apps";
/// What stands for the address of the files.
pub(super) const REPOSITORY: &str = "https://verify.invalid/files.git";

/// Time for one run (RND-20).
const DEADLINE: Duration = Duration::from_secs(90);
const GRACE: Duration = Duration::from_secs(10);
/// Bytes that one run may print (RND-243).
const STDOUT_BYTES_MAX: usize = 64 << 20;

/// The programs, with a home that is empty.
pub(super) struct Programs {
    helm: Option<PathBuf>,
    kustomize: Option<PathBuf>,
    home: TempDir,
    path: String,
}

/// What is asked of a program besides the source.
pub(super) struct Asked<'a> {
    /// The directory of the chart or overlay.
    pub(super) directory: &'a Path,
    /// Version of Kubernetes.
    pub(super) kube_version: &'a str,
    /// What the cluster serves.
    pub(super) api_versions: &'a [String],
    /// Options of the build of an overlay.
    pub(super) build_options: &'a str,
}

impl Programs {
    /// The programs that were named.
    pub(super) fn new(helm: &str, kustomize: &str, env: &BTreeMap<String, String>) -> Result<Self, Failure> {
        let found = |given: &str| -> Result<Option<PathBuf>, Failure> {
            if given.is_empty() {
                return Ok(None);
            }
            // The working directory of the child is another one.
            let found = std::fs::canonicalize(given);
            found.map(Some).map_err(|error| Failure::fatal(format!("{given}: {error}")))
        };
        let home = TempDir::new()
            .map_err(|error| Failure::fatal(format!("cannot make a directory for the programs: {error}")))?;
        let path = env.get("PATH").cloned().unwrap_or_default();
        Ok(Self { helm: found(helm)?, kustomize: found(kustomize)?, home, path })
    }

    /// What a program prints, or why it refuses.
    ///
    /// # Errors
    /// When it cannot be run.
    pub(super) async fn render(
        &self,
        is_chart: bool,
        source: &ApplicationSource,
        asked: &Asked<'_>,
    ) -> Result<Result<String, String>, Failure> {
        let (name, program) = if is_chart { ("helm", &self.helm) } else { ("kustomize", &self.kustomize) };
        let Some(program) = program else {
            let text = format!("{}: which {name}? name one with --{name}", asked.directory.display());
            return Err(Failure::fatal(text));
        };
        let arguments = if is_chart { helm_arguments(source, asked) } else { kustomize_arguments(asked) };
        let home = |below: &str| self.home.path().join(below).into_os_string();
        let invocation = Invocation {
            program: program.clone(),
            arguments: arguments.into_iter().map(OsString::from).collect(),
            environment: vec![
                ("PATH".into(), self.path.clone().into()),
                ("HOME".into(), home("")),
                ("HELM_CACHE_HOME".into(), home("cache")),
                ("HELM_CONFIG_HOME".into(), home("config")),
                ("HELM_DATA_HOME".into(), home("data")),
            ],
            directory: asked.directory.to_owned(),
            deadline: DEADLINE,
            grace: GRACE,
            stdout_bytes_max: STDOUT_BYTES_MAX,
            limits: Limits::default(),
        };
        let output = tiphys_exec::run(invocation)
            .await
            .map_err(|error| Failure::fatal(format!("{name} at {}: {error}", asked.directory.display())))?;
        if output.code == Some(0) {
            return Ok(
                String::from_utf8(output.stdout).map_err(|_not_text| "the output is no text".to_owned())
            );
        }
        let text = output.stderr.trim();
        let error = text.rfind("Error: ").and_then(|at| text.get(at..)).unwrap_or(text);
        Ok(Err(error.strip_prefix("Error: ").unwrap_or(error).to_owned()))
    }
}

/// The arguments of RND-92.
fn helm_arguments(source: &ApplicationSource, asked: &Asked<'_>) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["template", ".", "--name-template", RELEASE, "--namespace", NAMESPACE].map(str::to_owned).into();
    let mut add = |flag: &str, value: &str| arguments.extend([flag.to_owned(), value.to_owned()]);
    if !asked.kube_version.is_empty() {
        add("--kube-version", asked.kube_version);
    }
    if let Some(helm) = &source.helm {
        for parameter in &helm.parameters {
            add("--set", &format!("{}={}", parameter.name, escape_parameter(&parameter.value)));
        }
        for file in &helm.value_files {
            add("--values", file);
        }
    }
    for version in asked.api_versions {
        add("--api-versions", version);
    }
    arguments.push("--include-crds".to_owned());
    arguments
}

fn kustomize_arguments(asked: &Asked<'_>) -> Vec<String> {
    let options = asked.build_options.split_whitespace().map(str::to_owned);
    ["build", "."].map(str::to_owned).into_iter().chain(options).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rnd_92_a_chart_is_asked_for_as_the_reference_does() {
        let source: ApplicationSource = serde_json::from_value(json!({"repoURL": "r", "path": ".", "helm": {
            "valueFiles": ["a.yaml"], "parameters": [{"name": "x", "value": "1,2"}]}}))
        .unwrap();
        let versions = ["v1/Pod".to_owned()];
        let asked = Asked {
            directory: Path::new("."),
            kube_version: "1.36.0",
            api_versions: &versions,
            build_options: "",
        };
        let expected = "template . --name-template rel --namespace apps --kube-version 1.36.0 --set x=1\\,2 \
                        --values a.yaml --api-versions v1/Pod --include-crds";
        assert_eq!(helm_arguments(&source, &asked).join(" "), expected);
    }

    #[tokio::test]
    async fn rnd_247_a_program_that_is_not_named_is_an_error_and_no_equality() {
        let programs = Programs::new("", "", &BTreeMap::new()).unwrap();
        let asked =
            Asked { directory: Path::new("x"), kube_version: "", api_versions: &[], build_options: "" };
        let error = programs.render(false, &ApplicationSource::default(), &asked).await.unwrap_err();
        assert_eq!(error.message, "x: which kustomize? name one with --kustomize");
        assert!(Programs::new("/no/such/helm", "", &BTreeMap::new()).is_err());
    }

    /// The output of a program, or the last of its errors.
    #[tokio::test]
    async fn rnd_247_what_a_program_says_is_taken_apart() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("kustomize");
        let text = "#!/bin/sh\n[ \"$3\" = --fail ] && { echo 'warning' >&2; echo 'Error: no such base' >&2; exit 1; }\necho kind: A\n";
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let programs = Programs::new("", script.to_str().unwrap(), &env).unwrap();
        let asked = |build_options| Asked {
            directory: folder.path(),
            kube_version: "",
            api_versions: &[],
            build_options,
        };
        let source = ApplicationSource::default();
        let done = programs.render(false, &source, &asked("")).await.unwrap();
        assert_eq!(done.as_deref(), Ok("kind: A\n"));
        let refused = programs.render(false, &source, &asked("--fail")).await.unwrap();
        assert_eq!(refused.as_ref().map_err(String::as_str), Err("no such base"));
    }
}
