//! Errors have Go's text, its parts, and Helm's words.

use super::{chart, execute, message, render};
use tiphys_go::template::{
    ErrorKind, FunctionSet, Layer, Limits, MissingKey, TemplateError, Templates, Value, helm,
};

fn parse(text: &str) -> TemplateError {
    Templates::new("base", FunctionSet::text()).parse("base", text.as_bytes()).unwrap_err()
}

#[test]
fn rnd_183_what_does_not_parse_is_told_by_file_and_line() {
    for (text, wanted) in [
        ("{{ x }}", "template: base:1: function \"x\" not defined"),
        ("a\n{{ if }}", "template: base:2: missing value for if"),
        ("{{ .a", "template: base:1: unclosed action"),
        ("{{ if true }}", "template: base:1: unexpected EOF"),
        ("{{ $x }}", "template: base:1: undefined variable \"$x\""),
        ("{{ break }}", "template: base:1: {{break}} outside {{range}}"),
        ("{{ \"a }}", "template: base:1: unterminated quoted string"),
        ("{{ 1_ }}", "template: base:1: illegal number syntax: \"1_\""),
        ("{{ (1 }}", "template: base:1: unclosed left paren"),
        ("{{/* a }}", "template: base:1: unclosed comment"),
        ("{{ 1 | 2 }}", "template: base:1: non executable command in pipeline stage 2"),
        ("{{ end }}", "template: base:1: unexpected {{end}}"),
        (
            "{{ define \"a\" }}x{{ end }}{{ define \"a\" }}y{{ end }}",
            "template: base:1: template: multiple definition of template \"a\"",
        ),
    ] {
        let error = parse(text);
        assert_eq!(error.to_string(), wanted, "{text}");
        assert_eq!(error.kind(), ErrorKind::Parse, "{text}");
    }
}

#[test]
fn rnd_191_errors_come_in_parts_from_the_outside_inwards() {
    let templates = chart(&[
        ("c/templates/_h.tpl", "{{ define \"h\" }}\n  {{ .a.b.c }}{{ end }}"),
        ("c/templates/x.yaml", "x\n{{ include \"h\" . | indent 2 }}"),
    ]);
    let root: tiphys_go::template::Map = [("a", Value::Nil)].into_iter().collect();
    let error = execute(&templates, "c/templates/x.yaml", &root.into(), Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "template: c/templates/x.yaml:2:3: executing \"c/templates/x.yaml\" at <include \"h\" .>: error calling \
         include: template: c/templates/_h.tpl:2:7: executing \"h\" at <.a.b.c>: nil pointer evaluating interface \
         {}.b"
    );
    let layers: Vec<&Layer> = error.layers().collect();
    let [Layer::Place { location, template, .. }, Layer::Calling(function), Layer::Place { context, .. }] =
        *layers
    else {
        panic!("{layers:?}")
    };
    assert_eq!((location.as_str(), template.as_str()), ("c/templates/x.yaml:2:3", "c/templates/x.yaml"));
    assert_eq!((function.as_str(), context.as_str()), ("include", ".a.b.c"));
    assert_eq!(error.message(), "nil pointer evaluating interface {}.b");
    assert_eq!(
        helm::describe_execution("c/templates/x.yaml", &error),
        "c/templates/x.yaml:2:3\n  executing \"c/templates/x.yaml\" at <include \"h\" .>:\n    error calling include:\n\
         c/templates/_h.tpl:2:7\n  executing \"h\" at <.a.b.c>:\n    nil pointer evaluating interface {}.b"
    );
}

#[test]
fn rnd_191_an_include_of_nothing_is_told_where_it_stands() {
    let templates = chart(&[("c/templates/x.yaml", "x\n{{ include \"nothing\" . }}")]);
    let error = execute(&templates, "c/templates/x.yaml", &Value::Nil, Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoTemplate);
    assert_eq!(
        error.to_string(),
        "template: c/templates/x.yaml:2:3: executing \"c/templates/x.yaml\" at <include \"nothing\" .>: error \
         calling include: template: no template \"nothing\" associated with template \"gotpl\""
    );
    // The caller's own mistake has no place.
    let error = execute(&templates, "y", &Value::Nil, Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "template: no template \"y\" associated with template \"gotpl\"");
}

#[test]
fn rnd_191_authors_words_are_told_where_they_were_said() {
    let error = render(r#"{{ fail "no: way" }}"#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Told);
    assert_eq!(helm::describe_execution("t", &error), "execution error at (t:1:3): no: way");
    let error = render(r#"{{ required "x is needed" nil }}"#).unwrap_err();
    assert_eq!(helm::describe_execution("t", &error), "execution error at (t:1:3): x is needed");
    assert_eq!(render(r#"{{ required "x" 0 }}{{ required "x" false }}"#).unwrap(), "0false");
}

#[test]
fn rnd_191_thousands_of_places_are_told_in_time() {
    let text = r#"{{ define "f" }}{{ include "f" . }}{{ end }}{{ include "f" . }}"#;
    let error = render(text).unwrap_err();
    let told = helm::describe_execution("t", &error);
    // Helm takes the chain apart only where it knows every link, and the last of these has no place.
    assert_eq!(told, error.to_string());
}

#[test]
fn aset_103_missing_keys_are_nothing_zero_or_an_error() {
    let execute_with = |option: &str, text: &str| {
        let missing_key = MissingKey::of_option(option).unwrap();
        let mut templates = Templates::new("base", FunctionSet::text()).with_missing_key(missing_key);
        templates.parse("base", text.as_bytes()).unwrap();
        execute(&templates, "base", &tiphys_go::template::Map::new().into(), Limits::default())
    };
    assert_eq!(execute_with("missingkey=default", "{{ .a }}").unwrap(), "<no value>");
    assert_eq!(execute_with("missingkey=invalid", "{{ .a }}").unwrap(), "<no value>");
    assert_eq!(execute_with("missingkey=zero", "{{ .a }}").unwrap(), "<no value>");
    let error = execute_with("missingkey=error", "{{ .a }}").unwrap_err();
    let wanted = "template: base:1:3: executing \"base\" at <.a>: map has no entry for key \"a\"";
    assert_eq!(error.to_string(), wanted);
    assert_eq!(
        MissingKey::of_option("missingkey=x").unwrap_err().to_string(),
        "unrecognized option: missingkey=x"
    );
}

#[test]
fn rnd_196_templates_inside_of_tpl_are_known_there_only() {
    let inner = r#"{{ tpl "{{ define \"i\" }}in{{ end }}{{ include \"i\" . }}{{ include \"o\" . }}" . }}"#;
    let text = format!("{{{{ define \"o\" }}}}out{{{{ end }}}}{inner}");
    assert_eq!(render(&text).unwrap(), "inout");
    let error = render(&format!("{text}{{{{ include \"i\" . }}}}")).unwrap_err();
    assert_eq!(error.message(), "template: no template \"i\" associated with template \"gotpl\"");
    // What tpl defines hides what others defined, inside of it.
    let hidden = r#"{{ define "o" }}1{{ end }}{{ tpl "{{ define \"o\" }}2{{ end }}{{ include \"o\" . }}" . }}{{ include "o" . }}"#;
    assert_eq!(render(hidden).unwrap(), "21");
}

#[test]
fn rnd_199_refused_versions_and_constraints_have_the_words_of_helms_library() {
    for (constraint, version, wanted) in [
        ("     xx", "1", "constraint parser error"),
        ("1 2-01", "1", "constraint parser error"),
        ("=99999999999999999999.1", "1", "constraint parser error"),
        ("a b", "1", "improper constraint: \"a b\""),
        ("1", "6-02", "version segment starts with 0"),
        ("1", "a", "invalid semantic version"),
        (
            "1",
            "99999999999999999999.1",
            "error parsing version segment: strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
        ),
    ] {
        let text = format!("{{{{ semverCompare \"{constraint}\" \"{version}\" }}}}");
        assert_eq!(message(&text), wanted, "{text}");
    }
}

#[test]
fn rnd_191_a_bar_at_the_end_is_not_shown() {
    let error = render("{{ print \"\" | has (dict | ) }}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "template: t:1:14: executing \"t\" at <has (dict)>: error calling has: Cannot find has on type string"
    );
}
