//! Renders the cases that `hack/oracles/charts` prepared and prints where the results differ from the real Helm's.
//!
//! `helm_compare CASES.jsonl [--helm3] [--filter TEXT] [--show N] [--words]`

#![expect(clippy::print_stdout, reason = "a program")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use support::{Failure, World, load};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_helm::{
    Chart, Documents, File, HelmVersion, RenderLimits, RenderRequest, Strictness, UserValues,
    compare_objects, render,
};

mod support;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (mut list, mut version, mut filter, mut show) = (None, HelmVersion::V4, String::new(), 3);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--helm3" => version = HelmVersion::V3,
            "--filter" => filter = arguments.next().ok_or("--filter TEXT")?,
            "--words" => {}
            "--show" => show = arguments.next().ok_or("--show N")?.parse()?,
            _ => list = Some(PathBuf::from(argument)),
        }
    }
    let list = list.ok_or("helm_compare CASES.jsonl [--helm3] [--filter TEXT] [--show N]")?;
    let folder = list.parent().ok_or("a file")?.to_owned();
    let mut charts = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(&list)?.lines().filter(|line| line.contains(&filter)) {
        let case: Value = serde_json::from_str(line)?;
        let outcome = run(&case, version, &folder, &mut charts)?;
        *counts.entry(outcome.word()).or_default() += 1;
        if let Outcome::Different(lines) = outcome {
            println!("{}: {}", text(&case, "number"), text(&case, "id"));
            lines.iter().take(show).for_each(|line| println!("    {line}"));
        }
    }
    println!("{counts:?}");
    Ok(())
}

/// What a case came to.
enum Outcome {
    Equal,
    BothRefuse,
    /// With a text that is not Helm's.
    OtherWords,
    Different(Vec<String>),
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::BothRefuse => "refused by both",
            Self::OtherWords => "refused by both in other words",
            Self::Different(_) => "different",
        }
    }
}

fn text(case: &Value, key: &str) -> String {
    match case.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn texts(case: &Value, key: &str) -> Vec<String> {
    let items = case.get(key).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

type Charts = BTreeMap<PathBuf, Result<Arc<Chart>, String>>;

fn run(case: &Value, version: HelmVersion, folder: &Path, charts: &mut Charts) -> Result<Outcome, Failure> {
    let expected =
        case.get(if version == HelmVersion::V4 { "helm4" } else { "helm3" }).unwrap_or(&Value::Null);
    let actual = rendered(case, version, charts)?;
    let words = std::env::args().any(|argument| argument == "--words");
    Ok(match (expected.get("output"), actual) {
        (None, Err(error)) => {
            let helm = text(expected, "error");
            if helm.trim() == error.trim() {
                Outcome::BothRefuse
            } else if class(&helm) == class(&error) {
                if words {
                    println!("helm:   {}\ntiphys: {}", one_line(&helm), one_line(&error));
                }
                Outcome::OtherWords
            } else {
                Outcome::Different(vec![
                    format!("helm:   {}", one_line(&helm)),
                    format!("tiphys: {}", one_line(&error)),
                ])
            }
        }
        (None, Ok(_)) => {
            Outcome::Different(vec![format!("helm refuses: {}", one_line(&text(expected, "error")))])
        }
        (Some(_), Err(error)) => Outcome::Different(vec![format!("tiphys refuses: {}", one_line(&error))]),
        (Some(output), Ok(actual)) => {
            let output = std::fs::read_to_string(folder.join(output.as_str().unwrap_or_default()))?;
            let limits = Limits { bytes_max: 1 << 30, ..Limits::default() };
            let expected = yaml::parse_documents(&output, Dialect::Sigs, &limits)?;
            let varies = case.get("varies").and_then(Value::as_bool).unwrap_or(false);
            let strictness = if varies { Strictness::Structure } else { Strictness::Values };
            let differences = compare_objects(&expected, &actual, strictness);
            if differences.is_empty() {
                Outcome::Equal
            } else {
                Outcome::Different(differences.iter().map(ToString::to_string).collect())
            }
        }
    })
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ⏎ ").chars().take(400).collect()
}

/// What kind of refusal it is.
fn class(error: &str) -> &'static str {
    let classes = [
        ("execution error at", "fail"),
        ("parse error at", "parse"),
        ("values don't meet the specifications", "schema"),
        ("chart requires kubeVersion", "kube-version"),
        ("missing in charts/ directory", "missing"),
        ("YAML parse error on", "yaml"),
        ("nil pointer evaluating", "nil-pointer"),
        ("not defined", "no-template"),
        ("no template", "no-template"),
        ("validation: ", "validation"),
        ("wrong type for value", "type"),
        ("incompatible types for comparison", "type"),
        ("executing", "template"),
        ("are not installable", "library"),
    ];
    classes.into_iter().find(|(part, _)| error.contains(part)).map_or("other", |(_, class)| class)
}

fn rendered(
    case: &Value,
    version: HelmVersion,
    charts: &mut Charts,
) -> Result<Result<Vec<Value>, String>, Failure> {
    let path = PathBuf::from(text(case, "chart"));
    if !charts.contains_key(&path) {
        let chart = load(&path, version)?;
        charts.insert(path.clone(), chart);
    }
    let chart = match charts.get(&path) {
        Some(Ok(chart)) => Arc::clone(chart),
        Some(Err(error)) => return Ok(Err(error.clone())),
        None => return Err("no chart".into()),
    };
    let mut files = Vec::new();
    for name in texts(case, "values") {
        let data = std::fs::read(path.join(&name))?;
        files.push(File { name, data: data.into() });
    }
    let values = UserValues {
        files,
        set: texts(case, "set"),
        set_string: texts(case, "setString"),
        set_file: Vec::new(),
    };
    let request = RenderRequest {
        chart: &chart,
        version,
        release_name: &text(case, "release"),
        namespace: &text(case, "namespace"),
        kube_version: Some(&text(case, "kubeVersion")),
        api_versions: &texts(case, "apiVersions"),
        values: &values,
        include_crds: true,
        skip_schema_validation: false,
        skip_tests: false,
        schema_documents: &Documents::new(),
        repositories: &[],
        determinism: None,
        limits: RenderLimits::default(),
    };
    let rendered = render(&request, &World);
    Ok(rendered.map(|rendered| rendered.objects().cloned().collect()).map_err(|error| error.to_string()))
}
