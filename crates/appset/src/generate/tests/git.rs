use super::*;

fn world() -> World {
    World::default().with_repo(
        "https://h/r",
        &[
            ("apps/a/x.yaml", "name: web\nports: [80, 1000000]\nnested: {k: y}"),
            ("apps/b_C/x.yaml", "- {n: 1}\n- {n: 2}"),
            ("apps/b_C/empty.yaml", ""),
            ("apps/deep/er/x.json", "{\"n\": 3}"),
            (".hidden/in/f", ""),
            ("root.json", "{\"n\": 0}"),
            ("bad.yaml", "text"),
            ("none.yaml", "[]"),
        ],
    )
}

fn git(block: Value) -> Value {
    let mut block = block;
    block["repoURL"] = json!("https://h/r");
    block["revision"] = json!("main");
    json!([{"git": block}])
}

fn directories(patterns: &[(&str, bool)]) -> Vec<String> {
    let patterns: Vec<Value> =
        patterns.iter().map(|(path, exclude)| json!({"path": path, "exclude": exclude})).collect();
    let sets = world().parameters(&fast_set(git(json!({"directories": patterns})))).unwrap();
    sets.iter().map(|set| set["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn aset_47_directories_match_by_segments_in_walk_order() {
    assert_eq!(directories(&[("*", false)]), ["apps"]);
    assert_eq!(directories(&[("apps/*", false)]), ["apps/a", "apps/b_C", "apps/deep"]);
    assert_eq!(directories(&[("apps/**", false)]), ["apps/a", "apps/b_C", "apps/deep"]);
    assert_eq!(directories(&[("apps/*/*", false), ("apps", false)]), ["apps", "apps/deep/er"]);
    assert_eq!(directories(&[("apps/b*", true), ("apps/*", false)]), ["apps/a", "apps/deep"]);
    assert_eq!(directories(&[("apps/[ab]", false)]), ["apps/a"]);
    assert_eq!(directories(&[("/apps/*", false), ("[", false), (".hidden", false)]), [] as [&str; 0]);
    let hidden = World {
        settings: tiphys_api::Settings::new(tiphys_api::settings::SettingsData {
            params: [("reposerver.include.hidden.directories".to_owned(), "true".to_owned())].into(),
            ..Default::default()
        }),
        ..world()
    };
    let sets = hidden.parameters(&fast_set(git(json!({"directories": [{"path": ".hidden/*"}]})))).unwrap();
    assert_eq!(sets[0]["path"], ".hidden/in");
}

#[test]
fn aset_48_directories_give_path_parameters() {
    let one = |set: &ApplicationSet| world().sets_of(set).unwrap();
    let block = json!({"directories": [{"path": "apps/b_C"}], "values": {"v": "{{path.basename}}"}});
    assert_eq!(
        one(&fast_set(git(block))),
        texts(&[
            r#"{"path":"apps/b_C","path.basename":"b_C","path.basenameNormalized":"b-c","path[0]":"apps","path[1]":"b_C","values.v":"b_C"}"#
        ])
    );
    let block = json!({"directories": [{"path": "apps/b_C"}], "pathParamPrefix": "p"});
    assert_eq!(
        one(&fast_set(git(block.clone()))),
        texts(&[
            r#"{"p.path":"apps/b_C","p.path.basename":"b_C","p.path.basenameNormalized":"b-c","p.path[0]":"apps","p.path[1]":"b_C"}"#
        ])
    );
    assert_eq!(
        one(&go_set(git(block))),
        texts(&[
            r#"{"p":{"path":{"basename":"b_C","basenameNormalized":"b-c","path":"apps/b_C","segments":["apps","b_C"]}}}"#
        ])
    );
}

fn files(world: &World, patterns: &[(&str, bool)]) -> Result<Vec<String>, String> {
    let patterns: Vec<Value> =
        patterns.iter().map(|(path, exclude)| json!({"path": path, "exclude": exclude})).collect();
    match world.parameters(&go_set(git(json!({"files": patterns})))) {
        Ok(sets) => Ok(sets
            .iter()
            .map(|set| {
                let path = &set["path"];
                format!("{}/{}", path["path"].as_str().unwrap(), path["filename"].as_str().unwrap())
            })
            .collect()),
        Err(Stop::Failed(failure)) => Err(failure.message),
        Err(Stop::Pending) => panic!(),
    }
}

#[test]
fn aset_49_files_match_as_git_pathspecs_or_as_doublestar_globs() {
    let world = world();
    assert_eq!(
        files(&world, &[("apps/*/x.*", false)]).unwrap(),
        ["apps/a/x.yaml", "apps/b_C/x.yaml", "apps/b_C/x.yaml", "apps/deep/er/x.json"]
    );
    assert_eq!(
        files(&world, &[("apps/deep", false), ("*.json", false)]).unwrap(),
        ["apps/deep/er/x.json", "./root.json"]
    );
    assert_eq!(files(&world, &[("*.json", false), ("apps", true)]).unwrap(), ["./root.json"]);
    let glob = git::world().with_params(&[("enable.new.git.file.globbing", "true")]);
    assert_eq!(
        files(&glob, &[("apps/*/x.*", false)]).unwrap(),
        ["apps/a/x.yaml", "apps/b_C/x.yaml", "apps/b_C/x.yaml"]
    );
    assert_eq!(files(&glob, &[("apps/**/x.json", false)]).unwrap(), ["apps/deep/er/x.json"]);
    assert_eq!(files(&glob, &[("apps/{a,deep/er}/x.{yaml,json}", false)]).unwrap().len(), 2);
    assert_eq!(files(&glob, &[("apps/*", false)]), Err("unable to read apps/a: is a directory".to_owned()));
    assert!(files(&glob, &[("[", false)]).is_err());
    assert!(files(&world, &[("/apps", false)]).is_err(), "git refuses what is outside");
    assert!(files(&world, &[("", false)]).is_err());
}

#[test]
fn aset_50_files_hold_objects_lists_or_nothing() {
    let world = world();
    let sets = |path: &str, is_go: bool| {
        let generators = git(json!({"files": [{"path": path}]}));
        world.sets_of(&if is_go { go_set(generators) } else { fast_set(generators) })
    };
    assert_eq!(
        sets("apps/a/x.yaml", false).unwrap(),
        texts(&[
            r#"{"name":"web","nested.k":"true","path":"apps/a","path.basename":"a","path.basenameNormalized":"a","path.filename":"x.yaml","path.filenameNormalized":"x.yaml","path[0]":"apps","path[1]":"a","ports.0":"80","ports.1":"1e+06"}"#
        ])
    );
    assert_eq!(
        sets("root.json", true).unwrap(),
        texts(&[
            r#"{"n":0,"path":{"basename":".","basenameNormalized":"","filename":"root.json","filenameNormalized":"root.json","path":".","segments":["."]}}"#
        ])
    );
    assert_eq!(sets("apps/b_C/x.yaml", true).unwrap().len(), 2);
    assert_eq!(sets("none.yaml", true).unwrap().len(), 0);
    assert_eq!(sets("apps/b_C/empty.yaml", true).unwrap().len(), 1);
    let error = sets("bad.yaml", true).unwrap_err();
    assert!(
        error.starts_with(
            "unable to process file 'bad.yaml' from repository 'https://h/r': unable to parse file: "
        ),
        "{error}"
    );
    assert_eq!(sets("missing", true).unwrap().len(), 0);
}

#[test]
fn aset_45_a_git_generator_wants_directories_or_files() {
    let none = world().sets_of(&go_set(git(json!({})))).unwrap_err();
    assert_eq!(none, "ApplicationSet is empty");
    let both = json!({"directories": [{"path": "apps/a"}], "files": [{"path": "root.json"}]});
    assert_eq!(world().sets_of(&go_set(git(both))).unwrap().len(), 1);
    let elsewhere =
        json!([{"git": {"repoURL": "https://h/other", "revision": "x", "files": [{"path": "a"}]}}]);
    assert_eq!(world().sets_of(&go_set(elsewhere)).unwrap_err(), "no such repository");
}

#[test]
fn aset_46_the_project_of_the_template_must_exist_unless_it_is_templated() {
    let with = |project: &str| {
        let mut set = go_set(git(json!({"directories": [{"path": "apps/a"}]})));
        set.spec.template["spec"]["project"] = json!(project);
        world().sets_of(&set).map(|sets| sets.len())
    };
    assert_eq!(with("default"), Ok(1));
    assert_eq!(with("{{ .x }}"), Ok(1));
    assert_eq!(
        with("nobody"),
        Err("error getting project nobody: appprojects.argoproj.io \"nobody\" not found".to_owned())
    );
}

/// INV-6: what a set without `spec.project` reads is decided by the project of its template, and by its namespace.
#[test]
fn sec_unscoped_sets_read_with_permitted_credentials_only() {
    let world = world()
        .with_project(json!({"metadata": {"name": "permits"}, "spec": {"sourceRepos": ["https://h/*"]}}))
        .with_project(json!({"metadata": {"name": "other"}, "spec": {"sourceRepos": ["https://h/x"]}}))
        .with_project(json!({"metadata": {"name": "team"}, "spec": {"sourceRepos": ["*"],
            "sourceNamespaces": ["team"]}}));
    let asked = |project: &str, namespace: &str| {
        let mut set = go_set(git(json!({"directories": [{"path": "apps/a"}]})));
        set.spec.template["spec"]["project"] = json!(project);
        namespace.clone_into(&mut set.metadata.namespace);
        world.anonymous.borrow_mut().clear();
        world.sets_of(&set).map(|_| world.anonymous.borrow().clone())
    };
    let with = |answer: bool| Ok(vec![answer]);
    assert_eq!(asked("permits", "argocd"), with(false));
    assert_eq!(asked("other", "argocd"), with(true));
    assert_eq!(asked("{{ .x }}", "argocd"), with(false));
    assert_eq!(asked("{{ .x }}", "team"), with(true));
    assert_eq!(asked("team", "team"), with(false));
    assert_eq!(
        asked("permits", "team"),
        Err("namespace team is not permitted to use project permits".to_owned())
    );
}

#[test]
fn aset_274_a_scoped_set_reads_permitted_repositories() {
    let world =
        world().with_project(json!({"metadata": {"name": "p"}, "spec": {"sourceRepos": ["https://h/x"]}}));
    let mut scoped = go_set(git(json!({"directories": [{"path": "apps/a"}]})));
    scoped.spec.project = "p".to_owned();
    assert_eq!(world.sets_of(&scoped).unwrap_err(), "repository https://h/r is not permitted in project 'p'");
    let world =
        world.with_project(json!({"metadata": {"name": "p"}, "spec": {"sourceRepos": ["https://h/*"]}}));
    assert_eq!(world.sets_of(&scoped).unwrap().len(), 1);
}

#[test]
fn aset_49_links_are_followed_inside_the_repository_only() {
    use tiphys_tree::{MemoryEntry, MemoryTree};
    let link = |target: &str| MemoryEntry::Symlink(target.to_owned());
    let tree = MemoryTree::from_entries([
        ("a.json", MemoryEntry::File("{\"n\": 1}".into(), false)),
        ("b/in.json", link("../a.json")),
        ("b/out.json", link("../../etc/passwd")),
        ("b/root.json", link("/etc/passwd")),
        ("b/loop.json", link("loop.json")),
        ("d.json", link("b")),
        ("gone.json", link("nothing")),
    ])
    .unwrap();
    let find = |pattern: &str| {
        let found = find_files(&tree, &[pattern.to_owned()], &[], crate::facts::Globbing::Pathspec, None);
        found
            .map(|files| files.into_iter().map(|file| file.path).collect::<Vec<_>>())
            .map_err(|error| error.to_string())
    };
    assert_eq!(find("b").unwrap(), ["b/in.json"]);
    assert_eq!(find("d.json"), Err("unable to read d.json: is a directory".to_owned()));
    assert_eq!(find("gone.json"), Err("gone.json: no such file or directory".to_owned()));
}
