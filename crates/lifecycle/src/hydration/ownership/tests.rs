use serde_json::json;

use super::*;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn age(name: &str, created: &str) -> Age {
    Age { held_since: None, created: created.to_owned(), name: ("argocd".to_owned(), name.to_owned()) }
}

fn claim(project: &str, name: &str, directory: &str, created: &str) -> Claim {
    Claim {
        project: project.to_owned(),
        path: path(directory),
        usage: Usage::Writes,
        age: age(name, created),
    }
}

fn held(claim: Claim, since: i64) -> Claim {
    let held_since = Some(Timestamp::from_second(since).unwrap());
    Claim { age: Age { held_since, ..claim.age }, ..claim }
}

fn syncs(claim: Claim) -> Claim {
    Claim { usage: Usage::Syncs, ..claim }
}

#[derive(Default)]
struct Branch {
    claims: Vec<Claim>,
    readers: Vec<Reader>,
}

impl BranchFacts for Branch {
    fn claims(&self, path: &TreePath) -> Vec<Claim> {
        self.claims.iter().filter(|claim| overlap(&claim.path, path)).cloned().collect()
    }

    fn is_precluded(&self, claim: &Claim) -> bool {
        let affected = self.readers.iter().filter(|reader| reader.is_affected(claim));
        let held = |extent: &Extent| {
            let own = self.claims.iter().filter(|own| own.project == claim.project);
            own.filter(|own| own.age.held_since.is_some()).any(|own| extent.reads(&own.path))
        };
        is_precluded(&affected.map(|reader| reader.extent.clone()).collect(), &held)
    }
}

/// Names of those that do not get what they claim.
fn losers(claims: &[Claim]) -> Vec<String> {
    let branch = Branch { claims: claims.to_vec(), ..Branch::default() };
    let lost = claims.iter().filter(|claim| loss(claim, &branch).is_some());
    lost.map(|claim| claim.age.name.1.clone()).collect()
}

#[test]
fn ctl_109_the_oldest_claim_of_a_directory_wins() {
    let (old, new) = (claim("p", "b", "apps/x", "2026-01-01"), claim("p", "a", "apps/x", "2026-01-02"));
    assert_eq!(losers(&[new.clone(), old.clone()]), ["a"]);
    assert_eq!(losers(&[old.clone(), new.clone()]), ["a"], "whatever the order");
    let branch = Branch { claims: vec![old], ..Branch::default() };
    assert_eq!(loss(&new, &branch), Some(Loss::Sibling("argocd".to_owned(), "b".to_owned())));
    let foreign = Claim { project: "q".to_owned(), ..new };
    assert_eq!(loss(&foreign, &branch), Some(Loss::Foreign));
    let (one, two) = (claim("p", "a", "x", "2026-01-01"), claim("p", "b", "x", "2026-01-01"));
    assert_eq!(losers(&[two, one]), ["b"], "of two of one second the name decides");
    assert_eq!(losers(&[claim("p", "a", "x", ""), claim("p", "b", "x", "2026-01-01")]), ["a"]);
}

#[test]
fn inv_16_directories_of_projects_are_apart() {
    let owner = claim("p", "owner", "apps/x", "1");
    for (directory, is_lost) in [
        ("apps/x", true),
        ("apps", true),
        ("apps/x/y/z", true),
        ("apps/xy", false),
        ("app", false),
        ("other", false),
    ] {
        let other = claim("q", "other", directory, "2");
        assert_eq!(losers(&[owner.clone(), other]).is_empty(), !is_lost, "{directory}");
        let sibling = claim("p", "other", directory, "2");
        assert_eq!(losers(&[owner.clone(), sibling]).is_empty(), directory != "apps/x", "{directory}");
    }
}

#[test]
fn inv_16_signed_claims_count_more_than_age() {
    let (incumbent, old) = (held(claim("p", "new", "x", "2026"), 50), claim("q", "old", "x", "2020"));
    assert_eq!(losers(&[incumbent.clone(), old.clone()]), ["old"]);
    // It held the directory once, and kept what said so.
    assert_eq!(losers(&[incumbent, held(old, 10)]), ["old"]);
}

#[test]
fn ctl_109_whoever_lost_keeps_nobody_out() {
    let first = claim("p", "first", "a", "1");
    let second = claim("q", "second", "a/b", "2");
    let third = claim("r", "third", "a/b/c", "3");
    assert_eq!(losers(&[first.clone(), second.clone(), third]), ["second", "third"]);
    let sibling = claim("p", "third", "a/b/c", "3");
    assert_eq!(losers(&[first, second, sibling]), ["second"], "it only conflicts with a loser");
}

#[test]
fn ctl_109_a_directory_that_is_synced_is_claimed() {
    let reader = syncs(claim("p", "reader", "x", "1"));
    assert_eq!(losers(&[reader.clone(), claim("p", "writer", "x", "2")]), ["writer"]);
    assert_eq!(losers(&[reader.clone(), claim("q", "writer", "x/y", "2")]), ["writer"]);
    assert_eq!(losers(&[claim("q", "writer", "x", "0"), reader.clone()]), ["reader"]);
    assert!(losers(&[reader, syncs(claim("p", "other", "x", "2"))]).is_empty(), "both wait for a merge");
}

#[test]
fn inv_16_readers_that_were_there_before_are_not_written_over() {
    let reader = |project: &str, extent, created: &str| Reader {
        project: project.to_owned(),
        extent,
        age: age("reader", created),
    };
    let lost = |reader: Reader, claim: &Claim| {
        loss(claim, &Branch { readers: vec![reader], ..Branch::default() }) == Some(Loss::Read)
    };
    let writer = claim("p", "writer", "apps/x", "2");
    let within = |directory: &str| Extent::Directory(path(directory));
    for (extent, is_lost) in [
        (Extent::Branch, true),
        (within("apps/x"), true),
        (within("apps"), true),
        (within("."), true),
        (within("apps/x/y"), false),
        (within("apps/y"), false),
    ] {
        assert_eq!(lost(reader("q", extent.clone(), "1"), &writer), is_lost, "{extent:?}");
        assert!(!lost(reader("q", extent.clone(), "3"), &writer), "it came later: {extent:?}");
        assert!(!lost(reader("p", extent.clone(), "1"), &writer), "of the same project: {extent:?}");
        assert!(!lost(reader("q", extent.clone(), "1"), &held(writer.clone(), 9)), "{extent:?}");
        assert!(!lost(reader("q", extent, "1"), &syncs(writer.clone())));
    }
}

#[test]
fn inv_16_only_the_controller_signs_claims() {
    let hydrator = |branch: &str, path: &str| -> Hydrator {
        serde_json::from_value(json!({"drySource": {"repoURL": "https://h/dry", "targetRevision": "main"},
            "syncSource": {"repoURL": "https://h/wet", "targetBranch": branch, "path": path}}))
        .unwrap()
    };
    let since: Timestamp = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
    let own = hydrator("env", "a");
    let signed = signed_claim(b"key", "uid", &own, since).unwrap();
    let read =
        |key: &[u8], uid: &str, hydrator: &Hydrator, text: &str| held_since(key, uid, hydrator, Some(text));
    assert_eq!(read(b"key", "uid", &own, &signed), Some(since));
    let spelled: Hydrator = serde_json::from_value(json!({"drySource": {"repoURL": "https://h/other"},
        "syncSource": {"repoURL": "https://H/wet.git", "targetBranch": "env", "path": "./a/"}}))
    .unwrap();
    assert_eq!(read(b"key", "uid", &spelled, &signed), Some(since), "the same directory");
    assert_eq!(read(b"other", "uid", &own, &signed), None);
    assert_eq!(read(b"key", "copy", &own, &signed), None);
    assert_eq!(read(b"key", "uid", &hydrator("env", "b"), &signed), None);
    assert_eq!(read(b"key", "uid", &hydrator("dev", "a"), &signed), None);
    let forged = format!("2020-01-01T00:00:00Z {}", signed.split_once(' ').unwrap().1);
    for text in [forged.as_str(), "", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z ", &signed.to_uppercase()]
    {
        assert_eq!(read(b"key", "uid", &own, text), None, "{text}");
    }
    assert_eq!(signed_claim(b"", "uid", &own, since), None, "without a key nothing is signed");
    assert_eq!(
        (held_since(b"", "uid", &own, Some(&signed)), held_since(b"key", "uid", &own, None)),
        (None, None)
    );
}

#[test]
fn ctl_108_what_a_hydrator_claims() {
    let claims = |written: serde_json::Value| -> Vec<(String, Usage)> {
        let hydrator: Hydrator = serde_json::from_value(written).unwrap();
        let (path, branches) = claimed(&hydrator).unwrap();
        assert_eq!(path.as_str(), "a");
        branches
            .into_iter()
            .map(|(branch, usage)| (format!("{} {}", branch.place(), branch.branch()), usage))
            .collect()
    };
    let direct = json!({"drySource": {"repoURL": "https://H/Wet.git"}, "syncSource": {"targetBranch": "env", "path": "a"}});
    assert_eq!(claims(direct.clone()), [("h/wet env".to_owned(), Usage::Writes)]);
    let mut proposed = direct;
    proposed["hydrateTo"] = json!({"targetBranch": "next"});
    assert_eq!(
        claims(proposed),
        [("h/wet next".to_owned(), Usage::Writes), ("h/wet env".to_owned(), Usage::Syncs)]
    );
}

#[test]
fn inv_16_readers_keep_no_project_out_of_its_branch() {
    let reader = |extent| Reader { project: "q".to_owned(), extent, age: age("reader", "1") };
    let established = held(claim("p", "first", "apps/a", "2"), 9);
    let new = claim("p", "second", "apps/b", "3");
    let lost = |extent: &Extent, known: &Claim| {
        let branch = Branch { claims: vec![known.clone()], readers: vec![reader(extent.clone())] };
        loss(&new, &branch) == Some(Loss::Read)
    };
    for extent in [Extent::Branch, Extent::Directory(path(".")), Extent::Directory(path("apps"))] {
        assert!(!lost(&extent, &established), "it came when the project was there: {extent:?}");
        assert!(lost(&extent, &claim("p", "first", "apps/a", "2")), "that is not known: {extent:?}");
        assert!(lost(&extent, &held(claim("r", "first", "apps/a", "2"), 9)), "another project: {extent:?}");
    }
    let same = Extent::Directory(path("apps/b"));
    assert!(lost(&same, &established), "nobody of the project writes there yet");
}

/// API servers tell creation times in seconds: the name decides between two claims, and never against a reader.
#[test]
fn inv_16_a_reader_of_the_same_second_was_there_before() {
    let reader = |name: &str, created: &str| Reader {
        project: "q".to_owned(),
        extent: Extent::Directory(path("dry/x")),
        age: age(name, created),
    };
    let lost = |reader: Reader, claim: &Claim| {
        let branch = Branch { claims: vec![claim.clone()], readers: vec![reader] };
        loss(claim, &branch)
    };
    let claim = claim("p", "claimant", "dry/x", "2026-01-01T00:00:00Z");
    for name in ["a", "z"] {
        assert_eq!(lost(reader(name, "2026-01-01T00:00:00Z"), &claim), Some(Loss::Read), "{name}");
        assert_eq!(lost(reader(name, "2026-01-01T00:00:01Z"), &claim), None, "{name}");
        assert_eq!(lost(reader(name, "2026-01-01T00:00:00Z"), &held(claim.clone(), 50)), None, "{name}");
    }
}
