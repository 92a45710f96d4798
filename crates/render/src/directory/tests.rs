use serde_json::json;

use super::*;
use crate::{MemoryEntry, MemoryTree};

fn names(options: Value, files: &[&str]) -> Vec<String> {
    let options: DirectorySource = serde_json::from_value(options).unwrap();
    let tree = MemoryTree::from_files(files.iter().map(|name| (*name, ""))).unwrap();
    let found = find_files(&tree, &TreePath::root(), &options, &Budget::default()).unwrap();
    found.into_iter().map(|file| file.listed.to_string()).collect()
}

fn render_in(
    tree: &MemoryTree,
    directory: &TreePath,
    options: &DirectorySource,
    budget: &Budget,
) -> Result<Vec<Value>, RenderError> {
    let environment = Environment::from([("A".to_owned(), "1".to_owned())]);
    let jsonnet = Jsonnet { evaluator: &crate::jsonnet::InProcess, environment: &environment };
    render(tree, directory, options, Some(&jsonnet), budget)
}

fn run_with(
    options: &DirectorySource,
    files: &[(&str, &str)],
    budget: &Budget,
) -> Result<Vec<Value>, RenderError> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let tree = MemoryTree::from_files(files).unwrap();
    render_in(&tree, &TreePath::root(), options, budget)
}

fn run(files: &[(&str, &str)]) -> Result<Vec<Value>, RenderError> {
    run_with(&DirectorySource { recurse: true, ..DirectorySource::default() }, files, &Budget::default())
}

fn text(result: Result<Vec<Value>, RenderError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn rnd_69_walks_in_order_of_components() {
    let files = ["b.yaml", "a/z.yml", "a.yaml", "a/b/c.json", "x.YAML", "n.txt", "Z.jsonnet"];
    assert_eq!(names(json!({}), &files), ["Z.jsonnet", "a.yaml", "b.yaml"]);
    assert_eq!(
        names(json!({"recurse": true}), &files),
        ["Z.jsonnet", "a/b/c.json", "a/z.yml", "a.yaml", "b.yaml"]
    );
    assert_eq!(names(json!({"disableExtensionFilter": true}), &files).len(), 5);
}

#[test]
fn rnd_70_links_to_files_count() {
    let link = |to: &str| MemoryEntry::Symlink(to.to_owned());
    let tree = MemoryTree::from_entries([
        ("app/real.yaml", MemoryEntry::File("kind: A".into(), false)),
        ("app/link.yaml", link("../shared/x")),
        ("app/dir.yaml", link("../shared")),
        ("app/gone.yaml", link("nowhere")),
        ("shared/x", MemoryEntry::File("kind: B".into(), false)),
    ])
    .unwrap();
    let app = TreePath::parse("app").unwrap();
    let objects = render_in(&tree, &app, &DirectorySource::default(), &Budget::default()).unwrap();
    assert_eq!(objects, [json!({"kind": "B"}), json!({"kind": "A"})]);

    let looped = MemoryTree::from_entries([("a.yaml", link("b")), ("b", link("a.yaml"))]).unwrap();
    let root = TreePath::root();
    let error = render_in(&looped, &root, &DirectorySource::default(), &Budget::default()).unwrap_err();
    assert_eq!((error.reason, error.message.as_str()), (Reason::SymlinkLoop, "too many links"));
}

#[test]
fn rnd_71_exclude_wins_over_include() {
    let files = ["a.yaml", "sub/a.yaml", "sub/b.yaml", "config.yaml", "env-usw2/x.yaml", "env-use1/x.yaml"];
    let found = |include: &str, exclude: &str| {
        names(json!({"recurse": true, "include": include, "exclude": exclude}), &files)
    };
    assert_eq!(found("*.yaml", "sub/*"), ["a.yaml", "config.yaml", "env-use1/x.yaml", "env-usw2/x.yaml"]);
    assert_eq!(found("**/*.yaml", ""), ["env-use1/x.yaml", "env-usw2/x.yaml", "sub/a.yaml", "sub/b.yaml"]);
    assert_eq!(found("{config.yaml,env-usw2/*}", ""), ["config.yaml", "env-usw2/x.yaml"]);
    assert_eq!(found("[", ""), Vec::<String>::new());
    assert_eq!(found("", "[").len(), 6);
}

#[test]
fn rnd_72_marked_files_are_skipped() {
    let files = [("a.yaml", "# +argocd:skip-file-rendering\n{{ broken"), ("b.yaml", "kind: B")];
    assert_eq!(run(&files), Ok(vec![json!({"kind": "B"})]));
    assert_eq!(run(&[("a.jsonnet", "// +argocd:skip-file-rendering")]), Ok(vec![]));
}

#[test]
fn rnd_73_sizes_are_summed() {
    let budget = |limit| Budget { combined_manifest_bytes: limit, ..Budget::default() };
    let files = [("a.yaml", "kind: A"), ("b.yaml", "kind: B")];
    let options = DirectorySource::default();
    assert_eq!(run_with(&options, &files, &budget(14)).map(|objects| objects.len()), Ok(2));
    assert_eq!(run_with(&options, &files, &budget(0)).map(|objects| objects.len()), Ok(2));
    let error = run_with(&options, &files, &budget(13)).unwrap_err();
    assert_eq!(error.reason, Reason::ManifestsTooLarge);
    assert_eq!(error.message, "exceeded max combined manifest file size");
}

#[test]
fn rnd_74_files_may_be_utf_16() {
    let mut content = vec![0xff, 0xfe];
    content.extend("kind: A".encode_utf16().flat_map(u16::to_le_bytes));
    let tree = MemoryTree::from_files([("a.yaml", content)]).unwrap();
    let objects = render_in(&tree, &TreePath::root(), &DirectorySource::default(), &Budget::default());
    assert_eq!(objects, Ok(vec![json!({"kind": "A"})]));
}

#[test]
fn rnd_75_json_files_hold_one_object() {
    assert_eq!(run(&[("d/a.json", " {\"kind\":\"A\",\"n\":1} \n")]), Ok(vec![json!({"kind": "A", "n": 1})]));
    let error = run(&[("d/a.json", "{\"kind\":\"A\"}{}")]).unwrap_err();
    assert_eq!(error.reason, Reason::JsonMultipleObjects);
    assert_eq!(
        error.message,
        "Found multiple objects in \"a.json\". Only single objects are allowed in JSON files."
    );
    assert!(text(run(&[("a.json", "{")])).starts_with("Failed to unmarshal \"a.json\": "));
    assert!(text(run(&[("a.json", "")])).starts_with("Failed to unmarshal \"a.json\": "));
    assert_eq!(text(run(&[("a.json", "{}")])), "Failed to unmarshal \"a.json\": Object 'Kind' is missing");
    assert!(run(&[("a.json", "[]")]).is_err());
}

#[test]
fn rnd_76_files_that_are_no_manifests_are_ignored() {
    assert_eq!(
        run(&[("values.yaml", "replicas: 3\n"), ("b.yaml", "kind: B\n")]),
        Ok(vec![json!({"kind": "B"})])
    );
    assert_eq!(run(&[("ci.yml", "- a\n- b\n")]), Ok(vec![]));
    assert_eq!(run(&[("t.yaml", "{{ template }}\n")]), Ok(vec![]));
}

#[test]
fn rnd_76_files_that_look_like_manifests_must_be_right() {
    let broken = "apiVersion: v1\nkind: A\nmetadata: {\n";
    let error = run(&[("t.yaml", broken)]).unwrap_err();
    assert_eq!((error.reason, error.code()), (Reason::ManifestUnmarshal, crate::Code::FailedPrecondition));
    assert!(error.message.starts_with("Failed to unmarshal \"t.yaml\": "), "{error}");
    assert!(text(run(&[("t.yaml", "kind: A\n---\nx: 1\n")])).contains("Object 'Kind' is missing"));
}

/// C15: one half of a manifest looked like no manifest at all, and its object was pruned.
#[test]
fn rnd_76_a_manifest_that_is_broken_half_way_is_an_error() {
    for broken in [
        "apiVersion: v1\nkind: ConfigMap\ndata: {",
        "apiVersion: v1\nmetadata: {name: a}\n",
        "\t# c\n  kind: A\n metadata: x",
        "- kind: A\n  x: [",
        "{\"kind\": \"A\",\n \"metadata\": {",
        "{\n  \"apiVersion\" : \"v1\",\n",
        "kind : [",
        "'kind': {",
        "x: 1\r  kind: A\r",
    ] {
        for name in ["t.yaml", "t.yml"] {
            let error = run(&[(name, broken), ("good.yaml", "kind: B")]).unwrap_err();
            assert_eq!(error.reason, Reason::ManifestUnmarshal, "{broken}");
            assert!(error.message.starts_with(&format!("Failed to unmarshal {name:?}: ")), "{error}");
            assert!(error.message.contains("line "), "{error}");
        }
    }
    for ignored in ["# kind: A\n", "kinds: [", "mykind: A", "a: b: c", "\"kinda\": 1", "{{ kind }}: {"] {
        assert_eq!(run(&[("t.yaml", ignored)]), Ok(vec![]), "{ignored}");
    }
}

/// RND-76: the line is that of the file, whichever document it is in.
#[test]
fn rnd_76_errors_name_the_line_of_the_file() {
    let wrong = text(run(&[("t.yaml", "kind: A\n---\nkind: B\n---\nx: 1\nkind: [\n")]));
    assert!(wrong.contains("line 7:"), "{wrong}");
    let kindless = text(run(&[("t.yaml", "---\nkind: A\n--- # two\nx: 1\n")]));
    assert!(kindless.ends_with("Object 'Kind' is missing in the document at line 3"), "{kindless}");
}

/// RND-76: bytes that are no text may still be a manifest, in UTF-16 without its mark.
#[test]
fn rnd_76_a_manifest_in_another_encoding_is_an_error() {
    let mut content: Vec<u8> = "kind: A\nname: \u{1f600}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    content.push(0xff);
    let tree = MemoryTree::from_files([("a.yaml", content)]).unwrap();
    let objects = render_in(&tree, &TreePath::root(), &DirectorySource::default(), &Budget::default());
    assert_eq!(objects.unwrap_err().reason, Reason::ManifestUnmarshal);
}

/// C15, INV-1: a pointer in place of a manifest was ignored, and the object pruned.
#[test]
fn inv_1_a_git_lfs_pointer_is_an_error() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    for name in ["a.yaml", "a.yml", "a.json", "d/a.jsonnet"] {
        let error = run(&[(name, pointer), ("b.yaml", "kind: B")]).unwrap_err();
        assert_eq!(error.reason, Reason::ExecRequired);
        assert!(error.message.contains(name) && error.message.contains("Git LFS"), "{error}");
    }
    let excluded = DirectorySource { exclude: "a.yaml".to_owned(), ..DirectorySource::default() };
    let files = [("a.yaml", pointer), ("b.yaml", "kind: B"), ("logo.png", pointer)];
    assert_eq!(run_with(&excluded, &files, &Budget::default()).map(|objects| objects.len()), Ok(1));
    // A text about the format is none of its pointers.
    let about = "kind: A\ndata: {x: 'version https://git-lfs.github.com/spec/v1'}\n";
    assert_eq!(run(&[("a.yaml", about)]).map(|objects| objects.len()), Ok(1));
}

/// C15, INV-1: a submodule counted as an empty directory, and its objects were pruned.
#[test]
fn inv_1_a_submodule_below_the_path_is_an_error() {
    let tree = MemoryTree::from_entries([
        ("app/a.yaml", MemoryEntry::File("kind: A".into(), false)),
        ("app/vendor/lib", MemoryEntry::Submodule),
        ("linked/b.yaml", MemoryEntry::Symlink("../app/vendor/lib/b.yaml".to_owned())),
        ("flat/a.yaml", MemoryEntry::File("kind: A".into(), false)),
        ("flat/lib", MemoryEntry::Submodule),
    ])
    .unwrap();
    let run = |path: &str, recurse: bool, exclude: &str| {
        let mut request = crate::RenderRequest::default();
        request.source.path = path.to_owned();
        let exclude = exclude.to_owned();
        request.source.directory = Some(DirectorySource { recurse, exclude, ..DirectorySource::default() });
        crate::render_offline(&request, &crate::Inputs::of(&tree), &Budget::default())
            .map(|rendered| rendered.objects.len())
    };
    for (path, recurse, submodule) in [
        ("app", true, "app/vendor/lib"),
        ("app/vendor/lib", false, "app/vendor/lib"),
        ("app/vendor/lib/deep", false, "app/vendor/lib"),
        ("linked", false, "app/vendor/lib"),
        ("flat", true, "flat/lib"),
    ] {
        let error = run(path, recurse, "").unwrap_err();
        assert_eq!(error.reason, Reason::ExecRequired, "{path}");
        assert!(error.message.starts_with(&format!("{submodule} is a git submodule")), "{error}");
    }
    // One that would not be entered says nothing about the objects.
    assert_eq!(run("flat", false, ""), Ok(1));
    assert_eq!(run("app", false, ""), Ok(1));
    assert_eq!(run("app", true, "vendor/lib"), Ok(1));
}

#[test]
fn rnd_78_jsonnet_becomes_objects() {
    let with = |options: Value, text: &str| {
        let mut options: DirectorySource = serde_json::from_value(options).unwrap();
        options.recurse = true;
        run_with(
            &options,
            &[("sub/a.jsonnet", text), ("sub/lib.libsonnet", "{kind: 'L'}")],
            &Budget::default(),
        )
    };
    let plain = |text: &str| with(json!({}), text);
    assert_eq!(plain("{kind: 'A'}"), Ok(vec![json!({"kind": "A"})]));
    assert_eq!(
        plain("[{kind: 'A'}, import 'lib.libsonnet']"),
        Ok(vec![json!({"kind": "A"}), json!({"kind": "L"})])
    );
    assert_eq!(plain("[]"), Ok(vec![]));
    let variables = json!({"jsonnet": {"tlas": [{"name": "x", "value": "v$A"}, {"name": "y", "value": "$A+1", "code": true}],
        "extVars": [{"name": "e", "value": "$$A"}]}});
    let objects = with(variables, "function(x, y) {kind: x, y: y, e: std.extVar('e')}");
    assert_eq!(objects, Ok(vec![json!({"kind": "v1", "y": 2, "e": "$A"})]));
    for (text, reason, message) in [
        ("1", Reason::JsonnetOutput, "Failed to unmarshal generated json \"a.jsonnet\": "),
        ("[1]", Reason::JsonnetOutput, "Failed to unmarshal generated json \"a.jsonnet\": "),
        (
            "{a: 1}",
            Reason::JsonnetOutput,
            "Failed to unmarshal generated json \"a.jsonnet\": Object 'Kind' is missing",
        ),
        ("{", Reason::JsonnetEvaluate, "Failed to evaluate jsonnet \"a.jsonnet\": sub/a.jsonnet:1:2 "),
        ("error 'x'", Reason::JsonnetEvaluate, "Failed to evaluate jsonnet \"a.jsonnet\": RUNTIME ERROR: x"),
    ] {
        let error = plain(text).unwrap_err();
        assert!(error.reason == reason && error.message.starts_with(message), "{text}: {error}");
    }
    let error = with(json!({"jsonnet": {"libs": ["../x"]}}), "{}").unwrap_err();
    assert_eq!(error.message, "file '../x' resolved to outside repository root");
}

#[test]
fn rnd_63_jsonnet_is_skipped_where_it_is_disabled() {
    let tree = MemoryTree::from_files([("a.jsonnet", "{}"), ("b.yaml", "kind: B")]).unwrap();
    let objects = render(&tree, &TreePath::root(), &DirectorySource::default(), None, &Budget::default());
    assert_eq!(objects, Ok(vec![json!({"kind": "B"})]));
}

#[test]
fn rnd_20_a_cancelled_rendering_stops() {
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let budget = Budget { cancelled: Some(flag), ..Budget::default() };
    let error = run_with(&DirectorySource::default(), &[("a.yaml", "kind: A")], &budget).unwrap_err();
    assert_eq!(error.message, "timeout after 1m30s");
}

#[test]
fn sty_114_a_bomb_of_anchors_is_bounded() {
    let mut bomb = "kind: A\napiVersion: v1\nmetadata: {}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(",");
        bomb = format!("{bomb}a{level}: &a{level} [{refs}]\n");
    }
    let budget = Budget { memory: 1 << 20, ..Budget::default() };
    let error = run_with(&DirectorySource::default(), &[("a.yaml", &bomb)], &budget).unwrap_err();
    assert_eq!(error.reason, Reason::MemoryExceeded);
    let none = Budget { memory: 700, ..Budget::default() };
    let files = [("a.yaml", "kind: A"), ("b.yaml", "kind: B\nmore: [1,2]")];
    let error = run_with(&DirectorySource::default(), &files, &none).unwrap_err();
    assert_eq!(error.reason, Reason::MemoryExceeded);
}

#[test]
fn sty_114_deep_documents_are_bounded() {
    for deep in ["[".repeat(1_000_000), "{a: ".repeat(200_000), "- ".repeat(200_000)] {
        let text = format!("kind: A\napiVersion: v1\nmetadata:\n  {deep}");
        assert!(run(&[("a.yaml", &text)]).is_err());
    }
}

#[test]
fn sty_114_a_large_file_is_bounded() {
    let large = "#".repeat(11_000_000);
    let error = run(&[("a.yaml", &large)]).unwrap_err();
    assert_eq!(error.reason, Reason::ManifestsTooLarge);
    let deep = format!("{{\"kind\":\"A\",\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(run(&[("a.json", &deep)]).is_err());
}

/// What fails for want of memory says so, in words and codes of any other bound, so that the caller can try again
/// with more.
#[test]
fn sec_07_what_a_larger_budget_may_render_is_told_apart() {
    let budget = Budget { memory: 4_000, input_bytes: 1_000, path_bytes: 400, ..Budget::default() };
    let kinds = "kind: A\nx: [1,2,3,4]\n---\n".repeat(10);
    let list = format!("{{\"kind\":\"A\",\"x\":[{}0]}}", "0,".repeat(200));
    let comment = "#".repeat(1_001);
    let long = "x".repeat(200);
    let cases: [&[(&str, &str)]; 4] = [
        &[("a.yaml", &kinds)],
        &[("a.json", &list)],
        &[("a.yaml", &comment)],
        &[(&format!("{long}.yaml"), "kind: A")],
    ];
    for files in cases {
        let error = run_with(&DirectorySource::default(), files, &budget).unwrap_err();
        assert_eq!(error.reason, Reason::MemoryExceeded, "{error}");
        assert_eq!(
            (error.reason.as_str(), error.code()),
            ("budget-exceeded", crate::Code::ResourceExhausted)
        );
        assert!(run_with(&DirectorySource::default(), files, &Budget::default()).is_ok());
    }
}

#[test]
fn sec_07_patterns_share_their_steps_over_all_files() {
    let files: Vec<(String, String)> =
        (0..200).map(|file| (format!("{}{file}.yaml", "a".repeat(200)), String::new())).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    // Braces make it a program; stars and literals alone are found without one.
    let slow = format!("{{{}b}}", "*a".repeat(100));
    let budget = Budget { pattern_steps: 1_000_000, ..Budget::default() };
    for field in ["include", "exclude"] {
        let options: DirectorySource = serde_json::from_value(json!({field: slow})).unwrap();
        let error = run_with(&options, &files, &budget).unwrap_err();
        assert_eq!(error.reason, Reason::BudgetExceeded);
        let text =
            format!("directory.{field}: matching the files of the directory takes more than 1000000 steps");
        assert!(error.to_string().contains(&text), "{error}");
        let options: DirectorySource = serde_json::from_value(json!({field: "{*,b}9.yaml"})).unwrap();
        assert!(run_with(&options, &files, &budget).is_ok(), "an ordinary one fits");
    }
}

/// A pattern that is not looked at would exclude nothing.
#[test]
fn sec_07_a_pattern_that_is_too_long_is_an_error() {
    let long = format!("{{{}}}", "a,".repeat(500_000));
    for field in ["include", "exclude"] {
        let options: DirectorySource = serde_json::from_value(json!({field: long})).unwrap();
        let error = run_with(&options, &[("a.yaml", "")], &Budget::default()).unwrap_err();
        assert_eq!(error.reason, Reason::BudgetExceeded);
        let text = format!("directory.{field}: the pattern has more than 16384 bytes");
        assert!(error.to_string().contains(&text), "{error}");
    }
}
