use super::*;

fn selects(pattern: &str, path: &str) -> bool {
    Pathspec::parse(pattern).unwrap().matches(path).unwrap()
}

#[test]
fn aset_49_stars_cross_slashes_and_directories_select_what_is_below() {
    for (pattern, path, expected) in [
        ("*.json", "a/b/c.json", true),
        ("apps/*/config.json", "apps/a/b/config.json", true),
        ("apps/**/config.json", "apps/a/b/config.json", true),
        ("apps/**/config.json", "apps/config.json", false),
        ("apps", "apps/a/b", true),
        ("apps/", "apps/a/b", true),
        ("apps/", "apps", false),
        ("app", "apps/a", false),
        ("a?c", "a/c", true),
        ("a[!b]c", "a/c", true),
        ("a[/]c", "a/c", true),
        ("[a-c]x", "bx", true),
        ("[]x]", "]", true),
        ("[[:digit:]]x", "7x", true),
        ("[[:odd:]]", "o", false),
        ("a\\*", "a*", true),
        ("a\\*", "ab", false),
        ("./a/../b", "b", true),
        (".", "x/y", true),
        ("a//b", "a/b", true),
        ("*", "x/y", true),
        ("A", "a", false),
        ("[", "[", true),
    ] {
        assert_eq!(selects(pattern, path), expected, "{pattern} {path}");
    }
}

#[test]
fn aset_49_magic_words_are_gits() {
    for (pattern, path, expected) in [
        (":(glob)apps/*/x", "apps/a/x", true),
        (":(glob)apps/*/x", "apps/a/b/x", false),
        (":(glob)apps/**/x", "apps/a/b/x", true),
        (":(glob)apps/**/x", "apps/x", true),
        (":(glob)**/x", "x", true),
        (":(glob)**/x", "a/b/x", true),
        (":(glob)a/**", "a/b/c", true),
        (":(literal)a*", "ab", false),
        (":(literal)a*", "a*", true),
        (":(icase)AB", "ab/c", true),
        (":/a", "a", true),
        (":!a", "a", false),
        (":!a", "b", true),
        (":^a", "b", true),
        (":(exclude)a", "a", false),
        (":(top,glob)*", "a", true),
        (":(top,glob)*", "a/b", false),
    ] {
        assert_eq!(selects(pattern, path), expected, "{pattern} {path}");
    }
}

#[test]
fn aset_49_what_git_refuses_is_refused() {
    for pattern in
        ["", "/a", "../a", "a/../../b", ":(odd)a", ":(attr:x)a", ":(literal,glob)a", ":(glob", ":#a"]
    {
        assert!(Pathspec::parse(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn inv_10_a_pattern_that_takes_too_long_is_an_error() {
    let pattern = "*a".repeat(60);
    let spec = Pathspec::parse(&format!("{pattern}b")).unwrap();
    let path = "a".repeat(4_000);
    // Aborts keep the search short; whatever the answer is, there is one.
    assert!(!spec.matches(&path).unwrap_or(false));
    let spec = Pathspec::parse(&"*a".repeat(500)).unwrap();
    assert!(spec.matches(&path).is_err());
}

/// git itself is asked where it is there.
#[test]
fn aset_49_git_says_the_same() {
    let paths = [
        "a",
        "b/a",
        "b/c/a.json",
        "b/c/d/a.json",
        "x y/z",
        "q/[b]/w",
        "q/b/w",
        "st*r/f",
        "B/A",
        "deep/a/b/c/d/e.yaml",
        "e.yaml",
        "deep/e.yaml",
    ];
    let patterns = [
        "*",
        "a",
        "b",
        "b/",
        "b/*",
        "b/c/",
        "b/c/*.json",
        "b/**/a.json",
        "**/a.json",
        "*/a.json",
        "*.json",
        "?",
        "b/?",
        "[ab]",
        "q/[b]/w",
        "q/\\[b\\]/w",
        "q/*",
        "q/[[]b]/*",
        "st\\*r",
        "st*r",
        "*/[!c]/*",
        "./b",
        "b/./c",
        ".",
        ":(glob)*",
        ":(glob)**/*.json",
        ":(glob)b/*/a.json",
        ":(glob)b/**/a.json",
        ":(glob)deep/**",
        ":(glob)**/e.yaml",
        ":(icase)b/a",
        ":(literal)q/[b]",
        ":!b",
        ":(exclude)*.json",
        ":/b",
        "*e.yaml",
        "deep/*.yaml",
        "deep/*/e.yaml",
        "[[:upper:]]/*",
        "x y",
        "x*z",
        "b/c/a.json/x",
        "a/",
    ];
    let folder = std::env::temp_dir().join(format!("tiphys-pathspec-{}", std::process::id()));
    for path in paths {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, path).unwrap();
    }
    #[expect(clippy::disallowed_methods, reason = "the reference is asked, in a test")]
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(&folder).args(arguments);
        command.output().map(|output| (output.status.success(), output.stdout)).ok()
    };
    let is_there =
        git(&["init", "-q"]).is_some_and(|(ok, _)| ok) && git(&["add", "."]).is_some_and(|(ok, _)| ok);
    if !is_there {
        println!("git is missing: nothing compared");
        return;
    }
    let mut differences = Vec::new();
    for pattern in patterns {
        let (ok, listed) = git(&["ls-files", "-z", "--", pattern]).unwrap();
        assert!(ok, "{pattern}");
        let mut expected: Vec<String> =
            listed.split(|byte| *byte == 0).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        expected.retain(|path| !path.is_empty());
        expected.sort();
        let mut found: Vec<String> =
            paths.iter().filter(|path| selects(pattern, path)).map(|path| (*path).to_owned()).collect();
        found.sort();
        if found != expected {
            differences.push(format!("{pattern}: {found:?}, git {expected:?}"));
        }
    }
    let _gone = std::fs::remove_dir_all(&folder);
    assert!(differences.is_empty(), "{differences:#?}");
}
