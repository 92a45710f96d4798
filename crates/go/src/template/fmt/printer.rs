//! A value under a verb.

use crate::template::limits::Exceeded;
use crate::template::quote::{can_back_quote, push_character, quote_into};
use crate::template::value::{DEPTH_MAX, Element, Kind, List, Map, Object, Text, Value};

/// Flags of a verb.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flags {
    pub(crate) width: Option<usize>,
    pub(crate) precision: Option<usize>,
    pub(crate) minus: bool,
    pub(crate) plus: bool,
    pub(crate) sharp: bool,
    pub(crate) space: bool,
    pub(crate) zero: bool,
    /// `%+v`.
    pub(crate) plus_v: bool,
    /// `%#v`.
    pub(crate) sharp_v: bool,
}

impl Flags {
    /// Those of `%#v`.
    pub(crate) const GO_SYNTAX: Self = Self {
        width: None,
        precision: None,
        minus: false,
        plus: false,
        sharp: false,
        space: false,
        zero: false,
        plus_v: false,
        sharp_v: true,
    };
}

/// An address, where Go would print one: there is none, and it differs from run to run anyway.
const ADDRESS: u64 = 0xc000_0000_0000;

pub(crate) struct Printer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    limit: usize,
    pub(super) flags: Flags,
    /// While it complains about a verb, methods are not asked.
    complaining: bool,
}

impl<'o> Printer<'o> {
    pub(crate) fn new(out: &'o mut Vec<u8>, limit: usize) -> Self {
        Self { out, limit, flags: Flags::default(), complaining: false }
    }

    pub(crate) fn with(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Exceeded> {
        self.room(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn put_character(&mut self, character: char) -> Result<(), Exceeded> {
        self.room(character.len_utf8())?;
        push_character(self.out, character);
        Ok(())
    }

    fn room(&self, bytes: usize) -> Result<(), Exceeded> {
        if self.out.len().saturating_add(bytes) > self.limit {
            return Err(Exceeded::TextBytes(self.limit));
        }
        Ok(())
    }

    pub(super) fn fill(&mut self, count: usize) -> Result<(), Exceeded> {
        self.room(count)?;
        // Zeros stand on the left only.
        let byte = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
        self.out.resize(self.out.len() + count, byte);
        Ok(())
    }

    /// Writes bytes filled up to the width.
    pub(super) fn pad(&mut self, bytes: &[u8]) -> Result<(), Exceeded> {
        let Some(width) = self.flags.width else { return self.put(bytes) };
        let missing = width.saturating_sub(rune_count(bytes));
        if self.flags.minus {
            self.put(bytes)?;
            self.fill(missing)
        } else {
            self.fill(missing)?;
            self.put(bytes)
        }
    }

    /// The same, filled with blanks.
    pub(super) fn pad_blank(&mut self, bytes: &[u8]) -> Result<(), Exceeded> {
        let zero = std::mem::replace(&mut self.flags.zero, false);
        let padded = self.pad(bytes);
        self.flags.zero = zero;
        padded
    }

    /// Prints an operand.
    pub(crate) fn argument(&mut self, value: &Value, verb: char) -> Result<(), Exceeded> {
        if value.is_nil() {
            return match verb {
                'T' | 'v' => self.pad(b"<nil>"),
                _ => self.bad_verb(value, verb),
            };
        }
        match verb {
            'T' => self.string(value.type_name().as_bytes()),
            'p' => self.pointer(value, verb),
            // Only errors may be wrapped, and only by `Errorf`.
            'w' => self.bad_verb(value, verb),
            _ => self.value(value, verb, 0),
        }
    }

    /// The text of a verb that does not fit.
    pub(super) fn bad_verb(&mut self, value: &Value, verb: char) -> Result<(), Exceeded> {
        self.complaining = true;
        self.put(b"%!")?;
        self.put_character(verb)?;
        self.put(b"(")?;
        if value.is_nil() {
            self.put(b"<nil>")?;
        } else {
            self.put(value.type_name().as_bytes())?;
            self.put(b"=")?;
            self.value(value, 'v', 0)?;
        }
        self.put(b")")?;
        self.complaining = false;
        Ok(())
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Exceeded> {
        if depth > DEPTH_MAX {
            return Err(Exceeded::Depth(DEPTH_MAX));
        }
        match value {
            Value::Nil => self.bad_verb_or_nil(value, verb),
            Value::Bool(truth) => match verb {
                't' | 'v' => self.pad(if *truth { b"true" } else { b"false" }),
                _ => self.bad_verb(value, verb),
            },
            #[expect(clippy::cast_sign_loss, reason = "the bits, and a flag for the sign")]
            Value::Int(_, number) => self.whole(value, *number as u64, true, verb),
            Value::Uint(_, number) => self.whole(value, *number, false, verb),
            Value::Float(number) => self.float(value, *number, verb),
            Value::Complex(parts) => self.complex(value, **parts, verb),
            Value::Text(text) => self.text(value, text.as_bytes(), verb),
            Value::Bytes(bytes) => self.bytes(value, bytes.as_deref(), verb, depth),
            Value::List(list) => self.list(list, verb, depth),
            Value::Map(map) => self.map(map, verb, depth),
            Value::Named(named) => match self.by_method(value, verb) {
                Some(text) => self.text(value, text.as_bytes(), verb),
                None => self.named(value, &named.value, verb, depth),
            },
            Value::Object(object) => {
                let in_go = self.flags.sharp_v && !self.complaining;
                if let Some(text) = in_go.then(|| object.go_string()).flatten() {
                    return self.string(text.as_bytes());
                }
                match self.by_method(value, verb) {
                    Some(text) => self.text(value, text.as_bytes(), verb),
                    None => self.object(value, &**object, verb, depth),
                }
            }
        }
    }

    /// A value under the name of its type: complaints name it.
    fn named(&mut self, whole: &Value, inner: &Value, verb: char, depth: usize) -> Result<(), Exceeded> {
        match inner {
            #[expect(clippy::cast_sign_loss, reason = "the bits, and a flag for the sign")]
            Value::Int(_, number) => self.whole(whole, *number as u64, true, verb),
            Value::Uint(_, number) => self.whole(whole, *number, false, verb),
            Value::Float(number) => self.float(whole, *number, verb),
            Value::Text(text) => self.text(whole, text.as_bytes(), verb),
            other => self.value(other, verb, depth),
        }
    }

    fn bad_verb_or_nil(&mut self, value: &Value, verb: char) -> Result<(), Exceeded> {
        if verb == 'v' { self.put(b"<nil>") } else { self.bad_verb(value, verb) }
    }

    /// What `Error` or `String` answers, where the verb asks for it.
    fn by_method(&self, value: &Value, verb: char) -> Option<Text> {
        if self.complaining || self.flags.sharp_v || !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return None;
        }
        value.stringer()
    }

    pub(super) fn text(&mut self, value: &Value, text: &[u8], verb: char) -> Result<(), Exceeded> {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(text),
            'v' | 's' => self.string(text),
            'x' => self.hexadecimal(text, false),
            'X' => self.hexadecimal(text, true),
            'q' => self.quoted(text),
            _ => self.bad_verb(value, verb),
        }
    }

    fn cut<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.flags.precision else { return text };
        let (mut at, mut count) = (0, 0);
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                if count == precision {
                    return text.get(..at).unwrap_or_default();
                }
                at += character.len_utf8();
                count += 1;
            }
            for _ in chunk.invalid() {
                if count == precision {
                    return text.get(..at).unwrap_or_default();
                }
                at += 1;
                count += 1;
            }
        }
        text
    }

    pub(super) fn string(&mut self, text: &[u8]) -> Result<(), Exceeded> {
        let text = self.cut(text);
        self.pad(text)
    }

    fn quoted(&mut self, text: &[u8]) -> Result<(), Exceeded> {
        let text = self.cut(text);
        self.room(text.len())?;
        if self.flags.sharp && can_back_quote(text) {
            return self.pad(&[b"`", text, b"`"].concat());
        }
        let mut out = String::new();
        quote_into(&mut out, text, '"', self.flags.plus);
        self.pad(out.as_bytes())
    }

    fn hexadecimal(&mut self, bytes: &[u8], upper: bool) -> Result<(), Exceeded> {
        let Flags { sharp, space, minus, width, precision, .. } = self.flags;
        let bytes = bytes.get(..precision.unwrap_or(bytes.len()).min(bytes.len())).unwrap_or_default();
        if bytes.is_empty() {
            return width.map_or(Ok(()), |width| self.fill(width));
        }
        let mut spelled = 2 * bytes.len();
        if space {
            spelled = if sharp { spelled * 2 } else { spelled } + bytes.len() - 1;
        } else if sharp {
            spelled += 2;
        }
        let missing = width.unwrap_or(0).saturating_sub(spelled);
        if !minus {
            self.fill(missing)?;
        }
        self.room(spelled)?;
        let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        let prefix: &[u8] = if upper { b"0X" } else { b"0x" };
        for (place, byte) in bytes.iter().enumerate() {
            if space && place > 0 {
                self.out.push(b' ');
            }
            if sharp && (space || place == 0) {
                self.out.extend_from_slice(prefix);
            }
            let digit = |half: u8| digits.get(usize::from(half & 15)).copied().unwrap_or(b'0');
            self.out.push(digit(byte >> 4));
            self.out.push(digit(*byte));
        }
        if minus {
            self.fill(missing)?;
        }
        Ok(())
    }

    fn bytes(
        &mut self,
        value: &Value,
        bytes: Option<&[u8]>,
        verb: char,
        depth: usize,
    ) -> Result<(), Exceeded> {
        let inner = bytes.unwrap_or_default();
        match verb {
            's' => self.string(inner),
            'x' => self.hexadecimal(inner, false),
            'X' => self.hexadecimal(inner, true),
            'q' => self.quoted(inner),
            'v' | 'd' if !self.flags.sharp_v => {
                self.put(b"[")?;
                for (place, byte) in inner.iter().enumerate() {
                    if place > 0 {
                        self.put(b" ")?;
                    }
                    self.whole(value, u64::from(*byte), false, 'd')?;
                }
                self.put(b"]")
            }
            'v' | 'd' => {
                self.put(if depth == 0 { b"[]byte" } else { b"[]uint8" })?;
                if bytes.is_none() {
                    return self.put(b"(nil)");
                }
                self.put(b"{")?;
                for (place, byte) in inner.iter().enumerate() {
                    if place > 0 {
                        self.put(b", ")?;
                    }
                    self.hexadecimal_number(u64::from(*byte), true)?;
                }
                self.put(b"}")
            }
            _ => match value.items() {
                Some(items) => self.list(&items, verb, depth),
                None => Ok(()),
            },
        }
    }

    fn list(&mut self, list: &List, verb: char, depth: usize) -> Result<(), Exceeded> {
        let go_syntax = self.flags.sharp_v;
        if go_syntax {
            self.put(list.list_type().name.as_bytes())?;
            if list.is_nil() {
                return self.put(b"(nil)");
            }
        }
        self.put(if go_syntax { b"{" } else { b"[" })?;
        for place in 0..list.len() {
            if place > 0 {
                self.put(if go_syntax { b", " } else { b" " })?;
            }
            let item = list.get(place).unwrap_or_default();
            self.member(&item, list.list_type().item, verb, depth)?;
        }
        self.put(if go_syntax { b"}" } else { b"]" })
    }

    fn map(&mut self, map: &Map, verb: char, depth: usize) -> Result<(), Exceeded> {
        let go_syntax = self.flags.sharp_v;
        if go_syntax {
            self.put(map.map_type().name.as_bytes())?;
            if map.is_nil() {
                return self.put(b"(nil)");
            }
        }
        self.put(if go_syntax { b"{" } else { b"map[" })?;
        for (place, (key, member)) in map.members().into_iter().enumerate() {
            if place > 0 {
                self.put(if go_syntax { b", " } else { b" " })?;
            }
            self.value(&Value::Text(key), verb, depth + 1)?;
            self.put(b":")?;
            self.member(&member, map.map_type().member, verb, depth)?;
        }
        self.put(if go_syntax { b"}" } else { b"]" })
    }

    /// What a list or map holds: nil in a box has no verb that does not fit.
    fn member(&mut self, value: &Value, element: Element, verb: char, depth: usize) -> Result<(), Exceeded> {
        if !value.is_nil() {
            return self.value(value, verb, depth + 1);
        }
        if self.flags.sharp_v {
            let name = if element.is_interface() { "interface {}" } else { element.name() };
            self.put(name.as_bytes())?;
            self.put(b"(nil)")
        } else {
            self.put(b"<nil>")
        }
    }

    fn object(
        &mut self,
        value: &Value,
        object: &dyn Object,
        verb: char,
        depth: usize,
    ) -> Result<(), Exceeded> {
        match object.kind() {
            Kind::Struct => {}
            // A pointer to a struct is the struct at the top, and an address below.
            Kind::Pointer if depth == 0 => self.put(b"&")?,
            _ => return self.pointer(value, verb),
        }
        let go_syntax = self.flags.sharp_v;
        if go_syntax {
            self.put(object.type_name().trim_start_matches('*').as_bytes())?;
        }
        self.put(b"{")?;
        for (place, name) in object.fields().iter().enumerate() {
            if place > 0 {
                self.put(if go_syntax { b", " } else { b" " })?;
            }
            if go_syntax || self.flags.plus_v {
                self.put(name.as_bytes())?;
                self.put(b":")?;
            }
            self.member(&object.field(name).unwrap_or_default(), Element::Any, verb, depth)?;
        }
        self.put(b"}")
    }

    fn pointer(&mut self, value: &Value, verb: char) -> Result<(), Exceeded> {
        let address = match value.underlying() {
            Value::Map(map) if map.is_nil() => 0,
            Value::List(list) if list.is_nil() => 0,
            Value::Bytes(None) => 0,
            Value::Map(_) | Value::List(_) | Value::Bytes(_) => ADDRESS,
            Value::Object(object) if object.kind() != Kind::Struct => ADDRESS,
            _ => return self.bad_verb(value, verb),
        };
        match verb {
            'v' if self.flags.sharp_v => {
                self.put(b"(")?;
                self.put(value.type_name().as_bytes())?;
                self.put(b")(")?;
                self.hexadecimal_number(address, true)?;
                self.put(b")")
            }
            'v' if address == 0 => self.pad(b"<nil>"),
            'v' | 'p' => {
                let prefix = !self.flags.sharp;
                self.hexadecimal_number(address, prefix)
            }
            'b' | 'o' | 'd' | 'x' | 'X' => self.whole(value, address, false, verb),
            _ => self.bad_verb(value, verb),
        }
    }
}

/// Characters of a text, each byte that is not UTF-8 being one.
pub(crate) fn rune_count(text: &[u8]) -> usize {
    text.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}
