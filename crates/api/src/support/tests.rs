use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::settings::SettingsData;

fn paths(schema: &Value, at: &str, depth: usize, found: &mut BTreeSet<String>) {
    let (Some(properties), Some(depth)) = (schema["properties"].as_object(), depth.checked_sub(1)) else {
        if schema["items"].is_object() {
            paths(&schema["items"], at, depth, found);
        }
        return;
    };
    for (name, inner) in properties {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        paths(inner, &path, depth, found);
        found.insert(path);
    }
}

fn fields(kind: usize) -> BTreeSet<String> {
    let manifest = crate::crd::manifests().remove(kind);
    let schema = &manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut found = BTreeSet::new();
    paths(schema, "", 6, &mut found);
    found
}

/// B12: every field of the custom resources has a line that says what becomes of it.
#[test]
fn ctl_132_every_field_is_honoured_refused_or_reported() {
    for (kind, table) in [(0, APPLICATION), (2, PROJECT)] {
        let fields = fields(kind);
        assert!(fields.len() > 30, "{fields:?}");
        let above = |field: &str, entry: &Entry| {
            field == entry.name || field.strip_prefix(entry.name).is_some_and(|rest| rest.starts_with('.'))
        };
        for field in &fields {
            let has_own = table.iter().any(|entry| above(field, entry));
            // `spec` itself is what its members are.
            let is_outer = table.iter().any(|entry| entry.name.starts_with(&format!("{field}.")));
            assert!(has_own || is_outer, "{field} has no line");
        }
        for entry in table {
            assert!(fields.contains(entry.name), "{} is no field", entry.name);
        }
    }
}

/// B12: every key that a reader of the settings knows has a line, and every line is told apart.
#[test]
fn ctl_132_every_key_that_is_read_has_a_line() {
    let sources = [
        include_str!("../settings.rs"),
        include_str!("../settings/controller.rs"),
        include_str!("../settings/webhooks.rs"),
        include_str!("../settings/renderers.rs"),
    ];
    let mut keys = 0;
    for text in sources {
        for word in text.split('"').skip(1).step_by(2) {
            let is_key = word.contains('.')
                && !word.ends_with('.')
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
                && word.starts_with(|c: char| c.is_ascii_lowercase());
            if is_key && !word.starts_with("app.kubernetes") {
                keys += 1;
                let known = [CM, PARAMS, SECRET].iter().any(|table| find(table, word).is_some());
                assert!(known, "{word} has no line");
            }
        }
    }
    assert!(keys > 40, "{keys}");
    for table in [APPLICATION, PROJECT, ANNOTATIONS, OBJECT_ANNOTATIONS, CM, PARAMS, SECRET, REPOSITORY] {
        let names: BTreeSet<&str> = table.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), table.len());
        for entry in table.iter().filter(|entry| entry.support != Support::Honoured) {
            assert!(!entry.note.is_empty(), "{} says not why", entry.name);
        }
    }
}

/// B12: what has no effect is told, once for each reason; what has one is not.
#[test]
fn ctl_132_settings_without_effect_are_reported() {
    let map = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
        list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let settings = Settings::new(SettingsData {
        cm: map(&[("timeout.reconciliation", "60s"), ("typo.here", "1"), ("ui.bannercontent", "")]),
        params: map(&[("controller.status.processors", "4"), ("controller.diff.server.side", "true")]),
        env: map(&[
            ("ARGOCD_CONTROLLER_SHARDING_ALGORITHM", "legacy"),
            ("ARGOCD_K8S_TCP_TIMEOUT", "1m"),
            ("PATH", "/bin"),
        ]),
        secret: map(&[("webhook.github.secret", "s"), ("of.somebody.else", "x")]),
        ..SettingsData::default()
    });
    let told = reports(&settings).join("\n");
    for expected in [
        "argocd-cm: no effect of typo.here",
        "argocd-cmd-params-cm: no effect of controller.diff.server.side",
        "the environment: no effect of ARGOCD_CONTROLLER_SHARDING_ALGORITHM",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert_eq!(told.lines().count(), 3, "{told}");
    assert_eq!(
        repository_reports(&map(&[
            ("url", "https://h/r"),
            ("enableLfs", "true"),
            ("webhookManifestCacheWarmDisabled", "true")
        ]))
        .len(),
        1
    );
    let app = map(&[
        ("argocd.argoproj.io/compare-options", "IgnoreExtraneous,ServerSideDiff=true"),
        ("notifications.argoproj.io/subscribe.on-sync.slack", "x"),
        ("argocd.argoproj.io/sync-wave", "1"),
    ]);
    assert_eq!(annotation_reports(&app).len(), 2, "{:?}", annotation_reports(&app));
}

/// B12: the page of the documentation is what the tables say.
#[test]
fn sty_the_page_about_settings_is_printed_from_the_tables() {
    let page = include_str!("../../../../docs/settings.md");
    assert!(page == markdown(), "run `cargo run -p tiphys-api --example settings > docs/settings.md`");
}
