//! Laws that hold for every small object, whatever the golden families contain.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tiphys_object::builtin::{Canonical, canonicalize};
use tiphys_object::strategic::{self, Options};
use tiphys_object::structured::{self, Applied, ApplyRequest, Types};
use tiphys_object::{Gvk, merge_patch, quantity};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from)
    ]
}

/// A tree without nulls: a merge patch cannot make one.
fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            vec(leaf(), 0..3).prop_map(Value::from),
            vec(("[abc]", inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn members() -> impl Strategy<Value = Value> {
    vec(("[abc]", tree()), 0..4).prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// Items of a keyed list, each key once.
fn keyed(
    key: &'static str,
    keys: &'static [&'static str],
    rest: BoxedStrategy<Map<String, Value>>,
) -> BoxedStrategy<Value> {
    let chosen = proptest::sample::subsequence(keys, 0..=keys.len()).prop_shuffle();
    chosen
        .prop_flat_map(move |names| {
            let count = names.len();
            vec(rest.clone(), count).prop_map(move |items| {
                let named = names.iter().zip(items).map(|(name, mut item)| {
                    item.insert(key.to_owned(), Value::from(*name));
                    Value::Object(item)
                });
                Value::Array(named.collect())
            })
        })
        .boxed()
}

fn object(members: Vec<(&'static str, Option<Value>)>) -> Map<String, Value> {
    members.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect()
}

fn pod() -> impl Strategy<Value = Value> {
    let env = option::of("[xy]").prop_map(|value| object(vec![("value", value.map(Value::from))])).boxed();
    let source = prop_oneof![
        Just(("emptyDir", json!({}))),
        Just(("configMap", json!({"name": "c"}))),
        Just(("secret", json!({"secretName": "s"})))
    ];
    let volume = source.prop_map(|(name, value)| object(vec![(name, Some(value))])).boxed();
    let container =
        (option::of("[ij]"), option::of(keyed("name", &["A", "B", "C"], env)), option::of(vec("[pq]", 0..3)))
            .prop_map(|(image, env, args)| {
                object(vec![("image", image.map(Value::from)), ("env", env), ("args", args.map(Value::from))])
            })
            .boxed();
    let finalizers = proptest::sample::subsequence(vec!["f/1", "f/2", "f/3"], 0..=3);
    (
        option::of(keyed("name", &["a", "b", "c"], container)),
        option::of(keyed("name", &["v", "w"], volume)),
        option::of(finalizers),
        option::of(vec(("[kl]", "[12]"), 0..3)),
    )
        .prop_map(|(containers, volumes, finalizers, labels)| {
            let labels = labels.map(|labels| {
                Value::Object(labels.into_iter().map(|(key, value)| (key, Value::from(value))).collect())
            });
            json!({
                "metadata": object(vec![("finalizers", finalizers.map(Value::from)), ("labels", labels)]),
                "spec": object(vec![("containers", containers), ("volumes", volumes)]),
            })
        })
}

fn quantity_text() -> impl Strategy<Value = String> {
    "[+-]?[0-9]{0,4}(\\.[0-9]{0,4})?(n|u|m|k|M|G|T|Ki|Mi|Gi|e[0-9]|E-[0-9])?"
}

/// A merged list may keep an empty list where the target has none; both mean nothing.
fn without_empty_lists(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept =
                members.iter().filter(|(_, member)| member.as_array().is_none_or(|items| !items.is_empty()));
            Value::Object(kept.map(|(name, member)| (name.clone(), without_empty_lists(member))).collect())
        }
        Value::Array(items) => items.iter().map(without_empty_lists).collect(),
        other => other.clone(),
    }
}

/// A pod that a server would take.
fn whole_pod() -> impl Strategy<Value = Value> {
    pod().prop_map(|mut pod| {
        pod["apiVersion"] = Value::from("v1");
        pod["kind"] = Value::from("Pod");
        pod["metadata"]["name"] = Value::from("p");
        pod
    })
}

fn applied(live: Option<&Value>, config: &Value, manager: &str, types: Types) -> Value {
    match structured::apply(live, config, ApplyRequest { manager, subresource: "", force: true, types }).unwrap() {
        Applied::Object(object) => object,
        Applied::Conflicts(conflicts) => panic!("{conflicts:?}"),
    }
}

fn without_books(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

/// Without everything that holds nothing: a server keeps none of it.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().map(|(name, member)| (name.clone(), without_empty(member)));
            Value::Object(kept.filter(|(_, member)| !is_empty(member)).collect())
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

proptest! {
    #[test]
    fn eng_85_the_second_apply_changes_nothing(before in whole_pod(), config in whole_pod(), other in whole_pod()) {
        for types in [Types::Builtin, Types::Deduced] {
            let live = applied(None, &before, "me", types);
            let live = applied(Some(&live), &other, "other", types);
            let once = applied(Some(&live), &config, "me", types);
            let twice = applied(Some(&once), &config, "me", types);
            prop_assert_eq!(without_empty(&without_books(twice)), without_empty(&without_books(once)));
        }
    }

    #[test]
    fn eng_85_a_prediction_is_the_object_of_a_forced_apply(before in whole_pod(), config in whole_pod(), other in whole_pod()) {
        let live = applied(None, &before, "me", Types::Builtin);
        let live = structured::update(Some(&live), &other, "other", Types::Builtin).unwrap();
        let predicted = structured::predict(&live, &config, "me").unwrap().unwrap_or_else(|| live.clone());
        let object = applied(Some(&live), &config, "me", Types::Builtin);
        prop_assert_eq!(without_books(predicted), without_books(object.clone()));
        let again = structured::predict(&object, &config, "me").unwrap().unwrap_or_else(|| object.clone());
        prop_assert_eq!(without_empty(&again), without_empty(&object));
        let books = &object["metadata"]["managedFields"];
        if let Some(kept) = structured::books_for_prediction(books, "me") {
            let mut stored = object.clone();
            stored["metadata"]["managedFields"] = kept;
            let next = structured::predict(&stored, &before, "me").unwrap().map(without_books);
            prop_assert_eq!(next, structured::predict(&object, &before, "me").unwrap().map(without_books));
        }
    }

    #[test]
    fn eng_85_what_only_one_manager_said_is_all_there_is(before in whole_pod(), config in whole_pod()) {
        let live = applied(None, &before, "me", Types::Builtin);
        let object = applied(Some(&live), &config, "me", Types::Builtin);
        prop_assert_eq!(without_empty(&without_books(object)), without_empty(&config));
    }

    #[test]
    fn eng_85_what_another_manager_said_stays(mine in whole_pod(), theirs in whole_pod()) {
        let live = applied(None, &mine, "me", Types::Builtin);
        let live = applied(Some(&live), &theirs, "other", Types::Builtin);
        let nothing = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        let left = applied(Some(&live), &nothing, "me", Types::Builtin);
        let again = applied(Some(&left), &theirs, "other", Types::Builtin);
        prop_assert_eq!(without_empty(&without_books(again)), without_empty(&without_books(left)));
    }

    #[test]
    fn eng_85_no_books_break_a_prediction(fields in tree(), spec in tree()) {
        let live = json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q", "managedFields": [
            {"manager": "me", "operation": "Apply", "apiVersion": "acme.test/v1", "fieldsType": "FieldsV1", "fieldsV1": {
                "f:spec": {"f:a": fields, "f:b": {"k:{\"a\":1}": {"f:a": {}}}, "f:c": {"v:1": {}}}}}]}, "spec": spec});
        let config = json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"a": [{"a": 1}], "b": [{"a": 1, "b": 2}]}});
        let predicted = structured::predict(&live, &config, "me");
        prop_assert!(predicted.is_ok() || predicted.is_err());
    }

    #[test]
    fn eval_767_a_merge_patch_leads_to_its_target(before in members(), after in members()) {
        let patch = merge_patch::create(&before, &after).unwrap();
        prop_assert_eq!(merge_patch::apply(before, &patch), after);
    }

    #[test]
    fn eng_79_a_three_way_merge_patch_settles(original in members(), modified in members(), current in members()) {
        let patch = merge_patch::three_way(&original, &modified, &current);
        let patched = merge_patch::apply(current, &patch);
        prop_assert_eq!(merge_patch::three_way(&modified, &modified, &patched), json!({}));
    }

    #[test]
    fn eval_768_a_strategic_patch_leads_to_its_target(before in pod(), after in pod()) {
        let gvk = Gvk::new("", "v1", "Pod");
        let patch = strategic::create_two_way(&gvk, &before, &after, Options::default()).unwrap();
        let patched = strategic::apply(&gvk, before, &patch, Options::default()).unwrap();
        prop_assert_eq!(without_empty_lists(&patched), without_empty_lists(&after), "{}", patch);
    }

    #[test]
    fn eng_76_a_three_way_strategic_patch_settles(original in pod(), modified in pod(), current in pod()) {
        let gvk = Gvk::new("", "v1", "Pod");
        let patch = strategic::three_way(&gvk, &original, &modified, &current, Options::default()).unwrap();
        let patched = strategic::apply(&gvk, current, &patch, Options::default()).unwrap();
        let again = strategic::three_way(&gvk, &modified, &modified, &patched, Options::default()).unwrap();
        let settled = strategic::apply(&gvk, patched.clone(), &again, Options::default()).unwrap();
        prop_assert_eq!(settled, patched, "{}", patch);
    }

    #[test]
    fn eng_82_unknown_members_merge_like_json(before in members(), after in members()) {
        let gvk = Gvk::new("", "v1", "Pod");
        let wrap = |inner: &Value| json!({"spec": {"unknown": inner}});
        let patch = strategic::create_two_way(&gvk, &wrap(&before), &wrap(&after), Options::default()).unwrap();
        let patched = strategic::apply(&gvk, wrap(&before), &patch, Options::default()).unwrap();
        prop_assert_eq!(patched, wrap(&after));
    }

    #[test]
    fn eng_57_canonicalisation_is_idempotent(pod in pod(), limits in vec(("[cm]", quantity_text()), 0..3)) {
        let mut pod = pod;
        let limits: Map<String, Value> = limits.into_iter().map(|(name, text)| (name, Value::from(text))).collect();
        pod["spec"]["overhead"] = Value::Object(limits);
        let gvk = Gvk::new("", "v1", "Pod");
        let (once, how) = canonicalize(pod, &gvk);
        let (twice, again) = canonicalize(once.clone(), &gvk);
        prop_assert_eq!(how, again);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn eng_57_canonical_quantities_are_stable(text in quantity_text()) {
        if let Ok(canonical) = quantity::canonical_text(&text) {
            prop_assert_eq!(quantity::canonical_text(&canonical).unwrap(), canonical.as_ref());
        }
    }

    #[test]
    fn eng_57_no_text_breaks_the_quantity_reader(text in "[-+.0-9eEinumkKMGTP é]{0,30}") {
        let parsed = quantity::Quantity::parse(&text).map(|found| (found.canonical(), found.value(), found.milli()));
        prop_assert!(parsed.is_ok() || parsed.is_err());
    }

    #[test]
    fn eng_57_other_shapes_are_left_alone(spec in tree()) {
        let given = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": spec, "unknown": 1}});
        let gvk = Gvk::of(&given);
        prop_assert_eq!(canonicalize(given.clone(), &gvk), (given, Canonical::AsWritten));
    }
}
