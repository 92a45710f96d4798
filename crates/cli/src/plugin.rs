//! Programs of others that stand for commands: `argocd-foo` for `argocd foo` (CLI-15..19).

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tiphys_source::exec;

use crate::core::nearest;
use crate::editor::invocation;
use crate::failure::{Failure, Style};
use crate::session;
use crate::terminal::Terminal;

/// What begins the names of such programs.
const PREFIX: &str = "argocd-";
/// What is looked for first when this program goes by its own name.
const OWN_PREFIX: &str = "tiphys-";
/// Names of programs that are offered.
const OFFERED_MAX: usize = 1_000;
/// Exit code of a program that a signal ended.
const SIGNALLED: u8 = 1;

/// Runs the program of a word that is no command, and says the exit code. Its arguments are what stands behind the word.
pub(crate) fn run(terminal: &Terminal, word: &str, args: Vec<String>) -> u8 {
    let program = match find(terminal, word) {
        Ok(Some(program)) => program,
        Ok(None) => {
            let program = &terminal.program;
            terminal.print(&format!(
                "Error: unknown command \"{word}\" for \"{program}\"\nRun '{program} --help' for usage.\n"
            ));
            let known = crate::ROOT.map(|(name, _)| name);
            if let Some(near) = nearest(word, &known) {
                terminal.warn(&format!("Did you mean `{near}`?\n"));
            }
            return 1;
        }
        Err(failure) => {
            let style = if terminal.stderr_is_tty { Style::Human } else { Style::Json };
            terminal.fail(style, &failure);
            return failure.code;
        }
    };
    let invocation = invocation(terminal, program.clone(), args.into_iter().map(Into::into).collect());
    let ended = session::execute(async {
        exec::with_terminal(&invocation).await.map_err(|error| {
            Failure::fatal(format!("{}: {}", program.display(), tiphys_cluster::error_chain(&error)))
        })
    });
    match ended {
        Ok(Some(0)) => 0,
        Ok(Some(code)) => {
            terminal.print(&format!("Error: exit status {code}\n"));
            u8::try_from(code.rem_euclid(256)).unwrap_or(SIGNALLED)
        }
        Ok(None) => {
            terminal.print("Error: the program was ended by a signal\n");
            SIGNALLED
        }
        Err(failure) => {
            terminal.print(&format!("Error: {failure}\n"));
            failure.code
        }
    }
}

fn prefixes(terminal: &Terminal) -> impl Iterator<Item = &'static str> {
    let is_own = terminal.program == "tiphys";
    [OWN_PREFIX, PREFIX].into_iter().filter(move |prefix| is_own || *prefix == PREFIX)
}

/// Where programs are looked for.
fn directories(terminal: &Terminal) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(terminal.variable("PATH")).collect::<Vec<_>>().into_iter()
}

/// The program of a word; one that stands where nobody said for sure is a failure.
fn find(terminal: &Terminal, word: &str) -> Result<Option<PathBuf>, Failure> {
    if word.contains(['/', '\0']) || word.is_empty() {
        return Ok(None);
    }
    for prefix in prefixes(terminal) {
        for directory in directories(terminal) {
            let path = directory.join(format!("{prefix}{word}"));
            if !is_executable(&path) {
                continue;
            }
            if !directory.is_absolute() {
                return Err(Failure::fatal(format!(
                    "{}: the program stands in a relative directory of PATH, and is not run",
                    path.display()
                ))
                .hint("name the directory from the root in PATH"));
            }
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Words that programs stand for, sorted (CLI-18).
pub(crate) fn words(terminal: &Terminal) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for directory in directories(terminal).filter(|directory| directory.is_absolute()) {
        // A directory that is not there has none.
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let word = prefixes(terminal).find_map(|prefix| name.strip_prefix(prefix));
            if let Some(word) = word.filter(|word| !word.is_empty())
                && words.len() < OFFERED_MAX
                && is_executable(&entry.path())
            {
                words.insert(word.to_owned());
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of programs; each has the mode and writes its arguments beside itself.
    fn programs(list: &[(&str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in list {
            let path = folder.path().join(name);
            let script = "#!/bin/sh\necho \"$A $@\" > \"$0.ran\"\nexit ${1:-0}\n";
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    fn terminal(program: &str, path: &str) -> Terminal {
        Terminal::memory(program, &[("PATH", path), ("A", "told")])
    }

    fn said(terminal: &Terminal, args: &[&str]) -> u8 {
        crate::run(terminal, args.iter().map(|arg| (*arg).to_owned()).collect())
    }

    #[test]
    fn cli_15_a_word_that_is_no_command_is_a_program_of_somebody() {
        let folder = programs(&[("argocd-hello", 0o755), ("argocd-app", 0o755), ("argocd-data", 0o644)]);
        let path = folder.path().to_str().unwrap();
        let argocd = terminal("argocd", path);
        assert_eq!(said(&argocd, &["--core", "hello", "0", "--core", "x"]), 0);
        let ran = std::fs::read_to_string(folder.path().join("argocd-hello.ran")).unwrap();
        assert_eq!(ran, "told 0 --core x\n", "its flags are its own");
        assert_eq!(said(&argocd, &["hello", "3"]), 3);
        assert!(argocd.written().stdout.ends_with("Error: exit status 3\n"));
        assert_eq!(said(&argocd, &["app"]), 1, "a command of ours stays one");
        assert!(!folder.path().join("argocd-app.ran").exists());
        assert_eq!(words(&argocd).into_iter().collect::<Vec<_>>(), ["app", "hello"]);

        let unknown = terminal("argocd", path);
        assert_eq!(said(&unknown, &["data"]), 1);
        assert_eq!(
            unknown.written().stdout,
            "Error: unknown command \"data\" for \"argocd\"\nRun 'argocd --help' for usage.\n"
        );
        assert_eq!(said(&unknown, &["../hello"]), 1);
        assert_eq!(said(&unknown, &["acount"]), 1);
        assert!(unknown.written().stderr.contains("Did you mean `account`?"));
    }

    #[test]
    fn cli_16_a_program_of_a_relative_directory_is_refused() {
        let folder = programs(&[("argocd-hello", 0o755)]);
        let own = std::env::current_dir().unwrap();
        let up = "../".repeat(own.components().count());
        let relative = format!("{up}{}", folder.path().to_str().unwrap());
        let argocd = terminal("argocd", &relative);
        assert_eq!(said(&argocd, &["hello"]), 1);
        assert!(argocd.written().stderr.contains("relative directory of PATH"), "{:?}", argocd.written());
        assert!(!folder.path().join("argocd-hello.ran").exists());
        assert!(words(&argocd).is_empty());
    }

    #[test]
    fn cli_19_programs_of_our_own_name_come_first() {
        let folder = programs(&[("argocd-hello", 0o755), ("tiphys-hello", 0o755)]);
        let path = folder.path().to_str().unwrap();
        let found = |program: &str| {
            let found = find(&terminal(program, path), "hello").unwrap().unwrap();
            found.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!((found("tiphys").as_str(), found("argocd").as_str()), ("tiphys-hello", "argocd-hello"));
    }
}
