//! A cluster Secret that cannot be read hinders those whose result may depend on it, and nobody else (INV-8).

use tiphys_api::cluster::{Cluster, Clusters, UnreadCluster};

use super::*;
use crate::facts::Decisions;

const TEXT: &str = "not all clusters are known: Secret broken cannot be read: it is nested too deep";
/// Where nobody can say whose it is.
const ANY: &str =
    "not all clusters are known: the Secret of a cluster cannot be read; the log of the controller names it";

/// Clusters `a` and `b` of nobody, and a Secret that cannot be read.
fn world(seen: Option<Cluster>) -> World {
    let clusters = Clusters::new(vec![cluster("a", &[("env", "prod")]), cluster("b", &[])], true);
    let (secret_name, reason) = ("broken".to_owned(), "it is nested too deep".to_owned());
    let unread = UnreadCluster { secret_name, reason, seen };
    World { clusters: Ok(std::sync::Arc::new(clusters.beside(vec![unread]))), ..World::default() }
}

/// What can be told of it: a cluster of the shared scope.
fn seen() -> Cluster {
    cluster("broken", &[("env", "dev")])
}

/// Names that are created; or the reason and message of the condition.
fn outcome(world: World, spec: Value) -> Result<Vec<String>, (String, String)> {
    let mut installation = Installation::new(world, spec);
    let (done, _) = installation.pass();
    match installation.condition(ERROR) {
        (status, reason, message) if status == "True" => {
            assert_eq!(done, Done { status_written: true, ..Done::default() }, "nothing is done by half");
            Err((reason, message))
        }
        _ => Ok(done.created),
    }
}

fn by_clusters(selector: Value) -> Value {
    json!({"generators": [{"clusters": selector}], "template": {"metadata": {"name": "on-{{name}}"},
        "spec": {"project": "default", "source": {"repoURL": "https://h/r", "path": "."},
            "destination": {"server": "{{server}}"}}}})
}

#[test]
fn inv_8_whoever_may_get_an_unread_cluster_waits_for_it() {
    let waits = |outcome: Result<Vec<String>, (String, String)>, text: &str| {
        assert_eq!(outcome, Err(("ApplicationGenerationFromParamsError".to_owned(), text.to_owned())));
    };
    waits(outcome(world(None), by_clusters(json!({}))), ANY);
    waits(outcome(world(Some(seen())), by_clusters(json!({}))), TEXT);
    let prod = json!({"selector": {"matchLabels": {"env": "prod"}}});
    waits(outcome(world(None), by_clusters(prod.clone())), ANY);
    assert_eq!(
        outcome(world(Some(seen())), by_clusters(prod)),
        Ok(vec!["on-a".to_owned()]),
        "it is another one"
    );
    let dev = json!({"selector": {"matchLabels": {"env": "dev"}}});
    waits(outcome(world(Some(seen())), by_clusters(dev)), TEXT);
}

#[test]
fn aset_273_a_set_of_another_project_does_not_wait_for_an_unread_cluster() {
    let project = json!({"metadata": {"name": "p"}, "spec": {"sourceRepos": ["*"],
        "destinations": [{"server": "https://a", "namespace": "*"}]}});
    let mut scoped = by_clusters(json!({}));
    (scoped["project"], scoped["template"]["spec"]["project"]) = (json!("p"), json!("p"));
    let of = |world: World| outcome(world.with_project(project.clone()), scoped.clone());
    let of_other = Cluster { project: "q".to_owned(), ..seen() };
    assert_eq!(of(world(Some(of_other.clone()))), Ok(vec!["on-a".to_owned()]));
    // A set without a project whose Applications have another one does not wait for it either (A3).
    let in_cluster = Ok(vec!["on-a".to_owned(), "on-b".to_owned(), "on-in-cluster".to_owned()]);
    assert_eq!(outcome(world(Some(of_other)), by_clusters(json!({}))), in_cluster);
    assert_eq!(of(world(None)).unwrap_err().1, ANY, "whose it is is not known");
    let own = Cluster { project: "p".to_owned(), ..seen() };
    assert!(of(world(Some(own))).is_err());
}

#[test]
fn inv_8_generators_that_ask_no_clusters_go_on_beside_an_unread_one() {
    let to = |destination: Value| {
        let mut spec = spec(&["x"]);
        spec["template"]["spec"]["destination"] = destination;
        spec
    };
    for destination in [json!({"name": "in-cluster"}), json!({"name": "a"}), json!({"server": "https://b"})] {
        assert_eq!(outcome(world(None), to(destination)), Ok(vec!["x".to_owned()]));
    }
    // A cluster that is not among the others may be this one: that is no error of the Application (ASET-13).
    let waits = |text: &str| Err(("ApplicationValidationError".to_owned(), text.to_owned()));
    assert_eq!(outcome(world(None), to(json!({"name": "c"}))), waits(ANY));
    assert_eq!(outcome(world(Some(seen())), to(json!({"server": "https://broken/"}))), waits(TEXT));
    let (_, message) = outcome(world(Some(seen())), to(json!({"name": "c"}))).unwrap_err();
    assert!(message.contains("there are no clusters with this name: c"), "{message}");
}

#[test]
fn inv_8_decisions_about_an_unread_cluster_are_not_passed_over() {
    let block = json!({"configMapRef": "c", "name": "r"});
    let spec = json!({"generators": [{"clusterDecisionResource": block}], "template": {
        "metadata": {"name": "on-{{name}}"}, "spec": {"project": "default",
            "source": {"repoURL": "https://h/r", "path": "."}, "destination": {"server": "{{server}}"}}}});
    let decided = |world: World, name: &str| {
        let decision = json!({"clusterName": name}).as_object().unwrap().clone();
        let decisions =
            Some(Decisions::Found { match_key: "clusterName".to_owned(), decisions: vec![decision] });
        outcome(World { decisions, ..world }, spec.clone())
    };
    assert_eq!(decided(world(None), "a"), Ok(vec!["on-a".to_owned()]));
    assert_eq!(decided(world(None), "c").unwrap_err().1, ANY);
    assert_eq!(decided(world(Some(seen())), "broken").unwrap_err().1, TEXT);
    assert_eq!(decided(world(Some(seen())), "c"), Ok(vec![]));
}

/// ASET-142: an Application loses its finalizer where its cluster is gone, not where that is not known.
#[test]
fn aset_142_an_unread_cluster_is_not_a_lost_one() {
    let mut placed = spec(&["x"]);
    placed["template"]["spec"]["destination"] = json!({"name": "eu"});
    let mut installation =
        Installation::new(World::default().with_clusters(vec![cluster("eu", &[])]), placed);
    installation.pass();
    installation.world = world(None);
    installation.set.spec = set(spec(&["y"])).spec;
    let (done, _) = installation.pass();
    assert_eq!((done.stripped.len(), done.deleted.len()), (0, 0));
    assert_eq!(
        installation.condition(ERROR),
        ("True".to_owned(), "DeleteApplicationError".to_owned(), ANY.to_owned())
    );
    installation.world = world(Some(seen()));
    let (done, _) = installation.pass();
    assert_eq!((done.stripped.len(), done.deleted.len()), (1, 1), "it is another one");
}
