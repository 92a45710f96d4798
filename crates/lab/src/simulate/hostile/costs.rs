//! Applications of the tenant whose charts and values cost processor time, memory and bytes of a status.
//!
//! They may fail in every way. The installation that they are in has small bounds, so that a run that plays them is short:
//! what is bounded by steps and bytes ends after as many of them, whatever the bound is.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_source::MemoryRepositories;

use super::{OWN, PROJECT};
use crate::simulate::chance::Chance;
use crate::simulate::manifests::Files;
use crate::simulate::model::{CONTROL_PLANE, MAIN};
use crate::simulate::users::path_of;
use crate::simulate::wire::Wires;
use crate::simulate::world::SERVER;

/// Settings of an installation with small bounds.
pub(super) const SETTINGS: [(&str, &str); 2] =
    [("tiphys.renderer.steps", "1000000"), ("tiphys.renderer.memory.mb", "16")];
/// The Application.
const NAME: &str = "hostile-cost";
/// Bytes of inline values: a status with two of them does not fit into an object any more.
const VALUES_BYTES: u64 = 700_000;

/// Templates that compute, or hold, far more than they write.
const TEMPLATES: [&str; 6] = [
    "{{ range until 10000 }}{{ htpasswd \"a\" \"b\" | len }}{{ end }}",
    "{{ range until 1000 }}{{ derivePassword 1 \"long\" (toString .) \"u\" \"s\" | len }}{{ end }}",
    "{{ range until 100000 }}{{ regexMatch (printf \"(a|b)*%d{200}\" .) \"x\" }}{{ end }}",
    "{{ $s := repeat 100000 \"x\" }}{{ range until 100000 }}{{ sha256sum $s | len }}{{ end }}",
    "{{ $all := list }}{{ range until 10000 }}{{ $all = append $all (repeat 100000 \"x\") }}{{ end }}",
    "{{ $d := dict \"k\" (repeat 100000 \"x\") }}{{ $all := list }}{{ range until 10000 }}\
     {{ $all = append $all (deepCopy $d) }}{{ end }}",
];

/// The Application and what it is about now.
pub(super) struct Costs {
    wires: Arc<Wires>,
    servers: MemoryRepositories,
    chance: Chance,
}

impl Costs {
    pub(super) fn new(wires: &Arc<Wires>, servers: &MemoryRepositories, chance: Chance) -> Self {
        Self { wires: Arc::clone(wires), servers: servers.clone(), chance }
    }

    /// The Application gets another chart, or other values; says what.
    pub(super) fn act(&mut self) -> String {
        if self.chance.permille(700) {
            return String::new();
        }
        let (template, values) = if self.chance.permille(300) {
            ("value: {{ .Values.text | len | quote }}", self.chance.within(VALUES_BYTES / 2, VALUES_BYTES))
        } else {
            (self.chance.pick(&TEMPLATES).copied().unwrap_or_default(), 0)
        };
        self.commit(template);
        let status = self.declare(usize::try_from(values).unwrap_or_default());
        format!("{NAME} computes {template} of {values} bytes: {status}")
    }

    fn commit(&self, template: &str) {
        let head = self.servers.get_ref(OWN, MAIN);
        let files = head.and_then(|head| self.servers.files(OWN, &head));
        let mut files: Files = files.map(|files| (*files).clone()).unwrap_or_default();
        let config = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {NAME}}}\ndata:\n  {}\n",
            if template.starts_with("value:") { template.to_owned() } else { format!("value: '{template}'") }
        );
        let chart = format!("apiVersion: v2\nname: {NAME}\nversion: 1.0.0\n");
        for (path, text) in
            [("Chart.yaml", chart), ("values.yaml", "text: ''\n".to_owned()), ("templates/all.yaml", config)]
        {
            files.insert(format!("{NAME}/{path}"), Bytes::from(text));
        }
        let seconds = i64::try_from(self.wires.now().as_secs()).unwrap_or(0);
        // A repository in memory refuses nothing of this.
        drop(self.servers.commit(OWN, "main", files, seconds));
    }

    fn declare(&self, bytes: usize) -> u16 {
        let mut source = json!({"repoURL": OWN, "path": NAME, "targetRevision": "main"});
        if bytes > 0 {
            source["helm"] = json!({"values": format!("text: {}", "v".repeat(bytes))});
        }
        let spec = json!({
            "project": PROJECT,
            "source": source,
            "destination": {"server": SERVER, "namespace": PROJECT},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        });
        let app = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": NAME, "namespace": CONTROL_PLANE},
            "spec": spec,
        });
        let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/applications");
        match self.wires.direct(Method::POST, &path, super::JSON, &app).0 {
            409 => {
                let patch = json!({"spec": {"source": with_nulls(app["spec"]["source"].clone())}});
                self.wires.direct(Method::PATCH, &path_of(NAME), super::MERGE, &patch).0
            }
            status => status,
        }
    }

    /// Whether the Application has a status at all, where nothing went wrong for long enough: however large its values
    /// are, it says something about them (B11).
    pub(super) fn check(&self) {
        let Some(app) = self.wires.get(&path_of(NAME)) else { return };
        let says = |pointer: &str| app.pointer(pointer).is_some_and(|value| !value.is_null());
        if !says("/status/sync") && !says("/status/conditions") {
            let now = self.wires.now();
            let text = format!("{NAME} has no status");
            self.wires.observer.lock().broken(now, "INV-16", text);
        }
    }
}

/// A source without inline values takes those away that are stored.
fn with_nulls(mut source: Value) -> Value {
    if source.get("helm").is_none() {
        source["helm"] = Value::Null;
    }
    source
}
