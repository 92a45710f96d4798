//! The `JSONPath` templates of `kubectl`, as `k8s.io/client-go/util/jsonpath` 0.36 reads and prints them.
//!
//! A template is text with actions in braces. An action is a chain of steps; each step maps a list of values
//! to a list of values. `range` and `end` repeat what stands between them. Every number of the data is a
//! 64-bit float, as Go reads JSON, so a literal integer never equals one.
//!
//! The number of values a template can come to is bounded: recursive descents and loops multiply.

mod parse;
mod run;

use serde_json::Value;

/// Values one template may produce, those in between included; a part that is run and an item that is filtered count
/// as one.
const VALUES_MAX: usize = 1_000_000;
/// Bytes one template may print.
const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// Actions inside actions: unions and filters. Loops inside loops.
const DEPTH_MAX: usize = 32;

/// Why a template cannot be read or run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(pub(crate) String);

fn problem(text: impl Into<String>) -> JsonPathError {
    JsonPathError(text.into())
}

/// A template that was read.
#[derive(Clone, Debug)]
pub struct JsonPath {
    nodes: Vec<Part>,
}

/// What a template is made of at its top.
#[derive(Clone, Debug)]
enum Part {
    /// Text between actions.
    Text(String),
    /// An action.
    Action(Vec<Step>),
}

/// One step of an action.
#[derive(Clone, Debug)]
enum Step {
    /// A quoted text.
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A member of maps.
    Field(String),
    /// All members or items.
    Wildcard,
    /// All values below that have something below them, the value itself first.
    Recursive,
    /// Items by index or range.
    Items(Bounds),
    /// The items for which a comparison holds.
    Filter(Filter),
    /// The results of several chains, one after the other.
    Union(Vec<Vec<Self>>),
    /// `range`, `end`, or a word nobody knows.
    Word(String),
}

/// `[start:end:step]` as written.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

/// Where a range of items ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Behind the last one.
    Last,
    /// As written.
    At(i64),
    /// Behind the start: a single index.
    AfterStart(i64),
}

#[derive(Clone, Debug)]
struct Filter {
    left: Vec<Step>,
    /// `None` asks whether the left side finds anything.
    comparison: Option<(String, Vec<Step>)>,
}

impl JsonPath {
    /// Reads a template.
    ///
    /// # Errors
    /// When the template is not closed, or an action says nothing that can be done.
    pub fn new(template: &str) -> Result<Self, JsonPathError> {
        Ok(Self { nodes: parse::template(template, 0)? })
    }

    /// Runs the template and prints what it finds.
    ///
    /// # Errors
    /// When a member is missing and `allow_missing` is not set, when an index is out of bounds, when values of
    /// different kinds are compared, or when the template comes to more than it may.
    pub fn print(&self, data: &Value, allow_missing: bool) -> Result<String, JsonPathError> {
        run::print(&self.nodes, data, allow_missing)
    }

    /// The first value that the first part of the template finds, which is what a column of a custom resource
    /// shows. Members may be missing.
    ///
    /// # Errors
    /// As [`JsonPath::print`].
    pub fn first(&self, data: &Value) -> Result<Option<Value>, JsonPathError> {
        run::first(&self.nodes, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn print(template: &str, data: &Value) -> Result<String, String> {
        JsonPath::new(template).and_then(|path| path.print(data, false)).map_err(|error| error.to_string())
    }

    #[test]
    fn dep_20_a_loop_repeats_its_text() {
        let data = json!({"l": [{"n": "a"}, {"n": "b"}]});
        assert_eq!(print("{range .l[*]}{.n} {end}!", &data).unwrap(), "a b !");
    }

    #[test]
    fn dep_20_empty_loops_run_their_body_once_for_nothing() {
        let data = json!({"l": []});
        assert_eq!(print("{range .l[*]}x{end}y", &data).unwrap(), "y");
        assert_eq!(print("{range .l[*]}{.n}{end}", &data).unwrap_err(), "n is not found");
    }

    #[test]
    fn dep_20_the_first_value_keeps_its_type() {
        let data = json!({"l": [{"t": "A", "n": 7}, {"t": "B"}], "empty": []});
        let first = |template: &str| JsonPath::new(template).unwrap().first(&data).unwrap();
        assert_eq!(first("{.l[?(@.t==\"A\")].n}"), Some(json!(7)));
        assert_eq!(first("{.l[*].t}"), Some(json!("A")));
        assert_eq!(first("{.l[1]}"), Some(json!({"t": "B"})));
        assert_eq!((first("{.nothing.x}"), first("{.empty[*]}")), (None, None));
    }

    #[test]
    fn dep_20_what_explodes_is_refused() {
        let mut data = json!(1);
        for _ in 0..60 {
            data = json!([data, data_small()]);
        }
        let template = format!("{{{}}}", "...*".repeat(12));
        assert!(print(&template, &data).unwrap_err().contains("too many"));
        let nested = format!("{{.a{}", "[?(@.a".repeat(100));
        assert!(print(&nested, &data).is_err());
    }

    /// SEC-07: without values, too.
    #[test]
    fn sec_07_loops_of_text_and_filters_that_keep_nothing_are_counted() {
        let many: Vec<Value> = (0..1_000).map(Value::from).collect();
        let data = json!({"l": many});
        let loops = "{range .l[*]}".to_owned() + &"x{}".repeat(1_000) + "{end}";
        assert_eq!(print(&loops, &data).unwrap_err(), "the template comes to too many values");
        let filters = format!("{{.l[0,{}]}}", vec!["?(@.x==1)"; 2_000].join(","));
        assert_eq!(
            JsonPath::new(&filters).unwrap().print(&data, true).unwrap_err().to_string(),
            "the template comes to too many values"
        );
        let deep = "{range @}".repeat(200_000);
        assert_eq!(print(&deep, &data).unwrap_err(), "the loops of the template are nested too deeply");
        let loops = "{range @}".repeat(DEPTH_MAX) + "x" + &"{end}".repeat(DEPTH_MAX);
        assert_eq!(print(&loops, &data).unwrap(), "x");
    }

    fn data_small() -> Value {
        json!(["x"])
    }
}
