//! Children that start through the program itself.

use std::path::Path;
use std::time::Duration;

use tiphys_exec::{ExecError, Invocation, Limits, Program, Service, launch, run, start};

const LIMITS: Limits = Limits {
    memory_bytes: 512 << 20,
    address_bytes: Some(1 << 30),
    cpu: Duration::from_secs(7),
    file_bytes: 1 << 20,
    open_files: 50,
};

/// From now on this process starts children as the program does; it binds none of them from outside.
fn invocation(program: &str, arguments: &[&str]) -> Invocation {
    launch::launch_through(env!("CARGO_BIN_EXE_tiphys").into());
    Invocation {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: "/".into(),
        deadline: Duration::from_mins(1),
        grace: Duration::ZERO,
        stdout_bytes_max: 10_000,
        limits: LIMITS,
    }
}

/// Limits are set before a child does anything at all (SEC-10): what it reads of itself first shows them.
#[tokio::test]
async fn sec_10_a_child_is_bound_before_its_first_act() {
    let reads = invocation("cat", &["/proc/self/limits"]);
    let ended = [run(reads.clone()).await, start(&reads).unwrap().converse(b"").await];
    for output in ended {
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        for (name, expected) in [
            ("Max core file size", "0 0"),
            ("Max data size", "536870912 536870912"),
            ("Max address space", "1073741824 1073741824"),
            ("Max cpu time", "7 8"),
            ("Max file size", "1048576 1048576"),
            ("Max open files", "50 50"),
        ] {
            let values = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let numbers: Vec<&str> = values.split_whitespace().take(2).collect();
            assert_eq!(numbers.join(" "), expected, "{name}");
        }
    }
    // A message of three bytes, before anything was asked.
    let script = r"printf '\003\000\000\0000%d' $(ulimit -n); exec cat >/dev/null";
    let mut service = Service::start(&Program {
        path: Path::new("/bin/sh").into(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        limits: LIMITS,
        answer_bytes_max: 10,
    })
    .unwrap();
    service.ask(b"x".to_vec(), 1).unwrap();
    assert_eq!(service.answer(Duration::from_mins(1)).unwrap(), b"050");
}

/// That something stands between us and the program changes nothing else: its environment, arguments, status and
/// output, and that it cannot be started.
#[tokio::test]
async fn sty_113_the_launcher_is_not_seen() {
    let script = "echo $0-$1; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL=; pwd; echo bad >&2; exit 127";
    let output = run(invocation("sh", &["-c", script, "zero", "--one"])).await.unwrap();
    assert_eq!(output.code, Some(127));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "zero---one\nPATH=/usr/bin:/bin\n/\n");
    assert_eq!(output.stderr, "bad\n");
    for missing in ["no-such-program", "/no/such/program"] {
        let missing = invocation(missing, &[]);
        let answers = [run(missing.clone()).await, start(&missing).unwrap().converse(b"").await];
        for error in answers.map(Result::unwrap_err) {
            let ExecError::Start(error) = error else { panic!("{error}") };
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
    }
}
