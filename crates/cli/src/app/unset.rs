//! `app unset`: takes options of a source back (CLI-421).

use tiphys_api::Application;
use tiphys_api::application::{ApplicationSource, ApplicationSpec};

use crate::app::spec_edit::{edit_block, image_name};
use crate::app::store::store_spec;
use crate::app::{Ended, NAMESPACE, OK, Session, show};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};

/// Flags of `unset`.
pub(super) const FLAGS: &[Flag] = &[
    flag("parameter", Kind::Texts, "", "Name of a Helm parameter").or('p'),
    flag("values", Kind::Texts, "", "Helm values file"),
    flag("values-literal", Kind::Bool, "false", "The Helm values written into the spec"),
    flag("ignore-missing-value-files", Kind::Bool, "false", "Skipping Helm values files that do not exist"),
    flag("pass-credentials", Kind::Bool, "false", "Passing credentials to all domains"),
    flag("nameprefix", Kind::Bool, "false", "Kustomize name prefix"),
    flag("namesuffix", Kind::Bool, "false", "Kustomize name suffix"),
    flag("kustomize-version", Kind::Bool, "false", "Kustomize version"),
    flag("kustomize-namespace", Kind::Bool, "false", "Kustomize namespace"),
    flag("kustomize-image", Kind::Texts, "", "Name of a Kustomize image override"),
    flag("kustomize-replica", Kind::Texts, "", "Name of a Kustomize replica override"),
    flag("ignore-missing-components", Kind::Bool, "false", "Skipping components that do not exist"),
    flag("plugin-env", Kind::Texts, "", "Name of an environment entry of the plugin"),
    flag("ref", Kind::Bool, "false", "Name under which other sources use this one"),
    flag("source-position", Kind::Int, "-1", "Position of the source, from 1"),
    flag("source-name", Kind::Text, "", "Name of the source"),
    NAMESPACE,
];

/// Flags that choose a source and unset nothing.
const WITHOUT_EFFECT: [&str; 3] = ["source-position", "source-name", "app-namespace"];
const QUESTION: &str = "Are you sure you want to unset the parameters? [y/n]";

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let first = core.application(&name).await?;
    let is_edit = |flag: &Flag| !WITHOUT_EFFECT.contains(&flag.long) && is_named(flags, flag);
    if !FLAGS.iter().any(is_edit) {
        return Ok(Ended::Help);
    }
    if unset_in(&first.app, flags)?.is_none() {
        return Ok(OK);
    }
    if !session.confirms(QUESTION).await {
        session.terminal.line("The command to unset the parameters has been cancelled.");
        return Ok(OK);
    }
    // Taking an option back must not depend on a repository that cannot be reached just now.
    store_spec(&core, &name, false, |app| unset_in(app, flags)).await?;
    Ok(OK)
}

/// Whether a flag names something: a switch that is on, or a name.
fn is_named(flags: &Parsed, flag: &Flag) -> bool {
    if flag.kind == Kind::Bool { flags.is_on(flag.long) } else { !flags.texts(flag.long).is_empty() }
}

/// The spec without what the flags name; `None` where nothing changes.
fn unset_in(app: &Application, flags: &Parsed) -> Result<Option<ApplicationSpec>, Failure> {
    let mut spec = app.spec.clone();
    let source = if spec.sources.is_empty() {
        spec.source.as_mut()
    } else {
        let index = show::chosen_source(&spec.sources, flags)?;
        spec.sources.get_mut(index)
    };
    if let Some(source) = source {
        unset(source, flags)?;
    }
    Ok((spec != app.spec).then_some(spec))
}

/// Takes back what the flags name.
fn unset(source: &mut ApplicationSource, flags: &Parsed) -> Result<(), Failure> {
    let is_on = |name: &str| flags.is_on(name);
    let names = |name: &str, text: &str| flags.texts(name).iter().any(|given| given == text);
    if is_on("ref") {
        source.r#ref.clear();
    }
    if is_filled(source.helm.as_deref()) {
        edit_block(&mut source.helm, |helm| {
            helm.parameters.retain(|known| !names("parameter", &known.name));
            helm.value_files.retain(|known| !names("values", known));
            if is_on("values-literal") {
                helm.values.clear();
                helm.values_object = None;
            }
            helm.ignore_missing_value_files &= !is_on("ignore-missing-value-files");
            helm.pass_credentials &= !is_on("pass-credentials");
            Ok(())
        })?;
    }
    if is_filled(source.kustomize.as_deref()) {
        edit_block(&mut source.kustomize, |block| {
            for (name, member) in [
                ("nameprefix", &mut block.name_prefix),
                ("namesuffix", &mut block.name_suffix),
                ("kustomize-version", &mut block.version),
                ("kustomize-namespace", &mut block.namespace),
            ] {
                if is_on(name) {
                    member.clear();
                }
            }
            let images: Vec<&str> =
                flags.texts("kustomize-image").iter().map(|given| image_name(given)).collect();
            block.images.retain(|known| !images.contains(&image_name(known)));
            block.replicas.retain(|known| !names("kustomize-replica", &known.name));
            block.ignore_missing_components &= !is_on("ignore-missing-components");
            Ok(())
        })?;
    }
    if is_filled(source.plugin.as_deref()) {
        edit_block(&mut source.plugin, |plugin| {
            plugin.env.retain(|known| !names("plugin-env", &known.name));
            Ok(())
        })?;
    }
    Ok(())
}

/// Whether a block says anything: one that is empty stays as somebody wrote it.
fn is_filled<T: Default + PartialEq>(block: Option<&T>) -> bool {
    block.is_some_and(|block| *block != T::default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::flags::parse;

    fn unset_of(spec: &Value, args: &[&str]) -> Result<Option<Value>, Failure> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let flags = parse(&args, &[FLAGS]).unwrap();
        let app = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        Ok(unset_in(&app, &flags)?.map(|spec| serde_json::to_value(&spec).unwrap()))
    }

    fn single(source: &Value) -> Value {
        json!({"project": "p", "destination": {}, "source": source})
    }

    #[test]
    fn cli_421_options_are_taken_back_by_name() {
        let helm = json!({"repoURL": "u", "helm": {"parameters": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}],
            "valueFiles": ["x.yaml", "y.yaml"], "values": "a: 1", "ignoreMissingValueFiles": true, "passCredentials": true}});
        let args = ["-p", "a", "--values", "y.yaml", "--values-literal", "--ignore-missing-value-files"];
        let left = unset_of(&single(&helm), &args).unwrap().unwrap();
        assert_eq!(
            left["source"]["helm"],
            json!({"parameters": [{"name": "b", "value": "2"}], "valueFiles": ["x.yaml"], "passCredentials": true})
        );
        let kustomize = json!({"repoURL": "u", "ref": "r", "kustomize": {"namePrefix": "x-", "nameSuffix": "-y",
            "images": ["nginx=mirror/nginx:1", "redis:7"], "replicas": [{"name": "web", "count": 2}]}});
        let args = ["--nameprefix", "--kustomize-image", "nginx", "--kustomize-replica", "web", "--ref"];
        let left = unset_of(&single(&kustomize), &args).unwrap().unwrap();
        assert_eq!(
            left["source"],
            json!({"repoURL": "u", "kustomize": {"nameSuffix": "-y", "images": ["redis:7"]}})
        );
        let plugin = json!({"repoURL": "u", "plugin": {"name": "p", "env": [{"name": "A", "value": "1"}]}});
        let left = unset_of(&single(&plugin), &["--plugin-env", "A"]).unwrap().unwrap();
        assert_eq!(left["source"]["plugin"], json!({"name": "p"}));
    }

    #[test]
    fn cli_421_a_block_that_is_left_empty_goes() {
        let prefix = json!({"repoURL": "u", "kustomize": {"namePrefix": "x-"}});
        let left = unset_of(&single(&prefix), &["--nameprefix"]).unwrap().unwrap();
        assert_eq!(left["source"], json!({"repoURL": "u"}), "it would choose Kustomize for the source");
    }

    #[test]
    fn cli_421_nothing_changes_where_nothing_is_set() {
        let plain = single(&json!({"repoURL": "u", "kustomize": {}}));
        assert_eq!(unset_of(&plain, &["--namesuffix=false", "-p", "a"]).unwrap(), None);
        let none = json!({"destination": {}});
        assert_eq!(unset_of(&none, &["--nameprefix"]).unwrap(), None);
    }

    #[test]
    fn cli_415_one_of_several_sources_is_chosen() {
        let several = json!({"destination": {}, "sources": [{"repoURL": "u", "ref": "a"},
            {"repoURL": "v", "ref": "b", "name": "second"}]});
        let left = unset_of(&several, &["--ref", "--source-name", "second"]).unwrap().unwrap();
        assert_eq!((&left["sources"][0]["ref"], left["sources"][1].get("ref")), (&json!("a"), None));
        assert!(unset_of(&several, &["--ref"]).unwrap_err().message.starts_with("Source position should be"));
        let failure = unset_of(&several, &["--ref", "--source-position", "3"]).unwrap_err();
        assert!(failure.message.contains("less than"));
    }
}
