//! Whether the API server takes fields of a set away (ASET-261, ASET-286).

use tiphys_api::codes::SetReason;
use tiphys_appset::generate::Failure;
use tiphys_appset::lost::{missing_fields, refusal as refused};
use tiphys_cluster::{Target, error_chain};

use super::Sets;
use super::record::SetContext;

/// Fields that the served definition drops; none where there is no definition.
///
/// # Errors
/// When the definition cannot be read.
async fn pruned(sets: &Sets) -> Result<Vec<&'static str>, String> {
    let definition = Target::new(
        tiphys_object::Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        "",
        "applicationsets.argoproj.io",
    );
    let read = sets.shared.home.get(&definition).await.map_err(|error| error_chain(&error))?;
    let value = read.map(|object| object.to_value()).transpose().map_err(|error| error.to_string())?;
    Ok(value.map(|definition| tiphys_api::crd::pruned_set_fields(&definition)).unwrap_or_default())
}

/// Why a set is not worked on: it was applied with fields that the API server dropped. A set that lost its project
/// would reach everything. The definition is only read for sets that may have lost something.
pub(super) async fn refusal(cx: &SetContext<'_>) -> Option<Failure> {
    let missing = missing_fields(&cx.set);
    if missing.is_empty() {
        return None;
    }
    match pruned(cx.sets).await {
        Ok(pruned) => {
            let lost: Vec<&str> = missing.into_iter().filter(|field| pruned.contains(field)).collect();
            (!lost.is_empty()).then(|| refused(&lost))
        }
        Err(error) => {
            let fields = missing.join(" and ");
            let reason = SetReason::ApplicationSetProjectError;
            let text =
                format!("whether {fields} of this set was dropped by the API server is not known: {error}");
            Some(Failure::new(reason, text))
        }
    }
}

/// Says once when the served definition drops fields that this version has.
pub(super) async fn tell(sets: std::sync::Arc<Sets>) {
    match sets.cancel.run_until_cancelled(pruned(&sets)).await {
        Some(Ok(pruned)) if !pruned.is_empty() => tracing::warn!(
            fields = pruned.join(", "),
            "the installed definition of ApplicationSets drops fields that this version has; install it anew with \
             `tiphys install --crds-only | kubectl apply --server-side -f -`"
        ),
        Some(Err(error)) => tracing::debug!(error, "the definition of ApplicationSets cannot be read"),
        Some(Ok(_)) | None => {}
    }
}
