//! Builds kustomizations here and with the program, and prints where the outcomes differ (RND-247).
//!
//! Lines of the standard input name them: the root of a tree, the directory in it, options of the build; separated by
//! tabs. What the program answers is kept in a folder, so that only the first run takes long.
//!
//! ```text
//! kustomize_compare --program target/oracles/kustomize --answers target/oracles/answers [--texts] [--alike] [--measure MILLISECONDS]
//! ```
//!
//! `--texts` also compares the texts of errors, and `--alike` prints those that are equal. `--measure` builds each again and again for some time instead of
//! comparing, and prints builds in a second beside what the program took.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::format_collect,
    reason = "a tool for developers"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tiphys_go::yaml::{Dialect, Limits, parse_documents};
use tiphys_kustomize::{Budget, Context, Options, build, compare};
use tiphys_tree::{Entry, EntryKind, Tree, TreeError, TreePath};

/// Files of the host, each read once.
struct HostTree {
    root: PathBuf,
    files: Mutex<BTreeMap<TreePath, Bytes>>,
    entries: Mutex<BTreeMap<TreePath, Option<Entry>>>,
}

impl HostTree {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), files: Mutex::default(), entries: Mutex::default() }
    }

    fn look(&self, path: &TreePath) -> Option<Entry> {
        let place = self.root.join(path.as_str());
        let found = fs::symlink_metadata(&place).ok()?;
        let kind = if found.is_symlink() {
            EntryKind::Symlink { target: fs::read_link(place).ok()?.to_string_lossy().into_owned() }
        } else if found.is_dir() {
            EntryKind::Directory
        } else {
            EntryKind::File { executable: false }
        };
        Some(Entry { kind })
    }
}

impl Tree for HostTree {
    fn id(&self) -> &'static str {
        "host"
    }

    fn subtree_id(&self, _path: &TreePath) -> Result<Option<String>, TreeError> {
        Ok(None)
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        let mut entries = self.entries.lock().unwrap();
        Ok(entries.entry(path.clone()).or_insert_with(|| self.look(path)).clone())
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        let missing = || TreeError::NotFound { path: path.clone() };
        let mut names = Vec::new();
        for member in fs::read_dir(self.root.join(path.as_str())).map_err(|_unread| missing())? {
            let name = member.map_err(|_unread| missing())?.file_name().to_string_lossy().into_owned();
            if let Some(entry) = self.entry(&path.child(&name))? {
                names.push((name, entry));
            }
        }
        names.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(names)
    }

    fn read(&self, path: &TreePath, _max_bytes: u64) -> Result<Bytes, TreeError> {
        if let Some(bytes) = self.files.lock().unwrap().get(path) {
            return Ok(bytes.clone());
        }
        let bytes = fs::read(self.root.join(path.as_str()))
            .map_err(|_unread| TreeError::NotFound { path: path.clone() })?;
        let bytes = Bytes::from(bytes);
        self.files.lock().unwrap().insert(path.clone(), bytes.clone());
        Ok(bytes)
    }
}

/// What the program printed.
struct Answer {
    objects: Result<String, String>,
    took: Duration,
}

fn ask(program: &str, answers: &Path, root: &str, path: &str, options: &str) -> Answer {
    let mut digest = Sha256::new();
    for part in [root, path, options] {
        digest.update(part);
        digest.update([0]);
    }
    let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let file = answers.join(name);
    if let Ok(text) = fs::read_to_string(&file) {
        let (head, rest) = text.split_once('\n').unwrap();
        let (kind, micros) = head.split_once(' ').unwrap();
        let took = Duration::from_micros(micros.parse().unwrap());
        let objects = if kind == "ok" { Ok(rest.to_owned()) } else { Err(rest.to_owned()) };
        return Answer { objects, took };
    }
    let directory = Path::new(root).join(path);
    let begin = Instant::now();
    let output =
        Command::new(program).arg("build").arg(directory).args(options.split_whitespace()).output().unwrap();
    let took = begin.elapsed();
    let objects = if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (kind, text) = match &objects {
        Ok(text) => ("ok", text),
        Err(text) => ("error", text),
    };
    fs::write(&file, format!("{kind} {}\n{text}", took.as_micros())).unwrap();
    Answer { objects, took }
}

fn main() {
    let mut arguments: BTreeMap<String, String> = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = if matches!(word.as_str(), "--texts" | "--alike") {
            String::new()
        } else {
            words.next().unwrap()
        };
        arguments.insert(word, value);
    }
    let program = &arguments["--program"];
    let answers = PathBuf::from(&arguments["--answers"]);
    fs::create_dir_all(&answers).unwrap();
    let texts = arguments.contains_key("--texts");
    let alike = arguments.contains_key("--alike");
    let measure = arguments.get("--measure").map(|value| Duration::from_millis(value.parse().unwrap()));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut parts = line.split('\t');
        let (root, path) = (parts.next().unwrap(), parts.next().unwrap_or_default());
        let options_text = parts.next().unwrap_or_default();
        let answer = ask(program, &answers, root, path, options_text);
        let tree = HostTree::new(Path::new(root));
        let directory = TreePath::parse(path).unwrap();
        let options = Options::parse(options_text).unwrap();
        let run = || {
            let budget = Budget::default();
            std::panic::catch_unwind(|| build(&tree, &directory, &options, &Context::default(), &budget))
                .unwrap_or_else(|_| {
                    println!("PANIC {line}");
                    Ok(tiphys_kustomize::Built::default())
                })
        };
        if let Some(time) = measure {
            let begin = Instant::now();
            let mut count = 0_u32;
            while begin.elapsed() < time || count == 0 {
                let _outcome = run();
                count += 1;
            }
            let each = begin.elapsed() / count;
            let factor = answer.took.as_secs_f64() / each.as_secs_f64();
            println!(
                "{each:?}\t{:.0}/s\t{:?}\t{factor:.0}x\t{root}\t{path}",
                1.0 / each.as_secs_f64(),
                answer.took
            );
            continue;
        }
        let outcome = match (run(), answer.objects) {
            (Ok(built), Ok(text)) => {
                let theirs: Vec<Value> = parse_documents(&text, Dialect::Sigs, &Limits::default()).unwrap();
                let found = compare::differences(&built.objects, &theirs, 3);
                if found.is_empty() {
                    "equal"
                } else {
                    println!("DIFFERS {line}");
                    for difference in found {
                        println!("    {difference}");
                    }
                    "differs"
                }
            }
            (Err(ours), Err(theirs)) => {
                let (ours, theirs) =
                    (ours.to_string().trim().to_owned(), compare::program_error(&theirs, root));
                if ours == theirs {
                    if alike {
                        println!("ALIKE {line}\n    {ours}");
                    }
                    "both fail alike"
                } else {
                    if texts {
                        println!("TEXTS {line}\n    {ours}\n    {theirs}");
                    }
                    "both fail"
                }
            }
            (Err(ours), Ok(_)) => {
                println!("ONLY OURS FAILS {line}\n    {ours}");
                "only ours fails"
            }
            (Ok(_), Err(theirs)) => {
                println!("ONLY THEIRS FAILS {line}\n    {}", compare::program_error(&theirs, root));
                "only theirs fails"
            }
        };
        *counts.entry(outcome).or_default() += 1;
    }
    for (outcome, count) in counts {
        println!("{count}\t{outcome}");
    }
}
