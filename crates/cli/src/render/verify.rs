//! `render verify`: charts and overlays rendered here and by the real programs, compared object by object (RND-247).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tiphys_api::application::{ApplicationSource, HelmParameter, HelmSource};
use tiphys_helm::{Strictness, compare_objects};
use tiphys_render::eval::{self, EvalError};
use tiphys_render::plan::{ClusterFacts, RenderContext};
use tiphys_render::{Budget, EnabledTools, MemoryTree, SourceType, Tree, TreePath, kind, parse_manifests};
use tiphys_source::read_directory;

use super::programs::Programs;
use crate::failure::Failure;
use crate::flags::{self, Flag, FlagError, Kind, Parsed, flag};
use crate::terminal::{Terminal, read_file};

const FLAGS: &[Flag] = &[
    flag("helm", Kind::Text, "", "The helm program to compare charts with"),
    flag("kustomize", Kind::Text, "", "The kustomize program to compare overlays with"),
    flag("root", Kind::Text, "", "Directory that holds all that an overlay may use; else its own directory"),
    flag(
        "values",
        Kind::Texts,
        "",
        "Value file of the charts, as the chart's directory sees it (repeatable)",
    ),
    flag("set", Kind::Texts, "", "NAME=VALUE: parameter of the charts (repeatable)"),
    flag("build-options", Kind::Text, "", "Options of the builds of overlays"),
    flag("kube-version", Kind::Text, "1.36.0", "Version of Kubernetes"),
    flag("api-version", Kind::Texts, "", "API version that the cluster serves (repeatable)"),
    flag("list", Kind::Text, "", "File with more cases, one JSON object a line"),
    flag("times", Kind::Bool, "false", "Say how long each of them took"),
];

const ABOUT: &str = "Compare what charts and overlays become here with what helm and kustomize make of them";

/// Differences that are shown of one case.
const SHOWN_MAX: usize = 5;

/// What is compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Case {
    /// The directory of the chart or overlay.
    directory: String,
    /// The directory that stands for its repository.
    root: String,
    /// Value files.
    values: Vec<String>,
    /// Parameters, `NAME=VALUE`.
    set: Vec<String>,
    /// Options of the build.
    build_options: String,
    /// What the cluster serves.
    api_versions: Vec<String>,
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Helm,
    Kustomize,
}

/// How a comparison ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Equal,
    /// Both refuse it, each with its words.
    BothRefuse,
    /// The program's own two results differ: everything but texts is equal.
    EqualButForChance,
    Differs(Vec<String>),
}

/// Runs `render verify …` and says the exit code: 1 when something differs.
pub(super) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    let parsed = match flags::parse(args, &[FLAGS]) {
        Ok(parsed) => parsed,
        Err(FlagError::Help) => {
            terminal.print(&usage(&terminal.program));
            return 0;
        }
        Err(FlagError::Usage(text)) => {
            terminal.line(&format!("Error: {text}"));
            return 2;
        }
    };
    match perform(terminal, &parsed) {
        Ok(is_equal) => u8::from(!is_equal),
        Err(failure) => {
            terminal.line(&failure.message);
            failure.code
        }
    }
}

fn usage(program: &str) -> String {
    let mut text = format!(
        "{ABOUT}\n\nUsage:\n  {program} render verify [--helm PATH] [--kustomize PATH] DIR... [flags]\n\nFlags:\n"
    );
    for flag in FLAGS {
        text.push_str("  --");
        text.push_str(flag.long);
        text.push_str(&" ".repeat(14_usize.saturating_sub(flag.long.len())));
        text.push(' ');
        text.push_str(flag.help);
        text.push('\n');
    }
    text
}

fn perform(terminal: &Terminal, parsed: &Parsed) -> Result<bool, Failure> {
    let cases = cases(parsed)?;
    if cases.is_empty() {
        return Err(Failure::fatal("name at least one directory, or a --list"));
    }
    let programs = Programs::new(parsed.text("helm"), parsed.text("kustomize"), &terminal.env)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::generic(format!("cannot start: {error}")))?;
    let mut trees = Trees::default();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for case in &cases {
        let began = terminal.clock.elapsed();
        let loaded = trees.load(case);
        let read = terminal.clock.elapsed();
        let native = loaded.map(|(tree, path, tool)| {
            let source = source(case, path, tool);
            let objects = native(&source, case, parsed.text("kube-version"), tree);
            (source, tool, objects)
        });
        let rendered = terminal.clock.elapsed();
        let (source, tool, native) = native?;
        let expected =
            runtime.block_on(programs.render(tool == Tool::Helm, &source, &request_of(case, parsed)))?;
        let asked = terminal.clock.elapsed();
        let mut verdict = judge(&native, &expected);
        if matches!(verdict, Verdict::Differs(_)) && tool == Tool::Helm {
            let again = runtime.block_on(programs.render(true, &source, &request_of(case, parsed)))?;
            verdict = despite_chance(verdict, &native, &expected, &again);
        }
        let word = match &verdict {
            Verdict::Equal => "equal",
            Verdict::BothRefuse => "refused by both",
            Verdict::EqualButForChance => "equal but for chance",
            Verdict::Differs(_) => "differs",
        };
        *counts.entry(word).or_default() += 1;
        let took = (rendered.saturating_sub(read), asked.saturating_sub(rendered));
        if parsed.is_on("times") {
            let read = read.saturating_sub(began);
            terminal.line(&format!(
                "{word}\t{}\t{}\t{}\t{}",
                micros(read),
                micros(took.0),
                micros(took.1),
                name(case)
            ));
        }
        ours.push(took.0);
        theirs.push(took.1);
        if let Verdict::Differs(lines) = verdict {
            terminal.line(&format!("{}: differs", name(case)));
            for line in lines {
                terminal.line(&format!("    {line}"));
            }
        }
    }
    let differing = counts.get("differs").copied().unwrap_or_default();
    terminal.line(&format!("{} of {} equal", cases.len() - differing, cases.len()));
    for (word, count) in &counts {
        terminal.line(&format!("  {count} {word}"));
    }
    terminal.line(&format!("  median: {} µs here, {} µs there", median(ours), median(theirs)));
    Ok(differing == 0)
}

fn micros(duration: Duration) -> u128 {
    duration.as_micros()
}

fn median(mut durations: Vec<Duration>) -> u128 {
    durations.sort();
    durations.get(durations.len() / 2).copied().map_or(0, micros)
}

fn name(case: &Case) -> String {
    let mut text = case.directory.clone();
    for more in case.values.iter().chain(&case.set) {
        text.push(' ');
        text.push_str(more);
    }
    text
}

/// The cases of the command line and of a list.
fn cases(parsed: &Parsed) -> Result<Vec<Case>, Failure> {
    let of_line = |directory: &String| Case {
        directory: directory.clone(),
        root: parsed.text("root").to_owned(),
        values: parsed.texts("values").to_vec(),
        set: parsed.texts("set").to_vec(),
        build_options: parsed.text("build-options").to_owned(),
        api_versions: parsed.texts("api-version").to_vec(),
    };
    let mut cases: Vec<Case> = parsed.operands.iter().map(of_line).collect();
    let list = parsed.text("list");
    if !list.is_empty() {
        for (number, line) in read_file(list)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
        {
            let case = serde_json::from_str(line)
                .map_err(|error| Failure::fatal(format!("{list}, line {}: {error}", number + 1)))?;
            cases.push(case);
        }
    }
    Ok(cases)
}

fn request_of<'a>(case: &'a Case, parsed: &'a Parsed) -> super::programs::Asked<'a> {
    super::programs::Asked {
        directory: Path::new(&case.directory),
        kube_version: parsed.text("kube-version"),
        api_versions: &case.api_versions,
        build_options: &case.build_options,
    }
}

/// The source as an Application would have it.
fn source(case: &Case, path: String, tool: Tool) -> ApplicationSource {
    let parameter = |text: &String| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        HelmParameter { name: name.to_owned(), value: value.to_owned(), ..HelmParameter::default() }
    };
    let helm = HelmSource {
        value_files: case.values.clone(),
        parameters: case.set.iter().map(parameter).collect(),
        release_name: super::programs::RELEASE.to_owned(),
        ..HelmSource::default()
    };
    ApplicationSource {
        repo_url: super::programs::REPOSITORY.to_owned(),
        path,
        helm: (tool == Tool::Helm).then(|| Box::new(helm)),
        ..ApplicationSource::default()
    }
}

/// The last repository that was read: cases of one repository stand beside each other in a list.
#[derive(Default)]
struct Trees(Option<(PathBuf, Arc<MemoryTree>)>);

impl Trees {
    /// The repository of a case, the path of its directory inside, and what that holds.
    fn load(&mut self, case: &Case) -> Result<(Arc<MemoryTree>, String, Tool), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::fatal(format!("{}: {error}", case.directory));
        let real = |path: &str| std::fs::canonicalize(path).map_err(|error| failed(&error));
        let directory = real(&case.directory)?;
        let root = if case.root.is_empty() { directory.clone() } else { real(&case.root)? };
        let inside = directory.strip_prefix(&root).map_err(|_outside| failed(&"is outside of its root"))?;
        let path = if inside.as_os_str().is_empty() {
            ".".to_owned()
        } else {
            inside.to_string_lossy().into_owned()
        };
        let tree = match &self.0 {
            Some((known, tree)) if *known == root => Arc::clone(tree),
            _ => {
                let tree = Arc::new(read_directory(&root).map_err(|error| failed(&error))?);
                self.0 = Some((root, Arc::clone(&tree)));
                tree
            }
        };
        // A folder that is both is what the product takes it for (RND-64).
        let place = TreePath::parse(&path).map_err(|error| failed(&error))?;
        let (source, enabled) = (ApplicationSource::default(), EnabledTools::default());
        let found = kind::source_type(&source, tree.as_ref(), &place, enabled);
        let tool = match found.map_err(|error| failed(&error))? {
            SourceType::Helm => Tool::Helm,
            SourceType::Kustomize => Tool::Kustomize,
            SourceType::Directory | SourceType::Plugin => {
                return Err(failed(&"holds neither a chart nor an overlay"));
            }
        };
        Ok((tree, path, tool))
    }
}

/// What the product makes of a source: the way of `tiphys render`.
fn native(
    source: &ApplicationSource,
    case: &Case,
    kube_version: &str,
    tree: Arc<MemoryTree>,
) -> Result<Vec<Value>, String> {
    let mut versions = case.api_versions.clone();
    versions.sort();
    let context = RenderContext {
        instance_name: super::programs::RELEASE.to_owned(),
        destination_namespace: super::programs::NAMESPACE.to_owned(),
        cluster: ClusterFacts::new(kube_version, versions),
        kustomize_options: case.build_options.clone(),
        ..RenderContext::default()
    };
    let tree: Arc<dyn Tree> = tree;
    let bring = |url: &str| match url {
        super::programs::REPOSITORY => Ok((Arc::clone(&tree), tree.id().to_owned())),
        other => Err(EvalError {
            code: tiphys_render::Code::FailedPrecondition,
            reason: "network-required",
            message: format!("{other:?} would have to come from the network"),
        }),
    };
    let results = eval::manifests(std::slice::from_ref(source), &context, &Budget::default(), bring);
    let results = results.map_err(|error| error.message)?;
    Ok(results.into_iter().flat_map(|result| result.objects).collect())
}

fn objects(printed: &Result<String, String>) -> Result<Vec<Value>, String> {
    let text = printed.as_ref().map_err(Clone::clone)?;
    parse_manifests(text, &Budget::default()).map_err(|error| error.to_string())
}

fn judge(native: &Result<Vec<Value>, String>, printed: &Result<String, String>) -> Verdict {
    match (native, &objects(printed)) {
        (Ok(native), Ok(expected)) => {
            let differences = compare_objects(expected, native, Strictness::Values);
            if differences.is_empty() {
                Verdict::Equal
            } else {
                Verdict::Differs(differences.iter().take(SHOWN_MAX).map(ToString::to_string).collect())
            }
        }
        (Err(_), Err(_)) => Verdict::BothRefuse,
        (Err(error), Ok(_)) => Verdict::Differs(vec![format!("refused here: {error}")]),
        (Ok(_), Err(error)) => Verdict::Differs(vec![format!("refused by the program: {error}")]),
    }
}

/// A chart that uses chance or the time differs from itself: then everything but texts is compared.
fn despite_chance(
    verdict: Verdict,
    native: &Result<Vec<Value>, String>,
    one: &Result<String, String>,
    other: &Result<String, String>,
) -> Verdict {
    let (Ok(native), Ok(one), Ok(other)) = (native, objects(one), objects(other)) else { return verdict };
    if one == other {
        return verdict;
    }
    let differences = compare_objects(&one, native, Strictness::Structure);
    if differences.is_empty() {
        Verdict::EqualButForChance
    } else {
        Verdict::Differs(differences.iter().take(SHOWN_MAX).map(ToString::to_string).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(native: &str, printed: Result<&str, &str>) -> Verdict {
        let printed = printed.map(str::to_owned).map_err(str::to_owned);
        judge(&parse_manifests(native, &Budget::default()).map_err(|error| error.to_string()), &printed)
    }

    #[test]
    fn rnd_247_results_are_judged_object_by_object() {
        let one = "kind: A\napiVersion: v1\nmetadata: {name: x}\n";
        assert_eq!(verdict(one, Ok("apiVersion: v1\nkind: A\nmetadata:\n  name: x\n")), Verdict::Equal);
        assert_eq!(verdict("{", Err("no")), Verdict::BothRefuse);
        let Verdict::Differs(lines) = verdict(one, Err("no")) else { panic!("a refusal is no equality") };
        assert_eq!(lines, ["refused by the program: no"]);
        let Verdict::Differs(lines) = verdict(one, Ok(&one.replace('x', "other"))) else {
            panic!("another name")
        };
        assert_eq!(lines, ["A /other is missing", "A /x should not be there"]);
    }

    #[test]
    fn rnd_247_chance_of_the_program_is_known_by_two_results() {
        let text = |value: &str| Ok(format!("kind: A\nmetadata: {{name: x}}\ndata: {{a: {value}}}\n"));
        let native = objects(&text("c"));
        let differs = judge(&native, &text("a"));
        assert!(matches!(differs, Verdict::Differs(_)));
        assert_eq!(
            despite_chance(differs.clone(), &native, &text("a"), &text("b")),
            Verdict::EqualButForChance
        );
        assert_eq!(despite_chance(differs.clone(), &native, &text("a"), &text("a")), differs);
    }

    #[test]
    fn rnd_247_what_the_directory_holds_decides() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("overlay")).unwrap();
        std::fs::write(folder.path().join("overlay/kustomization.yaml"), "resources: []").unwrap();
        let place = |path: &str| folder.path().join(path).to_string_lossy().into_owned();
        let case = Case { directory: place("overlay"), root: place(""), ..Case::default() };
        let (_, path, tool) = Trees::default().load(&case).unwrap();
        assert_eq!((path.as_str(), tool), ("overlay", Tool::Kustomize));
        let case = Case { directory: place(""), ..Case::default() };
        assert!(
            Trees::default()
                .load(&case)
                .unwrap_err()
                .message
                .ends_with("holds neither a chart nor an overlay")
        );
        let case = Case { directory: place(""), root: place("overlay"), ..Case::default() };
        assert!(Trees::default().load(&case).unwrap_err().message.ends_with("is outside of its root"));
    }
}
