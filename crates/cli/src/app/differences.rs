//! What `app diff` and the preview of a sync compare: what lives, with what the flags choose (CLI-502, CLI-504, CLI-517).

use std::sync::Arc;

use serde_json::Value;
use tiphys_engine::mask::SecretMask;
use tiphys_go::glob::Glob;
use tiphys_object::{Object, ResourceKey, access};

use crate::app::Work;
use crate::app::selection::{Chosen, Local, chosen};
use crate::core::{Difference, Remote, Stored, object, state, value_of};
use crate::failure::Failure;

/// Finds the pairs that differ, ordered by key.
pub(super) async fn differences(work: Work<'_>, stored: &Stored) -> Result<Vec<Difference>, Failure> {
    let Work { session, core, world } = work;
    let chosen = chosen(&stored.app, session.flags)?;
    let Some(server) = core.server() else {
        let plan = chosen.plan(&stored.app);
        let rendered = core.render(&stored.app, world, &plan, session.terminal).await?;
        return core.differences(&stored.app, world, &rendered.objects).await;
    };
    if chosen == Chosen::Compared {
        let all = server.managed_resources(&stored.name()).await?;
        let all = all.iter().map(told).collect::<Result<Vec<_>, _>>()?;
        return Ok(all.into_iter().flatten().collect());
    }
    let targets = targets(work, server, stored, chosen).await?;
    let live = server.live_objects(&stored.name()).await?;
    // Of files each of them is told of by itself.
    if !session.flags.is_set("local") && targets.iter().any(|object| is_secret(object)) {
        session.warn("a server shows Secrets without their values; these are not compared");
    }
    let mask = SecretMask::from_settings(world.settings.cm());
    let (targets, live) = (masked_alike(&mask, targets)?, masked_alike(&mask, live)?);
    core.differences_from(&stored.app, world, (&targets, &live))
}

fn is_secret(object: &Object) -> bool {
    let gvk = object.gvk();
    gvk.group.is_empty() && gvk.kind == "Secret"
}

/// The objects with the values of Secrets hidden once more, each Secret by itself: what was hidden together with other
/// states of an object tells nothing beside what was hidden without them.
fn masked_alike(mask: &SecretMask, objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, Failure> {
    let masked = |one: Arc<Object>| {
        if !is_secret(&one) {
            return Ok(one);
        }
        let mut value = value_of(&one)?;
        mask.hide(&mut [&mut value]).map_err(|error| Failure::generic(error.to_string()))?;
        object(&value)
    };
    objects.into_iter().map(masked).collect()
}

/// What a server, or this process, makes of what is chosen.
async fn targets(
    work: Work<'_>,
    server: &Remote,
    stored: &Stored,
    chosen: Chosen,
) -> Result<Vec<Arc<Object>>, Failure> {
    let Work { session, core, world } = work;
    let manifests = match (chosen.revisions(&stored.app), chosen) {
        (Some(revisions), _) => server.manifests(&stored.name(), &revisions).await?,
        (None, Chosen::Local(local)) if session.flags.is_on("server-side-generate") => {
            let packed = packed(work, stored, &local)?;
            server.manifests_with_files(&stored.name(), &packed).await?
        }
        (None, chosen) => {
            session.warn(
                "local diff without --server-side-generate is deprecated and will be removed in a future version",
            );
            let plan = chosen.plan(&stored.app);
            return Ok(core.render(&stored.app, world, &plan, session.terminal).await?.objects);
        }
    };
    manifests.iter().map(object).collect()
}

/// The files that a server renders in place of the repository. A directory that does not hold the source's own one is
/// taken to be that.
fn packed(work: Work<'_>, stored: &Stored, local: &Local) -> Result<Vec<u8>, Failure> {
    let patterns = work.session.flags.texts("local-include");
    let patterns: Vec<&str> = match patterns {
        [] => vec!["*.yaml", "*.yml", "*.json"],
        given => given.iter().map(String::as_str).collect(),
    };
    let mut globs = Vec::with_capacity(patterns.len());
    for pattern in patterns {
        let glob = Glob::new(pattern, &[]);
        globs.push(glob.map_err(|error| Failure::generic(format!("--local-include {pattern}: {error}")))?);
    }
    let directory = local.directory();
    let path = stored.app.sources().first().map_or("", |source| source.path.trim_matches('/'));
    let prefix = if path == "." || directory.join(path).is_dir() { "" } else { path };
    tiphys_source::pack_directory(&directory, prefix, &|name| globs.iter().any(|glob| glob.is_match(name)))
        .map_err(|error| Failure::generic(tiphys_cluster::error_chain(&error)))
}

/// What a server says of one resource, where it differs (API-136): what is there, normalised, and what a sync would make
/// of it.
fn told(resource: &Value) -> Result<Option<Difference>, Failure> {
    let state = |name: &str| state(resource, name);
    if resource.get("hook").and_then(Value::as_bool) == Some(true) {
        return Ok(None);
    }
    let (mut live, mut target): (Value, Value) = (state("liveState")?, state("targetState")?);
    if !live.is_null() && !target.is_null() {
        (live, target) = (state("normalizedLiveState")?, state("predictedLiveState")?);
    }
    let part = |name: &str| access::text(resource, name);
    let key = ResourceKey::new(part("group"), part("kind"), part("namespace"), part("name"));
    Ok((live != target).then_some(Difference { key, live, target }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cli_502_values_that_were_hidden_apart_are_no_difference() {
        let mask = SecretMask::from_settings(&std::collections::BTreeMap::new());
        let secret = |a: &str, b: &str| {
            let value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": a, "b": b}});
            masked_alike(&mask, vec![object(&value).unwrap()]).unwrap().remove(0).to_value().unwrap()
        };
        let apart = secret("++++++++++++", "++++++++++++++++");
        assert_eq!(secret("++++++++", "++++++++++++"), apart);
        assert_eq!(secret("++++++++", "++++++++"), apart);
    }

    #[test]
    fn api_136_pairs_that_differ_are_those_of_the_server() {
        let told = |changes: &Value| {
            let mut resource = json!({"kind": "ConfigMap", "namespace": "n", "name": "a", "liveState": "{\"a\":1}",
                "targetState": "{\"a\":2}", "normalizedLiveState": "{\"a\":1}", "predictedLiveState": "{\"a\":2}"});
            for (name, value) in changes.as_object().unwrap() {
                resource[name] = value.clone();
            }
            told(&resource).unwrap()
        };
        assert_eq!(told(&json!({})).unwrap().target, json!({"a": 2}));
        assert_eq!(
            told(&json!({"predictedLiveState": "{\"a\":1}"})),
            None,
            "what is ignored is no difference"
        );
        assert_eq!(told(&json!({"hook": true})), None);
        assert_eq!(told(&json!({"liveState": ""})).unwrap().live, Value::Null);
    }
}
