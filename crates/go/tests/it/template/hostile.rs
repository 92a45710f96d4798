//! Templates that are written to hurt (SEC-07). Steps are counted; nothing here looks at a clock. What memory, output
//! and nesting cost is in [`super::bounds`].

use super::{chart, execute, render_within};
use serde_json::json;
use std::cell::Cell;
use tiphys_go::template::{Engine, Environment, Limits, PARENTHESES_MAX, Value};

const LIMITS: Limits = Limits {
    steps: 200_000,
    made_bytes: 16 << 20,
    live_bytes: 64 << 20,
    text_bytes: 1 << 20,
    nesting: 4_000,
};
/// What threads have that nobody gave a larger one.
const STACK_BYTES: usize = 2 << 20;

fn refused(text: &str) -> String {
    render_within(text, &json!({}), LIMITS).unwrap_err().message().to_owned()
}

#[test]
fn sec_07_no_template_reaches_the_end_of_a_small_stack() {
    let deep_maps = "{{ $x := dict }}{{ range until 20000 }}{{ $x = dict \"a\" $x }}{{ end }}";
    let deep_lists = "{{ $x := list }}{{ range until 20000 }}{{ $x = list $x }}{{ end }}";
    let knot = "{{ $x := dict }}{{ $_ := set $x \"x\" $x }}{{ $y := dict \"x\" $x }}";
    let walks = [
        "toYaml $x",
        "toYamlPretty $x",
        "toJson $x",
        "toPrettyJson $x",
        "toToml $x",
        "toString $x",
        "quote $x",
        "print $x",
        "printf \"%#v %+v %T %s %d\" $x $x $x $x $x",
        "deepCopy $x",
        "deepEqual $x (deepCopy $x)",
        "merge (dict) $x $x",
        "mergeOverwrite $x (dict \"x\" $x)",
        "uniq (list $x $x)",
        "has $x (list $x)",
        "dig \"a\" \"a\" 1 $x",
        "eq 1 (len $x)",
    ];
    let mut texts: Vec<String> = Vec::new();
    for made in [deep_maps, deep_lists, knot] {
        texts.extend(walks.iter().map(|walk| format!("{made}{{{{ {walk} }}}}")));
    }
    for (open, close) in
        [("[", "]"), ("{\"a\":", "}"), ("- ", ""), ("(", ")"), ("?", ""), ("a = [", "]"), ("[[", "]]")]
    {
        for read in
            ["fromYaml", "fromYamlArray", "fromJson", "fromJsonArray", "fromToml", "regexMatch \"x\"", "tpl"]
        {
            let rest = if read == "tpl" { " ." } else { "" };
            texts.push(format!(
                "{{{{ {read} (print (repeat 60000 {open:?}) (repeat 60000 {close:?})){rest} }}}}"
            ));
        }
        texts.push(format!(
            "{{{{ regexMatch (print (repeat 3000 {open:?}) (repeat 3000 {close:?})) \"x\" }}}}"
        ));
    }
    texts.extend([
        "{{ define \"f\" }}{{ template \"f\" . }}{{ end }}{{ template \"f\" . }}".to_owned(),
        "{{ define \"f\" }}{{ include \"f\" . }}{{ end }}{{ include \"f\" . }}".to_owned(),
        "{{ define \"f\" }}{{ include \"g\" . }}{{ end }}{{ define \"g\" }}{{ include \"f\" . }}{{ end }}{{ include \"f\" . }}"
            .to_owned(),
        "{{ $t := \"{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t) }}".to_owned(),
        format!("{{{{ {}1{} }}}}", "(".repeat(PARENTHESES_MAX - 1), ")".repeat(PARENTHESES_MAX - 1)),
        format!("{{{{ {}1{} }}}}", "(not ".repeat(PARENTHESES_MAX - 1), ")".repeat(PARENTHESES_MAX - 1)),
        format!("{}x{}", "{{ with 1 }}".repeat(60_000), "{{ end }}".repeat(60_000)),
        format!("{{{{ . {} }}}}", ".a".repeat(100_000)),
        format!("{{{{ dict {} }}}}", "\"a\" 1 ".repeat(60_000)),
    ]);
    let hostile = move || {
        for text in &texts {
            // Whether it writes something or fails is not the question.
            let _unused = std::hint::black_box(parsed_and_executed(text));
        }
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(hostile).unwrap().join().unwrap();
}

fn parsed_and_executed(text: &str) -> Result<String, String> {
    let mut templates = super::Templates::new("gotpl", super::FunctionSet::helm());
    templates.parse("t", text.as_bytes()).map_err(|error| error.to_string())?;
    let limits = Limits { steps: 10_000_000, made_bytes: 256 << 20, ..LIMITS };
    execute(&templates, "t", &Value::Nil, limits).map_err(|error| error.to_string())
}

#[test]
fn sec_07_work_on_long_texts_is_steps() {
    let long = "{{ $x := repeat 500000 \"a \" }}";
    for call in [
        "sha256sum $x",
        "upper $x",
        "contains \"b\" $x",
        "regexMatch \"(a|b)*c\" $x",
        "b64enc $x | len",
        "trimSuffix \"b\" $x | len",
        "eq $x (print $x)",
        "splitList \"b\" $x | len",
        "semverCompare $x $x",
        "hasPrefix $x $x",
    ] {
        let text = format!("{long}{{{{ range 1000000 }}}}{{{{ $_ := {call} }}}}{{{{ end }}}}");
        let told = refused(&text);
        let limit =
            ["more than 200000 steps", "more than 16777216 bytes", "a text has more than 1048576 bytes"];
        // Or the call fails at once.
        assert!(
            limit.iter().any(|words| told.contains(words)) || call.starts_with("semver"),
            "{call}: {told}"
        );
    }
}

#[test]
fn sec_07_expressions_that_look_to_the_end_for_each_match_are_stopped() {
    // Each `a` is a match of its own, but only the end of the text says so.
    for call in [
        "regexFindAll \"a*b|a\" $x -1",
        "regexReplaceAll \"a*b|a\" $x \"c\"",
        "regexReplaceAllLiteral \"a*b|a\" $x \"c\"",
        "regexSplit \"a*b|a\" $x -1",
    ] {
        assert_eq!(
            refused(&format!("{{{{ $x := repeat 500000 \"a\" }}}}{{{{ {call} | len }}}}")),
            "the template takes more than 200000 steps",
            "{call}"
        );
    }
    for pattern in
        ["((a{1000}){1000}){1000}", "(\\pL{1000}){100}", "(a*)*(a*)*(a*)*b", "(((a?){30}){30}){30}"]
    {
        let told = render_within(
            &format!("{{{{ mustRegexMatch {pattern:?} (repeat 5000 \"a\") }}}}"),
            &json!({}),
            LIMITS,
        );
        // Too large, too dear, or matched in linear time.
        let words = ["regexp", "size", "more than 200000 steps"];
        assert!(
            told.map_or_else(|error| words.iter().any(|words| error.message().contains(words)), |_| true)
        );
    }
}

/// Steps of a text, beside those of making what it works on.
fn steps_of(prepared: &str, call: &str) -> u64 {
    let steps = |text: &str| {
        let templates = chart(&[("t", text)]);
        let mut engine = Engine::new(&templates, &super::WORLD, Limits::default());
        engine.execute("t", &Value::Nil).unwrap();
        engine.steps()
    };
    steps(&format!("{prepared}{{{{ $_ := {call} }}}}")) - steps(prepared)
}

/// B8: a step is some forty nanoseconds, so all steps of a rendering are some eight seconds whatever takes them. The
/// least that is expected here is half of what was measured.
#[test]
fn sec_07_functions_charge_what_they_take() {
    let long = "{{ $x := repeat 4000 \"Some text, with words. é \" }}";
    let map = "{{ $x := dict }}{{ range until 2000 }}{{ $_ := set $x (print .) (dict \"a\" .) }}{{ end }}";
    let list = "{{ $x := splitList \",\" (repeat 4000 \"some-text-\" | repeat 1) }}\
                {{ $x = splitList \"-\" (repeat 4000 \"some-text-\") }}";
    for (prepared, call, least) in [
        ("", "derivePassword 1 \"long\" \"a\" \"b\" \"c\"", 2_000_000),
        ("", "randAlphaNum 1000", 4_000),
        ("", "regexMatch \"(\\\\pL\\\\d?){60}x\" \"a\"", 60_000),
        ("", "regexMatch (repeat 3000 \"\\\\pL\") \"a\"", 150_000),
        (long, "regexMatch \"[a-z]*a[a-z]{900}9\" $x", 200_000),
        // No automaton: 900 states are simulated for each byte.
        ("{{ $x := repeat 20000 \"a\" }}", "regexMatch \"^[a-z]*a[a-z]{900}9$\" $x", 600_000),
        (long, "kebabcase $x", 30_000),
        (long, "swapcase $x", 15_000),
        (long, "js $x", 15_000),
        (long, "urlquery $x", 15_000),
        (long, "sha512sum $x", 2_000),
        (long, "adler32sum $x", 4_000),
        (long, "encryptAES \"key\" $x", 3_000),
        (long, "trimAll (print $x \"-\") $x", 20_000_000),
        (long, "shuffle $x", 300_000),
        (long, "toDate $x $x", 20_000),
        (map, "toYaml $x", 15_000),
        (map, "toJson $x", 3_000),
        (map, "print $x", 4_000),
        (map, "deepCopy $x", 6_000),
        (map, "merge (dict) $x", 6_000),
        (map, "fromYaml (toYaml $x)", 50_000),
        (list, "sortAlpha $x", 20_000),
        (list, "join \",\" $x", 4_000),
        // A value that ends what is written, and so leaves no text.
        (map, "toJson (list $x (mulf 1e300 1e300))", 8_000),
        // A short text that unfolds.
        (
            "{{ $x := \"a: &a [1,1,1,1,1,1,1,1,1]\\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\" }}",
            "fromYaml $x",
            4_000,
        ),
        // A list that is made anew for each of its tables.
        ("{{ $x := repeat 2000 \"[[a]]\\n\" }}", "fromToml $x", 1_000_000),
        ("", "divf 1e300 1e-300 3.1 1e300", 10_000),
    ] {
        let steps = steps_of(prepared, call);
        assert!(steps >= least, "{call}: {steps} steps, {least} at least");
    }
}

/// Each of these took time that grew with the square of the text: half a megabyte took minutes, which nothing could end.
#[test]
fn sec_07_no_function_takes_the_square_of_a_text() {
    let text = "{{ $x := repeat 20000 \"Some text, with words. é \" }}{{ $a := repeat 400000 \"a\" }}\
                {{ kebabcase $x | len }} {{ snakecase $x | len }} {{ contains (print $a \"b\") (print $a $a) }} \
                {{ replace (print $a \"b\") \"\" (print $a $a) | len }} {{ splitList (print $a \"b\") (print $a $a) | len }}";
    let written = render_within(text, &json!({}), Limits::default()).unwrap();
    assert_eq!(written, "520000 520000 false 800000 1");
}

/// A name of TOML with thousands of parts took time that grew with the third power of it.
#[test]
fn sec_07_names_of_toml_have_so_many_parts() {
    let told =
        render_within("{{ fromToml (print (repeat 5000 \"a.\") \"a = 1\") }}", &json!({}), Limits::default());
    assert!(told.unwrap().contains("nested more than 100 levels deep"));
    let fine = "{{ (fromToml (print (repeat 50 \"a.\") \"a = 1\")).a.a.a.a | len }}";
    assert_eq!(render_within(fine, &json!({}), Limits::default()).unwrap(), "1");
}

#[test]
fn sec_07_widths_and_counts_are_paid_before_they_are_made() {
    for text in [
        "{{ printf \"%999999d%999999d\" 1 1 }}",
        "{{ printf \"%*d%*d\" 999999 1 999999 1 }}",
        "{{ printf \"%.999999f%.999999f\" 1.0 1.0 }}",
        "{{ printf \"%0999999x%0999999x\" \"a\" \"b\" }}",
        "{{ printf (repeat 100000 \"%999999s\") \"a\" }}",
        "{{ nindent 2000000 \"a\" }}",
        "{{ indent 2000 (repeat 2000 \"\\n\") }}",
        "{{ repeat 9223372036854775807 \"ab\" }}",
        "{{ until 9223372036854775807 }}",
        "{{ untilStep 0 9223372036854775807 1 }}",
        "{{ range 9223372036854775807 }}{{ end }}",
        "{{ wrapWith 1 (repeat 10000 \"x\") (repeat 10000 \"a \") }}",
        "{{ randAlphaNum 1000000000 }}",
        "{{ randBytes 1000000000 }}",
        "{{ repeat 3000 \"a,\" | splitList \",\" | join (repeat 3000 \"b\") }}",
        "{{ $x := repeat 1000 \"a\" }}{{ replace \"a\" (repeat 3000 \"b\") $x }}",
        "{{ $x := list 1 }}{{ range 64 }}{{ $x = list $x $x $x $x }}{{ end }}{{ toString $x }}",
    ] {
        let told = refused(text);
        let budget = ["more than", "is too long", "exceeds", "too large"];
        assert!(budget.iter().any(|words| told.contains(words)), "{text}: {told}");
    }
}

/// A caller that gives up when it is asked for the third time.
struct Impatient(Cell<u32>);

impl Environment for Impatient {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(1);
    }

    fn is_cancelled(&self) -> bool {
        self.0.set(self.0.get() + 1);
        self.0.get() > 2
    }
}

#[test]
fn sec_07_a_caller_is_asked_whatever_a_template_does_for_long() {
    for text in [
        "{{ range 1000000000 }}{{ end }}",
        "{{ range 1000000000 }}x{{ end }}",
        "{{ $x := repeat 500000 \"a\" }}{{ range 1000000 }}{{ $_ := sha256sum $x }}{{ end }}",
        "{{ $x := repeat 500000 \"a\" }}{{ regexFindAll \"a*b|a\" $x -1 }}",
        "{{ $x := repeat 500000 \"a\" }}{{ regexReplaceAll \"a*b|a\" $x \"\" }}",
        "{{ define \"f\" }}{{ range 1000 }}{{ tpl \"{{ . }}\" . }}{{ end }}{{ end }}{{ range 100000 }}{{ template \"f\" . }}{{ end }}",
    ] {
        let (templates, impatient) = (chart(&[("t", text)]), Impatient(Cell::new(0)));
        let mut engine = Engine::new(&templates, &impatient, Limits::default());
        let error = engine.execute("t", &Value::Nil).unwrap_err();
        assert_eq!(error.message(), "the template was cancelled", "{text}");
        assert!(engine.steps() < 50_000, "{text}: {} steps", engine.steps());
    }
}
