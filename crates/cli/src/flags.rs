//! Command lines in the dialect of pflag, which scripts written for Argo CD rely on (CLI-5, DEP-64).
//!
//! A command is described by tables of [`Flag`]s; [`parse`] reads arguments by them into [`Parsed`]. The tables
//! are static, so a command costs nothing before it is chosen (DEP-65). What pflag does differently from other
//! parsers: a value may begin with a hyphen, a boolean takes a value only behind `=`, the last scalar wins, long
//! names are never abbreviated, and flags may follow operands.
//!
//! Deviation (DEP-64): not clap, because the texts of CLI-5, `-xyz` clusters and the two list kinds would each
//! need a translation that is longer than this reader.

use std::collections::BTreeMap;

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing, or `=true`/`=false`.
    Bool,
    /// A text; the last one counts.
    Text,
    /// Texts, one per occurrence; commas are not split.
    Texts,
    /// Texts, split at commas like CSV.
    Csv,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// Signed integers, split at commas.
    Ints,
    /// A Go duration.
    Duration,
}

impl Kind {
    /// The word that stands for a value in help; empty where there is none.
    pub(crate) fn takes(self) -> &'static str {
        match self {
            Self::Bool => "",
            Self::Text => "string",
            Self::Texts => "stringArray",
            Self::Csv => "strings",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Ints => "ints",
            Self::Duration => "duration",
        }
    }
}

/// What help says of the value that a flag has without being given; nothing of none.
pub(crate) fn shown_default(flag: &Flag) -> String {
    match (flag.kind, flag.default) {
        (_, "" | "0" | "false") => String::new(),
        (Kind::Text, text) => format!(" (default \"{text}\")"),
        (_, text) => format!(" (default {text})"),
    }
}

/// One flag of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
}

/// A flag without a short form.
pub(crate) const fn flag(long: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag { long, short: None, kind, default, help }
}

impl Flag {
    /// The same with a short form.
    pub(crate) const fn or(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    /// How pflag names it in errors.
    fn spelled(&self) -> String {
        match self.short {
            Some(short) => format!("-{short}, --{}", self.long),
            None => format!("--{}", self.long),
        }
    }
}

/// What came of the arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    given: BTreeMap<&'static str, Vec<String>>,
    defaults: BTreeMap<&'static str, &'static str>,
    /// Operands, in order.
    pub(crate) operands: Vec<String>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagError {
    /// Help was asked for.
    #[error("pflag: help requested")]
    Help,
    /// The arguments are wrong; the text is pflag's.
    #[error("{0}")]
    Usage(String),
}

impl Parsed {
    /// Whether the flag was given, on the command line or by `ARGOCD_OPTS`.
    pub(crate) fn is_set(&self, long: &str) -> bool {
        self.given.contains_key(long)
    }

    /// The text given last, or the default.
    pub(crate) fn text(&self, long: &str) -> &str {
        let given = self.given.get(long).and_then(|values| values.last()).map(String::as_str);
        given.or_else(|| self.defaults.get(long).copied()).unwrap_or("")
    }

    /// All texts given.
    pub(crate) fn texts(&self, long: &str) -> &[String] {
        self.given.get(long).map_or(&[], Vec::as_slice)
    }

    /// Whether a boolean is on.
    pub(crate) fn is_on(&self, long: &str) -> bool {
        parse_bool(self.text(long)).unwrap_or(false)
    }

    /// A signed integer.
    pub(crate) fn int(&self, long: &str) -> i64 {
        self.text(long).parse().unwrap_or(0)
    }

    /// An unsigned integer.
    pub(crate) fn uint(&self, long: &str) -> u64 {
        self.text(long).parse().unwrap_or(0)
    }

    /// All integers given.
    pub(crate) fn ints(&self, long: &str) -> Vec<i64> {
        self.texts(long).iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Takes a value for a flag that was not given.
    pub(crate) fn supply(&mut self, long: &'static str, values: Vec<String>) {
        self.given.entry(long).or_insert(values);
    }
}

/// Reads arguments by tables.
pub(crate) fn parse(args: &[String], tables: &[&'static [Flag]]) -> Result<Parsed, FlagError> {
    let flags = || tables.iter().flat_map(|table| table.iter());
    let mut parsed =
        Parsed { defaults: flags().map(|flag| (flag.long, flag.default)).collect(), ..Parsed::default() };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            parsed.operands.extend(rest.cloned());
            break;
        }
        if let Some(long) = arg.strip_prefix("--") {
            parse_long(arg, long, &mut rest, flags, &mut parsed)?;
        } else if arg.len() > 1 && arg.starts_with('-') {
            parse_shorts(arg, &mut rest, flags, &mut parsed)?;
        } else {
            parsed.operands.push(arg.clone());
        }
    }
    Ok(parsed)
}

/// Takes the first operand, the name of a sub-command, out of the arguments. `tables` tells which flags before
/// it take a value; a long flag nobody knows is taken to have one, as cobra does.
pub(crate) fn take_word(args: &mut Vec<String>, tables: &[&'static [Flag]]) -> Option<String> {
    word_at(args, tables).map(|at| args.remove(at))
}

/// Where the first operand is.
pub(crate) fn word_at(args: &[String], tables: &[&'static [Flag]]) -> Option<usize> {
    let takes_none = |matches: &dyn Fn(&Flag) -> bool| {
        tables.iter().flat_map(|table| table.iter()).any(|flag| flag.kind == Kind::Bool && matches(flag))
    };
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        if arg == "--" {
            return None;
        }
        if let Some(long) = arg.strip_prefix("--") {
            let bare = !long.contains('=') && long != "help" && !takes_none(&|flag| flag.long == long);
            at += if bare { 2 } else { 1 };
        } else if arg.starts_with('-') && arg.len() > 1 {
            let short = arg.chars().nth(1);
            let bare = arg.len() == 2 && short != Some('h') && !takes_none(&|flag| flag.short == short);
            at += if bare { 2 } else { 1 };
        } else {
            return Some(at);
        }
    }
    None
}

fn parse_long<'a, I: Iterator<Item = &'static Flag>>(
    arg: &str,
    long: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    flags: impl Fn() -> I,
    parsed: &mut Parsed,
) -> Result<(), FlagError> {
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(FlagError::Usage(format!("bad flag syntax: {arg}")));
    }
    let Some(flag) = flags().find(|flag| flag.long == name) else {
        return Err(match name {
            "help" => FlagError::Help,
            _ => FlagError::Usage(format!("unknown flag: --{name}")),
        });
    };
    let value = match value {
        Some(value) => value,
        None if flag.kind == Kind::Bool => "true",
        None => match rest.next() {
            Some(next) => next,
            None => return Err(FlagError::Usage(format!("flag needs an argument: --{name}"))),
        },
    };
    store(flag, value, parsed)
}

fn parse_shorts<'a, I: Iterator<Item = &'static Flag>>(
    arg: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    flags: impl Fn() -> I,
    parsed: &mut Parsed,
) -> Result<(), FlagError> {
    let mut letters = arg.strip_prefix('-').unwrap_or(arg);
    while let Some(short) = letters.chars().next() {
        let cluster = letters;
        letters = letters.strip_prefix(short).unwrap_or("");
        let Some(flag) = flags().find(|flag| flag.short == Some(short)) else {
            return Err(match short {
                'h' => FlagError::Help,
                _ => FlagError::Usage(format!("unknown shorthand flag: '{short}' in -{cluster}")),
            });
        };
        if let Some(value) = letters.strip_prefix('=') {
            return store(flag, value, parsed);
        }
        if flag.kind == Kind::Bool {
            store(flag, "true", parsed)?;
        } else if !letters.is_empty() {
            return store(flag, letters, parsed);
        } else if let Some(next) = rest.next() {
            return store(flag, next, parsed);
        } else {
            return Err(FlagError::Usage(format!("flag needs an argument: '{short}' in -{cluster}")));
        }
    }
    Ok(())
}

fn store(flag: &'static Flag, value: &str, parsed: &mut Parsed) -> Result<(), FlagError> {
    let values = read_values(flag.kind, value).map_err(|why| {
        FlagError::Usage(format!("invalid argument \"{value}\" for \"{}\" flag: {why}", flag.spelled()))
    })?;
    let given = parsed.given.entry(flag.long).or_default();
    match flag.kind {
        Kind::Texts | Kind::Csv | Kind::Ints => given.extend(values),
        Kind::Bool | Kind::Text | Kind::Int | Kind::Uint | Kind::Duration => *given = values,
    }
    Ok(())
}

/// Checks a value, in the words of Go's `strconv`.
fn read_values(kind: Kind, value: &str) -> Result<Vec<String>, String> {
    let number = |function: &str, error: &std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = if matches!(error.kind(), PosOverflow | NegOverflow) {
            "value out of range"
        } else {
            "invalid syntax"
        };
        format!("strconv.{function}: parsing \"{value}\": {why}")
    };
    match kind {
        Kind::Bool => match parse_bool(value) {
            Some(on) => Ok(vec![on.to_string()]),
            None => Err(format!("strconv.ParseBool: parsing \"{value}\": invalid syntax")),
        },
        Kind::Text | Kind::Texts => Ok(vec![value.to_owned()]),
        Kind::Csv => Ok(split_csv(value)),
        Kind::Int => value.parse::<i64>().map(|n| vec![n.to_string()]).map_err(|e| number("ParseInt", &e)),
        Kind::Uint => value.parse::<u64>().map(|n| vec![n.to_string()]).map_err(|e| number("ParseUint", &e)),
        Kind::Ints => value
            .split(',')
            .map(|item| item.trim().parse::<i64>().map(|n| n.to_string()))
            .collect::<Result<_, _>>()
            .map_err(|e| number("Atoi", &e)),
        Kind::Duration => match tiphys_go::duration::parse(value) {
            Ok(_) => Ok(vec![value.to_owned()]),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Splits one CSV record: a quoted field may hold commas, a doubled quote stands for one.
pub(crate) fn split_csv(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let at_start = fields.last().is_some_and(String::is_empty);
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                if let Some(field) = fields.last_mut() {
                    field.push('"');
                }
            }
            '"' if quoted || at_start => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => {
                if let Some(field) = fields.last_mut() {
                    field.push(other);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Flag] = &[
        flag("output", Kind::Text, "wide", "").or('o'),
        flag("prune", Kind::Bool, "false", ""),
        flag("yes", Kind::Bool, "false", "").or('y'),
        flag("parameter", Kind::Texts, "", "").or('p'),
        flag("header", Kind::Csv, "", "").or('H'),
        flag("timeout", Kind::Uint, "0", ""),
        flag("retry", Kind::Int, "0", ""),
        flag("wait", Kind::Duration, "5s", ""),
    ];

    fn read(args: &[&str]) -> Result<Parsed, FlagError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        parse(&args, &[TABLE])
    }

    fn text_of(args: &[&str]) -> String {
        read(args).unwrap_err().to_string()
    }

    #[test]
    fn dep_64_values_are_found_as_pflag_finds_them() {
        for args in [&["-o=json"][..], &["-ojson"], &["-o", "json"], &["--output", "json"], &["-yojson"]] {
            assert_eq!(read(args).unwrap().text("output"), "json", "{args:?}");
        }
        let parsed = read(&["--prune", "app", "-p", "-x=y", "--parameter", "a,b"]).unwrap();
        assert_eq!(parsed.operands, ["app"]);
        assert!(parsed.is_on("prune"));
        assert_eq!(parsed.texts("parameter"), ["-x=y", "a,b"]);
        assert!(!read(&["--prune", "--prune=false"]).unwrap().is_on("prune"), "the last scalar wins");
        assert_eq!(
            read(&["-H", "a:1,\"b:2,3\"", "-H", "c:4"]).unwrap().texts("header"),
            ["a:1", "b:2,3", "c:4"]
        );
        assert_eq!(read(&["a", "--", "--prune"]).unwrap().operands, ["a", "--prune"]);
        assert_eq!(read(&["-"]).unwrap().operands, ["-"]);
        assert_eq!(read(&[]).unwrap().text("output"), "wide");
    }

    #[test]
    fn cli_5_parser_errors_have_the_known_texts() {
        assert_eq!(text_of(&["--pru"]), "unknown flag: --pru");
        assert_eq!(text_of(&["-yx"]), "unknown shorthand flag: 'x' in -x");
        assert_eq!(text_of(&["-xy"]), "unknown shorthand flag: 'x' in -xy");
        assert_eq!(text_of(&["--output"]), "flag needs an argument: --output");
        assert_eq!(text_of(&["-o"]), "flag needs an argument: 'o' in -o");
        assert_eq!(
            text_of(&["--prune=a"]),
            "invalid argument \"a\" for \"--prune\" flag: strconv.ParseBool: parsing \"a\": invalid syntax"
        );
        assert_eq!(
            text_of(&["--timeout", "-1"]),
            "invalid argument \"-1\" for \"--timeout\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax"
        );
        assert_eq!(
            text_of(&["--wait", "5"]),
            "invalid argument \"5\" for \"--wait\" flag: time: invalid duration \"5\""
        );
        assert_eq!(read(&["--help"]).unwrap_err(), FlagError::Help);
        assert_eq!(read(&["-yh"]).unwrap_err(), FlagError::Help);
    }

    #[test]
    fn cli_2_the_command_is_found_behind_flags() {
        let mut args: Vec<String> =
            ["--output", "x", "-y", "--prune", "app", "list"].iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(take_word(&mut args, &[TABLE]).as_deref(), Some("app"));
        assert_eq!(args, ["--output", "x", "-y", "--prune", "list"]);
        assert_eq!(take_word(&mut vec!["--help".to_owned()], &[TABLE]), None);
    }
}
