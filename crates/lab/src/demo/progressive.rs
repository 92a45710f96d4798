//! The scenario `progressive` tells a story by itself: a roll-out tier by tier, and a deletion in reverse (CLI-1002,
//! ASET-200..260).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tiphys_cluster::{DeleteOptions, Propagation, Target};
use tiphys_object::{Gvk, ResourceKey};
use tiphys_policy::permit::Permit;
use tokio::time::Instant;

use super::applications::application_gvk;
use super::ready::print;
use super::repository::Change;
use super::scenario::{BRANCH, NAMESPACE, Scenario};
use super::verbs::Running;

/// Name of the set.
const SET: &str = "pricelist";
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Time for one chapter; the simulated Pods need two seconds each.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where an application is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Not there.
    Absent,
    /// In a phase of the roll-out, in a step.
    In(String, String),
    /// On its way out.
    Going,
}

type Places = BTreeMap<&'static str, Place>;

pub(crate) fn set_target() -> Target {
    Target::new(Gvk::new("argoproj.io", "v1alpha1", "ApplicationSet"), NAMESPACE, SET)
}

/// Tells the story once; the set is there again at its end.
pub(crate) async fn tell(running: Running, program: String, data: String) -> anyhow::Result<()> {
    let mut story = Story { running, began: Instant::now(), last: BTreeMap::new() };
    story.say("The set makes three applications. Each step syncs when the step before is healthy:");
    story.until(are_healthy).await?;
    let commit = story.new_version().await?;
    story.say(&format!("A new version of all three is pushed ({commit}). The same order:"));
    story.until_moved().await?;
    story.until(are_healthy).await?;
    story.say("The set is deleted (deletionOrder Reverse): the last step goes first, each waits for the one before:");
    story.delete().await?;
    story.until(are_absent).await?;
    story.say("The set is created again:");
    story.create().await?;
    story.until(are_healthy).await?;
    print(&format!(
        "Now you:  {program} demo break db{data}     config is new, db is broken, frontend waits: nothing goes past a broken step\n          \
           {program} demo fix db{data}       the roll-out goes on\n          \
           kubectl delete applicationset {SET} -n {NAMESPACE}     frontend, db, config, in this order\n"
    ));
    Ok(())
}

struct Story {
    running: Running,
    began: Instant,
    last: Places,
}

impl Story {
    fn say(&self, text: &str) {
        print(&format!("{:5.1}s  {text}\n", self.began.elapsed().as_secs_f64()));
    }

    /// Shows what changes until something is so.
    async fn until(&mut self, is_so: impl Fn(&Places) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.look().await?;
            for (name, place) in &now {
                if self.last.get(name) != Some(place)
                    && (*place != Place::Absent || self.last.contains_key(name))
                {
                    self.say(&line(name, place));
                }
            }
            let is_over = is_so(&now);
            self.last = now;
            if is_over {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the story stands still; `kubectl describe applicationset {SET} -n {NAMESPACE}` says why"
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Until the new version is noticed.
    async fn until_moved(&mut self) -> anyhow::Result<()> {
        self.until(|places| !are_healthy(places)).await
    }

    async fn look(&self) -> anyhow::Result<Places> {
        let writer = &self.running.writer;
        let set = writer.get(&set_target()).await?.map(|set| set.to_value()).transpose()?.unwrap_or_default();
        let entries =
            set.pointer("/status/applicationStatus").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut places = Places::new();
        for name in Scenario::Progressive.names() {
            let target = Target::new(application_gvk(), NAMESPACE, name);
            let place = match writer.get(&target).await? {
                None => Place::Absent,
                Some(app) if !app.metadata().deletion_timestamp.is_empty() => Place::Going,
                Some(_) => {
                    let is_it =
                        |entry: &&Value| entry.get("application").and_then(Value::as_str) == Some(name);
                    let entry = entries.iter().find(is_it);
                    let text = |member: &str| {
                        entry.and_then(|entry| entry.get(member)?.as_str()).unwrap_or_default().to_owned()
                    };
                    Place::In(text("status"), text("step"))
                }
            };
            places.insert(name, place);
        }
        Ok(places)
    }

    async fn new_version(&self) -> anyhow::Result<String> {
        let mut changes: Vec<Change> = Vec::new();
        for name in Scenario::Progressive.names() {
            let path = format!("{name}/deployment.yaml");
            let text = self.running.repository.read(BRANCH, &path).await?;
            let text = text.with_context(|| format!("{path} is not in the repository"))?;
            changes.push((path, Some(text.replace(":1.0", ":1.1"))));
        }
        self.running.push("Version 1.1 of all tiers", &changes).await
    }

    async fn delete(&self) -> anyhow::Result<()> {
        let target = set_target();
        let options = DeleteOptions { propagation: Propagation::Background, ..DeleteOptions::default() };
        self.running.writer.delete(&Permit::operator(target.key()), &target, &options).await?;
        Ok(())
    }

    async fn create(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.running.writer.get(&set_target()).await?.is_some() {
            if Instant::now() > deadline {
                bail!("the set does not go");
            }
            tokio::time::sleep(LOOK).await;
        }
        for object in Scenario::Progressive.objects(&self.running.url)? {
            self.running.writer.create(&Permit::operator(ResourceKey::of(&object)), &object).await?;
        }
        Ok(())
    }
}

fn line(name: &str, place: &Place) -> String {
    let text = match place {
        Place::Absent => "gone, with everything it deployed".to_owned(),
        Place::Going => "is being deleted".to_owned(),
        Place::In(phase, step) => match phase.as_str() {
            "" => "is made".to_owned(),
            "Waiting" => format!("Waiting      for the turn of step {step}"),
            "Pending" => format!("Pending      it is the turn of step {step}: a sync is asked for"),
            "Progressing" => "Progressing  it syncs, and has to become healthy".to_owned(),
            "Healthy" => "Healthy      the next step may begin".to_owned(),
            other => other.to_owned(),
        },
    };
    format!("  {name:9} {text}")
}

fn are_healthy(places: &Places) -> bool {
    places.values().all(|place| matches!(place, Place::In(phase, _) if phase == "Healthy"))
}

fn are_absent(places: &Places) -> bool {
    places.values().all(|place| *place == Place::Absent)
}
