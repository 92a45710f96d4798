//! What hostile documents take, measured by an allocator that counts: the budgets are bytes as they really are
//! (SEC-07). One test, because the allocator counts for the whole process.

#![expect(unsafe_code, reason = "an allocator is an unsafe interface; this one counts and passes on")]
#![expect(clippy::unwrap_used, reason = "helpers of tests count as no tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tiphys_render::{Budget, Inputs, MemoryTree, Reason, RenderRequest, render_offline};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may exist at once.
        add(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Renders one file; gives the peak of memory above what was there before, and how it ended.
fn measure(name: &str, text: String, budget: &Budget) -> (usize, Result<usize, Reason>) {
    let tree = MemoryTree::from_files([(name, text)]).unwrap();
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let outcome = render_offline(&RenderRequest::default(), &Inputs::of(&tree), budget);
    let outcome = outcome.map(|rendered| rendered.objects.len()).map_err(|error| {
        assert!(error.reason != Reason::MemoryExceeded || error.message.contains(name), "{error}");
        error.reason
    });
    (PEAK.load(Ordering::Relaxed) - before, outcome)
}

/// Copies of one document of small mappings, through anchors.
fn bomb(item: &str, levels: usize) -> String {
    let mut text = format!("kind: A\na0: &a0 [{}]\n", [item; 10].join(","));
    for level in 1..levels {
        let below = format!("*a{}", level - 1);
        text = format!("{text}a{level}: &a{level} [{}]\n", [below.as_str(); 10].join(","));
    }
    text
}

/// A3: 7.5 KB of YAML took 2.2 GB, 9 MB of JSON 1.7 GB.
#[test]
fn sec_07_hostile_documents_stay_within_the_budget() {
    let budget = Budget::default();
    // The text itself, its decoded form and the parser's copies of a scalar.
    let bound = |text: &str| budget.memory + 5 * text.len() + (1 << 20);
    let small = budget.small();
    let small_most = small.memory + 5 * 512 * 1024 + (1 << 20);
    let many = |item: &str, bytes: usize| vec![item; bytes / (item.len() + 1)].join(",");
    let keys: Vec<String> = (0..12).map(|key| format!("k{key}: 0")).collect();
    let wide = format!("{{{}}}", keys.join(", "));
    let merged = format!("kind: A\nm: &m {wide}\nx:\n{}", "- <<: *m\n".repeat(1_000_000));
    let documents = [
        ("one-key.yaml", bomb("{a: {a: 0}}", 7), true),
        ("empty-lists.yaml", bomb("[[],[]]", 8), true),
        ("texts.yaml", bomb(&"x".repeat(4_000), 6), true),
        ("wide.yaml", bomb(&wide, 6), true),
        ("merged.yaml", merged, true),
        ("flat.yaml", format!("kind: A\nx: [{}]\n", many("{a: 0}", 9_000_000)), true),
        ("one-key.json", format!("{{\"kind\":\"A\",\"x\":[{}]}}", many("{\"\":0}", 9_000_000)), true),
        ("lists.json", format!("{{\"kind\":\"A\",\"x\":[{}]}}", many("[[0]]", 9_000_000)), true),
        ("numbers.json", format!("{{\"kind\":\"A\",\"x\":[{}]}}", many("0", 9_000_000)), true),
        ("large.yaml", format!("kind: A\nx: |\n  {}\n", "x".repeat(9_000_000)), false),
        ("large.json", format!("{{\"kind\":\"A\",\"x\":\"{}\"}}", "x".repeat(9_000_000)), false),
    ];
    for (name, text, refused) in documents {
        // Each begins as a small rendering, of which several run at the same time.
        let (peak, outcome) = measure(name, text.clone(), &small);
        assert!(peak <= small_most, "{name}: {peak} bytes, at most {small_most} of a small rendering");
        assert_eq!(outcome, Err(Reason::MemoryExceeded), "{name}");
        let most = bound(&text);
        let (peak, outcome) = measure(name, text, &budget);
        assert!(peak <= most, "{name}: {peak} bytes, at most {most}");
        assert_eq!(outcome, if refused { Err(Reason::MemoryExceeded) } else { Ok(1) }, "{name}");
    }
}
