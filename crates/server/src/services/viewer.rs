//! Who looks at a page that shows applications to those alone who may see them (API-219).

use std::net::SocketAddr;

use http::request::Parts as Head;
use tiphys_policy::rbac::Resource;

use super::Services;
use super::admit::{admit, as_call};
use super::context::Context;
use super::standing::Owned;
use crate::catalog::Entry;
use crate::identity::Identity;

/// The call that looking is closest to: records name the method of whoever did something.
const LIKE: &str = "/application.ApplicationService/Get";

/// Somebody who looks, known as a caller of the API is.
pub(crate) struct Viewer(Option<Owned>);

impl Services {
    /// Finds out who looks, by their cookie or their token. Whoever cannot be known sees nothing.
    pub(crate) async fn viewer(&self, head: &Head, peer: SocketAddr) -> Viewer {
        let Some(call) = as_call(head, peer, LIKE, Identity::Anonymous) else { return Viewer(None) };
        let admitted = admit(&self.parts, call.head).await;
        Viewer(admitted.ok().map(|call| Context::new(&self.parts, call).owned()))
    }
}

impl Viewer {
    /// Asks with the question whether they may see an application.
    pub(crate) fn asking<T>(&self, ask: impl FnOnce(&dyn Fn(&Entry) -> bool) -> T) -> T {
        let Some(owned) = &self.0 else { return ask(&|_| false) };
        owned.within(|context| {
            let may = context.caller().filter(Resource::Applications.as_str(), "get");
            ask(&|entry| may.may(&entry.object))
        })
    }
}
