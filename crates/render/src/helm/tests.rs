use std::sync::Arc;

use serde_json::json;
use tiphys_api::application::ApplicationSource;

use super::*;
use crate::needs::{NeedLimits, Supplies, Supply, supply_at_once};
use crate::plan::RefSource;
use crate::{MemoryEntry, MemoryTree, Tree, render as render_source};

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
const SHOW: &str = "kind: Show\nvalues: {{ toJson .Values }}\nrelease: {{ .Release.Name }}.{{ .Release.Namespace }}\nkube: {{ .Capabilities.KubeVersion.Version }}\n";

fn tree(files: &[(&str, &str)]) -> Arc<MemoryTree> {
    let chart = [("app/Chart.yaml", CHART), ("app/templates/show.yaml", SHOW)];
    let files = chart.iter().chain(files).map(|(path, text)| (*path, (*text).to_owned()));
    Arc::new(MemoryTree::from_files(files).unwrap())
}

struct World {
    tree: Arc<dyn Tree>,
    context: RenderContext,
    supplies: Vec<(Need, Supply)>,
}

impl World {
    fn of(files: &[(&str, &str)]) -> Self {
        let mut context = RenderContext { instance_name: "team_shop".to_owned(), ..RenderContext::default() };
        context.destination_namespace = "prod".to_owned();
        Self { tree: tree(files), context, supplies: Vec::new() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn render(&self, helm: Value) -> Result<Vec<Value>, RenderError> {
        let source: ApplicationSource =
            serde_json::from_value(json!({"repoURL": "https://h/r", "path": "app", "helm": helm})).unwrap();
        let request = self.context.request(&source, "0123456789");
        let attempt = |supplies: &Arc<Supplies>| {
            let inputs = Inputs { supplies, ..Inputs::of(self.tree.as_ref()) };
            render_source(&request, &inputs, &Budget::default())
        };
        let bring = |need: &Need| {
            let found = self.supplies.iter().find(|(known, _)| known == need);
            found
                .map(|(_, supply)| supply.clone())
                .ok_or_else(|| RenderError::new(Reason::NetworkRequired, need.to_string()))
        };
        supply_at_once(NeedLimits::default(), attempt, bring).map(|rendered| rendered.objects)
    }

    fn values(&self, helm: Value) -> Value {
        self.render(helm).unwrap_or_else(|error| panic!("{error}"))[0]["values"].clone()
    }

    fn error(&self, helm: Value) -> (Reason, String) {
        let error = self.render(helm).unwrap_err();
        (error.reason, error.message)
    }
}

#[test]
fn rnd_2_the_command_that_makes_the_same_can_be_typed() {
    let world = World::of(&[("app/one.yaml", "a: 1"), ("shared/two.yaml", "b: 2"), ("app/it's", "text")]);
    let source: ApplicationSource = serde_json::from_value(json!({"repoURL": "https://h/r", "path": "app",
        "helm": {"kubeVersion": "1.30.0", "valueFiles": ["one.yaml", "/shared/two.yaml"],
            "parameters": [{"name": "a", "value": "x y"}],
            "fileParameters": [{"name": "f", "path": "it's"}]}}))
    .unwrap();
    let request = world.context.request(&source, "0123456789");
    let inputs = Inputs::of(world.tree.as_ref());
    let lines = crate::command_lines(&request, crate::SourceType::Helm, &inputs, &Budget::default());
    let expected = r"helm template . --name-template shop --namespace prod --kube-version 1.30.0 --set 'a=x y' --set-file 'f=it'\''s' --values one.yaml --values shared/two.yaml --include-crds";
    let Ok(Outcome::Done(lines)) = lines else { panic!("nothing is lacking") };
    assert_eq!(lines, [expected]);
}

#[test]
fn rnd_94_values_lie_over_each_other() {
    let world = World::of(&[
        ("app/values.yaml", "a: chart\nb: chart\nc: chart\nd: chart\ne: chart"),
        ("app/one.yaml", "b: one\nc: one\nd: one"),
        ("shared/two.yaml", "c: two\nd: two"),
        ("app/text", "from a file"),
    ]);
    let values = world.values(json!({
        "valueFiles": ["one.yaml", "/shared/two.yaml"],
        "valuesObject": {"d": "object"},
        "values": "d: hidden\nz: hidden",
        "parameters": [{"name": "e", "value": "x,y"}, {"name": "n", "value": "1"}, {"name": "n", "value": "2"},
            {"name": "t", "value": "7", "forceString": true}, {"name": "rev", "value": "$ARGOCD_APP_REVISION_SHORT"}],
        "fileParameters": [{"name": "f", "path": "text"}],
    }));
    let expected = json!({"a": "chart", "b": "one", "c": "two", "d": "object", "e": "x,y", "n": 2, "t": "7",
        "rev": 123_456, "f": "from a file"});
    // The short revision begins with a zero, so it is a text.
    let mut expected = expected;
    expected["rev"] = json!("0123456");
    assert_eq!(values, expected);
    assert_eq!(world.values(json!({"values": "a: own"}))["a"], "own");
}

#[test]
fn rnd_91_names_and_versions() {
    let mut world = World::of(&[]);
    world.context.cluster = crate::plan::ClusterFacts::new("v1.30.11+IKS", Vec::new());
    let shown = |helm| {
        let objects = world.render(helm).unwrap();
        format!("{} {}", objects[0]["release"].as_str().unwrap(), objects[0]["kube"].as_str().unwrap())
    };
    assert_eq!(shown(json!({})), "shop.prod v1.30.11");
    assert_eq!(shown(json!({"releaseName": "r", "namespace": "n", "kubeVersion": "v1.28"})), "r.n v1.28");
    assert_eq!(
        world.error(json!({"version": "v2"})),
        (Reason::HelmVersionUnsupported, "helm version 'v2' is not supported".to_owned())
    );
    assert_eq!(world.error(json!({"kubeVersion": "latest"})).0, Reason::KubeVersionParse);
    assert!(world.render(json!({"version": "v3"})).is_ok());
}

#[test]
fn rnd_99_to_102_where_value_files_are() {
    let world = World::of(&[
        ("app/env/a.yaml", "x: {a: 1}"),
        ("app/env/b.yaml", "x: {b: 1}\nlast: b"),
        ("app/env/sub/c.yaml", "x: {c: 1}\nlast: c"),
    ]);
    let of = |names: &[&str], ignore: bool| {
        world
            .render(json!({"valueFiles": names, "ignoreMissingValueFiles": ignore}))
            .map(|objects| objects[0]["values"].clone())
    };
    assert_eq!(of(&["env/*.yaml"], false).unwrap(), json!({"x": {"a": 1, "b": 1}, "last": "b"}));
    assert_eq!(
        of(&["env/**/*.yaml"], false).unwrap()["last"],
        "c",
        "files of a directory before those below it"
    );
    assert_eq!(
        of(&["env/**/*.yaml", "env/b.yaml"], false).unwrap()["last"],
        "b",
        "one that is named keeps its place"
    );
    assert_eq!(of(&["none.yaml", "none/*.yaml"], true).unwrap(), json!({}));
    let error = |names: &[&str]| of(names, false).unwrap_err();
    assert_eq!(error(&["none.yaml"]).reason, Reason::ValuesFileMissing);
    assert_eq!(error(&["no/*.yaml"]).message, "values file glob \"no/*.yaml\" matched no files");
    for name in ["../../x.yaml", "/../x.yaml", "../../app/env/a.yaml"] {
        let error = error(&[name]);
        assert_eq!(error.reason, Reason::ResolvedOutsideRepo, "{name}");
        assert_eq!(error.message, format!("file '{name}' resolved to outside repository root"));
    }
    let error = error(&["ftp://h/x.yaml"]);
    assert_eq!(
        (error.reason, error.message.as_str()),
        (Reason::UrlSchemeNotAllowed, "the URL scheme 'ftp' is not allowed")
    );
}

/// SEC-01..04: no way of naming a value file leads out of the repository, and no message shows what stands there.
#[test]
fn sec_02_value_files_stay_inside() {
    let link = |to: &str| MemoryEntry::Symlink(to.to_owned());
    let file = |text: &str| MemoryEntry::File(text.to_owned().into(), false);
    let entries = [
        ("app/Chart.yaml", file(CHART)),
        ("app/templates/show.yaml", file(SHOW)),
        ("app/inside.yaml", link("../shared.yaml")),
        ("loop.yaml", link("loop.yaml")),
        ("shared.yaml", file("a: 1")),
        ("app/broken.yaml", file("token: [canary")),
    ];
    let mut world = World::of(&[]);
    world.tree = Arc::new(MemoryTree::from_entries(entries).unwrap());
    assert_eq!(world.values(json!({"valueFiles": ["inside.yaml"]})), json!({"a": 1}));
    assert_eq!(world.error(json!({"valueFiles": ["../loop.yaml"]})).0, Reason::SymlinkLoop);
    let (_, message) = world.error(json!({"valueFiles": ["broken.yaml"]}));
    assert!(!message.contains("canary"), "{message}");
    assert_eq!(
        world.error(json!({"fileParameters": [{"name": "a", "path": "../../etc/passwd"}]})).0,
        Reason::ResolvedOutsideRepo
    );
}

#[test]
fn rnd_121_value_files_of_other_sources() {
    let mut world = World::of(&[("app/values.yaml", "a: chart")]);
    let other =
        MemoryTree::from_files([("env/prod.yaml", "a: other"), ("env/x/y.yaml", "b: glob"), ("text", "t")])
            .unwrap();
    // Of a single source the dollar begins a variable.
    assert_eq!(world.error(json!({"valueFiles": ["$values/env/prod.yaml"]})).0, Reason::ValuesFileMissing);
    let name = |name: &str, is_chart| RefSource { name: name.to_owned(), is_chart };
    world.context.refs = Some(Arc::from([]));
    let (reason, text) = world.error(json!({"valueFiles": ["$values/env/prod.yaml"]}));
    assert_eq!(
        (reason, text.as_str()),
        (Reason::RefUnknown, "source referenced \"$values\", but no source has a 'ref' field defined")
    );
    world.context.refs = Some(Arc::from([name("values", false), name("chart", true)]));
    let (_, text) = world.error(json!({"valueFiles": ["$other/x"]}));
    assert_eq!(
        text,
        "source referenced \"$other\", which is not one of the available sources ($chart, $values)"
    );
    assert_eq!(world.error(json!({"valueFiles": ["$chart/x"]})).0, Reason::RefChart);
    // What is mentioned is asked for, and nothing else is.
    assert_eq!(
        world.error(json!({"valueFiles": ["$values/env/prod.yaml"]})),
        (Reason::NetworkRequired, "source $values".to_owned())
    );
    world.supplies.push((Need::Ref { name: "values".to_owned() }, Supply::tree(Arc::new(other))));
    let helm = json!({"valueFiles": ["$values/env/prod.yaml", "$values/env/*/*.yaml"], "fileParameters": [{"name": "t", "path": "$values/text"}]});
    assert_eq!(world.values(helm), json!({"a": "other", "b": "glob", "t": "t"}));
    assert_eq!(world.error(json!({"valueFiles": ["$values/../x"]})).0, Reason::ResolvedOutsideRepo);
}

#[test]
fn rnd_99_value_files_by_url_are_brought() {
    let mut world = World::of(&[]);
    let url = "https://h/values.yaml";
    assert_eq!(world.error(json!({"valueFiles": [url]})).0, Reason::NetworkRequired);
    world.supplies.push((Need::File { url: url.to_owned() }, Supply::bytes("a: url".into())));
    assert_eq!(world.values(json!({"valueFiles": [url]})), json!({"a": "url"}));
    world.context.helm.value_file_schemes.clear();
    assert_eq!(world.error(json!({"valueFiles": [url]})).0, Reason::UrlSchemeNotAllowed);
}

#[test]
fn rnd_103_charts_that_are_missing_are_brought() {
    let list = "dependencies:\n- {name: db, version: 1.x, repository: \"https://h/charts\"}\n- {name: near, version: 0.1.0, repository: \"file://../near\"}\n";
    let chart = format!("{CHART}{list}");
    let mut world = World::of(&[
        ("app/Chart.yaml", &chart),
        ("near/Chart.yaml", "apiVersion: v2\nname: near\nversion: 0.1.0\n"),
        ("near/templates/a.yaml", "kind: Near"),
    ]);
    let need = Need::Chart {
        repository: "https://h/charts".to_owned(),
        name: "db".to_owned(),
        version: "1.x".to_owned(),
    };
    assert_eq!(world.error(json!({})), (Reason::NetworkRequired, need.to_string()));
    let packed = packed_chart();
    world.supplies.push((need, Supply::bytes(packed.into())));
    let kinds: Vec<String> =
        world.render(json!({})).unwrap().iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["Db", "Near", "Show"]);
    for (repository, expected) in [
        ("file://../../x", "resolved to outside repository root"),
        ("\"@stable\"", "no repository definition for @stable"),
        ("ftp://h", "is no repository of charts"),
        ("\"\"", "missing in charts/ directory: db"),
    ] {
        let chart = format!("{CHART}dependencies:\n- {{name: db, version: 1.x, repository: {repository}}}\n");
        let error = World::of(&[("app/Chart.yaml", &chart)]).error(json!({})).1;
        assert!(error.contains(expected), "{repository}: {error}");
    }
}

/// `db` 1.2.0, packed: written by hand, because nothing here packs.
fn packed_chart() -> Vec<u8> {
    use std::io::Write as _;
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in
        [("db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.2.0\n"), ("db/templates/a.yaml", "kind: Db")]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&builder.into_inner().unwrap()).unwrap();
    encoder.finish().unwrap()
}

/// F21: what computes without end ends with the caller's time, and what writes without end with a bound.
#[test]
fn f21_hostile_charts_end_with_an_error_of_their_own() {
    let of = |template: &str| World::of(&[("app/templates/show.yaml", template)]).error(json!({})).1;
    let repeated = of("{{ repeat 1000000000 \"xxxxxxxxxxxxxxxx\" }}");
    assert!(repeated.len() < 1_000, "{repeated}");
    of("{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}");
    of("{{ range until 100000000 }}x{{ end }}");
    of("{{ tpl \"{{ tpl .Values.x . }}\" . }}");
    of("{{ regexMatch \"(a*)*b\" (repeat 100 \"a\") | fail }}");
}
