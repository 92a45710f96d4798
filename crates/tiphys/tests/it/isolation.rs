//! The page "What separates tenants" is whole: each way to an object, and each field by which a tenant names something,
//! has a row, and the tests that the rows name exist (INV-6, INV-16).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rows of the table below a heading: what each is about, and the tests that it names.
fn rows(page: &str, heading: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let section = page.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("docs/isolation.md has no section {heading:?}"));
    let in_backticks = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            (in_backticks(cells[0]), in_backticks(cells.last().unwrap()))
        })
        .collect()
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/isolation.md")).unwrap()
}

/// Whether a row is about a path: `a.*` is about everything below `a`.
fn is_about(row: &str, path: &str) -> bool {
    match row.strip_suffix(".*") {
        Some(prefix) => path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')),
        None => row == path,
    }
}

/// Every path has a row, and every row has a path.
fn covers(heading: &str, paths: &BTreeSet<String>) {
    let rows: Vec<String> = rows(&page(), heading).into_iter().flat_map(|(about, _)| about).collect();
    let missing: Vec<&String> =
        paths.iter().filter(|path| !rows.iter().any(|row| is_about(row, path))).collect();
    assert!(missing.is_empty(), "docs/isolation.md, {heading}: no row for {missing:#?}");
    let idle: Vec<&String> =
        rows.iter().filter(|row| !paths.iter().any(|path| is_about(row, path))).collect();
    assert!(idle.is_empty(), "docs/isolation.md, {heading}: nothing is {idle:#?}");
}

#[test]
fn inv_6_every_call_of_the_api_has_a_row() {
    let methods = tiphys_wire::schema().methods();
    let paths = methods.map(|(_, method)| method.path.trim_start_matches('/').to_owned()).collect();
    covers("Calls of the API", &paths);
}

/// Paths that the server answers beside calls, as its sources register them.
#[test]
fn inv_6_every_other_path_of_the_server_has_a_row() {
    let mut paths = BTreeSet::new();
    for text in sources("server/src").chain(sources("process/src")).chain(sources("control/src/http.rs")) {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for mark in [".at(\"", ".below(\"", ".route(\""] {
            let found = text.split(mark).skip(1).filter_map(|rest| rest.split('"').next());
            paths.extend(found.filter(|path| path.starts_with('/')).map(str::to_owned));
        }
    }
    // Paths that the pages and the proxy of extensions decide about themselves.
    paths.extend(["/extensions/".to_owned(), "/*".to_owned()]);
    assert!(paths.contains("/terminal"), "{paths:?}: the way they are found is broken");
    covers("Other paths of the server", &paths);
}

/// The texts of a file, or of all files below a folder of `crates`.
fn sources(place: &str) -> impl Iterator<Item = String> {
    let mut open = vec![root().join("crates").join(place)];
    std::iter::from_fn(move || {
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                return Some(std::fs::read_to_string(&path).unwrap());
            }
        }
        None
    })
}

/// Paths of the fields of a schema, without what is nested as deep as itself again.
fn fields(schema: &Value, path: &str, leave_out: &[&str], found: &mut BTreeSet<String>) {
    let below = schema.get("items").unwrap_or(schema);
    let Some(properties) = below.get("properties").and_then(Value::as_object) else {
        found.insert(path.to_owned());
        return;
    };
    for (name, schema) in properties.iter().filter(|(name, _)| !leave_out.contains(&name.as_str())) {
        fields(schema, &format!("{path}.{name}"), leave_out, found);
    }
}

/// Members of a kind.
fn schema_of(kind: &str) -> Value {
    let manifests = tiphys_api::crd::manifests();
    let definition = manifests.iter().find(|it| it["spec"]["names"]["kind"] == kind).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clone()
}

#[test]
fn inv_6_every_field_of_an_application_has_a_row() {
    let mut found = BTreeSet::new();
    let schema = schema_of("Application");
    // Each of several sources is as the only one.
    for (name, schema) in schema["spec"]["properties"].as_object().unwrap() {
        if name != "sources" {
            fields(schema, name, &[], &mut found);
        }
    }
    fields(&schema["operation"], "operation", &["source", "sources"], &mut found);
    covers("What an Application names", &found);
}

#[test]
fn inv_6_every_field_of_a_generator_has_a_row() {
    let spec = schema_of("ApplicationSet")["spec"].clone();
    let generators = &spec["properties"]["generators"]["items"]["properties"];
    let mut found = BTreeSet::new();
    for (name, schema) in generators.as_object().unwrap() {
        // Generators inside of these two are generators again.
        if !["matrix", "merge"].contains(&name.as_str()) {
            fields(schema, name, &["template"], &mut found);
        }
    }
    covers("What a generator names", &found);
}

/// The fields of a template are those of an Application.
#[test]
fn inv_6_every_other_field_of_a_set_has_a_row() {
    let mut found = BTreeSet::from(["template.*".to_owned()]);
    for (name, schema) in schema_of("ApplicationSet")["spec"]["properties"].as_object().unwrap() {
        if !["generators", "template"].contains(&name.as_str()) {
            fields(schema, name, &[], &mut found);
        }
    }
    covers("What else a set names", &found);
}

/// Whoever may write a project decides about these; no tenant should.
#[test]
fn inv_6_every_field_of_a_project_has_a_row() {
    let mut found = BTreeSet::new();
    fields(&schema_of("AppProject")["spec"], "spec", &["description"], &mut found);
    covers("What a project permits", &found);
}

#[test]
fn inv_6_tests_that_the_rows_name_exist() {
    let headings = [
        "Calls of the API",
        "Other paths of the server",
        "What an Application names",
        "What a generator names",
        "What else a set names",
        "What a project permits",
        "What everybody shares",
    ];
    let page = page();
    let texts: Vec<String> = sources("").collect();
    let is_there = |name: &String| texts.iter().any(|text| text.contains(&format!("fn {name}(")));
    for heading in headings {
        for (about, tests) in rows(&page, heading) {
            assert!(!tests.is_empty(), "{heading}: {about:?} names no test");
            let missing: Vec<&String> = tests.iter().filter(|name| !is_there(name)).collect();
            assert!(missing.is_empty(), "{heading}: {about:?} names tests that there are not: {missing:?}");
        }
    }
}
