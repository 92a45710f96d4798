//! Whole runs: arguments in; standard output, standard error and exit code out. Those here need no cluster.

mod accounts;
mod admin;
mod appsets;
mod backup;
mod by_server;
mod certs;
mod cluster;
mod clusters;
mod contexts;
#[path = "../../oidc/testing/double.rs"]
mod double;
mod embedded;
mod gpg;
mod oracles;
mod orphans;
mod projects;
mod rendered;
mod repositories;
mod specs;
mod specs_admin;
mod sso;
pub(crate) mod web;

use crate::run;
use crate::terminal::{Terminal, Written};

fn execute(program: &str, env: &[(&str, &str)], args: &[&str]) -> (Written, u8) {
    let mut env = env.to_vec();
    env.push(("ARGOCD_CONFIG_DIR", "/nowhere"));
    let terminal = Terminal::memory(program, &env);
    let code = run(&terminal, args.iter().map(|arg| (*arg).to_owned()).collect());
    (terminal.written(), code)
}

fn argocd(args: &[&str]) -> (Written, u8) {
    execute("argocd", &[], args)
}

#[test]
fn cli_102_check_1_stray_words_in_options() {
    let (written, code) = execute("argocd", &[("ARGOCD_OPTS", "stray")], &["app", "list"]);
    assert_eq!(code, 1);
    assert!(written.stderr.contains("ARGOCD_OPTS invalid at 'stray'"), "{}", written.stderr);
    assert_eq!(written.stdout, "");
}

#[test]
fn cli_104_check_2_no_server() {
    for args in [&["app", "list"][..], &["app", "get", "a"], &["app", "sync", "a"], &["app", "create", "a"]] {
        let (written, code) = argocd(args);
        assert_eq!(code, 1, "{args:?}");
        assert_eq!(
            written.stderr,
            "{\"level\":\"fatal\",\"msg\":\"Argo CD server address unspecified\",\"time\":\"2026-08-01T10:00:00Z\"}\n"
        );
        assert_eq!(written.stdout, "");
    }
}

#[test]
fn cli_1101_people_are_told_what_to_try() {
    let mut terminal = Terminal::memory("tiphys", &[("ARGOCD_CONFIG_DIR", "/nowhere")]);
    terminal.stderr_is_tty = true;
    let code = run(&terminal, vec!["app".into(), "list".into()]);
    assert_eq!(code, 1);
    assert_eq!(
        terminal.written().stderr,
        "error: Argo CD server address unspecified\n  try: `login SERVER`, or add `--core` to talk to Kubernetes with your kubeconfig (also as ARGOCD_OPTS='--core')\n"
    );
    let code = run(&terminal, ["app", "list", "--logformat", "json"].map(str::to_owned).to_vec());
    assert_eq!(code, 1);
    assert!(terminal.written().stderr.contains("{\"level\":\"fatal\""));
}

#[test]
fn cli_6_check_3_wrong_numbers_of_operands() {
    let (written, code) = argocd(&["app", "diff"]);
    assert_eq!(code, 2);
    assert!(written.stdout.contains("Usage:\n  argocd app diff APPNAME [flags]"), "{}", written.stdout);
    let (written, code) = argocd(&["app", "get"]);
    assert_eq!(code, 1);
    assert!(written.stdout.contains("argocd app get APPNAME"));
    assert_eq!(written.stderr, "");
    for args in [
        &["app", "sync"][..],
        &["app", "wait"],
        &["app", "delete"],
        &["app", "create"],
        &["app", "get", "a", "b"],
    ] {
        let (written, code) = argocd(args);
        assert_eq!(code, 1, "{args:?}");
        assert!(written.stdout.contains("Usage:"), "{args:?}");
    }
}

#[test]
fn cli_512_check_5_malformed_resources() {
    let (written, code) = argocd(&["app", "sync", "a", "--resource", "nonsense"]);
    assert_eq!(code, 20);
    assert!(written.stderr.contains("resource should have GROUP:KIND:NAME, but instead got: nonsense"));
}

#[test]
fn cli_3_groups_print_their_help() {
    let (written, code) = argocd(&["app"]);
    assert_eq!(code, 1);
    assert!(written.stdout.contains("Available Commands:"));
    assert_eq!(argocd(&["app", "--help"]).1, 0);
    assert_eq!(argocd(&["app", "foo"]).1, 1, "CLI-4");
    assert_eq!(argocd(&[]).1, 0);
    let (written, code) = argocd(&["app", "get", "--help"]);
    assert_eq!(code, 0);
    assert!(written.stdout.contains("--hard-refresh"));
}

#[test]
fn cli_5_parser_errors_are_on_standard_output() {
    let (written, code) = argocd(&["app", "list", "--nope"]);
    assert_eq!(
        (written.stdout.as_str(), written.stderr.as_str(), code),
        ("Error: unknown flag: --nope\n", "", 1)
    );
}

#[test]
fn cli_17_unknown_commands() {
    let (written, code) = argocd(&["foo"]);
    assert_eq!(code, 1);
    assert_eq!(
        written.stdout,
        "Error: unknown command \"foo\" for \"argocd\"\nRun 'argocd --help' for usage.\n"
    );
}

#[test]
fn cli_7_text_records() {
    let (written, code) = argocd(&["app", "list", "--logformat", "text"]);
    assert_eq!(code, 1);
    assert_eq!(
        written.stderr,
        "time=\"2026-08-01T10:00:00Z\" level=fatal msg=\"Argo CD server address unspecified\"\n"
    );
    let (written, code) = argocd(&["app", "list", "--logformat", "x"]);
    assert_eq!(code, 1);
    assert!(written.stderr.contains("Unknown log format 'x'"));
}

#[test]
fn cli_103_a_server_by_any_route_is_not_unspecified() {
    for (env, args) in [
        (&[("ARGOCD_SERVER", "cd.example.com")][..], &["app", "list"][..]),
        (&[("ARGOCD_OPTS", "--server cd.example.com")], &["app", "list"]),
        (&[], &["--server", "cd.example.com", "app", "list"]),
    ] {
        let (written, code) = execute("argocd", env, args);
        assert_eq!(code, 1);
        assert!(
            written.stderr.contains("Failed to establish connection to cd.example.com"),
            "{}",
            written.stderr
        );
    }
}
