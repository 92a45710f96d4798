//! The part of `go.*` that takes texts apart and puts them together.

use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Shape, default, required};
use serde_json::{Value, json};
use tiphys_go::jsonpath::JsonPath;
use tiphys_go::strvals::{self, Reading};
use tiphys_go::{doublestar, fasttemplate, regexp, shlex};

/// The rows of this part.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "go.doublestar",
        summary: "Whether a pattern of bmatcuk/doublestar matches a text.",
        stability: Stability::Stable,
        spec: &["EVAL-758", "DEP-20"],
        input: &[required("pattern", Shape::Text), required("text", Shape::Text)],
        result: &[required("matches", Shape::Bool)],
        example: (
            r#"{"pattern":"apps/**/config.json","text":"apps/a/b/config.json"}"#,
            r#"{"matches":true}"#,
        ),
        run: |input| {
            let matches = doublestar::is_match(input.text("pattern"), input.text("text"));
            Ok(json!({"matches": matches.map_err(Fault::invalid)?}))
        },
    },
    Operation {
        name: "go.fasttemplate",
        summary: "A template of valyala/fasttemplate with values filled in.",
        stability: Stability::Stable,
        spec: &["EVAL-771", "DEP-20"],
        input: &[
            required("template", Shape::Text),
            required("values", Shape::TextMap),
            default("startTag", Shape::Text, "\"{{\""),
            default("endTag", Shape::Text, "\"}}\""),
        ],
        result: &[required("output", Shape::Text)],
        example: (r#"{"template":"{{ a }}-{{ b }}","values":{"a":"1"}}"#, r#"{"output":"1-{{ b }}"}"#),
        run: fill_in,
    },
    Operation {
        name: "go.jsonpath",
        summary: "What kubectl's JSONPath printer prints.",
        stability: Stability::Stable,
        spec: &["EVAL-772", "DEP-20"],
        input: &[
            required("template", Shape::Text),
            required("data", Shape::Any),
            default("allowMissing", Shape::Bool, "false"),
        ],
        result: &[required("output", Shape::Text)],
        example: (
            r#"{"template":"{range .l[*]}{.n} {end}","data":{"l":[{"n":"a"},{"n":"b"}]}}"#,
            r#"{"output":"a b "}"#,
        ),
        run: |input| {
            let path = JsonPath::new(input.text("template")).map_err(Fault::invalid)?;
            let printed = path.print(input.get("data"), input.flag("allowMissing"));
            Ok(json!({"output": printed.map_err(Fault::invalid)?}))
        },
    },
    Operation {
        name: "go.regexp",
        summary: "Groups of the first match of a Go regular expression, and all matches replaced.",
        stability: Stability::Stable,
        spec: &["EVAL-756", "DEP-20"],
        input: &[
            required("pattern", Shape::Text),
            required("text", Shape::Text),
            default("replacement", Shape::Text, "\"\""),
        ],
        result: &[
            required("groups", Shape::OrNull(&Shape::List(&Shape::Text))),
            required("replaced", Shape::Text),
        ],
        example: (
            r#"{"pattern":"b+","text":"abbc","replacement":"x"}"#,
            r#"{"groups":["bb"],"replaced":"axc"}"#,
        ),
        run: |input| {
            let pattern = regexp::Regexp::new(input.text("pattern")).map_err(Fault::invalid)?;
            let text = input.text("text");
            let replaced = pattern.replace_all(text, input.text("replacement"));
            Ok(json!({"groups": pattern.groups(text), "replaced": replaced}))
        },
    },
    Operation {
        name: "go.shlex",
        summary: "The words of a command line.",
        stability: Stability::Stable,
        spec: &["EVAL-770", "DEP-20"],
        input: &[required("text", Shape::Text), default("library", Shape::Text, "\"shlex\"")],
        result: &[required("words", Shape::List(&Shape::Text))],
        example: (r#"{"text":"a \"b c\" # d"}"#, r#"{"words":["a","b c"]}"#),
        run: split,
    },
    Operation {
        name: "go.strvals",
        summary: "Values after Helm's --set and its relatives.",
        stability: Stability::Stable,
        spec: &["EVAL-764", "RND-97"],
        input: &[
            default("base", Shape::Map, "{}"),
            required(
                "args",
                Shape::List(&Shape::Members(&[
                    required("flag", Shape::Text),
                    required("value", Shape::Text),
                ])),
            ),
            default("files", Shape::TextMap, "{}"),
        ],
        result: &[required("values", Shape::Map)],
        example: (
            r#"{"base":{"a":{"b":1}},"args":[{"flag":"set","value":"a.c={x,2}"}]}"#,
            r#"{"values":{"a":{"b":1,"c":["x",2]}}}"#,
        ),
        run: set_values,
    },
];

fn set_values(input: &mut Input) -> Result<Value, Fault> {
    let Value::Object(mut values) = input.take("base") else { return Err(Fault::invalid("base is no map")) };
    let files = input.get("files");
    let file = |path: &str| {
        let content = files.get(path).and_then(Value::as_str);
        content.map(str::to_owned).ok_or_else(|| format!("no file {path:?}"))
    };
    for argument in input.list("args") {
        let member = |name: &str| argument.get(name).and_then(Value::as_str).unwrap_or_default();
        let flag = member("flag");
        let reading = Reading::of_flag(flag, &file);
        let reading = reading.ok_or_else(|| Fault::invalid(format!("unknown flag {flag:?}")))?;
        strvals::set(&mut values, reading, member("value")).map_err(Fault::invalid)?;
    }
    Ok(json!({"values": values}))
}

fn split(input: &mut Input) -> Result<Value, Fault> {
    let words = match input.text("library") {
        "shlex" => shlex::split(input.text("text")),
        "shellquote" => shlex::split_shellquote(input.text("text")),
        other => return Err(Fault::invalid(format!("unknown library {other:?}"))),
    };
    Ok(json!({"words": words.map_err(Fault::invalid)?}))
}

fn fill_in(input: &mut Input) -> Result<Value, Fault> {
    let tags = fasttemplate::Tags { start: input.text("startTag"), end: input.text("endTag") };
    let values = input.get("values");
    let look_up = |name: &str| values.get(name).and_then(Value::as_str);
    let output = fasttemplate::render(input.text("template"), tags, look_up);
    Ok(json!({"output": output.map_err(Fault::invalid)?}))
}
