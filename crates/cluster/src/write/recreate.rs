//! Deleting an object to make it anew (ENG-175, ENG-177): the only write that can lose something.
//!
//! So the server is asked first whether it would take the new object, and what was deleted comes back when it is
//! refused after all.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tiphys_object::{Object, access};

use super::apply::{applied, finished, write_path};
use super::{
    Applied, ApplyOptions, DeleteOptions, JSON, Outcome, Permit, Propagation, Target, Writer, object_of,
};
use crate::error::ApiError;
use crate::kinds::ApiResource;

/// Looks for the end of a deletion before creating again.
const GONE_POLL: Duration = Duration::from_millis(100);
/// Time a deleted object gets to go before it is created again.
const GONE_TIMEOUT: Duration = Duration::from_mins(1);
/// Attempts at a creation after a deletion, while the server cannot be reached.
const CREATE_ATTEMPTS_MAX: u32 = 3;
/// Time between two of them.
const CREATE_PAUSE: Duration = Duration::from_secs(1);

impl Writer {
    /// Deletes the live object, waits until it is gone, and creates the desired one. Nothing is deleted for a
    /// manifest that the server says it would refuse, and what was deleted comes back when it refuses it later.
    pub(super) async fn recreate(
        &self,
        permit: &Permit,
        resource: &ApiResource,
        target: &Target,
        desired: &Value,
        options: &ApplyOptions,
    ) -> Result<Applied, ApiError> {
        if options.is_dry_run {
            return Ok(applied(resource, target, Outcome::Replaced, &[], None));
        }
        let mut desired = desired.clone();
        // Of the object that was there.
        for member in ["resourceVersion", "uid"] {
            access::metadata_mut(&mut desired).remove(member);
        }
        let path = write_path(&resource.collection_path(&target.namespace)?, options);
        self.check_creation(permit, &path, &desired).await?;
        let live = self.get(target).await?;
        if let Some(live) = &live {
            self.delete_and_wait(permit, target, live).await?;
        }
        match self.create_patiently(permit, &path, &desired).await {
            Ok(answer) => finished(resource, target, Outcome::Replaced, &answer),
            // Somebody else made it meanwhile: nothing is lost.
            Err(error) if error.is_already_exists() => Err(error),
            Err(error) => match live {
                Some(live) => Err(self.bring_back(permit, resource, target, &live, error).await),
                None => Err(error),
            },
        }
    }

    /// Asks the server to create the object without doing it. That the name is taken is said after everything else
    /// was found to be right.
    async fn check_creation(&self, permit: &Permit, path: &str, desired: &Value) -> Result<(), ApiError> {
        let dry = format!("{path}&dryRun=All");
        match self.send(permit, "create", Method::POST, &dry, desired, JSON).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() => Ok(()),
            // Webhooks with side effects cannot be asked.
            Err(error) if error.code() == 400 && error.to_string().contains("does not support dry run") => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn delete_and_wait(&self, permit: &Permit, target: &Target, live: &Object) -> Result<(), ApiError> {
        let deletion = DeleteOptions {
            propagation: Propagation::Background,
            uid: Some(live.metadata().uid.clone()).filter(|uid| !uid.is_empty()),
            ..DeleteOptions::default()
        };
        self.delete(permit, target, &deletion).await?;
        let uid = &live.metadata().uid;
        let gone = async {
            // One of the same name that somebody else made meanwhile is another one.
            while self.get(target).await?.is_some_and(|now| now.metadata().uid == *uid) {
                tokio::time::sleep(GONE_POLL).await;
            }
            Ok::<(), ApiError>(())
        };
        tokio::time::timeout(GONE_TIMEOUT, gone)
            .await
            .map_err(|_elapsed| ApiError::Timeout { what: "wait for the deletion", after: GONE_TIMEOUT })?
    }

    /// Creates an object; a server that cannot be reached for a moment is asked again, because the old one is gone.
    async fn create_patiently(
        &self,
        permit: &Permit,
        path: &str,
        object: &Value,
    ) -> Result<crate::connection::Answer, ApiError> {
        let mut attempt = 1;
        loop {
            match self.send(permit, "create", Method::POST, path, object, JSON).await {
                Err(error) if error.is_transient() && attempt < CREATE_ATTEMPTS_MAX => {
                    attempt += 1;
                    tokio::time::sleep(CREATE_PAUSE).await;
                }
                other => return other,
            }
        }
    }

    /// Creates again what was deleted; the answer is the failure with what became of it.
    async fn bring_back(
        &self,
        permit: &Permit,
        resource: &ApiResource,
        target: &Target,
        live: &Arc<Object>,
        error: ApiError,
    ) -> ApiError {
        let options = ApplyOptions { is_unvalidated: true, ..ApplyOptions::default() };
        let lost = match (resource.collection_path(&target.namespace), live.to_value()) {
            (Ok(path), Ok(value)) => {
                match self.create_patiently(permit, &write_path(&path, &options), &as_created(value)).await {
                    Ok(answer) => object_of(&answer, "create").err(),
                    Err(error) if error.is_already_exists() => None,
                    Err(error) => Some(error),
                }
            }
            (Err(error), _) => Some(error),
            (_, Err(unreadable)) => {
                Some(ApiError::Malformed { what: "read the deleted object", reason: unreadable.to_string() })
            }
        };
        ApiError::NotRecreated { source: Box::new(error), lost: lost.map(|error| error.to_string()) }
    }
}

/// A live object as it can be created again: without what only the server writes.
fn as_created(mut live: Value) -> Value {
    if let Some(members) = live.as_object_mut() {
        members.remove("status");
    }
    let metadata = access::metadata_mut(&mut live);
    for member in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(member);
    }
    if access::text(&live, "kind") == "Job" {
        without_job_marks(&mut live);
    }
    live
}

/// The server refuses the selector and labels that it gave a Job itself.
fn without_job_marks(job: &mut Value) {
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("manualSelector").and_then(Value::as_bool) == Some(true) {
        return;
    }
    spec.remove("selector");
    let forget = |labels: Option<&mut Value>| {
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            labels.remove("controller-uid");
            labels.remove("batch.kubernetes.io/controller-uid");
        }
    };
    let template = spec.get_mut("template").and_then(|template| template.get_mut("metadata"));
    forget(template.and_then(|metadata| metadata.get_mut("labels")));
    forget(job.get_mut("metadata").and_then(|metadata| metadata.get_mut("labels")));
}

#[cfg(test)]
mod tests;
