//! Secrets and `ConfigMaps` of tests.

use std::collections::BTreeMap;

use futures::future::BoxFuture;

use crate::services::{Referenced, References};

/// Secrets and `ConfigMaps` by namespace and name.
#[derive(Clone, Default)]
pub(crate) struct Objects(pub(crate) BTreeMap<(&'static str, &'static str), Referenced>);

impl Objects {
    /// The same, and one of the control plane's namespace.
    pub(crate) fn with(mut self, name: &'static str, labels: &[(&str, &str)], data: &[(&str, &str)]) -> Self {
        self.0.insert(("argocd", name), referenced(labels, data));
        self
    }
}

impl References for Objects {
    fn secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Referenced>, String>> {
        let mut objects = self.0.iter();
        let found = objects.find(|(key, _)| **key == (namespace, name)).map(|(_, found)| found.clone());
        Box::pin(async move { Ok(found) })
    }

    fn config_map<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Referenced>, String>> {
        self.secret(namespace, name)
    }
}

/// An object with these labels and data.
pub(crate) fn referenced(labels: &[(&str, &str)], data: &[(&str, &str)]) -> Referenced {
    let texts = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    Referenced { labels: texts(labels), data: texts(data) }
}
