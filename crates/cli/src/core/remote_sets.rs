//! `ApplicationSet`s by way of an API server (API-154..159).

use reqwest::Method;
use serde_json::{Value, json};
use tiphys_api::Application;
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

/// What a server tells of a set.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) applications: Vec<Application>,
    pub(crate) warnings: Vec<String>,
    /// Applications that would not be written, and why; `None` where the server does not say.
    pub(crate) refusals: Option<Vec<(String, String)>>,
    pub(crate) preview: Option<Value>,
}

impl Told {
    fn of(mut answer: Value) -> Result<Self, Failure> {
        let read = |value: Value| {
            serde_json::from_value(value).map_err(|error| {
                Failure::status("Internal", format!("the server sent no application: {error}"))
            })
        };
        let applications =
            items(&mut answer, "applications").into_iter().map(read).collect::<Result<_, _>>()?;
        let refusals = items(&mut answer, "refusals");
        let pair = |one: &Value| {
            (access::text(one, "application").to_owned(), access::text(one, "message").to_owned())
        };
        let is_checked = answer.get("isChecked") == Some(&Value::Bool(true));
        Ok(Self {
            applications,
            warnings: items(&mut answer, "warnings")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            refusals: is_checked.then(|| refusals.iter().map(pair).collect()),
            preview: answer.get_mut("preview").map(Value::take).filter(Value::is_object),
        })
    }

    /// What would be done.
    pub(crate) fn changes(&self) -> Result<&Value, Failure> {
        self.preview.as_ref().ok_or_else(|| unknown("changes"))
    }
}

/// A question that a server does not know: an Argo CD has no answer to it.
fn unknown(what: &str) -> Failure {
    Failure::fatal(format!("this server does not tell {what} of an ApplicationSet")).hint(
        "ask a Tiphys server, or Kubernetes with `--core`; without a cluster there is `generate --offline`",
    )
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

    /// What a set would make (API-157), and what becomes of Applications that exist, where `more` asks for that.
    pub(crate) async fn generate_set(&self, desired: &Value, more: Value) -> Result<Told, Failure> {
        let answer = self.ask_generate(desired, more).await?;
        Told::of(answer)
    }

    async fn ask_generate(&self, desired: &Value, more: Value) -> Result<Value, Failure> {
        let mut body = json!({"applicationSet": desired});
        if let Value::Object(more) = more {
            access::ensure_object(&mut body).extend(more);
        }
        self.api.call(Method::POST, &[SETS, "generate"], (&[], Some(&body))).await
    }

    /// The sets of parameters of a set, one JSON document each (ASET-304).
    pub(crate) async fn set_parameters(&self, desired: &Value) -> Result<Vec<String>, Failure> {
        let mut answer = self.ask_generate(desired, json!({"outputParameters": true})).await?;
        // A server that does not know the question generates.
        if !items(&mut answer, "applications").is_empty() {
            return Err(unknown("parameters"));
        }
        let found = items(&mut answer, "parameters");
        Ok(found.iter().filter_map(Value::as_str).map(str::to_owned).collect())
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
