//! Config management plugins: when a source is one's, and what it is told (RND-127..138).
//!
//! Nothing is spoken here. A source that is, or may be, a plugin's asks for its answer like for anything else that a
//! rendering lacks ([`Need::Plugin`]); whoever speaks with plugins gets the files to send and the environment.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use tiphys_api::application::{ApplicationSource, PluginParameter, PluginSource};

use crate::environment::{Environment, build_environment, substitute};
use crate::kube_version::normalize;
use crate::needs::{Content, Need, Outcome, Supplies};
use crate::refresh::refresh_paths;
use crate::request::{Budget, RenderRequest};
use crate::{Reason, RenderError, TreePath, manifests};

/// A plugin server whose socket is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginServer {
    /// The name of its socket, without `.sock`.
    pub name: String,
    /// What tells one start of it from the next: another image may say something else.
    pub identity: String,
}

/// What is known of plugins before a source is rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSettings {
    /// Those that are there, by name.
    pub servers: Arc<[PluginServer]>,
    /// The annotation `manifest-generate-paths`, where only what it names is sent (RND-138).
    pub generate_paths: Option<String>,
    /// Whether a source of the application was a plugin's when it was rendered last. Then nobody concludes from a server
    /// that is not there that the source is something else now (INV-1).
    pub was_plugin: bool,
    /// Whether nobody knows which are there.
    pub is_unknown: bool,
}

impl PluginSettings {
    /// What the manifests of a source depend on. Those of a source that says it is something else depend on nothing.
    pub(crate) fn identity(&self, source: &ApplicationSource) -> Option<(&[PluginServer], Option<&str>)> {
        let other = source.kustomize.is_some() || source.helm.is_some() || source.directory.is_some();
        let is_asked = !other && source.chart.is_empty();
        is_asked.then(|| (&*self.servers, self.generate_paths.as_deref()))
    }
}

/// What a plugin is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginQuestion {
    /// Manifests.
    Manifests,
    /// The parameters that it announces (RND-136).
    Parameters,
}

/// Which plugin is meant (RND-133).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginChoice {
    /// The one of this name.
    Named(String),
    /// The first that says that the source is its own; there has to be one.
    Any,
    /// The same; if there is none, the source is something else (RND-64).
    Perhaps {
        /// Whether a server that cannot be asked is an error, because the source was a plugin's.
        was_plugin: bool,
    },
}

/// A question to a plugin about a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginCall {
    /// What is asked for.
    pub question: PluginQuestion,
    /// Who is asked.
    pub choice: PluginChoice,
    /// The directory that is sent.
    pub root: TreePath,
    /// The directory of the source, below it.
    pub directory: TreePath,
    /// Variables for the plugin's commands.
    pub environment: Vec<(String, String)>,
}

impl PluginCall {
    /// The directory of the source, relative to what is sent; `.` for that itself.
    pub fn relative(&self) -> String {
        if self.root.is_root() {
            return if self.directory.is_root() { ".".to_owned() } else { self.directory.to_string() };
        }
        let below = self.directory.as_str().strip_prefix(self.root.as_str()).unwrap_or_default();
        let below = below.trim_start_matches('/');
        if below.is_empty() { ".".to_owned() } else { below.to_owned() }
    }

    /// The name of the source's directory, which the protocol calls that of the application.
    pub fn name(&self) -> &str {
        self.directory.as_str().rsplit('/').next().unwrap_or_default()
    }
}

/// The plugin that has to be asked before the type of a source is known.
pub(crate) fn choice(
    source: &ApplicationSource,
    is_explicit: bool,
    settings: &PluginSettings,
) -> Option<PluginChoice> {
    match &source.plugin {
        Some(plugin) if plugin.name.is_empty() => Some(PluginChoice::Any),
        Some(plugin) => Some(PluginChoice::Named(plugin.name.clone())),
        None if is_explicit => None,
        None if settings.servers.is_empty() && !settings.was_plugin && !settings.is_unknown => None,
        None => Some(PluginChoice::Perhaps { was_plugin: settings.was_plugin }),
    }
}

/// The question about a source.
pub(crate) fn call(
    request: &RenderRequest,
    source: &ApplicationSource,
    directory: &TreePath,
    choice: PluginChoice,
) -> Result<PluginCall, RenderError> {
    let root = match &request.context.plugins.generate_paths {
        Some(annotation) => common_root(directory, &refresh_paths(annotation, &request.source.path)),
        None => TreePath::root(),
    };
    Ok(PluginCall {
        question: PluginQuestion::Manifests,
        choice,
        root,
        directory: directory.clone(),
        environment: environment(request, source.plugin.as_deref())?.into_iter().collect(),
    })
}

/// The deepest directory that holds a directory and all of these paths (RND-138).
fn common_root(directory: &TreePath, paths: &[String]) -> TreePath {
    if paths.is_empty() {
        return TreePath::root();
    }
    let mut root = directory.clone();
    for path in paths {
        // What is no path, or a pattern, may be anywhere.
        let is_plain = !path.contains(['*', '?', '[', '\\']);
        let path = TreePath::parse(path).ok().filter(|_| is_plain).unwrap_or_default();
        while !path.is_within(&root) {
            match root.parent() {
                Some(above) => root = above,
                None => return TreePath::root(),
            }
        }
    }
    root
}

/// Variables of every command of a plugin (RND-134).
fn environment(request: &RenderRequest, plugin: Option<&PluginSource>) -> Result<Environment, RenderError> {
    let mut environment = build_environment(request);
    let cluster = &request.context.cluster;
    environment.insert("KUBE_VERSION".to_owned(), normalize(cluster.kube_version())?);
    environment.insert("KUBE_API_VERSIONS".to_owned(), cluster.api_versions().join(","));
    let Some(plugin) = plugin else { return Ok(environment) };
    let known = environment.clone();
    for variable in &plugin.env {
        let value = substitute(&variable.value, &known);
        environment.insert(format!("ARGOCD_ENV_{}", variable.name), value);
    }
    let parameters: Vec<Value> = plugin.parameters.iter().map(shown).collect();
    environment.insert("ARGOCD_APP_PARAMETERS".to_owned(), Value::from(parameters).to_string());
    for parameter in &plugin.parameters {
        let name = format!("PARAM_{}", variable_name(&parameter.name));
        if let Some(text) = &parameter.string {
            environment.insert(name.clone(), text.clone());
        }
        for (number, item) in parameter.array.iter().flatten().enumerate() {
            environment.insert(format!("{name}_{number}"), item.clone());
        }
        for (key, value) in parameter.map.iter().flatten() {
            environment.insert(format!("{name}_{}", variable_name(key)), value.clone());
        }
    }
    // A byte of zero ends a variable: nothing has one.
    if environment.iter().any(|(name, value)| name.contains(['\0', '=']) || value.contains('\0')) {
        let text = "a variable or parameter of the plugin has a name or a value that no variable can have";
        return Err(RenderError::new(Reason::PluginFailed, text));
    }
    Ok(environment)
}

fn shown(parameter: &PluginParameter) -> Value {
    let mut members = Map::from_iter([("name".to_owned(), Value::from(parameter.name.as_str()))]);
    if let Some(text) = &parameter.string {
        members.insert("string".to_owned(), text.as_str().into());
    }
    if let Some(items) = &parameter.array {
        members.insert("array".to_owned(), items.clone().into());
    }
    if let Some(map) = &parameter.map {
        let map = map.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
        members.insert("map".to_owned(), Value::Object(map));
    }
    Value::Object(members)
}

fn variable_name(text: &str) -> String {
    let one = |c: char| if c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' { c } else { '_' };
    text.chars().flat_map(char::to_uppercase).map(one).collect()
}

/// What became of asking a plugin.
pub(crate) enum Asked {
    /// Its objects.
    Objects(Vec<Value>),
    /// That the source is no plugin's.
    NoPlugin,
}

/// The objects of a question, or that it is asked.
pub(crate) fn result(
    call: PluginCall,
    supplies: &Supplies,
    budget: &Budget,
) -> Result<Outcome<Asked>, RenderError> {
    let is_open = matches!(call.choice, PluginChoice::Perhaps { .. });
    let need = Need::Plugin(Arc::new(call));
    let Some(supply) = supplies.get(&need) else { return Ok(Outcome::Needs(vec![need])) };
    match &supply.content {
        Content::Absent(_) if is_open => Ok(Outcome::Done(Asked::NoPlugin)),
        Content::Absent(why) => Err(RenderError::new(Reason::PluginNotFound, why.clone())),
        Content::Bytes(printed) => {
            let text = std::str::from_utf8(printed).map_err(|_not_text| {
                RenderError::new(Reason::ManifestUnmarshal, "what the plugin answered is no text")
            })?;
            manifests::parse_manifests(text, budget).map(|objects| Outcome::Done(Asked::Objects(objects)))
        }
        Content::Tree(_) => Err(RenderError::new(Reason::PluginFailed, "the plugin answered with files")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::needs::Supply;
    use crate::plan::ClusterFacts;
    use crate::{Inputs, MemoryTree, Rendered, SourceType, render};

    fn request(source: Value) -> RenderRequest {
        let source: ApplicationSource = serde_json::from_value(source).unwrap();
        let mut request =
            RenderRequest { source, revision: "0123456789".to_owned(), ..RenderRequest::default() };
        request.context.instance_name = "shop".to_owned();
        request.context.cluster = ClusterFacts::new("v1.30.11+IKS", vec!["apps/v1".into(), "v1".into()]);
        request
    }

    fn variables(source: Value) -> Environment {
        let request = request(source);
        environment(&request, request.source.plugin.as_deref()).unwrap()
    }

    #[test]
    fn rnd_134_variables_of_a_plugin() {
        let found = variables(json!({"repoURL": "r", "path": "app", "plugin": {
        "env": [{"name": "FOO", "value": "at-$ARGOCD_APP_REVISION_SHORT $KUBE_VERSION"}],
        "parameters": [
            {"name": "helm-parameters", "map": {"image.tag": "v1"}},
            {"name": "files", "array": ["a", "b"]},
            {"name": "é x", "string": "s"},
        ]}}));
        let value = |name: &str| found.get(name).map(String::as_str);
        assert_eq!(value("ARGOCD_ENV_FOO"), Some("at-0123456 1.30.11"));
        assert_eq!(value("KUBE_VERSION"), Some("1.30.11"));
        assert_eq!(value("KUBE_API_VERSIONS"), Some("apps/v1,v1"));
        assert_eq!(value("PARAM_HELM_PARAMETERS_IMAGE_TAG"), Some("v1"));
        assert_eq!((value("PARAM_FILES_0"), value("PARAM_FILES_1")), (Some("a"), Some("b")));
        assert_eq!(value("PARAM___X"), Some("s"));
        let parameters: Value = serde_json::from_str(value("ARGOCD_APP_PARAMETERS").unwrap()).unwrap();
        assert_eq!(parameters[0], json!({"name": "helm-parameters", "map": {"image.tag": "v1"}}));
        assert_eq!(parameters[1], json!({"name": "files", "array": ["a", "b"]}));
        assert_eq!(value("ARGOCD_APP_NAME"), Some("shop"));
        assert_eq!(variables(json!({"repoURL": "r", "plugin": {}}))["ARGOCD_APP_PARAMETERS"], "[]");
        let bad = request(json!({"repoURL": "r", "plugin": {"env": [{"name": "A=B", "value": ""}]}}));
        assert!(environment(&bad, bad.source.plugin.as_deref()).is_err());
    }

    #[test]
    fn rnd_138_only_the_deepest_common_directory_is_sent() {
        let of = |annotation: &str, path: &str| {
            let mut request = request(json!({"repoURL": "r", "path": path, "plugin": {"name": "p"}}));
            request.context.plugins.generate_paths = Some(annotation.to_owned());
            let directory = TreePath::parse(path).unwrap();
            let call = call(&request, &request.source, &directory, PluginChoice::Any).unwrap();
            (call.root.to_string(), call.relative(), call.name().to_owned())
        };
        let three = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(of(".", "apps/a"), three("apps/a", ".", "a"));
        assert_eq!(of(".;../shared", "apps/a"), three("apps", "a", "a"));
        assert_eq!(of("/base", "apps/a").1, "apps/a");
        assert_eq!(of("../a2", "apps/a"), three("apps", "a", "a"));
        assert_eq!(of("", "apps/a").1, "apps/a");
        assert_eq!(of("/apps/*", "apps/a").1, "apps/a", "a pattern may match anywhere");
        assert_eq!(of(".", ".").1, ".");
    }

    fn run(request: &RenderRequest, answer: Option<Supply>) -> Result<Outcome<Rendered>, RenderError> {
        let tree = MemoryTree::from_files([
            ("app/Chart.yaml", "name: x"),
            ("app/a.yaml", "kind: A\napiVersion: v1\nmetadata: {name: plain}\n"),
        ])
        .unwrap();
        let budget = Budget::default();
        let first = render(request, &Inputs::of(&tree), &budget)?;
        let (Outcome::Needs(needs), Some(answer)) = (&first, answer) else { return Ok(first) };
        let mut supplies = Supplies::default();
        supplies.add(needs[0].clone(), answer);
        render(request, &Inputs { supplies: &supplies, ..Inputs::of(&tree) }, &budget)
    }

    fn served(mut request: RenderRequest, name: &str) -> RenderRequest {
        let server = PluginServer { name: name.to_owned(), identity: "1".to_owned() };
        request.context.plugins.servers = Arc::from([server]);
        request
    }

    #[test]
    fn rnd_64_plugins_are_asked_before_names_are_looked_at() {
        let open = || request(json!({"repoURL": "r", "path": "app"}));
        // Nobody is there to be asked.
        let mut alone = open();
        alone.context.enabled.helm = false;
        let Outcome::Done(rendered) = run(&alone, None).unwrap() else { panic!("nothing is needed") };
        assert_eq!(rendered.source_type, SourceType::Directory);
        let mut served = served(open(), "p");
        served.context.enabled.helm = false;
        let absent = run(&served, Some(Supply::absent("none".to_owned()))).unwrap();
        assert_eq!(absent.or_offline().unwrap().source_type, SourceType::Directory);
        let text = "kind: B\napiVersion: v1\nmetadata: {name: x}\n";
        let Outcome::Done(rendered) = run(&served, Some(Supply::bytes(text.into()))).unwrap() else {
            panic!("answered")
        };
        assert_eq!((rendered.source_type, rendered.objects.len()), (SourceType::Plugin, 1));
        // What says it is something else asks nobody.
        let mut typed = served;
        typed.source.directory = Some(tiphys_api::application::DirectorySource::default());
        assert!(matches!(run(&typed, None).unwrap(), Outcome::Done(_)));
    }

    #[test]
    fn rnd_133_a_plugin_that_is_named_has_to_be_there() {
        let named = request(json!({"repoURL": "r", "path": "app", "plugin": {"name": "p"}}));
        let Outcome::Needs(needs) = run(&named, None).unwrap() else { panic!("the plugin is asked") };
        assert!(
            matches!(&needs[0], Need::Plugin(call) if call.choice == PluginChoice::Named("p".to_owned()))
        );
        let error = run(&named, Some(Supply::absent("could not find".to_owned()))).unwrap_err();
        assert_eq!((error.reason, error.message.as_str()), (Reason::PluginNotFound, "could not find"));
        let broken = run(&named, Some(Supply::bytes("a: [".into()))).unwrap_err();
        assert_eq!(broken.reason, Reason::ManifestUnmarshal);
    }

    /// INV-1: a source that was a plugin's is not something else because no plugin is there.
    #[test]
    fn inv_1_a_source_that_was_a_plugins_is_asked_about_although_none_is_there() {
        let mut was = request(json!({"repoURL": "r", "path": "app"}));
        was.context.plugins.was_plugin = true;
        let Outcome::Needs(needs) = run(&was, None).unwrap() else { panic!("somebody has to be asked") };
        let Need::Plugin(call) = &needs[0] else { panic!("a plugin") };
        assert_eq!(call.choice, PluginChoice::Perhaps { was_plugin: true });
    }

    #[test]
    fn rnd_141_the_plugins_that_are_there_count_for_sources_that_may_be_theirs() {
        let open = || request(json!({"repoURL": "r", "path": "app"}));
        assert_ne!(open().identity(), served(open(), "p").identity());
        let mut restarted = served(open(), "p");
        restarted.context.plugins.servers =
            Arc::from([PluginServer { name: "p".to_owned(), identity: "2".to_owned() }]);
        assert_ne!(restarted.identity(), served(open(), "p").identity());
        let chart = || request(json!({"repoURL": "r", "chart": "c"}));
        assert_eq!(chart().identity(), served(chart(), "p").identity());
        let typed = || request(json!({"repoURL": "r", "helm": {}}));
        assert_eq!(typed().identity(), served(typed(), "p").identity());
    }
}
