use super::*;

fn complete(directory: &mut Directory) {
    let git = directory.path().join("git").join("demo.git");
    std::fs::create_dir_all(&git).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    directory.write(Scenario::Waves, 7, "http://127.0.0.1:8080/git/demo.git", true).unwrap();
}

fn refusal(path: &Path, reset: bool) -> String {
    Directory::kept(path, reset).err().expect("refused").to_string()
}

#[test]
fn cli_1004_a_temporary_directory_goes_with_its_demo() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::temporary(parent.path()).unwrap();
    let path = directory.path().to_owned();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert_eq!(running(parent.path()), std::slice::from_ref(&path));
    let second = Directory::temporary(parent.path()).unwrap();
    assert_ne!(second.path(), path);
    assert!(path.exists());
    directory.close().unwrap();
    second.close().unwrap();
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn cli_1004_only_what_killed_demos_left_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let killed = parent.path().join("tiphys-demo-1");
    std::fs::create_dir_all(killed.join("git")).unwrap();
    std::fs::write(killed.join(LOCK), "1").unwrap();
    let others = ["tiphys-demo-2", "tiphys-demon", "notes"].map(|name| parent.path().join(name));
    for other in &others {
        std::fs::create_dir(other).unwrap();
        std::fs::write(other.join("file"), "mine").unwrap();
    }
    let target = parent.path().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join(LOCK), "").unwrap();
    std::os::unix::fs::symlink(&target, parent.path().join("tiphys-demo-3")).unwrap();
    let directory = Directory::temporary(parent.path()).unwrap();
    assert!(!killed.exists());
    assert!(others.iter().all(|other| other.join("file").exists()));
    assert!(target.join(LOCK).exists());
    directory.close().unwrap();
}

#[test]
fn cli_1004_a_kept_directory_is_found_again_and_reset_on_demand() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a").join("b");
    let mut first = Directory::kept(&path, false).unwrap();
    assert_eq!(first.record(), None);
    complete(&mut first);
    assert!(refusal(&path, true).contains(&format!("(process {})", std::process::id())));
    first.close().unwrap();
    std::fs::write(path.join("notes"), "mine").unwrap();
    let again = Directory::kept(&path, false).unwrap();
    assert_eq!(again.record().map(|record| (record.seed, record.scenario.as_str())), Some((7, "waves")));
    again.close().unwrap();
    let reset = Directory::kept(&path, true).unwrap();
    assert_eq!(reset.record(), None);
    assert!(!path.join("git").exists());
    assert!(path.join("notes").exists());
}

#[test]
fn cli_1004_a_foreign_directory_is_never_touched() {
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("thesis.tex"), "mine").unwrap();
    for reset in [false, true] {
        let text = refusal(parent.path(), reset);
        assert!(text.contains("not made by `tiphys demo`"), "{text}");
    }
    let names: Vec<_> = std::fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.tex"]);
}

#[test]
fn cli_1004_a_damaged_directory_is_refused_with_the_way_out() {
    let parent = tempfile::tempdir().unwrap();
    for text in [
        "",
        "{",
        "{\"format\":1}",
        "{\"format\":9,\"scenario\":\"waves\",\"seed\":1,\"repository\":\"\",\"is_complete\":true}",
    ] {
        std::fs::write(parent.path().join(RECORD), text).unwrap();
        let refused = refusal(parent.path(), false);
        assert!(refused.contains("--reset"), "{refused}");
        assert_eq!(std::fs::read_to_string(parent.path().join(RECORD)).unwrap(), text);
    }
    let mut reset = Directory::kept(parent.path(), true).unwrap();
    complete(&mut reset);
    reset.close().unwrap();
    std::fs::remove_dir_all(parent.path().join("git")).unwrap();
    assert!(refusal(parent.path(), false).contains("Git repository is missing"));
}
