use serde_json::json;

use super::*;
use crate::{MemoryTree, Reason, TreePath};

struct Nothing;

impl Imports for Nothing {
    fn load(&mut self, _from: &str, _path: &str) -> Result<Imported, String> {
        Err("there are no files".to_owned())
    }
}

fn program(text: &str) -> Program {
    Program { file: "t.jsonnet".to_owned(), text: text.to_owned(), ..Program::default() }
}

fn run(program: &Program) -> Result<serde_json::Value, String> {
    match evaluate(program, &mut Nothing) {
        Ok(text) => Ok(serde_json::from_str(&text).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

fn text(name: &str, value: &str) -> Variable {
    Variable { name: name.to_owned(), value: value.to_owned(), code: false }
}

fn code(name: &str, value: &str) -> Variable {
    Variable { code: true, ..text(name, value) }
}

#[test]
fn rnd_241_the_language() {
    for (source, expected) in [
        ("{a:: 1, b: $.a, ['c' + 1]: 2, d+: 3}", json!({"b": 1, "c1": 2, "d": 3})),
        ("local f(x, y=2) = x + y; f(1) + f(x=1, y=1)", json!(5)),
        ("[x * 2 for x in std.range(1, 3) if x != 2]", json!([2, 6])),
        ("({a: 1, b: self.a} + {a: 2}).b", json!(2)),
        ("std.manifestYamlDoc({a: [1]})", json!("\"a\":\n- 1")),
        (
            "{a: 1e20, b: 0.1, c: 123456789012345680}",
            json!({"a": 1e20, "b": 0.1, "c": 123_456_789_012_345_680_u64}),
        ),
        ("function(x=1) {a: x}", json!({"a": 1})),
    ] {
        assert_eq!(run(&program(source)), Ok(expected), "{source}");
    }
}

/// What go-jsonnet 0.22 prints for these.
#[test]
fn rnd_241_the_standard_library() {
    for (source, expected) in [
        (
            r"std.parseYaml('a: 1_000\nb: yes\nc: 0o17\nd: &x {e: 1}\nf: {<<: *x, g: .5}')",
            json!({"a": 1000, "b": true, "c": 15, "d": {"e": 1}, "f": {"e": 1, "g": 0.5}}),
        ),
        (r"std.parseYaml('a: 1\n---\nb: 2')", json!([{"a": 1}, {"b": 2}])),
        (r"std.parseYaml('--- {a: 1}')", json!([{"a": 1}])),
        (r"std.parseYaml('')", json!(null)),
        ("std.foldl(function(a, b) a + b + b, 'ab', '')", json!("aabb")),
        ("std.foldr(function(a, b) a + b, 'ab', 'c')", json!("abc")),
        ("[std.xor(true, false), std.xnor(true, false)]", json!([true, false])),
        ("std.strReplace('abab', 'ab', 'x')", json!("xx")),
        ("std.thisFile", json!("t.jsonnet")),
        ("[std.length('\u{e9}\u{1f600}'), std.base64('x'), std.md5('a')[:4]]", json!([2, "eA==", "0cc1"])),
        ("std.native('parseYaml')", json!(null)),
    ] {
        assert_eq!(run(&program(source)), Ok(expected), "{source}");
    }
    for (source, expected) in [
        (r"std.parseYaml('{')", "failed to parse YAML"),
        ("std.parseYaml(1)", "std.parseYaml wants a text"),
        ("std.xor(1, true)", "Unexpected type number, expected boolean"),
        ("std.strReplace('a', '', 'x')", "must not be zero length"),
    ] {
        let error = run(&program(source)).unwrap_err();
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn rnd_78_variables_are_texts_or_code() {
    let with = |source: &str, arguments: Vec<Variable>, ext_vars: Vec<Variable>| {
        run(&Program { arguments, ext_vars, ..program(source) })
    };
    let both = vec![text("x", "1+1"), code("y", "1+1")];
    assert_eq!(with("function(x, y) [x, y]", both.clone(), vec![]), Ok(json!(["1+1", 2])));
    assert_eq!(with("[std.extVar('x'), std.extVar('y')]", vec![], both.clone()), Ok(json!(["1+1", 2])));
    let twice = vec![text("x", "a"), text("x", "b")];
    assert_eq!(with("function(x) x", twice.clone(), twice), Ok(json!("b")));
    // A file that is no function does not look at arguments, as go-jsonnet has it.
    assert_eq!(with("{a: 1}", both.clone(), vec![]), Ok(json!({"a": 1})));
    let error = |source: &str, arguments, ext_vars| with(source, arguments, ext_vars).unwrap_err();
    assert!(error("function(x) x", both, vec![]).contains("function has no parameter y"));
    assert!(error("function(x) x", vec![], vec![]).contains("Missing argument: x"));
    assert!(error("std.extVar('q')", vec![], vec![]).contains("Undefined external variable: q"));
    assert!(error("1", vec![], vec![code("q", "1 +")]).starts_with("<extvar:q>:1:4 Unexpected"));
}

#[test]
fn rnd_242_failures_say_what_and_where() {
    for (source, expected) in [
        ("{a: error 'boom'}", "RUNTIME ERROR: boom\n\tt.jsonnet:1:5"),
        ("local f(x) = f(x + 1) + 1; f(0)", "RUNTIME ERROR: max stack frames exceeded."),
        ("\n  x", "t.jsonnet:2:3 Unknown variable: x"),
        ("{a: 1}.b", "RUNTIME ERROR: Field does not exist: b\n\tt.jsonnet:1:1"),
        ("{assert false: 'no', b: 1}", "RUNTIME ERROR: no\n\tt.jsonnet:1:"),
        ("import 'a'", "RUNTIME ERROR: couldn't open import \"a\": there are no files\n\tt.jsonnet:1:1"),
        ("[1, function(x) x]", "RUNTIME ERROR: couldn't manifest function as JSON"),
    ] {
        let error = run(&program(source)).unwrap_err();
        assert!(error.starts_with(expected), "{source}: {error}");
    }
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    assert!(matches!(evaluate(&program(&deep), &mut Nothing), Err(JsonnetError::Exceeded(_))));
    let long = "x".repeat(usize::try_from(SOURCE_BYTES_MAX).unwrap() + 1);
    assert!(matches!(evaluate(&program(&long), &mut Nothing), Err(JsonnetError::Exceeded(_))));
}

fn tree(files: &[(&str, &str)]) -> MemoryTree {
    MemoryTree::from_files(files.iter().map(|(path, text)| (*path, (*text).to_owned()))).unwrap()
}

#[test]
fn rnd_79_where_imports_are_looked_for() {
    let tree = tree(&[
        ("app/own.libsonnet", "'app'"),
        ("app/sub/own.libsonnet", "'sub'"),
        ("one/x.libsonnet", "'one'"),
        ("two/x.libsonnet", "'two'"),
        ("two/y.libsonnet", "import './x.libsonnet'"),
        ("app/x.libsonnet", "'app x'"),
        ("app/raw.txt", "raw"),
    ]);
    let app = TreePath::parse("app").unwrap();
    let mut imports = TreeImports::new(&tree, &app, &["one".to_owned(), "/two".to_owned()]).unwrap();
    let mut at = |file: &str, source: &str| {
        let program = Program { file: file.to_owned(), ..program(source) };
        evaluate(&program, &mut imports).map_err(|error| error.to_string())
    };
    assert_eq!(at("app/sub/a.jsonnet", "import 'own.libsonnet'").as_deref(), Ok("\"sub\""));
    assert_eq!(at("app/other/a.jsonnet", "import 'own.libsonnet'").as_deref(), Ok("\"app\""));
    assert_eq!(
        at("app/sub/a.jsonnet", "import 'x.libsonnet'").as_deref(),
        Ok("\"two\""),
        "the last lib first"
    );
    assert_eq!(at("app/sub/a.jsonnet", "import 'y.libsonnet'").as_deref(), Ok("\"two\""));
    assert_eq!(at("app/a.jsonnet", "import 'x.libsonnet'").as_deref(), Ok("\"app x\""));
    assert_eq!(at("app/a.jsonnet", "importstr 'raw.txt'").as_deref(), Ok("\"raw\""));
    assert_eq!(at("app/a.jsonnet", "std.length(importbin 'raw.txt')").as_deref(), Ok("3"));
    let error = at("app/a.jsonnet", "import 'none'").unwrap_err();
    assert!(error.contains("no match locally or in the Jsonnet library paths"), "{error}");
}

/// SEC-52: CVE-2026-113672.
#[test]
fn sec_52_imports_stay_inside_of_the_repository() {
    use crate::MemoryEntry;
    let file = ("app/a.jsonnet", MemoryEntry::File("1".into(), false));
    let link = ("app/link", MemoryEntry::Symlink("../../etc/passwd".to_owned()));
    let tree = MemoryTree::from_entries([file, link]).unwrap();
    let app = TreePath::parse("app").unwrap();
    let outside = "resolved to outside repository root";
    for lib in ["..", "../x", "app/../../x"] {
        let error = TreeImports::new(&tree, &app, &[lib.to_owned()]).err().unwrap();
        assert_eq!((error.reason, error.message.contains(outside)), (Reason::ResolvedOutsideRepo, true));
    }
    let mut imports = TreeImports::new(&tree, &app, &[]).unwrap();
    for path in ["/etc/passwd", "../../etc/passwd", "../../app/a.jsonnet", "link"] {
        for how in ["import", "importstr", "importbin"] {
            let program = Program { file: "app/a.jsonnet".to_owned(), ..program(&format!("{how} '{path}'")) };
            let error = evaluate(&program, &mut imports).unwrap_err().to_string();
            assert!(error.contains(outside), "{how} {path}: {error}");
        }
    }
}

/// What a worker and its controller say gives what one process gives.
#[test]
fn sec_10_programs_are_evaluated_by_another_process_too() {
    let tree = tree(&[("app/lib.libsonnet", "{x: importstr 'raw.txt'}"), ("app/raw.txt", "raw")]);
    let app = TreePath::parse("app").unwrap();
    let remote = |source: &str| {
        let program = Program { file: "app/a.jsonnet".to_owned(), ..program(source) };
        let mut imports = TreeImports::new(&tree, &app, &[]).unwrap();
        let question = wire::ask(&program);
        assert_eq!(question.first(), Some(&wire::MARK));
        let said = std::cell::RefCell::new(Vec::<Vec<u8>>::new());
        let mut hear = || match wire::read(said.borrow().last()?)? {
            wire::Said::Wants { from, path } => Some(match imports.load(&from, &path) {
                Ok(file) => wire::found(&file),
                Err(why) => wire::not_found(&why),
            }),
            wire::Said::Done(_) => None,
        };
        assert!(wire::answer(
            &question,
            &mut |message| {
                said.borrow_mut().push(message);
                true
            },
            &mut hear
        ));
        let last = said.borrow().last().cloned().unwrap();
        match wire::read(&last) {
            Some(wire::Said::Done(result)) => result.map_err(|error| error.to_string()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(remote("(import 'lib.libsonnet').x").as_deref(), Ok("\"raw\""));
    assert!(remote("import 'none'").unwrap_err().contains("no match locally"));
    assert!(remote("error 'x'").unwrap_err().starts_with("RUNTIME ERROR: x"));
}
