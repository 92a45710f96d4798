//! Roll-outs and deletions in order, over three tiers, with a controller that is killed after each transition.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{APPS, CONFIG_MAPS, SETS};
use crate::fixtures::{config_map, deployment, file, simulated};
use crate::git::Repo;
use crate::world::{PATIENCE, Setup, World};

/// The tiers, in the order of the roll-out.
const TIERS: [&str; 3] = ["config", "db", "frontend"];
const PROGRESSIVE: (&str, &str) = ("ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_PROGRESSIVE_SYNCS", "true");

/// What of a tier can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tier {
    name: &'static str,
    /// Phase of the roll-out.
    phase: String,
    /// Whether the application is there, and on its way out.
    is_there: bool,
    is_going: bool,
    /// What is deployed.
    value: String,
}

/// An installation with the set, what is seen of it, and what was seen.
struct Story {
    world: World,
    repo: Repo,
    ns: String,
    began: Instant,
    timeline: Vec<String>,
    last: Vec<Tier>,
    kills: usize,
}

fn steps(order: &[&str]) -> Value {
    let step =
        |tier: &&str| json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": [tier]}]});
    json!({"steps": order.iter().map(step).collect::<Vec<_>>()})
}

fn files(value: &str) -> Vec<(String, String)> {
    let manifests = |tier: &str| {
        let mut workload = simulated(deployment(tier, 1), "ready-after=1s");
        workload["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!(format!("example.test/{tier}:{value}"));
        file(&[config_map(&format!("{tier}-data"), value), workload])
    };
    TIERS.map(|tier| (format!("apps/{tier}/all.yaml"), manifests(tier))).into()
}

impl Story {
    async fn begin(test: &str) -> Option<Self> {
        let setup = Setup { env: vec![PROGRESSIVE], ..Setup::default() };
        let mut world = World::start_with(test, setup).await?;
        let ns = world.namespace("ns").await;
        let files = files("one");
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let repo = world.repo("tiers", &files).await;
        Some(Self {
            world,
            repo,
            ns,
            began: Instant::now(),
            timeline: Vec::new(),
            last: Vec::new(),
            kills: 0,
        })
    }

    /// Applies the set with this strategy beside the roll-out.
    async fn apply(&self, strategy: &Value) -> String {
        let mut all = json!({"type": "RollingSync", "rollingSync": steps(&TIERS)});
        crate::world::merge(&mut all, strategy);
        let elements: Vec<Value> = TIERS.iter().map(|tier| json!({"tier": tier})).collect();
        let template = json!({"metadata": {"name": self.app("{{ .tier }}"), "labels": {"tier": "{{ .tier }}"}},
            "spec": {"project": "default",
                "source": {"repoURL": self.repo.url, "targetRevision": "main", "path": "apps/{{ .tier }}"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": self.ns},
                "syncPolicy": {"automated": {"prune": true}}}});
        let spec = json!({"goTemplate": true, "generators": [{"list": {"elements": elements}}],
            "strategy": all, "template": template});
        self.world.create_set("pricelist", &spec).await
    }

    /// Name of an application: no other installation on the cluster has one of that name, and takes its objects for its
    /// own.
    fn app(&self, tier: &str) -> String {
        format!("{}-{tier}", self.world.name("app"))
    }

    async fn look(&self) -> Vec<Tier> {
        let set = self.world.api.get(SETS, &self.world.cp, &self.world.name("pricelist")).await;
        let entries =
            set.unwrap_or_default()["status"]["applicationStatus"].as_array().cloned().unwrap_or_default();
        // Each list is one moment, and what was deployed is looked at last: whoever is before its turn is seen so.
        let apps = self.world.api.list(APPS, &self.world.cp).await;
        let data = self.world.api.list(CONFIG_MAPS, &self.ns).await;
        let tier = |name: &'static str| {
            let app = self.app(name);
            let entry = entries.iter().find(|entry| entry["application"] == app.as_str());
            let live = named(&apps, &app);
            let data = named(&data, &format!("{name}-data"));
            Tier {
                name,
                phase: entry.and_then(|entry| entry["status"].as_str()).unwrap_or_default().to_owned(),
                is_there: live.is_some(),
                is_going: live.is_some_and(|live| live["metadata"]["deletionTimestamp"].is_string()),
                value: data.and_then(|data| data["data"]["key"].as_str()).unwrap_or_default().to_owned(),
            }
        };
        TIERS.map(tier).into()
    }

    /// Follows what happens until something is so. After each transition the controller is killed, and a new one started;
    /// at each look `law` must hold.
    async fn until(&mut self, what: &str, law: impl Fn(&[Tier]), is_so: impl Fn(&[Tier]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.look().await;
            law(&seen);
            if seen != self.last {
                let line = seen.iter().map(shown).collect::<Vec<_>>().join("   ");
                self.timeline.push(format!("{:7.1}s  {line}", self.began.elapsed().as_secs_f64()));
                let is_over = is_so(&seen);
                self.last = seen;
                if is_over {
                    self.timeline.push(format!("         {what}"));
                    return;
                }
                self.world.kill().await;
                self.kills += 1;
                // Nobody works meanwhile; nothing may depend on it.
                law(&self.look().await);
                self.world.restart().await;
            }
            assert!(Instant::now() < deadline, "{what} never came true:\n{}", self.timeline.join("\n"));
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    async fn end(self, is_killed_at_least: usize) {
        println!("timeline of {} ({} kills):\n{}", self.world.cp, self.kills, self.timeline.join("\n"));
        assert!(self.kills >= is_killed_at_least, "{} kills", self.kills);
        self.world.finish().await;
    }
}

fn named<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| object["metadata"]["name"] == name)
}

fn shown(tier: &Tier) -> String {
    let state = match (tier.is_there, tier.is_going) {
        (false, _) => "-",
        (true, true) => "going",
        (true, false) if tier.phase.is_empty() => "there",
        (true, false) => &tier.phase,
    };
    let value = if tier.value.is_empty() { "nothing" } else { &tier.value };
    format!("{:8} {state:11} {value:7}", tier.name)
}

/// A tier has a value only when all before it have it and are well.
fn rolls_in_order(value: &'static str) -> impl Fn(&[Tier]) {
    move |seen| {
        for (at, tier) in seen.iter().enumerate().filter(|(_, tier)| tier.value == value) {
            let before = seen.get(..at).unwrap_or_default();
            assert!(
                before.iter().all(|other| other.value == value),
                "{} is before its turn: {seen:?}",
                tier.name
            );
        }
    }
}

/// An application is on its way out only when all before it are gone, with everything they deployed.
fn goes_in_order(order: [&'static str; 3]) -> impl Fn(&[Tier]) {
    move |seen| {
        let of = |name: &str| seen.iter().find(|tier| tier.name == name).unwrap();
        let is_gone = |tier: &Tier| !tier.is_there && tier.value.is_empty();
        for (at, name) in order.iter().enumerate() {
            let tier = of(name);
            if tier.is_going || !tier.is_there {
                let before = order.get(..at).unwrap_or_default();
                assert!(
                    before.iter().all(|other| is_gone(of(other))),
                    "{name} goes before its turn: {seen:?}"
                );
            }
        }
    }
}

fn are_all(value: &'static str) -> impl Fn(&[Tier]) -> bool {
    move |seen| seen.iter().all(|tier| tier.phase == "Healthy" && tier.value == value)
}

fn are_gone(seen: &[Tier]) -> bool {
    seen.iter().all(|tier| !tier.is_there && tier.value.is_empty())
}

/// Rolls out, changes and deletes.
async fn story(test: &str, strategy: &Value, deletion: [&'static str; 3]) {
    let Some(mut story) = Story::begin(test).await else { return };
    let set = story.apply(strategy).await;
    story.until("the first revision is rolled out", rolls_in_order("one"), are_all("one")).await;
    let second = files("two");
    let second: Vec<(&str, &str)> =
        second.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    story.world.push(&story.repo, &second).await;
    story.until("the second revision is rolled out", rolls_in_order("two"), are_all("two")).await;
    story.world.api.delete(SETS, &story.world.cp, &set).await;
    story.until("everything is gone", goes_in_order(deletion), are_gone).await;
    story.world.until_gone(SETS, &story.world.cp, &set).await;
    story.end(6).await;
}

/// ASET-204..231, ASET-244, ASET-247: tier by tier, and back from the last to the first.
#[tokio::test]
async fn aset_244_three_tiers_are_rolled_out_and_deleted_in_reverse() {
    story("reverse", &json!({"deletionOrder": "Reverse"}), ["frontend", "db", "config"]).await;
}

/// ASET-245, ASET-260: deleted in an order of its own.
#[tokio::test]
async fn aset_260_three_tiers_are_rolled_out_and_deleted_in_a_custom_order() {
    let order = ["config", "frontend", "db"];
    story("custom", &json!({"deletionOrder": "Custom", "deletionSync": steps(&order)}), order).await;
}
