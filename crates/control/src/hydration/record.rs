//! The writer of what a status says about hydration. A round over the application may write the rest of it at the same
//! time: both send what differs from what they read, and neither touches what is the other's.

use tiphys_api::Application;
use tiphys_lifecycle::status_patch::{self, PatchOptions};

use crate::app_key::AppKey;
use crate::applications::application_written;
use crate::context::Context;
use crate::reconcile::{read_stored, send_followed};

/// Writes that begin anew because somebody else changed the application meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// Changes an application as it is stored. One that is gone needs no change.
///
/// # Errors
/// When it cannot be written.
pub(super) async fn write(
    context: &Context,
    key: &AppKey,
    change: impl Fn(&mut Application),
) -> Result<(), String> {
    let options = PatchOptions { requests: true, ..PatchOptions::default() };
    for _ in 0..ATTEMPTS_MAX {
        let Some(entry) = context.store.get(key) else { return Ok(()) };
        let old = entry.parse().map_err(|error| error.to_string())?;
        let mut new = old.clone();
        change(&mut new);
        status_patch::complete(&old, &mut new, &context.namespace, context.clock.now());
        let version = entry.object.metadata().resource_version.clone();
        let Some(patch) = status_patch::patch(&version, &old, &new, options) else { return Ok(()) };
        context.metrics.worked("application-patch");
        match send_followed(context, key, &patch).await {
            Ok(stored) => {
                application_written(context, stored);
                return Ok(());
            }
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => match read_stored(context, key).await? {
                Some(latest) => application_written(context, latest),
                None => return Ok(()),
            },
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("others change the application again and again".to_owned())
}
