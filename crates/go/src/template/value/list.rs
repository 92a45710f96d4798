//! Lists: Go's slices, shared by reference.

use super::types::ListType;
use super::{Value, release};
use std::cell::RefCell;
use std::rc::Rc;

/// A slice: some items of an array that others may see too.
///
/// Copies are references. The only thing in all of the functions that writes into an array is `sortAlpha`, which
/// sorts a list of texts where it stands.
#[derive(Clone)]
pub struct List(Rc<Slice>);

struct Slice {
    list_type: &'static ListType,
    /// A nil slice has no items, and is `null` in JSON.
    nil: bool,
    /// Go's `cap`, as far as `slice` lets one see it.
    capacity: usize,
    items: Items,
}

enum Items {
    Own(RefCell<Vec<Value>>),
    /// A part of another list's array, from here on and so many.
    Part {
        whole: List,
        start: usize,
        length: usize,
    },
}

impl List {
    /// A list of items of any type, `[]interface {}`.
    pub fn new(items: Vec<Value>) -> Self {
        Self::typed(&ListType::ANY, items)
    }

    /// A list of items that all have the type's item type.
    pub fn typed(list_type: &'static ListType, items: Vec<Value>) -> Self {
        let capacity = items.len();
        Self::with_capacity(list_type, items, capacity)
    }

    /// The same, with room for more behind the items, which `slice` may reach for.
    pub fn with_capacity(list_type: &'static ListType, items: Vec<Value>, capacity: usize) -> Self {
        let capacity = capacity.max(items.len());
        Self(Rc::new(Slice { list_type, nil: false, capacity, items: Items::Own(RefCell::new(items)) }))
    }

    /// The same for items that were appended one by one to nothing.
    pub fn appended(list_type: &'static ListType, items: Vec<Value>) -> Self {
        let capacity = Self::appended_to(list_type, 0, items.len());
        Self::with_capacity(list_type, items, capacity)
    }

    /// The capacity after items are appended one by one to an empty slice of a capacity, up to a length.
    pub(crate) fn appended_to(list_type: &ListType, capacity: usize, length: usize) -> usize {
        let mut capacity = capacity;
        while capacity < length {
            capacity = grown(list_type.item_bytes(), capacity, capacity + 1);
        }
        capacity
    }

    /// The capacity after items are appended at once to a full slice.
    pub(crate) fn grown(list_type: &ListType, capacity: usize, length: usize) -> usize {
        grown(list_type.item_bytes(), capacity, length)
    }

    /// The nil slice of a type.
    pub fn nil(list_type: &'static ListType) -> Self {
        Self(Rc::new(Slice {
            list_type,
            nil: true,
            capacity: 0,
            items: Items::Own(RefCell::new(Vec::new())),
        }))
    }

    /// The type.
    pub fn list_type(&self) -> &'static ListType {
        self.0.list_type
    }

    /// Whether it is the nil slice.
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        match &self.0.items {
            Items::Own(items) => items.borrow().len(),
            Items::Part { length, .. } => *length,
        }
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Go's `cap`.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// The item at an index.
    pub fn get(&self, index: usize) -> Option<Value> {
        match &self.0.items {
            Items::Own(items) => items.borrow().get(index).cloned(),
            Items::Part { whole, start, length } if index < *length => {
                // Behind the items of the whole there is room, which is filled with zeros.
                whole.get(start + index).or_else(|| Some(self.0.list_type.item.zero()))
            }
            Items::Part { .. } => None,
        }
    }

    /// All items, in order.
    pub fn to_vec(&self) -> Vec<Value> {
        match &self.0.items {
            Items::Own(items) => items.borrow().clone(),
            Items::Part { length, .. } => (0..*length).filter_map(|index| self.get(index)).collect(),
        }
    }

    /// Calls something with each item until it answers false; whether it never did.
    pub fn all(&self, mut ask: impl FnMut(&Value) -> bool) -> bool {
        (0..self.len()).all(|index| self.get(index).is_none_or(|item| ask(&item)))
    }

    /// The part from one index to another of the same array, with the capacity that is left.
    ///
    /// The caller has seen to it that the end is not beyond the capacity.
    #[must_use]
    pub fn part(&self, start: usize, end: usize, capacity: usize) -> Self {
        self.view(self.0.list_type, start, end.saturating_sub(start), capacity)
    }

    /// The same items under another type that Go takes for the same, such as a named one.
    #[must_use]
    pub fn retyped(&self, list_type: &'static ListType) -> Self {
        self.view(list_type, 0, self.len(), self.0.capacity)
    }

    fn view(&self, list_type: &'static ListType, start: usize, length: usize, capacity: usize) -> Self {
        // Parts of parts are parts of the whole, so that no chain of them grows.
        let (whole, offset) = match &self.0.items {
            Items::Own(_) => (self.clone(), 0),
            Items::Part { whole, start, .. } => (whole.clone(), *start),
        };
        let items = Items::Part { whole, start: offset + start, length };
        Self(Rc::new(Slice { list_type, nil: self.0.nil, capacity, items }))
    }

    /// Writes items over those that are there, from the first on.
    pub(crate) fn overwrite(&self, items: Vec<Value>) {
        match &self.0.items {
            Items::Own(own) => {
                for (to, from) in own.borrow_mut().iter_mut().zip(items) {
                    *to = from;
                }
            }
            Items::Part { whole, start, .. } => {
                let mut all = whole.to_vec();
                for (to, from) in all.iter_mut().skip(*start).zip(items) {
                    *to = from;
                }
                whole.overwrite(all);
            }
        }
    }

    /// Whether two are the same slice.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        if let Items::Own(items) = &mut self.items {
            release(std::mem::take(items.get_mut()));
        }
    }
}

impl List {
    /// Takes the items out if nobody else has the list.
    pub(super) fn take_unshared(&mut self) -> Vec<Value> {
        match Rc::get_mut(&mut self.0) {
            Some(Slice { items: Items::Own(items), .. }) => std::mem::take(items.get_mut()),
            _ => Vec::new(),
        }
    }
}

/// Sizes that Go's allocator hands out, in bytes.
const SIZE_CLASSES: &[usize] = &[
    8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416,
    448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200,
    3456, 4096, 4864, 5120, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568,
    14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
];
/// Larger ones are whole pages.
const PAGE_BYTES: usize = 8192;
/// From this size on, memory that holds pointers has a header.
const HEADER_FROM_BYTES: usize = 512;
const HEADER_BYTES: usize = 8;
/// Up to this capacity Go doubles.
const DOUBLED_MAX: usize = 256;

/// The capacity after appending some items at once to a full slice of a capacity.
fn grown(item_bytes: usize, capacity: usize, length: usize) -> usize {
    let doubled = capacity.saturating_mul(2);
    let wanted = if length > doubled {
        length
    } else if capacity < DOUBLED_MAX {
        doubled
    } else {
        let mut wanted = capacity;
        while wanted < length {
            wanted += (wanted + 3 * DOUBLED_MAX) / 4;
        }
        wanted
    };
    // Only whole numbers are kept without pointers.
    let pointers = item_bytes > 8;
    (allocated(wanted.saturating_mul(item_bytes), pointers) / item_bytes).max(length)
}

/// What is allocated for so many bytes.
fn allocated(bytes: usize, pointers: bool) -> usize {
    let header = if pointers && bytes > HEADER_FROM_BYTES { HEADER_BYTES } else { 0 };
    let wanted = bytes + header;
    match SIZE_CLASSES.iter().find(|class| **class >= wanted) {
        Some(class) if wanted <= 32_768 - 1_024 || header == 0 => class - header,
        _ => bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES,
    }
}
