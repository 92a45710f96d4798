//! sprig 3.3: about two hundred functions (RND-199), by topic.
//!
//! Beside sprig itself this follows what it calls: Masterminds/goutils 1.1.1, huandu/xstrings 1.5, spf13/cast 1.7,
//! shopspring/decimal 1.4, dario.cat/mergo 1.0.1, mitchellh/copystructure 1.2, Masterminds/semver 3.5, and Go's
//! `strings`, `path`, `net/url`, `time`. Where Go panics, which template execution turns into an error, the error
//! has the panic's text.

mod cases;
mod convert;
mod crypto;
mod dates;
mod decimal;
pub(super) mod defaults;
mod dicts;
mod encoding;
mod lists;
mod merge;
mod numbers;
mod paths;
mod reflection;
mod regexes;
mod scrypt;
mod strings;
mod urls;
mod versions;
mod wrap;

use super::functions::Function;
pub(super) use strings::trim_space;

/// The tables, by topic.
pub(super) fn tables() -> [&'static [Function]; 14] {
    [
        cases::FUNCTIONS,
        crypto::FUNCTIONS,
        dates::FUNCTIONS,
        defaults::FUNCTIONS,
        dicts::FUNCTIONS,
        encoding::FUNCTIONS,
        lists::FUNCTIONS,
        numbers::FUNCTIONS,
        paths::FUNCTIONS,
        reflection::FUNCTIONS,
        regexes::FUNCTIONS,
        strings::FUNCTIONS,
        urls::FUNCTIONS,
        versions::FUNCTIONS,
    ]
}
