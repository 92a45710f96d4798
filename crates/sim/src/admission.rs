//! What the stock admission of an API server looks up before an object is made.

use serde_json::Value;
use tiphys_object::access;

use crate::resource::Resource;
use crate::state::State;
use crate::status::Status;

/// Priority classes that are there without an object.
const STOCK_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Refuses a Pod whose account or priority class is not there.
pub(crate) fn check(state: &mut State, resource: &Resource, object: &Value) -> Result<(), Status> {
    if (resource.group.as_str(), resource.plural.as_str()) != ("", "pods") {
        return Ok(());
    }
    let name = access::name(object);
    let namespace = access::namespace(object);
    let refuse = |why: String| {
        Err(Status::new(403, "Forbidden", format!("pods {name:?} is forbidden: {why}"))
            .about(name, "", "pods"))
    };
    let class = access::text_at(object, &["spec", "priorityClassName"]);
    if !class.is_empty() && !STOCK_CLASSES.contains(&class) {
        let key = state.builtin_key("scheduling.k8s.io", "priorityclasses", "", class);
        if state.store.get(&key).is_none() {
            return refuse(format!("no PriorityClass with name {class} was found"));
        }
    }
    let account = access::text_at(object, &["spec", "serviceAccountName"]);
    // The default one comes a moment after its namespace: no reason to make anybody wait.
    if !account.is_empty() && account != "default" {
        let key = state.builtin_key("", "serviceaccounts", namespace, account);
        if state.store.get(&key).is_none() {
            return refuse(format!(
                "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
            ));
        }
    }
    Ok(())
}
