//! The triggers and templates that come with the product (NTF-600..607).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The revision that the last operation synced.
const SYNCED: &str = "app.status.operationState?.syncResult?.revision";
/// When an application counts as deployed (NTF-601).
const DEPLOYED: &str = "app.status.operationState != nil and app.status.operationState.phase in ['Succeeded'] and app.status.health.status == 'Healthy' and (!time.Parse(app.status.health.lastTransitionTime).Add(1 * time.Minute).Before(time.Parse(app.status.operationState.finishedAt)) or time.Parse(app.status.health.lastTransitionTime).Before(time.Parse(app.status.operationState.startedAt)))";

const GREEN: &str = "#18be52";
const RED: &str = "#E96D76";
const OPERATION: &str = "Sync operation details are available at: {{.context.argocdUrl}}/applications/{{.app.metadata.name}}?operation=true .\n";
const DETAILS: &str = "Application details: {{.context.argocdUrl}}/applications/{{.app.metadata.name}}.\n";

/// Trigger, expression, template, and the value it is sent once for.
const TRIGGERS: [(&str, &str, &str, &str); 8] = [
    ("on-created", "true", "app-created", "app.metadata.name"),
    ("on-deleted", "app.metadata.deletionTimestamp != nil", "app-deleted", "app.metadata.name"),
    ("on-deployed", DEPLOYED, "app-deployed", SYNCED),
    ("on-health-degraded", "app.status.health.status == 'Degraded'", "app-health-degraded", SYNCED),
    (
        "on-sync-failed",
        "app.status.operationState != nil and app.status.operationState.phase in ['Error', 'Failed']",
        "app-sync-failed",
        SYNCED,
    ),
    (
        "on-sync-running",
        "app.status.operationState != nil and app.status.operationState.phase in ['Running']",
        "app-sync-running",
        SYNCED,
    ),
    ("on-sync-status-unknown", "app.status.sync.status == 'Unknown'", "app-sync-status-unknown", SYNCED),
    (
        "on-sync-succeeded",
        "app.status.operationState != nil and app.status.operationState.phase in ['Succeeded']",
        "app-sync-succeeded",
        SYNCED,
    ),
];

/// What distinguishes the templates of an application's state.
struct Kind {
    name: &'static str,
    message: String,
    /// Subject of the mail.
    subject: &'static str,
    /// Title for teams.
    title: &'static str,
    color: &'static str,
    theme: &'static str,
    /// Title of the first field, and what it shows.
    status: (&'static str, &'static str),
    /// A time to show for teams.
    time: Option<(&'static str, &'static str)>,
    has_revision: bool,
    /// Name of the link for teams, and what it ends with.
    link: (&'static str, &'static str),
}

fn kinds() -> Vec<Kind> {
    let emoji =
        |emoji: &str, text: &str| format!("{{{{if eq .serviceType \"slack\"}}}}{emoji}{{{{end}}}} {text}");
    let sync = ("Sync Status", ".app.status.sync.status");
    let finished = ".app.status.operationState.finishedAt";
    let operation = "?operation=true";
    vec![
        Kind {
            name: "app-deployed",
            message: emoji(
                ":white_check_mark:",
                "Application {{.app.metadata.name}} is now running new version of deployments manifests.\n",
            ),
            subject: "New version of an application {{.app.metadata.name}} is up and running.",
            title: "New version of an application {{.app.metadata.name}} is up and running.",
            color: GREEN,
            theme: "#000080",
            status: sync,
            time: None,
            has_revision: true,
            link: ("Operation Application", ""),
        },
        Kind {
            name: "app-health-degraded",
            message: emoji(":exclamation:", "Application {{.app.metadata.name}} has degraded.\n") + DETAILS,
            subject: "Application {{.app.metadata.name}} has degraded.",
            title: "Application {{.app.metadata.name}} has degraded.",
            color: "#f4c030",
            theme: "#FF0000",
            status: ("Health Status", ".app.status.health.status"),
            time: None,
            has_revision: false,
            link: ("Open Application", ""),
        },
        Kind {
            name: "app-sync-failed",
            message: emoji(
                ":exclamation:",
                " The sync operation of application {{.app.metadata.name}} has failed at {{.app.status.operationState.finishedAt}} with the following error: {{.app.status.operationState.message}}\n",
            ) + OPERATION,
            subject: "Failed to sync application {{.app.metadata.name}}.",
            title: "Failed to sync application {{.app.metadata.name}}.",
            color: RED,
            theme: "#FF0000",
            status: sync,
            time: Some(("Failed at", finished)),
            has_revision: false,
            link: ("Open Operation", operation),
        },
        Kind {
            name: "app-sync-running",
            message: format!(
                "The sync operation of application {{{{.app.metadata.name}}}} has started at {{{{.app.status.operationState.startedAt}}}}.\n{OPERATION}"
            ),
            subject: "Start syncing application {{.app.metadata.name}}.",
            title: "Start syncing application {{.app.metadata.name}}.",
            color: "#0DADEA",
            theme: "",
            status: sync,
            time: Some(("Started at", ".app.status.operationState.startedAt")),
            has_revision: false,
            link: ("Open Operation", operation),
        },
        Kind {
            name: "app-sync-status-unknown",
            message: emoji(":exclamation:", "Application {{.app.metadata.name}} sync is 'Unknown'.\n")
                + DETAILS
                + "{{if eq .serviceType \"slack\"}}\n{{else}}\n{{range $c := .app.status.conditions}}\n    * {{$c.message}}\n{{end}}\n\n{{end}}",
            subject: "Application {{.app.metadata.name}} sync status is 'Unknown'",
            title: "Application {{.app.metadata.name}} sync status is 'Unknown'",
            color: RED,
            theme: "",
            status: sync,
            time: None,
            has_revision: false,
            link: ("Open Application", ""),
        },
        Kind {
            name: "app-sync-succeeded",
            message: emoji(
                ":white_check_mark:",
                "Application {{.app.metadata.name}} has been successfully synced at {{.app.status.operationState.finishedAt}}.\n",
            ) + OPERATION,
            subject: "Application {{.app.metadata.name}} has been successfully synced.",
            title: "Application {{.app.metadata.name}} has been successfully synced",
            color: GREEN,
            theme: "#000080",
            status: sync,
            time: Some(("Synced at", finished)),
            has_revision: false,
            link: ("Operation Details", operation),
        },
    ]
}

impl Kind {
    fn template(&self) -> Value {
        let mut teams = Map::new();
        teams.insert("title".to_owned(), self.title.into());
        teams.insert("facts".to_owned(), self.facts().into());
        teams.insert("potentialAction".to_owned(), self.actions().into());
        if !self.theme.is_empty() {
            teams.insert("themeColor".to_owned(), self.theme.into());
        }
        json!({"message": self.message, "email": {"subject": self.subject},
            "slack": {"attachments": self.attachments()}, "teams": teams})
    }

    /// One attachment; what is put into it is JSON (NTF-606).
    fn attachments(&self) -> String {
        let (title, status) = self.status;
        let mut fields = vec![
            format!(r#"{{"title": "{title}", "value": {{{{{status} | toJson}}}}, "short": true}}"#),
            concat!(
                r#"{{if .app.spec.source}}{"title": "Repository", "value": {{printf ":arrow_heading_up: %s" .app.spec.source.repoURL | toJson}}, "short": true}"#,
                r#"{{else}}{"title": "Repositories", "value": "{{range $i, $s := .app.spec.sources}}{{if $i}}\n{{end}}:arrow_heading_up: {{$s.repoURL | toJson | trimPrefix "\"" | trimSuffix "\""}}{{end}}", "short": true}{{end}}"#
            )
            .to_owned(),
        ];
        if self.has_revision {
            fields.push(
                r#"{"title": "Revision", "value": {{.app.status.sync.revision | toJson}}, "short": true}"#
                    .to_owned(),
            );
        }
        format!(
            r#"[{{"title": {{{{.app.metadata.name | toJson}}}}, "title_link": {{{{printf "%s/applications/%s" .context.argocdUrl .app.metadata.name | toJson}}}}, "color": "{}", "fields": [{}{{{{range $c := .app.status.conditions}}}}, {{"title": {{{{$c.type | toJson}}}}, "value": {{{{$c.message | toJson}}}}, "short": true}}{{{{end}}}}]}}]"#,
            self.color,
            fields.join(", "),
        )
    }

    fn facts(&self) -> String {
        let (title, status) = self.status;
        let fact =
            |name: &str, value: &str| format!(r#"{{"name": "{name}", "value": {{{{{value} | toJson}}}}}}"#);
        let mut facts = vec![fact(title, status)];
        facts.extend(self.time.map(|(name, value)| fact(name, value)));
        facts.push(
            concat!(
                r#"{{if .app.spec.source}}{"name": "Repository", "value": {{.app.spec.source.repoURL | toJson}}}"#,
                r#"{{else}}{"name": "Repositories", "value": "{{range $i, $s := .app.spec.sources}}{{if $i}}\n{{end}}{{$s.repoURL | toJson | trimPrefix "\"" | trimSuffix "\""}}{{end}}"}{{end}}"#
            )
            .to_owned(),
        );
        if self.has_revision {
            facts.push(fact("Revision", ".app.status.sync.revision"));
        }
        format!(
            r#"[{}{{{{range $c := .app.status.conditions}}}}, {{"name": {{{{$c.type | toJson}}}}, "value": {{{{$c.message | toJson}}}}}}{{{{end}}}}]"#,
            facts.join(", ")
        )
    }

    fn actions(&self) -> String {
        let (name, suffix) = self.link;
        let open = |name: &str, uri: &str| {
            format!(
                r#"{{"@type": "OpenUri", "name": "{name}", "targets": [{{"os": "default", "uri": {{{{{uri} | toJson}}}}}}]}}"#
            )
        };
        let own = format!(r#"printf "%s/applications/%s{suffix}" .context.argocdUrl .app.metadata.name"#);
        let repository =
            "(.app.spec.source | default (.app.spec.sources | default (list dict) | first)).repoURL";
        format!("[{}, {}]", open(name, &own), open("Open Repository", repository))
    }
}

/// The entries, as a `ConfigMap` would have them.
#[must_use]
pub fn catalog() -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for (name, when, template, once_per) in TRIGGERS {
        let conditions = json!([{"when": when, "oncePer": once_per, "send": [template]}]);
        entries.insert(format!("trigger.{name}"), conditions.to_string());
    }
    for (name, word) in [("app-created", "created"), ("app-deleted", "deleted")] {
        let text = format!("Application {{{{.app.metadata.name}}}} has been {word}.");
        let template = json!({"message": text, "email": {"subject": text}, "teams": {"title": text}});
        entries.insert(format!("template.{name}"), template.to_string());
    }
    for kind in kinds() {
        entries.insert(format!("template.{}", kind.name), kind.template().to_string());
    }
    entries
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tiphys_go::template::Still;

    use super::*;
    use crate::config::Config;
    use crate::variables::Variables;

    fn made(template: &str, service: &str) -> (String, Value) {
        let data = BTreeMap::from([("catalog".to_owned(), "builtin".to_owned())]);
        let config = Config::read(&data, &BTreeMap::new()).unwrap();
        let context = BTreeMap::from([("argocdUrl".to_owned(), "https://cd".to_owned())]);
        let application = json!({"metadata": {"name": "web"},
            "spec": {"source": {"repoURL": "https://git/r"}},
            "status": {"sync": {"status": "Unknown", "revision": "abc"}, "health": {"status": "Degraded"},
                "conditions": [{"type": "ComparisonError", "message": "a \"quote\""}],
                "operationState": {"finishedAt": "F", "startedAt": "S", "message": "boom"}}});
        let variables =
            Variables { application: &application, project: None, context: &context, secrets: None };
        let still = Still(Timestamp::UNIX_EPOCH);
        let made = config.templates[template].render(&variables.of_delivery(service, "r"), &still).unwrap();
        (made.message, Value::Object(made.blocks))
    }

    #[test]
    fn ntf_603_messages_of_the_catalog() {
        let message = |template: &str, service: &str| made(template, service).0;
        assert_eq!(message("app-created", "slack"), "Application web has been created.");
        assert_eq!(
            message("app-deployed", "slack"),
            ":white_check_mark: Application web is now running new version of deployments manifests.\n"
        );
        assert_eq!(
            message("app-sync-failed", "email"),
            "  The sync operation of application web has failed at F with the following error: boom\n\
             Sync operation details are available at: https://cd/applications/web?operation=true .\n"
        );
        assert_eq!(
            message("app-sync-status-unknown", "slack"),
            ":exclamation: Application web sync is 'Unknown'.\nApplication details: https://cd/applications/web.\n\n"
        );
        assert_eq!(
            message("app-sync-status-unknown", "email"),
            " Application web sync is 'Unknown'.\nApplication details: https://cd/applications/web.\n\n\n    * a \"quote\"\n\n\n"
        );
    }

    /// NTF-604..606: attachments, facts and links are JSON whatever the application says.
    #[test]
    fn ntf_606_blocks_of_the_catalog_are_json() {
        for kind in kinds() {
            let (_, blocks) = made(kind.name, "slack");
            let read = |block: &str, name: &str| -> Value {
                serde_json::from_str(blocks[block][name].as_str().unwrap()).unwrap()
            };
            let attachments = read("slack", "attachments");
            assert_eq!(attachments[0]["title_link"], "https://cd/applications/web");
            let fields = attachments[0]["fields"].as_array().unwrap();
            assert_eq!(fields.last().unwrap()["value"], "a \"quote\"");
            assert_eq!(fields[1]["value"], ":arrow_heading_up: https://git/r");
            assert!(read("teams", "facts").is_array());
            assert_eq!(read("teams", "potentialAction")[1]["targets"][0]["uri"], "https://git/r");
        }
    }

    #[test]
    fn ntf_602_expressions_are_the_ones_that_states_have_digests_of() {
        let config = Config::read(&catalog(), &BTreeMap::new()).unwrap();
        assert_eq!(config.triggers.len(), 8);
        assert_eq!(config.triggers["on-created"][0].key(0), "[0].X_5TO4MPCKAyY0ipFgr6_IraRNs");
    }
}
