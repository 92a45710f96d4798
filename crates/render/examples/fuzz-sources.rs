//! Damaged sources to the renderers: none may panic, and none may go on long after it was told to stop.
//!
//! `cargo run --release -p tiphys-render --example fuzz-sources -- [--seconds N] [--from SEED] [TARGET...]`
//! Each case comes from its number alone; a failing one prints how to run it again.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a program for terminals"
)]
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tiphys_render::needs::Supplies;
use tiphys_render::{Budget, Inputs, MemoryTree, RenderRequest, details, parse_manifests, render};

/// When a case is told to stop.
const STOP_AFTER: Duration = Duration::from_secs(2);
/// When it counts as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(20);

type Files = Vec<(&'static str, &'static str)>;

/// Files of a source, and what its Application says besides.
struct Target {
    name: &'static str,
    files: fn() -> Files,
    source: fn() -> serde_json::Value,
    /// Words that are put into files.
    words: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target {
        name: "helm",
        files: || {
            vec![
                (
                    "app/Chart.yaml",
                    "apiVersion: v2\nname: web\nversion: 1.2.3\nkubeVersion: '>=1.20'\ndependencies:\n- {name: sub, version: '*', alias: other, condition: other.on, tags: [t], import-values: [x, {child: a, parent: b}]}\n",
                ),
                (
                    "app/values.yaml",
                    "a: {b: [1, {c: d}], e: 1e6}\nother: {on: true, global: {g: 1}}\nlist: [x, y]\ntext: |\n  one\n  two\n",
                ),
                (
                    "app/values.schema.json",
                    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"object\"}, \"list\": {\"items\": {\"pattern\": \"^[a-z]+$\"}}}}",
                ),
                ("app/.helmignore", "*.txt\n!keep\n/x/\n"),
                (
                    "app/templates/_helpers.tpl",
                    "{{- define \"n\" -}}{{ .Release.Name | trunc 63 | trimSuffix \"-\" }}{{- end -}}\n{{- define \"m\" }}{{ range $k, $v := . }}{{ $k }}: {{ $v | quote }}\n{{ end }}{{ end }}",
                ),
                (
                    "app/templates/a.yaml",
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include \"n\" . }}\n  labels: {{- toYaml (dict \"a\" 1) | nindent 4 }}\ndata:\n  x: {{ tpl \"{{ .Values.a.e }}\" . | quote }}\n  y: {{ printf \"%05d|%v\" 3 .Values.list | quote }}\n{{- range $i, $e := until 3 }}\n  k{{ $i }}: \"{{ add $i 1 }}\"\n{{- end }}\n{{ with .Values.text }}  t: {{ . | b64enc }}{{ end }}\n",
                ),
                ("app/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 0.1.0\n"),
                ("app/charts/sub/values.yaml", "exports: {x: {y: 1}}\na: {z: 2}\n"),
                (
                    "app/charts/sub/templates/b.yaml",
                    "{{ if and .Values.global .Values.a }}\napiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {helm.sh/hook: pre-install}}\n{{ end }}",
                ),
                (
                    "app/crds/c.yaml",
                    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c}\n",
                ),
            ]
        },
        source: || {
            json!({"repoURL": "r", "path": "app", "helm": {"parameters": [{"name": "a.b[3].c", "value": "{1,2}"}],
                "valueFiles": ["values*.yaml"], "valuesObject": {"z": 1}}})
        },
        words: &[
            "{{",
            "}}",
            "{{-",
            "-}}",
            "| nindent 9",
            "range",
            "end",
            "define \"n\"",
            "template \"n\" .",
            "include \"n\" .",
            "tpl",
            "regexReplaceAll \"(a+)+$\"",
            "repeat 999999",
            "until 999999",
            "fromYaml",
            "toJson",
            "semverCompare \">1\"",
            "dig \"a\" \"b\"",
            "mustMergeOverwrite",
            "$",
            "printf \"%9999999d\"",
            "genSignedCert",
            "1e400",
            "0x",
            "lookup",
            ".Files.Glob \"**\"",
            "null",
        ],
    },
    Target {
        name: "kustomize",
        files: || {
            vec![
                (
                    "app/kustomization.yaml",
                    "resources: [a.yaml, ../base]\nnamePrefix: p-\nnamespace: n\ncommonLabels: {l: v}\nimages: [{name: nginx, newTag: '2'}]\nconfigMapGenerator: [{name: c, literals: [a=b], files: [f.txt]}]\npatches:\n- target: {kind: Deployment, name: 'w.*'}\n  patch: |-\n    - {op: replace, path: /spec/replicas, value: 3}\n- patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web}\n    spec: {template: {spec: {containers: [{name: a, env: [{name: X, value: '1'}]}]}}}\nreplacements:\n- source: {kind: ConfigMap, name: c, fieldPath: metadata.name}\n  targets: [{select: {kind: Deployment}, fieldPaths: ['spec.template.spec.containers.[name=a].image'], options: {delimiter: ':', index: 1}}]\nreplicas: [{name: web, count: 2}]\nlabels: [{pairs: {x: y}, includeSelectors: true}]\n",
                ),
                (
                    "app/a.yaml",
                    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {a: b}}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: a, image: 'nginx:1', envFrom: [{configMapRef: {name: c}}]}]}\n",
                ),
                ("app/f.txt", "text\n"),
                (
                    "base/kustomization.yaml",
                    "resources: [b.yaml]\nvars: [{name: V, objref: {kind: Service, name: s, apiVersion: v1}}]\ncomponents: [../comp]\n",
                ),
                (
                    "base/b.yaml",
                    "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 1, name: $(V)}]}\n",
                ),
                (
                    "comp/kustomization.yaml",
                    "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatchesStrategicMerge:\n- |-\n  apiVersion: v1\n  kind: Service\n  metadata: {name: s}\n  $patch: merge\n",
                ),
            ]
        },
        source: || {
            json!({"repoURL": "r", "path": "app", "kustomize": {"images": ["z=y:1@sha256:00"], "nameSuffix": "-s",
                "patches": [{"patch": "- {op: add, path: /metadata/labels/x~1y, value: z}", "target": {"kind": "Service"}}]}})
        },
        words: &[
            "$patch: delete",
            "$patch: replace",
            "- op: move",
            "path: /-",
            "../base",
            "./",
            "&a",
            "*a",
            "<<: *a",
            "[*]",
            "[name=",
            "options: {create: true}",
            "(a+)+",
            "behavior: merge",
            "generatorOptions",
            "helmCharts",
            "openapi: {path: a.yaml}",
            "transformers",
            "crds",
            "nameReference",
            "metadata.name",
            "\u{0}",
            "~1",
            "---",
        ],
    },
    Target {
        name: "jsonnet",
        files: || {
            vec![
                (
                    "app/main.jsonnet",
                    "local k = import 'k.libsonnet'; local f(n) = if n == 0 then [] else [n] + f(n - 1);\nfunction(name='x') [k.map(name, {a: std.toString(f(5)), [y]: 1 for y in ['b', 'c']}), {kind: 'A', apiVersion: 'v1', assert self.kind == 'A', x:: 1, y+: {z: super.q}}]\n",
                ),
                (
                    "lib/k.libsonnet",
                    "{map(n, d):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: n}, data: d, s: std.format('%05.1f %s', [1.5, std.manifestJsonEx(d, ' ')])}}",
                ),
            ]
        },
        source: || json!({"repoURL": "r", "path": "app", "directory": {"jsonnet": {"libs": ["lib"], "tlas": [{"name": "name", "value": "v"}]}}}),
        words: &[
            "local",
            "self",
            "super",
            "$",
            "error 'x'",
            "std.range(0, 999999)",
            "std.repeat('x', 999999)",
            "import 'main.jsonnet'",
            "importstr",
            "for x in",
            "tailstrict",
            "assert",
            "|||\n  x\n|||",
            "std.parseYaml",
            "std.foldl",
            "std.makeArray(999999, function(x) x)",
            "1e308 * 10",
            "[1:2:0]",
            "((((",
            "]]]]",
            "function(x) x(x)",
        ],
    },
    Target {
        name: "directory",
        files: || {
            vec![
                (
                    "app/a.yaml",
                    "# c\n---\napiVersion: v1\nkind: List\nitems: [&x {kind: A, apiVersion: v1, metadata: {name: a}}, *x]\n---\n{\"kind\": \"B\", \"apiVersion\": \"v1\", \"n\": 0644, \"t\": 1_000}\n",
                ),
                (
                    "app/b.json",
                    "{\"kind\": \"C\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"\\u00e9\\ud83d\\ude00\"}, \"x\": [1e3, -0, null]}",
                ),
                (
                    "app/c.yml",
                    "kind: D\napiVersion: v1\ntext: >-\n  folded\n\n  text\nquoted: \"a\\tb\\x41\"\n? key\n: value\n!!binary aGk=: b\n",
                ),
                ("app/.argocd-source.yaml", "directory: {recurse: true, include: '*.{yaml,yml,json}'}\n"),
            ]
        },
        source: || json!({"repoURL": "r", "path": "app", "directory": {"exclude": "{x,y[a-z]*}"}}),
        words: &[
            "---\n",
            "...\n",
            "%YAML 1.1\n",
            "&a",
            "*a",
            "<<: *a",
            "!!binary",
            "? ",
            "|2-\n",
            ">+\n",
            "\t",
            "\u{feff}",
            "[[[[[[",
            "{{{{{{",
            "'",
            "\"\\u",
            "items: null",
            "kind:",
            "~",
            "0x",
            ".inf",
            "2001-01-01",
        ],
    },
];

/// Numbers from a number.
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.draw() % (end.max(1) as u64)).unwrap_or_default()
    }

    /// A text with one to eight changes.
    fn damaged(&mut self, text: &str, words: &[&str], other: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(8) {
            let at = self.below(chars.len() + 1);
            let end = (at + self.below(20)).min(chars.len());
            match self.below(8) {
                0 => drop(chars.drain(at..end)),
                1 => {
                    let part: Vec<char> = chars[at..end].to_vec();
                    for _ in 0..=self.below(4) {
                        chars.splice(at..at, part.iter().copied());
                    }
                }
                2 => {
                    if let Some(one) = chars.get_mut(at) {
                        *one = char::from_u32(u32::try_from(self.below(0x300)).unwrap_or_default())
                            .unwrap_or('x');
                    }
                }
                3 | 4 => {
                    let word = words[self.below(words.len())];
                    chars.splice(at..at, word.chars());
                }
                5 => {
                    let word = words[self.below(words.len())].repeat(1 + self.below(300));
                    chars.splice(at..at, word.chars());
                }
                6 => {
                    let other: Vec<char> = other.chars().collect();
                    let from = self.below(other.len() + 1);
                    let to = (from + self.below(60)).min(other.len());
                    chars.splice(at..end, other[from..to].iter().copied());
                }
                _ => chars.truncate(at),
            }
        }
        chars.into_iter().collect()
    }
}

/// Renders one case.
fn run(target: &Target, seed: u64, stop: &Arc<AtomicBool>) {
    let mut random = Random(seed);
    let files = (target.files)();
    let hit = random.below(files.len());
    let other = files[random.below(files.len())].1;
    let changed: Vec<(String, String)> = files
        .iter()
        .enumerate()
        .map(|(at, (path, text))| {
            let is_hit = at == hit || random.below(6) == 0;
            let text = if is_hit { random.damaged(text, target.words, other) } else { (*text).to_owned() };
            ((*path).to_owned(), text)
        })
        .collect();
    let mut source = (target.source)();
    if random.below(10) == 0 {
        // What the Application says is from outside as well.
        let text = random.damaged(&source.to_string(), &["\"", "{", "[", "null", "-1", "\\\\", "$"], "");
        if let Ok(damaged) = serde_json::from_str(&text) {
            source = damaged;
        }
    }
    let Ok(tree) = MemoryTree::from_files(changed.iter().map(|(path, text)| (path.as_str(), text.clone())))
    else {
        return;
    };
    let Ok(source) = serde_json::from_value(source) else { return };
    let mut request = RenderRequest { source, ..RenderRequest::default() };
    "shop".clone_into(&mut request.context.instance_name);
    "--enable-helm".clone_into(&mut request.context.kustomize_options);
    let budget = Budget { cancelled: Some(Arc::clone(stop)), ..Budget::default().small() };
    let supplies = Supplies::none();
    let inputs = Inputs { supplies: &supplies, ..Inputs::of(&tree) };
    let _rendered = render(&request, &inputs, &budget);
    if random.below(4) == 0 {
        let _details = details::details(&request, &inputs, &budget);
    }
    if random.below(4) == 0 {
        let _parsed = parse_manifests(&changed[hit].1, &budget);
    }
}

fn main() {
    let mut seconds = 10_u64;
    let mut from = 1_u64;
    let mut only = None;
    let mut names = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).unwrap_or(1);
        match arg.as_str() {
            "--seconds" => seconds = number(),
            "--from" => from = number(),
            "--only" => only = Some(number()),
            name => names.push(name.to_owned()),
        }
    }
    let began = Instant::now();
    let elapsed = move || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (case, started) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let stop = Arc::new(AtomicBool::new(false));
    let (watched, since, flag) = (Arc::clone(&case), Arc::clone(&started), Arc::clone(&stop));
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let taken = Duration::from_millis(elapsed().saturating_sub(since.load(Ordering::SeqCst)));
            if watched.load(Ordering::SeqCst) != 0 && taken > STOP_AFTER {
                flag.store(true, Ordering::SeqCst);
            }
            if watched.load(Ordering::SeqCst) != 0 && taken > HANGS_AFTER {
                eprintln!("case {} hangs; run it with --only", watched.load(Ordering::SeqCst));
                std::process::exit(1);
            }
        }
    });
    for target in
        TARGETS.iter().filter(|target| names.is_empty() || names.iter().any(|name| name == target.name))
    {
        let ends = began.elapsed() + Duration::from_secs(seconds);
        let (mut count, mut slowest, mut stopped) = (0_u64, (Duration::ZERO, 0), 0_u64);
        let mut seed = only.unwrap_or(from);
        while began.elapsed() < ends {
            stop.store(false, Ordering::SeqCst);
            started.store(elapsed(), Ordering::SeqCst);
            case.store(seed, Ordering::SeqCst);
            let before = began.elapsed();
            let ended = catch_unwind(AssertUnwindSafe(|| run(target, seed, &stop)));
            let took = began.elapsed().saturating_sub(before);
            case.store(0, Ordering::SeqCst);
            if ended.is_err() {
                eprintln!("{} panics; run it again: fuzz {} --only {seed}", target.name, target.name);
                std::process::exit(1);
            }
            stopped += u64::from(stop.load(Ordering::SeqCst));
            if took > slowest.0 {
                slowest = (took, seed);
            }
            count += 1;
            seed += 1;
            if only.is_some() {
                break;
            }
        }
        println!(
            "{}: {count} cases, no panic, no hang; slowest {:?} (case {}), {stopped} told to stop",
            target.name, slowest.0, slowest.1
        );
    }
}
