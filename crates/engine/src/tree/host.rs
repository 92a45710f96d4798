//! What Pods and nodes say about nodes (ENG-203).

use serde_json::{Map, Value};
use tiphys_object::host::{Amounts, Host};
use tiphys_object::quantity::Quantity;
use tiphys_object::{Gvk, access};

/// Bytes of what is kept of a node to be shown.
const SHOWN_BYTES_MAX: usize = 8 << 10;

/// What an object says about a node, `None` of one that says nothing.
pub fn host(object: &Value) -> Option<Host> {
    let gvk = Gvk::of(object);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => guest(object),
        ("", "Node") => Some(node(object)),
        _ => None,
    }
}

fn guest(pod: &Value) -> Option<Host> {
    let node = access::text_at(pod, &["spec", "nodeName"]);
    let is_running = access::text_at(pod, &["status", "phase"]) == "Running";
    (is_running && !node.is_empty()).then(|| Host::Guest { node: node.into(), asks: asked(pod) })
}

/// What a Pod asks for: its containers and those that stay beside them together, or one that runs before them, whichever is
/// more; and what running it costs.
fn asked(pod: &Value) -> Amounts {
    let requests = |container: &Value| amounts(access::at(container, &["resources", "requests"]));
    let list = |member: &str| {
        let list = access::at(pod, &["spec", member]).and_then(Value::as_array);
        list.map_or(&[][..], Vec::as_slice)
    };
    let mut together = Amounts::default();
    let mut most = Amounts::default();
    for container in list("initContainers") {
        if access::text(container, "restartPolicy") == "Always" {
            together = together.with(requests(container), i64::saturating_add);
            most = most.with(together, i64::max);
        } else {
            most = most.with(together.with(requests(container), i64::saturating_add), i64::max);
        }
    }
    for container in list("containers") {
        together = together.with(requests(container), i64::saturating_add);
    }
    let overhead = amounts(access::at(pod, &["spec", "overhead"]));
    together.with(most, i64::max).with(overhead, i64::saturating_add)
}

fn node(node: &Value) -> Host {
    let mut shown = Map::new();
    if let Some(info) = access::at(node, &["status", "nodeInfo"]) {
        shown.insert("systemInfo".to_owned(), info.clone());
    }
    if let Some(labels) = access::at(node, &["metadata", "labels"]) {
        shown.insert("labels".to_owned(), labels.clone());
    }
    let shown = Some(Value::Object(shown).to_string()).filter(|text| text.len() <= SHOWN_BYTES_MAX);
    Host::Node {
        has: amounts(access::at(node, &["status", "capacity"])),
        shown: shown.unwrap_or_else(|| "{}".to_owned()).into(),
    }
}

fn amounts(resources: Option<&Value>) -> Amounts {
    let amount = |name: &str| {
        let text = resources.map_or("", |resources| access::text(resources, name));
        Quantity::parse(text).ok().and_then(|amount| amount.milli()).unwrap_or(0).max(0)
    };
    Amounts { cpu: amount("cpu"), memory: amount("memory"), storage: amount("storage") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn eng_203_a_pod_asks_for_its_containers_or_for_what_runs_before_them() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
            "spec": {"nodeName": "n1", "overhead": {"cpu": "10m"},
                "containers": [container("100m", "1Ki"), container("0.2", "nonsense"), {}],
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
                    container("100m", "2Ki")]}});
        let asks = Amounts { cpu: 360, memory: 2_048_000, storage: 0 };
        assert_eq!(host(&pod), Some(Host::Guest { node: "n1".into(), asks }));
        pod["status"]["phase"] = "Succeeded".into();
        assert_eq!(host(&pod), None, "it asks for nothing any more");
    }

    #[test]
    fn eng_203_a_node_says_what_it_has() {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"zone": "a"}},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "nodeInfo": {"architecture": "arm64"}}});
        let Some(Host::Node { has, shown }) = host(&node) else { panic!() };
        assert_eq!((has.cpu, has.memory), (4_000, 8_589_934_592_000));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown, json!({"labels": {"zone": "a"}, "systemInfo": {"architecture": "arm64"}}));
        assert_eq!(host(&json!({"apiVersion": "v1", "kind": "ConfigMap"})), None);
    }
}
