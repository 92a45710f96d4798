//! What a team may try with a set of its project to reach another team's clusters, repositories or projects, and why it
//! comes to nothing (ASET-270..278). The page on project scope lists them.

use std::sync::Arc;

use super::*;
use crate::facts::Decisions;

/// What a trick comes to: nothing is created, and the condition says why.
struct Trick {
    what: &'static str,
    /// Changes of the set that does nothing forbidden.
    change: Value,
    /// What the condition's message holds; empty where what is not permitted is not there at all.
    because: &'static str,
}

fn trick(what: &'static str, change: Value, because: &'static str) -> Trick {
    Trick { what, change, because }
}

/// The red team: its project, its cluster, its repository; and those of the blue one.
fn world() -> World {
    let project = json!({"metadata": {"name": "red"}, "spec": {
        "sourceRepos": ["https://git.test/red/*", "!https://git.test/red/secret"],
        "destinations": [{"server": "https://kubernetes.default.svc", "name": "in-cluster", "namespace": "red-*"},
            {"server": "https://red", "name": "red", "namespace": "*"}]}});
    let blue = json!({"metadata": {"name": "blue"}, "spec": {"sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}]}});
    let mut own = cluster("red", &[("team", "red")]);
    own.project = "red".to_owned();
    let mut theirs = cluster("blue", &[("team", "blue")]);
    theirs.project = "blue".to_owned();
    let shared = cluster("shared", &[("team", "all")]);
    let decision = json!({"clusterName": "red", "server": "https://blue"}).as_object().unwrap().clone();
    let invisible = json!({"clusterName": "blue"}).as_object().unwrap().clone();
    World {
        decisions: Some(Decisions::Found {
            match_key: "clusterName".to_owned(),
            decisions: vec![decision, invisible],
        }),
        owners: BTreeMap::from([("blue-plugin", "blue"), ("blue-app", "blue")]),
        ..World::default()
    }
    // Under the matching of the reference a project with a denial permits all that is not denied (REP-131).
    .with_cm(&[("project.matching", "strict")])
    .with_project(project)
    .with_project(blue)
    .with_clusters(vec![own, theirs, shared])
    .with_repo(
        "https://git.test/red/apps",
        &[("envs/a.yaml", "server: https://blue\nurl: https://git.test/blue/apps\n")],
    )
    .with_repo("https://git.test/blue/apps", &[("secret/x.yaml", "a: b")])
    .with_given("plugin", json!([{"server": "https://blue", "project": "blue"}]))
    .with_given("blue-plugin", json!([{"n": "a"}]))
    .with_given("github", json!([{"url": "https://git.test/blue/apps", "repository": "apps"}]))
}

/// The set that the tricks change. It creates one Application.
fn honest() -> Value {
    json!({"project": "red", "goTemplate": true, "generators": [{"list": {"elements": [{"n": "a"}]}}],
        "template": {"metadata": {"name": "a"}, "spec": {"project": "red",
            "source": {"repoURL": "https://git.test/red/apps", "path": "."},
            "destination": {"server": "https://red", "namespace": "any"}}}})
}

fn list(element: Value) -> Value {
    json!([{"list": {"elements": [element]}}])
}

/// A destination, of the template.
fn to(destination: Value) -> Value {
    json!({"template": {"spec": {"destination": destination}}})
}

fn from(url: &str) -> Value {
    json!({"template": {"spec": {"source": {"repoURL": url}}}})
}

fn git(url: &str) -> Value {
    json!({"git": {"repoURL": url, "revision": "main", "directories": [{"path": "*"}]}})
}

/// Generators, and a template whose destination is what they give.
fn clusters_of(generators: Value) -> Value {
    json!({"generators": generators,
        "template": {"metadata": {"name": "on-{{ .name }}"}, "spec": {"destination": {"server": "{{ .server }}"}}}})
}

const DESTINATION: &str = "do not match any of the allowed destinations in project 'red'";
/// What another project's cluster looks like: as one that does not exist.
const INVISIBLE: &str = "application destination spec is invalid: ";
const REPOSITORY: &str = "is not permitted in project 'red'";
const PROJECT: &str = "does not match ApplicationSet project 'red'";

fn of_projects() -> Vec<Trick> {
    vec![
        trick("the template names the project", json!({"template": {"spec": {"project": "blue"}}}), PROJECT),
        trick(
            "an element names the project",
            json!({"generators": list(json!({"p": "blue"})), "template": {"spec": {"project": "{{ .p }}"}}}),
            PROJECT,
        ),
        trick("a spelling that looks alike", json!({"template": {"spec": {"project": "Red"}}}), PROJECT),
        trick("a blank at the end", json!({"template": {"spec": {"project": "red "}}}), PROJECT),
        trick(
            "the template of a generator takes the place",
            json!({"generators": [{"list": {"elements": [{"n": "a"}], "template": {
                "metadata": {}, "spec": {"project": "blue", "destination": {}}}}}]}),
            PROJECT,
        ),
        trick(
            "the set belongs to a project that is a pattern",
            json!({"project": "*"}),
            "project * does not exist",
        ),
        trick(
            "the set's own project is a template",
            json!({"project": "{{ .p }}", "generators": list(json!({"p": "blue"}))}),
            "project {{ .p }} does not exist",
        ),
    ]
}

fn of_clusters() -> Vec<Trick> {
    let blue = || json!({"server": "https://blue", "namespace": "x"});
    vec![
        trick("the server of another team", to(blue()), INVISIBLE),
        trick("its name", to(json!({"server": null, "name": "blue"})), INVISIBLE),
        trick("a slash at its end", to(json!({"server": "https://blue///"})), INVISIBLE),
        trick(
            "its own name beside another's server",
            to(json!({"server": "https://blue", "name": "red"})),
            "can't have both name and server defined",
        ),
        trick(
            "a cluster of nobody that the project does not permit",
            to(json!({"server": "https://shared"})),
            DESTINATION,
        ),
        trick(
            "a namespace of another team",
            to(json!({"server": "https://kubernetes.default.svc", "namespace": "blue"})),
            DESTINATION,
        ),
        trick(
            "a namespace that an element names",
            json!({"generators": list(json!({"ns": "kube-system"})), "template": {"spec": {"destination": {
                "server": "https://kubernetes.default.svc", "namespace": "{{ .ns }}"}}}}),
            DESTINATION,
        ),
        trick(
            "a patch changes the destination",
            json!({"templatePatch": "spec: {destination: {server: https://blue}}"}),
            INVISIBLE,
        ),
        trick(
            "a file of the own repository says where",
            json!({"generators": [{"git": {
            "repoURL": "https://git.test/red/apps", "revision": "main", "files": [{"path": "envs/*.yaml"}]}}],
            "template": {"spec": {"destination": {"server": "{{ .server }}"}}}}),
            INVISIBLE,
        ),
        trick(
            "values beside clusters say where",
            json!({"generators": [{"clusters": {
            "selector": {"matchLabels": {"team": "red"}}, "values": {"server": "https://blue"}}}],
            "template": {"spec": {"destination": {"server": "{{ .values.server }}"}}}}),
            INVISIBLE,
        ),
        trick(
            "the label of another team's cluster",
            clusters_of(json!([{"clusters": {"selector": {"matchLabels": {"team": "blue"}}}}])),
            "",
        ),
        trick(
            "every cluster that has a Secret but the own one",
            clusters_of(json!([{"clusters": {"selector": {"matchExpressions": [
                {"key": "argocd.argoproj.io/secret-type", "operator": "Exists"},
                {"key": "team", "operator": "NotIn", "values": ["red"]}]}}}])),
            "",
        ),
        trick(
            "a selector that another generator fills in",
            clusters_of(json!([{"matrix": {"generators": [{"list": {"elements": [{"team": "blue"}]}},
                {"clusters": {"selector": {"matchLabels": {"team": "{{ .team }}"}}}}]}}])),
            "",
        ),
        trick(
            "a merge changes the server of the own cluster",
            clusters_of(json!([{"merge": {"mergeKeys": ["name"], "generators": [
                {"clusters": {"selector": {"matchLabels": {"team": "red"}}}},
                {"list": {"elements": [{"name": "red", "server": "https://blue"}]}}]}}])),
            INVISIBLE,
        ),
        trick(
            "a decision chooses another team's cluster, and another server for the own one",
            clusters_of(json!([{"clusterDecisionResource": {"configMapRef": "c", "name": "r"}}])),
            INVISIBLE,
        ),
        trick(
            "a plugin says where",
            json!({"generators": [{"plugin": {"configMapRef": {"name": "plugin"}}}],
            "template": {"spec": {"destination": {"server": "{{ .server }}"}}}}),
            INVISIBLE,
        ),
    ]
}

fn of_repositories() -> Vec<Trick> {
    let blue = "https://git.test/blue/apps";
    let patch = |text: &str| json!({ "templatePatch": text });
    vec![
        trick("the repository of another team", from(blue), REPOSITORY),
        trick("a path that climbs", from("https://git.test/red/../blue/apps"), REPOSITORY),
        trick(
            "a path that climbs in another spelling",
            from("https://git.test/red/%2e%2e%2fblue/apps"),
            REPOSITORY,
        ),
        trick("a user before the host", from("https://git.test@evil.test/red/apps"), REPOSITORY),
        trick(
            "a repository that is denied, in another spelling",
            from("https://git.test/red/SECRET.git"),
            REPOSITORY,
        ),
        trick(
            "a second source by a patch",
            patch(
                "spec: {source: null, sources: [{repoURL: https://git.test/red/apps, \
            path: .}, {repoURL: https://git.test/blue/apps, ref: values}]}",
            ),
            REPOSITORY,
        ),
        trick(
            "a dry source",
            patch(
                "spec: {sourceHydrator: {drySource: {repoURL: https://git.test/blue/apps, path: ., \
            targetRevision: main}}}",
            ),
            REPOSITORY,
        ),
        trick(
            "the url that a provider found",
            json!({"generators": [{"scmProvider": {"github": {"organization": "blue"}}}],
            "template": {"spec": {"source": {"repoURL": "{{ .url }}"}}}}),
            REPOSITORY,
        ),
        trick("directories of another team's repository", json!({"generators": [git(blue)]}), REPOSITORY),
        trick(
            "the same, where a matrix fills in the address",
            json!({"generators": [{"matrix": {"generators": [
            {"list": {"elements": [{"team": "blue"}]}}, git("https://git.test/{{ .team }}/apps")]}}]}),
            REPOSITORY,
        ),
        trick(
            "the same, deep in a merge",
            json!({"generators": [{"merge": {"mergeKeys": ["n"], "generators": [
            {"list": {"elements": [{"n": "a"}]}}, {"matrix": {"generators": [
                {"list": {"elements": [{"n": "a"}]}}, git(blue)]}}]}}]}),
            REPOSITORY,
        ),
        trick(
            "the plugin of another project",
            json!({"generators": [{"plugin": {"configMapRef": {"name": "blue-plugin"}}}]}),
            "ConfigMap \"blue-plugin\" is not a plugin for this ApplicationSet",
        ),
        trick(
            "the login of another project",
            json!({"generators": [{"scmProvider": {"github": {"organization": "blue",
            "appSecretName": "blue-app"}}}]}),
            "secret argocd/blue-app is not a GitHub App for this ApplicationSet",
        ),
        trick(
            "the environment of the process",
            json!({"template": {"metadata": {"name": "{{ env \"HOME\" }}"}}}),
            "function \"env\" not defined",
        ),
        trick(
            "what a host resolves to",
            json!({"template": {"metadata": {"name": "{{ getHostByName \"x\" }}"}}}),
            "function \"getHostByName\" not defined",
        ),
    ]
}

/// ASET-120: a patch may say what it likes of the project, also where a parameter closes the text that it stands in: the
/// project of the template is put back.
#[test]
fn aset_120_no_patch_changes_the_project() {
    let closes = json!({"generators": list(json!({"n": "x\"\nspec:\n  project: \"blue"})),
        "templatePatch": "metadata:\n  annotations:\n    note: \"{{ .n }}\"\n"});
    for change in [json!({"templatePatch": "spec: {project: blue}"}), closes] {
        let mut installation = Installation::new(world(), merge_patch::apply(honest(), &change));
        assert_eq!(installation.pass().0.created, ["a"]);
        assert_eq!(installation.stored["a"]["spec"]["project"], "red");
    }
}

#[test]
fn aset_270_no_trick_leaves_the_project_of_a_set() {
    let mut plain = Installation::new(world(), honest());
    assert_eq!(plain.pass().0.created, ["a"], "the honest set works");
    let tricks: Vec<Trick> =
        [of_projects(), of_clusters(), of_repositories()].into_iter().flatten().collect();
    assert!(tricks.len() >= 35);
    for Trick { what, change, because } in tricks {
        let mut installation = Installation::new(world(), merge_patch::apply(honest(), &change));
        let (done, _) = installation.pass();
        let (status, _, message) = installation.condition(ERROR);
        assert!(message.contains(because), "{what}: {message}");
        assert_eq!(status, if because.is_empty() { "False" } else { "True" }, "{what}: {message}");
        assert_eq!(done.created, Vec::<String>::new(), "{what}");
        // What is there already is left as it is.
        let mut installation = Installation::new(world(), honest());
        installation.pass();
        installation.set.spec = set(merge_patch::apply(honest(), &change)).spec;
        let before = installation.stored["a"].clone();
        let (done, _) = installation.pass();
        assert_eq!(done.updated, Vec::<String>::new(), "{what}");
        if !done.deleted.contains(&"a".to_owned()) {
            assert_eq!(installation.stored["a"], before, "{what}");
        }
    }
}

/// ASET-278: with `none` nothing of nobody is read either.
#[test]
fn aset_278_without_shared_resources_only_what_is_registered_is_read() {
    let none = || World {
        settings: World::default().with_cm(&[("applicationset.project.globalResources", "none")]).settings,
        ..world()
    };
    let generators = |world: World, generators: Value| {
        let mut installation =
            Installation::new(world, merge_patch::apply(honest(), &json!({"generators": generators})));
        installation.pass();
        installation.condition(ERROR).2
    };
    let own = json!([git("https://git.test/red/apps")]);
    assert!(
        generators(none(), own.clone()).contains("repository https://git.test/red/apps is not permitted")
    );
    let mut registered = none();
    registered.owners.insert("https://git.test/red/apps", "red");
    assert!(!generators(registered, own).contains("is not permitted"));
    let plugin = json!([{"plugin": {"configMapRef": {"name": "plugin"}}}]);
    assert!(
        generators(none(), plugin).contains("ConfigMap \"plugin\" is not a plugin for this ApplicationSet")
    );
}

/// ASET-290, ASET-291: whatever the template says, Applications live where their set does.
#[test]
fn aset_291_a_template_does_not_choose_the_namespace_of_applications() {
    let change = json!({"template": {"metadata": {"namespace": "blue"}}});
    let mut installation = Installation::new(world(), merge_patch::apply(honest(), &change));
    installation.pass();
    assert_eq!(installation.stored["a"]["metadata"]["namespace"], "argocd");
}

/// ASET-131: an Application of somebody else that has the name is not taken over.
#[test]
fn aset_131_an_application_of_another_owner_is_not_taken_over() {
    let mut installation = Installation::new(world(), honest());
    let owner = json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "blue", "uid": "v",
        "controller": true}]);
    let theirs = json!({"metadata": {"name": "a", "namespace": "argocd", "ownerReferences": owner}, "spec": {
        "project": "blue", "destination": {"server": "https://blue"}}});
    installation.stored.insert("a".to_owned(), theirs.clone());
    let (done, _) = installation.pass();
    assert_eq!((done.created.len(), done.updated.len(), done.deleted.len()), (0, 0, 0));
    assert_eq!(installation.stored["a"], theirs);
    let project = Arc::clone(&installation.world.projects["red"]);
    assert_eq!(project.name(), "red");
}
