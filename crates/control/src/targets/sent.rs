//! Limits uploaded files to the sources of their application, as resolved for this rendering (API-147).
//!
//! Every caller who may see an application may upload files for it. Bases, charts and files that these reference would be
//! read with the credentials of the project and returned to the caller; programs and plugins would run on them.

use tiphys_api::application::ApplicationSource;
use tiphys_api::repo_url;
use tiphys_render::needs::Need;
use tiphys_render::plan::{Content, PlannedSource};
use tiphys_render::plugins::PluginChoice;

const OWN_SOURCES: &str = "files that are sent along may use the application's own sources only";

/// Source of the application with its resolved revision; `None` for the source that the files replace.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) planned: &'a PlannedSource<'a>,
    pub(super) revision: Option<&'a str>,
}

impl Own<'_> {
    /// Whether a referenced revision is the one that the source is rendered at.
    fn is_at(&self, named: &str) -> bool {
        let Some(revision) = self.revision else { return true };
        let target = self.planned.source.target_revision.as_str();
        named.is_empty() || named == revision || named == target || (named == "HEAD" && target.is_empty())
    }
}

/// Decision about a reference in uploaded files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Fetch it as for any rendering: the application itself references it.
    Bring,
    /// Use the tree of the application's source with this index.
    Source(usize),
    /// Report it as missing without a request.
    Absent(String),
    /// Fail the rendering.
    Refuse(String),
}

/// Decides about a reference in files that were uploaded instead of the repository of `source`. `may_run_programs` is true
/// for callers who may update the application: they could change its sources anyway.
pub(super) fn decide(
    need: &Need,
    source: &ApplicationSource,
    own: &[Own<'_>],
    may_run_programs: bool,
) -> Decision {
    let refused = || {
        Decision::Refuse(format!(
            "{OWN_SOURCES}, and {need} is not one of them; send it along, or commit the files and use their revision"
        ))
    };
    let position = |is_it: &dyn Fn(&Own<'_>) -> bool| own.iter().position(is_it);
    match need {
        // The application's spec says which source has the name.
        Need::Ref { .. } => Decision::Bring,
        // A base that is missing as a file is looked up as a repository next.
        Need::Resource { .. } => Decision::Absent(OWN_SOURCES.to_owned()),
        Need::Repository { url, revision } => {
            let is_it = |own: &Own<'_>| {
                let PlannedSource { source, content, .. } = own.planned;
                *content == Content::Git && repo_url::same(&source.repo_url, url) && own.is_at(revision)
            };
            position(&is_it).map_or_else(refused, Decision::Source)
        }
        Need::Chart { repository, name, version } | Need::ChartFiles { repository, name, version } => {
            let is_it = |own: &Own<'_>| {
                let source = own.planned.source;
                source.chart == *name && repo_url::same(&source.repo_url, repository) && own.is_at(version)
            };
            position(&is_it).map_or_else(refused, |_| Decision::Bring)
        }
        Need::File { url } if names_file(source, url) => Decision::Bring,
        Need::File { .. } => refused(),
        Need::Tool(_) | Need::Plugin(_) if may_run_programs => Decision::Bring,
        // No plugin has ever rendered this source, so it does not need one.
        Need::Plugin(call) if call.choice == (PluginChoice::Perhaps { was_plugin: false }) => {
            Decision::Absent("plugins do not receive files that are sent along".to_owned())
        }
        Need::Tool(_) | Need::Plugin(_) => Decision::Refuse(format!(
            "{need} does not process files that are sent along unless the caller may update the application"
        )),
    }
}

/// Whether the spec of a source names a file by URL.
fn names_file(source: &ApplicationSource, url: &str) -> bool {
    source.helm.as_ref().is_some_and(|helm| {
        let parameters = helm.file_parameters.iter().map(|parameter| &parameter.path);
        helm.value_files.iter().chain(parameters).any(|named| named == url)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tiphys_render::TreePath;
    use tiphys_render::plan::plan;
    use tiphys_render::plugins::{PluginCall, PluginQuestion};
    use tiphys_render::tools::{Tool, ToolCall};

    use super::*;

    fn sources() -> Vec<ApplicationSource> {
        serde_json::from_value(json!([
            {"repoURL": "https://git/own", "path": "web", "targetRevision": "main",
                "helm": {"valueFiles": ["https://files/values.yaml"], "fileParameters": [{"name": "a", "path": "https://files/a"}]}},
            {"repoURL": "https://git/second.git", "path": "base"},
            {"repoURL": "https://charts", "chart": "db", "targetRevision": "1.*"},
        ]))
        .unwrap()
    }

    fn decided(need: &Need, may_run_programs: bool) -> Decision {
        let sources = sources();
        let planned = plan(&sources, &[]).unwrap();
        let revisions = [None, Some("c0ffee"), Some("1.2.3")];
        let own: Vec<Own<'_>> =
            planned.iter().zip(revisions).map(|(planned, revision)| Own { planned, revision }).collect();
        decide(need, &sources[0], &own, may_run_programs)
    }

    fn is_refused(need: &Need) -> bool {
        let text = |decision: Decision| matches!(decision, Decision::Refuse(_));
        assert_eq!(text(decided(need, false)), text(decided(need, true)), "{need}: both callers");
        text(decided(need, true))
    }

    #[test]
    fn api_147_repositories_are_those_of_the_application() {
        let repository = |url: &str, revision: &str| Need::Repository {
            url: url.to_owned(),
            revision: revision.to_owned(),
        };
        for revision in ["", "main", "other", "HEAD"] {
            // The uploaded files replace every revision.
            assert_eq!(decided(&repository("https://GIT/own.git", revision), false), Decision::Source(0));
        }
        for revision in ["", "HEAD", "c0ffee"] {
            assert_eq!(decided(&repository("https://git/second", revision), false), Decision::Source(1));
        }
        for (url, revision) in [
            ("https://git/second", "main"),
            ("https://git/second", "secret-branch"),
            ("https://git/third", ""),
            ("https://git/own/deeper", ""),
            ("https://charts", ""),
            ("", ""),
        ] {
            assert!(is_refused(&repository(url, revision)), "{url} {revision}");
        }
    }

    #[test]
    fn api_147_charts_and_files_are_those_of_the_application() {
        let chart = |repository: &str, name: &str, version: &str| Need::Chart {
            repository: repository.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
        };
        for version in ["", "1.*", "1.2.3"] {
            assert_eq!(decided(&chart("https://charts", "db", version), false), Decision::Bring);
        }
        assert!(
            is_refused(&chart("https://charts", "db", "2.0.0"))
                && is_refused(&chart("https://charts", "secret", ""))
        );
        assert!(is_refused(&chart("https://other", "db", "")));
        let files = Need::ChartFiles {
            repository: "oci://r".to_owned(),
            name: "db".to_owned(),
            version: String::new(),
        };
        assert!(is_refused(&files));
        for url in ["https://files/values.yaml", "https://files/a"] {
            assert_eq!(decided(&Need::File { url: url.to_owned() }, false), Decision::Bring);
        }
        assert!(is_refused(&Need::File { url: "https://files/other.yaml".to_owned() }));
        assert!(is_refused(&Need::File { url: "http://169.254.169.254/".to_owned() }));
        let resource = Need::Resource { url: "https://git/own//base".to_owned() };
        assert!(matches!(decided(&resource, true), Decision::Absent(_)), "no request is made");
        assert_eq!(decided(&Need::Ref { name: "values".to_owned() }, false), Decision::Bring);
    }

    #[test]
    fn api_147_programs_need_the_right_to_update() {
        let root = TreePath::root();
        let plugin = |choice: PluginChoice| {
            Need::Plugin(Arc::new(PluginCall {
                question: PluginQuestion::Manifests,
                choice,
                root: root.clone(),
                directory: root.clone(),
                environment: Vec::new(),
            }))
        };
        let tool = Need::Tool(Arc::new(ToolCall {
            tool: Tool::Kustomize,
            program: "kustomize".to_owned(),
            directory: root.clone(),
            files: Vec::new(),
            charts: Vec::new(),
            commands: Vec::new(),
        }));
        let all = [
            plugin(PluginChoice::Named("vault".to_owned())),
            plugin(PluginChoice::Any),
            plugin(PluginChoice::Perhaps { was_plugin: true }),
            tool,
        ];
        for need in &all {
            assert!(matches!(decided(need, false), Decision::Refuse(_)), "{need}");
            assert_eq!(decided(need, true), Decision::Bring, "{need}");
        }
        let perhaps = plugin(PluginChoice::Perhaps { was_plugin: false });
        assert!(matches!(decided(&perhaps, false), Decision::Absent(_)));
        assert_eq!(decided(&perhaps, true), Decision::Bring);
    }
}
