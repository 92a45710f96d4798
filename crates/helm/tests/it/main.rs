//! Charts of our own against what the real Helm 4.3.1 and Helm 3.19.4 made of them (`hack/oracles/charts expect`).

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "helpers of tests count as no tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tiphys_go::template::Still;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_helm::{
    Documents, File, HelmVersion, LoadLimits, RenderLimits, RenderRequest, Strictness, UserValues,
    compare_objects, load_directory, render,
};
use tiphys_tree::{MemoryEntry, MemoryTree, TreePath};

mod bounds;
mod loading;

/// Errors of which Helm's parsers of YAML and JSON say more than ours, or other words; what comes before is compared.
const OTHER_WORDS: [(&str, &str); 2] =
    [("converting YAML to JSON: ", ""), ("unexpected EOF", "unexpected end of JSON input")];

fn walk(path: &Path, name: &str, entries: &mut Vec<(String, MemoryEntry)>) {
    for member in std::fs::read_dir(path).unwrap() {
        let member = member.unwrap();
        let own = member.file_name().to_string_lossy().into_owned();
        let name = if name.is_empty() { own } else { format!("{name}/{own}") };
        if member.path().is_dir() {
            walk(&member.path(), &name, entries);
        } else {
            entries.push((name, MemoryEntry::File(std::fs::read(member.path()).unwrap().into(), false)));
        }
    }
}

fn texts(case: &Value, key: &str) -> Vec<String> {
    let items = case[key].as_array().into_iter().flatten();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn rendered(folder: &Path, case: &Value, version: HelmVersion) -> Result<Vec<Value>, String> {
    let mut entries = Vec::new();
    walk(&folder.join("chart"), "", &mut entries);
    let tree = MemoryTree::from_entries(entries).unwrap();
    let file = |name: String| {
        let data = std::fs::read(folder.join("chart").join(&name)).unwrap();
        File { name, data: data.into() }
    };
    let values = UserValues {
        files: texts(case, "values").into_iter().map(file).collect(),
        set: texts(case, "set"),
        set_string: texts(case, "setString"),
        set_file: Vec::new(),
    };
    let text = |key: &str, usual: &'static str| case[key].as_str().unwrap_or(usual).to_owned();
    let flag = |key: &str| case[key].as_bool().unwrap_or(false);
    let chart = load_directory(&tree, &TreePath::root(), version, &LoadLimits::default());
    let request = RenderRequest {
        chart: &Arc::new(chart.map_err(|error| error.to_string())?),
        version,
        release_name: &text("release", "rel"),
        namespace: &text("namespace", "apps"),
        kube_version: Some(&text("kubeVersion", "1.36.0")),
        api_versions: &texts(case, "apiVersions"),
        values: &values,
        include_crds: true,
        skip_schema_validation: flag("skipSchemaValidation"),
        skip_tests: flag("skipTests"),
        schema_documents: &Documents::new(),
        repositories: &[],
        determinism: None,
        limits: RenderLimits::default(),
    };
    let rendered = render(&request, &Still(Timestamp::UNIX_EPOCH)).map_err(|error| error.to_string())?;
    Ok(rendered.objects().cloned().collect())
}

/// What Helm says, and what is wrong with what we say.
fn check(case: &Path, version: HelmVersion) -> Result<(), String> {
    let own = match version {
        HelmVersion::V4 => "helm4",
        HelmVersion::V3 => "helm3",
    };
    // Helm 3's results are only there when they are others.
    let read = |suffix: &str| {
        let of = |helm: &str| std::fs::read_to_string(case.with_extension(format!("{helm}.{suffix}"))).ok();
        of(own)
    };
    let (mut output, mut error) = (read("yaml"), read("error"));
    if output.is_none() && error.is_none() {
        output = std::fs::read_to_string(case.with_extension("helm4.yaml")).ok();
        error = std::fs::read_to_string(case.with_extension("helm4.error")).ok();
    }
    let options: Value = serde_json::from_str(&std::fs::read_to_string(case).unwrap()).unwrap();
    match (output, error, rendered(case.parent().unwrap(), &options, version)) {
        (Some(output), _, Ok(objects)) => {
            let limits = Limits::default();
            let expected = yaml::parse_documents(&output, Dialect::Sigs, &limits).unwrap();
            let differences = compare_objects(&expected, &objects, Strictness::Values);
            let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
            if lines.is_empty() { Ok(()) } else { Err(lines.join("\n  ")) }
        }
        (_, Some(expected), Err(error)) if comparable(&expected) == comparable(&error) => Ok(()),
        (_, Some(expected), Err(error)) => Err(format!("expected {expected}\n  got      {error}")),
        (_, Some(expected), Ok(_)) => Err(format!("expected {expected}")),
        (_, None, Err(error)) => Err(error),
        (None, None, Ok(_)) => Err("nothing to compare with".to_owned()),
    }
}

/// An error by its lines, in any order: failures of schemas come as Go's maps give them.
fn comparable(error: &str) -> String {
    let mut lines: Vec<String> = error
        .lines()
        .map(|line| {
            let line = OTHER_WORDS.iter().fold(line.to_owned(), |line, (helm, ours)| match ours {
                &"" => line.split_once(helm).map_or(line.clone(), |(before, _)| before.to_owned()),
                ours => line.replace(helm, ours),
            });
            line.trim().to_owned()
        })
        .filter(|line| !line.is_empty())
        .collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let members = |folder: &Path| {
        let mut members: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|member| member.unwrap().path()).collect();
        members.sort();
        members
    };
    let topics = members(&folder).into_iter().filter(|topic| topic.is_dir());
    let cases = topics.flat_map(|topic| members(&topic));
    cases.filter(|case| case.extension().is_some_and(|extension| extension == "json")).collect()
}

fn check_all(version: HelmVersion) {
    let cases = cases();
    assert!(cases.len() > 50, "{}", cases.len());
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| check(case, version).err().map(|what| format!("{}:\n  {what}", case.display())))
        .collect();
    assert!(failed.is_empty(), "{} of {} cases differ\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn rnd_247_charts_of_our_own_render_as_with_helm_4() {
    check_all(HelmVersion::V4);
}

#[test]
fn rnd_164_charts_of_our_own_render_as_with_helm_3() {
    check_all(HelmVersion::V3);
}
