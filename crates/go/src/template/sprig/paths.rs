//! Paths with slashes: `path`, and `path/filepath` on Linux, which is the same.

use crate::path::clean_bytes;
use crate::template::functions::{Function, Type};
use crate::template::value::{Text, Value};

const TEXT: &[Type] = &[Type::Text];

pub(super) static FUNCTIONS: &[Function] = &[
    BASE,
    CLEAN,
    DIR,
    EXT,
    IS_ABS,
    BASE.renamed("osBase"),
    CLEAN.renamed("osClean"),
    DIR.renamed("osDir"),
    EXT.renamed("osExt"),
    IS_ABS.renamed("osIsAbs"),
];

const BASE: Function = Function::new("base", TEXT, |call| {
    let text = Text::from_bytes(base(call.bytes(0)));
    call.answer_text(text)
});
const CLEAN: Function = Function::new("clean", TEXT, |call| {
    let text = clean_bytes(call.bytes(0));
    call.answer_text(text)
});
const DIR: Function = Function::new("dir", TEXT, |call| {
    let text = dir(call.bytes(0));
    call.answer_text(text)
});
const EXT: Function = Function::new("ext", TEXT, |call| {
    let text = Text::from_bytes(ext(call.bytes(0)));
    call.answer_text(text)
});
const IS_ABS: Function =
    Function::new("isAbs", TEXT, |call| Ok(Value::Bool(call.bytes(0).starts_with(b"/"))));

/// The last element.
pub(crate) fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let path = path.get(..end).unwrap_or_default();
    if path.is_empty() {
        return b"/";
    }
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.get(start..).unwrap_or_default()
}

/// Everything up to the last slash, cleaned.
fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    clean_bytes(path.get(..end).unwrap_or_default())
}

/// The last dot of the last element and what follows.
fn ext(path: &[u8]) -> &[u8] {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = path.get(start..).unwrap_or_default();
    name.iter().rposition(|byte| *byte == b'.').and_then(|dot| name.get(dot..)).unwrap_or_default()
}
