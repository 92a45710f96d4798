//! The built-in resources, read from `data/builtin-resources.txt`.

use smol_str::SmolStr;

use super::{Resource, Scale, Scope};

static TEXT: &str = include_str!("../../data/builtin-resources.txt");

const READ: &[&str] = &["get", "list"];
const CREATE: &[&str] = &["create"];
const SINGLE: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// All built-in resources. The text is our own, so a line that does not parse is left out; a test counts them.
pub(super) fn resources() -> Vec<Resource> {
    let mut group_version = ("", "");
    let mut found = Vec::new();
    for line in lines() {
        match line.strip_prefix("  ") {
            Some(line) => found.extend(read(group_version, line)),
            None => group_version = line.split_once('/').unwrap_or(("", line)),
        }
    }
    found
}

/// Where a group stands in discovery; groups of definitions come last.
pub(super) fn group_rank(group: &str) -> usize {
    lines()
        .filter(|line| !line.starts_with(' '))
        .position(|line| line.split_once('/').map_or("", |(group, _)| group) == group)
        .unwrap_or(usize::MAX)
}

fn lines() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter(|line| !line.starts_with('#'))
}

fn read((group, version): (&'static str, &'static str), line: &'static str) -> Option<Resource> {
    let mut words = line.split(' ');
    let (plural, kind, scope) = (words.next()?, words.next()?, words.next()?);
    let mut resource = Resource {
        group: SmolStr::new_static(group),
        version: SmolStr::new_static(version),
        plural: SmolStr::new_static(plural),
        singular: kind.to_ascii_lowercase().into(),
        kind: SmolStr::new_static(kind),
        list_kind: format!("{kind}List").into(),
        scope: if scope == "cluster" { Scope::Cluster } else { Scope::Namespaced },
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: names(ALL.iter().copied()),
        has_status: false,
        scale: None,
        custom: None,
    };
    for word in words {
        match word {
            "status" => resource.has_status = true,
            "scale" => resource.scale = Some(scale()),
            "verbs=read" => resource.verbs = names(READ.iter().copied()),
            "verbs=create" => resource.verbs = names(CREATE.iter().copied()),
            "verbs=single" => resource.verbs = names(SINGLE.iter().copied()),
            _ => match (word.strip_prefix('='), word.strip_prefix('+')) {
                (Some(list), _) => resource.short_names = names(list.split(',')),
                (_, Some(list)) => resource.categories = names(list.split(',')),
                _ => return None,
            },
        }
    }
    Some(resource)
}

fn scale() -> Scale {
    Scale {
        spec_replicas: "spec.replicas".to_owned(),
        status_replicas: "status.replicas".to_owned(),
        selector: Some("spec.selector".to_owned()),
    }
}

fn names(words: impl Iterator<Item = &'static str>) -> Vec<SmolStr> {
    words.map(SmolStr::new_static).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(resources().len(), lines().filter(|line| line.starts_with(' ')).count());
    }
}
