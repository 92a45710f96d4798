//! REST over the methods: which one an HTTP request means, and the message it makes (API-P19..P24).
//!
//! [`find`] looks at verb and path, before anything of the body was read; [`Route::bind`] puts body, query and path
//! together. Both only compute.

mod bind;
mod escape;

use crate::schema::{Binding, MethodId, Schema, Segment, Template};

pub use bind::BindError;
pub use escape::{EscapeError, path_decode, query_decode};

/// Paths whose parts may hold an encoded slash: they are split before they are decoded, and what they bind is decoded
/// as a query is (API-P23).
const ENCODED: [&str; 5] = [
    "/api/v1/clusters/",
    "/api/v1/repositories/",
    "/api/v1/repocreds/",
    "/api/v1/write-repositories/",
    "/api/v1/write-repocreds/",
];

/// Where a request goes.
#[derive(Clone, Debug)]
pub struct Route<'s> {
    schema: &'s Schema,
    /// The method.
    pub method: MethodId,
    /// The place in REST that matched.
    pub binding: &'s Binding,
    /// Dotted fields with what the path says they are.
    pub bound: Vec<(&'static str, String)>,
}

/// Why a request goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// No method has the path.
    #[error("Not Found")]
    NotFound,
    /// Methods have the path, none with the verb.
    #[error("Method Not Allowed")]
    MethodNotAllowed,
    /// The path is not written as paths are.
    #[error("malformed path")]
    Malformed,
}

/// Finds the method of a request. The first place that matches counts, in the order of the tables (API-P19).
///
/// # Errors
/// When there is none.
pub fn find<'s>(schema: &'s Schema, verb: &str, path: &str) -> Result<Route<'s>, NoRoute> {
    let is_encoded = ENCODED.iter().any(|prefix| path.starts_with(prefix));
    let decoded;
    let whole = if is_encoded {
        path
    } else {
        decoded = path_decode(path).map_err(|_malformed| NoRoute::Malformed)?;
        decoded.as_str()
    };
    let parts: Vec<&str> = whole.strip_prefix('/').ok_or(NoRoute::NotFound)?.split('/').collect();
    let mut is_other_verb = false;
    for (id, method) in schema.methods() {
        for binding in &method.bindings {
            let Some(bound) = matches(&binding.template, &parts) else { continue };
            if binding.verb != verb {
                is_other_verb = true;
                continue;
            }
            let decode = |text: String| {
                if is_encoded {
                    query_decode(&text).map_err(|_malformed| NoRoute::Malformed)
                } else {
                    Ok(text)
                }
            };
            let bound = bound.into_iter().map(|(field, text)| decode(text).map(|text| (field, text)));
            let bound = bound.collect::<Result<Vec<_>, _>>()?;
            return Ok(Route { schema, method: id, binding, bound });
        }
    }
    Err(if is_other_verb { NoRoute::MethodNotAllowed } else { NoRoute::NotFound })
}

/// What a template's fields are in a path; `None` when the path is another one.
fn matches(template: &Template, parts: &[&str]) -> Option<Vec<(&'static str, String)>> {
    let mut bound = Vec::new();
    let mut rest = parts;
    for segment in &template.segments {
        match segment {
            Segment::Rest(field) => {
                bound.push((*field, rest.join("/")));
                return Some(bound);
            }
            Segment::Literal(text) => {
                let (first, others) = rest.split_first()?;
                if first != text {
                    return None;
                }
                rest = others;
            }
            Segment::Field(field) => {
                let (first, others) = rest.split_first()?;
                if first.is_empty() {
                    return None;
                }
                bound.push((*field, (*first).to_owned()));
                rest = others;
            }
        }
    }
    rest.is_empty().then_some(bound)
}

#[cfg(test)]
mod tests;
