//! `.Capabilities` (RND-177, RND-180).

use std::any::Any;

use tiphys_go::template::{
    Call, Element, Failure, Function, Kind, List, ListType, Map, Object, Record, RecordType, Text, Type,
    Value,
};

use crate::HelmVersion;
use crate::capabilities::KubeVersion;

/// The version of Go that Helm was built with; it is a field of `.Capabilities.HelmVersion`.
const GO_VERSION: &str = "go1.26.8";
/// The version of Kubernetes whose libraries Helm 4 was built with.
const KUBE_CLIENT_VERSION: &str = "v1.37";

const FIELDS: &[&str] = &["KubeVersion", "APIVersions", "HelmVersion"];
static METHODS: &[Function] = &[Function::new("Copy", &[], itself)];
static CAPABILITIES_V4: RecordType = RecordType {
    name: "*common.Capabilities",
    kind: Kind::Pointer,
    fields: FIELDS,
    methods: METHODS,
    print: None,
};
static CAPABILITIES_V3: RecordType = RecordType {
    name: "*chartutil.Capabilities",
    kind: Kind::Pointer,
    fields: FIELDS,
    methods: METHODS,
    print: None,
};

static VERSION_METHODS: &[Function] = &[Function::new("Has", &[Type::Text], has)];
static VERSIONS_V4: ListType =
    ListType { name: "common.VersionSet", named: true, item: Element::Text, methods: VERSION_METHODS };
static VERSIONS_V3: ListType =
    ListType { name: "chartutil.VersionSet", named: true, item: Element::Text, methods: VERSION_METHODS };

#[expect(clippy::unnecessary_wraps, reason = "the type of functions")]
fn itself(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(call.receiver().clone())
}

fn has(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let wanted = call.text(0).clone();
    let Value::List(versions) = call.receiver().clone() else { return Ok(false.into()) };
    call.spend(versions.len())?;
    Ok(Value::Bool(!versions.all(|version| version.as_text() != Some(&wanted))))
}

/// `.Capabilities` of a rendering.
pub(crate) fn capabilities(kubernetes: &KubeVersion, api_versions: &[String], version: HelmVersion) -> Value {
    let (record, versions) = match version {
        HelmVersion::V3 => (&CAPABILITIES_V3, &VERSIONS_V3),
        HelmVersion::V4 => (&CAPABILITIES_V4, &VERSIONS_V4),
    };
    let api_versions = api_versions.iter().map(|version| version.as_str().into()).collect();
    let fields = vec![
        Value::object(Kubernetes { version: kubernetes.clone(), helm: version }),
        Value::List(List::typed(versions, api_versions)),
        Value::object(Build { helm: version }),
    ];
    Value::object(Record::new(record, fields))
}

/// `.Capabilities.KubeVersion`.
#[derive(Debug)]
struct Kubernetes {
    version: KubeVersion,
    helm: HelmVersion,
}

static KUBERNETES_METHODS: &[Function] =
    &[Function::new("GitVersion", &[], git_version), Function::new("String", &[], normalized)];

fn kubernetes(call: &Call<'_, '_>) -> KubeVersion {
    let receiver = call.receiver().as_object::<Kubernetes>();
    receiver.map_or_else(|| KubeVersion::default_of(HelmVersion::V4), |receiver| receiver.version.clone())
}

#[expect(clippy::unnecessary_wraps, reason = "the type of functions")]
fn git_version(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(kubernetes(call).version.into())
}

#[expect(clippy::unnecessary_wraps, reason = "the type of functions")]
fn normalized(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(kubernetes(call).normalized.into())
}

impl Object for Kubernetes {
    fn type_name(&self) -> &'static str {
        match self.helm {
            HelmVersion::V3 => "chartutil.KubeVersion",
            HelmVersion::V4 => "common.KubeVersion",
        }
    }

    fn methods(&self) -> &'static [Function] {
        KUBERNETES_METHODS
    }

    fn fields(&self) -> &'static [&'static str] {
        &["Version", "Major", "Minor"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(self.version.version.as_str().into()),
            "Major" => Some(self.version.major.as_str().into()),
            "Minor" => Some(self.version.minor.as_str().into()),
            _ => None,
        }
    }

    fn print_addressed(&self) -> Option<Text> {
        Some(self.version.normalized.as_str().into())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `.Capabilities.HelmVersion`.
#[derive(Debug)]
struct Build {
    helm: HelmVersion,
}

impl Object for Build {
    fn type_name(&self) -> &'static str {
        "version.BuildInfo"
    }

    fn fields(&self) -> &'static [&'static str] {
        match self.helm {
            HelmVersion::V3 => &["Version", "GitCommit", "GitTreeState", "GoVersion"],
            HelmVersion::V4 => &["Version", "GitCommit", "GitTreeState", "GoVersion", "KubeClientVersion"],
        }
    }

    fn field(&self, name: &str) -> Option<Value> {
        let text = match name {
            "Version" => self.helm.build(),
            "GitCommit" | "GitTreeState" => "",
            "GoVersion" => GO_VERSION,
            "KubeClientVersion" if self.helm == HelmVersion::V4 => KUBE_CLIENT_VERSION,
            _ => return None,
        };
        Some(text.into())
    }

    fn json(&self) -> Option<Result<Value, String>> {
        let mut members: Vec<(&str, Value)> =
            vec![("version", self.helm.build().into()), ("go_version", GO_VERSION.into())];
        if self.helm == HelmVersion::V4 {
            members.push(("kube_client_version", KUBE_CLIENT_VERSION.into()));
        }
        Some(Ok(members.into_iter().collect::<Map>().into()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
