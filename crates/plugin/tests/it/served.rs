//! The server of this program, asked by the client of this program.

use std::time::Duration;

use serde_json::json;
use tiphys_plugin::{Answer, PluginError, PluginOptions};
use tiphys_render::plugins::{PluginCall, PluginChoice, PluginQuestion};
use tiphys_wire::status::Code;

use crate::support::{Bench, call, is_empty, named, text};

/// A configuration whose `generate` is a script, with more members.
fn script(script: &str, more: &serde_json::Value) -> String {
    let mut spec = json!({"generate": {"command": ["sh", "-c", script]}});
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    spec.to_string()
}

const PRINT: &str = r#"cat <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: made}
data:
  app: "$ARGOCD_APP_NAME"
  own: "$SIDECAR"
  file: "$(cat values.txt) $(cat link) $(cat ../../shared/b.txt)"
  init: "$(cat made-by-init 2>/dev/null)"
  mode: "$(stat -c %a run.sh)"
  secret: "$GIT_CONFIG_VALUE_0"
END
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_135_init_and_generate_run_on_the_files_that_were_sent() {
    let bench = Bench::new();
    bench.serve(
        "plain",
        &script(PRINT, &json!({"init": {"command": ["sh", "-c", "echo yes > made-by-init"]}})),
    );
    let made = text(bench.answer(&named("plain")).await);
    let value: serde_json::Value = serde_json::from_str(made.trim_start_matches("---\n")).unwrap();
    let expected = json!({"app": "shop", "own": "own", "file": "from-a-file from-a-file shared",
        "init": "yes", "mode": "644", "secret": ""});
    assert_eq!(value["data"], expected);
    // RND-130: nothing is left.
    assert!(is_empty(&bench.work("plain")) && is_empty(&bench.folder.path().join("packed")));
    bench.serve("moded", &script(PRINT, &json!({"preserveFileMode": true, "version": "v2"})));
    assert!(text(bench.answer(&named("moded-v2")).await).contains("\"mode\":\"755\""));
    assert!(
        text(bench.answer(&named("moded")).await).starts_with("nobody: could not find cmp-server plugin")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_132_133_the_first_plugin_whose_discovery_matches_is_asked() {
    let bench = Bench::new();
    let with =
        |discover: &str| format!("{{generate: {{command: [echo, '{{kind: {discover}, apiVersion: v1}}']}}");
    // In the order of their names: this one has no discovery, and is never found by it.
    bench.serve("a", &(with("A") + "}"));
    bench.serve("b", &(with("B") + ", discover: {fileName: '*.tf'}}"));
    bench
        .serve("c", &(with("C") + ", discover: {find: {command: [sh, -c, 'test -f main.tf && echo yes']}}}"));
    let any = || call(PluginChoice::Any);
    assert_eq!(
        text(bench.answer(&any()).await),
        "nobody: could not find plugin supporting the given repository"
    );
    // A server that appears later is found without a restart.
    bench.serve("d", &(with("D") + ", discover: {find: {glob: '**/values.txt'}}}"));
    assert!(text(bench.answer(&any()).await).contains("\"D\""));
    bench.serve("b2", &(with("B2") + ", discover: {fileName: 'values.*'}}"));
    assert!(text(bench.answer(&any()).await).contains("\"B2\""));
    assert!(text(bench.answer(&call(PluginChoice::Perhaps { was_plugin: false })).await).contains("\"B2\""));
    // By name: discovery, where there is one, has to match as well.
    assert!(text(bench.answer(&named("a")).await).contains("\"A\""));
    let refused = "nobody: could not find cmp-server plugin with name \"b\" supporting the given repository";
    assert_eq!(text(bench.answer(&named("b")).await), refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_135_what_fails_says_which_command_and_no_path() {
    let bench = Bench::new();
    bench.serve(
        "init",
        "{init: {command: [sh, -c, 'echo at $PWD >&2; exit 3']}, generate: {command: [echo]}}",
    );
    let failed = bench.answer(&named("init")).await;
    assert!(matches!(&failed, Err(PluginError::Failed { code: Code::Unknown, .. })));
    let said = text(failed);
    let expected = "error: plugin \"init\": `sh -c echo at $PWD >&2; exit 3` failed exit status 3: at <path to cached source>/apps/a";
    assert_eq!(said, expected);
    bench.serve("none", "{generate: {command: [no-such-program]}}");
    assert!(
        text(bench.answer(&named("none")).await)
            .contains("`no-such-program` failed cannot start the program")
    );
    bench.serve("half", "{generate: {command: [echo, 'kind: [']}}");
    assert!(text(bench.answer(&named("half")).await).contains("what generate printed cannot be read"));
    bench.serve("unkind", "{generate: {command: [echo, 'a: b']}}");
    assert!(text(bench.answer(&named("unkind")).await).starts_with("error: "));
    assert!(is_empty(&bench.work("init")) && is_empty(&bench.work("half")));
}

/// F22, SEC-10: a plugin that hangs, ignores what it is asked and starts others is killed with all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_10_a_command_that_hangs_is_killed() {
    let bench =
        Bench::with(PluginOptions { timeout: Duration::from_millis(1_500), ..PluginOptions::default() });
    let marker = bench.folder.path().join("pids");
    let script = format!(
        "trap \"\" TERM; echo $$ > {0}; sleep 600 & echo $! >> {0}; while :; do sleep 1; done",
        marker.display()
    );
    bench.serve("hangs", &format!("{{generate: {{command: [sh, -c, '{script}']}}}}"));
    let error = bench.answer(&named("hangs")).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    // The server's own end comes soon after its caller's.
    let pids: Vec<String> = std::fs::read_to_string(&marker).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(pids.len(), 2);
    let runs = |pid: &String| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    while pids.iter().any(runs) || !is_empty(&bench.work("hangs")) {
        tokio::task::yield_now().await;
    }
}

/// SEC-07: a gigabyte is not taken, neither by the server from its command nor by the client from the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_07_output_without_end_is_not_taken() {
    let bench = Bench::new();
    bench.serve("endless", "{generate: {command: [cat, /dev/zero]}}");
    let failed = bench.answer(&named("endless")).await;
    assert!(matches!(&failed, Err(PluginError::Failed { code: Code::ResourceExhausted, .. })));
    assert!(text(failed).contains("the output has more than 1048576 bytes"));
    let small = Bench::with(PluginOptions { message_bytes_max: 1_000, ..PluginOptions::default() });
    small.serve(
        "large",
        &script(
            r#"echo "kind: A"; echo "apiVersion: v1"; echo "data: $(head -c 5000 /dev/zero | tr "\0" x)""#,
            &json!({}),
        ),
    );
    let failed = small.answer(&named("large")).await;
    assert_eq!(failed, Err(PluginError::TooLarge { plugin: "large".to_owned(), limit: 1_000 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_136_announcements_are_those_of_the_program_then_those_of_the_file() {
    let bench = Bench::new();
    bench.serve(
        "p",
        "{generate: {command: [echo]}, parameters: {static: [{name: fixed, required: true}], dynamic: {command: [sh, -c, 'echo \"[{\\\"name\\\": \\\"$ARGOCD_APP_NAME\\\", \\\"collectionType\\\": \\\"map\\\", \\\"map\\\": {\\\"a\\\": \\\"b\\\"}}]\"']}}}",
    );
    let asked = PluginCall { question: PluginQuestion::Parameters, ..named("p") };
    let found: serde_json::Value = serde_json::from_str(&text(bench.answer(&asked).await)).unwrap();
    let expected = json!([
        {"name": "shop", "collectionType": "map", "map": {"a": "b"}},
        {"name": "fixed", "required": true},
    ]);
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_137_credentials_go_to_plugins_that_want_them_and_into_no_message() {
    let bench = Bench::new();
    bench.serve("wants", &script(PRINT, &json!({"provideGitCreds": true})));
    assert!(text(bench.answer(&named("wants")).await).contains("Authorization: Basic c2VjcmV0"));
    bench.serve(
        "tells",
        "{generate: {command: [sh, -c, 'echo $GIT_CONFIG_VALUE_0 >&2; exit 1']}, provideGitCreds: true}",
    );
    let said = text(bench.answer(&named("tells")).await);
    assert!(said.ends_with("failed exit status 1: Authorization: Basic ******"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_138_only_the_root_of_a_question_is_sent() {
    let bench = Bench::new();
    bench.serve("p", &script("ls -d ../*; exit 1", &json!({})));
    let below = PluginCall { root: tiphys_render::TreePath::parse("apps").unwrap(), ..named("p") };
    let lists = r#"printf 'kind: A\napiVersion: v1\nlisted: %s\n' "$(echo ../*)""#;
    bench.serve("l", &script(lists, &json!({})));
    let narrow = PluginCall { choice: PluginChoice::Named("l".to_owned()), ..below };
    let listed = text(bench.answer(&narrow).await);
    assert!(listed.contains("\"listed\":\"../a\""), "{listed}");
    assert!(matches!(bench.answer(&named("p")).await, Err(PluginError::Failed { .. })));
    assert!(matches!(bench.answer(&named("l")).await, Ok(Answer::Given(_))));
}
