//! `app diff` (CLI-500..504), and how one difference is shown (CLI-501, CLI-506).

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;
use tiphys_source::exec::{self, ExecError, Invocation};

use crate::app::differences::differences;
use crate::app::{Ended, NAMESPACE, OK, Session, Work};
use crate::core::{Difference, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{Format, print};
use crate::terminal::Terminal;

/// Flags of `diff`.
pub(super) const FLAGS: &[Flag] = &[
    flag("refresh", Kind::Bool, "false", "Compare again first"),
    flag("hard-refresh", Kind::Bool, "false", "Compare again first, without caches"),
    flag("exit-code", Kind::Bool, "true", "Tell a difference by the exit code"),
    flag("diff-exit-code", Kind::Int, "1", "Exit code of a difference"),
    flag("local", Kind::Text, "", "Compare with a local directory"),
    flag("local-repo-root", Kind::Text, "/", "Root of the repository of the local directory"),
    flag(
        "local-include",
        Kind::Texts,
        "",
        "Pattern of files to send with --server-side-generate; *.yaml, *.yml and *.json without one",
    ),
    flag("server-side-generate", Kind::Bool, "false", "Have the server render the local directory"),
    flag("revision", Kind::Text, "", "Compare with a revision"),
    flag("revisions", Kind::Texts, "", "Revision of the source at the same position or name"),
    flag("source-positions", Kind::Ints, "", "Position of a source, from 1"),
    flag("source-names", Kind::Texts, "", "Name of a source"),
    flag("server-side-diff", Kind::Bool, "false", "Accepted; differences are computed here"),
    flag("server-side-diff-concurrency", Kind::Int, "-1", "Accepted; differences are computed here"),
    flag("server-side-diff-max-batch-kb", Kind::Int, "250", "Accepted; differences are computed here"),
    flag(
        "ignore-normalizer-jq-execution-timeout",
        Kind::Duration,
        "1s",
        "Accepted; expressions are bounded by steps",
    ),
    NAMESPACE,
];

/// Time for the differ of one object.
const DIFF_TIMEOUT: Duration = Duration::from_mins(2);
/// Time between asking the differ to end and killing it.
const DIFF_GRACE: Duration = Duration::from_secs(2);
/// Bytes of one difference.
const DIFF_BYTES_MAX: usize = 64 << 20;

/// `app diff`.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    if flags.is_set("server-side-diff-concurrency") && flags.int("server-side-diff-concurrency") == 0 {
        return Err(Failure::generic(
            "invalid value for --server-side-diff-concurrency: 0 is not allowed, use -1 for no limit",
        ));
    }
    if flags.is_on("server-side-diff") && flags.is_set("local") && !flags.is_on("server-side-generate") {
        return Err(Failure::fatal("--server-side-diff with --local requires --server-side-generate."));
    }
    if flags.is_on("server-side-diff") {
        session.warn("server-side diff is not available here; differences are computed by the client");
    }
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let hard = flags.is_on("hard-refresh");
    let stored = if hard || flags.is_on("refresh") {
        core.refresh(&name, hard).await?
    } else {
        core.application(&name).await?
    };
    let is_local = flags.is_set("local");
    let world = World::load(&core).await?;
    let work = Work { session, core: &core, world: &world };
    let differences = Box::pin(differences(work, &stored)).await?;
    let mut differs = false;
    for difference in differences {
        let key = &difference.key;
        if is_local && key.group.is_empty() && key.kind == "Secret" {
            // Masks of local and live values cannot be compared with each other (CLI-502).
            session.warn(&format!(
                "Secret {}/{} is not supported in local diff and will be ignored",
                key.namespace, key.name
            ));
            continue;
        }
        differs = true;
        show(session.terminal, &difference).await?;
    }
    if differs && flags.is_on("exit-code") {
        let code = u8::try_from(flags.int("diff-exit-code").rem_euclid(256)).unwrap_or(1);
        return Ok(Ended::Code(code));
    }
    Ok(OK)
}

/// Prints one difference.
pub(crate) async fn show(terminal: &Terminal, difference: &Difference) -> Result<(), Failure> {
    let key = &difference.key;
    terminal.print(&format!("\n===== {}/{} {}/{} ======\n", key.group, key.kind, key.namespace, key.name));
    let sides = (&difference.live, &difference.target);
    terminal.print(&text(terminal, &key.name, sides).await?);
    Ok(())
}

/// How two states of an object differ, as the chosen differ says it.
pub(crate) async fn text(
    terminal: &Terminal,
    name: &str,
    (live, target): (&Value, &Value),
) -> Result<String, Failure> {
    let (live, target) = (document(live)?, document(target)?);
    Ok(match external(terminal, name, &live, &target).await? {
        Some(text) => text,
        None => unified(name, &live, &target),
    })
}

/// The YAML of one side; nothing for a missing one.
fn document(side: &Value) -> Result<String, Failure> {
    if side.is_null() { Ok(String::new()) } else { print(side, Format::Yaml) }
}

/// The output of the differ; `None` when the default one is not installed (CLI-506).
async fn external(
    terminal: &Terminal,
    name: &str,
    live: &str,
    target: &str,
) -> Result<Option<String>, Failure> {
    let configured = terminal.variable("KUBECTL_EXTERNAL_DIFF");
    let words = tiphys_go::shlex::split(configured)
        .map_err(|error| Failure::generic(format!("KUBECTL_EXTERNAL_DIFF: {error}")))?;
    let (program, arguments) = match words.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => ("diff".to_owned(), Vec::new()),
    };
    let failed = |error: &std::io::Error| Failure::generic(format!("cannot write files to compare: {error}"));
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    // Object names hold no separators where Kubernetes gave them out; others are kept inside the folder.
    let file_name = name.replace(['/', '\\'], "_");
    let live_path = folder.path().join(format!("{file_name}-live.yaml"));
    let target_path = folder.path().join(&file_name);
    std::fs::write(&live_path, live).map_err(|error| failed(&error))?;
    std::fs::write(&target_path, target).map_err(|error| failed(&error))?;
    let mut all: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
    all.extend([live_path.into_os_string(), target_path.into_os_string()]);
    let invocation = Invocation {
        program: program.clone().into(),
        arguments: all,
        environment: terminal.env.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        directory: folder.path().to_owned(),
        deadline: DIFF_TIMEOUT,
        grace: DIFF_GRACE,
        stdout_bytes_max: DIFF_BYTES_MAX,
        limits: exec::Limits::default(),
    };
    match exec::run(invocation).await {
        Ok(output) => {
            terminal.warn(&output.stderr);
            Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
        }
        Err(ExecError::Start(_)) if configured.is_empty() => Ok(None),
        Err(error) => Err(Failure::generic(format!("{program}: {}", tiphys_cluster::error_chain(&error)))),
    }
}

/// The built-in differ.
fn unified(name: &str, live: &str, target: &str) -> String {
    use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
    let input = InternedInput::new(live, target);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let printer = BasicLineDiffPrinter(&input.interner);
    let body = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input);
    format!("--- {name}-live.yaml\n+++ {name}\n{body}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tiphys_object::ResourceKey;

    fn difference() -> Difference {
        Difference {
            key: ResourceKey::new("", "Service", "default", "web"),
            live: json!({"a": 1, "b": 1}),
            target: json!({"a": 2, "b": 1}),
        }
    }

    async fn shown(env: &[(&str, &str)], difference: &Difference) -> String {
        let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
        let mut env = env.to_vec();
        env.push(("PATH", &path));
        let terminal = Terminal::memory("argocd", &env);
        show(&terminal, difference).await.unwrap();
        terminal.written().stdout
    }

    #[tokio::test]
    async fn cli_501_the_external_differ_gets_live_first() {
        let text = shown(
            &[("KUBECTL_EXTERNAL_DIFF", "sh -c 'cat \"$0\"; echo to; cat \"$1\"; basename \"$0\"'")],
            &difference(),
        )
        .await;
        assert_eq!(text, "\n===== /Service default/web ======\na: 1\nb: 1\nto\na: 2\nb: 1\nweb-live.yaml\n");
    }

    #[tokio::test]
    async fn cli_501_a_missing_side_is_empty() {
        let difference = Difference { live: Value::Null, ..difference() };
        let text = shown(&[("KUBECTL_EXTERNAL_DIFF", "wc -c")], &difference).await;
        assert!(text.contains("0 /"), "{text}");
    }

    #[test]
    fn cli_506_the_built_in_differ_is_unified() {
        let text = unified("web", "a: 1\nb: 1\n", "a: 2\nb: 1\n");
        assert_eq!(text, "--- web-live.yaml\n+++ web\n@@ -1,2 +1,2 @@\n-a: 1\n+a: 2\n b: 1\n");
    }
}
