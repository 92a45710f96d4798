use std::fs;
use std::io::Write as _;

use gix::prelude::Write as _;

use super::*;

const SIZE: u64 = 3 << 30;

/// A repository with one loose object whose header says what it is, and whose content is not what it says. Whoever
/// reads more than the header fails.
fn with_only_a_header(kind: &str, size: u64) -> (tempfile::TempDir, ObjectId, Objects) {
    let directory = tempfile::tempdir().unwrap();
    gix::init_bare(directory.path()).unwrap();
    let id = ObjectId::from_hex("1234567890123456789012345678901234567890".as_bytes()).unwrap();
    let level = gix::zlib::Compression::BEST_SPEED;
    let mut out = gix::zlib::stream::deflate::Write::new(Vec::new(), level);
    out.write_all(format!("{kind} {size}\0").as_bytes()).unwrap();
    out.flush().unwrap();
    fs::create_dir_all(directory.path().join("objects/12")).unwrap();
    let name = id.to_string();
    fs::write(directory.path().join("objects/12").join(name.get(2..).unwrap()), out.into_inner()).unwrap();
    let objects = Objects::open(directory.path()).unwrap();
    (directory, id, objects)
}

/// INV-10: a file of 3 GiB behind a tag is seen to be no commit by its header, and is no damage that fetching again
/// would mend.
#[test]
fn inv_10_a_large_file_is_no_commit_by_its_header() {
    for kind in ["blob", "tree"] {
        let (_directory, id, objects) = with_only_a_header(kind, SIZE);
        assert!(objects.find_commit(id).unwrap().is_none(), "{kind}");
        assert_eq!(objects.expand("1234567"), None);
        assert!(!objects.is_damaged());
    }
}

/// INV-10: what is larger than its kind may be is not read.
#[test]
fn inv_10_large_commits_tags_and_directories_are_refused_by_their_header() {
    for kind in ["commit", "tag"] {
        let (_directory, id, objects) = with_only_a_header(kind, SIZE);
        let error = objects.find_commit(id).map(|found| found.is_some()).unwrap_err();
        assert_eq!(error, TreeError::Damaged { what: "a commit is too large".to_owned() });
        assert!(!objects.is_damaged());
    }
    let (_directory, id, objects) = with_only_a_header("tree", SIZE);
    let error = objects.members(id).map(drop).unwrap_err();
    let what = "a directory has more than 8388608 bytes of names".to_owned();
    assert_eq!(error, TreeError::Exceeded { what });
    assert!(!objects.is_damaged());
}

/// INV-10: no object that is larger than the limit of allocations is decoded, whoever asks for it.
#[test]
fn inv_10_objects_beyond_the_limit_are_not_allocated() {
    let (_directory, id, objects) = with_only_a_header("blob", SIZE);
    let error = objects.object(id, Kind::Blob, u64::MAX).unwrap_err();
    assert_eq!(error, TreeError::Damaged { what: "an object is too large".to_owned() });
    assert!(!objects.is_damaged());
}

/// RND-30: tags are followed to their commit, a bounded number of times.
#[test]
fn rnd_30_tags_are_followed_so_far_and_no_further() {
    let directory = tempfile::tempdir().unwrap();
    let repository = gix::init_bare(directory.path()).unwrap();
    let write = |kind: Kind, text: &str| repository.objects.write_buf(kind, text.as_bytes()).unwrap();
    let tree = write(Kind::Tree, "");
    let who = "Ada <ada@example.test> 1700000000 +0000";
    let commit = write(Kind::Commit, &format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nText\n"));
    let (mut id, mut kind) = (commit, "commit");
    for n in 0..=TAGS_MAX {
        let objects = Objects::open(directory.path()).unwrap();
        let found = objects.find_commit(id).unwrap();
        assert_eq!(found.map(|data| (data.id, data.message)), Some((commit, "Text\n".to_owned())), "{n}");
        assert_eq!(objects.expand(id.to_string().get(..12).unwrap()), Some(commit.to_string()));
        id = write(Kind::Tag, &format!("object {id}\ntype {kind}\ntag t{n}\ntagger {who}\n\nx\n"));
        kind = "tag";
    }
    assert!(Objects::open(directory.path()).unwrap().find_commit(id).unwrap().is_none());
}

/// RND-46: content that has the right hash and makes no sense was made so; it is not fetched again and again.
#[test]
fn rnd_46_nonsense_with_the_right_hash_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let repository = gix::init_bare(directory.path()).unwrap();
    let objects = |kind: Kind, text: &[u8]| {
        let id = repository.objects.write_buf(kind, text).unwrap();
        (id, Objects::open(directory.path()).unwrap())
    };
    let (id, found) = objects(Kind::Tree, b"no directory");
    assert!(found.members(id).is_err() && !found.is_damaged());
    let (id, found) = objects(Kind::Blob, b"no directory");
    assert!(found.members(id).is_err() && !found.is_damaged());
    let (id, found) = objects(Kind::Commit, b"no commit");
    assert!(found.find_commit(id).is_err() && !found.is_damaged());
    let (id, found) = objects(Kind::Tag, b"no tag");
    assert!(found.find_commit(id).is_err() && !found.is_damaged());
}
