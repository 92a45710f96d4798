//! What a subject stands for, found once where it is little: most decisions ask twenty groups with one role each, and
//! nearly all of them have nothing to say.

use super::{LINKS_MAX, NameId, Node, Question};

/// Names of one subject that are kept; one with more is followed link by link each time.
const NAMES_MAX: usize = 16;

/// A subject with its roles, and a summary of what they allow.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    pub(super) names: Box<[NameId]>,
    /// Their bits, as [`NameId::bit`].
    pub(super) bits: u64,
    /// Known resources of their allowing rules.
    resources: u16,
    /// Known actions of their allowing rules.
    actions: u16,
}

impl Reach {
    /// Follows the links of a name among the nodes of the lowest layer; `None` when that is too much to keep.
    pub(super) fn of(name: NameId, nodes: &[Node]) -> Option<Self> {
        let node = |name: NameId| nodes.get(usize::try_from(name.0).ok()?);
        let mut names = vec![name];
        let mut from = 0;
        for _ in 0..LINKS_MAX {
            let reached = names.len();
            for at in from..reached {
                for role in
                    names.get(at).and_then(|name| node(*name)).into_iter().flat_map(|node| &node.roles)
                {
                    if !names.contains(role) {
                        names.push(*role);
                    }
                    if names.len() > NAMES_MAX {
                        return None;
                    }
                }
            }
            from = reached;
        }
        let mut reach = Self { names: Box::default(), bits: 0, resources: 0, actions: 0 };
        for name in &names {
            let rules = &node(*name)?.allows;
            reach.bits |= name.bit();
            reach.resources |= rules.resources;
            reach.actions |= rules.actions;
        }
        reach.names = names.into();
        Some(reach)
    }

    /// Whether one of them may allow what is asked, as far as the words are known.
    pub(super) fn may_allow(&self, question: &Question<'_>) -> bool {
        question.resource.is_among(self.resources) && question.action.is_among(self.actions)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Found, LayerBuilder, View};
    use super::*;
    use crate::rbac::lines::{Statement, read};
    use crate::rbac::pattern::{MatchMode, Word, object_key};
    use tiphys_go::steps::Steps;

    fn build<'b>(base: Option<&'b super::super::Layer>, text: &str) -> super::super::Layer {
        let mut builder: LayerBuilder<'b> = LayerBuilder::above(base);
        builder.add_text("t", text, MatchMode::Glob, |_, _: &Statement, _| {}).unwrap();
        builder.build()
    }

    fn policy() -> impl Strategy<Value = String> {
        let name = 0..24u8;
        let link = (name.clone(), name.clone()).prop_map(|(member, role)| format!("g, n{member}, n{role}"));
        let resource = prop_oneof!["applications", "app*", "logs"];
        let action = prop_oneof![Just("get"), Just("*"), Just("sync")];
        let object = prop_oneof!["a/\\*", "\\*/x", "b/y", "\\*"];
        let rule = (name, resource, action, object, any::<bool>()).prop_map(
            |(name, resource, action, object, deny)| {
                format!("p, n{name}, {resource}, {action}, {object}, {}", if deny { "deny" } else { "allow" })
            },
        );
        prop::collection::vec(prop_oneof![2 => link, 3 => rule], 0..60).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        /// What is found out beforehand is what following the links says, cycles and long chains included.
        #[test]
        fn api_80_what_a_subject_stands_for_is_the_same_kept_or_followed(base in policy(), above in policy()) {
            prop_assert!(read("t", &base).all(|line| line.is_ok()));
            let kept = build(None, &base);
            let followed = super::super::Layer { reach: Vec::new(), ..kept.clone() };
            let layer = build(Some(&kept), &above);
            for object in ["a/x", "b/y", "c/x"] {
                let key = object_key(object);
                let views = |base| {
                    let alone = View::of(base, key);
                    [alone, alone.under(&layer, key)]
                };
                for (one, other) in views(&kept).into_iter().zip(views(&followed)) {
                    for name in (0..24).filter_map(|name| one.id(&format!("n{name}"))) {
                        for (resource, action) in [("applications", "get"), ("logs", "sync"), ("else", "get")] {
                            let question = Question { resource: Word::resource(resource), action: Word::action(action), object };
                            let ask = |view: &View<'_>| {
                                view.allows(name, &question, &mut Found::default(), &mut Steps::unlimited()).unwrap()
                            };
                            prop_assert_eq!(ask(&one), ask(&other));
                        }
                    }
                }
            }
        }
    }
}
