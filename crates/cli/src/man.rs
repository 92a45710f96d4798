//! `man`: a page for each command, from the tables that also make its help (CLI-1104).

use std::fmt::Write as _;
use std::path::Path;

use crate::command::Command;
use crate::completion::Listing;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::{self, OK, Session};
use crate::terminal::{Terminal, io_text};
use crate::{flags, global};

const FLAGS: &[Flag] = &[flag("dir", Kind::Text, ".", "Directory to write to")];

/// Groups inside each other; there are fewer.
const DEPTH_MAX: usize = 6;

/// Runs the command and says its exit code.
pub(crate) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    const COMMAND: Command<()> =
        Command::new((), ("man", ""), "Write a man page for each command", &[FLAGS], (0, 0));
    session::run_command(terminal, args, ("", &COMMAND), async |session, ()| write(session))
}

fn write(session: &Session<'_>) -> Result<session::Ended, Failure> {
    let folder = session.flags.text("dir");
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::generic(format!("mkdir {folder}: {}", io_text(&error))))?;
    let pages = pages(session.terminal);
    for (name, text) in &pages {
        let path = Path::new(folder).join(name);
        std::fs::write(&path, text)
            .map_err(|error| Failure::generic(format!("write {}: {}", path.display(), io_text(&error))))?;
    }
    session.terminal.line(&format!("Wrote {} pages to {folder}", pages.len()));
    Ok(OK)
}

/// All pages: names of files, with what they hold.
fn pages(terminal: &Terminal) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(words) = waiting.pop() {
        let Some(listing) = Listing::at(terminal, words.clone()) else { continue };
        if let Listing::Group { commands, .. } = &listing
            && words.len() < DEPTH_MAX
        {
            for (name, _) in commands.iter().rev() {
                waiting.push(words.iter().cloned().chain([(*name).to_owned()]).collect());
            }
        }
        let name = std::iter::once(terminal.program.as_str()).chain(words.iter().map(String::as_str));
        let name = name.collect::<Vec<_>>().join("-");
        pages.push((format!("{name}.1"), page(terminal, &name, &listing)));
    }
    pages
}

/// One page.
fn page(terminal: &Terminal, name: &str, listing: &Listing) -> String {
    let program = &terminal.program;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _written = writeln!(out, ".TH \"{}\" \"1\" \"\" \"{}\"", name.to_uppercase(), text(program));
    let section = |out: &mut String, title: &str, body: &str| {
        let _written = writeln!(out, ".SH {title}\n{}", body.trim_end());
    };
    match listing {
        Listing::Group { words, about, commands } => {
            section(&mut out, "NAME", &format!("{} \\- {}", text(name), text(about)));
            let called = if words.is_empty() { program.clone() } else { format!("{program} {words}") };
            section(&mut out, "SYNOPSIS", &format!("\\fB{}\\fR \\fICOMMAND\\fR [flags]", text(&called)));
            let mut list = String::new();
            for (command, about) in commands {
                let page = text(&format!("{name}-{command}"));
                let _written =
                    writeln!(list, ".TP\n\\fB{}\\fR\n{} (\\fB{page}\\fR(1))", text(command), line(about));
            }
            section(&mut out, "COMMANDS", &list);
            section(&mut out, "FLAGS OF EVERY COMMAND", &flag_list(global::FLAGS));
        }
        Listing::Command { words, usage, about, flags, own, .. } => {
            section(&mut out, "NAME", &format!("{} \\- {}", text(name), text(about)));
            let usage = if usage.is_empty() { String::new() } else { format!(" \\fI{}\\fR", text(usage)) };
            let called = text(&format!("{program} {words}"));
            section(&mut out, "SYNOPSIS", &format!("\\fB{called}\\fR{usage} [flags]"));
            let (own, others) = flags.split_at((*own).min(flags.len()));
            if !own.is_empty() {
                section(&mut out, "FLAGS", &flag_list(own));
            }
            section(&mut out, "FLAGS OF OTHER COMMANDS, TOO", &flag_list(others));
        }
    }
    out
}

fn flag_list(flags: &[Flag]) -> String {
    let mut sorted: Vec<&Flag> = flags.iter().collect();
    sorted.sort_by_key(|flag| flag.long);
    let mut out = String::new();
    for flag in sorted {
        let short = flag.short.map_or_else(String::new, |short| format!("\\fB\\-{short}\\fR, "));
        let takes = flag.kind.takes();
        let takes = if takes.is_empty() { String::new() } else { format!(" \\fI{takes}\\fR") };
        let long = text(&format!("--{}", flag.long));
        let default = text(&flags::shown_default(flag));
        let _written = writeln!(out, ".TP\n{short}\\fB{long}\\fR{takes}\n{}{default}", line(flag.help));
    }
    out
}

/// A text that stands inside a line.
fn text(plain: &str) -> String {
    plain.replace('\\', "\\e").replace('-', "\\-")
}

/// A text that begins a line, where some letters would begin a request.
fn line(plain: &str) -> String {
    let text = text(plain);
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1104_each_command_has_a_page() {
        let terminal = Terminal::memory("argocd", &[]);
        let pages = pages(&terminal);
        let page = |name: &str| &pages.iter().find(|(known, _)| known == name).expect(name).1;
        assert!(page("argocd.1").contains(".TP\n\\fBapp\\fR\nManage applications (\\fBargocd\\-app\\fR(1))"));
        let sync = page("argocd-app-sync.1");
        assert!(sync.starts_with(
            ".TH \"ARGOCD-APP-SYNC\" \"1\" \"\" \"argocd\"\n.SH NAME\nargocd\\-app\\-sync \\- "
        ));
        assert!(sync.contains("\\fB\\-l\\fR, \\fB\\-\\-selector\\fR \\fIstring\\fR\n"), "{sync}");
        assert!(sync.contains("\\fB\\-\\-kube\\-context\\fR"));
        for name in ["app-actions-run", "proj-role-create-token", "admin-settings-rbac-can", "render"] {
            page(&format!("argocd-{name}.1"));
        }
        let names: std::collections::BTreeSet<_> = pages.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), pages.len(), "no page is written over another");
        assert_eq!(line(".x-y\\"), "\\&.x\\-y\\e");
    }

    #[test]
    fn cli_1104_pages_are_written_to_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("man1");
        let terminal = Terminal::memory("argocd", &[]);
        let args = ["--dir".to_owned(), place.to_str().unwrap().to_owned()];
        assert_eq!(run(&terminal, &args), 0, "{:?}", terminal.written());
        assert!(terminal.written().stdout.starts_with("Wrote "));
        assert!(place.join("argocd-app-get.1").is_file());
    }
}
