use super::*;

fn sorted(files: &[(&str, &str)], version: HelmVersion) -> Result<Sorted, OutputError> {
    let files =
        files.iter().map(|(path, text)| RenderedFile { path: (*path).to_owned(), text: (*text).to_owned() });
    let mut budget = OutputBudget { memory: Memory::new(1 << 20), documents: 100 };
    sort(files.collect(), version, &mut budget)
}

fn kinds(files: &[(&str, &str)], version: HelmVersion) -> Vec<String> {
    let sorted = sorted(files, version).unwrap();
    let all = sorted.manifests.iter().chain(&sorted.hooks);
    all.map(|manifest| manifest.object.as_ref().map_or("-".to_owned(), |object| object["kind"].to_string()))
        .collect()
}

#[test]
fn rnd_204_kinds_have_ranks_and_others_follow_by_name() {
    let files = [
        ("c/templates/b.yaml", "kind: Zebra\n---\nkind: Deployment\n---\nkind: Ant"),
        (
            "c/templates/a.yaml",
            "kind: ValidatingWebhookConfiguration\n---\nkind: Service\n---kind: Namespace",
        ),
    ];
    let v4 = ["Namespace", "Service", "Deployment", "ValidatingWebhookConfiguration", "Ant", "Zebra"];
    let v3 = ["Namespace", "Service", "Deployment", "Ant", "ValidatingWebhookConfiguration", "Zebra"];
    let quoted = |kinds: [&str; 6]| kinds.map(|kind| format!("\"{kind}\"")).to_vec();
    assert_eq!(kinds(&files, HelmVersion::V4), quoted(v4));
    assert_eq!(kinds(&files, HelmVersion::V3), quoted(v3));
}

#[test]
fn rnd_203_an_unknown_hook_takes_the_object_away() {
    let object = |hook: &str| format!("kind: Job\nmetadata: {{annotations: {{helm.sh/hook: '{hook}'}}}}");
    let hooks = |text: &str| {
        let sorted = sorted(&[("c/templates/a.yaml", &object(text))], HelmVersion::V4).unwrap();
        assert!(sorted.manifests.is_empty());
        sorted.hooks.into_iter().filter_map(|manifest| manifest.hook).map(|hook| hook.events).next()
    };
    assert_eq!(
        hooks(" Pre-Install, post-upgrade"),
        Some(vec![HookEvent::PreInstall, HookEvent::PostUpgrade])
    );
    assert_eq!(hooks("test-success"), Some(vec![HookEvent::Test]));
    for text in ["crd-install", "", "pre-install,x"] {
        assert_eq!(hooks(text), None, "{text}");
    }
}

#[test]
fn rnd_202_heads_are_lenient_with_scalars_and_strict_with_the_rest() {
    let error =
        |text: &str| sorted(&[("c/templates/a.yaml", text)], HelmVersion::V4).err().map(|e| e.to_string());
    assert_eq!(error("kind: 5\nmetadata: {annotations: {a: 1, b: true, c: null}}"), None);
    assert_eq!(error("# only a comment"), None);
    let list = error("- a").unwrap();
    assert!(list.ends_with("json: cannot unmarshal array into Go value of type util.SimpleHead"), "{list}");
    let nested = error("metadata: {annotations: {a: {b: c}}}").unwrap();
    let expected = "json: cannot unmarshal object into Go struct field .metadata.annotations of type string";
    assert!(
        nested.starts_with("YAML parse error on c/templates/a.yaml: error unmarshaling JSON: "),
        "{nested}"
    );
    assert!(nested.ends_with(expected), "{nested}");
    let broken = error("a: b: c").unwrap();
    assert!(
        broken.starts_with(
            "YAML parse error on c/templates/a.yaml: error converting YAML to JSON: yaml: line 1"
        )
    );
}

#[test]
fn rnd_201_line_ends_are_kept_but_at_the_very_end() {
    let text = "kind: A\ntext: |+\n  x\n\n---\nkind: B\ntext: |+\n  x\n\n";
    let texts = |version| -> Vec<Value> {
        let sorted = sorted(&[("c/templates/a.yaml", text)], version).unwrap();
        sorted.manifests.iter().map(|manifest| manifest.object.as_ref().unwrap()["text"].clone()).collect()
    };
    assert_eq!(texts(HelmVersion::V4), ["x\n\n\n", "x\n"]);
    assert_eq!(texts(HelmVersion::V3), ["x\n", "x\n"]);
}
