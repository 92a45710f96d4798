use std::collections::BTreeMap;

use tiphys_render::MemoryTree;

use super::*;

/// One `ConfigMap` whose text has so many bytes.
fn tree(bytes: usize) -> Arc<dyn Tree> {
    let text = "x".repeat(bytes);
    let file = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"a":"{text}"}}}}"#
    );
    Arc::new(MemoryTree::from_files([("app/all.json", file)]).unwrap())
}

fn task(instance: &str) -> RenderTask {
    let mut request = RenderRequest { instance_name: instance.to_owned(), ..RenderRequest::default() };
    "app".clone_into(&mut request.source.path);
    RenderTask {
        request,
        budget: Budget::default(),
        tracking: Arc::new(TrackingSettings::from_settings(&BTreeMap::new(), "argocd")),
        hard: false,
    }
}

fn renders(released_bytes_max: u64) -> Renders {
    Renders::keeping(released_bytes_max, Compute::inline(), Clock::real())
}

/// C24: with a bound for everything, many applications pushed each other out and were rendered at each look.
#[tokio::test]
async fn inv_10_what_applications_hold_is_not_rendered_again_however_much_it_is() {
    let renders = renders(20_000);
    let names: Vec<String> = (0..20).map(|number| format!("app-{number}")).collect();
    let mut targets = Vec::new();
    for name in &names {
        let (held, now) = renders.get(tree(9_000), task(name)).await.unwrap();
        assert!(now, "{name}");
        targets.push(held);
    }
    for (name, held) in names.iter().zip(&targets) {
        let (again, now) = renders.get(tree(9_000), task(name)).await.unwrap();
        assert!(!now && Arc::ptr_eq(&again, held), "{name} was rendered again");
    }
    assert_eq!((renders.held(), renders.released_bytes()), (20, 0));
    drop(targets);
    assert_eq!(renders.held(), 0);
}

#[tokio::test]
async fn rnd_144_a_hard_refresh_renders_what_is_held_too() {
    let renders = renders(20_000);
    let (held, _) = renders.get(tree(10), task("app")).await.unwrap();
    let hard = RenderTask { hard: true, ..task("app") };
    let (anew, now) = renders.get(tree(10), hard).await.unwrap();
    assert!(now && !Arc::ptr_eq(&anew, &held));
    let (again, now) = renders.get(tree(10), task("app")).await.unwrap();
    assert!(!now && Arc::ptr_eq(&again, &anew));
}
