//! Checks an Application's spec (CTL-11..15, REP-215).
//!
//! The caller brings what it looked up; a lookup that failed is told apart from one that found nothing. An
//! Application with findings is not compared (CTL-15).

use tiphys_api::AppProject;
use tiphys_api::application::{Application, ApplicationSource, Hydrator};
use tiphys_api::cluster::{Cluster, ClusterError, Clusters};
use tiphys_api::codes::ConditionType;
use tiphys_api::repo_url;
use tiphys_api::settings::ProjectMatching;

use crate::project::{Target, destination_permitted, namespace_permitted, source_matches, source_refusal};

/// One reason not to process an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind.
    pub kind: ConditionType,
    /// Text of the condition.
    pub message: String,
}

impl Finding {
    fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ConditionType::InvalidSpecError, message: message.into() }
    }

    fn unknown(message: impl Into<String>) -> Self {
        Self { kind: ConditionType::UnknownError, message: message.into() }
    }
}

/// The project of an Application.
#[derive(Clone, Copy, Debug)]
pub enum ProjectLookup<'a> {
    /// The effective project.
    Found(&'a AppProject),
    /// There is none of the name.
    Missing,
    /// It could not be looked up, and why.
    Failed(&'a str),
}

/// What the caller looked up.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The project.
    pub project: ProjectLookup<'a>,
    /// All clusters, or why they are not known.
    pub clusters: Result<&'a Clusters, &'a str>,
    /// How the project's lists are read.
    pub matching: ProjectMatching,
    /// Namespace Tiphys runs in.
    pub control_plane_namespace: &'a str,
}

/// What a spec that passed means.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'a> {
    /// The effective project.
    pub project: &'a AppProject,
    /// The cluster of the destination.
    pub cluster: &'a Cluster,
}

/// Checks a spec; all permission findings are collected, an incomplete spec ends the checks (CTL-12..14).
pub fn check<'a>(application: &Application, facts: &Facts<'a>) -> Result<Checked<'a>, Vec<Finding>> {
    let project = find_project(application, facts).map_err(|finding| vec![finding])?;
    check_sources(application).map_err(|finding| vec![finding])?;
    let mut findings = source_findings(application, project, facts.matching);
    match check_destination(application, project, facts) {
        Ok(cluster) if findings.is_empty() => return Ok(Checked { project, cluster }),
        Ok(_) => {}
        Err(finding) => findings.push(finding),
    }
    Err(findings)
}

/// Whether a project permits every source of an application (REP-208).
pub fn permits_sources(application: &Application, project: &AppProject, matching: ProjectMatching) -> bool {
    source_findings(application, project, matching).is_empty()
}

/// Whether a project permits the destination of an application; one that means no cluster is not permitted (REP-208).
pub fn permits_destination(application: &Application, project: &AppProject, facts: &Facts<'_>) -> bool {
    check_destination(application, project, facts).is_ok()
}

/// Checks that the sources are complete (CTL-12).
pub fn check_sources(application: &Application) -> Result<(), Finding> {
    if let Some(hydrator) = &application.spec.source_hydrator {
        return check_hydrator(hydrator);
    }
    let multiple = application.is_multi_source();
    let none = ApplicationSource::default();
    let sources = match application.sources() {
        [] => std::slice::from_ref(&none),
        sources => sources,
    };
    sources.iter().try_for_each(|source| check_source(source, multiple))
}

fn check_source(source: &ApplicationSource, multiple: bool) -> Result<(), Finding> {
    let located =
        !source.path.is_empty() || !source.chart.is_empty() || (multiple && !source.r#ref.is_empty());
    if source.repo_url.is_empty() || !located {
        return Err(Finding::invalid(if multiple {
            format!(
                "spec.source.repoURL and either source.path, source.chart, or source.ref are required for source {}",
                describe(source)
            )
        } else {
            "spec.source.repoURL and either spec.source.path or spec.source.chart are required".to_owned()
        }));
    }
    if !source.chart.is_empty() && source.target_revision.is_empty() {
        return Err(Finding::invalid(
            "spec.source.targetRevision is required if the manifest source is a helm chart",
        ));
    }
    Ok(())
}

/// What identifies a source among several, without what its renderer needs.
fn describe(source: &ApplicationSource) -> String {
    let mut parts = vec![repo_url::redact(&source.repo_url)];
    parts
        .extend([&source.name, &source.target_revision].into_iter().filter(|part| !part.is_empty()).cloned());
    format!("{{{}}}", parts.join(" "))
}

fn check_hydrator(hydrator: &Hydrator) -> Result<(), Finding> {
    if hydrator.dry_source().repo_url.is_empty() {
        return Err(Finding::invalid("spec.sourceHydrator.drySource.repoURL is required"));
    }
    if hydrator.sync_source().target_revision.is_empty() {
        return Err(Finding::invalid("spec.sourceHydrator.syncSource.targetBranch is required"));
    }
    if hydrator.hydrate_to() == Some("") {
        return Err(Finding::invalid(
            "when spec.sourceHydrator.hydrateTo is set, spec.sourceHydrator.hydrateTo.targetBranch is required",
        ));
    }
    Ok(())
}

fn find_project<'a>(application: &Application, facts: &Facts<'a>) -> Result<&'a AppProject, Finding> {
    let project = match facts.project {
        ProjectLookup::Found(project) => project,
        ProjectLookup::Missing => {
            return Err(Finding::invalid(format!(
                "Application referencing project {} which does not exist",
                application.project()
            )));
        }
        ProjectLookup::Failed(reason) => return Err(Finding::unknown(reason)),
    };
    let metadata = &application.metadata;
    let decision =
        namespace_permitted(project, &metadata.name, &metadata.namespace, facts.control_plane_namespace);
    match decision.message {
        Some(message) => Err(Finding::unknown(message)),
        None => Ok(project),
    }
}

fn source_findings(
    application: &Application,
    project: &AppProject,
    matching: ProjectMatching,
) -> Vec<Finding> {
    let permitted = |url: &str| source_matches(project, url, matching);
    let refusal = |what: &str, url: &str| Finding::invalid(source_refusal(what, project.name(), url));
    let mut findings = vec![];
    if let Some(hydrator) = &application.spec.source_hydrator {
        // Sources beside a hydrator are not in force: nobody renders them, and nobody asks for them.
        let (dry, sync) = (&hydrator.dry_source().repo_url, &hydrator.sync_source().repo_url);
        if !permitted(dry) {
            findings.push(refusal("application", dry));
        }
        if sync != dry && !permitted(sync) {
            findings.push(refusal("sync source", sync));
        }
        return findings;
    }
    let denied = application.sources().iter().filter(|source| !permitted(&source.repo_url));
    findings.extend(denied.map(|source| refusal("application", &source.repo_url)));
    findings
}

fn check_destination<'a>(
    application: &Application,
    project: &AppProject,
    facts: &Facts<'a>,
) -> Result<&'a Cluster, Finding> {
    let destination = &application.spec.destination;
    let clusters = facts.clusters.map_err(Finding::unknown)?;
    let resolved = clusters.of_project(application.project()).resolve(destination);
    let cluster = resolved.map_err(|error| match error {
        ClusterError::Unreadable { .. } => Finding::unknown(error.to_string()),
        _ => Finding::invalid(error.to_string()),
    })?;
    let target = Target::new(cluster, &destination.namespace);
    if let Some(text) = crate::project::namespace_refusal(target.namespace) {
        return Err(Finding::invalid(text));
    }
    if destination_permitted(project, target, Ok(clusters.all()), facts.matching).permitted {
        return Ok(cluster);
    }
    // The message names the cluster as the spec does (REP-145).
    let named = if destination.server.is_empty() { &destination.name } else { &destination.server };
    Err(Finding::invalid(crate::project::destination_refusal(project.name(), named, &destination.namespace)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn clusters() -> Clusters {
        let eu = Cluster { name: "eu".into(), server: "https://eu".into(), ..Cluster::default() };
        Clusters::new(vec![eu], true)
    }

    fn project() -> AppProject {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
            "sourceRepos": ["https://h/ok*"], "destinations": [{"name": "eu", "namespace": "shop"}]}}))
        .unwrap()
    }

    fn findings(spec: &Value) -> Vec<(&'static str, String)> {
        let (project, clusters) = (project(), clusters());
        let facts = Facts {
            project: ProjectLookup::Found(&project),
            clusters: Ok(&clusters),
            matching: ProjectMatching::Compat,
            control_plane_namespace: "argocd",
        };
        with_facts(spec, &facts)
    }

    fn with_facts(spec: &Value, facts: &Facts<'_>) -> Vec<(&'static str, String)> {
        let application: Application =
            serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "argocd"}, "spec": spec}))
                .unwrap();
        match check(&application, facts) {
            Ok(_) => vec![],
            Err(findings) => findings.into_iter().map(|f| (f.kind.as_str(), f.message)).collect(),
        }
    }

    fn messages(spec: &Value) -> Vec<String> {
        findings(spec).into_iter().map(|(_, message)| message).collect()
    }

    fn good() -> Value {
        json!({"project": "p", "source": {"repoURL": "https://h/ok", "path": "a"},
            "destination": {"name": "eu", "namespace": "shop"}})
    }

    #[test]
    fn rep_215_a_good_spec_has_no_findings() {
        assert_eq!(findings(&good()), []);
    }

    #[test]
    fn ctl_12_sources_must_be_complete() {
        let single = "spec.source.repoURL and either spec.source.path or spec.source.chart are required";
        let mut spec = good();
        for source in [json!(null), json!({"repoURL": "https://h/ok"}), json!({"path": "a"})] {
            spec["source"] = source;
            assert_eq!(findings(&spec), [("InvalidSpecError", single.to_owned())]);
        }
        spec["source"] = json!({"repoURL": "https://h/ok", "chart": "c"});
        assert_eq!(
            messages(&spec),
            ["spec.source.targetRevision is required if the manifest source is a helm chart"]
        );
        spec["sources"] = json!([{"repoURL": "https://h/ok", "ref": "values"}, {"repoURL": "https://h/ok"}]);
        assert_eq!(
            messages(&spec),
            [
                "spec.source.repoURL and either source.path, source.chart, or source.ref are required for source {https://h/ok}"
            ]
        );
    }

    #[test]
    fn ctl_12_hydrators_must_be_complete() {
        for (hydrator, expected) in [
            (json!({}), "spec.sourceHydrator.drySource.repoURL is required"),
            (
                json!({"drySource": {"repoURL": "https://h/ok"}}),
                "spec.sourceHydrator.syncSource.targetBranch is required",
            ),
            (
                json!({"drySource": {"repoURL": "https://h/ok"}, "syncSource": {"targetBranch": "b"}, "hydrateTo": {}}),
                "when spec.sourceHydrator.hydrateTo is set, spec.sourceHydrator.hydrateTo.targetBranch is required",
            ),
        ] {
            let mut spec = good();
            spec["sourceHydrator"] = hydrator;
            assert_eq!(messages(&spec), [expected]);
        }
    }

    #[test]
    fn ctl_13_permissions_are_collected() {
        let mut spec = good();
        spec["sources"] =
            json!([{"repoURL": "https://h/no", "path": "a"}, {"repoURL": "https://h/never", "ref": "v"}]);
        spec["destination"]["namespace"] = json!("other");
        assert_eq!(
            messages(&spec),
            [
                "application repo https://h/no is not permitted in project 'p'",
                "application repo https://h/never is not permitted in project 'p'",
                "application destination server 'eu' and namespace 'other' do not match any of the allowed destinations in project 'p'"
            ]
        );
        let mut spec = good();
        spec["sourceHydrator"] = json!({"drySource": {"repoURL": "https://h/ok"},
            "syncSource": {"repoURL": "https://h/no", "targetBranch": "b"}});
        assert_eq!(messages(&spec), ["sync source repo https://h/no is not permitted in project 'p'"]);
    }

    /// CTL-5: a source beside a hydrator is not in force, so nobody has to permit it.
    #[test]
    fn ctl_13_a_hydrator_replaces_the_sources() {
        let mut spec = good();
        spec["source"] = json!({"repoURL": "https://me:secret@h/no", "path": "a"});
        spec["sourceHydrator"] =
            json!({"drySource": {"repoURL": "https://h/ok"}, "syncSource": {"targetBranch": "b"}});
        assert!(messages(&spec).is_empty());
        spec["sourceHydrator"]["drySource"]["repoURL"] = json!("https://me:secret@h/no");
        assert_eq!(messages(&spec), ["application repo https://h/no is not permitted in project 'p'"]);
    }

    #[test]
    fn ctl_11_destinations_must_resolve() {
        for (destination, expected) in [
            (json!({}), "Destination server missing from app spec"),
            (json!({"name": "us"}), "there are no clusters with this name: us"),
            (
                json!({"name": "eu", "server": "https://eu"}),
                "application destination can't have both name and server defined: eu https://eu",
            ),
        ] {
            let mut spec = good();
            spec["destination"] = destination;
            assert_eq!(findings(&spec), [("InvalidSpecError", expected.to_owned())]);
        }
    }

    #[test]
    fn ctl_14_projects_must_exist_and_admit_the_namespace() {
        let (project, clusters) = (project(), clusters());
        let facts = |lookup| Facts {
            project: lookup,
            clusters: Ok(&clusters),
            matching: ProjectMatching::Compat,
            control_plane_namespace: "tiphys",
        };
        assert_eq!(
            with_facts(&good(), &facts(ProjectLookup::Missing)),
            [("InvalidSpecError", "Application referencing project p which does not exist".to_owned())]
        );
        assert_eq!(
            with_facts(&good(), &facts(ProjectLookup::Failed("timed out"))),
            [("UnknownError", "timed out".to_owned())]
        );
        assert_eq!(
            with_facts(&good(), &facts(ProjectLookup::Found(&project))),
            [(
                "UnknownError",
                "application 'a' in namespace 'argocd' is not permitted to use project 'p'".to_owned()
            )]
        );
    }

    #[test]
    fn law_unknown_clusters_are_not_missing_clusters() {
        let project = project();
        let facts = Facts {
            project: ProjectLookup::Found(&project),
            clusters: Err("list failed"),
            matching: ProjectMatching::Compat,
            control_plane_namespace: "argocd",
        };
        assert_eq!(with_facts(&good(), &facts), [("UnknownError", "list failed".to_owned())]);
    }
}
