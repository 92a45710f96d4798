//! What runs here (API-183).

use serde_json::{Map, Value, json};

use super::context::Context;
use crate::call::Reply;

pub use tiphys_api::names::COMPATIBLE_VERSION;

/// What was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// The version of the product.
    pub version: String,
    /// The commit.
    pub commit: String,
    /// When.
    pub date: String,
    /// What built it.
    pub compiler: String,
    /// The machine it is for: `linux/amd64`.
    pub platform: String,
    /// Versions of the languages whose manifests are rendered.
    pub helm: String,
    /// Kustomize.
    pub kustomize: String,
    /// Jsonnet.
    pub jsonnet: String,
    /// The version of Kubernetes whose fields are known.
    pub kubernetes: String,
}

/// The version alone for those who are not known; everything where nobody has to be (SEC-33).
pub(super) fn version(context: &Context<'_>) -> Reply {
    let build = &context.parts.build;
    let shown = if build.commit.is_empty() {
        COMPATIBLE_VERSION.to_owned()
    } else {
        let short = build.commit.get(..7).unwrap_or(&build.commit);
        format!("{COMPATIBLE_VERSION}+{short}")
    };
    let is_known = context.claims().is_some()
        || context.is_unchecked()
        || context.world.is_set("users.anonymous.enabled");
    if !is_known {
        return Reply::value(json!({"Version": shown}));
    }
    let members = [
        ("Version", shown),
        ("BuildDate", build.date.clone()),
        ("GitCommit", build.commit.clone()),
        ("GitTreeState", "clean".to_owned()),
        ("GoVersion", build.compiler.clone()),
        ("Compiler", "rustc".to_owned()),
        ("Platform", build.platform.clone()),
        ("KustomizeVersion", build.kustomize.clone()),
        ("HelmVersion", build.helm.clone()),
        ("KubectlVersion", build.kubernetes.clone()),
        ("JsonnetVersion", build.jsonnet.clone()),
        ("ExtraBuildInfo", format!("tiphys {}", build.version)),
    ];
    let members = members.into_iter().map(|(key, text)| (key.to_owned(), text.into()));
    Reply::value(Value::Object(members.collect::<Map<_, _>>()))
}
