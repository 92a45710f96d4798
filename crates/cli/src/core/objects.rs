//! Objects of the installation, whole: for those who copy them, restore them and look at all of a kind.

use std::sync::Arc;

use tiphys_cluster::{ApiError, Served, Writer};
use tiphys_object::{Gvk, Object};

use super::Core;
use crate::failure::Failure;

impl Core {
    /// Changes objects with the rights of the kubeconfig.
    pub(crate) fn writer(&self) -> Result<&Writer, Failure> {
        Ok(&self.kubernetes()?.writer)
    }

    /// Every object of a kind in a namespace (in all of them when empty), by namespace and name. A kind that the
    /// cluster does not serve has none.
    ///
    /// # Errors
    /// When one of them cannot be read: whoever asks for all of them must not take it for one that is not there.
    pub(crate) async fn every(&self, gvk: &Gvk, namespace: &str) -> Result<Vec<Arc<Object>>, Failure> {
        self.every_selected(gvk, namespace, "").await
    }

    /// The same of those that a label selector selects.
    pub(crate) async fn every_selected(
        &self,
        gvk: &Gvk,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        match self.kubernetes()?.discovery.kinds().await?.served(gvk) {
            Served::Yes(_) => {}
            Served::No => return Ok(Vec::new()),
            Served::Unknown => return Err(ApiError::NotServed(gvk.clone()).into()),
        }
        let mut found = self.list(gvk, namespace, selector).await?;
        if let Some(unread) = self.left_out().into_iter().next() {
            return Err(Failure::generic(unread));
        }
        found.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        Ok(found)
    }
}
