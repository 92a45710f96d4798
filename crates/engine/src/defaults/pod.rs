//! Defaults of pods, containers and volumes.

use serde_json::{Map, Value};

use super::fill::{TypeName, is_absent, items, made, object, set, text};

pub(super) fn fill(known: TypeName<'_>, map: &mut Map<String, Value>) {
    if known.area != "core" {
        return;
    }
    match known.name {
        "Pod" => fill_pod(map),
        "PodSpec" => fill_pod_spec(map),
        "Container" | "EphemeralContainer" => {
            set(map, "imagePullPolicy", pull_policy(text(map, "image")));
            set(map, "terminationMessagePath", "/dev/termination-log");
            set(map, "terminationMessagePolicy", "File");
        }
        "ContainerPort" => set(map, "protocol", "TCP"),
        "Probe" => {
            set(map, "timeoutSeconds", 1);
            set(map, "periodSeconds", 10);
            set(map, "successThreshold", 1);
            set(map, "failureThreshold", 3);
        }
        "HTTPGetAction" => {
            set(map, "path", "/");
            set(map, "scheme", "HTTP");
        }
        "GRPCAction" => set(map, "service", ""),
        "ObjectFieldSelector" => set(map, "apiVersion", "v1"),
        _ => fill_volume(known.name, map),
    }
}

fn fill_volume(name: &str, map: &mut Map<String, Value>) {
    match name {
        "Volume" if map.iter().all(|(key, value)| key == "name" || value.is_null()) => {
            set(map, "emptyDir", Map::new());
        }
        "SecretVolumeSource"
        | "ConfigMapVolumeSource"
        | "DownwardAPIVolumeSource"
        | "ProjectedVolumeSource" => {
            set(map, "defaultMode", 420);
        }
        "HostPathVolumeSource" => set(map, "type", ""),
        "ServiceAccountTokenProjection" => set(map, "expirationSeconds", 3600),
        "ImageVolumeSource" if !text(map, "reference").is_empty() => {
            set(map, "pullPolicy", pull_policy(text(map, "reference")));
        }
        "ISCSIVolumeSource" | "ISCSIPersistentVolumeSource" => set(map, "iscsiInterface", "default"),
        "RBDVolumeSource" | "RBDPersistentVolumeSource" => {
            set(map, "pool", "rbd");
            set(map, "user", "admin");
            set(map, "keyring", "/etc/ceph/keyring");
        }
        "AzureDiskVolumeSource" => {
            set(map, "cachingMode", "ReadWrite");
            set(map, "kind", "Shared");
            set(map, "fsType", "ext4");
            set(map, "readOnly", false);
        }
        "ScaleIOVolumeSource" | "ScaleIOPersistentVolumeSource" => {
            set(map, "storageMode", "ThinProvisioned");
            set(map, "fsType", "xfs");
        }
        _ => {}
    }
}

fn fill_pod_spec(spec: &mut Map<String, Value>) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "securityContext", Map::new());
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for list in ["containers", "initContainers"] {
            for container in items(spec, list) {
                for port in items(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned() {
                        set(port, "hostPort", number);
                    }
                }
            }
        }
    }
}

/// Only a bare pod: templates get these when the pod is made from them.
fn fill_pod(pod: &mut Map<String, Value>) {
    let Some(spec) = object(pod, "spec") else { return };
    set(spec, "enableServiceLinks", true);
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            let Some(resources) = object(container, "resources") else { continue };
            let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { continue };
            if limits.is_empty() && is_absent(resources, "requests") {
                continue;
            }
            let Some(requests) = made(resources, "requests") else { continue };
            for (name, amount) in limits {
                set(requests, &name, amount);
            }
        }
    }
}

/// `Always` for the tag `latest` and for no tag, else `IfNotPresent`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, ""), |(name, digest)| (name, digest));
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    let tag = last.split_once(':').map_or("", |(_, tag)| tag);
    if tag == "latest" || (tag.is_empty() && digest.is_empty()) { "Always" } else { "IfNotPresent" }
}

#[cfg(test)]
mod tests {
    use super::pull_policy;

    #[test]
    fn eng_210_the_tag_decides_the_pull_policy() {
        for image in ["nginx", "nginx:latest", "r:5000/nginx", "r:5000/a/nginx:latest"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["nginx:1", "r:5000/nginx:1", "nginx@sha256:abc", "nginx:1@sha256:abc"] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
