//! Formats of texts. Of those that the server knows, the rare ones (`isbn`, `creditcard`, `ssn`, `bsonobjectid`,
//! `rgbcolor`, `hexcolor`) are not judged here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Outcome, matches, type_error};
use crate::tree::text;
use crate::validate::names;

/// The format of a schema as far as it is judged; empty otherwise.
pub(super) fn of(schema: &Value) -> &str {
    let format = text(schema, &["format"]);
    let is_known = match text(schema, &["type"]) {
        "" | "string" => matches!(
            format,
            "uri"
                | "email"
                | "hostname"
                | "ipv4"
                | "ipv6"
                | "cidr"
                | "mac"
                | "uuid"
                | "uuid3"
                | "uuid4"
                | "uuid5"
                | "byte"
                | "password"
                | "date"
                | "duration"
                | "date-time"
                | "datetime"
                | "k8s-short-name"
                | "k8s-long-name"
        ),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if is_known { format } else { "" }
}

/// Judges a text by its format.
pub(super) fn judge(format: &str, found: &str, path: &str) -> Outcome {
    if fits(format, found) { Outcome::default() } else { Outcome::of(type_error(path, format, found)) }
}

fn fits(format: &str, found: &str) -> bool {
    match format {
        "uri" => matches(r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)", found),
        "email" => matches(r"^[^@\s]+@[^@\s]+$", found) || matches(r"^.*<[^@\s]+@[^@\s]+>$", found),
        "hostname" => {
            found.len() <= 255
                && matches(r"^([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$", found)
        }
        "ipv4" => found.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => found.parse::<Ipv6Addr>().is_ok(),
        "cidr" => found.split_once('/').is_some_and(|(address, bits)| {
            let most = address.parse::<IpAddr>().map_or(0, |address| if address.is_ipv4() { 32 } else { 128 });
            most > 0 && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
        }),
        "mac" => matches(r"(?i)^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$", found),
        "uuid" => matches(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$", found),
        "uuid3" => matches(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$", found),
        "uuid4" => matches(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$", found),
        "uuid5" => matches(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$", found),
        "byte" => STANDARD.decode(found.replace(['\r', '\n'], "")).is_ok(),
        "date" => matches(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", found) && found.parse::<jiff::civil::Date>().is_ok(),
        "date-time" | "datetime" => is_time(found),
        "duration" => is_duration(found),
        "k8s-short-name" => names::dns_label(found).is_empty(),
        "k8s-long-name" => names::dns_subdomain(found).is_empty(),
        _ => true,
    }
}

/// A time as in RFC 3339, a bare date included.
fn is_time(found: &str) -> bool {
    matches(r"(?i)^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$", found)
        && found.to_uppercase().parse::<jiff::Timestamp>().is_ok()
}

/// Numbers with units, as Go and Scala write them.
fn is_duration(found: &str) -> bool {
    let units = "ns|us|µs|ms|s|m|h|d|w|nanos?|micros?|millis?|secs?|seconds?|mins?|minutes?|hours?|hrs?|days?|weeks?";
    matches(&format!(r"^[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)\s*({units}))+$"), found.trim())
}
