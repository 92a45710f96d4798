//! What templates cost: time and allocations per executed instruction and per action, parsing and executing.
//!
//! `cargo run --release -p tiphys-go --example bench-templates`

#![expect(clippy::print_stdout, reason = "a program")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]
#![expect(unsafe_code, reason = "an allocator is an unsafe interface; this one counts and passes on")]

use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tiphys_go::template::{
    Engine, FunctionSet, Limits, MissingKey, Parsed, Still, TemplateError, Templates, Value,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A name, a template, and how many actions it executes.
const CASES: &[(&str, &str, u64)] = &[
    ("text and fields", "{{ range 1000 }}a: {{ $.a.b.c }} {{ $.name }}\n{{ end }}", 2_000),
    (
        "if, eq, and",
        "{{ range 1000 }}{{ if and $.on (eq $.name \"web\") }}x{{ else }}y{{ end }}{{ end }}",
        1_000,
    ),
    (
        "variables",
        "{{ $x := 0 }}{{ range $i, $e := until 1000 }}{{ $x = add $x $e }}{{ end }}{{ $x }}",
        1_000,
    ),
    (
        "pipelines of texts",
        "{{ range 1000 }}{{ $.name | trunc 63 | trimSuffix \"-\" | quote }}{{ end }}",
        1_000,
    ),
    ("printf", "{{ range 1000 }}{{ printf \"%s-%d:%v\" $.name . $.on }}{{ end }}", 1_000),
    ("include", "{{ range 1000 }}{{ include \"full\" $ | nindent 4 }}{{ end }}", 2_000),
    ("dict and merge", "{{ range 1000 }}{{ $d := merge (dict \"a\" .) $.a }}{{ end }}", 1_000),
    ("toYaml", "{{ range 1000 }}{{ toYaml $.a | nindent 2 }}{{ end }}", 1_000),
    ("tpl", "{{ range 1000 }}{{ tpl \"{{ .name }}\" $ }}{{ end }}", 2_000),
];
const LIBRARY: &str = r#"{{ define "full" }}{{ printf "%s-%s" .name "x" | trunc 63 }}{{ end }}"#;

fn main() -> Result<(), TemplateError> {
    let data = Value::from_json(&json!({
        "name": "web", "on": true, "a": {"b": {"c": "text"}, "list": [1, 2, "x"], "d": {"e": 1.5}},
    }));
    println!("{:<20} {:>10} {:>12} {:>10} {:>14}", "", "ns/step", "ns/action", "steps", "allocs/action");
    for (name, text, actions) in CASES {
        let mut templates = Templates::new("gotpl", FunctionSet::helm()).with_missing_key(MissingKey::Zero);
        templates.parse("lib", LIBRARY.as_bytes())?;
        templates.parse("t", text.as_bytes())?;
        let world = Still(jiff::Timestamp::UNIX_EPOCH);
        let (mut rounds, mut steps) = (0, 0);
        let (before, started) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
        while started.elapsed() < Duration::from_millis(500) {
            let mut engine = Engine::new(&templates, &world, Limits::default());
            engine.execute("t", &data)?;
            (rounds, steps) = (rounds + 1, engine.steps());
        }
        let nanoseconds = started.elapsed().as_nanos() as f64 / f64::from(rounds);
        let allocations = (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / f64::from(rounds);
        let (each_step, each) = (nanoseconds / steps as f64, nanoseconds / *actions as f64);
        println!(
            "{name:<20} {each_step:>10.1} {each:>12.1} {steps:>10} {:>14.2}",
            allocations / *actions as f64
        );
    }
    let source = CASES.iter().map(|(_, text, _)| *text).collect::<String>().repeat(20);
    let functions = FunctionSet::helm();
    let (mut rounds, started) = (0, Instant::now());
    while started.elapsed() < Duration::from_millis(500) {
        Parsed::new("t", source.as_bytes(), &functions)?;
        rounds += 1;
    }
    let each = started.elapsed().as_nanos() as f64 / f64::from(rounds);
    let actions = source.matches("{{").count();
    println!(
        "parsing: {:.0} MB/s, {:.0} ns per action",
        source.len() as f64 * 1e3 / each,
        each / actions as f64
    );
    Ok(())
}
