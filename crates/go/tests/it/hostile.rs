//! What hostile patterns and documents may cost (SEC-07). The inputs are so large that code without the bound would
//! not end, or steps are counted; nothing here looks at a clock.

use tiphys_go::fasttemplate::{self, Tags, TemplateError};
use tiphys_go::glob::{self, Glob, GlobError};
use tiphys_go::regexp::{self, Regexp, RegexpError};
use tiphys_go::semver::{Constraint, SemverError};
use tiphys_go::steps::Steps;
use tiphys_go::yaml::{self, Dialect, Limits, YamlError};
use tiphys_go::{doublestar, path_match};

/// Zero for what does not compile or does not end.
fn steps_of(pattern: &str, text: &str) -> u64 {
    let mut steps = Steps::unlimited();
    let matched = Glob::new(pattern, &[]).map(|glob| glob.is_match_within(text, &mut steps));
    if matches!(matched, Ok(Ok(_))) { steps.used() } else { 0 }
}

#[test]
fn sec_07_a_glob_takes_at_most_pattern_times_text_steps() {
    let text = "a".repeat(2_000);
    for pattern in [
        "*a".repeat(200) + "b",
        "*?a".repeat(150) + "b",
        "{".repeat(200) + "a*",
        "{*a,".repeat(100) + "b",
        "?*".repeat(200),
    ] {
        let bound = 8 * (pattern.len() as u64 + 2) * (text.len() as u64 + 1);
        let steps = steps_of(&pattern, &text);
        assert!((1..bound).contains(&steps), "{pattern}: {steps} of {bound}");
    }
}

#[test]
fn sec_07_a_glob_takes_no_steps_for_alternatives_that_cannot_match() {
    let names: Vec<String> = (0..1_000).map(|name| format!("file-{name}.yaml")).collect();
    let steps = steps_of(&format!("{{{}}}", names.join(",")), &"z".repeat(4_000));
    assert!((1..50_000).contains(&steps), "{steps}");
}

#[test]
fn sec_07_a_glob_stops_when_its_steps_are_used_up() {
    let glob = Glob::new(&("*?a".repeat(100) + "b"), &[]).unwrap();
    let mut steps = Steps::new(10_000);
    let error = glob.is_match_within(&"a".repeat(1_000), &mut steps).unwrap_err();
    assert_eq!(error.to_string(), "more than 10000 steps");
    assert!(glob.is_match_within("b", &mut steps).is_err(), "the budget is shared");
    assert!(!glob.is_match(&"a".repeat(1_000)));
}

#[test]
fn sec_07_patterns_have_a_length() {
    assert!(Glob::new(&"a".repeat(glob::PATTERN_BYTES_MAX), &[]).is_ok());
    assert_eq!(Glob::new(&"a".repeat(glob::PATTERN_BYTES_MAX + 1), &[]).unwrap_err(), GlobError::TooLong);
    assert!(Regexp::new(&"a".repeat(regexp::PATTERN_BYTES_MAX)).is_ok());
    // Each class is kilobytes, each brace was looked for to the end of the text.
    for unit in ["\\pL", "{", "[[:", "(?i)[\\pL\\pM]"] {
        assert!(matches!(Regexp::new(&unit.repeat(2_000_000)), Err(RegexpError::TooLong)));
    }
    assert!(matches!(Regexp::new("((a{1000}){1000}){1000}"), Err(RegexpError::Engine(_))));
}

#[test]
fn sec_07_constraints_have_a_length_and_their_errors_too() {
    assert!(Constraint::parse(&["1.x"; 500].join(" || ")).is_ok());
    let long = vec!["1.x"; 100_000].join(" || ");
    assert_eq!(Constraint::parse(&long).unwrap_err(), SemverError::ConstraintLength { limit: 4096 });
    let error = Constraint::parse(&"%".repeat(4_000)).unwrap_err().to_string();
    assert!(error.len() < 300, "{error}");
}

#[test]
fn sec_07_alternatives_are_bounded_by_their_size() {
    // 512 combinations in a group, thousands of such groups one after the other as alternatives.
    let many = format!("{{{}}}", vec!["{a,b}".repeat(9); 20_000].join(","));
    let long = "{a,b}".repeat(9) + &"x".repeat(1_000_000);
    let class = "{a,b}".repeat(9) + "[" + &"x".repeat(1_000_000) + "]";
    for pattern in [many, long, class] {
        let error = doublestar::is_match(&pattern, "a").unwrap_err();
        assert_eq!(error.to_string(), "the pattern takes more than 1000000 steps");
    }
    assert_eq!(doublestar::is_match(&("{a,b}".repeat(9) + "/c"), "abababaab/c"), Ok(true));
}

#[test]
fn sec_07_going_back_to_stars_is_counted() {
    let pattern = "**/*".to_owned() + &"a".repeat(1_000) + "b";
    let text = "a".repeat(2_000) + "/";
    let error = doublestar::is_match(&pattern, &text.repeat(2_000)).unwrap_err();
    assert_eq!(error.to_string(), "the pattern takes more than 20000000 steps");
    // A star of `path.Match` never goes back to the one before it.
    assert_eq!(path_match::is_match(&("*a".repeat(2_000) + "b"), &"a".repeat(3_000)), Ok(false));
}

#[test]
fn sec_07_a_template_does_not_multiply_its_values() {
    let value = "x".repeat(1 << 20);
    let template = "{{a}}".repeat(1 << 20);
    let outcome = fasttemplate::render(&template, Tags::default(), |_| Some(&value));
    assert_eq!(outcome, Err(TemplateError::Output));
    let nothing = Tags { start: "", end: "" };
    assert_eq!(fasttemplate::render("a", nothing, |_| None), Err(TemplateError::EmptyTag));
}

#[test]
fn sec_07_reading_again_is_paid_for_by_all_documents() {
    let document = format!("{{{}}}\n", "a:, ".repeat(400));
    let mut memory = tiphys_go::memory::Memory::new(4 << 20);
    let mut read = 0;
    let error = loop {
        match yaml::parse_within(&document, Dialect::Sigs, 100, &mut memory) {
            Ok(_) => read += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, YamlError::Memory { limit: 4 << 20 });
    assert!(read <= 6, "{read} documents of 400 places that have to be read again");
    assert!(yaml::parse(&document, Dialect::Sigs, &Limits::default()).is_ok());
}

#[test]
fn sec_07_directives_are_bounded() {
    let directives =
        |count: usize| (0..count).map(|at| format!("%TAG !t{at}! x:\n")).collect::<Vec<_>>().concat();
    let parse = |text: &str| yaml::parse(text, Dialect::Sigs, &Limits::default());
    assert!(parse(&(directives(100) + "---\na: 1\n")).is_ok());
    let error = parse(&(directives(400_000) + "---\na: 1\n")).unwrap_err();
    assert_eq!(error.to_string(), "yaml: line 101: found more than 100 %TAG directives");
    let text = format!("a: |\n{}", "  %TAG\n".repeat(1_000));
    assert!(parse(&text).is_ok());
}
