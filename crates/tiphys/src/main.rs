//! `tiphys`: one binary for everything. Here are only the start of the process and the choice of the verb.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

use tiphys_exec::launch;
use tiphys_process::runtime::fail;
use tiphys_process::worker;

mod allocator;
mod cmp_server;
mod components;
mod dex;
mod install;
mod k8s_auth;
mod run;
mod serve;

const HELP: &str = "\
Tiphys keeps Kubernetes clusters equal to what Git declares.

Usage: tiphys <command> [flags]

Try it
  demo      a working system in one process, without a cluster

Run it
  run       all components in the foreground, against the cluster of a kubeconfig
  serve     what pods run: chosen roles, health and metrics ports
  cmp-server  serve a config management plugin, in its sidecar
  dex       run the Dex that signs people in, with the configuration made for it
  install   print the manifests to install (--crds-only: just the custom resources)

Use it
  login     log in to a server; then, or with --core and a kubeconfig:
  app       create, list, get, sync, diff, wait, history, manifests, resources, delete
  appset, proj, repo, repocreds, cluster, account, cert, gpg   (most of them with --core)
  admin     look after an installation

Ask it
  render    print what an application would apply, from folders
  rehearse  show what a roll-out or a deletion of an ApplicationSet would do, without a cluster
  eval      answer questions about single decisions, one JSON request per line
  version   print the version

`tiphys <command> --help` says more.
";

fn main() -> ExitCode {
    allocator::configure();
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Started by ourselves, often and for little.
    let rest = args.get(1..).unwrap_or_default();
    let verb = args.first().and_then(|verb| verb.to_str());
    if verb == Some("simulate") {
        allocator::keep();
    }
    match verb {
        Some(launch::VERB) => return launch::launch(rest),
        Some("worker") => return worker::run(rest),
        _ => launch::launch_through(worker::PROGRAM.into()),
    }
    // One crypto provider, installed before anything else (DEP-4). A second installation would be a bug.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return fail("the crypto provider was installed twice; this is a bug", 20);
    }
    let name = called_as();
    if name == k8s_auth::NAME {
        return k8s_auth::run(&args);
    }
    if name == cmp_server::NAME {
        return cmp_server::run(&args);
    }
    if name == dex::NAME {
        return dex::run(&args);
    }
    let name = name.to_string_lossy();
    if let Some(component) = components::Component::named(&name) {
        return components::run(&name, component, &args);
    }
    // Under another name it is the user's command line, which has a help of its own.
    let is_own = name.starts_with("tiphys");
    match verb {
        Some("eval") => tiphys_lab::eval::run(rest),
        Some("simulate") => tiphys_lab::simulate::run(rest),
        Some("rehearse") => tiphys_lab::rehearse::run(rest),
        Some("demo") => tiphys_lab::demo::run(rest),
        Some("run") => run::run(rest),
        Some("serve") => serve::serve(rest),
        Some("dex") => dex::run(rest),
        Some("cmp-server") => cmp_server::run(rest),
        Some("install") => install::install(rest),
        Some("--version") if is_own => print(&format!("tiphys: v{}\n", env!("CARGO_PKG_VERSION"))),
        None | Some("help" | "-h" | "--help") if is_own => print(HELP),
        _ => {
            let own = tiphys_cli::Own {
                describe: tiphys_lab::eval::describe,
                dashboard: run::dashboard,
                scripts: worker::scripts,
            };
            tiphys_cli::main(&args, own)
        }
    }
}

/// The name this program goes by: another one makes it another program (CLI-1).
fn called_as() -> OsString {
    let own = || {
        let path = std::env::args_os().next()?;
        std::path::Path::new(&path).file_name().map(std::ffi::OsStr::to_os_string)
    };
    std::env::var_os("ARGOCD_BINARY_NAME").or_else(own).unwrap_or_default()
}

/// The environment of this process; what is no text is left out.
fn environment() -> BTreeMap<String, String> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

fn print(text: &str) -> ExitCode {
    use std::io::Write as _;
    // A closed pipe ends quietly (CLI-1106).
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}
