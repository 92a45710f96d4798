//! Does what Go's libraries do, bit for bit: YAML, JSON, globs, versions, cron, durations, regexps.
//!
//! Manifests, charts and policies are written in small languages whose exact behaviour comes from Go
//! libraries. Each module follows one of them, names it in its first lines, and is held to rows that were
//! computed with the original. Everything here is pure: no clock, no files, no environment; zone data is
//! compiled in. Whatever the input, nothing panics and every search is bounded.
//!
//! - [`yaml`], [`json`]: reading and writing documents.
//! - [`nesting`], [`memory`], [`steps`], [`live`]: how deep they may be, and how much they may take.
//! - [`glob`], [`path_match`], [`doublestar`], [`regexp`]: matching text; [`path`]: cleaning paths.
//! - [`semver`], [`duration`], [`time`], [`cron`]: versions and time.
//! - [`shlex`], [`fasttemplate`], [`jsonpath`]: words of a command line, the simplest of the template languages,
//!   and what `kubectl -o jsonpath` takes.
//! - [`strvals`]: Helm's `--set`; [`expr`]: conditions of notifications and links.
//! - [`template`]: the language of charts, application sets and notifications, with all of its functions.

pub mod cron;
pub mod doublestar;
pub mod duration;
pub mod expr;
pub mod fasttemplate;
pub mod fnv;
pub mod glob;
pub mod json;
pub mod jsonpath;
pub mod live;
pub mod memory;
pub mod nesting;
mod number;
pub mod path;
pub mod path_match;
pub mod regexp;
pub mod semver;
pub mod shlex;
pub mod steps;
pub mod strvals;
pub mod template;
pub mod time;
mod unicode;
pub mod yaml;
