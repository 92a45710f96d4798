//! Templates: each string of a template is one of its own, filled with one set of parameters (ASET-100..109).
//!
//! A set says which of two languages it speaks: placeholders ([`Language::Placeholders`]) or Go templates. Compiled
//! templates are kept for the next set of parameters, because a set of thousands renders the same strings again and
//! again.

mod functions;
mod go;

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tiphys_go::fasttemplate::{self, Tags, TemplateError};
use tiphys_go::nesting::DEPTH_MAX;
use tiphys_go::template::Environment;

use crate::params::Params;
use crate::work::Work;
use go::{GoTemplates, Root};

/// Bytes that one string may come to (ASET-122).
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// What opens a placeholder and an action.
const OPEN: &str = "{{";

/// Why a string is not rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RenderError {
    text: String,
    is_missing_key: bool,
}

impl RenderError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_missing_key: false }
    }

    /// A bound was passed while a field was rendered.
    fn bound(field: &str, what: impl std::fmt::Display) -> Self {
        let field = if field.is_empty() { "the text" } else { field };
        Self::new(format!("{field} cannot be rendered: {what}"))
    }
}

/// In which language the strings of a set are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// `{{ name }}` is replaced by a parameter, nothing else happens (ASET-102).
    #[default]
    Placeholders,
    /// Go templates with these options (ASET-103, ASET-104).
    Go {
        /// Options, in order.
        options: Vec<String>,
    },
}

impl Language {
    /// That of a set.
    pub fn of(set: &tiphys_api::ApplicationSet) -> Self {
        if set.spec.go_template {
            Self::Go { options: set.spec.go_template_options.clone() }
        } else {
            Self::Placeholders
        }
    }

    /// Whether parameters are nested values instead of flat texts.
    pub fn is_go(&self) -> bool {
        matches!(self, Self::Go { .. })
    }
}

/// Renders strings of one set.
pub struct Templates<'e> {
    go: Option<GoTemplates<'e>>,
}

impl<'e> Templates<'e> {
    /// For sets that speak a language; the environment answers what templates ask the world.
    /// What they take is charged to `work`.
    pub fn new(language: &Language, environment: &'e dyn Environment, work: &'e Work) -> Self {
        let go = match language {
            Language::Placeholders => None,
            Language::Go { options } => Some(GoTemplates::new(options, environment, work)),
        };
        Self { go }
    }

    /// Fills in one set of parameters.
    pub fn with<'t>(&'t mut self, params: &'t Params) -> Rendering<'t, 'e> {
        match &mut self.go {
            None => Rendering::Placeholders(params),
            Some(go) => {
                let root = GoTemplates::root(params);
                Rendering::Go(go, root)
            }
        }
    }
}

/// Strings rendered with one set of parameters.
pub enum Rendering<'t, 'e> {
    /// Placeholders.
    Placeholders(&'t Params),
    /// Go templates. What a template does to the parameters, the next one sees, as in Go.
    Go(&'t mut GoTemplates<'e>, Root),
}

/// Whether a missing key is what the options say, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Missing {
    AsOptions,
    Error,
}

impl Rendering<'_, '_> {
    /// Renders one string.
    ///
    /// # Errors
    /// When it is no template, fails, or passes a bound; then the field is named.
    pub fn text(&mut self, template: &str, field: &str) -> Result<String, RenderError> {
        self.text_with(template, field, Missing::AsOptions)
    }

    /// Renders one string unless a parameter that it names is missing; then it stays as it is (ASET-76).
    ///
    /// # Errors
    /// As [`Rendering::text`], for other reasons.
    pub fn text_if_known(&mut self, template: &str, field: &str) -> Result<String, RenderError> {
        match self.text_with(template, field, Missing::Error) {
            Err(error) if error.is_missing_key => Ok(template.to_owned()),
            answer => answer,
        }
    }

    fn text_with(&mut self, template: &str, field: &str, missing: Missing) -> Result<String, RenderError> {
        if !template.contains(OPEN) {
            return Ok(template.to_owned());
        }
        let text = match self {
            Rendering::Placeholders(params) => placeholders(template, params, field)?,
            Rendering::Go(go, root) => go.render(template, root, missing, field)?,
        };
        if text.len() > OUTPUT_BYTES_MAX {
            return Err(RenderError::bound(field, format!("it comes to more than {OUTPUT_BYTES_MAX} bytes")));
        }
        Ok(text)
    }

    /// Renders all strings of a value, keys included; numbers and booleans stay (ASET-100).
    ///
    /// # Errors
    /// With the first string that fails.
    pub fn value(&mut self, value: &Value, field: &str) -> Result<Value, RenderError> {
        self.value_at(value, &mut field.to_owned(), 0)
    }

    /// The same for a map.
    ///
    /// # Errors
    /// With the first string that fails.
    pub fn map(&mut self, map: &Map<String, Value>, field: &str) -> Result<Map<String, Value>, RenderError> {
        self.map_at(map, &mut field.to_owned(), 0)
    }

    fn value_at(&mut self, value: &Value, field: &mut String, depth: usize) -> Result<Value, RenderError> {
        if depth > DEPTH_MAX {
            return Err(RenderError::bound(field, format!("it is nested more than {DEPTH_MAX} levels deep")));
        }
        Ok(match value {
            Value::String(text) => Value::String(self.text(text, field)?),
            Value::Array(items) => {
                let mut rendered = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    let length = field.len();
                    let _infallible = write!(field, "[{at}]");
                    rendered.push(self.value_at(item, field, depth + 1)?);
                    field.truncate(length);
                }
                Value::Array(rendered)
            }
            Value::Object(members) => Value::Object(self.map_at(members, field, depth)?),
            other => other.clone(),
        })
    }

    fn map_at(
        &mut self,
        map: &Map<String, Value>,
        field: &mut String,
        depth: usize,
    ) -> Result<Map<String, Value>, RenderError> {
        let mut rendered = Map::new();
        for (key, member) in map {
            let length = field.len();
            if !field.is_empty() {
                field.push('.');
            }
            // A key of a foreign map may be of any length; what names a field need not be.
            field.extend(key.chars().take(64));
            let key = self.text(key, field)?;
            let member = self.value_at(member, field, depth + 1)?;
            field.truncate(length);
            rendered.insert(key, member);
        }
        Ok(rendered)
    }
}

fn placeholders(template: &str, params: &Params, field: &str) -> Result<String, RenderError> {
    let has_placeholder =
        |line: &str| line.split_once(OPEN).is_some_and(|(_, after)| after.contains(Tags::default().end));
    if !template.lines().any(has_placeholder) {
        return Ok(template.to_owned());
    }
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    fasttemplate::render(template, Tags::default(), text).map_err(|error| match error {
        TemplateError::OpenTag { end, rest } => RenderError::new(format!(
            "invalid template: Cannot find end tag={end:?} in the template={template:?} starting from {rest:?}"
        )),
        other => RenderError::bound(field, other),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiphys_go::template::Still;

    use super::*;

    fn params(value: Value) -> Params {
        match crate::params::as_floats(value).unwrap() {
            Value::Object(members) => members,
            other => panic!("{other}"),
        }
    }

    fn fast(template: &str, given: Value) -> Result<String, String> {
        let still = Still(jiff::Timestamp::UNIX_EPOCH);
        let given = params(given);
        let work = Work::new(u64::MAX);
        let mut templates = Templates::new(&Language::Placeholders, &still, &work);
        templates.with(&given).text(template, "f").map_err(|error| error.to_string())
    }

    fn go_with(options: &[&str], template: &str, given: Value) -> Result<String, String> {
        let still = Still(jiff::Timestamp::UNIX_EPOCH);
        let language = Language::Go { options: options.iter().map(|option| (*option).to_owned()).collect() };
        let given = params(given);
        let work = Work::new(u64::MAX);
        let mut templates = Templates::new(&language, &still, &work);
        templates.with(&given).text(template, "f").map_err(|error| error.to_string())
    }

    fn go(template: &str, given: Value) -> Result<String, String> {
        go_with(&[], template, given)
    }

    #[test]
    fn aset_102_placeholders_are_looked_up_whole() {
        let given = json!({"a": "1", "b.c": "2", "path[0]": "x", "n": 7, "t": "{{a}}"});
        for (template, expected) in [
            ("{{a}}-{{ b.c }}", "1-2"),
            ("{{path[0]}}", "x"),
            ("{{ n }}", "{{ n }}"),
            ("{{ A }}{{missing}}", "{{ A }}{{missing}}"),
            ("{{t}}", "{{a}}"),
            ("{{a\n}}", "{{a\n}}"),
            ("{{a\n}} {{a}}", "1 1"),
            ("}}{{", "}}{{"),
            ("plain", "plain"),
        ] {
            assert_eq!(fast(template, given.clone()).as_deref(), Ok(expected), "{template}");
        }
        let error = fast("{{a}} {{", given).unwrap_err();
        assert!(
            error.starts_with("invalid template: Cannot find end tag=\"}}\" in the template="),
            "{error}"
        );
    }

    #[test]
    fn aset_103_go_templates_have_the_parameters_as_their_dot() {
        let given = json!({"a": {"b": "x"}, "n": 1_000_000, "f": 0.5, "l": [1, 2], "nothing": null});
        for (template, expected) in [
            ("{{.a.b}}", "x"),
            ("{{ .n }} {{ .f }} {{ .l }} {{ toJson .n }}", "1e+06 0.5 [1 2] 1000000"),
            ("{{range .l}}<{{.}}>{{end}}", "<1><2>"),
            ("{{ .nothing }}", "<no value>"),
            ("{{ .missing }} {{ .missing.more }}", "<no value> <no value>"),
            ("{{ index .a \"z\" }}", "<no value>"),
            ("{{ if eq .a.b \"x\" }}y{{ else }}n{{ end }}", "y"),
            ("{{- /* nothing */ -}}", ""),
            ("}} is text", "}} is text"),
        ] {
            assert_eq!(go(template, given.clone()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn aset_103_errors_say_which_template_failed() {
        let error = go("{{ .a", json!({})).unwrap_err();
        assert!(error.starts_with("failed to parse template {{ .a: template: base:1: "), "{error}");
        let error = go("{{ .a.b.c }}", json!({"a": {"b": "x"}})).unwrap_err();
        assert!(
            error.starts_with("failed to execute go template {{ .a.b.c }}: template: base:1:")
                && error.contains("can't evaluate field c in type interface {}"),
            "{error}"
        );
        let error = go("{{ env \"HOME\" }}", json!({})).unwrap_err();
        assert!(error.contains("function \"env\" not defined"), "{error}");
        for function in ["expandenv", "getHostByName", "include", "tpl", "lookup"] {
            assert!(go(&format!("{{{{ {function} \"x\" }}}}"), json!({})).is_err(), "{function}");
        }
    }

    #[test]
    fn aset_104_options_decide_about_missing_keys() {
        let error = go_with(&["missingkey=error"], "{{ .a }}", json!({"b": 1})).unwrap_err();
        assert!(error.contains("map has no entry for key \"a\""), "{error}");
        assert_eq!(go_with(&["missingkey=zero"], "{{ .a }}", json!({})).as_deref(), Ok("<no value>"));
        assert_eq!(
            go_with(&["missingkey=error"], "{{ index . \"a\" }}", json!({})).as_deref(),
            Ok("<no value>")
        );
        assert_eq!(
            go_with(&["missingkey=error", "missingkey=default"], "{{ .a }}", json!({})).unwrap(),
            "<no value>"
        );
        assert!(go_with(&["missingkey=odd"], "{{ .a }}", json!({})).is_err());
        assert!(go_with(&["odd"], "{{ .a }}", json!({})).is_err());
    }

    #[test]
    fn aset_76_a_missing_key_leaves_the_text() {
        let still = Still(jiff::Timestamp::UNIX_EPOCH);
        let work = Work::new(u64::MAX);
        let mut templates = Templates::new(&Language::Go { options: vec![] }, &still, &work);
        let given = params(json!({"a": "x", "t": "text"}));
        let mut rendering = templates.with(&given);
        assert_eq!(rendering.text_if_known("{{.a}}", "").unwrap(), "x");
        assert_eq!(rendering.text_if_known("{{.b}}", "").unwrap(), "{{.b}}");
        assert_eq!(rendering.text_if_known("{{.t.more}}", "").unwrap(), "{{.t.more}}");
        assert!(rendering.text_if_known("{{fail \"x\"}}", "").is_err());
    }

    #[test]
    fn aset_100_every_string_and_key_is_a_template() {
        let still = Still(jiff::Timestamp::UNIX_EPOCH);
        let given = params(json!({"k": "key", "v": "value"}));
        let work = Work::new(u64::MAX);
        let mut templates = Templates::new(&Language::Placeholders, &still, &work);
        let rendered = templates
            .with(&given)
            .value(&json!({"{{k}}": ["{{v}}", 1_000_000, true, null], "b": {"c": "{{v}}"}}), "")
            .unwrap();
        assert_eq!(rendered, json!({"key": ["value", 1_000_000, true, null], "b": {"c": "value"}}));
    }

    #[test]
    fn aset_122_what_explodes_is_an_error_that_names_the_field() {
        let loops = "{{ range until 1000000 }}{{ range until 1000000 }}x{{ end }}{{ end }}";
        for template in [
            loops,
            "{{ repeat 2000000 \"xx\" }}",
            "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
        ] {
            let error = go(template, json!({})).unwrap_err();
            assert!(error.starts_with("f cannot be rendered: "), "{template}: {error}");
        }
        let given = json!({"a": "x".repeat(200_000)});
        let error = fast(&"{{a}}".repeat(6), given.clone()).unwrap_err();
        assert!(error.starts_with("f cannot be rendered: "), "{error}");
        assert!(fast(&"{{a}}".repeat(200), given).unwrap_err().starts_with("f cannot be rendered: "));
    }

    #[test]
    fn aset_108_yaml_functions() {
        let given = json!({"m": {"b": 1, "a": ["x"]}, "t": "a: 1\nb: [y, no]", "l": "- 1\n- a: b"});
        for (template, expected) in [
            ("{{ toYaml .m }}", "a:\n- x\nb: 1"),
            ("{{ (fromYaml .t).a }} {{ (fromYaml .t).b }}", "1 [true false]"),
            ("{{ range fromYamlArray .l }}<{{ . }}>{{ end }}", "<1><map[a:b]>"),
        ] {
            assert_eq!(go(template, given.clone()).as_deref(), Ok(expected), "{template}");
        }
        assert!(go("{{ fromYaml .l }}", given.clone()).is_err());
        assert!(go("{{ fromYamlArray .t }}", given).is_err());
    }

    #[test]
    fn aset_107_109_names_and_slugs() {
        for (template, expected) in [
            ("{{ normalize \"Prod_01/west\" }}", "prod-01-west"),
            ("{{ slugify 23 \"feat/a_really+long_pull_request_name\" }}", "feat-a-really-long-pull"),
            ("{{ \"A B\" | slugify }}", "a-b"),
            ("{{ \"feat/aaaaaaaaaa\" | slugify 6 false }}", "feat-a"),
            ("{{ slugify 6 true \"feat/aaaaaaaaaa\" }}", "feat"),
        ] {
            assert_eq!(go(template, json!({})).as_deref(), Ok(expected), "{template}");
        }
        assert!(go("{{ slugify \"a\" \"b\" }}", json!({})).is_err());
    }
}
