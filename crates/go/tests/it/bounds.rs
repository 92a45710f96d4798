//! What hostile input may cost, and the edges that the golden data has no rows for.

use serde_json::json;
use std::borrow::Cow;
use tiphys_go::cron::{self, Schedule};
use tiphys_go::json;
use tiphys_go::nesting::{self, DEPTH_MAX};
use tiphys_go::yaml::{self, Dialect, Limits, YamlError};

const SMALL: Limits = Limits { bytes_max: 1 << 20, depth_max: 100 };

#[test]
fn dep_40_aliases_of_a_long_text_are_paid_for() {
    let long = "x".repeat(100_000);
    let text = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 30_000].join(", "));
    assert!(matches!(yaml::parse(&text, Dialect::Sigs, &Limits::default()), Err(YamlError::Memory { .. })));
}

#[test]
fn dep_40_an_alias_bomb_is_refused() {
    let mut lines = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
    for level in 1..10 {
        let below = format!("*a{}", level - 1);
        lines.push(format!("a{level}: &a{level} [{}]", [below.as_str(); 10].join(", ")));
    }
    let text = lines.join("\n");
    for dialect in [Dialect::Sigs, Dialect::V3] {
        assert_eq!(yaml::parse(&text, dialect, &SMALL), Err(YamlError::Memory { limit: 1 << 20 }));
    }
}

/// What unfolds to much is measured first, and then read like everything else: merges, errors and depth included.
#[test]
fn dep_40_a_document_that_is_measured_is_read_as_it_is() {
    let wide: Vec<String> = (0..40).map(|number| format!("k{number}: v{number}")).collect();
    let wide = format!("wide: &wide {{{}}}", wide.join(", "));
    let limits = Limits { bytes_max: 1 << 30, depth_max: 100 };
    for dialect in [Dialect::Sigs, Dialect::V3] {
        let text = format!("{wide}\nmany: [{}]\nlast: {{<<: *wide, k0: own}}", ["*wide"; 500].join(", "));
        let value = yaml::parse(&text, dialect, &limits).unwrap().unwrap();
        let many = value["many"].as_array().unwrap();
        assert!(
            many.len() == 500 && many.iter().all(|one| *one == value["wide"] && one["k39"] == json!("v39"))
        );
        assert_eq!((&value["last"]["k0"], &value["last"]["k39"]), (&json!("own"), &json!("v39")));
        let wrong = format!("{text}\nwrong: *nobody\n");
        assert_eq!(yaml::parse(&wrong, dialect, &limits), Err(YamlError::UnknownAnchor("nobody".to_owned())));
    }
}

#[test]
fn dep_40_deep_nesting_is_refused() {
    let text = "[".repeat(5_000);
    assert_eq!(yaml::parse(&text, Dialect::Sigs, &SMALL), Err(YamlError::Depth { line: 1 }));
    let text = format!("a: 1\nb:\n{}", "- ".repeat(5_000));
    assert_eq!(yaml::parse(&text, Dialect::Sigs, &SMALL), Err(YamlError::Depth { line: 3 }));
}

/// STY-27: all readers agree on what is too deep, to the level; a value that one of them read none refuses.
#[test]
fn sty_27_all_readers_have_one_limit() {
    for (levels, is_read) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false)] {
        let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(nesting::check(text.as_bytes()).is_ok(), is_read);
        assert_eq!(json::decode_go(text.as_bytes()).is_ok(), is_read);
        assert_eq!(json::decode_kubernetes(text.as_bytes()).is_ok(), is_read);
        for dialect in [Dialect::Sigs, Dialect::V3] {
            assert_eq!(yaml::parse(&text, dialect, &Limits::default()).is_ok(), is_read);
        }
    }
    let error = json::decode_go("[".repeat(500).as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "exceeded max depth of 100 at offset 100");
}

/// STY-27: an alias nests what its anchor nests.
#[test]
fn sty_27_aliases_do_not_get_below_the_limit() {
    let deep =
        |name: &str, inner: &str| format!("{name}: &{name} {}{inner}{}\n", "[".repeat(60), "]".repeat(60));
    for dialect in [Dialect::Sigs, Dialect::V3] {
        let two = deep("a", "x") + &deep("b", "*a");
        assert_eq!(yaml::parse(&two, dialect, &Limits::default()), Err(YamlError::Depth { line: 0 }));
        let one = deep("a", "x") + "b: [*a]\n";
        assert!(yaml::parse(&one, dialect, &Limits::default()).is_ok());
    }
}

#[test]
fn dep_40_an_anchor_that_contains_itself_is_refused() {
    let outcome = yaml::parse("a: &a [*a]", Dialect::Sigs, &SMALL);
    assert_eq!(outcome, Err(YamlError::OpenAnchor("a".to_owned())));
}

#[test]
fn rnd_74_utf_16_is_decoded_by_its_mark() {
    let little: Vec<u8> = "\u{feff}a: é".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = "\u{feff}a: é".encode_utf16().flat_map(u16::to_be_bytes).collect();
    for bytes in [little.as_slice(), big.as_slice(), "\u{feff}a: é".as_bytes(), "a: é".as_bytes()] {
        assert_eq!(yaml::decode_text(bytes).unwrap(), "a: é");
    }
    assert_eq!(yaml::decode_text(b"\xff\xfea"), Err(YamlError::Encoding));
    assert_eq!(yaml::decode_text(b"\xc3"), Err(YamlError::Encoding));
}

#[test]
fn rnd_76_documents_are_split_at_separator_lines() {
    let split = |text: &str| yaml::split_documents(text).map(Cow::into_owned).collect::<Vec<_>>();
    assert_eq!(split("---\na: 1\n---\r\nb: 2"), ["a: 1\n", "b: 2\n"]);
    assert_eq!(split("a: 1\n--- # two\nb: 2\n---"), ["a: 1\n", "--- # two\nb: 2\n"]);
    assert_eq!(split("a: |\n  ---\n  x\n---b: 1\n"), ["a: |\n  ---\n  x\n---b: 1\n"]);
    assert!(split("").is_empty());
}

#[test]
fn rnd_76_no_document_and_null_are_no_value() {
    for text in ["", "# only a comment\n", "---\n", "null\n", "~"] {
        assert_eq!(yaml::parse(text, Dialect::Sigs, &SMALL), Ok(None));
    }
}

#[test]
fn dep_40_a_colon_inside_brackets_is_text() {
    let read = yaml::parse("{a:, b:, 'c': [d:, é:]}", Dialect::Sigs, &SMALL).unwrap();
    assert_eq!(read, Some(json!({"a:": null, "b:": null, "c": ["d:", "é:"]})));
}

#[test]
fn dep_41_an_escaped_slash_is_refused() {
    for (text, allowed) in [(r#"{é: "\\/", b: "\/"}"#, false), (r#"{é: "\\/", b: '\/'}"#, true)] {
        assert_eq!(yaml::parse(text, Dialect::Sigs, &SMALL).is_ok(), allowed, "{text}");
    }
}

#[test]
fn dep_48_a_day_that_a_zone_skipped_ends_the_search() {
    let schedule = Schedule::parse("0 0 30 12 *", cron::zone("Pacific/Apia").unwrap()).unwrap();
    let after = "2011-12-01T00:00:00Z".parse().unwrap();
    let next = schedule.next_after(after).unwrap();
    assert!(next > after);
}

#[test]
fn dep_48_a_date_that_never_comes_is_never() {
    let schedule = Schedule::parse("0 0 30 2 *", cron::zone("").unwrap()).unwrap();
    assert_eq!(schedule.next_after("2026-01-01T00:00:00Z".parse().unwrap()), None);
}

#[test]
fn rnd_166_whole_floats_stay_floats_for_those_who_fill_text_fields() {
    let text = "a: 12345e6\nb: 1000000.0\nc: 1000000\nd: [1.0, 1]\n";
    let mut memory = tiphys_go::memory::Memory::new(1 << 20);
    let kept = yaml::parse_keeping_floats_within(text, Dialect::Sigs, 100, &mut memory).unwrap().unwrap();
    let spelled = json::print_go;
    assert_eq!(spelled(&kept), "map[a:1.2345e+10 b:1e+06 c:1000000 d:[1 1]]");
    assert!(kept["d"][0].is_f64() && kept["d"][1].is_i64());
    // Others get what the value is after the detour through JSON.
    let parsed = yaml::parse(text, Dialect::Sigs, &Limits::default()).unwrap().unwrap();
    assert_eq!(spelled(&parsed), "map[a:12345000000 b:1000000 c:1000000 d:[1 1]]");
}
