//! Go's templates: `text/template` of Go 1.26 with `fmt`, sprig 3.3 and Helm 4.3's functions.
//!
//! What application sets, notifications and charts are written in. Output is that of Go, byte for byte, and so are the
//! texts of errors.
//!
//! ```
//! use tiphys_go::template::{Engine, FunctionSet, Limits, Still, Templates, Value};
//!
//! let mut templates = Templates::new("base", FunctionSet::text().and(FunctionSet::sprig()));
//! templates.parse("base", r#"{{ .name | upper }}{{ range .ports }} {{ . }}{{ end }}"#.as_bytes()).unwrap();
//!
//! let data = Value::from_json(&serde_json::json!({"name": "web", "ports": [80, 1e6]}));
//! let environment = Still(jiff::Timestamp::UNIX_EPOCH);
//! let mut engine = Engine::new(&templates, &environment, Limits::default());
//! assert_eq!(engine.execute("base", &data).unwrap(), b"WEB 80 1e+06");
//! ```
//!
//! The way of a template:
//!
//! 1. [`Parsed::new`] compiles a file against a [`FunctionSet`] into instructions. The result is immutable and may be
//!    kept, cloned and sent anywhere; a chart's files are parsed once and rendered often.
//! 2. [`Templates`] puts parsed files together under a name; whose definition counts is decided by the order of
//!    [`Templates::add`]. [`MissingKey`] says what an absent key is.
//! 3. An [`Engine`] is one run over them: it has the [`Limits`], and an [`Environment`] for all that is not in the
//!    data (time, chance, cluster, keys). It executes as many templates as the caller likes over [`Value`]s, in one
//!    thread. What a template sets in its data (`set`, `merge`) is there for the next.
//! 4. A [`TemplateError`] has Go's text and its [parts](TemplateError::layers), for callers that say it in other words.
//!
//! [`Value`] is Go's `interface {}`: kinds of numbers are kept apart, maps and lists are references, texts are bytes.
//! Values with fields and methods are [`Object`]s, most of them [`Record`]s; maps and lists of a type with a name and
//! methods have a [`MapType`] or [`ListType`] of their own; simple values too ([`NamedType`]). A method is a
//! [`Function`] like any other, which finds its value under [`Call::receiver`]:
//!
//! ```
//! use tiphys_go::template::{
//!     Engine, Function, FunctionSet, Kind, Limits, Map, MapType, Element, Still, Templates, Text, Type, Value,
//! };
//!
//! static FILES: MapType = MapType {
//!     name: "engine.files",
//!     named: true,
//!     member: Element::Bytes,
//!     methods: &[Function::new("Get", &[Type::Text], |call| {
//!         let found = call.receiver().as_map().and_then(|files| files.get(call.text(0).as_bytes()));
//!         Ok(match found {
//!             Some(Value::Bytes(Some(bytes))) => Value::Text(Text::from_bytes(&bytes)),
//!             _ => Value::Text(Text::EMPTY),
//!         })
//!     })],
//! };
//!
//! let files = Map::typed(&FILES);
//! files.set("a.txt".into(), Value::Bytes(Some(b"hello".as_slice().into())));
//! let root: Map = [("Files", Value::from(files))].into_iter().collect();
//!
//! let mut templates = Templates::new("gotpl", FunctionSet::helm());
//! templates.parse("c/templates/x.yaml", br#"{{ .Files.Get "a.txt" | quote }}"#.as_slice()).unwrap();
//! let environment = Still(jiff::Timestamp::UNIX_EPOCH);
//! let mut engine = Engine::new(&templates, &environment, Limits::default());
//! assert_eq!(engine.execute("c/templates/x.yaml", &root.into()).unwrap(), br#""hello""#);
//! ```
//!
//! Nothing here recurses over what users write, but for parentheses and for values, both with a limit; templates that
//! execute each other do so on a stack of the engine's own. Memory and work are paid for before they are used.
//!
//! Golden rows: `gotemplate.jsonl`, `template-text.jsonl`, `template-sprig.jsonl`, `template-helm.jsonl`.

mod code;
mod environment;
mod error;
mod exec;
mod fmt;
mod functions;
pub mod helm;
mod json;
mod limits;
mod number;
mod parse;
mod quote;
mod sprig;
mod templates;
mod time;
mod value;
mod yaml;

pub use environment::{
    Certificate, CertificateRequest, Environment, KeyError, KeyKind, Keys, Lookup, Still, Work,
};
pub use error::{ErrorKind, Failure, Layer, TemplateError};
pub use exec::Engine;
pub use functions::{
    Call, Function, FunctionSet, Logic, Operand, Price, Rendering, Run, Source, Type, query_escape,
};
pub use limits::{Exceeded, Limits};
pub use parse::{PARENTHESES_MAX, Parsed, TEMPLATE_BYTES_MAX};
pub use templates::{MissingKey, Templates};
pub use time::Time;
pub use value::{
    Element, Integer, Integers, Kind, List, ListType, Map, MapType, Named, NamedType, Number, Object, Record,
    RecordType, Text, Unsigned, Value,
};
