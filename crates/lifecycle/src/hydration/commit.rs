//! What is committed: manifests, what they were made from, and the message (CTL-115, CTL-117, CTL-118).

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tiphys_api::commit::{CommitReference, split_reference};
use tiphys_api::repo_url;
use tiphys_go::template::{Engine, FunctionSet, Limits, Still, Templates, Value as TemplateValue};
use tiphys_go::yaml;

/// Name of the file with the manifests of a directory.
pub const MANIFEST: &str = "manifest.yaml";
/// Name of the file that says what manifests were made from.
pub const METADATA: &str = "hydrator.metadata";
/// Name of the file that tells people the same.
pub const README: &str = "README.md";
/// Name of the file that tells hosting services which files were generated.
pub const ATTRIBUTES: &str = ".gitattributes";
/// What that says.
pub const ATTRIBUTES_TEXT: &str =
    "**/README.md linguist-generated=true\n**/hydrator.metadata linguist-generated=true\n";
/// Key of the template of commit messages in `argocd-cm`.
pub const MESSAGE_TEMPLATE: &str = "sourceHydrator.commitMessageTemplate";
/// Key of the template of READMEs.
pub const README_TEMPLATE: &str = "sourceHydrator.readmeMessageTemplate";
/// Key of the switch that removes what nobody hydrates any more (CTL-119).
pub const PRUNE: &str = "sourceHydrator.pruneRemovedPaths";
/// Keys of who commits, with what stands for them.
pub const AUTHOR: [(&str, &str); 2] =
    [("commit.author.name", "Argo CD"), ("commit.author.email", "argo-cd@example.com")];

/// Bounds of a text that a template writes.
const LIMITS: Limits = Limits {
    steps: 5_000_000,
    made_bytes: 64 << 20,
    live_bytes: 32 << 20,
    text_bytes: 1 << 20,
    nesting: 1_000,
};

const DEFAULT_MESSAGE: &str = r"{{ .metadata.drySha | trunc 7 }}: {{ .metadata.subject }}
{{- with .metadata.body }}

{{ . }}
{{- end }}
{{- if or .metadata.references .metadata.author }}
{{ range .metadata.references }}{{ with .commit.author }}
Co-authored-by: {{ . }}
{{- end }}{{ end }}
{{- with .metadata.author }}
Co-authored-by: {{ . }}
{{- end }}
{{- end }}
";

const DEFAULT_README: &str = r"# Hydrated manifests

The manifests in this directory were rendered from another commit; edit their source instead of them.
This makes them again:

```shell
git clone {{ .RepoURL }}
# in the directory of the clone:
git checkout {{ .DrySHA }}
{{- range .Commands }}
{{ . }}
{{- end }}
```
{{- if .References }}

## References

{{ range .References }}{{ with .Commit -}}
* {{ if .RepoURL }}[{{ .SHA | trunc 7 }}]({{ .RepoURL }}){{ else }}{{ .SHA | trunc 7 }}{{ end }}: {{ .Subject }}{{ with .Author }} ({{ . }}){{ end }}
{{ end }}{{ end }}
{{- end }}
";

/// What the dry commit says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryCommit {
    /// URL of its repository.
    pub repo_url: String,
    /// Its id.
    pub sha: String,
    /// `Name <email>`.
    pub author: String,
    /// When the author wrote it.
    pub date: Option<Timestamp>,
    /// The message.
    pub message: String,
}

/// What manifests were made from. The repository is the one that was rendered (CTL-119), without what opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    repo_url: String,
    dry_sha: String,
    author: String,
    date: Option<Timestamp>,
    subject: String,
    body: String,
    references: Vec<CommitReference>,
}

impl Metadata {
    /// That of a commit.
    pub fn of(commit: &DryCommit) -> Self {
        let (reference, message) = split_reference(commit.message.trim());
        let (subject, body) = message.split_once('\n').unwrap_or((&message, ""));
        Self {
            repo_url: repo_url::redact(&commit.repo_url),
            dry_sha: commit.sha.clone(),
            author: commit.author.clone(),
            date: commit.date,
            subject: subject.trim().to_owned(),
            body: body.trim().to_owned(),
            references: reference.into_iter().collect(),
        }
    }

    /// The note on a commit that was made from this one (CTL-114).
    pub fn note(&self) -> String {
        json!({"drySha": self.dry_sha}).to_string()
    }

    /// Content of the file in the root (CTL-115).
    ///
    /// # Errors
    /// Never, for what is text can be written as JSON.
    pub fn root_file(&self) -> Result<String, serde_json::Error> {
        pretty(&self.file(&[]))
    }

    /// Content of the file beside manifests (CTL-115).
    ///
    /// # Errors
    /// Never, for what is text can be written as JSON.
    pub fn path_file(&self, commands: &[String]) -> Result<String, serde_json::Error> {
        let File { repo_url, dry_sha, commands, .. } = self.file(commands);
        pretty(&File { repo_url, dry_sha, commands, ..File::default() })
    }

    fn file<'a>(&'a self, commands: &'a [String]) -> File<'a> {
        File {
            repo_url: &self.repo_url,
            dry_sha: &self.dry_sha,
            commands,
            author: &self.author,
            date: self.date(),
            subject: &self.subject,
            body: &self.body,
            references: self.references.iter().map(reference).collect(),
        }
    }

    fn date(&self) -> String {
        self.date.map(|date| date.to_string()).unwrap_or_default()
    }

    /// The message of the commit (CTL-117).
    ///
    /// # Errors
    /// When the template is none, or fails.
    pub fn message(&self, template: Option<&str>) -> Result<String, String> {
        let references: Vec<Value> = self.references.iter().map(reference).collect();
        // All members are there: what a template asks for and is empty is empty.
        let data = json!({"metadata": {"repoURL": self.repo_url, "drySha": self.dry_sha, "commands": [],
            "author": self.author, "date": self.date(), "subject": self.subject, "body": self.body,
            "references": references}});
        let text = self.text(MESSAGE_TEMPLATE, template.unwrap_or(DEFAULT_MESSAGE), &data)?;
        let text = text.trim();
        if text.is_empty() {
            return Err(format!("{MESSAGE_TEMPLATE} in argocd-cm makes an empty message"));
        }
        Ok(format!("{text}\n"))
    }

    /// The text for people beside manifests (CTL-117).
    ///
    /// # Errors
    /// When the template is none, or fails.
    pub fn readme(&self, template: Option<&str>, commands: &[String]) -> Result<String, String> {
        let reference = |it: &CommitReference| {
            json!({"Commit": {"RepoURL": it.repo_url, "SHA": it.sha, "Author": it.author, "Date": it.date,
                "Subject": it.subject, "Body": it.body}})
        };
        let references: Vec<Value> = self.references.iter().map(reference).collect();
        let data = json!({"RepoURL": self.repo_url, "DrySHA": self.dry_sha, "Commands": commands,
            "References": references, "Author": self.author, "Date": self.date(), "Subject": self.subject,
            "Body": self.body});
        let text = self.text(README_TEMPLATE, template.unwrap_or(DEFAULT_README), &data)?;
        Ok(format!("{}\n", text.trim_end()))
    }

    /// The time is that of the commit, so that the same commit makes the same text.
    fn text(&self, name: &str, template: &str, data: &Value) -> Result<String, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{name} in argocd-cm: {error}");
        let mut templates = Templates::new(name, FunctionSet::isolated());
        templates.parse(name, template.as_bytes().to_vec()).map_err(|error| failed(&error))?;
        let environment = Still(self.date.unwrap_or(Timestamp::UNIX_EPOCH));
        let mut engine = Engine::new(&templates, &environment, LIMITS);
        let made = engine.execute(name, &TemplateValue::from_json(data)).map_err(|error| failed(&error))?;
        Ok(String::from_utf8_lossy(&made).into_owned())
    }
}

fn reference(it: &CommitReference) -> Value {
    let mut commit = Map::new();
    for (name, text) in [
        ("author", &it.author),
        ("date", &it.date),
        ("subject", &it.subject),
        ("body", &it.body),
        ("sha", &it.sha),
        ("repoURL", &it.repo_url),
    ] {
        if !text.is_empty() {
            commit.insert(name.to_owned(), text.as_str().into());
        }
    }
    json!({"commit": commit})
}

/// A file of metadata: members in this order, the empty ones left out (CTL-115).
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "repoURL", skip_serializing_if = "str::is_empty")]
    repo_url: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    dry_sha: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    commands: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    author: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    date: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    subject: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<Value>,
}

fn pretty(file: &File<'_>) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(file).map(|text| text + "\n")
}

/// Whether a note says that a commit was made from a dry one.
pub fn is_note_of(note: &str, sha: &str) -> bool {
    let note: Option<Value> = serde_json::from_str(note.trim()).ok();
    note.as_ref().and_then(|note| note.get("drySha")).and_then(Value::as_str) == Some(sha)
}

/// The file with manifests: documents in the order they were made, keys sorted, indented by two (CTL-115).
///
/// # Errors
/// When a value cannot be written as YAML, or all together are larger than the bound.
pub fn manifests<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    bytes_max: usize,
) -> Result<String, String> {
    let mut text = String::new();
    for object in objects {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let left = bytes_max.saturating_sub(text.len());
        text.push_str(&yaml::to_string_pretty(object, left).map_err(|error| error.to_string())?);
    }
    Ok(text)
}

/// A repository and a directory, as a file beside manifests names the repository they were made from (CTL-119).
pub fn repository_of(metadata: &str) -> Option<String> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    metadata.get("repoURL").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(message: &str) -> Metadata {
        Metadata::of(&DryCommit {
            repo_url: "https://me:secret@git.test/dry.git".to_owned(),
            sha: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            author: "Ada <ada@x>".to_owned(),
            date: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            message: message.to_owned(),
        })
    }

    const WITH_REFERENCE: &str = "Bump the shop\n\nBecause.\n\nArgocd-reference-commit-sha: abcdef0123\n\
        Argocd-reference-commit-author: Ben <ben@x>\nArgocd-reference-commit-repourl: https://git.test/app\n\
        Argocd-reference-commit-subject: Fix it";

    #[test]
    fn ctl_115_metadata_leaves_out_what_is_empty() {
        assert_eq!(
            commit("Bump").root_file().unwrap(),
            "{\n  \"repoURL\": \"https://git.test/dry.git\",\n  \"drySha\": \"0123456789abcdef0123456789abcdef01234567\",\n  \
             \"author\": \"Ada <ada@x>\",\n  \"date\": \"2026-01-02T03:04:05Z\",\n  \"subject\": \"Bump\"\n}\n"
        );
        assert_eq!(
            commit("Bump").path_file(&["helm template .".to_owned()]).unwrap(),
            "{\n  \"repoURL\": \"https://git.test/dry.git\",\n  \"drySha\": \"0123456789abcdef0123456789abcdef01234567\",\n  \
             \"commands\": [\n    \"helm template .\"\n  ]\n}\n"
        );
    }

    #[test]
    fn ctl_117_the_default_message_names_who_wrote_it() {
        assert_eq!(commit("Bump").message(None).unwrap(), "0123456: Bump\n\nCo-authored-by: Ada <ada@x>\n");
        assert_eq!(
            commit(WITH_REFERENCE).message(None).unwrap(),
            "0123456: Bump the shop\n\nBecause.\n\nCo-authored-by: Ben <ben@x>\nCo-authored-by: Ada <ada@x>\n"
        );
        let nobody = Metadata { author: String::new(), ..commit("Bump\n\nText") };
        assert_eq!(nobody.message(None).unwrap(), "0123456: Bump\n\nText\n");
    }

    #[test]
    fn ctl_117_templates_see_the_metadata_and_nothing_outside() {
        let found = commit(WITH_REFERENCE);
        let template = "{{ .metadata.repoURL }} {{ (first .metadata.references).commit.sha | upper }}";
        assert_eq!(found.message(Some(template)).unwrap(), "https://git.test/dry.git ABCDEF0123\n");
        for bad in
            ["{{ env \"HOME\" }}", "{{ getHostByName \"localhost\" }}", "{{ .metadata", "{{/* none */}}"]
        {
            let error = found.message(Some(bad)).unwrap_err();
            assert!(error.starts_with(MESSAGE_TEMPLATE), "{error}");
        }
    }

    #[test]
    fn ctl_117_the_default_readme_says_how_to_make_them_again() {
        let text = commit(WITH_REFERENCE).readme(None, &["kustomize build .".to_owned()]).unwrap();
        let shell = "```shell\ngit clone https://git.test/dry.git\n# in the directory of the clone:\n\
            git checkout 0123456789abcdef0123456789abcdef01234567\nkustomize build .\n```\n\n## References\n\n\
            * [abcdef0](https://git.test/app): Fix it (Ben <ben@x>)\n";
        assert!(text.ends_with(shell), "{text}");
        let plain = commit("Bump").readme(None, &[]).unwrap();
        assert!(plain.ends_with("4567\n```\n") && !plain.contains("References"), "{plain}");
        let own = commit("Bump").readme(Some("{{ .DrySHA | trunc 3 }}{{ len .References }}"), &[]);
        assert_eq!(own.unwrap(), "0120\n");
    }

    #[test]
    fn ctl_114_notes_name_the_dry_commit() {
        let found = commit("Bump");
        assert_eq!(found.note(), r#"{"drySha":"0123456789abcdef0123456789abcdef01234567"}"#);
        assert!(is_note_of(&format!("{}\n", found.note()), "0123456789abcdef0123456789abcdef01234567"));
        assert!(!is_note_of(&found.note(), "other") && !is_note_of("", "") && !is_note_of("[]", ""));
    }

    #[test]
    fn ctl_115_manifests_are_documents_in_order() {
        let objects =
            [json!({"kind": "B", "apiVersion": "v1", "list": [{"b": 1, "a": "x"}]}), json!({"kind": "A"})];
        assert_eq!(
            manifests(&objects, 1000).unwrap(),
            "apiVersion: v1\nkind: B\nlist:\n  - a: x\n    b: 1\n---\nkind: A\n"
        );
        assert_eq!(manifests([], 0).unwrap(), "");
        assert!(manifests(&objects, 40).is_err());
    }

    #[test]
    fn ctl_119_metadata_names_the_dry_repository() {
        assert_eq!(
            repository_of(&commit("x").path_file(&[]).unwrap()).as_deref(),
            Some("https://git.test/dry.git")
        );
        assert_eq!(repository_of("{"), None);
    }
}
