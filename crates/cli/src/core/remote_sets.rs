//! `ApplicationSet`s by way of an API server (API-154..159).

use reqwest::Method;
use serde_json::{Value, json};
use tiphys_object::access;

use super::remote::{Remote, items, object_of, word};
use super::stream::{Kind, Stream};
use super::{AppName, StoredSet};
use crate::failure::Failure;
use crate::server::{Api, is_not_found};

/// The set of an answer.
pub(super) fn stored(value: Value) -> Result<StoredSet, Failure> {
    StoredSet::new(object_of(value, "ApplicationSet")?)
}

/// Where sets are in the API.
const SETS: &str = "applicationsets";

/// A set that may not exist, as the API shows it.
pub(super) async fn find(api: &Api, name: &AppName) -> Result<Option<Value>, Failure> {
    let query = [("appsetNamespace", &*name.namespace)];
    match api.call(Method::GET, &[SETS, &name.name], (&query, None)).await {
        Ok(value) => Ok(Some(value)),
        Err(failure) if is_not_found(&failure) => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl Remote {
    /// Reads a set that may not exist.
    pub(super) async fn find_set(&self, name: &AppName) -> Result<Option<StoredSet>, Failure> {
        find(&self.api, name).await?.map(stored).transpose()
    }

    /// Reads the sets that may be seen; of all namespaces when it is empty.
    pub(super) async fn application_sets(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<StoredSet>, Failure> {
        let query = [("appsetNamespace", namespace), ("selector", selector)];
        let mut answer = self.api.call(Method::GET, &[SETS], (&query, None)).await?;
        items(&mut answer, "items").into_iter().map(stored).collect()
    }

    /// Stores a new set, or changes the one of its name (API-156); a dry run shows its applications in its status.
    /// What the server says besides.
    pub(crate) async fn create_set(
        &self,
        desired: &Value,
        (is_upsert, is_dry): (bool, bool),
    ) -> Result<(StoredSet, Vec<String>), Failure> {
        let query = [("upsert", word(is_upsert)), ("dryRun", word(is_dry))];
        let answer = self.api.call(Method::POST, &[SETS], (&query, Some(desired))).await?;
        Ok((stored(answer)?, self.api.warnings()))
    }

    /// The applications that a set would make (API-157).
    pub(crate) async fn generate_set(
        &self,
        desired: &Value,
    ) -> Result<Vec<tiphys_api::Application>, Failure> {
        let body = json!({"applicationSet": desired});
        let mut answer = self.api.call(Method::POST, &[SETS, "generate"], (&[], Some(&body))).await?;
        let read = |value: Value| {
            serde_json::from_value(value).map_err(|error| {
                Failure::status("Internal", format!("the server sent no application: {error}"))
            })
        };
        items(&mut answer, "applications").into_iter().map(read).collect()
    }

    /// Deletes a set (API-158); the uid that it had.
    pub(super) async fn delete_set(&self, name: &AppName) -> Result<String, Failure> {
        let query = [("appsetNamespace", &*name.namespace)];
        let answer = self.api.call(Method::DELETE, &[SETS, &name.name], (&query, None)).await?;
        Ok(access::text_at(&answer, &["applicationset", "metadata", "uid"]).to_owned())
    }

    /// Follows a set.
    pub(super) fn follow_set(&self, name: &AppName) -> Stream {
        Stream::new(&self.api, Kind::ApplicationSet, name)
    }
}
