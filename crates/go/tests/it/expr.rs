//! Expressions: the rows of the original, what callers register, and bounds.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use std::path::Path;
use tiphys_go::expr::{
    self, Budget, Call, CallError, Environment, Fault, Limits, Object, Program, Run, Value as ExprValue,
};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

fn evaluate(program: Result<Program, expr::ExprError>, env: &Value) -> Result<Value, String> {
    let program = program.map_err(|error| error.to_string())?;
    let environment = Environment::of(ExprValue::from_json(env).unwrap()).unwrap();
    let run = Run::at("2026-11-24T08:00:00Z".parse().unwrap());
    let value = program.run(&environment, &run).map_err(|error| error.to_string())?;
    let shown = value.to_json(&mut Budget::default()).map_err(|error| error.to_string())?;
    Ok(json!({"type": value.type_word(), "value": shown}))
}

/// Compares numbers by value.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

#[test]
fn eval_769_expr_agrees() {
    let mut differences = Vec::new();
    let mut rows = 0;
    for name in [
        "../../golden/go-compat/expr.jsonl",
        "../../golden/found/expr.jsonl",
        "tests/data/expr-unchecked.jsonl",
    ] {
        let Ok(text) = std::fs::read_to_string(Path::new(FOLDER).join(name)) else { continue };
        for line in text.lines() {
            rows += 1;
            let row: Value = serde_json::from_str(line).unwrap();
            let expression = row["input"]["expression"].as_str().unwrap();
            let env = row["input"].get("env").cloned().unwrap_or_else(|| json!({}));
            let unchecked = row["op"] == "go.expr_unchecked";
            let program = if unchecked { Program::unchecked(expression) } else { Program::new(expression) };
            let answer = evaluate(program, &env);
            let agrees = match &answer {
                Ok(value) => same(value, &row["result"]),
                Err(_) => row.get("error").is_some(),
            };
            if !agrees {
                differences.push(format!("{expression}\n  expected {row}\n  got {answer:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} of {rows}\n{}", differences.len(), differences.join("\n"));
}

fn run(program: &Program, environment: &Environment) -> Result<ExprValue, expr::ExprError> {
    program.run(environment, &Run::at("2026-11-24T08:00:00Z".parse().unwrap()))
}

fn error(expression: &str, environment: &Environment) -> String {
    match Program::new(expression).and_then(|program| run(&program, environment)) {
        Ok(value) => panic!("{expression}: {value}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn eval_769_errors_say_where() {
    let environment = Environment::new();
    assert_eq!(error("1 +\n  a.b", &environment), "cannot fetch b from <nil> (2:5)");
    assert_eq!(
        error("nil < 1", &environment),
        "invalid operation: < (mismatched types unknown and int) (1:5)"
    );
    assert_eq!(error("'é' + (", &environment), "unexpected token EOF (1:7)");
}

/// What `repo.GetAppDetails()` could give.
struct Details;

impl Object for Details {
    fn type_name(&self) -> &'static str {
        "Details"
    }

    fn member(&self, name: &str) -> Option<ExprValue> {
        match name {
            "Type" => Some("Helm".into()),
            "Parameter" => Some(ExprValue::function(|call: &mut Call<'_>| {
                call.takes(1)?;
                Ok(format!("value of {}", call.text(0)?).into())
            })),
            _ => None,
        }
    }

    fn shown(&self) -> ExprValue {
        ExprValue::namespace([("Type", "Helm".into())]).unwrap()
    }
}

fn registered() -> Environment {
    let repo = ExprValue::namespace([
        ("GetAppDetails", ExprValue::function(|_: &mut Call<'_>| Ok(ExprValue::object(Details)))),
        ("Fail", ExprValue::function(|_: &mut Call<'_>| Err(CallError::new("no such repository")))),
    ]);
    let app = json!({"status": {"operationState": {"finishedAt": "2026-11-24T07:30:00Z"}}, "spec": {"replicas": 3}});
    Environment::new()
        .with("repo", repo.unwrap())
        .and_then(|environment| environment.with("app", ExprValue::from_object(&app).unwrap()))
        .and_then(|environment| environment.with("time", expr::time().unwrap()))
        .and_then(|environment| environment.with("strings", expr::strings().unwrap()))
        .unwrap()
}

#[test]
fn ntf_114_what_callers_register_is_called() {
    let environment = registered();
    for (expression, shown) in [
        ("repo.GetAppDetails().Type", "Helm"),
        ("repo.GetAppDetails().Parameter('image')", "value of image"),
        ("repo.GetAppDetails()?.Type == 'Helm' && 'Type' in repo.GetAppDetails()", "true"),
        ("toJSON(repo.GetAppDetails())", "{\n  \"Type\": \"Helm\"\n}"),
        ("type(repo.GetAppDetails()) + ' ' + type(repo.Fail)", "Details func"),
        ("app.spec.replicas == 3 && type(app.spec.replicas) == 'int'", "true"),
        ("map(['a', 'b'], repo.GetAppDetails().Parameter(#))", "[value of a value of b]"),
    ] {
        for program in [Program::new(expression), Program::unchecked(expression)] {
            let value = run(&program.unwrap(), &environment);
            assert_eq!(value.map(|value| value.to_string()), Ok(shown.to_owned()), "{expression}");
        }
    }
    assert_eq!(error("repo.Fail()", &environment), "no such repository (1:6)");
    assert!(error("repo.GetAppDetails().Parameter()", &environment).contains("expected 1, got 0"));
    assert!(error("repo.GetAppDetails().Nope", &environment).contains("cannot fetch Nope from Details"));
    assert!(error("repo.Nope()", &environment).contains("cannot call nil"));
}

#[test]
fn ntf_121_ntf_122_times_and_texts_of_triggers() {
    let environment = registered();
    for (expression, shown) in [
        ("time.Now().Sub(time.Parse(app.status.operationState.finishedAt)).Minutes() >= 5", "true"),
        ("time.Parse('2026-11-24T07:00:00Z').Add(90 * time.Minute).Before(time.Now())", "false"),
        ("time.Now().Format(time.RFC1123)", "Tue, 24 Nov 2026 08:00:00 UTC"),
        ("(2 * time.Hour).String()", "2h0m0s"),
        ("strings.ReplaceAll(strings.ToUpper('a-b'), '-', '') + strings.ToLower('C')", "ABc"),
    ] {
        let value = run(&Program::new(expression).unwrap(), &environment);
        assert_eq!(value.map(|value| value.to_string()), Ok(shown.to_owned()), "{expression}");
    }
    assert!(error("time.Parse(app.status.nope)", &environment).contains("cannot parse"));
    assert!(error("time.Parse(1)", &environment).contains("as type string"));
}

#[test]
fn sec_07_expressions_have_bounds() {
    let fault = |text: &str| Program::new(text).unwrap_err().fault;
    assert_eq!(fault(&"1 ".repeat(expr::EXPRESSION_BYTES_MAX)), Fault::Length);
    assert_eq!(fault(&format!("[{}]", "1,".repeat(20_000))), Fault::Nodes);
    for nested in [
        "(".repeat(20_000),
        "[".repeat(20_000),
        "-".repeat(20_000),
        format!("1{}", "+1".repeat(4_000)),
        format!("a{}", ".a".repeat(4_000)),
        format!("a{}", "?.a()".repeat(3_000)),
        "map(".repeat(5_000),
        "if a { ".repeat(5_000),
        "let a = ".repeat(5_000),
        "{a:".repeat(5_000),
        "a ? b : ".repeat(2_000),
    ] {
        assert_eq!(fault(&nested), Fault::Depth, "{}", nested.get(..20).unwrap_or_default());
    }
    // Comparisons of neighbours and the short conditional double what they compare.
    let doubled = (0..30).fold("a".to_owned(), |inner, _| format!("(0 < {inner} < 1)"));
    assert_eq!(fault(&doubled), Fault::Nodes);
    let doubled = (0..30).fold("a".to_owned(), |inner, _| format!("({inner} ?: b)"));
    assert_eq!(fault(&doubled), Fault::Nodes);
    let patterns = vec!["a matches 'x'"; 60].join(" or ");
    assert_eq!(fault(&patterns), Fault::Patterns);
    // Ordinary ones are far from all that.
    let usual = vec!["app.status.health.status == 'Degraded'"; 400].join(" or ");
    assert!(Program::new(&usual).is_ok());
    assert!(Program::new(&format!("{}1{}", "(".repeat(70), ")".repeat(70))).is_ok());
}

#[test]
fn sec_07_evaluations_have_bounds() {
    let environment = Environment::new();
    let limits = Limits { steps: 2_000_000, bytes: 32 << 20 };
    let run = Run { limits, ..Run::default() };
    let fault = |text: &str| Program::new(text).unwrap().run(&environment, &run).unwrap_err().fault;
    for endless in [
        "all(1..900000, all(1..900000, true))",
        "any(1..900000, any(1..900000, 'a' matches string(#)))",
        "reduce(1..300, [#acc, #acc], 1) == reduce(1..300, [#acc, #acc], 1)",
        "string(reduce(1..300, [#acc, #acc], 1))",
        "toJSON(reduce(1..300, [#acc, #acc], 1))",
        "flatten(reduce(1..300, [#acc, #acc], 1))",
        "max(reduce(1..300, [#acc, #acc], 1))",
        "median(reduce(1..300, [#acc, #acc], 1))",
        "uniq(map(1..400000, #))",
        "sort(map(1..900000, 0 - #))",
    ] {
        let fault = fault(endless);
        assert!(matches!(fault, Fault::Steps { .. } | Fault::Memory), "{endless}: {fault}");
    }
    for large in [
        "reduce(1..100, #acc + #acc, 'x')",
        "reduce(1..100, replace(#acc, 'x', 'xx'), 'x')",
        "reduce(1..100, join([#acc, #acc]), 'x')",
        "reduce(1..100, concat(#acc, #acc), [1])",
        "reduce(1..100, toBase64(#acc), repeat('x', 900000))",
        "map(1..900000, repeat('x', 50))",
        "map(1..1000, repeat('x', 500000))",
    ] {
        assert_eq!(fault(large), Fault::Memory, "{large}");
    }
    assert_eq!(fault("reduce(1..100000, [#acc], 1)"), Fault::Depth);
    assert_eq!(fault("reduce(1..100000, {{a: #acc}}, 1)"), Fault::Depth);
    assert_eq!(fault("reduce(1..100000, fromPairs([[1, #acc]]), 1)"), Fault::Depth);
}

#[test]
fn eval_769_values_of_any_depth_are_printed_compared_and_dropped() {
    let environment = Environment::new();
    let deep = "reduce(1..380, [#acc], 1)";
    for expression in [
        format!("len(toJSON({deep}))"),
        format!("len(string({deep}))"),
        format!("{deep} == {deep}"),
        format!("{{a: {deep}}} == {{a: {deep}}}"),
        format!("len(flatten({deep}))"),
        format!("max({deep})"),
    ] {
        let program = Program::new(&expression).unwrap();
        assert!(program.run(&environment, &Run::default()).is_ok(), "{expression}");
    }
}
