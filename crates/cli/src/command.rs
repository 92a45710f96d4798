//! Commands as data: names, operands, flags and help (CLI-2..6).

use std::fmt::Write as _;

use crate::flags::{Flag, Parsed, shown_default};
use crate::session::Group;

/// One command of a group.
#[derive(Debug)]
pub(crate) struct Command<V: 'static> {
    pub(crate) name: &'static str,
    /// Operands as the usage line shows them.
    pub(crate) usage: &'static str,
    pub(crate) about: &'static str,
    pub(crate) flags: &'static [&'static [Flag]],
    /// Fewest and most operands; another number prints the help.
    pub(crate) operands: (usize, usize),
    /// Exit code after a wrong number of operands.
    pub(crate) usage_code: u8,
    /// Flags that must be given, sorted.
    pub(crate) required: &'static [&'static str],
    pub(crate) verb: V,
}

impl<V> Command<V> {
    /// A command without required flags.
    pub(crate) const fn new(
        verb: V,
        (name, usage): (&'static str, &'static str),
        about: &'static str,
        flags: &'static [&'static [Flag]],
        operands: (usize, usize),
    ) -> Self
    where
        V: Copy,
    {
        Self { name, usage, about, flags, operands, usage_code: 1, required: &[], verb }
    }

    /// What the parser says when flags that must be given are not (CLI-5).
    pub(crate) fn missing_flags(&self, parsed: &Parsed) -> Option<String> {
        let missing: Vec<String> = self
            .required
            .iter()
            .filter(|name| !parsed.is_set(name))
            .map(|name| format!("\"{name}\""))
            .collect();
        (!missing.is_empty()).then(|| format!("required flag(s) {} not set", missing.join(", ")))
    }
}

/// Help of one command.
pub(crate) fn command_help<V>(program: &str, group: &str, command: &Command<V>, global: &[Flag]) -> String {
    let name = command.name;
    let usage = if command.usage.is_empty() { String::new() } else { format!(" {}", command.usage) };
    let words = if group.is_empty() { name.to_owned() } else { format!("{group} {name}") };
    let mut out = format!("{}\n\nUsage:\n  {program} {words}{usage} [flags]\n\nFlags:\n", command.about);
    let own: Vec<&Flag> = command.flags.iter().flat_map(|table| table.iter()).collect();
    out.push_str(&flag_lines(&own));
    out.push_str("\nGlobal Flags:\n");
    out.push_str(&flag_lines(&global.iter().collect::<Vec<_>>()));
    out
}

/// Help of a group.
pub(crate) fn group_help<V>(program: &str, group: &Group<V>) -> String {
    let Group { name, about, commands, groups, .. } = group;
    let mut lines: Vec<(&str, &str)> = commands.iter().map(|command| (command.name, command.about)).collect();
    lines.extend(groups.iter().copied());
    lines.sort_unstable();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = format!(
        "{about}\n\nUsage:\n  {program} {name} [flags]\n  {program} {name} [command]\n\nAvailable Commands:\n"
    );
    for (name, about) in lines {
        // Writing to a string cannot fail.
        let _written = writeln!(out, "  {name:width$} {about}");
    }
    let _written =
        writeln!(out, "\nUse \"{program} {name} [command] --help\" for more information about a command.");
    out
}

fn flag_lines(flags: &[&Flag]) -> String {
    let mut sorted = flags.to_vec();
    sorted.sort_by_key(|flag| flag.long);
    let heads: Vec<String> = sorted
        .iter()
        .map(|flag| {
            let short = flag.short.map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
            let takes = flag.kind.takes();
            let takes = if takes.is_empty() { String::new() } else { format!(" {takes}") };
            format!("  {short}--{}{takes}", flag.long)
        })
        .collect();
    let width = heads.iter().map(String::len).max().unwrap_or(0) + 3;
    let mut out = String::new();
    for (flag, head) in sorted.iter().zip(&heads) {
        let default = shown_default(flag);
        let _written = writeln!(out, "{head:width$}{}{default}", flag.help);
    }
    out
}
