//! Charts that want more than there is: an error of that rendering, in bounded time and memory (SEC-01, SEC-07).

use std::sync::Arc;

use jiff::Timestamp;
use tiphys_go::template::Still;
use tiphys_helm::{
    Documents, HelmVersion, LoadLimits, RenderLimits, RenderRequest, UserValues, load_directory, render,
};
use tiphys_tree::{MemoryTree, TreePath};

/// What comes of a chart with one template: how many objects, or the error.
fn outcome(template: &str, limits: RenderLimits) -> Result<usize, String> {
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        ("values.yaml", "a: b\n"),
        ("templates/a.yaml", template),
    ];
    let tree = MemoryTree::from_files(files.map(|(path, text)| (path, text.to_owned()))).unwrap();
    let chart = load_directory(&tree, &TreePath::root(), HelmVersion::V4, &LoadLimits::default()).unwrap();
    let request = RenderRequest {
        chart: &Arc::new(chart),
        version: HelmVersion::V4,
        release_name: "rel",
        namespace: "apps",
        kube_version: None,
        api_versions: &[],
        values: &UserValues::default(),
        include_crds: true,
        skip_schema_validation: false,
        skip_tests: false,
        schema_documents: &Documents::new(),
        repositories: &[],
        determinism: None,
        limits,
    };
    let rendered = render(&request, &Still(Timestamp::UNIX_EPOCH)).map_err(|error| error.to_string())?;
    Ok(rendered.objects().count())
}

#[test]
fn sec_01_recursion_long_texts_and_endless_loops_end_with_an_error() {
    for (what, template) in [
        (
            "a template that includes itself",
            "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        ),
        (
            "a text that runs itself",
            "{{ tpl \"{{ tpl .Template.Name . }}{{ tpl (printf \\\"%s\\\" .Values.a) . }}\" . }}{{ range until 2000000000 }}x{{ end }}",
        ),
        ("a text that is repeated", "a: {{ repeat 2000000000 \"x\" }}"),
        (
            "a text that doubles",
            "{{ $x := \"xxxxxxxxxxxxxxxx\" }}{{ range until 40 }}{{ $x = printf \"%s%s\" $x $x }}{{ end }}",
        ),
        ("a list without end", "{{ range until 2000000000 }}{{ . }}{{ end }}"),
        ("a wide number", "{{ printf \"%2000000000d\" 1 }}"),
    ] {
        assert!(outcome(template, RenderLimits::default()).is_err(), "{what}");
    }
}

#[test]
fn sec_07_documents_and_bytes_of_the_result_are_bounded() {
    let many = "{{ range until 20 }}\n---\nkind: A\napiVersion: v1\nmetadata: {name: a{{ . }}}\n{{ end }}";
    assert_eq!(outcome(many, RenderLimits::default()), Ok(20));
    assert!(outcome(many, RenderLimits { documents: 10, ..RenderLimits::default() }).is_err());
    assert!(outcome(many, RenderLimits { output_bytes: 100, ..RenderLimits::default() }).is_err());
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\nkind: A\napiVersion: v1\n";
    assert!(outcome(bomb, RenderLimits { manifests_memory: 64 << 10, ..RenderLimits::default() }).is_err());
}
