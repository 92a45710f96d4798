//! What is wrong with the spec of an application is said before it is stored (API-126, REP-216).

use super::embedded::Embedded;

#[test]
fn rep_216_a_spec_that_is_not_right_is_refused_with_the_words_of_the_server() {
    let bed = Embedded::start();
    let create = |more: &[&str]| {
        let args = ["app", "create", "ui", "--repo", "https://h/r", "--dest-namespace", "n"];
        let (message, code) = bed.fails(&[&args[..], more].concat());
        assert_eq!(code, 20, "{message}");
        message
            .strip_prefix("rpc error: code = InvalidArgument desc = ")
            .map(str::to_owned)
            .unwrap_or(message)
    };
    let both = create(&["--path", "p", "--dest-server", "https://a", "--dest-name", "b"]);
    assert_eq!(
        both,
        "application destination spec for ui is invalid: application destination can't have both name and server \
         defined: b https://a"
    );
    assert_eq!(
        create(&["--path", "p", "--dest-name", "b"]),
        "application destination spec for ui is invalid: there are no clusters with this name: b"
    );
    assert_eq!(
        create(&["--path", "p"]),
        "application destination spec for ui is invalid: Destination server missing from app spec"
    );
    assert_eq!(
        create(&["--dest-name", "in-cluster"]),
        "application spec for ui is invalid: InvalidSpecError: spec.source.repoURL and either spec.source.path or \
         spec.source.chart are required"
    );
    assert_eq!(
        create(&["--path", "p", "--dest-name", "in-cluster", "--project", "none"]),
        "application spec for ui is invalid: InvalidSpecError: Application referencing project none which does not \
         exist"
    );
    assert_eq!(bed.succeeds(&["app", "list", "-o", "name"]), "");
}
