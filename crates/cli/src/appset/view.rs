//! How sets are shown (CLI-601, CLI-604, CLI-607).

use std::collections::BTreeSet;

use tiphys_api::application::ApplicationSpec;
use tiphys_api::codes::SetConditionType;
use tiphys_api::{Application, ApplicationSet};
use tiphys_engine::tracking::qualified_name;

use crate::app::summary::{line, parameters, parse_time, source_lines};
use crate::failure::Failure;
use crate::table::Table;
use crate::terminal::Terminal;

/// The template as an Application; what it says may be unrendered.
pub(super) fn template_of(set: &ApplicationSet) -> Result<Application, Failure> {
    let spec = set.spec.template.get("spec").cloned().unwrap_or_else(|| serde_json::json!({}));
    let spec: ApplicationSpec = serde_json::from_value(spec).map_err(|error| {
        Failure::generic(format!(
            "ApplicationSet {}: the template cannot be read: {error}",
            set.metadata.name
        ))
    })?;
    Ok(Application { spec, ..Application::default() })
}

/// `namespace/name`, or the bare name without a namespace (CLI-304).
pub(super) fn name_of(set: &ApplicationSet) -> String {
    qualified_name(&set.metadata.namespace, &set.metadata.name).to_string()
}

/// The project that is shown: the set's own, else its template's (ASET-284).
fn project_of(set: &ApplicationSet) -> &str {
    if set.spec.project.is_empty() { set.template_project() } else { &set.spec.project }
}

/// Whether a list for these projects has the set (CLI-607).
pub(super) fn is_of_projects(set: &ApplicationSet, projects: &[String]) -> bool {
    projects.is_empty()
        || projects.iter().any(|project| *project == set.spec.project || project == set.template_project())
}

fn health(set: &ApplicationSet) -> &str {
    set.status.health.as_ref().map_or("Unknown", |health| health.status.as_str())
}

fn sync_policy(template: &Application) -> &'static str {
    match template.automated() {
        Some(automated) if automated.prune => "Automated (Prune)",
        Some(_) => "Automated",
        None => "<none>",
    }
}

/// Types that hold and say that something is wrong, sorted (CLI-604).
fn problems(set: &ApplicationSet) -> String {
    let wrong = [SetConditionType::ErrorOccurred, SetConditionType::InvalidRolloutConfig];
    let holding = set.status.conditions.iter().filter(|condition| condition.status == "True");
    let found: BTreeSet<&str> = holding
        .filter(|condition| wrong.iter().any(|kind| condition.r#type == *kind))
        .map(|condition| condition.r#type.as_str())
        .collect();
    if found.is_empty() { "<none>".to_owned() } else { found.into_iter().collect::<Vec<_>>().join(",") }
}

/// The summary of a set, with its conditions (CLI-601).
pub(super) fn summary(
    set: &ApplicationSet,
    shows_parameters: bool,
    terminal: &Terminal,
) -> Result<String, Failure> {
    let template = template_of(set)?;
    let destination = &template.spec.destination;
    let mut out = String::new();
    line(&mut out, "Name:", &name_of(set));
    line(&mut out, "Project:", project_of(set));
    if !set.spec.project.is_empty() {
        line(&mut out, "Scoped Project:", &set.spec.project);
    }
    line(
        &mut out,
        "Server:",
        if destination.server.is_empty() { &destination.name } else { &destination.server },
    );
    line(&mut out, "Namespace:", &destination.namespace);
    line(&mut out, "Health Status:", health(set));
    line(&mut out, if template.is_multi_source() { "Sources:" } else { "Source:" }, "");
    for source in template.sources() {
        source_lines(&mut out, source);
    }
    line(&mut out, "SyncPolicy:", sync_policy(&template));
    if !set.status.conditions.is_empty() {
        let mut table = Table::new(&["CONDITION", "STATUS", "MESSAGE", "LAST TRANSITION"]);
        for condition in &set.status.conditions {
            let at = condition.last_transition_time.as_deref().and_then(parse_time);
            table.row(vec![
                condition.r#type.clone(),
                condition.status.clone(),
                condition.message.clone(),
                terminal.local_time(at),
            ]);
        }
        out.push('\n');
        out.push_str(&table.print());
        out.push('\n');
    }
    if shows_parameters {
        out.push_str(&parameters(template.sources().first()));
    }
    Ok(out)
}

/// The table of `appset list` (CLI-604).
pub(super) fn table(sets: &[ApplicationSet], is_wide: bool) -> Result<String, Failure> {
    let mut header = vec!["NAME", "PROJECT", "SYNCPOLICY", "HEALTH", "CONDITIONS"];
    if is_wide {
        header.extend(["REPO", "PATH", "TARGET"]);
    }
    let mut table = Table::new(&header);
    for set in sets {
        let template = template_of(set)?;
        let mut cells = vec![
            name_of(set),
            project_of(set).to_owned(),
            sync_policy(&template).to_owned(),
            health(set).to_owned(),
            problems(set),
        ];
        if is_wide {
            let source = template.sources().first();
            cells.extend([
                source.map_or_else(String::new, |source| source.repo_url.clone()),
                source.map_or_else(String::new, |source| source.path.clone()),
                source.map_or_else(String::new, |source| source.target_revision.clone()),
            ]);
        }
        table.row(cells);
    }
    Ok(table.print())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(project: &str) -> ApplicationSet {
        serde_json::from_value(json!({"metadata": {"name": "all", "namespace": "argocd"},
            "spec": {"project": project, "generators": [{"list": {}}], "template": {"metadata": {"name": "{{n}}"},
                "spec": {"project": "default", "destination": {"server": "{{url}}", "namespace": "web"},
                    "source": {"repoURL": "https://h/r", "path": "{{n}}", "targetRevision": "main",
                        "helm": {"parameters": [{"name": "a", "value": "1"}]}},
                    "syncPolicy": {"automated": {"prune": true}}}}},
            "status": {"health": {"status": "Degraded"}, "conditions": [
                {"type": "ErrorOccurred", "status": "True", "reason": "x", "message": "no",
                    "lastTransitionTime": "2026-08-01T10:00:00Z"},
                {"type": "ParametersGenerated", "status": "True", "reason": "x", "message": "yes"}]}}))
        .unwrap()
    }

    #[test]
    fn cli_601_the_summary_of_a_set() {
        let terminal = Terminal::memory("argocd", &[]);
        let expected = "Name:               argocd/all\n\
             Project:            default\n\
             Server:             {{url}}\n\
             Namespace:          web\n\
             Health Status:      Degraded\n\
             Source:             \n\
             - Repo:             https://h/r\n\
             \x20 Target:           main\n\
             \x20 Path:             {{n}}\n\
             SyncPolicy:         Automated (Prune)\n\
             \n\
             CONDITION            STATUS  MESSAGE  LAST TRANSITION\n\
             ErrorOccurred        True    no       2026-08-01 10:00:00 +0000 UTC\n\
             ParametersGenerated  True    yes      <nil>\n\
             \n";
        assert_eq!(summary(&set(""), false, &terminal).unwrap(), expected);
        let scoped = summary(&set("red"), true, &terminal).unwrap();
        assert!(scoped.contains("\nProject:            red\nScoped Project:     red\n"), "{scoped}");
        assert!(scoped.ends_with("\nNAME  VALUE\na     1\n"), "{scoped}");
    }

    #[test]
    fn cli_604_the_table_of_sets() {
        assert_eq!(
            table(&[set("")], true).unwrap(),
            "NAME        PROJECT  SYNCPOLICY         HEALTH    CONDITIONS     REPO         PATH   TARGET\n\
             argocd/all  default  Automated (Prune)  Degraded  ErrorOccurred  https://h/r  {{n}}  main\n"
        );
        assert_eq!(table(&[], false).unwrap(), "NAME  PROJECT  SYNCPOLICY  HEALTH  CONDITIONS\n");
        let mut manual = set("red");
        manual.spec.template["spec"].as_object_mut().unwrap().remove("syncPolicy");
        manual.status = <_>::default();
        assert!(
            table(&[manual.clone()], false)
                .unwrap()
                .ends_with("\nargocd/all  red      <none>      Unknown  <none>\n")
        );
        let of = |project: &str| is_of_projects(&manual, &[project.to_owned()]);
        assert!(of("red") && of("default") && !of("blue") && is_of_projects(&manual, &[]));
    }
}
