//! The order of the output (RND-235).

use smol_str::SmolStr;

use super::Work;
use crate::fault::{Before as _, Fault, Result};
use crate::id::{Gvk, ResourceId};
use crate::kustomization::SortOptions;
use crate::order;

/// Puts the resources in order.
///
/// # Errors
/// When the options contradict each other.
pub(crate) fn sort(work: &mut Work<'_>, options: &SortOptions) -> Result<()> {
    match (options.order.as_str(), &options.legacy) {
        ("fifo", None) => return Ok(()),
        ("fifo", Some(_)) => {
            let what = "the field 'sortOptions.legacySortOptions' is set but the selected sort order is 'fifo', not 'legacy'";
            return Err(Fault::new(what));
        }
        ("legacy", _) => {}
        _ => return Err(Fault::new("the field 'sortOptions.order' must be one of [fifo, legacy]")),
    }
    let names = |names: &[&str]| names.iter().map(SmolStr::new).collect::<Vec<_>>();
    let default = || (names(order::FIRST), names(order::LAST));
    let (first, last) = options.legacy.clone().unwrap_or_else(default);
    let list = std::mem::take(work.resources.list_mut());
    let mut ranked = Vec::with_capacity(list.len());
    for resource in list {
        let id = resource.id(work.graph, work.schemas)?;
        ranked.push((Rank::new(&id, &first, &last), resource));
    }
    ranked.sort_by(|(one, _), (other, _)| one.compare(other));
    let list = ranked.into_iter().map(|(_, resource)| resource).collect();
    work.resources
        .append_all(work.graph, work.schemas, list)
        .before(|| "SortOrderTransformer: Failed to append to resources".to_owned())
}

struct Rank {
    place: isize,
    gvk: Gvk,
    gvk_text: String,
    text: String,
}

impl Rank {
    fn new(id: &ResourceId, first: &[SmolStr], last: &[SmolStr]) -> Self {
        let or =
            |text: &SmolStr, none: &'static str| if text.is_empty() { none.into() } else { text.clone() };
        Self {
            place: order::rank(&id.gvk.kind, first, last),
            gvk_text: id.gvk.sort_text(),
            text: format!("{}|{}|{}", id.gvk, or(&id.namespace, "~X"), or(&id.name, "~N")),
            gvk: id.gvk.clone(),
        }
    }

    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        if self.gvk.equals(&other.gvk) {
            return self.text.cmp(&other.text);
        }
        let by_text = self.gvk_text.cmp(&other.gvk_text);
        let is_namespace = |gvk: &Gvk| gvk.kind == "Namespace";
        // Namespaces of other groups come behind those of Kubernetes.
        let reversed = is_namespace(&self.gvk)
            && is_namespace(&other.gvk)
            && (self.gvk.group.is_empty() || other.gvk.group.is_empty());
        self.place.cmp(&other.place).then(if reversed { by_text.reverse() } else { by_text })
    }
}
