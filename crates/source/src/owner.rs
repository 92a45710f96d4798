//! On whose behalf servers and programs are asked (INV-16).
//!
//! What is asked at the same time has bounds for all ([`crate::Turns`]), and each owner has a part of them: a project, or
//! a caller of the API. The owner goes along with the task, because most of what is asked is found out on the way:
//! submodules, charts of charts, signatures, tokens.

use std::sync::Arc;

tokio::task_local! {
    static OWNER: Arc<str>;
}

/// Does work on behalf of an owner. Inner owners count where they are nested.
pub async fn on_behalf_of<T>(owner: &str, work: impl Future<Output = T>) -> T {
    OWNER.scope(owner.into(), work).await
}

/// The owner of this task; all that have none share one.
pub(crate) fn owner() -> Arc<str> {
    OWNER.try_with(Arc::clone).unwrap_or_else(|_none| Arc::from(""))
}
