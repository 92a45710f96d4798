//! What hostile templates hold at once, measured by an allocator that tells (SEC-07, B9). One test, because the allocator
//! measures for the whole process.

#![expect(unsafe_code, reason = "an allocator is an unsafe interface; this one counts and passes on")]
#![expect(clippy::unwrap_used, reason = "helpers of tests count as no tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tiphys_go::live;
use tiphys_go::template::{Engine, FunctionSet, Limits, MissingKey, Still, Templates, Value};

struct Telling;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
    live::allocated(bytes);
}

fn subtract(bytes: usize) {
    NOW.fetch_sub(bytes, Ordering::Relaxed);
    live::freed(bytes);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Telling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may exist at once.
        add(size);
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Telling = Telling;

const BOUND: usize = 16 << 20;

/// Executes a template; gives the peak of memory above what was there before, and how it ended.
fn measure(text: &str) -> (usize, Result<Vec<u8>, String>) {
    let functions = FunctionSet::helm();
    let mut templates = Templates::new("gotpl", functions).with_missing_key(MissingKey::Zero);
    templates.parse("t", text.as_bytes()).unwrap();
    let world = Still(jiff::Timestamp::UNIX_EPOCH);
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let limits = Limits { live_bytes: BOUND, ..Limits::default() };
    let outcome = Engine::new(&templates, &world, limits).execute("t", &Value::Nil);
    (PEAK.load(Ordering::Relaxed) - before, outcome.map_err(|error| error.to_string()))
}

/// B9: what was made was bounded by 2 GiB, what was kept by nothing: these held 2 to 5 GB.
#[test]
fn sec_07_templates_hold_no_more_than_their_bound() {
    let maps = "{{ $x := dict }}{{ range until 2000 }}{{ $_ := set $x (print .) (dict \"a\" .) }}{{ end }}";
    let bomb = "a: &a [1,1,1,1,1,1,1,1,1]\\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\\n";
    let bomb = format!("{{{{ $x := fromYaml \"{bomb}\" }}}}{{{{ len $x }}}}");
    for text in [
        "{{ $x := list }}{{ range until 100000 }}{{ $x = append $x (repeat 1000 \"a\") }}{{ end }}",
        "{{ $k := dict }}{{ range until 100000 }}{{ $_ := set $k (print .) (repeat 1000 (print .)) }}{{ end }}",
        "{{ $x := list }}{{ $y := list }}{{ range until 5000 }}{{ $y = append $y . }}{{ $x = append $x $y }}{{ end }}",
        &format!(
            "{maps}{{{{ $k := dict }}}}{{{{ range until 1000 }}}}{{{{ $_ := set $k (print .) (deepCopy $x) }}}}{{{{ end }}}}"
        ),
        &format!(
            "{maps}{{{{ $k := dict }}}}{{{{ range until 1000 }}}}{{{{ $_ := set $k (print .) (merge (dict) $x) }}}}{{{{ end }}}}"
        ),
        &format!(
            "{maps}{{{{ $k := dict }}}}{{{{ range until 10000 }}}}{{{{ $_ := set $k (print .) (toYaml $x) }}}}{{{{ end }}}}"
        ),
        // Maps that hold themselves go only when the run ends.
        "{{ range until 1000000 }}{{ $x := dict \"a\" (repeat 1000 \"a\") }}{{ $_ := set $x \"x\" $x }}{{ end }}",
        // A text that is larger than all.
        "{{ $x := repeat 20000000 \"a\" }}{{ len $x }}",
        "{{ $x := repeat 6000000 \"a\" }}{{ $y := print $x $x $x }}{{ len $y }}",
        "{{ $x := repeat 400000 \"a,\" }}{{ $y := splitList \",\" $x }}{{ len $y }}",
        "{{ $x := repeat 400000 \"a\" }}{{ $y := splitList \"\" $x }}{{ len $y }}",
        "{{ $x := print \"[\" (repeat 400000 \"[],\") \"[]]\" }}{{ $y := fromJsonArray $x }}{{ len $y }}",
        "{{ $x := print \"[\" (repeat 400000 \"[],\") \"[]]\" }}{{ $y := fromYamlArray $x }}{{ len $y }}",
        &bomb,
        // The members of a map are copied for each range over it.
        &format!(
            "{maps}{{{{ define \"f\" }}}}{{{{ range $k, $v := .x }}}}{{{{ template \"f\" $ }}}}{{{{ end }}}}{{{{ end }}}}{{{{ template \"f\" (dict \"x\" $x) }}}}"
        ),
        // What is written, also where it is thrown away.
        "{{ range until 10000000 }}some text that is long enough{{ end }}",
        "{{ derivePassword 1 \"long\" \"a\" \"b\" \"c\" }}",
        "{{ range until 1000 }}{{ regexMatch (print \"(\\\\pL\\\\d?){20}x\" .) \"a\" }}{{ tpl (print . (repeat 1000 \"{{ if . }}x{{ end }}\")) . }}{{ end }}\
         {{ $x := list }}{{ range until 100000 }}{{ $x = append $x (repeat 1000 \"a\") }}{{ end }}",
    ] {
        let (peak, outcome) = measure(text);
        // Old and new of a text that grows are there at once.
        assert!(peak <= BOUND + BOUND / 2, "{text}: {peak} bytes");
        let error = outcome.unwrap_err();
        assert!(error.contains(&format!("holds more than {BOUND} bytes")), "{text}: {error}");
        assert!(error.starts_with("template: t:1:"), "the place is named: {error}");
    }
    // What goes again does not count.
    let (peak, outcome) = measure("{{ range until 5000 }}{{ $x := repeat 100000 \"a\" }}{{ end }}fine");
    assert_eq!(outcome.as_deref(), Ok(&b"fine"[..]));
    assert!(peak < BOUND / 4, "{peak}");
}
