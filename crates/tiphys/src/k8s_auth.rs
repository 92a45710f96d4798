//! This program under the name `argocd-k8s-auth`: prints a token for a cluster of a cloud provider (REP-106, CLI-1).

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;
use tiphys_cloud::Environment;
use tiphys_process::runtime::fail;

/// The name.
pub(crate) const NAME: &str = "argocd-k8s-auth";

/// Prints an `ExecCredential` for the arguments.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Vec<String> = arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let environment = Environment::of_process(crate::environment());
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime does not start: {error}"), 20),
    };
    match runtime.block_on(tiphys_cloud::answer(&arguments, &environment)) {
        Ok(found) => {
            let credential = json!({
                "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1",
                "spec": {"interactive": false},
                "status": {"expirationTimestamp": found.ends.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                    "token": found.token.expose()},
            });
            crate::print(&format!("{credential}\n"))
        }
        Err(error) => fail(&error.to_string(), 20),
    }
}
