//! What holds for every value, not only for the rows of the golden data.

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Map, Value};
use tiphys_go::glob::Glob;
use tiphys_go::regexp::Regexp;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_go::{doublestar, duration, path_match, semver};

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,12}", "[a-z:#\\-? \n\t'\"]{0,20}", "[0-9_.eE+-]{1,6}", "\\PC{0,8}", "[a-z ]{60,200}"]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any_text(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dep_41_what_is_written_reads_back(value in any_value()) {
        let text = yaml::to_string(&value).unwrap();
        let read = yaml::parse(&text, Dialect::Sigs, &Limits::default()).unwrap().unwrap_or(Value::Null);
        prop_assert_eq!(read, value, "{}", text);
    }

    #[test]
    fn dep_40_no_text_makes_the_reader_panic(text in "[-a-c:?,\\[\\]{}&*!|>'\"%@# \n\t0-9.~<]{0,40}") {
        for dialect in [Dialect::Sigs, Dialect::V3] {
            let _outcome = yaml::parse(&text, dialect, &Limits::default());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dep_20_a_printed_duration_reads_back(nanoseconds in any::<i64>()) {
        let before = SignedDuration::from_nanos(nanoseconds);
        prop_assert_eq!(duration::parse(&duration::format(before)).unwrap(), before);
    }

    #[test]
    fn dep_40_splitting_loses_no_document(documents in prop::collection::vec("[a-z]{1,5}: [a-z0-9]{1,5}", 1..6)) {
        let stream = documents.join("\n---\n");
        let parts: Vec<String> = yaml::split_documents(&stream).map(|part| part.trim_end().to_owned()).collect();
        prop_assert_eq!(parts, documents);
    }

    #[test]
    fn dep_50_no_pattern_makes_a_matcher_panic(pattern in "[a-c*?{},\\[\\]!^()|+0-9\\\\$:<>P./-]{0,14}", text in "[a-c/.é]{0,8}") {
        let _glob = Glob::new(&pattern, &['/']).map(|glob| glob.is_match(&text));
        let _path = path_match::is_match(&pattern, &text);
        let _stars = doublestar::is_match(&pattern, &text);
        let _regexp = Regexp::new(&pattern).map(|regexp| regexp.replace_all(&text, &pattern));
        let _constraint = semver::satisfies(&pattern, &text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// REP-125: stars between literals are matched by their pieces; braces make the same pattern a program.
    #[test]
    fn rep_125_pieces_between_stars_match_as_the_program_does(
        pieces in prop::collection::vec("[ab/]{0,2}", 3..5),
        text in "[ab/]{0,8}",
    ) {
        // Around one star the text may overlap, in the library too; inside braces it may not.
        if pieces.iter().skip(1).rev().skip(1).all(String::is_empty) {
            return Ok(());
        }
        for star in ["*", "**"] {
            let pattern = pieces.join(star);
            let by_pieces = Glob::new(&pattern, &[]).unwrap();
            let by_program = Glob::new(&format!("{{{pattern}}}"), &[]).unwrap();
            prop_assert_eq!(by_pieces.is_match(&text), by_program.is_match(&text), "{} {}", pattern, text);
        }
    }
}
