//! Applying spec flags to an application's spec: what was given changes, everything else stays (CLI-410..414).

use tiphys_api::application::{
    ApplicationSource, ApplicationSpec, AutomatedSync, Backoff, DirectorySource, HelmFileParameter,
    HelmParameter, HelmSource, Hydrator, IntOrString, JsonnetSource, JsonnetVariable, KustomizeReplica,
    KustomizeSource, PluginSource, PluginVariable, RetryStrategy, SyncPolicy,
};

use crate::app::spec_flags::HYDRATOR;
use crate::failure::Failure;
use crate::flags::Parsed;

/// What an edit leaves to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EditNotes {
    /// Records of level error that do not end the command (CLI-412).
    pub(crate) errors: Vec<String>,
}

/// Applies the flags to a spec whose only source, if any, is `spec.source`.
///
/// `source_type` is the type last observed, empty when unknown; `values_literal` the text of
/// `--values-literal-file`.
pub(crate) fn apply(
    spec: &mut ApplicationSpec,
    flags: &Parsed,
    source_type: &str,
    values_literal: Option<String>,
) -> Result<EditNotes, Failure> {
    let mut notes = EditNotes::default();
    if HYDRATOR.iter().any(|name| flags.is_set(name)) {
        edit_hydrator(spec, flags)?;
    } else {
        let mut source = spec.source.take().unwrap_or_default();
        edit_source(&mut source, flags, values_literal)?;
        if flags.is_set("parameter") {
            edit_parameters(&mut source, flags, source_type, &mut notes)?;
        }
        if source != ApplicationSource::default() {
            spec.source = Some(source);
        }
    }
    set_text(flags, "project", &mut spec.project);
    set_text(flags, "dest-server", &mut spec.destination.server);
    set_text(flags, "dest-name", &mut spec.destination.name);
    set_text(flags, "dest-namespace", &mut spec.destination.namespace);
    if flags.is_set("revision-history-limit") {
        spec.revision_history_limit = Some(flags.int("revision-history-limit"));
    }
    edit_policy(spec, flags)?;
    Ok(notes)
}

/// A source that the flags alone describe (CLI-424).
pub(crate) fn source(
    flags: &Parsed,
    values_literal: Option<String>,
) -> Result<(ApplicationSource, EditNotes), Failure> {
    let mut notes = EditNotes::default();
    let mut source = ApplicationSource::default();
    edit_source(&mut source, flags, values_literal)?;
    if flags.is_set("parameter") {
        edit_parameters(&mut source, flags, "", &mut notes)?;
    }
    Ok((source, notes))
}

fn set_text(flags: &Parsed, name: &str, member: &mut String) {
    if flags.is_set(name) {
        flags.text(name).clone_into(member);
    }
}

fn edit_hydrator(spec: &mut ApplicationSpec, flags: &Parsed) -> Result<(), Failure> {
    let mut written = spec.source_hydrator.take().map(Hydrator::into_map).unwrap_or_default();
    for (name, block, member) in [
        ("dry-source-repo", "drySource", "repoURL"),
        ("dry-source-revision", "drySource", "targetRevision"),
        ("dry-source-path", "drySource", "path"),
        ("sync-source-branch", "syncSource", "targetBranch"),
        ("sync-source-path", "syncSource", "path"),
        ("hydrate-to-branch", "hydrateTo", "targetBranch"),
    ] {
        if flags.is_set(name) {
            tiphys_object::access::member_object_mut(&mut written, block)
                .insert(member.to_owned(), flags.text(name).into());
        }
    }
    let hydrator = Hydrator::new(written);
    let failed = |error| Failure::generic(format!("spec.sourceHydrator cannot be read: {error}"));
    spec.source_hydrator = Some(hydrator.map_err(failed)?);
    Ok(())
}

fn edit_source(
    source: &mut ApplicationSource,
    flags: &Parsed,
    values_literal: Option<String>,
) -> Result<(), Failure> {
    set_text(flags, "repo", &mut source.repo_url);
    set_text(flags, "path", &mut source.path);
    set_text(flags, "helm-chart", &mut source.chart);
    set_text(flags, "revision", &mut source.target_revision);
    set_text(flags, "ref", &mut source.r#ref);
    set_text(flags, "source-name", &mut source.name);
    set_text(flags, "tag-prefix", &mut source.tag_prefix);
    edit_block(&mut source.helm, |helm| edit_helm(helm, flags, values_literal))?;
    edit_block(&mut source.kustomize, |kustomize| edit_kustomize(kustomize, flags))?;
    edit_directory(source, flags);
    edit_block(&mut source.plugin, |plugin| edit_plugin(plugin, flags))
}

/// Edits an optional block; one that stays empty is not made.
pub(super) fn edit_block<T: Default + PartialEq>(
    block: &mut Option<Box<T>>,
    edit: impl FnOnce(&mut T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut content = block.take().unwrap_or_default();
    edit(&mut content)?;
    *block = (*content != T::default()).then_some(content);
    Ok(())
}

fn set_list(flags: &Parsed, name: &str, member: &mut Vec<String>) {
    if flags.is_set(name) {
        *member = flags.texts(name).to_vec();
    }
}

/// A switch can only turn a setting on (CLI-411).
fn turn_on(flags: &Parsed, name: &str, member: &mut bool) {
    *member |= flags.is_on(name);
}

fn edit_helm(helm: &mut HelmSource, flags: &Parsed, values_literal: Option<String>) -> Result<(), Failure> {
    set_text(flags, "release-name", &mut helm.release_name);
    set_text(flags, "helm-version", &mut helm.version);
    set_text(flags, "helm-namespace", &mut helm.namespace);
    set_text(flags, "helm-kube-version", &mut helm.kube_version);
    set_list(flags, "values", &mut helm.value_files);
    set_list(flags, "helm-api-versions", &mut helm.api_versions);
    turn_on(flags, "ignore-missing-value-files", &mut helm.ignore_missing_value_files);
    turn_on(flags, "helm-pass-credentials", &mut helm.pass_credentials);
    turn_on(flags, "helm-skip-crds", &mut helm.skip_crds);
    turn_on(flags, "helm-skip-schema-validation", &mut helm.skip_schema_validation);
    turn_on(flags, "helm-skip-tests", &mut helm.skip_tests);
    if let Some(text) = values_literal {
        helm.values_object = None;
        helm.values = text;
    }
    for (name, force) in [("helm-set", false), ("helm-set-string", true)] {
        for text in flags.texts(name) {
            let (key, value) = helm_pair(text)?;
            put_parameter(helm, key, &escape_commas(value), force);
        }
    }
    for text in flags.texts("helm-set-file") {
        let (key, path) = helm_pair(text)?;
        let entry =
            HelmFileParameter { name: key.to_owned(), path: path.to_owned(), ..HelmFileParameter::default() };
        put(&mut helm.file_parameters, entry, |known| known.name == key);
    }
    Ok(())
}

fn helm_pair(text: &str) -> Result<(&str, &str), Failure> {
    text.split_once('=').ok_or_else(|| {
        Failure::generic(format!("expected helm parameter of the form param=value but received: {text}"))
    })
}

/// `,` becomes `\,` where it is not escaped already (CLI-413).
fn escape_commas(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut before = ' ';
    for letter in value.chars() {
        if letter == ',' && before != '\\' {
            out.push('\\');
        }
        out.push(letter);
        before = letter;
    }
    out
}

fn put_parameter(helm: &mut HelmSource, name: &str, value: &str, force_string: bool) {
    let (entry_name, value) = (name.to_owned(), value.to_owned());
    let entry = HelmParameter { name: entry_name, value, force_string, ..HelmParameter::default() };
    put(&mut helm.parameters, entry, |known| known.name == name);
}

/// Replaces the entry that an addition stands for, or appends it.
fn put<T>(list: &mut Vec<T>, entry: T, is_same: impl Fn(&T) -> bool) {
    match list.iter_mut().find(|known| is_same(known)) {
        Some(known) => *known = entry,
        None => list.push(entry),
    }
}

/// `-p`: only Helm has parameters (CLI-412).
fn edit_parameters(
    source: &mut ApplicationSource,
    flags: &Parsed,
    source_type: &str,
    notes: &mut EditNotes,
) -> Result<(), Failure> {
    let explicit = if source.helm.is_some() || !source.chart.is_empty() {
        "Helm"
    } else if source.kustomize.is_some() {
        "Kustomize"
    } else if source.directory.is_some() {
        "Directory"
    } else if source.plugin.is_some() {
        "Plugin"
    } else {
        source_type
    };
    let looks_like_helm = flags.texts("parameter").first().is_some_and(|first| first.contains('='));
    if !(explicit == "Helm" || explicit.is_empty() && looks_like_helm) {
        return Err(Failure::fatal("Parameters can only be set against Helm applications"));
    }
    let helm = source.helm.get_or_insert_default();
    for text in flags.texts("parameter") {
        match text.split_once('=') {
            Some((name, value)) => put_parameter(helm, name, value, false),
            None => notes
                .errors
                .push(format!("Expected helm parameter of the form: param=value. Received: {text}")),
        }
    }
    Ok(())
}

fn edit_kustomize(block: &mut KustomizeSource, flags: &Parsed) -> Result<(), Failure> {
    set_text(flags, "nameprefix", &mut block.name_prefix);
    set_text(flags, "namesuffix", &mut block.name_suffix);
    set_text(flags, "kustomize-version", &mut block.version);
    set_text(flags, "kustomize-namespace", &mut block.namespace);
    set_text(flags, "kustomize-kube-version", &mut block.kube_version);
    set_list(flags, "kustomize-api-versions", &mut block.api_versions);
    turn_on(flags, "kustomize-label-without-selector", &mut block.label_without_selector);
    turn_on(flags, "kustomize-label-include-templates", &mut block.label_include_templates);
    turn_on(flags, "kustomize-force-common-label", &mut block.force_common_labels);
    turn_on(flags, "kustomize-force-common-annotation", &mut block.force_common_annotations);
    turn_on(flags, "ignore-missing-components", &mut block.ignore_missing_components);
    for image in flags.texts("kustomize-image") {
        let name = image_name(image);
        put(&mut block.images, image.clone(), |known| image_name(known) == name);
    }
    for text in flags.texts("kustomize-replica") {
        let bad =
            || Failure::generic(format!("expected parameter of the form: name=count. Received: {text}"));
        let (name, count) = text.split_once('=').ok_or_else(bad)?;
        let count = IntOrString::Int(count.parse().map_err(|_invalid| bad())?);
        let entry = KustomizeReplica { name: name.to_owned(), count, ..KustomizeReplica::default() };
        put(&mut block.replicas, entry, |known| known.name == name);
    }
    for (name, member) in [
        ("kustomize-common-label", &mut block.common_labels),
        ("kustomize-common-annotation", &mut block.common_annotations),
    ] {
        for text in flags.texts(name) {
            let Some((key, value)) = text.split_once('=') else {
                return Err(Failure::generic(format!(
                    "expected {name} of the form: key=value but received: {text}"
                )));
            };
            member.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(())
}

/// The part of an image override that names the image (CLI-414).
pub(super) fn image_name(image: &str) -> &str {
    ['=', ':', '@'].iter().find_map(|delimiter| image.split_once(*delimiter)).map_or(image, |(name, _)| name)
}

fn edit_directory(source: &mut ApplicationSource, flags: &Parsed) {
    let mut directory = source.directory.take().unwrap_or_default();
    let before = directory.clone();
    let had_block = before != DirectorySource::default();
    if flags.is_set("directory-recurse") {
        directory.recurse = flags.is_on("directory-recurse");
    }
    if flags.is_set("directory-disable-extension-filter") {
        directory.disable_extension_filter = flags.is_on("directory-disable-extension-filter");
    }
    set_text(flags, "directory-exclude", &mut directory.exclude);
    set_text(flags, "directory-include", &mut directory.include);
    let mut jsonnet = directory.jsonnet.take().unwrap_or_default();
    for (member, as_text, as_code) in [
        (&mut jsonnet.tlas, "jsonnet-tla-str", "jsonnet-tla-code"),
        (&mut jsonnet.ext_vars, "jsonnet-ext-var-str", "jsonnet-ext-var-code"),
    ] {
        for (name, code) in [(as_text, false), (as_code, true)] {
            for text in flags.texts(name) {
                let (key, value) = text.split_once('=').unwrap_or((text, ""));
                let (entry_name, value) = (key.to_owned(), value.to_owned());
                let entry = JsonnetVariable { name: entry_name, value, code, ..JsonnetVariable::default() };
                put(member, entry, |known| known.name == key);
            }
        }
    }
    jsonnet.libs.extend_from_slice(flags.texts("jsonnet-libs"));
    directory.jsonnet = (jsonnet != JsonnetSource::default()).then_some(jsonnet);
    let is_empty = directory == DirectorySource::default();
    source.directory = (had_block || !is_empty).then_some(directory);
}

fn edit_plugin(plugin: &mut PluginSource, flags: &Parsed) -> Result<(), Failure> {
    set_text(flags, "config-management-plugin", &mut plugin.name);
    for text in flags.texts("plugin-env") {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Failure::generic(format!(
                "expected env entry of the form: param=value but received: {text}"
            )));
        };
        let (entry_name, value) = (name.to_owned(), value.to_owned());
        let entry = PluginVariable { name: entry_name, value, ..PluginVariable::default() };
        put(&mut plugin.env, entry, |known| known.name == name);
    }
    Ok(())
}

fn edit_policy(spec: &mut ApplicationSpec, flags: &Parsed) -> Result<(), Failure> {
    let mut policy = spec.sync_policy.take().unwrap_or_default();
    if flags.is_set("sync-policy") {
        match flags.text("sync-policy") {
            "none" | "manual" => policy.automated = None,
            "automated" | "auto" | "automatic" => {
                let automated = policy.automated.get_or_insert_default();
                automated.enabled = None;
            }
            other => return Err(Failure::fatal(format!("Invalid sync-policy: {other}"))),
        }
    }
    if ["auto-prune", "self-heal", "allow-empty"].iter().any(|name| flags.is_set(name)) {
        let off = || AutomatedSync { enabled: Some(false), ..AutomatedSync::default() };
        let automated = policy.automated.get_or_insert_with(off);
        for (name, member) in [
            ("auto-prune", &mut automated.prune),
            ("self-heal", &mut automated.self_heal),
            ("allow-empty", &mut automated.allow_empty),
        ] {
            if flags.is_set(name) {
                *member = flags.is_on(name);
            }
        }
    }
    for option in flags.texts("sync-option") {
        if let Some(removed) = option.strip_prefix('!') {
            policy.sync_options.retain(|known| known != removed);
        } else if !policy.sync_options.contains(option) {
            policy.sync_options.push(option.clone());
        }
    }
    edit_retry(&mut policy, flags)?;
    spec.sync_policy = (policy != SyncPolicy::default()).then_some(policy);
    Ok(())
}

fn edit_retry(policy: &mut SyncPolicy, flags: &Parsed) -> Result<(), Failure> {
    if flags.is_set("sync-retry-limit") {
        match flags.int("sync-retry-limit") {
            limit if limit < 0 => return Err(Failure::fatal(format!("Invalid sync-retry-limit [{limit}]"))),
            0 => policy.retry = None,
            limit => policy.retry = Some(retry(flags, limit, "sync-retry")),
        }
    }
    if flags.is_set("sync-retry-refresh") {
        policy.retry.get_or_insert_default().refresh = flags.is_on("sync-retry-refresh");
    }
    Ok(())
}

/// A retry block from the flags with a prefix.
pub(crate) fn retry(flags: &Parsed, limit: i64, prefix: &str) -> RetryStrategy {
    RetryStrategy {
        limit,
        backoff: Some(Backoff {
            duration: flags.text(&format!("{prefix}-backoff-duration")).to_owned(),
            factor: Some(flags.int(&format!("{prefix}-backoff-factor"))),
            max_duration: flags.text(&format!("{prefix}-backoff-max-duration")).to_owned(),
            ..Backoff::default()
        }),
        refresh: flags.is_on(&format!("{prefix}-refresh")),
        ..RetryStrategy::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::app::spec_flags::FLAGS;
    use crate::flags::parse;

    fn edited(before: Value, args: &[&str]) -> Result<Value, Failure> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let parsed = parse(&args, &[FLAGS]).unwrap();
        let mut spec: ApplicationSpec = serde_json::from_value(before).unwrap();
        apply(&mut spec, &parsed, "", None)?;
        Ok(serde_json::to_value(&spec).unwrap())
    }

    fn empty() -> Value {
        json!({"project": "", "destination": {}})
    }

    #[test]
    fn cli_410_the_worked_example() {
        let spec = edited(
            empty(),
            &[
                "--repo",
                "https://git.example.com/a.git",
                "--path",
                "web",
                "--dest-server",
                "https://kubernetes.default.svc",
                "--dest-namespace",
                "web",
                "--helm-set",
                "tags=a,b",
                "--kustomize-image",
                "nginx=registry.example.com/nginx:1.27",
                "--sync-policy",
                "auto",
                "--auto-prune",
                "--sync-option",
                "CreateNamespace=true",
            ],
        )
        .unwrap();
        assert_eq!(
            spec,
            json!({"project": "", "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"},
                "source": {"repoURL": "https://git.example.com/a.git", "path": "web",
                    "helm": {"parameters": [{"name": "tags", "value": "a\\,b"}]},
                    "kustomize": {"images": ["nginx=registry.example.com/nginx:1.27"]}},
                "syncPolicy": {"automated": {"prune": true}, "syncOptions": ["CreateNamespace=true"]}})
        );
    }

    #[test]
    fn cli_410_policies() {
        let policy = |before: Value, args: &[&str]| edited(before, args).unwrap().get("syncPolicy").cloned();
        assert_eq!(
            policy(empty(), &["--auto-prune"]),
            Some(json!({"automated": {"prune": true, "enabled": false}}))
        );
        assert_eq!(policy(empty(), &["--sync-policy", "none"]), None);
        let with = json!({"destination": {}, "syncPolicy": {"syncOptions": ["A=1"]}});
        assert_eq!(policy(with.clone(), &["--sync-option", "!A=1"]), None);
        assert_eq!(policy(with, &["--sync-option", "A=1"]), Some(json!({"syncOptions": ["A=1"]})));
        assert_eq!(
            policy(empty(), &["--sync-retry-limit", "3"]),
            Some(
                json!({"retry": {"limit": 3, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m0s"}}})
            )
        );
        let failure = edited(empty(), &["--sync-retry-limit", "-1"]).unwrap_err();
        assert_eq!((failure.message.as_str(), failure.code), ("Invalid sync-retry-limit [-1]", 1));
        assert_eq!(edited(empty(), &["--sync-policy", "x"]).unwrap_err().message, "Invalid sync-policy: x");
    }

    #[test]
    fn cli_411_only_given_flags_have_an_effect() {
        let before = json!({"project": "p", "destination": {"server": "s"}, "source": {"repoURL": "u", "path": "a",
            "directory": {"recurse": true}, "helm": {"skipCrds": true}}});
        let spec =
            edited(before, &["--path", "b", "--helm-skip-crds=false", "--directory-recurse=false"]).unwrap();
        assert_eq!(
            spec["source"],
            json!({"repoURL": "u", "path": "b", "directory": {}, "helm": {"skipCrds": true}})
        );
    }

    #[test]
    fn cli_412_parameters_are_helms() {
        let spec = edited(empty(), &["--repo", "u", "-p", "a=1", "-p", "bad", "-p", "a=2"]).unwrap();
        assert_eq!(spec["source"]["helm"]["parameters"], json!([{"name": "a", "value": "2"}]));
        let plain = json!({"destination": {}, "source": {"repoURL": "u", "directory": {"recurse": true}}});
        let failure = edited(plain, &["-p", "a=1"]).unwrap_err();
        assert_eq!(failure, Failure::fatal("Parameters can only be set against Helm applications"));
    }

    #[test]
    fn cli_413_commas_are_escaped_once() {
        assert_eq!(escape_commas("a,b\\,c"), "a\\,b\\,c");
        let failure = edited(empty(), &["--helm-set", "x"]).unwrap_err();
        assert_eq!(failure.message, "expected helm parameter of the form param=value but received: x");
    }

    #[test]
    fn cli_414_images_are_replaced_by_name() {
        let before = json!({"destination": {}, "source": {"repoURL": "u", "kustomize": {"images": ["nginx:1", "b@sha256:0"]}}});
        let spec =
            edited(before, &["--kustomize-image", "nginx=r/nginx:2", "--kustomize-image", "c:1"]).unwrap();
        assert_eq!(spec["source"]["kustomize"]["images"], json!(["nginx=r/nginx:2", "b@sha256:0", "c:1"]));
        let failure = edited(empty(), &["--kustomize-replica", "a"]).unwrap_err();
        assert_eq!(failure.message, "expected parameter of the form: name=count. Received: a");
    }
}
