//! What is not loaded, and that it is said.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};
use tiphys_helm::{Chart, ChartError, HelmVersion, LoadLimits, load_archive, load_directory};
use tiphys_tree::{MemoryEntry, MemoryTree, TreePath};

const CHART: &str = "apiVersion: v2\nname: c\nversion: 0.1.0\n";

/// Members of an archive: name, kind, content or target.
fn archive(members: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    // Without optimisation compressing is what takes long.
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::none()));
    for (name, kind, content) in members {
        let mut header = Header::new_gnu();
        // Names that no library would write.
        let field = &mut header.as_gnu_mut().unwrap().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        if is_link {
            header.set_link_name_literal(content).unwrap();
        }
        let content = if is_link { &[] } else { *content };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn load(members: &[(&str, EntryType, &[u8])]) -> Result<Chart, ChartError> {
    let mut all = vec![("c/Chart.yaml", EntryType::Regular, CHART.as_bytes())];
    all.extend_from_slice(members);
    load_archive(&archive(&all), HelmVersion::V4, &LoadLimits::default())
}

fn error<T>(result: Result<T, ChartError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn sec_09_members_of_archives_stay_inside() {
    let regular = |name| load(&[(name, EntryType::Regular, b"x")]);
    assert!(regular("c/templates/x.yaml").is_ok());
    for (name, expected) in [
        ("c/../../x", "chart illegally references parent directory: \"c/../../x\""),
        ("c//etc/passwd", "chart illegally contains absolute paths: \"c//etc/passwd\""),
        ("x", "chart illegally contains content outside the base directory: \"x\""),
        ("c/C:/x", "chart contains illegally named files: \"c/C:/x\""),
        ("c\\..\\..\\x", "chart illegally references parent directory: \"c\\\\..\\\\..\\\\x\""),
        ("Chart.yaml/x", "chart yaml not in base directory: \"Chart.yaml/x\""),
    ] {
        assert_eq!(error(regular(name)), expected);
    }
}

#[test]
fn sec_09_links_out_and_devices_are_refused() {
    let link = |name, kind, target: &'static str| load(&[(name, kind, target.as_bytes())]);
    for target in ["/etc/passwd", "../../x", "a/../../../x"] {
        let expected = "templates/x.yaml is a link that leaves the chart's repository";
        assert_eq!(error(link("c/templates/x.yaml", EntryType::Symlink, target)), expected, "{target}");
    }
    assert!(error(link("c/x", EntryType::Link, "../x")).contains("leaves"));
    // Helm reads a link as a file without content.
    let chart = link("c/templates/x.yaml", EntryType::Symlink, "../Chart.yaml").unwrap();
    assert!(chart.templates[0].data.is_empty());
    for kind in [EntryType::Fifo, EntryType::Char, EntryType::Block] {
        assert!(error(load(&[("c/x", kind, b"")])).starts_with("cannot load irregular file x"), "{kind:?}");
    }
}

#[test]
fn sec_09_archives_are_bounded() {
    let zeros = vec![0; 3 << 20];
    let bomb = archive(&[("c/x", EntryType::Regular, &zeros), ("c/y", EntryType::Regular, &zeros)]);
    let small = LoadLimits { archive_bytes: 4 << 20, ..LoadLimits::default() };
    let expected = "chart exceeds maximum decompressed size of 4194304 bytes";
    assert_eq!(error(load_archive(&bomb, HelmVersion::V4, &small)), expected);
    let few = LoadLimits { files: 2, ..LoadLimits::default() };
    let many = archive(&[
        ("c/1", EntryType::Regular, b""),
        ("c/2", EntryType::Regular, b""),
        ("c/3", EntryType::Regular, b""),
    ]);
    assert_eq!(error(load_archive(&many, HelmVersion::V4, &few)), "the chart has more than 2 files");
    let large = vec![b'x'; (5 << 20) + 1];
    let chart = archive(&[
        ("c/Chart.yaml", EntryType::Regular, CHART.as_bytes()),
        ("c/x", EntryType::Regular, &large),
    ]);
    assert!(load_archive(&chart, HelmVersion::V4, &LoadLimits::default()).is_ok());
    let expected = "chart file \"x\" is larger than the maximum file size 5242880";
    assert_eq!(error(load_archive(&chart, HelmVersion::V3, &LoadLimits::default())), expected);
}

/// A size in a header is a claim.
#[test]
fn sec_09_broken_archives_are_errors() {
    let limits = LoadLimits::default();
    let load = |bytes: &[u8]| error(load_archive(bytes, HelmVersion::V4, &limits));
    assert_eq!(load(b"kind: X\n"), "the file does not appear to be a gzipped archive");
    assert_eq!(load(&archive(&[])), "no files in chart archive");
    assert!(load(b"\x1f\x8b\x08garbage").starts_with("unable to load chart archive: "));
    let whole = archive(&[("c/Chart.yaml", EntryType::Regular, CHART.as_bytes())]);
    // What follows the last member is not looked at, by Helm neither.
    for end in 0..whole.len() / 2 {
        assert_ne!(load(&whole[..end]), "", "{end}");
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut header = Header::new_gnu();
    header.set_path("c/Chart.yaml").unwrap();
    header.set_size(1 << 40);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    assert!(load(&encoder.finish().unwrap()).contains("maximum decompressed size"));
}

#[test]
fn sec_09_archives_inside_archives_end() {
    let mut inner = archive(&[("c/Chart.yaml", EntryType::Regular, CHART.as_bytes())]);
    for _ in 0..40 {
        inner = archive(&[
            ("c/Chart.yaml", EntryType::Regular, CHART.as_bytes()),
            ("c/charts/c-0.1.0.tgz", EntryType::Regular, &inner),
        ]);
    }
    let error = error(load_archive(&inner, HelmVersion::V4, &LoadLimits::default()));
    assert!(error.ends_with("charts are nested more than 30 deep"), "{error}");
}

fn directory(entries: Vec<(&str, MemoryEntry)>) -> Result<Chart, ChartError> {
    let chart = ("charts/c/Chart.yaml", MemoryEntry::File(CHART.into(), false));
    let tree = MemoryTree::from_entries(entries.into_iter().chain([chart])).unwrap();
    load_directory(&tree, &TreePath::parse("charts/c").unwrap(), HelmVersion::V4, &LoadLimits::default())
}

fn link(target: &str) -> MemoryEntry {
    MemoryEntry::Symlink(target.to_owned())
}

#[test]
fn rnd_165_links_are_followed_inside_the_repository() {
    let file = |text: &'static str| MemoryEntry::File(text.into(), false);
    let chart = directory(vec![
        ("shared/_x.tpl", file("x")),
        ("shared/values.yaml", file("a: 1")),
        ("charts/c/templates", link("../../shared")),
        ("charts/c/values.yaml", link("../../shared/values.yaml")),
    ])
    .unwrap();
    assert_eq!(
        chart.templates.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(),
        ["templates/_x.tpl", "templates/values.yaml"]
    );
    assert_eq!(chart.values.len(), 1);
    let failed = |entry| error(directory(vec![("charts/c/x", entry)]));
    assert_eq!(failed(link("../../../etc")), "x is a link that leaves the chart's repository");
    assert_eq!(failed(link("/etc/passwd")), "x is a link that leaves the chart's repository");
    assert_eq!(failed(link("nowhere")), "error evaluating symlink x: no such file or directory");
    assert_eq!(failed(link("x")), "error evaluating symlink x: too many links");
    // A directory inside itself.
    assert_eq!(failed(link(".")), "directories of the chart are nested too deeply");
    assert!(failed(MemoryEntry::Submodule).contains("is a git submodule"));
    let ignored = ("charts/c/.helmignore", file("x/"));
    assert!(directory(vec![ignored, ("charts/c/x", MemoryEntry::Submodule)]).is_ok());
}

#[test]
fn rnd_165_a_directory_without_chart_yaml_is_no_chart() {
    let tree = MemoryTree::from_files([("a/values.yaml", "x: 1")]).unwrap();
    let load = |path: &str| {
        let path = TreePath::parse(path).unwrap();
        error(load_directory(&tree, &path, HelmVersion::V4, &LoadLimits::default()))
    };
    assert_eq!(load("a"), "Chart.yaml file is missing");
    assert_eq!(load("b"), "Chart.yaml file is missing");
}

#[test]
fn rnd_166_numbers_in_texts_lose_digits() {
    let metadata = |text: &'static str| {
        let tree = MemoryTree::from_files([("Chart.yaml", text)]).unwrap();
        let chart =
            load_directory(&tree, &TreePath::root(), HelmVersion::V4, &LoadLimits::default()).unwrap();
        (chart.metadata.name, chart.metadata.version, chart.metadata.app_version)
    };
    for (given, expected) in [
        ("version: 1\nappVersion: 1.10", ("1", "1.1")),
        ("version: 1.0\nappVersion: 1.0", ("1", "1")),
        ("version: 2.5\nappVersion: 010", ("2.5", "8")),
        ("version: 0.1.0\nappVersion: true", ("0.1.0", "true")),
        ("version: 0.1.0\nAppVersion: 5", ("0.1.0", "5")),
        ("version: 0.1.0\nappVersion: null", ("0.1.0", "")),
    ] {
        let text: &'static str = Box::leak(format!("name: c\n{given}\n").into_boxed_str());
        let (_, version, app_version) = metadata(text);
        assert_eq!((version.as_str(), app_version.as_str()), expected, "{given}");
    }
}
