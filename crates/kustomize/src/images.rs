//! The images that objects use (RND-90).

use serde_json::Value;

/// Values of `image` in all lists `containers` and `initContainers`, sorted, with duplicates.
pub fn images(objects: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    // A stack of its own: objects may be nested deeper than a thread's stack likes.
    let mut pending: Vec<&Value> = objects.iter().collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(map) => {
                for (name, value) in map {
                    if matches!(name.as_str(), "containers" | "initContainers")
                        && let Value::Array(containers) = value
                    {
                        let images =
                            containers.iter().filter_map(|container| container.get("image")?.as_str());
                        found.extend(images.map(str::to_owned));
                    }
                    pending.push(value);
                }
            }
            _ => {}
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rnd_90_images_of_all_containers_are_listed() {
        let objects = [
            json!({"spec": {"template": {"spec": {
                "containers": [{"image": "b"}, {"image": "a"}, {"name": "none"}],
                "initContainers": [{"image": "b"}],
                "volumes": [{"image": "no"}],
            }}}}),
            json!({"list": [[{"containers": [{"image": "c"}, 1]}]], "containers": "no", "image": "no"}),
        ];
        assert_eq!(images(&objects), ["a", "b", "b", "c"]);
    }
}
