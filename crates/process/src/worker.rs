//! `tiphys worker`: runs users' jq expressions, Lua scripts and Jsonnet for the controller that started it (ENG-69,
//! ENG-131, RND-78).
//!
//! Not for people. It was bound to its limits before it began. The controller asks over standard input, and kills it
//! when an answer takes too long; nothing here has to be given back.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Pid;
use tiphys_control::{Interpreters, Surroundings};
use tiphys_engine::scripts::{Runner, wire};
use tiphys_exec::frame;
use tiphys_render::jsonnet::wire as jsonnet;
use tiphys_source::Clock;

/// This very program, also when its file is replaced while it runs.
pub const PROGRAM: &str = "/proc/self/exe";
/// Bytes of one question: an object, and a few programs.
const QUESTION_BYTES_MAX: usize = 64 << 20;

/// How often a worker looks whether who started it is still there.
const PARENT_LOOK: Duration = Duration::from_secs(1);

/// Answers until there are no more questions, or until the process that `args` names is not its parent any more.
pub fn run(args: &[OsString]) -> ExitCode {
    let parent = args.first().and_then(|text| text.to_str()?.parse().ok());
    parent.and_then(Pid::from_raw).into_iter().for_each(end_with);
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    // The controller that went away, or kills, needs no words.
    while let Ok(Some(question)) = frame::read(&mut input, QUESTION_BYTES_MAX) {
        if question.first() == Some(&jsonnet::MARK) {
            let say = &mut |message: Vec<u8>| frame::write(&mut output, &message).is_ok();
            let hear = &mut || frame::read(&mut input, QUESTION_BYTES_MAX).ok().flatten();
            jsonnet::answer(&question, say, hear);
            continue;
        }
        wire::answer(&question, |answer| frame::write(&mut output, &answer).is_ok());
    }
    ExitCode::SUCCESS
}

/// Ends this process soon after its parent. What computes reads no input, and would go on to its limits for nobody.
fn end_with(parent: Pid) {
    let watch = move || {
        while rustix::process::getppid() == Some(parent) {
            std::thread::sleep(PARENT_LOOK);
        }
        std::process::exit(0)
    };
    // Without the thread its limits end it.
    drop(std::thread::Builder::new().name("parent".to_owned()).stack_size(64 << 10).spawn(watch));
}

/// Runs programs of an owner in children of this very program, which start with the first program.
pub fn scripts(owner: &str, jq_deadline: Duration) -> Runner {
    static CHILDREN: OnceLock<Interpreters> = OnceLock::new();
    let children = || Interpreters::children(PathBuf::from(PROGRAM), &Clock::real());
    CHILDREN.get_or_init(children).runner(owner, jq_deadline)
}

/// The machine, with children of this very program.
pub fn surroundings() -> Surroundings {
    Surroundings::of_machine(PathBuf::from(PROGRAM))
}
