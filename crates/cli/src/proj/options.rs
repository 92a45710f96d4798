//! Flags that describe a project, for `proj create` and `proj set` (CLI-700).

use tiphys_api::AppProject;
use tiphys_api::application::Metadata;
use tiphys_api::project::{
    AppProjectSpec, ClusterResourceItem, DestinationServiceAccount, ProjectDestination, ResourceItem,
    SignatureKey,
};

use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::remote;
use crate::session::Session;

/// The flags.
pub(crate) const FLAGS: &[Flag] = &[
    flag("description", Kind::Text, "", "Description of the project"),
    flag("dest", Kind::Texts, "", "Permitted destination: server,namespace").or('d'),
    flag("src", Kind::Texts, "", "Permitted repository").or('s'),
    flag("source-namespaces", Kind::Csv, "", "Namespaces whose applications may use the project"),
    flag("signature-keys", Kind::Csv, "", "Ids of keys that must sign commits"),
    flag("orphaned-resources", Kind::Bool, "false", "Look for orphaned resources"),
    flag("orphaned-resources-warn", Kind::Bool, "false", "Orphaned resources make a warning"),
    flag("allow-cluster-resource", Kind::Texts, "", "Permitted cluster-scoped kind: group/kind"),
    flag("deny-cluster-resource", Kind::Texts, "", "Forbidden cluster-scoped kind: group/kind"),
    flag("allow-namespaced-resource", Kind::Texts, "", "Permitted namespaced kind: group/kind"),
    flag("deny-namespaced-resource", Kind::Texts, "", "Forbidden namespaced kind: group/kind"),
    flag("dest-service-accounts", Kind::Texts, "", "Account of a destination: server,namespace,account"),
];

/// The project that `create` is to make; `None` when nobody names it.
pub(crate) async fn wanted(session: &Session<'_>) -> Result<Option<AppProject>, Failure> {
    let (file, name) = (session.flags.text("file"), session.operand(0));
    let mut project = AppProject::default();
    if !file.is_empty() {
        project = parse(&remote::read(file).await?)?;
        let own = &project.metadata.name;
        if !name.is_empty() && name != own {
            return Err(Failure::generic(format!(
                "project name '{name}' does not match project spec metadata.name '{own}'"
            )));
        }
    } else if name.is_empty() {
        return Ok(None);
    } else {
        project.metadata = Metadata { name: name.to_owned(), ..Metadata::default() };
    }
    apply(&mut project.spec, session.flags)?;
    // Only the server writes it.
    project.status = tiphys_api::project::AppProjectStatus::default();
    Ok(Some(project))
}

fn parse(text: &str) -> Result<AppProject, Failure> {
    let limits = tiphys_go::yaml::Limits::default();
    let value = tiphys_go::yaml::parse(text, tiphys_go::yaml::Dialect::Sigs, &limits)
        .map_err(|error| Failure::generic(error.to_string()))?;
    let value = value.ok_or_else(|| Failure::generic("no project found in the input"))?;
    let kind = value.get("kind").and_then(serde_json::Value::as_str).unwrap_or("AppProject");
    if kind != "AppProject" {
        return Err(Failure::generic(format!("expected an AppProject in the input, found kind {kind:?}")));
    }
    serde_json::from_value(value).map_err(|error| Failure::generic(error.to_string()))
}

/// Sets what is given; each flag replaces its list.
pub(super) fn apply(spec: &mut AppProjectSpec, flags: &Parsed) -> Result<(), Failure> {
    if flags.is_set("description") {
        flags.text("description").clone_into(&mut spec.description);
    }
    if flags.is_set("dest") {
        spec.destinations =
            flags.texts("dest").iter().map(|text| destination(text)).collect::<Result<_, _>>()?;
    }
    if flags.is_set("src") {
        spec.source_repos = flags.texts("src").to_vec();
    }
    if flags.is_set("source-namespaces") {
        spec.source_namespaces = flags.texts("source-namespaces").to_vec();
    }
    if flags.is_set("signature-keys") {
        let keys = flags.texts("signature-keys").iter().map(|key| signature_key(key));
        spec.signature_keys = keys.collect::<Result<_, _>>()?;
    }
    apply_orphans(spec, flags);
    let named =
        |name: &str| flags.texts(name).iter().map(|text| group_kind(text)).collect::<Result<Vec<_>, _>>();
    let cluster = |name: &str| {
        let items = named(name)?.into_iter();
        let item = |(group, kind)| ClusterResourceItem { group, kind, name: String::new() };
        Ok::<_, Failure>(items.map(item).collect())
    };
    let namespaced = |name: &str| {
        Ok::<Vec<_>, Failure>(
            named(name)?.into_iter().map(|(group, kind)| ResourceItem { group, kind }).collect(),
        )
    };
    if flags.is_set("allow-cluster-resource") {
        spec.cluster_resource_whitelist = cluster("allow-cluster-resource")?;
    }
    if flags.is_set("deny-cluster-resource") {
        spec.cluster_resource_blacklist = cluster("deny-cluster-resource")?;
    }
    if flags.is_set("allow-namespaced-resource") {
        spec.namespace_resource_whitelist = Some(namespaced("allow-namespaced-resource")?);
    }
    if flags.is_set("deny-namespaced-resource") {
        spec.namespace_resource_blacklist = namespaced("deny-namespaced-resource")?;
    }
    if flags.is_set("dest-service-accounts") {
        let accounts = flags.texts("dest-service-accounts").iter().map(|text| account(text));
        spec.destination_service_accounts = accounts.collect::<Result<_, _>>()?;
    }
    Ok(())
}

fn apply_orphans(spec: &mut AppProjectSpec, flags: &Parsed) {
    let warns = flags.is_set("orphaned-resources-warn");
    if flags.is_on("orphaned-resources") || warns {
        let orphans = spec.orphaned_resources.get_or_insert_default();
        if warns {
            orphans.warn = Some(flags.is_on("orphaned-resources-warn"));
        }
    } else if flags.is_set("orphaned-resources") {
        spec.orphaned_resources = None;
    }
}

fn destination(text: &str) -> Result<ProjectDestination, Failure> {
    match text.split(',').collect::<Vec<_>>().as_slice() {
        [server, namespace] => Ok(ProjectDestination {
            server: (*server).to_owned(),
            namespace: (*namespace).to_owned(),
            ..ProjectDestination::default()
        }),
        _ => Err(Failure::fatal(format!(
            "Expected destination of the form: server,namespace. Received: {text}"
        ))),
    }
}

fn account(text: &str) -> Result<DestinationServiceAccount, Failure> {
    match text.split(',').collect::<Vec<_>>().as_slice() {
        [server, namespace, account] => Ok(DestinationServiceAccount {
            server: (*server).to_owned(),
            namespace: (*namespace).to_owned(),
            default_service_account: (*account).to_owned(),
        }),
        _ => Err(Failure::fatal(format!(
            "Expected destination service account of the form: server,namespace, defaultServiceAccount. \
             Received: {text}"
        ))),
    }
}

fn group_kind(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('/') {
        Some((group, kind)) if !kind.is_empty() && !kind.contains('/') => {
            Ok((group.to_owned(), kind.to_owned()))
        }
        _ => Err(Failure::fatal(format!("Expected resource of the form: group/kind. Received: {text}"))),
    }
}

/// A key of signatures: 16 or 40 hex digits, kept as the last 16 in upper case (REP-86, REP-202).
pub(super) fn signature_key(text: &str) -> Result<SignatureKey, Failure> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !matches!(text.len(), 16 | 40) {
        return Err(Failure::fatal(format!("'{text}' is not a valid GnuPG key ID")));
    }
    let digits = text.char_indices().rev().nth(15).map_or(text, |(at, _)| text.split_at(at).1);
    Ok(SignatureKey { key_id: digits.to_ascii_uppercase() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;
    use serde_json::json;

    fn applied(args: &[&str]) -> Result<serde_json::Value, (String, u8)> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut spec = AppProjectSpec { source_repos: vec!["old".to_owned()], ..AppProjectSpec::default() };
        apply(&mut spec, &parse(&args, &[FLAGS]).unwrap())
            .map_err(|failure| (failure.message, failure.code))?;
        Ok(serde_json::to_value(spec).unwrap())
    }

    #[test]
    fn cli_700_flags_replace_their_list() {
        assert_eq!(applied(&[]).unwrap(), json!({"sourceRepos": ["old"]}));
        assert_eq!(
            applied(&[
                "-d",
                "https://c,web",
                "-d",
                "*,x",
                "-s",
                "https://h/a,b",
                "--source-namespaces",
                "a,b",
                "--orphaned-resources-warn",
                "--allow-cluster-resource",
                "/Namespace",
                "--deny-namespaced-resource",
                "apps/Deployment",
                "--dest-service-accounts",
                "*,web,sa",
                "--description",
                "d",
            ])
            .unwrap(),
            json!({
                "sourceRepos": ["https://h/a,b"],
                "destinations": [{"server": "https://c", "namespace": "web"}, {"server": "*", "namespace": "x"}],
                "description": "d",
                "sourceNamespaces": ["a", "b"],
                "orphanedResources": {"warn": true},
                "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
                "namespaceResourceBlacklist": [{"group": "apps", "kind": "Deployment"}],
                "destinationServiceAccounts": [{"server": "*", "namespace": "web", "defaultServiceAccount": "sa"}],
            })
        );
    }

    #[test]
    fn cli_700_malformed_flags_are_fatal() {
        for (args, text) in [
            (["-d", "x"], "Expected destination of the form: server,namespace. Received: x"),
            (
                ["--dest-service-accounts", "a,b"],
                "Expected destination service account of the form: server,namespace, defaultServiceAccount. Received: \
                 a,b",
            ),
            (
                ["--allow-cluster-resource", "Namespace"],
                "Expected resource of the form: group/kind. Received: Namespace",
            ),
            (["--signature-keys", "xyz"], "'xyz' is not a valid GnuPG key ID"),
        ] {
            assert_eq!(applied(&args), Err((text.to_owned(), 1)), "{args:?}");
        }
        let long = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(signature_key(long).unwrap().key_id, "89ABCDEF01234567");
    }
}
