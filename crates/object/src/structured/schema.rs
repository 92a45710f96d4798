//! How the parts of a type are merged.
//!
//! The shapes come from the table of built-in types; `data/structured-types.txt` says where merging differs
//! from what a shape implies. Kinds that are not in the table, and members that a type does not know, have a
//! deduced type: maps are merged member by member, everything else is one value (ENG-86), unless a [`Hint`] says
//! what identifies the items of a list.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use smol_str::SmolStr;

use super::custom::{ItemsNode, ListNode, MapNode, Node, SchemaTypes};
use super::hint::{Hint, ItemHint, Keys};
use crate::Gvk;
use crate::builtin::{Schema, Shape, StructType};

static TEXT: &str = include_str!("../../data/structured-types.txt");

static TABLE: LazyLock<HashMap<&'static str, Relations>> = LazyLock::new(read);

/// What the second table says about one struct.
#[derive(Debug, Default)]
struct Relations {
    is_atomic: bool,
    members: Vec<(&'static str, Relation)>,
    defaults: Vec<(&'static str, Value)>,
}

/// How a member of a built-in type is merged where its shape does not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// As one value.
    Atomic,
    /// Member by member, although its type is one value elsewhere.
    Granular,
    /// As a set of values.
    Set,
    /// Item by item; these members identify one.
    Keyed(Box<[&'static str]>),
}

/// What structured merge knows about one built-in struct beyond its members.
#[derive(Clone, Copy, Debug)]
pub struct Merging(Option<&'static Relations>);

impl Merging {
    /// Of the struct with this short name, see [`StructType::name`].
    pub fn of(name: &str) -> Self {
        Self(TABLE.get(name))
    }

    /// Whether the struct is one value.
    pub fn is_atomic(self) -> bool {
        self.0.is_some_and(|found| found.is_atomic)
    }

    /// How a member is merged; `None` when its shape says it.
    pub fn member(self, name: &str) -> Option<&'static Relation> {
        self.0?.members.iter().find(|(member, _)| *member == name).map(|(_, relation)| relation)
    }

    /// What a member is when an item leaves it out; only members that identify items have one.
    pub fn default_of(self, name: &str) -> Option<&'static Value> {
        self.0?.defaults.iter().find(|(member, _)| *member == name).map(|(_, value)| value)
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type<'a>(Inner<'a>);

#[derive(Clone, Copy, Debug)]
enum Inner<'a> {
    Known(Shape, Option<&'static Relation>),
    Root(&'static StructType),
    /// Told by the schema of a definition.
    Custom(&'a Node),
    /// Maps are granular, the rest is one value.
    Deduced,
    /// As deduced, but something is known about lists.
    Hinted(&'a Hint),
    /// Everything is one value.
    Whole,
}

/// What a type is for one value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom<'a> {
    Scalar(Scalar),
    List(ListType<'a>),
    Map(MapType<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Number,
    Bool,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ListType<'a> {
    pub(super) item: Type<'a>,
    pub(super) items: Items<'a>,
}

/// What identifies the items of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Items<'a> {
    /// Nothing: the list is one value.
    Atomic,
    /// Their value.
    Set,
    /// Some of their members.
    Keyed(&'static [&'static str]),
    /// The same, told by a definition.
    Named(&'a [SmolStr]),
    /// The same, known from records only.
    Recorded(&'a Keys),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MapType<'a> {
    pub(super) is_atomic: bool,
    members: Members<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Members<'a> {
    Named(&'static StructType, Option<&'static Relations>),
    All(Type<'a>),
    Hinted(&'a Hint),
    Custom(&'a MapNode),
}

impl<'a> Type<'a> {
    pub(super) const DEDUCED: Self = Self(Inner::Deduced);

    /// The type of a built-in kind.
    pub(super) fn builtin(gvk: &Gvk) -> Option<Self> {
        Some(Self(Inner::Root(Schema::of(gvk)?)))
    }

    /// The type of a custom resource.
    pub(super) fn custom(types: &'a SchemaTypes) -> Self {
        Self(Inner::Custom(&types.root))
    }

    /// Whether the type is that of a custom resource.
    pub(super) fn is_custom(self) -> bool {
        matches!(self.0, Inner::Custom(_))
    }

    /// A deduced type, with what is known about its lists.
    pub(super) fn hinted(hint: &'a Hint) -> Self {
        Self(Inner::Hinted(hint))
    }

    /// What this type is for a value, or in itself. A deduced type looks at the value.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self.0 {
            Inner::Root(known) => Atom::Map(struct_map(known, None)),
            Inner::Known(shape, relation) => known_atom(shape, relation, value),
            Inner::Deduced => open_atom(Self::DEDUCED, false, value),
            Inner::Hinted(hint) => hinted_atom(hint, value),
            Inner::Custom(node) => custom_atom(node, value),
            Inner::Whole => open_atom(Self(Inner::Whole), true, value),
        }
    }

    /// What a key of an item is when the item leaves it out.
    pub(super) fn default_of(self, key: &str) -> Option<&'a Value> {
        match self.atom(None) {
            Atom::Map(MapType { members: Members::Named(_, relations), .. }) => {
                relations?.defaults.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
            }
            Atom::Map(MapType { members: Members::Custom(map), .. }) => map.defaults.get(key),
            _ => None,
        }
    }

    /// Whether the type says nothing about what is below.
    pub(super) fn is_deduced(self) -> bool {
        matches!(
            self.0,
            Inner::Deduced | Inner::Hinted(_) | Inner::Known(Shape::Any, _) | Inner::Custom(Node::Deduced)
        )
    }
}

impl Items<'_> {
    /// Whether the list is one value.
    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic)
    }
}

impl<'a> MapType<'a> {
    /// Whether the type names this member.
    pub(super) fn declares(&self, name: &str) -> bool {
        match self.members {
            Members::Named(known, _) => known.field(name).is_some(),
            Members::Custom(map) => map.members.contains_key(name),
            Members::All(_) | Members::Hinted(_) => false,
        }
    }

    /// Whether members that the type does not name may be there.
    pub(super) fn is_open(&self) -> bool {
        match self.members {
            Members::Named(..) => false,
            Members::Custom(map) => map.rest.is_some(),
            Members::All(_) | Members::Hinted(_) => true,
        }
    }

    /// The type of a member; a member that is not known has a deduced one.
    pub(super) fn member(&self, name: &str) -> Type<'a> {
        match self.members {
            Members::All(element) => element,
            Members::Hinted(hint) => hinted(hint.member(name)),
            Members::Custom(map) => {
                let member = map.members.get(name).or(map.rest.as_deref());
                member.map_or(Type::DEDUCED, |node| Type(Inner::Custom(node)))
            }
            Members::Named(known, relations) => known.field(name).map_or(Type::DEDUCED, |field| {
                let relation = relations.and_then(|relations| {
                    relations.members.iter().find(|(member, _)| *member == name).map(|(_, relation)| relation)
                });
                Type(Inner::Known(field.shape, relation))
            }),
        }
    }
}

fn hinted(hint: Option<&Hint>) -> Type<'_> {
    hint.map_or(Type::DEDUCED, Type::hinted)
}

fn hinted_atom<'a>(hint: &'a Hint, value: Option<&Value>) -> Atom<'a> {
    let items = match (&hint.items, value) {
        (ItemHint::Set, None | Some(Value::Array(_))) => Items::Set,
        (ItemHint::Keyed(keys), None | Some(Value::Array(_))) => Items::Recorded(keys),
        (_, None | Some(Value::Null | Value::Object(_))) => {
            let is_filled = value.and_then(Value::as_object).is_some_and(|members| !members.is_empty());
            let is_atomic = is_filled && hint.is_whole();
            return Atom::Map(MapType { is_atomic, members: Members::Hinted(hint) });
        }
        _ => return open_atom(Type::DEDUCED, false, value),
    };
    Atom::List(ListType { item: hinted(hint.item()), items })
}

fn custom_atom<'a>(node: &'a Node, value: Option<&Value>) -> Atom<'a> {
    match node {
        Node::Scalar(scalar) => Atom::Scalar(*scalar),
        Node::Deduced => open_atom(Type::DEDUCED, false, value),
        // Every built-in kind has the same metadata.
        Node::Metadata => Schema::of(&Gvk::new("", "v1", "ConfigMap"))
            .and_then(|known| known.field("metadata"))
            .map_or_else(
                || open_atom(Type::DEDUCED, false, value),
                |field| known_atom(field.shape, None, value),
            ),
        Node::List(ListNode { item, items }) => Atom::List(ListType {
            item: Type(Inner::Custom(item)),
            items: match items {
                ItemsNode::Atomic => Items::Atomic,
                ItemsNode::Set => Items::Set,
                ItemsNode::Keyed(keys) => Items::Named(keys),
            },
        }),
        Node::Map(map) => Atom::Map(MapType { is_atomic: map.is_atomic, members: Members::Custom(map) }),
    }
}

fn known_atom(shape: Shape, relation: Option<&'static Relation>, value: Option<&Value>) -> Atom<'static> {
    match shape {
        Shape::Text | Shape::Bytes => Atom::Scalar(Scalar::Text),
        Shape::Bool => Atom::Scalar(Scalar::Bool),
        Shape::Int32 | Shape::Int64 => Atom::Scalar(Scalar::Number),
        Shape::Quantity | Shape::Time | Shape::MicroTime | Shape::IntOrText => Atom::Scalar(Scalar::Any),
        Shape::Any => open_atom(Type(Inner::Whole), true, value),
        Shape::Pointer(_) => shape.element().map_or_else(
            || open_atom(Type::DEDUCED, false, value),
            |inner| known_atom(inner, relation, value),
        ),
        Shape::Struct(_) => shape.struct_type().map_or_else(
            || open_atom(Type::DEDUCED, false, value),
            |known| Atom::Map(struct_map(known, relation)),
        ),
        Shape::List(_) => Atom::List(ListType {
            item: element_of(shape),
            items: match relation {
                Some(Relation::Set) => Items::Set,
                Some(Relation::Keyed(keys)) => Items::Keyed(keys),
                Some(Relation::Atomic | Relation::Granular) | None => Items::Atomic,
            },
        }),
        Shape::Map(_) => Atom::Map(MapType {
            is_atomic: relation == Some(&Relation::Atomic),
            members: Members::All(element_of(shape)),
        }),
    }
}

fn element_of(shape: Shape) -> Type<'static> {
    shape.element().map_or(Type::DEDUCED, |element| Type(Inner::Known(element, None)))
}

fn struct_map(known: &'static StructType, relation: Option<&'static Relation>) -> MapType<'static> {
    let relations = TABLE.get(known.name());
    let is_atomic = match relation {
        Some(Relation::Granular) => false,
        Some(Relation::Atomic) => true,
        _ => relations.is_some_and(|relations| relations.is_atomic),
    };
    // A struct without members says nothing about them.
    let members = if known.fields().is_empty() {
        Members::All(Type::DEDUCED)
    } else {
        Members::Named(known, relations)
    };
    MapType { is_atomic, members }
}

fn open_atom<'a>(element: Type<'a>, is_atomic: bool, value: Option<&Value>) -> Atom<'a> {
    match value {
        None | Some(Value::Null | Value::Object(_)) => {
            Atom::Map(MapType { is_atomic, members: Members::All(element) })
        }
        Some(Value::Array(_)) => Atom::List(ListType { item: Type(Inner::Whole), items: Items::Atomic }),
        Some(_) => Atom::Scalar(Scalar::Any),
    }
}

/// Reads the text. It is our own, so a line that does not parse is left out; a test counts them.
fn read() -> HashMap<&'static str, Relations> {
    let mut table: HashMap<&'static str, Relations> = HashMap::new();
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (Some(tag), Some(name)) = (words.next(), words.next()) else { continue };
        let found = table.entry(name).or_default();
        match (tag, words.next(), words.next()) {
            ("a", None, None) => found.is_atomic = true,
            ("m", Some(member), Some(relation)) => {
                if let Some(relation) = read_relation(relation) {
                    found.members.push((member, relation));
                }
            }
            ("d", Some(member), Some(json)) => {
                if let Ok(value) = serde_json::from_str(json) {
                    found.defaults.push((member, value));
                }
            }
            _ => {}
        }
    }
    table
}

fn read_relation(text: &'static str) -> Option<Relation> {
    Some(match text {
        "atomic" => Relation::Atomic,
        "granular" => Relation::Granular,
        "set" => Relation::Set,
        _ => Relation::Keyed(text.strip_prefix("keys=")?.split(',').collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list at a path of members and items.
    fn items(gvk: &Gvk, path: &[&str]) -> String {
        let mut found = Type::builtin(gvk).unwrap();
        for name in path {
            found = match found.atom(None) {
                Atom::Map(map) => map.member(name),
                Atom::List(list) => match list.item.atom(None) {
                    Atom::Map(map) => map.member(name),
                    other => panic!("{name} in {other:?}"),
                },
                Atom::Scalar(_) => panic!("{name} in a scalar"),
            };
        }
        match found.atom(None) {
            Atom::List(list) => format!("{:?}", list.items),
            other => panic!("{path:?} is {other:?}"),
        }
    }

    #[test]
    fn eng_86_every_line_of_the_table_is_read() {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#')).count();
        let read: usize = TABLE
            .values()
            .map(|found| usize::from(found.is_atomic) + found.members.len() + found.defaults.len())
            .sum();
        assert_eq!(read, lines);
        assert!(TEXT.len() < 20_000, "{} bytes of text", TEXT.len());
    }

    #[test]
    fn eng_209_lists_have_the_keys_of_the_schema() {
        let pod = Gvk::new("", "v1", "Pod");
        let service = Gvk::new("", "v1", "Service");
        assert_eq!(items(&pod, &["spec", "containers", "ports"]), "Keyed([\"containerPort\", \"protocol\"])");
        assert_eq!(items(&service, &["spec", "ports"]), "Keyed([\"port\", \"protocol\"])");
        assert_eq!(items(&service, &["status", "conditions"]), "Keyed([\"type\"])");
        assert_eq!(items(&pod, &["metadata", "finalizers"]), "Set");
        assert_eq!(items(&pod, &["spec", "tolerations"]), "Atomic");
        let role = Gvk::new("rbac.authorization.k8s.io", "v1", "Role");
        assert_eq!(items(&role, &["rules"]), "Atomic");
        let ingress = Gvk::new("networking.k8s.io", "v1", "Ingress");
        assert_eq!(items(&ingress, &["spec", "rules"]), "Atomic");
    }
}
