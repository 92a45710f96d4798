//! What the command line says (CLI-1000, CLI-1003).

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::scenario::Scenario;

/// Port that is tried first when none is given.
pub(crate) const PORT: u16 = 8080;
/// Most replicas that `scale` asks for; the workloads are simulated one by one.
const REPLICAS_MAX: u32 = 50;
/// Time runs between one hundredth and a thousand times as fast as outside.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.01..=1000.0;
/// Scenarios of the specification that need parts which are not there yet.
const LATER: [&str; 2] = ["multi-tenant", "scale"];

/// A working system in one process: a Kubernetes API, a Git server and the controller; needs no cluster.
#[derive(Parser, Debug)]
#[command(name = "tiphys demo", disable_version_flag = true, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_value_name = "VERB")]
#[command(subcommand_help_heading = "Verbs for a running demo")]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) start: Start,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// How a demo starts.
#[derive(Args, Debug)]
pub(crate) struct Start {
    /// Port of the Git server and the endpoints; without it 8080 or the next one that is free
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Address of these; beyond loopback whoever reaches it may push
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) address: IpAddr,
    /// Directory that keeps everything between runs; without it nothing is left behind
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Start anew in the directory of --data
    #[arg(long, requires = "data")]
    pub(crate) reset: bool,
    /// What to show: guestbook (the default), waves, drift, failures or progressive
    #[arg(long, value_name = "NAME", value_parser = scenario)]
    pub(crate) scenario: Option<Scenario>,
    /// Number of applications of the scenario `scale`
    #[arg(long, value_name = "N", hide = true, value_parser = no_apps)]
    pub(crate) apps: Option<u32>,
    /// Do not open a browser; this version has nothing to open
    #[arg(long, hide = true)]
    pub(crate) no_browser: bool,
    /// How much faster than outside time runs for simulated workloads
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    pub(crate) speed: f64,
    /// Of a thousand requests to the embedded API how many go wrong, once the demo is ready
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1000))]
    pub(crate) faults: u16,
    /// End by itself: `ready`, or a time after that, for example 30s
    #[arg(long, value_name = "ready|DURATION", value_parser = end)]
    pub(crate) exit_after: Option<End>,
    /// Level of the log on standard error
    #[arg(long, default_value = "warn", value_parser = ["debug", "info", "warn", "error"])]
    pub(crate) loglevel: String,
}

/// When a demo ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End(pub(crate) Duration);

/// What is done with a running demo.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Push a commit that breaks an application
    Break(Manipulate),
    /// Push a commit that takes the break back, or sync what differs from Git
    Fix(Manipulate),
    /// Change live objects of an application behind Git's back
    Drift(Manipulate),
    /// Push a commit that changes the number of replicas
    Scale {
        #[command(flatten)]
        manipulate: Manipulate,
        /// How many; without it one more than now
        #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(REPLICAS_MAX)))]
        replicas: Option<u32>,
    },
}

/// Which application of which demo is meant.
#[derive(Args, Debug)]
pub(crate) struct Manipulate {
    /// Name of the application
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    /// Directory of the demo, where several run or --data was given
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

fn scenario(text: &str) -> Result<Scenario, String> {
    let names = Scenario::ALL.map(Scenario::name).join(", ");
    match Scenario::named(text) {
        Some(scenario) => Ok(scenario),
        None if LATER.contains(&text) => Err(format!("this version does not have it yet; there are {names}")),
        None => Err(format!("there are {names}")),
    }
}

fn no_apps(_text: &str) -> Result<u32, String> {
    let names = Scenario::ALL.map(Scenario::name).join(", ");
    Err(format!("it belongs to the scenario scale, which this version does not have yet; there are {names}"))
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if SPEEDS.contains(&speed) => Ok(speed),
        _ => Err(format!("a number between {} and {} is needed", SPEEDS.start(), SPEEDS.end())),
    }
}

fn end(text: &str) -> Result<End, String> {
    if text == "ready" {
        return Ok(End(Duration::ZERO));
    }
    let parsed = tiphys_go::duration::parse(text).ok().and_then(|duration| Duration::try_from(duration).ok());
    parsed.map(End).ok_or_else(|| "`ready` or a duration such as 30s or 5m is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Demo, String> {
        Demo::try_parse_from(std::iter::once("tiphys demo").chain(words.iter().copied()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn cli_1000_defaults_are_loopback_and_real_time() {
        let start = parse(&[]).unwrap().start;
        assert!(start.address.is_loopback());
        assert_eq!((start.port, start.speed, start.exit_after), (None, 1.0, None));
        assert_eq!(start.scenario, None);
    }

    #[test]
    fn cli_1000_what_is_not_there_yet_is_refused_with_what_there_is() {
        for words in [["--scenario", "scale"], ["--scenario", "nonsense"], ["--apps", "12"]] {
            let text = parse(&words).unwrap_err();
            assert!(text.contains("guestbook, waves, drift, failures, progressive"), "{text}");
        }
        for words in [&["--reset"][..], &["--speed", "0"], &["--speed", "NaN"], &["--port", "0"]] {
            parse(words).unwrap_err();
        }
    }

    #[test]
    fn cli_1000_an_end_is_ready_or_a_duration() {
        assert_eq!(end("ready"), Ok(End(Duration::ZERO)));
        assert_eq!(end("1m30s"), Ok(End(Duration::from_secs(90))));
        for wrong in ["", "soon", "-1s", "10"] {
            end(wrong).unwrap_err();
        }
    }

    #[test]
    fn cli_1003_verbs_name_an_application() {
        let verb = parse(&["scale", "guestbook", "5", "--data", "d"]).unwrap().verb;
        assert!(matches!(verb, Some(Verb::Scale { replicas: Some(5), .. })));
        parse(&["break"]).unwrap_err();
        parse(&["scale", "guestbook", "51"]).unwrap_err();
    }
}
