//! The table of built-in types in memory: names are slices of the embedded text, shapes are small numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::Gvk;

static TEXT: &str = include_str!("../../data/builtin-types.txt");

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(TEXT));

/// Look-up of built-in types.
#[derive(Clone, Copy, Debug)]
pub struct Schema;

impl Schema {
    /// The struct a built-in kind is encoded with; `None` for every other kind.
    pub fn of(gvk: &Gvk) -> Option<&'static StructType> {
        let table = &*TABLE;
        let wanted = (gvk.kind.as_str(), gvk.group.as_str(), gvk.version.as_str());
        let at = table.kinds.binary_search_by(|kind| kind.name.cmp(&wanted)).ok()?;
        table.structs.get(usize::from(table.kinds.get(at)?.id))
    }
}

/// A struct of the client scheme.
#[derive(Debug)]
pub struct StructType {
    name: &'static str,
    fields: Box<[Field]>,
}

impl StructType {
    /// Short name, for example `core/v1.PodSpec`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// All members, sorted by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// One member by its exact name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(at)
    }

    /// The member that protobuf has at a place.
    pub fn field_at(&self, place: Place) -> Option<&Field> {
        self.fields.iter().find(|field| field.place == place)
    }

    /// Whether protobuf has a message at a place whose members JSON shows among those of this struct.
    pub fn is_inlined(&self, place: Place) -> bool {
        self.fields.iter().any(|field| place != field.place && place.holds(field.place))
    }
}

/// One member of a struct.
#[derive(Debug)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// What it may hold.
    pub shape: Shape,
    /// When the encoder leaves it out.
    pub omit: OmitWhen,
    /// How a strategic merge patch treats it.
    pub patch: Patch,
    /// Where protobuf has it.
    pub place: Place,
    /// Whether protobuf makes a message of each list in it, with the items in field 1.
    pub is_wrapped: bool,
}

/// Field numbers that lead to a member in protobuf: messages that JSON inlines, then the member; zeros behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place([u8; 3]);

impl Place {
    /// The place of a field of the message at this place; `None` where no type has one.
    #[must_use]
    pub fn inner(self, number: u32) -> Option<Self> {
        let mut numbers = self.0;
        *numbers.iter_mut().find(|number| **number == 0)? = u8::try_from(number).ok()?;
        Some(Self(numbers))
    }

    /// Whether a place is this one or inside the message at this one.
    fn holds(self, inner: Self) -> bool {
        self.0.iter().zip(inner.0).all(|(outer, inner)| *outer == 0 || *outer == inner)
    }

    /// Reads `2.1`; nothing is the place of what protobuf does not have.
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').filter(|number| !number.is_empty());
        numbers.try_fold(Self::default(), |place, number| place.inner(number.parse().ok()?))
    }
}

/// When the encoder of a type leaves a member out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmitWhen {
    /// Never: a zero value is written.
    Never,
    /// When it is an empty text, list or map, zero, false or a null pointer.
    Empty,
    /// Also when it is the zero time.
    Zero,
}

/// Patch strategies of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Items of the list are merged, by key or as a set.
    pub merge: bool,
    /// The whole value is replaced.
    pub replace: bool,
    /// Members that the patch does not name are dropped.
    pub retain_keys: bool,
    /// Member that identifies an item of a merged list, empty for lists of scalars.
    pub merge_key: &'static str,
}

/// Number of a shape or a struct in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u16);

/// JSON shape of a member or element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A text.
    Text,
    /// A truth value.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A resource quantity.
    Quantity,
    /// A time with seconds.
    Time,
    /// A time with microseconds.
    MicroTime,
    /// An integer of 32 bits or a text.
    IntOrText,
    /// Bytes in base64.
    Bytes,
    /// Any JSON value.
    Any,
    /// A struct, see [`Shape::struct_type`].
    Struct(Id),
    /// A value that may be null, see [`Shape::element`].
    Pointer(Id),
    /// A list, see [`Shape::element`].
    List(Id),
    /// A map from text, see [`Shape::element`].
    Map(Id),
}

impl Shape {
    /// What a pointer points to, what a list or map holds; `None` for the rest.
    pub fn element(self) -> Option<Self> {
        match self {
            Self::Pointer(id) | Self::List(id) | Self::Map(id) => {
                TABLE.shapes.get(usize::from(id.0)).copied()
            }
            _ => None,
        }
    }

    /// The struct behind this shape, through a pointer.
    pub fn struct_type(self) -> Option<&'static StructType> {
        match self {
            Self::Struct(id) => TABLE.structs.get(usize::from(id.0)),
            Self::Pointer(_) => self.element()?.struct_type(),
            _ => None,
        }
    }
}

struct Kind {
    /// Kind, group, version.
    name: (&'static str, &'static str, &'static str),
    id: u16,
}

struct Table {
    kinds: Vec<Kind>,
    structs: Vec<StructType>,
    shapes: Vec<Shape>,
}

impl Table {
    /// Reads the text. It is our own, so a line that does not parse is left out; a test counts them.
    fn read(text: &'static str) -> Self {
        let lines = || text.lines().filter_map(|line| line.split_once(' '));
        let names = lines()
            .filter(|(tag, _)| *tag == "t")
            .map(|(_, line)| line.split_once(' ').map_or(line, |(name, _)| name));
        let mut reader =
            Reader { ids: names.zip(0..).collect(), shapes: Vec::new(), shape_ids: HashMap::new() };
        let mut kinds: Vec<Kind> =
            lines().filter(|(tag, _)| *tag == "k").filter_map(|(_, line)| reader.kind(line)).collect();
        kinds.sort_unstable_by_key(|kind| kind.name);
        let structs =
            lines().filter(|(tag, _)| *tag == "t").map(|(_, line)| reader.struct_type(line)).collect();
        Self { kinds, structs, shapes: reader.shapes }
    }
}

struct Reader {
    ids: HashMap<&'static str, u16>,
    shapes: Vec<Shape>,
    shape_ids: HashMap<Shape, u16>,
}

impl Reader {
    fn kind(&self, line: &'static str) -> Option<Kind> {
        let mut words = line.split(' ');
        let api_version = words.next()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = words.next()?;
        Some(Kind { name: (kind, group, version), id: *self.ids.get(words.next()?)? })
    }

    fn struct_type(&mut self, line: &'static str) -> StructType {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or("");
        StructType { name, fields: words.filter_map(|word| self.field(word)).collect() }
    }

    fn field(&mut self, word: &'static str) -> Option<Field> {
        let mut parts = word.split(':');
        let name = parts.next()?;
        let shape = self.shape(parts.next()?)?;
        let (flags, merge_key) =
            parts.next().map_or(("", ""), |flags| flags.split_once('=').unwrap_or((flags, "")));
        let omit = match (flags.contains('z'), flags.contains('o')) {
            (true, _) => OmitWhen::Zero,
            (false, true) => OmitWhen::Empty,
            (false, false) => OmitWhen::Never,
        };
        let patch = Patch {
            merge: flags.contains('m'),
            replace: flags.contains('r'),
            retain_keys: flags.contains('k'),
            merge_key,
        };
        let place = Place::read(flags.trim_start_matches(|one: char| one.is_ascii_lowercase()))?;
        Some(Field { name, shape, omit, patch, place, is_wrapped: flags.contains('w') })
    }

    fn shape(&mut self, text: &'static str) -> Option<Shape> {
        let inner = text.get(1..).unwrap_or("");
        Some(match text {
            "s" => Shape::Text,
            "b" => Shape::Bool,
            "i32" => Shape::Int32,
            "i64" => Shape::Int64,
            "q" => Shape::Quantity,
            "T" => Shape::Time,
            "M" => Shape::MicroTime,
            "I" => Shape::IntOrText,
            "B" => Shape::Bytes,
            "A" => Shape::Any,
            _ if text.starts_with('@') => Shape::Struct(Id(*self.ids.get(inner)?)),
            _ if text.starts_with('*') => Shape::Pointer(self.shape_id(inner)?),
            _ if text.starts_with('[') => Shape::List(self.shape_id(inner)?),
            _ if text.starts_with('{') => Shape::Map(self.shape_id(inner)?),
            _ => return None,
        })
    }

    fn shape_id(&mut self, text: &'static str) -> Option<Id> {
        let shape = self.shape(text)?;
        if let Some(id) = self.shape_ids.get(&shape) {
            return Some(Id(*id));
        }
        let id = u16::try_from(self.shapes.len()).ok()?;
        self.shapes.push(shape);
        self.shape_ids.insert(shape, id);
        Some(Id(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eng_58_every_line_of_the_table_is_read() {
        let count = |tag: &str| TEXT.lines().filter(|line| line.starts_with(tag)).count();
        assert_eq!(TABLE.kinds.len(), count("k "));
        assert_eq!(TABLE.structs.len(), count("t "));
        let words: usize =
            TEXT.lines().filter(|line| line.starts_with("t ")).map(|line| line.split(' ').count() - 2).sum();
        assert_eq!(TABLE.structs.iter().map(|found| found.fields.len()).sum::<usize>(), words);
        let placed = words
            - TABLE
                .structs
                .iter()
                .flat_map(|found| &found.fields)
                .filter(|field| field.place == Place::default())
                .count();
        assert!(placed > words * 4 / 5, "protobuf has {placed} of {words} members");
        for found in &TABLE.structs {
            assert!(found.fields.is_sorted_by(|a, b| a.name < b.name), "{}", found.name);
        }
    }

    #[test]
    fn eng_58_the_table_stays_small() {
        let fields: usize = TABLE.structs.iter().map(|found| found.fields.len()).sum();
        let bytes = fields * size_of::<Field>()
            + TABLE.structs.len() * size_of::<StructType>()
            + TABLE.kinds.len() * size_of::<Kind>()
            + TABLE.shapes.len() * size_of::<Shape>();
        assert!(bytes < 2 << 20, "{bytes} bytes in memory");
        assert!(TEXT.len() < 400_000, "{} bytes of text", TEXT.len());
    }

    #[test]
    fn eng_206_merge_keys_are_in_the_table() {
        let pod = Schema::of(&Gvk::new("", "v1", "Pod")).unwrap();
        let spec = pod.field("spec").unwrap().shape.struct_type().unwrap();
        let volumes = spec.field("volumes").unwrap();
        assert!(volumes.patch.merge && volumes.patch.retain_keys);
        assert_eq!(volumes.patch.merge_key, "name");
        let container = spec.field("containers").unwrap().shape.element().unwrap().struct_type().unwrap();
        assert_eq!(container.field("ports").unwrap().patch.merge_key, "containerPort");
        assert_eq!(container.field("envFrom").unwrap().patch, Patch::default());
        assert_eq!(spec.field("tolerations").unwrap().patch, Patch::default());
        assert!(Schema::of(&Gvk::new("argoproj.io", "v1alpha1", "Application")).is_none());
    }
}
