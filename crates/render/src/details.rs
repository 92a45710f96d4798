//! What somebody who edits a source wants to know of it: its type, values and value files, images, announced parameters
//! (RND-90, RND-136, RND-153..155).

use std::sync::Arc;

use serde_json::Value;
use tiphys_api::application::{ApplicationSource, HelmFileParameter, HelmSource};
use tiphys_go::live;
use tiphys_helm::{File, HelmVersion, flatten_parameters};
use tiphys_tree::WalkLimit;

use crate::environment::build_environment;
use crate::needs::{Content, Need, Outcome, Supplies};
use crate::plugins::{self, PluginCall, PluginChoice, PluginQuestion};
use crate::request::{Budget, Inputs, RenderRequest, prepared};
use crate::{EntryKind, Reason, RenderError, SourceType, Tree, TreePath, helm, kind, kustomize};

/// Value files that are listed.
const VALUE_FILES_MAX: usize = 10_000;
/// Bytes of `values.yaml` that are shown.
const VALUES_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Levels of directories below a chart.
const DEPTH_MAX: usize = 64;

/// What is told of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Details {
    /// Of a chart.
    Helm(HelmDetails),
    /// Of an overlay: the images of what it builds, sorted, each as often as it occurs.
    Kustomize {
        /// The images.
        images: Vec<String>,
    },
    /// Of a directory, nothing.
    Directory,
    /// Of a plugin's: its announcements, as objects of JSON.
    Plugin {
        /// The announcements.
        announcements: Vec<Value>,
    },
}

/// What is told of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HelmDetails {
    /// Files that may be value files, relative to the chart, in the order of a walk.
    pub value_files: Vec<String>,
    /// The text of `values.yaml`.
    pub values: String,
    /// Parameters by name: of `values.yaml`, and over it the value files that the source selects.
    pub parameters: Vec<ParameterDetails>,
    /// File parameters of the source.
    pub file_parameters: Vec<HelmFileParameter>,
}

/// A parameter of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParameterDetails {
    /// Its path: `a.b[0].c`.
    pub name: String,
    /// Its value as the reference prints it: `1e+06`.
    pub value: String,
    /// The same with all digits (RND-154).
    pub plain: String,
}

impl Details {
    /// The type of the source.
    pub fn source_type(&self) -> SourceType {
        match self {
            Self::Helm(_) => SourceType::Helm,
            Self::Kustomize { .. } => SourceType::Kustomize,
            Self::Directory => SourceType::Directory,
            Self::Plugin { .. } => SourceType::Plugin,
        }
    }
}

/// Finds the details of a source. Overrides and detection are those of a rendering (RND-155).
///
/// # Errors
/// With the text users see.
pub fn details(
    request: &RenderRequest,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Details>, RenderError> {
    live::within(budget.live_bytes, || {
        let found = found(request, inputs, budget)?;
        budget.check()?;
        Ok(found)
    })
}

fn found(
    request: &RenderRequest,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Details>, RenderError> {
    let context = &request.context;
    let (directory, source) = prepared(request, inputs.tree, budget)?;
    let is_explicit = kind::explicit_type(&source)?.is_some();
    if let Some(choice) = plugins::choice(&source, is_explicit, &context.plugins) {
        match announced(request, &source, &directory, choice, inputs.supplies)? {
            Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
            Outcome::Done(Some(announcements)) => {
                return Ok(Outcome::Done(Details::Plugin { announcements }));
            }
            Outcome::Done(None) => {}
        }
    }
    Ok(match kind::source_type(&source, inputs.tree, &directory, context.enabled)? {
        SourceType::Directory | SourceType::Plugin => Outcome::Done(Details::Directory),
        SourceType::Kustomize => {
            let options = source.kustomize.unwrap_or_default();
            match kustomize::render(request, &options, &directory, inputs, budget)? {
                Outcome::Done(made) => {
                    let mut images = Vec::new();
                    for object in &made.objects {
                        collect_images(object, &mut images);
                    }
                    images.sort();
                    Outcome::Done(Details::Kustomize { images })
                }
                Outcome::Needs(needs) => Outcome::Needs(needs),
            }
        }
        SourceType::Helm => {
            let options = source.helm.unwrap_or_default();
            match of_chart(request, &options, &directory, inputs, budget)? {
                Outcome::Done(found) => Outcome::Done(Details::Helm(found)),
                Outcome::Needs(needs) => Outcome::Needs(needs),
            }
        }
    })
}

/// The announcements of a plugin, or that the source is none's.
fn announced(
    request: &RenderRequest,
    source: &ApplicationSource,
    directory: &TreePath,
    choice: PluginChoice,
    supplies: &Supplies,
) -> Result<Outcome<Option<Vec<Value>>>, RenderError> {
    let is_open = matches!(choice, PluginChoice::Perhaps { .. });
    let call = plugins::call(request, source, directory, choice)?;
    let call = PluginCall { question: PluginQuestion::Parameters, ..call };
    let need = Need::Plugin(Arc::new(call));
    let Some(supply) = supplies.get(&need) else { return Ok(Outcome::Needs(vec![need])) };
    let unreadable =
        || RenderError::new(Reason::PluginFailed, "the announcements of the plugin cannot be read");
    Ok(Outcome::Done(match &supply.content {
        Content::Absent(_) if is_open => None,
        Content::Absent(why) => return Err(RenderError::new(Reason::PluginNotFound, why.clone())),
        Content::Bytes(bytes) => Some(serde_json::from_slice(bytes).map_err(|_error| unreadable())?),
        Content::Tree(_) => return Err(unreadable()),
    }))
}

fn of_chart(
    request: &RenderRequest,
    options: &HelmSource,
    directory: &TreePath,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<HelmDetails>, RenderError> {
    let mut value_files = Vec::new();
    let mut limit = WalkLimit::new(budget.files, budget.cancelled.as_deref());
    find_value_files(inputs.tree, directory, "", 0, &mut limit, &mut value_files)?;
    let environment = build_environment(request);
    let mut needs = Vec::new();
    // Files that are missing are no error here.
    let lenient = HelmSource { ignore_missing_value_files: true, ..options.clone() };
    let own = inputs.tree.entry(&directory.child("values.yaml"))?;
    let own = match own.filter(tiphys_tree::Entry::is_file) {
        Some(_) => Some(inputs.tree.read(&directory.child("values.yaml"), VALUES_BYTES_MAX)?),
        None => None,
    };
    let mut files: Vec<File> =
        own.iter().map(|data| File { name: "values.yaml".to_owned(), data: data.clone() }).collect();
    files.extend(helm::selected_files(
        request,
        &lenient,
        directory,
        inputs,
        (&environment, budget),
        &mut needs,
    )?);
    if !needs.is_empty() {
        return Ok(Outcome::Needs(needs));
    }
    let flat = flatten_parameters(&files, HelmVersion::V4)
        .map_err(|error| RenderError::new(Reason::HelmRender, error.to_string()))?;
    let parameters = flat.into_iter().map(|(name, parameter)| ParameterDetails {
        name,
        value: parameter.value,
        plain: parameter.plain,
    });
    Ok(Outcome::Done(HelmDetails {
        value_files,
        values: own.map(|data| String::from_utf8_lossy(&data).into_owned()).unwrap_or_default(),
        parameters: parameters.collect(),
        file_parameters: options.file_parameters.clone(),
    }))
}

/// Files whose names say that they hold values, in the order of a walk; links are not followed.
fn find_value_files(
    tree: &dyn Tree,
    directory: &TreePath,
    below: &str,
    depth: usize,
    limit: &mut WalkLimit<'_>,
    found: &mut Vec<String>,
) -> Result<(), RenderError> {
    let members = tree.list(directory)?;
    limit.spend(members.len() + 1)?;
    for (name, entry) in members {
        let relative = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        match entry.kind {
            EntryKind::Directory if depth < DEPTH_MAX => {
                find_value_files(tree, &directory.child(&name), &relative, depth + 1, limit, found)?;
            }
            EntryKind::File { .. } => {
                let lower = name.to_lowercase();
                let is_yaml = [".yaml", ".yml"].iter().any(|end| lower.ends_with(end));
                if is_yaml && lower.contains("values") {
                    if found.len() >= VALUE_FILES_MAX {
                        let text = format!("the chart has more than {VALUE_FILES_MAX} value files");
                        return Err(RenderError::new(Reason::BudgetExceeded, text));
                    }
                    found.push(relative);
                }
            }
            EntryKind::Directory | EntryKind::Symlink { .. } | EntryKind::Submodule => {}
        }
    }
    Ok(())
}

/// The image of every container, wherever one stands (RND-90).
fn collect_images(value: &Value, images: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if matches!(name.as_str(), "containers" | "initContainers")
                    && let Some(containers) = member.as_array()
                {
                    let image = |one: &Value| one.get("image").and_then(Value::as_str).map(str::to_owned);
                    images.extend(containers.iter().filter_map(image));
                }
                collect_images(member, images);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_images(item, images);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::needs::Supply;
    use crate::plugins::PluginServer;
    use crate::{MemoryTree, plan::RefSource};

    fn files() -> MemoryTree {
        MemoryTree::from_files([
            ("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
            ("chart/values.yaml", "image: {tag: v1}\nlarge: 1000000\nnone: null\nempty: {}\nlist: [a, {b: true}]\n"),
            ("chart/env/Prod-Values.YML", "image: {tag: v2}\n"),
            ("chart/env/other.yaml", "x: 1\n"),
            ("overlay/kustomization.yaml", "resources: [a.yaml]\n"),
            (
                "overlay/a.yaml",
                "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {initContainers: [{name: i, image: z}], containers: [{name: a, image: nginx}, {name: b, image: nginx}]}\n",
            ),
            ("plain/a.yaml", "kind: A\napiVersion: v1\n"),
        ])
        .unwrap()
    }

    fn request(source: Value) -> RenderRequest {
        RenderRequest { source: serde_json::from_value(source).unwrap(), ..RenderRequest::default() }
    }

    fn run(request: &RenderRequest, supplies: &Supplies) -> Result<Outcome<Details>, RenderError> {
        let tree = files();
        details(request, &Inputs { supplies, ..Inputs::of(&tree) }, &Budget::default())
    }

    fn done(source: Value) -> Details {
        run(&request(source), &Supplies::none()).unwrap().or_offline().unwrap()
    }

    #[test]
    fn rnd_153_values_and_value_files_of_a_chart() {
        let source = json!({"repoURL": "r", "path": "chart", "helm": {
            "valueFiles": ["env/Prod-Values.YML", "missing.yaml"],
            "fileParameters": [{"name": "f", "path": "x"}]}});
        let Details::Helm(found) = done(source) else { panic!("a chart") };
        assert_eq!(found.value_files, ["env/Prod-Values.YML", "values.yaml"]);
        assert!(found.values.starts_with("image: {tag: v1}"));
        let shown: Vec<_> = found
            .parameters
            .iter()
            .map(|one| (one.name.as_str(), one.value.as_str(), one.plain.as_str()))
            .collect();
        let expected = [
            ("image.tag", "v2", "v2"),
            ("large", "1e+06", "1000000"),
            ("list[0]", "a", "a"),
            ("list[1].b", "true", "true"),
            ("none", "<nil>", "<nil>"),
        ];
        assert_eq!(shown, expected);
        assert_eq!(found.file_parameters[0].name, "f");
    }

    #[test]
    fn rnd_153_value_files_of_other_sources_are_brought() {
        let mut request =
            request(json!({"repoURL": "r", "path": "chart", "helm": {"valueFiles": ["$v/x.yaml"]}}));
        request.context.refs = Some(Arc::from([RefSource { name: "v".to_owned(), is_chart: false }]));
        let Outcome::Needs(needs) = run(&request, &Supplies::none()).unwrap() else {
            panic!("the other source")
        };
        let other = MemoryTree::from_files([("x.yaml", "image: {tag: v3}\n")]).unwrap();
        let mut supplies = Supplies::default();
        supplies.add(needs[0].clone(), Supply::tree(Arc::new(other)));
        let Outcome::Done(Details::Helm(found)) = run(&request, &supplies).unwrap() else {
            panic!("a chart")
        };
        assert_eq!(found.parameters[0].value, "v3");
    }

    #[test]
    fn rnd_90_images_of_an_overlay_and_nothing_of_a_directory() {
        let found = done(json!({"repoURL": "r", "path": "overlay", "kustomize": {"images": ["z=y:1"]}}));
        let images = ["nginx", "nginx", "y:1"].map(str::to_owned).to_vec();
        assert_eq!(found, Details::Kustomize { images });
        assert_eq!(done(json!({"repoURL": "r", "path": "plain"})), Details::Directory);
        let error = run(&request(json!({"repoURL": "r", "path": "none"})), &Supplies::none()).unwrap_err();
        assert_eq!(error.reason, Reason::PathNotFound);
    }

    #[test]
    fn rnd_136_announcements_of_a_plugin() {
        let mut asked = request(json!({"repoURL": "r", "path": "plain"}));
        asked.context.plugins.servers =
            Arc::from([PluginServer { name: "p".to_owned(), identity: String::new() }]);
        let Outcome::Needs(needs) = run(&asked, &Supplies::none()).unwrap() else { panic!("the plugin") };
        let answered = |supply| {
            let mut supplies = Supplies::default();
            supplies.add(needs[0].clone(), supply);
            run(&asked, &supplies).unwrap().or_offline().unwrap()
        };
        let announcements = vec![json!({"name": "a"})];
        assert_eq!(
            answered(Supply::bytes(Value::from(announcements.clone()).to_string().into())),
            Details::Plugin { announcements }
        );
        assert_eq!(answered(Supply::absent("none".to_owned())), Details::Directory);
    }
}
