//! Nothing a template does takes more than its limits, and none of it reaches the program's stack.

use super::{chart, execute, message, render, render_within};
use serde_json::json;
use std::cell::Cell;
use tiphys_go::template::{Engine, Environment, Limits, PARENTHESES_MAX, Value};

const LIMITS: Limits = Limits {
    steps: 100_000,
    made_bytes: 8 << 20,
    live_bytes: 64 << 20,
    text_bytes: 1 << 20,
    nesting: 10_000,
};

/// Why a template fails within small limits.
fn refused(text: &str) -> String {
    let error = render_within(text, &json!({}), LIMITS).unwrap_err();
    error.message().to_owned()
}

#[test]
fn rnd_189_a_template_inside_of_itself_a_thousand_times_is_refused_in_helms_words() {
    let templates = chart(&[("t", r#"{{ define "f" }}{{ include "f" . }}{{ end }}{{ include "f" . }}"#)]);
    let error = execute(&templates, "t", &Value::Nil, Limits::default()).unwrap_err();
    let words = "rendering template has a nested reference name: f: unable to execute template";
    assert_eq!(error.message(), words);
    // All thousand places are told.
    assert_eq!(error.to_string().matches("error calling include").count(), 1_002);

    let counted =
        r#"{{ define "f" }}{{ if . }}{{ include "f" (sub . 1) }}.{{ end }}{{ end }}{{ include "f" 900 }}"#;
    assert_eq!(render(counted).unwrap().len(), 900, "as often as that is allowed");
}

#[test]
fn rnd_189_templates_that_execute_each_other_for_ever_are_stopped() {
    let endless = r#"{{ define "f" }}{{ template "f" . }}{{ end }}{{ template "f" . }}"#;
    assert_eq!(message(endless), "exceeded maximum template depth (100000)");
    let of_text = r"{{ tpl .t . }}";
    let error = render_within(of_text, &json!({"t": "{{ tpl .t . }}"}), Limits::default()).unwrap_err();
    assert_eq!(error.message(), "more than 4000 templates include each other");
}

#[test]
fn rnd_195_functions_that_make_much_of_little_are_refused_before_they_make_it() {
    for text in [
        "{{ until 1000000000 }}",
        "{{ untilStep 0 1000000000 1 }}",
        "{{ seq 1000000000 }}",
        r#"{{ repeat 1000000000 "abc" }}"#,
        r#"{{ indent 1000000000 "abc" }}"#,
        r#"{{ printf "%1000000d%1000000d" 1 1 }}"#,
        r#"{{ $x := "abc" }}{{ range until 30 }}{{ $x = print $x $x }}{{ end }}{{ $x }}"#,
        r"{{ $x := list 1 }}{{ range until 40 }}{{ $x = concat $x $x }}{{ end }}",
        r#"{{ $x := "a" }}{{ range until 30 }}{{ $x = replace "a" "aaaa" $x }}{{ end }}"#,
        r#"{{ $x := "a" }}{{ range until 30 }}{{ $x = regexReplaceAll "a" $x "$0$0$0" }}{{ end }}"#,
        r#"{{ $x := dict }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toYaml $x }}"#,
        r#"{{ $x := dict }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toJson $x }}"#,
        r#"{{ $x := dict }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ $x }}"#,
        r#"{{ $x := dict }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ deepCopy $x }}"#,
        r"{{ $x := list }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ deepEqual $x (deepCopy $x) }}",
        "{{ range 1000000000 }}{{ end }}",
        "{{ range 1000000000 }}x{{ end }}",
        "{{ derivePassword 2147483647 \"long\" \"a\" \"b\" \"c\" | repeat 100000000 }}",
    ] {
        let told = refused(text);
        let budget = ["more than", "out of memory", "is too long", "nested more", "exceeds"];
        assert!(budget.iter().any(|words| told.contains(words)), "{text}: {told}");
    }
}

#[test]
fn rnd_183_parentheses_blocks_and_pipelines_nest_without_the_stack() {
    let deep = |count: usize| format!("{{{{ {}1{} }}}}", "(".repeat(count), ")".repeat(count));
    assert_eq!(render(&deep(PARENTHESES_MAX - 1)).unwrap(), "1");
    let many = super::Templates::new("t", super::FunctionSet::helm()).parse("t", deep(100_000).as_bytes());
    assert!(many.unwrap_err().to_string().contains("max expression depth exceeded"));

    let blocks = format!("{}x{}", "{{ if true }}".repeat(50_000), "{{ end }}".repeat(50_000));
    assert_eq!(render(&blocks).unwrap(), "x");
    let alternatives = format!("{{{{ if false }}}}{}{{{{ end }}}}", "{{ else if false }}".repeat(50_000));
    assert_eq!(render(&alternatives).unwrap(), "");
    let pipeline = format!("{{{{ 1 {} }}}}", "| add1 ".repeat(50_000));
    assert_eq!(render(&pipeline).unwrap(), "50001");
    let ranges = format!("{}x{}", "{{ range 1 }}".repeat(20_000), "{{ end }}".repeat(20_000));
    assert_eq!(render(&ranges).unwrap(), "x");
}

#[test]
fn rnd_200_values_that_contain_each_other_far_down_are_printed_refused_and_dropped() {
    let nested = "{{ $x := dict }}{{ range until 200000 }}{{ $x = dict \"a\" $x }}{{ end }}";
    for last in
        ["toJson $x", "toYaml $x", "$x", "deepCopy $x", "printf \"%v\" $x", "toString $x", "deepEqual $x $x"]
    {
        // An error or nothing, as the function likes; the values are gone afterwards.
        let _unused = render(&format!("{nested}{{{{ {last} }}}}"));
    }
    assert_eq!(render(&format!("{nested}{{{{ len $x }}}}")).unwrap(), "1");
    let lists = "{{ $x := list }}{{ range until 200000 }}{{ $x = list $x }}{{ end }}{{ len $x }}";
    assert_eq!(render(lists).unwrap(), "1");
}

#[test]
fn rnd_200_a_map_that_contains_itself_is_an_error_for_whoever_walks_it() {
    let knot = r#"{{ $x := dict }}{{ $_ := set $x "x" $x }}"#;
    for last in ["$x", "mustToJson $x", "mustToYaml $x", "deepCopy $x", "toString $x", "merge (dict) $x $x"] {
        let _unused = render(&format!("{knot}{{{{ {last} }}}}"));
    }
    assert!(message(&format!("{knot}{{{{ mustToJson $x }}}}")).contains("encountered a cycle"));
    assert_eq!(render(&format!("{knot}{{{{ len $x.x.x.x }}}}")).unwrap(), "1");
}

#[test]
fn rnd_191_limits_are_for_a_whole_run() {
    let templates = chart(&[("a", "{{ range 30000 }}{{ end }}")]);
    let mut engine = Engine::new(&templates, &super::WORLD, LIMITS);
    engine.execute("a", &Value::Nil).unwrap();
    let error = engine.execute("a", &Value::Nil).unwrap_err();
    assert_eq!(error.message(), "the template takes more than 100000 steps");
}

#[test]
fn rnd_191_what_is_written_is_paid_for_once() {
    let limits = Limits { steps: 1_000_000, made_bytes: 2_000_000, ..LIMITS };
    let written = render_within("{{ range 20000 }}some text {{ . }}\n{{ end }}", &json!({}), limits);
    assert!(written.unwrap().len() > 200_000);
}

#[test]
fn rnd_191_a_run_that_is_given_up_ends_soon() {
    struct Impatient(Cell<u32>);
    impl Environment for Impatient {
        fn now(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
        fn random(&self, _bytes: &mut [u8]) {}
        fn is_cancelled(&self) -> bool {
            self.0.set(self.0.get() + 1);
            self.0.get() > 2
        }
    }
    let templates = chart(&[("t", "{{ range 1000000000 }}{{ end }}")]);
    let impatient = Impatient(Cell::new(0));
    let mut engine = Engine::new(&templates, &impatient, Limits::default());
    let error = engine.execute("t", &Value::Nil).unwrap_err();
    assert_eq!(error.message(), "the template was cancelled");
    assert!(engine.steps() < 100_000);
}

#[test]
fn rnd_191_a_text_larger_than_the_limit_is_not_parsed() {
    let text = vec![b'x'; tiphys_go::template::TEMPLATE_BYTES_MAX + 1];
    let mut templates = super::Templates::new("t", super::FunctionSet::text());
    assert!(templates.parse("t", text).is_err());
}
