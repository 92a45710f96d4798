//! Requests about applications, as types.

use serde::Deserialize;
use serde_json::Value;
use tiphys_api::application::{Info, RetryStrategy, SyncResource, SyncStrategy};

/// What names one application.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) app_namespace: String,
    pub(super) project: String,
}

/// `ApplicationQuery`, with what lists of ours can do beside it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Query {
    pub(super) name: String,
    pub(super) refresh: String,
    pub(super) projects: Vec<String>,
    pub(super) resource_version: String,
    pub(super) selector: String,
    pub(super) repo: String,
    pub(super) app_namespace: String,
    pub(super) project: Vec<String>,
    pub(super) limit: Option<i64>,
    pub(super) r#continue: String,
    pub(super) sort: String,
    pub(super) order: String,
    pub(super) search: String,
    pub(super) filter: std::collections::BTreeMap<String, String>,
}

impl Query {
    /// The projects that are meant: those of the older field where it is set (API-119).
    pub(super) fn projects(&self) -> &[String] {
        if self.project.is_empty() { &self.projects } else { &self.project }
    }

    /// The first field that lists do nothing with.
    pub(super) fn unused_by_lists(&self) -> Option<&'static str> {
        first([("refresh", !self.refresh.is_empty())].into_iter())
    }

    /// The same of watches, which have no pages.
    pub(super) fn unused_by_watches(&self) -> Option<&'static str> {
        first([("refresh", !self.refresh.is_empty())].into_iter().chain(self.pages()))
    }

    /// The same where one is asked for.
    pub(super) fn unused_by_one(&self) -> Option<&'static str> {
        let fields = [
            ("selector", !self.selector.is_empty()),
            ("repo", !self.repo.is_empty()),
            ("search", !self.search.is_empty()),
            ("filter", !self.filter.is_empty()),
        ];
        first(fields.into_iter().chain(self.pages()))
    }

    fn pages(&self) -> [(&'static str, bool); 4] {
        [
            ("limit", self.limit.is_some()),
            ("continue", !self.r#continue.is_empty()),
            ("sort", !self.sort.is_empty()),
            ("order", !self.order.is_empty()),
        ]
    }
}

fn first(fields: impl Iterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    fields.filter(|(_, is_set)| *is_set).map(|(name, _)| name).next()
}

/// `ApplicationCreateRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Create {
    pub(super) application: Option<Value>,
    pub(super) upsert: bool,
    pub(super) validate: Option<bool>,
}

/// `ApplicationUpdateRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Update {
    pub(super) application: Option<Value>,
    pub(super) validate: Option<bool>,
    pub(super) project: String,
}

/// `ApplicationUpdateSpecRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UpdateSpec {
    pub(super) spec: Option<Value>,
    pub(super) validate: Option<bool>,
    #[serde(flatten)]
    pub(super) named: Named,
}

/// `ApplicationPatchRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields of the message")]
pub(super) struct Patch {
    pub(super) patch: String,
    pub(super) patch_type: String,
    #[serde(flatten)]
    pub(super) named: Named,
}

/// `ApplicationDeleteRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Delete {
    pub(super) cascade: Option<bool>,
    pub(super) propagation_policy: String,
    #[serde(flatten)]
    pub(super) named: Named,
}

/// `SyncOptions`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SyncOptions {
    pub(super) items: Vec<String>,
}

/// `ApplicationSyncRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields of the message")]
pub(super) struct Sync {
    pub(super) revision: String,
    pub(super) dry_run: bool,
    pub(super) prune: bool,
    pub(super) strategy: Option<SyncStrategy>,
    pub(super) resources: Vec<SyncResource>,
    pub(super) manifests: Vec<String>,
    pub(super) infos: Vec<Info>,
    pub(super) retry_strategy: Option<RetryStrategy>,
    pub(super) sync_options: Option<SyncOptions>,
    pub(super) source_positions: Vec<i64>,
    pub(super) revisions: Vec<String>,
    #[serde(flatten)]
    pub(super) named: Named,
}

/// `ApplicationRollbackRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Rollback {
    pub(super) id: i64,
    pub(super) dry_run: bool,
    pub(super) prune: bool,
    #[serde(flatten)]
    pub(super) named: Named,
}
