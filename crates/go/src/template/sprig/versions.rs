//! Versions of Masterminds/semver: the functions, and versions as values.

use crate::semver::{Constraint, SemverError, Version};
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type};
use crate::template::quote::quote;
use crate::template::value::{Kind, Object, Text, Unsigned, Value};
use std::any::Any;
use std::cmp::Ordering;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("semver", &[Type::Text], |call| {
        let text = call.text(0).to_str().into_owned();
        Ok(Value::object(Semver { version: version(&text)?, original: text.into(), pointer: true }))
    }),
    Function::new("semverCompare", &[Type::Text, Type::Text], |call| {
        let (constraint, text) = (call.text(0).to_str(), call.text(1).to_str());
        let constraint = Constraint::parse(&constraint).map_err(|error| match error {
            // The release of the library that Helm has quotes.
            SemverError::Constraint(text) => format!("improper constraint: {}", quote(text.as_bytes())),
            SemverError::ConstraintVersion(_) => "constraint parser error".to_owned(),
            other => other.to_string(),
        })?;
        Ok(Value::Bool(constraint.matches(&version(&text)?)))
    }),
];

fn version(text: &str) -> Result<Version, Failure> {
    Version::parse(text).map_err(|error| match error {
        SemverError::LeadingZero(_) => Failure::new("version segment starts with 0"),
        SemverError::TooLarge(part) => Failure::new(format!(
            "error parsing version segment: strconv.ParseUint: parsing {}: value out of range",
            quote(part.as_bytes())
        )),
        _ => Failure::new("invalid semantic version"),
    })
}

/// A version, or a pointer to one.
#[derive(Debug)]
struct Semver {
    version: Version,
    original: Text,
    pointer: bool,
}

impl Object for Semver {
    fn type_name(&self) -> &'static str {
        if self.pointer { POINTER } else { "semver.Version" }
    }

    fn kind(&self) -> Kind {
        if self.pointer { Kind::Pointer } else { Kind::Struct }
    }

    fn methods(&self) -> &'static [Function] {
        METHODS
    }

    fn print(&self) -> Option<Text> {
        Some(self.version.to_string().into())
    }

    fn json(&self) -> Option<Result<Value, String>> {
        Some(Ok(Value::text(self.version.to_string())))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| {
            self.original == other.original && self.pointer == other.pointer && self.version == other.version
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const POINTER: &str = "*semver.Version";
const OTHER: &[Type] = &[Type::Pointer(POINTER)];
const TEXT: &[Type] = &[Type::Text];

static METHODS: &[Function] = &[
    Function::new("Compare", OTHER, |call| {
        Ok(Value::int(match order(call)? {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }))
    }),
    Function::new("Equal", OTHER, |call| Ok(Value::Bool(order(call)?.is_eq()))),
    Function::new("GreaterThan", OTHER, |call| Ok(Value::Bool(order(call)?.is_gt()))),
    Function::new("GreaterThanEqual", OTHER, |call| Ok(Value::Bool(order(call)?.is_ge()))),
    Function::new("IncMajor", &[], |call| {
        raised(call, |version| {
            (version.major, version.minor, version.patch) = (version.major.wrapping_add(1), 0, 0);
        })
    }),
    Function::new("IncMinor", &[], |call| {
        raised(call, |version| (version.minor, version.patch) = (version.minor.wrapping_add(1), 0))
    }),
    Function::new("IncPatch", &[], |call| {
        raised(call, |version| {
            // What comes before a version becomes it.
            if version.pre_release.is_empty() {
                version.patch = version.patch.wrapping_add(1);
            }
        })
    }),
    Function::new("LessThan", OTHER, |call| Ok(Value::Bool(order(call)?.is_lt()))),
    Function::new("LessThanEqual", OTHER, |call| Ok(Value::Bool(order(call)?.is_le()))),
    Function::new("Major", &[], |call| Ok(number(call, |version| version.major))),
    Function::new("MarshalText", &[], |call| {
        let text = own(call)?.version.to_string();
        Ok(Value::Bytes(Some(text.as_bytes().into())))
    }),
    Function::new("Metadata", &[], |call| Ok(Value::text(own(call)?.version.metadata.as_str()))),
    Function::new("Minor", &[], |call| Ok(number(call, |version| version.minor))),
    Function::new("Original", &[], |call| Ok(Value::Text(own(call)?.original.clone()))),
    Function::new("Patch", &[], |call| Ok(number(call, |version| version.patch))),
    Function::new("Prerelease", &[], |call| Ok(Value::text(own(call)?.version.pre_release.as_str()))),
    Function::new("SetMetadata", TEXT, |call| {
        let text = call.text(0).to_str().into_owned();
        let Semver { version, original, .. } = own(call)?;
        let changed = spelled(version, &version.pre_release, &text);
        changed_version(original, &changed)
    }),
    Function::new("SetPrerelease", TEXT, |call| {
        let text = call.text(0).to_str().into_owned();
        let Semver { version, original, .. } = own(call)?;
        let changed = spelled(version, &text, &version.metadata);
        changed_version(original, &changed)
    }),
    Function::new("String", &[], |call| Ok(Value::text(own(call)?.version.to_string()))),
];

fn own<'c>(call: &'c Call<'_, '_>) -> Result<&'c Semver, Failure> {
    call.receiver().as_object().ok_or_else(|| Failure::new("not a version"))
}

fn order(call: &Call<'_, '_>) -> Result<Ordering, Failure> {
    match call.value(0).as_object::<Semver>() {
        Some(other) => Ok(own(call)?.version.cmp(&other.version)),
        None => Err(super::convert::nil_pointer()),
    }
}

fn number(call: &Call<'_, '_>, part: fn(&Version) -> u64) -> Value {
    let number = own(call).map(|own| part(&own.version)).unwrap_or_default();
    Value::Uint(Unsigned::Uint64, number)
}

/// The spelling of a version keeps its leading `v`.
fn prefix(original: &Text) -> &'static str {
    if original.as_bytes().starts_with(b"v") { "v" } else { "" }
}

fn raised(call: &Call<'_, '_>, raise: fn(&mut Version)) -> Result<Value, Failure> {
    let own = own(call)?;
    let mut version = own.version.clone();
    raise(&mut version);
    version.pre_release.clear();
    version.metadata.clear();
    let original = format!("{}{version}", prefix(&own.original));
    Ok(Value::object(Semver { version, original: original.into(), pointer: false }))
}

fn spelled(version: &Version, pre_release: &str, metadata: &str) -> String {
    let mut text = format!("{}.{}.{}", version.major, version.minor, version.patch);
    if !pre_release.is_empty() {
        text = format!("{text}-{pre_release}");
    }
    if !metadata.is_empty() {
        text = format!("{text}+{metadata}");
    }
    text
}

fn changed_version(original: &Text, text: &str) -> Result<Value, Failure> {
    let version = version(text)?;
    let original = format!("{}{version}", prefix(original));
    Ok(Value::object(Semver { version, original: original.into(), pointer: false }))
}
