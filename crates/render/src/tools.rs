//! The real `helm` and `kustomize`: when a source is theirs, and what they are told (RND-159, RND-160, RND-243..245).
//!
//! Nothing is started here. A rendering that is a program's asks for its result like for anything else that it lacks
//! ([`Need::Tool`]); whoever starts programs gets the words, the files beside the checkout, and where to begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tiphys_api::application::{HelmSource, KustomizePatch, KustomizeSource};
use tiphys_api::names::annotation::RENDERER;
use tiphys_api::settings::Settings;
use tiphys_helm::UserValues;

use crate::needs::{Need, Outcome, Supplies};
use crate::request::{Budget, SourceType};
use crate::{Reason, RenderError, TreePath, manifests};

/// A program that renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Tool {
    /// `helm`
    Helm,
    /// `kustomize`
    Kustomize,
}

impl Tool {
    /// The name of the program.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Kustomize => "kustomize",
        }
    }
}

/// Who renders the sources of a tool (RND-159).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Renderer {
    /// This process.
    #[default]
    Native,
    /// The program.
    Exec,
    /// Both; what the program prints counts.
    Compare,
    /// A word that says none of these.
    Unknown(String),
    /// An Application of this project chose another one than the installation, without the right to choose.
    Refused(String),
}

impl Renderer {
    fn read(text: &str) -> Self {
        match text {
            "" | "native" => Self::Native,
            "exec" => Self::Exec,
            "compare" => Self::Compare,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// What the installation and the Application say about programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolSettings {
    helm: Renderer,
    kustomize: Renderer,
    /// Programs of kustomize by version (RND-87).
    versions: BTreeMap<String, String>,
    /// Options of the builds of a version (RND-88).
    version_options: BTreeMap<String, String>,
}

impl ToolSettings {
    /// What the settings say.
    pub fn of(settings: &Settings) -> Self {
        let (versions, version_options) = settings.kustomize_versions();
        Self {
            helm: Renderer::read(settings.renderer("helm")),
            kustomize: Renderer::read(settings.renderer("kustomize")),
            versions,
            version_options,
        }
    }

    /// With what the annotation of an Application says: `helm=exec,kustomize=native` (RND-159).
    #[must_use]
    pub fn with_annotation(mut self, text: &str) -> Self {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("helm", renderer)) => self.helm = Renderer::read(renderer),
                Some(("kustomize", renderer)) => self.kustomize = Renderer::read(renderer),
                // Nobody knows which of them was meant.
                _ => {
                    self.helm = Renderer::Unknown(part.to_owned());
                    self.kustomize = Renderer::Unknown(part.to_owned());
                }
            }
        }
        self
    }

    /// The same for a project that may not choose: an annotation that would change a renderer makes it unusable, so that
    /// nothing is rendered in another way than the Application says (RND-159).
    #[must_use]
    pub fn without_choice(mut self, text: &str, project: &str) -> Self {
        let chosen = self.clone().with_annotation(text);
        for (own, chosen) in [(&mut self.helm, chosen.helm), (&mut self.kustomize, chosen.kustomize)] {
            if *own != chosen {
                *own = Renderer::Refused(project.to_owned());
            }
        }
        self
    }

    /// Who renders sources of a type, in a word that does not come from users (RND-249).
    pub fn renderer_of(&self, source_type: SourceType) -> &'static str {
        let renderer = match source_type {
            SourceType::Helm => &self.helm,
            SourceType::Kustomize => &self.kustomize,
            SourceType::Directory => &Renderer::Native,
            SourceType::Plugin => return "plugin",
        };
        match renderer {
            Renderer::Native => "native",
            Renderer::Exec => "exec",
            Renderer::Compare => "compare",
            Renderer::Unknown(_) => "unknown",
            Renderer::Refused(_) => "refused",
        }
    }

    /// Who renders charts.
    ///
    /// # Errors
    /// When the settings say something that has no meaning.
    pub(crate) fn helm_renderer(&self) -> Result<Who, RenderError> {
        who(Tool::Helm, &self.helm)
    }

    /// The program for an overlay with this `kustomize.version`: its path, or its name, and whether the overlay is built
    /// here as well; `None` when it is built here only. A version that is registered is never compared: it is another one
    /// than ours (RND-160).
    ///
    /// # Errors
    /// When no program is registered for the version, or the settings say something that has no meaning.
    pub(crate) fn kustomize_program(&self, version: &str) -> Result<Option<(String, bool)>, RenderError> {
        if version.is_empty() {
            let program = || Tool::Kustomize.as_str().to_owned();
            return Ok(match who(Tool::Kustomize, &self.kustomize)? {
                Who::Native => None,
                Who::Program => Some((program(), false)),
                Who::Both => Some((program(), true)),
            });
        }
        let text = || format!("kustomize version {version} is not registered");
        let found = self.versions.get(version).cloned();
        found
            .map(|program| Some((program, false)))
            .ok_or_else(|| RenderError::new(Reason::KustomizeVersion, text()))
    }

    /// Options of the builds of a version, in place of those of all (RND-88).
    pub(crate) fn options_of(&self, version: &str) -> Option<&str> {
        self.version_options.get(version).map(String::as_str).filter(|_| !version.is_empty())
    }
}

/// Who is asked for the objects of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// This process.
    Native,
    /// The program.
    Program,
    /// The program, whose objects count, and this process.
    Both,
}

fn who(tool: Tool, renderer: &Renderer) -> Result<Who, RenderError> {
    match renderer {
        Renderer::Native => Ok(Who::Native),
        Renderer::Exec => Ok(Who::Program),
        Renderer::Compare => Ok(Who::Both),
        Renderer::Unknown(word) => {
            let text =
                format!("tiphys.renderer.{} is {word:?}; it can be native, exec or compare", tool.as_str());
            Err(RenderError::new(Reason::ExecRequired, text))
        }
        Renderer::Refused(project) => {
            let text = format!(
                "annotation {RENDERER}: Applications of project '{project}' may not choose the renderer of {}; remove \
                 the annotation, or let an administrator add the project to tiphys.renderer.projects in argocd-cm",
                tool.as_str()
            );
            Err(RenderError::new(Reason::ExecRequired, text))
        }
    }
}

/// A word of a command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// A text.
    Text(String),
    /// A text, and behind it the place of one of [`ToolCall::files`].
    File(String, usize),
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What stands in `charts/` of a chart although its repository does not have it there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddedChart {
    /// A packed chart.
    Packed(Bytes),
    /// A directory of the repository.
    Directory(TreePath),
}

/// Commands, one after another, in a copy of the checkout; what the last one prints is the result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolCall {
    /// Which tool it is.
    pub tool: Tool,
    /// The program: a path, or a name to look for.
    pub program: String,
    /// Where in the checkout it runs.
    pub directory: TreePath,
    /// Files that stand beside the checkout.
    pub files: Vec<Bytes>,
    /// Charts that are put into `charts/` of that directory, with their names.
    pub charts: Vec<(String, AddedChart)>,
    /// Arguments of the commands.
    pub commands: Vec<Vec<Word>>,
}

impl ToolCall {
    /// The commands as one would type them in the directory; `names` are those of the files.
    pub(crate) fn lines(&self, names: &[String]) -> Vec<String> {
        let word = |word: &Word| match word {
            Word::Text(text) => quoted(text),
            Word::File(before, number) => {
                quoted(&format!("{before}{}", names.get(*number).map_or("", String::as_str)))
            }
        };
        let line = |words: &Vec<Word>| {
            let words = std::iter::once(quoted(self.tool.as_str())).chain(words.iter().map(word));
            words.collect::<Vec<_>>().join(" ")
        };
        self.commands.iter().map(line).collect()
    }

    /// Equal for equal calls.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(bytes);
        };
        add(self.tool.as_str().as_bytes());
        add(self.program.as_bytes());
        add(self.directory.as_str().as_bytes());
        for file in &self.files {
            add(b"file");
            add(file);
        }
        for (name, chart) in &self.charts {
            add(name.as_bytes());
            match chart {
                AddedChart::Packed(bytes) => add(bytes),
                AddedChart::Directory(path) => add(path.as_str().as_bytes()),
            }
        }
        for command in &self.commands {
            add(b"command");
            for word in command {
                match word {
                    Word::Text(text) => add(text.as_bytes()),
                    Word::File(before, number) => {
                        add(before.as_bytes());
                        add(&number.to_be_bytes());
                    }
                }
            }
        }
        hash.finalize().into()
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The objects of a call, or that it is asked for.
pub(crate) fn result(
    call: ToolCall,
    supplies: &Supplies,
    budget: &Budget,
) -> Result<Outcome<Vec<Value>>, RenderError> {
    let need = Need::Tool(Arc::new(call));
    let Some(printed) = supplies.bytes(&need) else { return Ok(Outcome::Needs(vec![need])) };
    let text = std::str::from_utf8(printed).map_err(|_not_text| {
        RenderError::new(Reason::ManifestUnmarshal, "what the program printed is no text")
    })?;
    manifests::parse_manifests(text, budget).map(Outcome::Done)
}

/// What helm is asked besides its values.
pub(crate) struct HelmCall<'a> {
    /// The chart.
    pub(crate) directory: &'a TreePath,
    /// Name of the release.
    pub(crate) release: &'a str,
    /// Namespace of the release.
    pub(crate) namespace: &'a str,
    /// Version of Kubernetes.
    pub(crate) kube_version: &'a str,
    /// What the cluster serves.
    pub(crate) api_versions: &'a [String],
    /// Charts that were brought.
    pub(crate) charts: Vec<(String, AddedChart)>,
}

/// The call of RND-92.
pub(crate) fn helm(source: &HelmSource, values: &UserValues, asked: HelmCall<'_>) -> ToolCall {
    let HelmCall { directory, release, namespace, kube_version, api_versions, charts } = asked;
    let mut files = Vec::new();
    let mut words: Vec<Word> = vec!["template".into(), ".".into()];
    let mut pair = |flag: &str, value: &str| {
        words.push(flag.into());
        words.push(value.into());
    };
    pair("--name-template", release);
    if !namespace.is_empty() {
        pair("--namespace", namespace);
    }
    if !kube_version.is_empty() {
        pair("--kube-version", kube_version);
    }
    for text in &values.set {
        pair("--set", text);
    }
    for text in &values.set_string {
        pair("--set-string", text);
    }
    for parameter in &values.set_file {
        words.push("--set-file".into());
        words.push(Word::File(format!("{}=", parameter.name), files.len()));
        files.push(parameter.content.clone());
    }
    for file in &values.files {
        words.push("--values".into());
        words.push(Word::File(String::new(), files.len()));
        files.push(file.data.clone());
    }
    for version in api_versions {
        words.push("--api-versions".into());
        words.push(version.as_str().into());
    }
    for (is_on, flag) in [
        (!source.skip_crds, "--include-crds"),
        (source.skip_schema_validation, "--skip-schema-validation"),
        (source.skip_tests, "--skip-tests"),
    ] {
        if is_on {
            words.push(flag.into());
        }
    }
    ToolCall {
        tool: Tool::Helm,
        program: Tool::Helm.as_str().to_owned(),
        directory: directory.clone(),
        files,
        charts,
        commands: vec![words],
    }
}

/// The edits of RND-81..86 and the build of RND-87. `options` are those of the build; `is_directory` says whether a
/// component is there.
///
/// # Errors
/// For fields that the commands of kustomize have no word for.
pub(crate) fn kustomize(
    program: String,
    source: &KustomizeSource,
    directory: &TreePath,
    options: Vec<String>,
    is_directory: &dyn Fn(&str) -> Result<bool, RenderError>,
) -> Result<ToolCall, RenderError> {
    let mut commands: Vec<Vec<Word>> = Vec::new();
    let mut edit = |words: &[&str], more: Vec<String>| {
        let words = ["edit"].iter().chain(words).map(|word| Word::from(*word));
        commands.push(words.chain(more.into_iter().map(Word::Text)).collect());
    };
    for (field, value) in [("nameprefix", &source.name_prefix), ("namesuffix", &source.name_suffix)] {
        if !value.is_empty() {
            edit(&["set", field, "--"], vec![value.clone()]);
        }
    }
    if !source.images.is_empty() {
        edit(&["set", "image", "--"], source.images.clone());
    }
    if !source.replicas.is_empty() {
        let replicas = source.replicas.iter();
        let counts: Result<Vec<String>, RenderError> = replicas
            .map(|one| {
                let text = || format!("expected integer value for count. Received: {}", one.count);
                let count = one.count.number().map(|count| format!("{}={count}", one.name));
                count.ok_or_else(|| RenderError::new(Reason::KustomizeReplicaCount, text()))
            })
            .collect();
        edit(&["set", "replicas", "--"], counts?);
    }
    let pairs = |pairs: &BTreeMap<String, String>| {
        pairs.iter().map(|(name, value)| format!("{name}:{value}")).collect()
    };
    if !source.common_labels.is_empty() {
        let flags = [
            (source.force_common_labels, "--force"),
            (source.label_without_selector, "--without-selector"),
            (source.label_include_templates, "--include-templates"),
        ];
        let mut words = vec!["add", "label"];
        words.extend(flags.into_iter().filter_map(|(is_on, flag)| is_on.then_some(flag)));
        words.push("--");
        edit(&words, pairs(&source.common_labels));
    }
    if !source.common_annotations.is_empty() {
        let force: &[&str] = if source.force_common_annotations { &["--force"] } else { &[] };
        edit(&[&["add", "annotation"], force, &["--"]].concat(), pairs(&source.common_annotations));
    }
    if !source.namespace.is_empty() {
        edit(&["set", "namespace", "--"], vec![source.namespace.clone()]);
    }
    for patch in &source.patches {
        edit(&["add", "patch"], patch_words(patch)?);
    }
    let mut components = Vec::new();
    for component in &source.components {
        if !source.ignore_missing_components || is_directory(component)? {
            components.push(component.clone());
        }
    }
    if !components.is_empty() {
        edit(&["add", "component", "--"], components);
    }
    let build = ["build", "."].map(Word::from).into_iter();
    commands.push(build.chain(options.into_iter().map(Word::Text)).collect());
    Ok(ToolCall {
        tool: Tool::Kustomize,
        program,
        directory: directory.clone(),
        files: Vec::new(),
        charts: Vec::new(),
        commands,
    })
}

fn patch_words(patch: &KustomizePatch) -> Result<Vec<String>, RenderError> {
    if !patch.options.is_empty() {
        let text = "renderer exec: kustomize has no command that sets the options of a patch; write the patch into the kustomization";
        return Err(RenderError::new(Reason::ExecRequired, text));
    }
    let target = patch.target.clone().unwrap_or_default();
    let pairs = [
        ("--path", &patch.path),
        ("--patch", &patch.patch),
        ("--group", &target.group),
        ("--version", &target.version),
        ("--kind", &target.kind),
        ("--name", &target.name),
        ("--namespace", &target.namespace),
        ("--annotation-selector", &target.annotation_selector),
        ("--label-selector", &target.label_selector),
    ];
    let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(given.map(|(flag, value)| format!("{flag}={value}")).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiphys_api::settings::SettingsData;
    use tiphys_helm::{File, FileParameter};

    use super::*;
    use crate::plan::RenderContext;

    fn shown(call: &ToolCall) -> Vec<String> {
        let word = |word: &Word| match word {
            Word::Text(text) => text.clone(),
            Word::File(before, number) => format!("{before}<{number}>"),
        };
        call.commands.iter().map(|words| words.iter().map(word).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn rnd_92_what_helm_is_told() {
        let values = UserValues {
            set: vec!["a=1".to_owned()],
            set_string: vec!["b=2".to_owned()],
            set_file: vec![FileParameter { name: "c".to_owned(), content: "x".into() }],
            files: vec![File { name: "v.yaml".to_owned(), data: "y".into() }],
        };
        let source = HelmSource { skip_tests: true, ..HelmSource::default() };
        let versions = ["v1/Pod".to_owned()];
        let asked = HelmCall {
            directory: &TreePath::root(),
            release: "rel",
            namespace: "ns",
            kube_version: "1.36.0",
            api_versions: &versions,
            charts: Vec::new(),
        };
        let call = helm(&source, &values, asked);
        let expected = "template . --name-template rel --namespace ns --kube-version 1.36.0 --set a=1 --set-string b=2 \
                        --set-file c=<0> --values <1> --api-versions v1/Pod --include-crds --skip-tests";
        assert_eq!(shown(&call), [expected]);
        assert_eq!(call.files, ["x", "y"]);
    }

    #[test]
    fn rnd_81_the_fields_of_a_source_are_edits_in_their_order() {
        let source: KustomizeSource = serde_json::from_value(json!({
            "namePrefix": "-p", "images": ["a=b:1"], "replicas": [{"name": "web", "count": "3"}],
            "commonLabels": {"l": "1"}, "labelWithoutSelector": true, "commonAnnotations": {"n": "2"},
            "forceCommonAnnotations": true, "namespace": "ns", "components": ["there", "gone"],
            "ignoreMissingComponents": true, "patches": [{"path": "p.yaml", "target": {"kind": "Pod"}}],
        }))
        .unwrap();
        let there = |name: &str| Ok(name == "there");
        let call = |source: &KustomizeSource| {
            kustomize(
                "kustomize".to_owned(),
                source,
                &TreePath::root(),
                vec!["--enable-helm".to_owned()],
                &there,
            )
        };
        let expected = [
            "edit set nameprefix -- -p",
            "edit set image -- a=b:1",
            "edit set replicas -- web=3",
            "edit add label --without-selector -- l:1",
            "edit add annotation --force -- n:2",
            "edit set namespace -- ns",
            "edit add patch --path=p.yaml --kind=Pod",
            "edit add component -- there",
            "build . --enable-helm",
        ];
        assert_eq!(shown(&call(&source).unwrap()), expected);
        let with = |fields: Value| call(&serde_json::from_value(fields).unwrap()).unwrap_err().reason;
        assert_eq!(with(json!({"replicas": [{"name": "a", "count": "x"}]})), Reason::KustomizeReplicaCount);
        assert_eq!(
            with(json!({"patches": [{"path": "p", "options": {"allowNameChange": true}}]})),
            Reason::ExecRequired
        );
    }

    #[test]
    fn rnd_159_settings_and_annotation_say_who_renders() {
        let settings = ToolSettings::default();
        assert_eq!(settings.helm_renderer(), Ok(Who::Native));
        let with = |text: &str| settings.clone().with_annotation(text);
        assert_eq!(with("helm=exec, kustomize=native").helm_renderer(), Ok(Who::Program));
        assert_eq!(with("helm=compare").helm_renderer(), Ok(Who::Both));
        let both = Ok(Some(("kustomize".to_owned(), true)));
        assert_eq!(with("kustomize=compare").kustomize_program(""), both);
        for wrong in ["helm=both", "exec"] {
            let error = with(wrong).helm_renderer().unwrap_err();
            assert!(error.message.ends_with("it can be native, exec or compare"), "{error}");
        }
        let versions = BTreeMap::from([("v4".to_owned(), "/bin/kustomize4".to_owned())]);
        let settings = ToolSettings { versions, ..settings };
        assert_eq!(settings.kustomize_program("v4"), Ok(Some(("/bin/kustomize4".to_owned(), false))));
        assert_eq!(settings.kustomize_program(""), Ok(None));
        let error = settings.kustomize_program("v5").unwrap_err();
        assert_eq!(error.message, "kustomize version v5 is not registered");
    }

    #[test]
    fn sec_renderer_annotation_needs_the_setting() {
        let context = |projects: &str, annotation: &str| {
            let cm = BTreeMap::from([("tiphys.renderer.projects".to_owned(), projects.to_owned())]);
            let settings = Settings::new(SettingsData { cm, ..SettingsData::default() });
            let context = RenderContext { project: "red".to_owned(), ..RenderContext::default() };
            context.with_settings(&settings).with_renderer(Some(&annotation.to_owned()), &settings).tools
        };
        for annotation in ["helm=exec", "helm=compare", "exec", "kustomize=native,helm=exec"] {
            for projects in ["", "blue", "re", "red-*, !red"] {
                let error = context(projects, annotation).helm_renderer().unwrap_err();
                assert!(
                    error.message.contains("project 'red'")
                        && error.message.contains("tiphys.renderer.projects"),
                    "{projects} {annotation}: {error}"
                );
            }
        }
        assert!(context("", "kustomize=exec").kustomize_program("").is_err());
        assert_eq!(context("", "kustomize=exec").helm_renderer(), Ok(Who::Native), "Helm was not chosen");
        assert_eq!(
            context("", "helm=native").helm_renderer(),
            Ok(Who::Native),
            "the same as the installation"
        );
        for projects in ["red", "blue, r*", "*"] {
            assert_eq!(context(projects, "helm=exec").helm_renderer(), Ok(Who::Program), "{projects}");
        }
        assert_eq!(context("", "helm=exec").renderer_of(SourceType::Helm), "refused");
    }

    #[test]
    fn rnd_141_calls_are_told_apart() {
        let call = |directory: &str, word: &str| ToolCall {
            tool: Tool::Helm,
            program: "helm".to_owned(),
            directory: TreePath::parse(directory).unwrap(),
            files: Vec::new(),
            charts: Vec::new(),
            commands: vec![vec![word.into()]],
        };
        assert_eq!(call("a", "x").digest(), call("a", "x").digest());
        assert_ne!(call("a", "x").digest(), call("b", "x").digest());
        assert_ne!(call("a", "x").digest(), call("a", "y").digest());
    }
}
