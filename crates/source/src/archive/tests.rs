use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use super::*;

/// A member: kind, path, content or target.
fn packed(members: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, content) in members {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(if *kind == EntryType::Directory { 0o000 } else { 0o4777 });
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        header.set_size(if is_link { 0 } else { content.len() as u64 });
        // Written by hand: the library refuses what is tested here.
        let name = &mut header.as_gnu_mut().unwrap().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        if is_link {
            header.as_gnu_mut().unwrap().linkname[..content.len()].copy_from_slice(content);
        }
        header.set_cksum();
        builder.append(&header, if is_link { &[][..] } else { content }).unwrap();
    }
    gzip(&builder.into_inner().unwrap())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn unpack_within(bytes: &[u8], bytes_max: u64) -> Result<ArchiveTree, ArchiveError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("packed");
    std::fs::write(&path, bytes).unwrap();
    let result = ArchiveTree::unpack(&path, Packing::Gzip, bytes_max, directory.path());
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing stays on the disk");
    result
}

fn unpack(members: &[(EntryType, &str, &[u8])]) -> Result<ArchiveTree, ArchiveError> {
    unpack_within(&packed(members), 1 << 20)
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

const FILE: EntryType = EntryType::Regular;

#[test]
fn rnd_112_an_archive_is_a_tree() {
    let tree = unpack(&[
        (EntryType::Directory, "web/", b""),
        (FILE, "./web/Chart.yaml", b"name: web"),
        (FILE, "web/templates/a.yaml", b"kind: A"),
        (EntryType::Symlink, "web/link", b"templates/a.yaml"),
        (EntryType::Link, "web/hard", b"web/Chart.yaml"),
        (FILE, "web/twice", b"one"),
        (FILE, "web/twice", b"two"),
    ])
    .unwrap();
    let names: Vec<String> = tree.list(&path("web")).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Chart.yaml", "hard", "link", "templates", "twice"]);
    assert_eq!(tree.read(&path("web/hard"), 100).unwrap(), "name: web");
    assert_eq!(tree.read(&path("web/twice"), 100).unwrap(), "two");
    assert!(matches!(tree.read(&path("web/twice"), 2), Err(TreeError::TooLarge { .. })));
    assert!(matches!(tree.read(&path("web"), 2), Err(TreeError::NotAFile { .. })));
    let inner = tree.subtree_id(&path("web")).unwrap().unwrap();
    let below = tree.below_top().unwrap();
    assert_eq!(below.id(), inner);
    assert_eq!(below.read(&path("Chart.yaml"), 100).unwrap(), "name: web");
    assert!(below.below_top().is_err(), "more than one member");
}

/// SEC-05, SEC-09: what would leave the directory, or is no file, is refused, and nothing of it stays.
#[test]
fn sec_09_members_that_could_do_harm_are_refused() {
    for (kind, name, content) in [
        (FILE, "../a", &b"x"[..]),
        (FILE, "a/../../b", b"x"),
        (FILE, "a/../b", b"x"),
        (FILE, "/etc/passwd", b"x"),
        (FILE, "a\\..\\b", b"x"),
        (EntryType::Block, "disk", b""),
        (EntryType::Char, "tty", b""),
        (EntryType::Fifo, "pipe", b""),
        (EntryType::GNUSparse, "holes", b"x"),
    ] {
        let error = unpack(&[(kind, name, content)]).unwrap_err();
        assert!(matches!(error, ArchiveError::Path(_) | ArchiveError::Broken(_)), "{name}: {error:?}");
    }
    for (kind, name, target) in [
        (EntryType::Symlink, "a", &b"/etc/passwd"[..]),
        (EntryType::Symlink, "a", b"../x"),
        (EntryType::Symlink, "d/a", b"../../d/x"),
        (EntryType::Link, "a", b"/etc/passwd"),
        (EntryType::Link, "a", b"../x"),
        (EntryType::Link, "a", b"not-there"),
    ] {
        assert_eq!(unpack(&[(kind, name, target)]).unwrap_err(), ArchiveError::Link(name.to_owned()));
    }
    // A path through a link would be followed on a disk.
    let through = unpack(&[(EntryType::Symlink, "a", b"b"), (FILE, "a/x", b"x")]);
    assert_eq!(through.unwrap_err(), ArchiveError::Path("a/x".to_owned()));
}

#[test]
fn sec_09_bombs_have_a_bound() {
    let zeroes = vec![0_u8; 3 << 20];
    assert!(matches!(unpack(&[(FILE, "a", &zeroes)]), Err(ArchiveError::Exceeded(_))));
    let half = vec![0_u8; 600 << 10];
    assert!(matches!(unpack(&[(FILE, "a", &half), (FILE, "b", &half)]), Err(ArchiveError::Exceeded(_))));
    // Packed twice, a megabyte is some bytes.
    let bomb = gzip(&vec![0_u8; 40 << 20]);
    assert!(matches!(
        unpack_within(&bomb, 1 << 20),
        Err(ArchiveError::Exceeded(_) | ArchiveError::Broken(_))
    ));
    let deep = format!("{}x", "d/".repeat(40));
    assert!(unpack(&[(FILE, &deep, b"x")]).is_ok());
}

#[test]
fn f20_half_an_archive_is_an_error() {
    let noise: Vec<u8> =
        (0..200_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_be_bytes()).collect();
    let whole = packed(&[(FILE, "a", &noise), (FILE, "b", b"x")]);
    assert!(unpack_within(&whole, 1 << 20).is_ok());
    for length in [0, 1, 10, 1_000, whole.len() / 2, whole.len() - 9] {
        let cut = unpack_within(&whole[..length], 1 << 20);
        assert!(matches!(cut, Err(ArchiveError::Broken(_))), "{length}: {cut:?}");
    }
    assert!(matches!(unpack_within(b"no archive", 1 << 20), Err(ArchiveError::Broken(_))));
}

/// F19: bytes that changed on the disk are noticed.
#[test]
fn f19_damage_is_noticed() {
    let tree = unpack(&[(FILE, "a", b"hello")]).unwrap();
    assert_eq!(tree.read(&path("a"), 10).unwrap(), "hello");
    tree.content.write_all_at(b"J", 512).unwrap();
    assert!(matches!(tree.read(&path("a"), 10), Err(TreeError::Damaged { .. })));
}
