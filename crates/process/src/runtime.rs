//! How a process of ours starts, and how it says that it could not.

use std::process::ExitCode;
use std::time::Duration;

use crate::program_pages;

/// How long threads that compute are waited for at the end: those that are told to stop need a moment.
const THREADS_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the process's one future, with threads and memory as a controller wants them.
pub fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    // Huge pages make the small allocations of a controller twice as large in memory as they are; a kernel
    // that cannot switch them off costs memory, nothing else.
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "transparent huge pages stay on");
    }
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(32)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}"), 20),
    };
    drop(runtime.spawn(program_pages::give_back()));
    let done = runtime.block_on(work);
    // What is computed on other threads is lost with the process anyway: nobody has to wait for it.
    runtime.shutdown_timeout(THREADS_TIMEOUT);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Errors of others tell their cause themselves: once is enough.
        Err(error) => fail(&tiphys_cluster::error_chain(error.as_ref()), 20),
    }
}

/// Begins the log on standard error.
pub fn init_log(level: &str, format: &str) {
    let filter = tracing_subscriber::EnvFilter::new(format!(
        "warn,kube_client=error,tiphys={level},tiphys_control={level},tiphys_cluster={level},\
         tiphys_source={level},tiphys_engine={level}"
    ));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber cannot be: this runs once.
    if format == "json" {
        drop(builder.json().flatten_event(true).try_init());
    } else {
        use std::io::IsTerminal as _;
        use tracing_subscriber::field::MakeExt as _;
        // A text from outside neither forges a line nor commands the terminal.
        let fields = tracing_subscriber::fmt::format::debug_fn(|writer, field, value| {
            let text = format!("{value:?}");
            let text = tiphys_api::printable::line(&text);
            if field.name() == "message" {
                write!(writer, "{text}")
            } else {
                write!(writer, "{field}={text}")
            }
        });
        let ansi = std::io::stderr().is_terminal();
        drop(builder.fmt_fields(fields.delimited(" ")).with_ansi(ansi).with_target(false).try_init());
    }
}

/// Says why the process does not start or ends, and gives the code to end with.
#[expect(clippy::print_stderr, reason = "the one place that reports a failed start")]
pub fn fail(text: &str, code: u8) -> ExitCode {
    eprintln!("error: {text}");
    ExitCode::from(code)
}
