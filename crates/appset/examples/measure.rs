//! Measures what ASET-313 promises: `cargo run --release -p tiphys-appset --example measure`.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(
    clippy::indexing_slicing,
    clippy::unreachable,
    clippy::unwrap_used,
    reason = "it ends when something is wrong"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tiphys_api::cluster::Clusters;
use tiphys_api::settings::{ApplicationSets, ProjectMatching};
use tiphys_api::{AppProject, ApplicationSet};
use tiphys_appset::facts::{
    Answer, DecisionQuestion, Decisions, Facts, GitFile, GitQuestion, NoAnswer, PluginQuestion,
    ProviderQuestion,
};
use tiphys_appset::generate::{Request, generate};
use tiphys_appset::live::LiveApplication;
use tiphys_appset::params::Params;
use tiphys_appset::reconcile::{Action, Outcomes, PassFacts, conclude, plan};
use tiphys_appset::work::Work;
use tiphys_go::template::Still;
use tiphys_object::merge_patch;

struct Nothing;

impl Facts for Nothing {
    fn project(&self, _: &str) -> Answer<Option<Arc<AppProject>>> {
        Ok(Some(Arc::new(AppProject::default_project("argocd"))))
    }

    fn clusters(&self) -> Answer<Arc<Clusters>> {
        Ok(Arc::new(Clusters::new(Vec::new(), true)))
    }

    fn directories(&self, _: &GitQuestion) -> Answer<Arc<[String]>> {
        Err(NoAnswer::failed("no repository"))
    }

    fn files(&self, _: &GitQuestion) -> Answer<Arc<[GitFile]>> {
        Err(NoAnswer::failed("no repository"))
    }

    fn plugin(&self, _: &PluginQuestion) -> Answer<Arc<[Params]>> {
        Err(NoAnswer::failed("no plugin"))
    }

    fn repositories(&self, _: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        Err(NoAnswer::failed("no provider"))
    }

    fn pull_requests(&self, _: &ProviderQuestion) -> Answer<Arc<[Params]>> {
        Err(NoAnswer::failed("no provider"))
    }

    fn decisions(&self, _: &DecisionQuestion) -> Answer<Decisions> {
        Err(NoAnswer::failed("no resource"))
    }
}

/// A set with so many elements and a template with twenty fields.
fn set(elements: usize) -> ApplicationSet {
    let element = |n: usize| {
        json!({"name": format!("app-{n:05}"), "env": "dev", "team": "shop", "cluster": {"name": "in-cluster", "region": "eu"},
            "replicas": n % 7, "values": {"a": "x", "b": "y"}})
    };
    let elements: Vec<Value> = (0..elements).map(element).collect();
    let template = json!({
        "metadata": {
            "name": "{{ .name }}-{{ .env }}",
            "labels": {"env": "{{ .env }}", "team": "{{ .team | lower }}", "region": "{{ .cluster.region }}"},
            "annotations": {"note": "{{ printf \"%s/%s\" .team .name }}", "size": "{{ .replicas }}"},
        },
        "spec": {
            "project": "default",
            "source": {
                "repoURL": "https://git.example/{{ .team }}/{{ .name }}.git",
                "path": "deploy/{{ .env }}",
                "targetRevision": "{{ default \"main\" .revision }}",
                "helm": {
                    "releaseName": "{{ .name | trunc 40 }}",
                    "valuesObject": {"replicas": "{{ .replicas }}", "a": "{{ .values.a | quote }}", "b": "{{ .values.b | upper }}",
                        "region": "{{ if eq .cluster.region \"eu\" }}europe{{ else }}elsewhere{{ end }}"},
                    "parameters": [{"name": "p", "value": "{{ .name }}"}, {"name": "q", "value": "{{ len .name }}"}],
                },
            },
            "destination": {"name": "{{ .cluster.name }}", "namespace": "{{ .team }}-{{ .env }}"},
            "info": [{"name": "one", "value": "{{ .name | replace \"-\" \"_\" }}"}, {"name": "two", "value": "{{ toJson .cluster }}"}],
            "syncPolicy": {"syncOptions": ["CreateNamespace={{ eq .env \"dev\" }}"]},
        },
    });
    let spec =
        json!({"goTemplate": true, "generators": [{"list": {"elements": elements}}], "template": template});
    serde_json::from_value(
        json!({"metadata": {"name": "s", "namespace": "argocd", "uid": "u"}, "spec": spec}),
    )
    .unwrap()
}

fn main() {
    let elements = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let mut set = set(elements);
    let settings = ApplicationSets::default();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let environment = Still(now);
    let mut live: BTreeMap<String, LiveApplication> = BTreeMap::new();
    let mut stored = json!({});
    for pass in ["first", "second", "third"] {
        set.status = serde_json::from_value(stored.clone()).unwrap();
        let work = Work::new(settings.template_steps);
        let request = Request {
            set: &set,
            settings: &settings,
            matching: ProjectMatching::Compat,
            control_plane_namespace: "argocd",
            fresh: false,
            environment: &environment,
            work: &work,
        };
        let start = Instant::now();
        let generated = generate(&request, &Nothing).map_err(|_stop| unreachable!());
        let generating = start.elapsed();
        let start = Instant::now();
        let facts = PassFacts {
            request: &request,
            generated: &generated,
            live: &live,
            facts: &Nothing,
            ignore: Ok(None),
            emptiness_is_confirmed: true,
            now,
        };
        let plan = plan(&facts).unwrap();
        let planning = start.elapsed();
        let start = Instant::now();
        let conclusion = conclude(&facts, &plan, &Outcomes::default(), &stored);
        let concluding = start.elapsed();
        println!(
            "{pass} pass over {elements} elements: generated in {generating:.1?} (target for 5000: < 2 s) and \
             {} steps, planned {} writes in \
             {planning:.1?}, concluded in {concluding:.1?}, status written: {}, {} bytes",
            settings.template_steps - work.left(),
            plan.writes.len(),
            conclusion.patch.is_some(),
            serde_json::to_vec(&conclusion.status).unwrap().len(),
        );
        if let Some(patch) = conclusion.patch {
            stored = merge_patch::apply(stored, &patch["status"]);
        }
        let mut next = live.clone();
        for write in plan.writes {
            if let Action::Create(mut manifest) = write.action {
                manifest["status"] = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
                next.insert(write.name, LiveApplication::from_value(manifest).unwrap());
            }
        }
        live = next;
    }
}
