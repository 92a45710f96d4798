//! `go.*`: the small languages of manifests, charts and policies, exactly as Go's libraries do them (DEP-20).

mod expr;
mod objects;
mod templates;
mod texts;

use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, required};
use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_go::yaml::{self, Dialect};
use tiphys_go::{cron, duration, glob, json, path_match, semver, time};

/// Most times `go.cron` lists.
const CRON_COUNT_MAX: i64 = 1000;

const MATCHES: &[Member] = &[required("matches", Shape::Bool)];

/// The rows of this area.
pub(super) fn rows() -> impl Iterator<Item = &'static Operation> {
    let languages = LANGUAGES.iter().chain(templates::ROWS).chain(expr::ROWS);
    languages.chain(texts::ROWS).chain(objects::ROWS)
}

const LANGUAGES: &[Operation] = &[
    Operation {
        name: "go.cron",
        summary: "The next times of a five-field schedule in a zone.",
        stability: Stability::Stable,
        spec: &["EVAL-755", "DEP-20"],
        input: &[
            required("schedule", Shape::Text),
            default("timeZone", Shape::Text, "\"UTC\""),
            required("after", Shape::Instant),
            default("count", Shape::Integer, "4"),
        ],
        result: &[required("next", Shape::List(&Shape::Instant))],
        example: (
            r#"{"schedule":"0 6 * * *","after":"2026-01-01T00:00:00Z","count":1}"#,
            r#"{"next":["2026-01-01T06:00:00Z"]}"#,
        ),
        run: next_times,
    },
    Operation {
        name: "go.duration",
        summary: "A duration as Go reads and prints it.",
        stability: Stability::Stable,
        spec: &["EVAL-760", "DEP-20"],
        input: &[required("text", Shape::Text)],
        result: &[required("nanoseconds", Shape::Integer), required("string", Shape::Text)],
        example: (r#"{"text":"90m"}"#, r#"{"nanoseconds":5400000000000,"string":"1h30m0s"}"#),
        run: read_duration,
    },
    Operation {
        name: "go.glob",
        summary: "Whether a glob of gobwas/glob matches a text.",
        stability: Stability::Stable,
        spec: &["EVAL-753", "DEP-20"],
        input: &[
            required("pattern", Shape::Text),
            required("text", Shape::Text),
            default("separators", Shape::Text, "\"\""),
        ],
        result: MATCHES,
        example: (r#"{"pattern":"a*","text":"ab"}"#, r#"{"matches":true}"#),
        run: |input| {
            let separators: Vec<char> = input.text("separators").chars().collect();
            let glob = glob::Glob::new(input.text("pattern"), &separators).map_err(Fault::invalid)?;
            Ok(json!({"matches": glob.is_match(input.text("text"))}))
        },
    },
    Operation {
        name: "go.json_to_yaml",
        summary: "JSON as sigs.k8s.io/yaml writes it.",
        stability: Stability::Stable,
        spec: &["EVAL-752", "DEP-20"],
        input: &[required("json", Shape::Text)],
        result: &[required("yaml", Shape::Text)],
        example: (r#"{"json":"{\"a\":[1]}"}"#, r#"{"yaml":"a:\n- 1\n"}"#),
        run: |input| Ok(json!({"yaml": yaml::json_to_yaml(input.text("json")).map_err(Fault::invalid)?})),
    },
    Operation {
        name: "go.number",
        summary: "How numbers look after encoding/json and after Kubernetes' decoder.",
        stability: Stability::Stable,
        spec: &["EVAL-765", "DEP-20"],
        input: &[required("text", Shape::Text), default("from", Shape::Text, "\"json\"")],
        result: &[
            required("json", Shape::Text),
            required("printed", Shape::Text),
            required("k8sJson", Shape::Text),
            required("k8sPrinted", Shape::Text),
        ],
        example: (
            r#"{"text":"[1000000,1.0]"}"#,
            r#"{"json":"[1000000,1]","printed":"[1e+06 1]","k8sJson":"[1000000,1]","k8sPrinted":"[1000000 1]"}"#,
        ),
        run: show_numbers,
    },
    Operation {
        name: "go.path_match",
        summary: "Whether a pattern of path.Match matches a text.",
        stability: Stability::Stable,
        spec: &["EVAL-759", "DEP-20"],
        input: &[required("pattern", Shape::Text), required("text", Shape::Text)],
        result: MATCHES,
        example: (r#"{"pattern":"apps/*","text":"apps/a/b"}"#, r#"{"matches":false}"#),
        run: |input| {
            let matches = path_match::is_match(input.text("pattern"), input.text("text"));
            Ok(json!({"matches": matches.map_err(Fault::invalid)?}))
        },
    },
    Operation {
        name: "go.semver",
        summary: "Whether a version satisfies a constraint of Masterminds/semver.",
        stability: Stability::Stable,
        spec: &["EVAL-754", "DEP-20"],
        input: &[required("constraint", Shape::Text), required("version", Shape::Text)],
        result: MATCHES,
        example: (r#"{"constraint":"~1.2","version":"1.2.9"}"#, r#"{"matches":true}"#),
        run: |input| {
            let constraint = semver::Constraint::parse(input.text("constraint")).map_err(Fault::invalid)?;
            let version = semver::Version::parse(input.text("version")).map_err(Fault::invalid)?;
            Ok(json!({"matches": constraint.matches(&version)}))
        },
    },
    Operation {
        name: "go.semver_max",
        summary: "The highest of some versions that satisfies a constraint.",
        stability: Stability::Stable,
        spec: &["EVAL-757", "DEP-20"],
        input: &[required("constraint", Shape::Text), required("versions", Shape::List(&Shape::Text))],
        result: &[required("version", Shape::OrNull(&Shape::Text))],
        example: (
            r#"{"constraint":"1.x","versions":["v1.0.0","v1.2.0","2.0.0","main"]}"#,
            r#"{"version":"v1.2.0"}"#,
        ),
        run: |input| {
            let constraint = semver::Constraint::parse(input.text("constraint")).map_err(Fault::invalid)?;
            Ok(json!({"version": semver::max(&constraint, input.texts("versions"))}))
        },
    },
    Operation {
        name: "go.time",
        summary: "A time read with one Go layout and shown with another.",
        stability: Stability::Stable,
        spec: &["EVAL-761", "DEP-20"],
        input: &[
            required("text", Shape::Text),
            default("layout", Shape::Text, "\"\""),
            default("outLayout", Shape::Text, "\"\""),
            default("timeZone", Shape::Text, "\"UTC\""),
        ],
        result: &[required("text", Shape::Text), required("unixNanoseconds", Shape::Integer)],
        example: (
            r#"{"text":"2024-02-29T13:04:05Z","outLayout":"Jan _2 15:04 MST","timeZone":"Europe/Berlin"}"#,
            r#"{"text":"Feb 29 14:04 CET","unixNanoseconds":1709211845000000000}"#,
        ),
        run: convert_time,
    },
    Operation {
        name: "go.yaml_to_json",
        summary: "The first document of a YAML text as JSON.",
        stability: Stability::Stable,
        spec: &["EVAL-751", "DEP-20"],
        input: &[required("text", Shape::Text), default("dialect", Shape::Text, "\"sigs\"")],
        result: &[required("json", Shape::Text)],
        example: (r#"{"text":"a: on"}"#, r#"{"json":"{\"a\":true}"}"#),
        run: |input| {
            let dialect = match input.text("dialect") {
                "sigs" => Dialect::Sigs,
                "v3" => Dialect::V3,
                other => return Err(Fault::invalid(format!("unknown dialect {other:?}"))),
            };
            Ok(json!({"json": yaml::yaml_to_json(input.text("text"), dialect).map_err(Fault::invalid)?}))
        },
    },
];

fn read_duration(input: &mut Input) -> Result<Value, Fault> {
    let duration = duration::parse(input.text("text")).map_err(Fault::invalid)?;
    let nanoseconds = i64::try_from(duration.as_nanos()).map_err(Fault::invalid)?;
    Ok(json!({"nanoseconds": nanoseconds, "string": duration::format(duration)}))
}

fn next_times(input: &mut Input) -> Result<Value, Fault> {
    let after: Timestamp = input.text("after").parse().map_err(Fault::invalid)?;
    let count = usize::try_from(input.integer("count").clamp(0, CRON_COUNT_MAX)).unwrap_or_default();
    let times = cron::next_times(input.text("schedule"), input.text("timeZone"), after, count);
    let next: Vec<String> = times.map_err(Fault::invalid)?.iter().map(ToString::to_string).collect();
    Ok(json!({"next": next}))
}

fn convert_time(input: &mut Input) -> Result<Value, Fault> {
    let how = time::Conversion {
        layout: input.text("layout"),
        out_layout: input.text("outLayout"),
        zone: input.text("timeZone"),
    };
    let (text, nanoseconds) = time::convert(input.text("text"), how).map_err(Fault::invalid)?;
    Ok(json!({"text": text, "unixNanoseconds": nanoseconds}))
}

fn show_numbers(input: &mut Input) -> Result<Value, Fault> {
    let text = match input.text("from") {
        "json" => input.text("text").to_owned(),
        "yaml" => yaml::yaml_to_json(input.text("text"), Dialect::Sigs).map_err(Fault::invalid)?,
        other => return Err(Fault::invalid(format!("unknown source {other:?}"))),
    };
    let views = json::number_views(text.as_bytes()).map_err(Fault::invalid)?;
    Ok(json!({
        "json": views.json,
        "printed": views.printed,
        "k8sJson": views.kubernetes_json,
        "k8sPrinted": views.kubernetes_printed,
    }))
}
