//! `--resource GROUP:KIND:[NAMESPACE/]NAME` (CLI-512).

use tiphys_api::Application;
use tiphys_api::application::SyncResource;
use tiphys_go::glob::Glob;

use crate::failure::Failure;

/// One filter: globs on the parts of a resource's identity.
#[derive(Clone, Debug)]
pub(crate) struct ResourceFilter {
    excludes: bool,
    group: Glob,
    kind: Glob,
    /// `None` leaves the namespace open.
    namespace: Option<Glob>,
    name: Glob,
}

impl ResourceFilter {
    /// Reads one flag.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let bad =
            || Failure::generic(format!("resource should have GROUP:KIND:NAME, but instead got: {text}"));
        let (excludes, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let fields: Vec<&str> = rest.split(':').collect();
        let [group, kind, name] = fields.as_slice() else { return Err(bad()) };
        let (namespace, name) = match name.split('/').collect::<Vec<_>>().as_slice() {
            [name] => (None, *name),
            [namespace, name] => (Some(*namespace), *name),
            _ => {
                return Err(Failure::generic(format!(
                    "resource with namespace should have GROUP:KIND:NAMESPACE/NAME, but instead got: {text}"
                )));
            }
        };
        let glob = |pattern: &str| {
            Glob::new(pattern, &[]).map_err(|error| Failure::generic(format!("{text}: {error}")))
        };
        Ok(Self {
            excludes,
            group: glob(group)?,
            kind: glob(kind)?,
            namespace: namespace.map(glob).transpose()?,
            name: glob(name)?,
        })
    }

    /// Reads all flags.
    pub(crate) fn parse_all(texts: &[String]) -> Result<Vec<Self>, Failure> {
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    fn matches(&self, group: &str, kind: &str, namespace: &str, name: &str) -> bool {
        self.group.is_match(group)
            && self.kind.is_match(kind)
            && self.name.is_match(name)
            && self.namespace.as_ref().is_none_or(|glob| glob.is_match(namespace))
    }

    /// Whether the filters together include a resource: excluded by none, and matched by one where any includes.
    pub(crate) fn includes(filters: &[Self], group: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let matches = |filter: &&Self| filter.matches(group, kind, namespace, name);
        if filters.iter().filter(|filter| filter.excludes).any(|filter| matches(&filter)) {
            return false;
        }
        let mut including = filters.iter().filter(|filter| !filter.excludes).peekable();
        including.peek().is_none() || including.any(|filter| matches(&filter))
    }
}

/// The resources of an application that the filters include, as a sync operation lists them.
pub(crate) fn selected(app: &Application, filters: &[ResourceFilter]) -> Vec<SyncResource> {
    app.status
        .resources
        .iter()
        .filter(|r| ResourceFilter::includes(filters, &r.group, &r.kind, &r.namespace, &r.name))
        .map(|r| SyncResource {
            group: r.group.clone(),
            kind: r.kind.clone(),
            namespace: r.namespace.clone(),
            name: r.name.clone(),
            ..SyncResource::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(filters: &[&str], resource: [&str; 4]) -> bool {
        let filters: Vec<_> = filters.iter().map(|text| ResourceFilter::parse(text).unwrap()).collect();
        let [group, kind, namespace, name] = resource;
        ResourceFilter::includes(&filters, group, kind, namespace, name)
    }

    #[test]
    fn cli_512_filters_select_by_group_kind_and_name() {
        let service = ["", "Service", "n", "web"];
        assert!(includes(&[":Service:web"], service));
        assert!(includes(&[":Service:n/web"], service));
        assert!(!includes(&[":Service:other/web"], service));
        assert!(includes(&["*:*:w*"], service));
        assert!(!includes(&["!*:Service:*"], service));
        assert!(includes(&["!apps:*:*"], service));
        assert!(!includes(&["!*:Service:*", "*:*:*"], service));
    }

    #[test]
    fn cli_512_malformed_filters_are_refused() {
        let failure = ResourceFilter::parse("nonsense").unwrap_err();
        assert_eq!(failure.message, "resource should have GROUP:KIND:NAME, but instead got: nonsense");
        assert_eq!(failure.code, 20);
        assert_eq!(
            ResourceFilter::parse("a:b:c/d/e").unwrap_err().message,
            "resource with namespace should have GROUP:KIND:NAMESPACE/NAME, but instead got: a:b:c/d/e"
        );
    }
}
