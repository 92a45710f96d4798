//! `tiphys install`: prints manifests, changes nothing (CLI-1020).

use std::ffi::OsString;
use std::process::ExitCode;
use tiphys_process::runtime::fail;

/// Prints the CRDs as one YAML stream, sorted by name; other manifests come with the image.
pub(crate) fn install(args: &[OsString]) -> ExitCode {
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    match args.as_slice() {
        ["--crds-only"] => {}
        ["-h" | "--help"] => {
            return crate::print(
                "Usage: tiphys install --crds-only\n\nPrints the custom resource definitions; pipe them into\n\
                 `kubectl apply --server-side -f -`.\n",
            );
        }
        [] => {
            return fail(
                "only the custom resource definitions can be printed yet\n  try: tiphys install --crds-only",
                2,
            );
        }
        [other, ..] => {
            return fail(&format!("unknown flag: {other}\n  try: tiphys install --crds-only"), 2);
        }
    }
    let mut text = String::new();
    for manifest in tiphys_api::crd::manifests() {
        match tiphys_go::yaml::to_string(&manifest) {
            Ok(yaml) => {
                text.push_str("---\n");
                text.push_str(&yaml);
            }
            Err(error) => {
                return fail(&format!("cannot print a custom resource definition: {error}"), 20);
            }
        }
    }
    crate::print(&text)
}
