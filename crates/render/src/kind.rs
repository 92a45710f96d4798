//! Which type a source has (RND-61..64).

use tiphys_api::application::ApplicationSource;

use crate::{EnabledTools, EntryKind, Reason, RenderError, SourceType, Tree, TreePath};

/// Type of a source: the configured one, else what the names in the directory say.
///
/// Plugins with discovery are not asked here; a source that names a plugin has type Plugin.
///
/// # Errors
/// When more than one type is configured, or the directory cannot be read.
pub fn source_type(
    source: &ApplicationSource,
    tree: &dyn Tree,
    directory: &TreePath,
    enabled: EnabledTools,
) -> Result<SourceType, RenderError> {
    if let Some(explicit) = explicit_type(source)? {
        return Ok(if is_enabled(explicit, enabled) { explicit } else { SourceType::Directory });
    }
    let names = tree.list(directory)?;
    let is_file = |kind: &EntryKind| matches!(kind, EntryKind::File { .. } | EntryKind::Symlink { .. });
    let files = names.iter().filter(|(_, entry)| is_file(&entry.kind)).map(|(name, _)| name.as_str());
    Ok(type_of_names(files, enabled))
}

/// The configured type; several are an error (RND-61). A chart is Helm whatever else is said (RND-62).
pub fn explicit_type(source: &ApplicationSource) -> Result<Option<SourceType>, RenderError> {
    let present = [
        (source.kustomize.is_some(), SourceType::Kustomize),
        (source.helm.is_some() || !source.chart.is_empty(), SourceType::Helm),
        (source.directory.is_some(), SourceType::Directory),
        (source.plugin.is_some(), SourceType::Plugin),
    ];
    let types: Vec<SourceType> = present.into_iter().filter(|(set, _)| *set).map(|(_, kind)| kind).collect();
    if types.len() > 1 {
        let names: Vec<&str> = types.iter().map(|kind| kind.as_str()).collect();
        let text = format!("multiple application sources defined: {}", names.join(","));
        return Err(RenderError::new(Reason::MultipleSourceTypes, text));
    }
    Ok(types.first().copied())
}

/// The type that file names say, in lexical order; the last hit wins (RND-64).
pub fn type_of_names<'a>(names: impl IntoIterator<Item = &'a str>, enabled: EnabledTools) -> SourceType {
    let mut found = SourceType::Directory;
    for name in names {
        let hit = match name {
            "kustomization.yaml" | "kustomization.yml" | "Kustomization" => SourceType::Kustomize,
            _ if name.ends_with("Chart.yaml") => SourceType::Helm,
            _ => continue,
        };
        if is_enabled(hit, enabled) {
            found = hit;
        }
    }
    found
}

fn is_enabled(kind: SourceType, enabled: EnabledTools) -> bool {
    match kind {
        SourceType::Helm => enabled.helm,
        SourceType::Kustomize => enabled.kustomize,
        SourceType::Directory | SourceType::Plugin => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(value: serde_json::Value) -> ApplicationSource {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn rnd_61_several_types_are_an_error() {
        let both = source(json!({"directory": {}, "kustomize": {}, "plugin": {}}));
        let text = explicit_type(&both).unwrap_err().to_string();
        assert_eq!(text, "multiple application sources defined: Kustomize,Directory,Plugin");
        assert_eq!(explicit_type(&source(json!({"helm": {}}))), Ok(Some(SourceType::Helm)));
        assert_eq!(explicit_type(&source(json!({"helm": null}))), Ok(None));
    }

    #[test]
    fn rnd_62_a_disabled_type_is_a_directory() {
        let off = EnabledTools { helm: false, ..EnabledTools::default() };
        let tree = crate::MemoryTree::default();
        let root = TreePath::root();
        assert_eq!(source_type(&source(json!({"helm": {}})), &tree, &root, off), Ok(SourceType::Directory));
        assert_eq!(source_type(&source(json!({"chart": "c"})), &tree, &root, off), Ok(SourceType::Directory));
    }

    #[test]
    fn rnd_64_the_last_name_wins() {
        let all = EnabledTools::default();
        assert_eq!(type_of_names(["Chart.yaml", "kustomization.yml"], all), SourceType::Kustomize);
        assert_eq!(type_of_names(["Kustomization", "my-Chart.yaml"], all), SourceType::Helm);
        assert_eq!(type_of_names(["chart.yaml", "x-kustomization.yaml"], all), SourceType::Directory);
        let off = EnabledTools { kustomize: false, ..all };
        assert_eq!(type_of_names(["Chart.yaml", "kustomization.yml"], off), SourceType::Helm);
    }
}
