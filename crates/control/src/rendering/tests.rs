use std::collections::BTreeMap;
use std::sync::mpsc;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_render::MemoryTree;
use tiphys_render::jsonnet::InProcess;
use tiphys_render::needs::Supply;

use super::*;
use crate::gate::Limits;
use crate::scheduler::Scheduler;

/// One `ConfigMap` whose text has so many bytes.
fn tree(bytes: usize) -> Arc<dyn Tree> {
    let text = "x".repeat(bytes);
    let file = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"a":"{text}"}}}}"#
    );
    Arc::new(MemoryTree::from_files([("app/all.json", file)]).unwrap())
}

fn task(instance: &str) -> RenderTask {
    let mut request = RenderRequest::default();
    instance.clone_into(&mut request.context.instance_name);
    "app".clone_into(&mut request.source.path);
    RenderTask {
        key: AppKey::new("argocd", instance),
        position: 0,
        priority: Priority::Routine,
        request,
        budget: Budget::default(),
        tracking: Arc::new(TrackingSettings::from_settings(&BTreeMap::new(), "argocd")),
        kinds: None,
        secret: Secret::default(),
        hard: false,
        is_asked: false,
    }
}

fn renders(released_bytes_max: u64) -> Renders {
    Renders::keeping(released_bytes_max, gates(), Compute::inline(), Clock::real(), Arc::new(InProcess))
}

/// What needs nothing from outside.
async fn get(
    renders: &Renders,
    tree: Arc<dyn Tree>,
    task: RenderTask,
) -> Result<(Arc<Held>, bool), RenderFailure> {
    match renders.get(tree, task, Arc::default()).await? {
        Outcome::Done(done) => Ok(done),
        Outcome::Needs(needs) => panic!("{needs:?}"),
    }
}

/// One worker may wait for the turn of large sources beside the one that has it.
fn gates() -> Gates {
    Gates::new(Limits { repository: 2, cluster: 2, project: 2 }, Scheduler::new(Clock::real()))
}

/// More than a small rendering may read.
fn large() -> Arc<dyn Tree> {
    tree(600_000)
}

fn text_of(failure: RenderFailure) -> String {
    match failure {
        RenderFailure::Busy(_) => "busy".to_owned(),
        RenderFailure::Text(text) => text,
    }
}

/// RND-159: what the program prints counts, and that the built-in renderer makes something else is counted.
#[tokio::test]
async fn rnd_159_a_source_that_both_render_is_the_program_s_and_a_difference_is_counted() {
    let renders = renders(20_000);
    let config_map = |text: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  text: {text}\n")
    };
    let files = [
        ("app/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n".to_owned()),
        ("app/templates/a.yaml", config_map("ours")),
    ];
    let tree: Arc<dyn Tree> = Arc::new(MemoryTree::from_files(files).unwrap());
    let cm = BTreeMap::from([("tiphys.renderer.projects".to_owned(), "*".to_owned())]);
    let settings = Settings::new(SettingsData { cm, ..SettingsData::default() });
    for (printed, counted) in [("ours", 0), ("theirs", 1)] {
        let mut task = task("shop");
        let annotation = "helm=compare".to_owned();
        task.request.context = task.request.context.with_renderer(Some(&annotation), &settings);
        let lacking = renders.get(Arc::clone(&tree), task.clone(), Arc::default()).await;
        let Ok(Outcome::Needs(needs)) = lacking else { panic!("the program is asked") };
        let mut supplies = Supplies::default();
        supplies.add(needs[0].clone(), Supply::bytes(config_map(printed).into()));
        let made = renders.get(Arc::clone(&tree), task, Arc::new(supplies)).await;
        let Ok(Outcome::Done((held, _))) = made else { panic!("there are objects") };
        let object = held.objects[0].to_value().unwrap();
        assert_eq!(object["data"]["text"], printed);
        let helm = MismatchLabels { tool: "helm" };
        assert_eq!(renders.metrics.mismatches.get_or_create(&helm).get(), counted, "{printed}");
    }
}

/// C24: with a bound for everything, many applications pushed each other out and were rendered at each look.
#[tokio::test]
async fn inv_10_what_applications_hold_is_not_rendered_again_however_much_it_is() {
    let renders = renders(20_000);
    let names: Vec<String> = (0..20).map(|number| format!("app-{number}")).collect();
    let mut targets = Vec::new();
    for name in &names {
        let (held, now) = get(&renders, tree(9_000), task(name)).await.unwrap();
        assert!(now, "{name}");
        targets.push(held);
    }
    for (name, held) in names.iter().zip(&targets) {
        let (again, now) = get(&renders, tree(9_000), task(name)).await.unwrap();
        assert!(!now && Arc::ptr_eq(&again, held), "{name} was rendered again");
    }
    assert_eq!((renders.held(), renders.released_bytes()), (20, 0));
    drop(targets);
    assert_eq!(renders.held(), 0);
}

#[tokio::test]
async fn rnd_144_a_hard_refresh_renders_what_is_held_too() {
    let renders = renders(20_000);
    let (held, _) = get(&renders, tree(10), task("app")).await.unwrap();
    let hard = RenderTask { hard: true, ..task("app") };
    let (anew, now) = get(&renders, tree(10), hard).await.unwrap();
    assert!(now && !Arc::ptr_eq(&anew, &held));
    let (again, now) = get(&renders, tree(10), task("app")).await.unwrap();
    assert!(!now && Arc::ptr_eq(&again, &anew));
}

/// INV-16: what one tenant's sources take delays no rendering of ordinary size, and no worker but a few.
#[tokio::test]
async fn inv_16_large_sources_wait_for_each_other_and_nobody_waits_for_them() {
    let renders = renders(20_000);
    let turn = renders.compute.turn("other", Size::Large).await;
    let of = |project: &str, instance: &str| {
        let mut task = task(instance);
        project.clone_into(&mut task.request.context.project);
        task
    };
    let mut one = Box::pin(get(&renders, large(), of("a", "one")));
    let mut two = Box::pin(get(&renders, large(), of("b", "two")));
    assert!((&mut one).now_or_never().is_none() && (&mut two).now_or_never().is_none());
    let three = get(&renders, large(), task("three")).now_or_never();
    assert!(matches!(three, Some(Err(RenderFailure::Busy(_)))));
    // One small rendering at a time, and those who wait for the large turn are none.
    let small = get(&renders, tree(1_000), task("small")).now_or_never();
    assert!(small.is_some_and(|rendered| rendered.is_ok_and(|(_, now)| now)));
    drop(turn);
    assert_eq!(one.await.unwrap().0.objects.len(), 1);
    assert_eq!(two.await.unwrap().0.objects.len(), 1);
    assert!(get(&renders, large(), task("three")).await.is_ok());
}

/// A directory of very many entries is walked in the turn of large ones, not in that of everybody.
#[tokio::test]
async fn inv_16_a_walk_through_very_many_files_waits_for_the_large_turn() {
    let renders = renders(20_000);
    let mut files: Vec<(String, &str)> = (0..20_001).map(|number| (format!("app/{number}"), "")).collect();
    files.push(("app/all.yaml".to_owned(), "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"));
    let wide: Arc<dyn Tree> = Arc::new(MemoryTree::from_files(files).unwrap());
    let turn = renders.compute.turn("other", Size::Large).await;
    let mut waiting = Box::pin(get(&renders, wide, task("wide")));
    assert!((&mut waiting).now_or_never().is_none());
    drop(turn);
    assert_eq!(waiting.await.unwrap().0.objects.len(), 1);
}

/// A bomb fails with the bound of one source, and is not tried in every round (INV-16).
#[tokio::test]
async fn sec_07_a_bomb_is_told_with_the_bound_of_one_source() {
    let renders = renders(20_000);
    let mut bomb = format!("kind: A\na0: &a0 [{}]\n", "x".repeat(4_000));
    for level in 1..6 {
        let below = vec![format!("*a{}", level - 1); 10].join(",");
        bomb = format!("{bomb}a{level}: &a{level} [{below}]\n");
    }
    let bomb: Arc<dyn Tree> = Arc::new(MemoryTree::from_files([("app/all.yaml", bomb)]).unwrap());
    let bound = Budget::default().memory.to_string();
    for attempt in 1..=3 {
        let failed = get(&renders, Arc::clone(&bomb), task("app")).await;
        let text = failed.map(|_| ()).map_err(text_of).unwrap_err();
        assert!(text.contains(&bound), "{text}");
        assert_eq!(text.starts_with(CACHED), attempt > 1, "{attempt}: {text}");
    }
}

/// A tree that stands still in the middle of reading.
struct Slow {
    tree: Arc<dyn Tree>,
    began: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Tree for Slow {
    fn id(&self) -> &str {
        self.tree.id()
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        self.tree.subtree_id(path)
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        self.tree.entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        self.tree.list(path)
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        self.began.send(()).unwrap();
        self.go_on.lock().recv().unwrap();
        self.tree.read(path, max_bytes)
    }

    fn escaping_link(&self, limit: &mut WalkLimit<'_>) -> Result<Option<TreePath>, TreeError> {
        self.tree.escaping_link(limit)
    }
}

/// What took too long was given up, but went on in its thread while the next one began.
#[tokio::test]
async fn sec_07_a_rendering_that_nobody_waits_for_keeps_its_turn_until_it_ends() {
    let renders = Renders::keeping(20_000, gates(), Compute::threads(), Clock::real(), Arc::new(InProcess));
    // The small attempt reads nothing that is too large for it, and ends; then the large one stands still.
    let (began, begun) = mpsc::channel();
    let (go, go_on) = mpsc::channel();
    let slow = Arc::new(Slow { tree: large(), began, go_on: Mutex::new(go_on) });
    go.send(()).unwrap();
    let waiting = tokio::spawn({
        let renders = renders.clone();
        async move { get(&renders, slow, task("slow")).await.map(|_| ()) }
    });
    let seen = tokio::task::spawn_blocking(move || {
        begun.recv().unwrap();
        begun.recv().unwrap();
    });
    seen.await.unwrap();
    waiting.abort();
    assert!(waiting.await.is_err());
    assert!(renders.compute.turn("other", Size::Large).now_or_never().is_none());
    go.send(()).unwrap();
    drop(renders.compute.turn("other", Size::Large).await);
}

/// A chart that computes ended with its own bounds alone, up to 90 s after the process was told to stop.
#[tokio::test]
async fn inv_16_a_rendering_that_nobody_waits_for_ends() {
    let renders = Renders::keeping(20_000, gates(), Compute::threads(), Clock::real(), Arc::new(InProcess));
    let (began, begun) = mpsc::channel();
    let (go, go_on) = mpsc::channel();
    let slow = Arc::new(Slow { tree: chart(ENDLESS), began, go_on: Mutex::new(go_on) });
    for _read in 0..100 {
        go.send(()).unwrap();
    }
    let held = Arc::downgrade(&slow);
    let waiting = tokio::spawn({
        let renders = renders.clone();
        async move { get(&renders, slow, within_steps("app", u64::MAX)).await.map(|_| ()) }
    });
    tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
    waiting.abort();
    assert!(waiting.await.is_err());
    let ended = async {
        while held.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), ended).await.expect("the computation ends");
}

/// Manifests that come with an operation take as much as those of sources, and took it in the task that asked.
#[tokio::test]
async fn sec_07_manifests_of_an_operation_wait_for_their_turn_too() {
    let renders = renders(20_000);
    let stamp = || Stamp {
        tracking: Arc::new(TrackingSettings::from_settings(&BTreeMap::new(), "argocd")),
        instance_name: "app".to_owned(),
        namespace: "default".to_owned(),
        kinds: None,
    };
    let key = AppKey::new("argocd", "app");
    let manifest = |items: usize| {
        let items = vec![r#"{"":0}"#; items].join(",");
        vec![format!(r#"{{"apiVersion":"v1","kind":"A","metadata":{{"name":"a"}},"x":[{items}]}}"#)]
    };
    let local = async |manifests: Vec<String>, budget: Budget| {
        renders.local((&key, "shop"), Priority::Routine, (manifests, stamp()), &budget).await
    };
    let turn = renders.compute.turn("other", Size::Large).await;
    let small = local(manifest(10), Budget::default()).now_or_never();
    assert!(small.is_some_and(|read| read.is_ok_and(|objects| objects.len() == 1)));
    let mut large = Box::pin(local(manifest(20_000), Budget::default()));
    assert!((&mut large).now_or_never().is_none());
    drop(turn);
    assert_eq!(large.await.unwrap().len(), 1);
    let bomb = local(manifest(200_000), Budget::default()).await;
    let text = bomb.map(|_| ()).map_err(text_of).unwrap_err();
    assert!(text.contains(&Budget::default().memory.to_string()), "{text}");
    // The bounds are those of the settings.
    let budget = Budget { memory: 200_000, ..Budget::default() };
    let text = local(manifest(20_000), budget).await.map(|_| ()).map_err(text_of).unwrap_err();
    assert!(text.contains("200000"), "{text}");
}

/// Files of a repository, and what is rendered of them.
fn files(files: &[(&str, &str)]) -> Arc<dyn Tree> {
    Arc::new(MemoryTree::from_files(files.iter().map(|(path, text)| (*path, (*text).to_owned()))).unwrap())
}

fn at(path: &str, revision: &str) -> RenderTask {
    let mut task = task("app");
    path.clone_into(&mut task.request.source.path);
    revision.clone_into(&mut task.request.revision);
    task
}

/// Law 5: a change elsewhere in the repository renders no chart and no overlay, whatever it is built of.
#[tokio::test]
async fn rnd_141_a_change_of_what_was_not_read_renders_nothing() {
    let chart = [
        ("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("chart/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ("apps/web/base/kustomization.yaml", "resources: [a.yaml]"),
        ("apps/web/base/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ("apps/web/prod/kustomization.yaml", "namePrefix: p-\nresources: [../base]"),
    ];
    let with = |more: (&'static str, &'static str)| {
        let mut all = chart.to_vec();
        all.retain(|(path, _)| *path != more.0);
        all.push(more);
        files(&all)
    };
    let renders = renders(1 << 20);
    for path in ["chart", "apps/web/prod"] {
        let mut held = Vec::new();
        let mut look = async |more| {
            let (held_now, now) = get(&renders, with(more), at(path, "1")).await.unwrap();
            held.push(held_now);
            now
        };
        assert!(look(("README.md", "one")).await, "{path}");
        assert!(!look(("README.md", "two")).await, "{path}: another file changed");
        assert!(!look(("apps/other/a.yaml", "kind: X")).await, "{path}: another application changed");
    }
    let changed = with(("apps/web/base/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"));
    let (held, now) = get(&renders, changed, at("apps/web/prod", "1")).await.unwrap();
    assert!(now && held.objects[0].name() == "p-b", "what was read counts, also outside of the directory");
}

/// RND-59, RND-66: a file of the repository may name the revision; then one of another revision is no answer.
#[tokio::test]
async fn rnd_141_what_names_the_revision_is_rendered_for_each() {
    let tree = || {
        files(&[
            (
                "app/.argocd-source.yaml",
                "directory: {jsonnet: {extVars: [{name: r, value: $ARGOCD_APP_REVISION}]}}",
            ),
            ("app/a.jsonnet", "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: std.extVar('r')}}"),
        ])
    };
    let renders = renders(1 << 20);
    let (one, now) = get(&renders, tree(), at("app", "one")).await.unwrap();
    assert!(now && one.objects[0].name() == "one");
    let (two, now) = get(&renders, tree(), at("app", "two")).await.unwrap();
    assert!(now && two.objects[0].name() == "two");
    assert!(!get(&renders, tree(), at("app", "one")).await.unwrap().1);
}

/// What a rendering lacks is asked for, remembered, and a part of the key.
#[tokio::test]
async fn rnd_141_what_was_brought_is_a_part_of_the_key() {
    use tiphys_render::needs::Supply;
    let tree = || {
        files(&[
            ("app/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            (
                "app/templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Values.name }}}\n",
            ),
        ])
    };
    let task = || {
        let mut task = at("app", "1");
        let values = vec!["https://h/values.yaml".to_owned()];
        let helm = tiphys_api::application::HelmSource { value_files: values, ..Default::default() };
        task.request.source.helm = Some(Box::new(helm));
        task
    };
    let renders = renders(1 << 20);
    let needs = || async {
        match renders.get(tree(), task(), Arc::default()).await.ok()? {
            Outcome::Needs(needs) => Some(needs),
            Outcome::Done(_) => None,
        }
    };
    let need = Need::File { url: "https://h/values.yaml".to_owned() };
    assert_eq!(needs().await, Some(vec![need.clone()]));
    assert_eq!(needs().await, Some(vec![need.clone()]), "found without another attempt");
    let with = |text: &'static str| {
        let mut supplies = Supplies::default();
        supplies.add(need.clone(), Supply::bytes(text.into()));
        Arc::new(supplies)
    };
    let render = async |text| match renders.get(tree(), task(), with(text)).await {
        Ok(Outcome::Done((held, now))) => (held.objects[0].name().to_owned(), now),
        _ => panic!("nothing was rendered"),
    };
    assert_eq!(render("name: a").await, ("a".to_owned(), true));
    assert_eq!(render("name: b").await, ("b".to_owned(), true));
    assert_eq!(render("name: a").await, ("a".to_owned(), false));
}

/// A chart whose only template is a text.
fn chart(template: &str) -> Arc<dyn Tree> {
    files(&[
        ("app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n"),
        ("app/templates/all.yaml", template),
    ])
}

const ENDLESS: &str = "{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}";

fn within_steps(instance: &str, steps: u64) -> RenderTask {
    RenderTask { budget: Budget { template_steps: steps, ..Budget::default() }, ..task(instance) }
}

/// B8: a chart that takes all that it may was rendered in every round, and again in the large turn.
#[tokio::test]
async fn inv_16_a_chart_that_takes_too_many_steps_is_tried_again_later() {
    let (clock, time) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let renders = Renders::keeping(20_000, gates(), Compute::inline(), clock, Arc::new(InProcess));
    // More memory does not help: it never waits for the large turn.
    let _large = renders.compute.turn("other", Size::Large).await;
    let text =
        |outcome: Result<(Arc<Held>, bool), RenderFailure>| outcome.map(|_| ()).map_err(text_of).unwrap_err();
    let first = text(get(&renders, chart(ENDLESS), within_steps("app", 10_000)).await);
    assert!(first.contains("app/templates/all.yaml") && first.contains("more than 10000 steps"), "{first}");
    assert!(!first.starts_with(CACHED), "{first}");
    let again = text(get(&renders, chart(ENDLESS), within_steps("app", 10_000)).await);
    assert_eq!(again, format!("{CACHED}{first}"));
    assert!(is_same_failure(&again, &first));
    // A refresh that was asked for, and a new revision, try at once; so does the end of the pause.
    let asked = RenderTask { is_asked: true, ..within_steps("app", 10_000) };
    assert_eq!(text(get(&renders, chart(ENDLESS), asked).await), first);
    let other = format!("{ENDLESS}# other");
    assert_eq!(text(get(&renders, chart(&other), within_steps("app", 10_000)).await), first);
    let again = text(get(&renders, chart(&other), within_steps("app", 10_000)).await);
    assert!(again.starts_with(CACHED), "{again}");
    time.advance(Duration::from_mins(1));
    assert_eq!(text(get(&renders, chart(&other), within_steps("app", 10_000)).await), first);
    // Another revision that renders does not end it: rendering one and the other in turn would give it all the time.
    let fine = chart("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    assert!(get(&renders, fine, within_steps("app", 10_000)).await.is_ok());
    let again = text(get(&renders, chart(&other), within_steps("app", 10_000)).await);
    assert!(again.starts_with(CACHED), "{again}");
    time.advance(Duration::from_mins(2));
    assert_eq!(text(get(&renders, chart(&other), within_steps("app", 10_000)).await), first);
}

/// B8: two charts that computed without end kept all other projects from rendering on two processors.
#[tokio::test]
async fn inv_16_a_project_that_renders_for_long_leaves_a_turn_to_others() {
    let renders = renders(20_000);
    let of = |project: &str, instance: &str| {
        let mut task = task(instance);
        project.clone_into(&mut task.request.context.project);
        task
    };
    // As many as a project may have are at work.
    let mut held = Vec::new();
    while let Some(turn) = renders.compute.turn("greedy", Size::Small).now_or_never() {
        held.push(turn);
    }
    let mut more = Box::pin(get(&renders, tree(1_000), of("greedy", "more")));
    assert!((&mut more).now_or_never().is_none());
    let other = get(&renders, tree(1_000), of("other", "one")).now_or_never();
    assert!(other.is_some_and(|rendered| rendered.is_ok()));
    // And those that wait hold few workers: two here.
    let mut waits = Box::pin(get(&renders, tree(1_000), of("greedy", "waits")));
    assert!((&mut waits).now_or_never().is_none());
    let third = get(&renders, tree(1_000), of("greedy", "third")).now_or_never();
    assert!(matches!(third, Some(Err(RenderFailure::Busy(text))) if text == BUSY_PROJECT));
    drop(held);
    assert!(more.await.is_ok() && waits.await.is_ok());
}

/// A chart that needs more memory than small ones have is rendered in the large turn: it failed as wrong before.
#[tokio::test]
async fn sec_07_a_chart_with_much_output_is_rendered_in_the_large_turn() {
    let renders = renders(20_000);
    let turn = renders.compute.turn("other", Size::Large).await;
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n{{ range until 60000 }}  k{{ . }}: v\n{{ end }}";
    let mut waiting = Box::pin(get(&renders, chart(template), task("app")));
    assert!((&mut waiting).now_or_never().is_none());
    drop(turn);
    assert_eq!(waiting.await.unwrap().0.objects.len(), 1);
}
