//! The examples of the pages in `docs` do what the pages say.
//!
//! The word behind the fence of a block says what becomes of it:
//!
//! - `LANGUAGE file=NAME`: the block is written to that file, for the blocks that follow it on the page;
//! - `yaml test`: tests as `tiphys eval test` runs them; all have to pass;
//! - `console`: commands behind `$ ` and what they print, standard output first. A command that fails is followed by
//!   `$ echo $?` and its exit code. A line `...` stands for any lines, `...` inside a line for any text in it;
//! - `text`: nobody looks at it.
//!
//! Every block says one of these, so that no example is forgotten. All blocks of a page share one folder. Commands
//! have no environment, no kubeconfig and no input: what needs a cluster cannot be shown.

#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Verbs that run on, or need a cluster.
const REFUSED: [&str; 5] = ["demo", "run", "serve", "simulate", "--core"];

/// A fenced block.
struct Block {
    /// Line of the fence, from 1.
    line: usize,
    /// What stands behind the fence.
    info: String,
    /// The lines inside.
    text: String,
}

/// A command with what the page says about it.
struct Step {
    line: usize,
    command: String,
    printed: Vec<String>,
}

fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in page.lines().enumerate() {
        match (open.take(), line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { line: at + 1, info: info.trim().to_owned(), text: String::new() });
            }
            (Some(block), Some("")) => found.push(block),
            (Some(mut block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    match open {
        Some(block) => Err(format!("line {}: the block is not closed", block.line)),
        None => Ok(found),
    }
}

fn steps(block: &Block) -> Result<Vec<Step>, String> {
    let mut found: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for (at, line) in block.text.lines().enumerate() {
        let at = block.line + 1 + at;
        let command = if goes_on { Some(line) } else { line.strip_prefix("$ ") };
        match (command, found.last_mut()) {
            (Some(text), last) => {
                let (text, more) = text.strip_suffix('\\').map_or((text, false), |text| (text, true));
                match last {
                    Some(step) if goes_on => step.command.push_str(text.trim_start()),
                    _ => found.push(Step { line: at, command: text.to_owned(), printed: Vec::new() }),
                }
                goes_on = more;
            }
            (None, Some(step)) => step.printed.push(line.to_owned()),
            (None, None) => return Err(format!("line {at}: a console block begins with `$ `")),
        }
    }
    Ok(found)
}

/// Whether a line is what the page says; `...` is any text.
fn is_line(expected: &str, line: &str) -> bool {
    let mut parts = expected.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether the lines are what the page says; a line `...` is any lines.
fn are_lines(expected: &[String], lines: &[&str]) -> bool {
    match (expected.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => {
            (0..=lines.len()).any(|skipped| lines.get(skipped..).is_some_and(|lines| are_lines(rest, lines)))
        }
        (Some((first, rest)), Some((line, lines))) => is_line(first, line) && are_lines(rest, lines),
        _ => false,
    }
}

/// What a command printed, and its exit code.
#[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
fn run(arguments: &[String], folder: &Path) -> (String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_tiphys"))
        .args(arguments)
        .env_clear()
        .env("HOME", folder)
        .env("ARGOCD_BINARY_NAME", "tiphys")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed.push_str(&String::from_utf8_lossy(&output.stderr));
    (printed, output.status.code().unwrap_or(-1))
}

fn check_console(block: &Block, folder: &Path, wrong: &mut Vec<String>) -> Result<(), String> {
    // The code of the last command, and whether the page says it.
    let mut last = (0, true, 0);
    for step in steps(block)? {
        let line = step.line;
        let words = tiphys_go::shlex::split_shellquote(&step.command)
            .map_err(|problem| format!("line {line}: {problem}"))?;
        let printed = match words.split_first() {
            Some((program, arguments)) if program == "tiphys" => {
                if let Some(word) = arguments.iter().find(|word| REFUSED.contains(&word.as_str())) {
                    return Err(format!("line {line}: {word} cannot be shown, pages are checked offline"));
                }
                if !last.1 {
                    wrong.push(format!("line {}: exit code {} is not shown (`$ echo $?`)", last.2, last.0));
                }
                let (printed, code) = run(arguments, folder);
                last = (code, code == 0, line);
                printed
            }
            Some((program, [variable])) if program == "echo" && variable == "$?" => {
                last.1 = true;
                format!("{}\n", last.0)
            }
            _ => return Err(format!("line {line}: only tiphys and `echo $?` are run")),
        };
        let lines: Vec<&str> = printed.lines().collect();
        if !are_lines(&step.printed, &lines) {
            let expected = step.printed.join("\n    ");
            let got = lines.join("\n    ");
            wrong.push(format!(
                "line {line}: $ {}\n  expected\n    {expected}\n  got\n    {got}",
                step.command
            ));
        }
    }
    if !last.1 {
        wrong.push(format!("line {}: exit code {} is not shown (`$ echo $?`)", last.2, last.0));
    }
    Ok(())
}

/// What of a page is not so, and how many of its blocks say something.
fn check(page: &str) -> Result<(Vec<String>, usize), String> {
    let folder = tempfile::tempdir().unwrap();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for block in blocks(page)? {
        let (line, mut words) = (block.line, block.info.split_whitespace());
        checked += 1;
        match (words.next(), words.next()) {
            (Some("console"), None) => check_console(&block, folder.path(), &mut wrong)?,
            (Some("text"), None) => checked -= 1,
            (Some("yaml"), Some("test")) => {
                let name = format!("line-{line}.tiphys-test.yaml");
                std::fs::write(folder.path().join(&name), &block.text).unwrap();
                let arguments = ["eval", "test", "-v", name.as_str()].map(str::to_owned);
                let (printed, code) = run(&arguments, folder.path());
                if code != 0 {
                    wrong.push(format!("line {line}: the tests of this block fail\n{printed}"));
                }
            }
            (Some(_), Some(word)) if word.starts_with("file=") => {
                let name = word.trim_start_matches("file=");
                if name.is_empty() || name.contains('/') {
                    return Err(format!("line {line}: {name:?} is no name of a file"));
                }
                std::fs::write(folder.path().join(name), &block.text).unwrap();
            }
            _ => {
                return Err(format!(
                    "line {line}: say what the block is: `console`, `yaml test`, `LANGUAGE file=NAME` or `text`"
                ));
            }
        }
    }
    Ok((wrong, checked))
}

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    found
}

/// CLI-1104: what a page shows is what the program does.
#[test]
fn cli_1104_examples_of_the_pages_are_true() {
    let mut wrong = Vec::new();
    for path in pages() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match check(&std::fs::read_to_string(&path).unwrap()) {
            Ok((found, checked)) => {
                println!("{name}: {checked} blocks");
                wrong.extend(found.into_iter().map(|text| format!("docs/{name} {text}")));
            }
            Err(problem) => wrong.push(format!("docs/{name} {problem}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The checks above find what is not so.
#[test]
fn what_a_page_says_wrongly_is_found() {
    let page = |blocks: &str| check(&blocks.replace('~', "`"));
    let says = |blocks: &str| page(blocks).unwrap().0.join("\n");
    assert_eq!(says("~~~console\n$ tiphys version --short\ntiphys: v...\n~~~\n"), "");
    assert!(
        says("~~~console\n$ tiphys version --short\ntiphys: x\n~~~\n")
            .contains("line 2: $ tiphys version --short")
    );
    assert!(says("~~~console\n$ tiphys nothing\n...\n~~~\n").contains("line 2: exit code 1 is not shown"));
    assert_eq!(says("~~~console\n$ tiphys \\\n  nothing\n...\n$ echo $?\n1\n~~~\n"), "");
    assert!(says("~~~console\n$ tiphys nothing\n...\n$ echo $?\n2\n~~~\n").contains("expected\n    2"));
    let input = "~~~yaml file=in.yaml\ntext: billing\n~~~\n";
    let test = |digest: &str| {
        format!(
            "{input}~~~yaml test\n- name: a\n  op: tracking.hash\n  input: {{$file: in.yaml}}\n  expect: {{digest: {digest}}}\n~~~\n"
        )
    };
    assert_eq!(says(&test("244c7f56694e858ed6cdb408e24c3ed5c14670c7")), "");
    assert!(says(&test("other")).contains("the tests of this block fail"));
    for refused in [
        "~~~yaml\na: 1\n~~~\n",
        "~~~\na\n~~~\n",
        "~~~console\n$ ls\n~~~\n",
        "~~~console\n$ tiphys app list --core\n~~~\n",
        "~~~console\nno command\n~~~\n",
        "~~~yaml file=../x\n~~~\n",
        "~~~text\nopen\n",
    ] {
        assert!(page(refused).is_err(), "{refused}");
    }
    assert!(
        is_line("a ... c", "a b c") && is_line("...c", "c") && !is_line("a...b", "a") && !is_line("a", "ab")
    );
}
