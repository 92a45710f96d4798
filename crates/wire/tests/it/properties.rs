//! What holds for all messages and all bytes.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tiphys_wire::proto::{Limits, Secrets, decode, encode};
use tiphys_wire::schema::{Arity, Emission, Field, Kind, MessageId, Presence, Shape};
use tiphys_wire::{json as wire_json, rest, schema};

/// Depth below which generated messages are empty.
const DEPTH_MAX: usize = 5;

/// Chance, as a list of numbers that is used up.
struct Dice<'d>(&'d [u8]);

impl Dice<'_> {
    fn roll(&mut self, sides: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let sides = u8::try_from(from.len()).unwrap();
        from.get(usize::from(self.roll(sides))).cloned().unwrap()
    }

    fn text(&mut self) -> String {
        self.pick(&["", "a", "web", "ä€😀", "a\"b\\c\n", &"x".repeat(200)]).to_owned()
    }

    fn scalar(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Bool => Value::Bool(self.roll(2) == 1),
            Kind::Int32 => Value::from(self.pick(&[0, 1, -1, 300, i32::MAX, i32::MIN])),
            Kind::Int64 => Value::from(self.pick(&[0, 1, -1, 1 << 40, i64::MAX, i64::MIN])),
            Kind::String => Value::from(self.text()),
            Kind::Bytes => Value::from(self.pick(&["", "YQ==", "AP+A"])),
            Kind::Message(_) => Value::Null,
        }
    }

    fn message(&mut self, id: MessageId, depth: usize) -> Value {
        let message = schema().message(id);
        match message.shape {
            Shape::Time => Value::from("2026-01-02T03:04:05Z"),
            Shape::MicroTime => Value::from("2026-01-02T03:04:05.000006Z"),
            Shape::Json => self.pick(&[json!(true), json!({"a": [1, null]}), json!("")]),
            Shape::IntOrString => self.pick(&[json!(5), json!("5%"), json!("")]),
            Shape::Yaml => {
                Value::from("jqPathExpressions: null\njsonPointers:\n- /a\nmanagedFieldsManagers: null\n")
            }
            Shape::Plain => {
                let mut object = Map::new();
                let mut groups = Vec::new();
                for field in &message.fields {
                    let is_left_out = depth > DEPTH_MAX || self.roll(3) != 0;
                    if (is_left_out && field.presence != Presence::Required)
                        || field.oneof.is_some_and(|it| groups.contains(&it))
                    {
                        continue;
                    }
                    groups.extend(field.oneof);
                    self.field(field, depth, &mut object);
                }
                Value::Object(object)
            }
        }
    }

    fn field(&mut self, field: &Field, depth: usize, object: &mut Map<String, Value>) {
        let one = |dice: &mut Self| match field.kind {
            Kind::Message(inner) => dice.message(inner, depth + 1),
            kind => dice.scalar(kind),
        };
        let value = match field.arity {
            Arity::One => one(self),
            Arity::Many => Value::Array((0..self.roll(3)).map(|_| one(self)).collect()),
            Arity::Map => Value::Object((0..self.roll(3)).map(|_| (self.text(), one(self))).collect()),
        };
        match (field.is_inline, value) {
            (true, Value::Object(members)) => object.extend(members),
            (_, value) => drop(object.insert(field.json.to_owned(), value)),
        }
    }
}

/// Whether a message has parts whose absence only one of the two forms tells.
fn tells_empty(id: MessageId) -> bool {
    let message = schema().message(id);
    message.shape == Shape::Yaml
        || message.fields.iter().any(|field| {
            field.emission == Emission::AlwaysEmpty
                || matches!(field.kind, Kind::Message(inner) if tells_empty(inner))
        })
}

fn messages() -> Vec<MessageId> {
    schema().messages().map(|(id, _)| id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Both forms say the same: what is written as bytes or as JSON is read as it was.
    #[test]
    fn api_p7_messages_survive_both_forms(at in 0..messages().len(), dice in proptest::collection::vec(any::<u8>(), 0..400)) {
        let id = messages()[at];
        let value = wire_json::conform(schema(), id, Dice(&dice).message(id, 0)).unwrap();
        let bytes = encode(schema(), id, &value, Secrets::Kept).unwrap();
        let read = decode(schema(), id, &bytes, Limits::default()).unwrap();
        if !tells_empty(id) {
            prop_assert_eq!(&read, &value);
        }
        prop_assert_eq!(encode(schema(), id, &read, Secrets::Kept).unwrap(), bytes);
        let mut text = Vec::new();
        wire_json::write(schema(), id, &value, Secrets::Kept, &mut text).unwrap();
        let shown: Value = serde_json::from_slice(&text).unwrap();
        let again = wire_json::conform(schema(), id, shown).unwrap();
        if !tells_empty(id) {
            prop_assert_eq!(&again, &value);
        }
    }

    /// Any bytes are read or refused.
    #[test]
    fn sec_49_any_bytes_are_read_or_refused(at in 0..messages().len(), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let id = messages()[at];
        if let Ok(value) = decode(schema(), id, &bytes, Limits { values: 1_000 }) {
            let mut text = Vec::new();
            prop_assert!(wire_json::write(schema(), id, &value, Secrets::Kept, &mut text).is_ok());
            prop_assert!(encode(schema(), id, &value, Secrets::Kept).is_ok());
        }
    }

    /// Bytes that were a message are read or refused.
    #[test]
    fn sec_49_broken_messages_are_read_or_refused(
        at in 0..messages().len(),
        dice in proptest::collection::vec(any::<u8>(), 0..400),
        breaks in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let id = messages()[at];
        let mut bytes = encode(schema(), id, &Dice(&dice).message(id, 0), Secrets::Kept).unwrap();
        for (place, byte) in breaks {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
        }
        if let Ok(value) = decode(schema(), id, &bytes, Limits { values: 10_000 }) {
            prop_assert!(encode(schema(), id, &value, Secrets::Dropped).is_ok());
        }
    }

    /// Any request finds a method or none, and makes a message or an error.
    #[test]
    fn sec_49_any_request_is_bound_or_refused(
        verb in "GET|POST|PUT|DELETE|PATCH",
        at in 0_usize..200,
        path in "[a-z/%+.:=*0-9]{0,20}",
        query in "[a-z.\\[\\]=&%+0-9]{0,60}",
        body in ".{0,60}",
    ) {
        let templates: Vec<&str> = schema().methods().flat_map(|(_, method)| method.bindings.iter().map(|it| it.template.text)).collect();
        let whole = templates[at % templates.len()].replace(['{', '}'], "") + &path;
        for target in [whole.as_str(), path.as_str()] {
            if let Ok(route) = rest::find(schema(), &verb, target) {
                drop(route.bind(&query, body.as_bytes()));
            }
        }
    }
}
