//! Commands that put something into a list of a project or take it out (CLI-703).

use std::cell::RefCell;

use tiphys_api::project::{
    AppProjectSpec, ClusterResourceItem, DestinationServiceAccount, OrphanedResourceKey, ProjectDestination,
    ResourceItem,
};
use tiphys_api::repo_url;

use super::options::signature_key;
use super::work::Work;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::session::{Ended, OK, Session};

/// Flags of `add-destination`.
pub(super) const DESTINATION_FLAGS: &[Flag] =
    &[flag("name", Kind::Bool, "false", "The first operand is the name of a cluster")];
/// Flags of the commands about accounts.
pub(super) const ACCOUNT_FLAGS: &[Flag] =
    &[flag("service-account-namespace", Kind::Text, "", "Namespace of the service account")];
/// Flags of the commands about orphans.
pub(super) const ORPHAN_FLAGS: &[Flag] = &[flag("name", Kind::Text, "", "Pattern of the name")];

/// Which list, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Editor {
    AddSource,
    RemoveSource,
    AddSourceNamespace,
    RemoveSourceNamespace,
    AddDestination,
    RemoveDestination,
    AddAccount,
    RemoveAccount,
    AddOrphanIgnore,
    RemoveOrphanIgnore,
    AddSignatureKey,
    RemoveSignatureKey,
    AllowClusterResource,
    DenyClusterResource,
    AllowNamespaceResource,
    DenyNamespaceResource,
}

/// What an edit did.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// The spec is another one; a text for standard error, where there is one.
    Changed(Option<String>),
    /// There was nothing to do; a text for standard output, where there is one.
    Kept(Option<String>),
}

const CHANGED: Result<Outcome, Failure> = Ok(Outcome::Changed(None));

/// Runs one of the commands.
pub(super) async fn run(session: &Session<'_>, editor: Editor) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let outcome = RefCell::new(Outcome::Kept(None));
    let edit = |spec: &mut AppProjectSpec| {
        let done = apply(editor, spec, &session.flags.operands, session.flags)?;
        let is_changed = matches!(done, Outcome::Changed(_));
        *outcome.borrow_mut() = done;
        Ok(is_changed)
    };
    work.edit(session.operand(0), edit).await?;
    match outcome.into_inner() {
        Outcome::Changed(Some(text)) => session.terminal.warn(&format!("{text}\n")),
        Outcome::Kept(Some(text)) => session.terminal.line(&text),
        Outcome::Changed(None) | Outcome::Kept(None) => {}
    }
    Ok(OK)
}

#[expect(clippy::unnecessary_wraps, reason = "it ends an edit as the others do")]
fn kept(text: String) -> Result<Outcome, Failure> {
    Ok(Outcome::Kept(Some(text)))
}

/// Edits a spec. `operands` are those of the command, the project's name first.
fn apply(
    editor: Editor,
    spec: &mut AppProjectSpec,
    operands: &[String],
    flags: &Parsed,
) -> Result<Outcome, Failure> {
    let operand = |index: usize| operands.get(index).map(String::as_str).unwrap_or_default();
    match editor {
        Editor::AddSource => {
            let url = operand(1);
            let is_same = |item: &&String| *item == url || repo_url::same(item, url);
            if let Some(item) = spec.source_repos.iter().find(is_same) {
                return kept(format!("Source repository '{item}' already allowed in project"));
            }
            spec.source_repos.push(url.to_owned());
            CHANGED
        }
        Editor::RemoveSource => {
            let url = operand(1);
            if remove(&mut spec.source_repos, |item| item == url) {
                return CHANGED;
            }
            kept(format!("Source repository '{url}' does not exist in project"))
        }
        Editor::AddSourceNamespace => {
            let namespace = operand(1);
            if spec.source_namespaces.iter().any(|item| item == "*" || item == namespace) {
                return kept("Source namespace '*' already allowed in project".to_owned());
            }
            spec.source_namespaces.push(namespace.to_owned());
            CHANGED
        }
        Editor::RemoveSourceNamespace => {
            let namespace = operand(1);
            if remove(&mut spec.source_namespaces, |item| item == namespace) {
                return CHANGED;
            }
            kept(format!("Source namespace '{namespace}' does not exist in project or cannot be removed"))
        }
        Editor::AddDestination => add_destination(spec, operand(1), operand(2), flags.is_on("name")),
        Editor::RemoveDestination => {
            let (cluster, namespace) = (operand(1), operand(2));
            let is_meant = |item: &ProjectDestination| {
                item.namespace == namespace
                    && (item.server == cluster || (item.server.is_empty() && item.name == cluster))
            };
            if remove(&mut spec.destinations, is_meant) {
                return CHANGED;
            }
            Err(Failure::fatal("Specified destination does not exist in project"))
        }
        Editor::AddAccount | Editor::RemoveAccount => {
            let account = account(operand(1), operand(2), operand(3), flags)?;
            edit_accounts(spec, account, editor == Editor::AddAccount)
        }
        Editor::AddOrphanIgnore | Editor::RemoveOrphanIgnore => {
            let key = OrphanedResourceKey {
                group: operand(1).to_owned(),
                kind: operand(2).to_owned(),
                name: flags.text("name").to_owned(),
            };
            edit_orphans(spec, key, editor == Editor::AddOrphanIgnore)
        }
        Editor::AddSignatureKey => {
            let key = signature_key(operand(1))?;
            if spec.signature_keys.contains(&key) {
                return Err(Failure::fatal("Specified signature key is already defined in project"));
            }
            spec.signature_keys.push(key);
            CHANGED
        }
        Editor::RemoveSignatureKey => {
            let key = signature_key(operand(1))?;
            if remove(&mut spec.signature_keys, |item| *item == key) {
                return CHANGED;
            }
            Err(Failure::fatal("Specified signature key is not configured for project"))
        }
        Editor::AllowClusterResource | Editor::DenyClusterResource => {
            let item = ClusterResourceItem {
                group: operand(1).to_owned(),
                kind: operand(2).to_owned(),
                name: operand(3).to_owned(),
            };
            let is_deny = is_deny_list(flags)?;
            let what = format!("Group '{}', kind '{}', and name '{}'", item.group, item.kind, item.name);
            let list = if is_deny {
                &mut spec.cluster_resource_blacklist
            } else {
                &mut spec.cluster_resource_whitelist
            };
            // Allowing is adding to one list and taking from the other.
            let adds = (editor == Editor::AllowClusterResource) != is_deny;
            Ok(listed(list, item, adds, &what, &format!("{} cluster resources", word(is_deny))))
        }
        Editor::AllowNamespaceResource | Editor::DenyNamespaceResource => {
            let item = ResourceItem { group: operand(1).to_owned(), kind: operand(2).to_owned() };
            let is_deny = is_deny_list(flags)?;
            let what = format!("Group '{}' and kind '{}'", item.group, item.kind);
            let adds = (editor == Editor::AllowNamespaceResource) != is_deny;
            let list = match (&mut spec.namespace_resource_whitelist, is_deny) {
                (_, true) => &mut spec.namespace_resource_blacklist,
                // An absent list permits everything, so there is nothing to take out of it (REP-150).
                (None, false) if !adds => return Ok(Outcome::Kept(None)),
                (whitelist, false) => whitelist.get_or_insert_default(),
            };
            Ok(listed(list, item, adds, &what, &format!("{} namespaced resources", word(is_deny))))
        }
    }
}

fn word(is_deny: bool) -> &'static str {
    if is_deny { "denied" } else { "allowed" }
}

fn is_deny_list(flags: &Parsed) -> Result<bool, Failure> {
    match flags.text("list") {
        "allow" => Ok(false),
        "deny" => Ok(true),
        other => Err(Failure::fatal(format!("unknown list '{other}': must be allow or deny"))),
    }
}

/// Adds or removes an item, and says so.
fn listed<T: PartialEq>(list: &mut Vec<T>, item: T, adds: bool, what: &str, which: &str) -> Outcome {
    match (adds, list.contains(&item)) {
        (true, false) => {
            list.push(item);
            Outcome::Changed(Some(format!("{what} is added to {which}")))
        }
        (false, true) => {
            list.retain(|other| *other != item);
            Outcome::Changed(Some(format!("{what} is removed from {which}")))
        }
        (true, true) | (false, false) => Outcome::Kept(None),
    }
}

/// Removes the first item that is meant; says whether there was one.
fn remove<T>(list: &mut Vec<T>, is_meant: impl Fn(&T) -> bool) -> bool {
    let at = list.iter().position(is_meant);
    at.map(|at| list.remove(at)).is_some()
}

fn add_destination(
    spec: &mut AppProjectSpec,
    cluster: &str,
    namespace: &str,
    by_name: bool,
) -> Result<Outcome, Failure> {
    let (server, name) = if by_name { ("", cluster) } else { (cluster, "") };
    if spec.destinations.iter().any(|it| it.server == server && it.name == name && it.namespace == namespace)
    {
        return Err(Failure::fatal("Specified destination is already defined in project"));
    }
    spec.destinations.push(ProjectDestination {
        server: server.to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        ..ProjectDestination::default()
    });
    CHANGED
}

fn account(
    server: &str,
    namespace: &str,
    account: &str,
    flags: &Parsed,
) -> Result<DestinationServiceAccount, Failure> {
    if account.contains('*') {
        return Err(Failure::fatal(
            "ServiceAccount for DestinationServiceAccount must not contain wildcards",
        ));
    }
    let of = flags.text("service-account-namespace");
    Ok(DestinationServiceAccount {
        server: server.to_owned(),
        namespace: namespace.to_owned(),
        default_service_account: if of.is_empty() { account.to_owned() } else { format!("{of}:{account}") },
    })
}

fn edit_accounts(
    spec: &mut AppProjectSpec,
    account: DestinationServiceAccount,
    adds: bool,
) -> Result<Outcome, Failure> {
    let list = &mut spec.destination_service_accounts;
    let refuse = |text: &str| Err(Failure::fatal(format!("Specified destination service account {text}")));
    if adds {
        if list.iter().any(|it| it.server == account.server && it.namespace == account.namespace) {
            return refuse("is already defined in project");
        }
        list.push(account);
        return CHANGED;
    }
    if remove(list, |it| *it == account) { CHANGED } else { refuse("does not exist in project") }
}

fn edit_orphans(spec: &mut AppProjectSpec, key: OrphanedResourceKey, adds: bool) -> Result<Outcome, Failure> {
    let of = "the orphaned ignore list of project";
    if adds {
        let list = &mut spec.orphaned_resources.get_or_insert_default().ignore;
        if list.contains(&key) {
            return Err(Failure::fatal(format!("Specified resource is already defined in {of}")));
        }
        list.push(key);
        return CHANGED;
    }
    let list = spec.orphaned_resources.as_mut().map(|orphans| &mut orphans.ignore);
    if list.is_some_and(|list| remove(list, |it| *it == key)) {
        return CHANGED;
    }
    Err(Failure::fatal(format!("Specified resource does not exist in {of}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::flags::parse;

    const LIST: &[Flag] = &[flag("list", Kind::Text, "allow", "").or('l')];

    /// What an edit makes of a spec, and what it says.
    fn edited(
        spec: Value,
        editor: Editor,
        operands: &[&str],
        args: &[&str],
    ) -> Result<(Value, Outcome), String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let tables: &[&'static [Flag]] = match editor {
            Editor::AddDestination => &[DESTINATION_FLAGS],
            Editor::AddOrphanIgnore | Editor::RemoveOrphanIgnore => &[ORPHAN_FLAGS],
            _ => &[ACCOUNT_FLAGS, LIST],
        };
        let flags = parse(&words(args), tables).unwrap();
        let mut spec: AppProjectSpec = serde_json::from_value(spec).unwrap();
        let operands: Vec<String> = std::iter::once("p".to_owned()).chain(words(operands)).collect();
        let outcome = apply(editor, &mut spec, &operands, &flags).map_err(|failure| {
            assert_eq!(failure.code, 1);
            failure.message
        })?;
        Ok((serde_json::to_value(spec).unwrap(), outcome))
    }

    fn kept(text: &str) -> Outcome {
        Outcome::Kept(Some(text.to_owned()))
    }

    #[test]
    fn cli_703_sources_and_namespaces() {
        let spec = json!({"sourceRepos": ["https://h/a.git"], "sourceNamespaces": ["team"]});
        let run = |editor, operand: &str| edited(spec.clone(), editor, &[operand], &[]).unwrap();
        let (after, outcome) = run(Editor::AddSource, "https://h/b");
        assert_eq!(
            (&after["sourceRepos"], outcome),
            (&json!(["https://h/a.git", "https://h/b"]), Outcome::Changed(None))
        );
        let (_, outcome) = run(Editor::AddSource, "https://H/a");
        assert_eq!(outcome, kept("Source repository 'https://h/a.git' already allowed in project"));
        let (after, _) = run(Editor::RemoveSource, "https://h/a.git");
        assert!(after.get("sourceRepos").is_none());
        let (_, outcome) = run(Editor::RemoveSource, "https://h/x");
        assert_eq!(outcome, kept("Source repository 'https://h/x' does not exist in project"));
        let (_, outcome) = run(Editor::AddSourceNamespace, "team");
        assert_eq!(outcome, kept("Source namespace '*' already allowed in project"));
        let (_, outcome) = run(Editor::RemoveSourceNamespace, "x");
        assert_eq!(outcome, kept("Source namespace 'x' does not exist in project or cannot be removed"));
    }

    #[test]
    fn cli_703_destinations_and_accounts() {
        let (after, _) = edited(json!({}), Editor::AddDestination, &["eu", "web"], &["--name"]).unwrap();
        assert_eq!(after, json!({"destinations": [{"name": "eu", "namespace": "web"}]}));
        let again = edited(after.clone(), Editor::AddDestination, &["eu", "web"], &["--name"]);
        assert_eq!(again.unwrap_err(), "Specified destination is already defined in project");
        assert_eq!(
            edited(after.clone(), Editor::RemoveDestination, &["eu", "web"], &[]).unwrap().0,
            json!({})
        );
        let absent = edited(after, Editor::RemoveDestination, &["https://c", "web"], &[]);
        assert_eq!(absent.unwrap_err(), "Specified destination does not exist in project");

        let flags = ["--service-account-namespace", "ops"];
        let (after, _) = edited(json!({}), Editor::AddAccount, &["*", "web", "sa"], &flags).unwrap();
        assert_eq!(after["destinationServiceAccounts"][0]["defaultServiceAccount"], "ops:sa");
        let run =
            |editor, account: &str| edited(after.clone(), editor, &["*", "web", account], &[]).unwrap_err();
        assert_eq!(
            run(Editor::AddAccount, "a*"),
            "ServiceAccount for DestinationServiceAccount must not contain wildcards"
        );
        assert_eq!(
            run(Editor::AddAccount, "b"),
            "Specified destination service account is already defined in project"
        );
        assert_eq!(
            run(Editor::RemoveAccount, "sa"),
            "Specified destination service account does not exist in project"
        );
    }

    #[test]
    fn cli_703_orphans_and_signatures() {
        let (after, _) =
            edited(json!({}), Editor::AddOrphanIgnore, &["", "Secret"], &["--name", "x*"]).unwrap();
        assert_eq!(after, json!({"orphanedResources": {"ignore": [{"kind": "Secret", "name": "x*"}]}}));
        assert_eq!(
            edited(after, Editor::AddOrphanIgnore, &["", "Secret"], &["--name", "x*"]).unwrap_err(),
            "Specified resource is already defined in the orphaned ignore list of project"
        );
        assert_eq!(
            edited(json!({}), Editor::RemoveOrphanIgnore, &["", "Secret"], &[]).unwrap_err(),
            "Specified resource does not exist in the orphaned ignore list of project"
        );
        let key = "0123456789abcdef";
        let (after, _) = edited(json!({}), Editor::AddSignatureKey, &[key], &[]).unwrap();
        assert_eq!(after, json!({"signatureKeys": [{"keyID": "0123456789ABCDEF"}]}));
        let again = edited(after.clone(), Editor::AddSignatureKey, &[key], &[]);
        assert_eq!(again.unwrap_err(), "Specified signature key is already defined in project");
        assert_eq!(edited(after, Editor::RemoveSignatureKey, &[key], &[]).unwrap().0, json!({}));
        let absent = edited(json!({}), Editor::RemoveSignatureKey, &[key], &[]);
        assert_eq!(absent.unwrap_err(), "Specified signature key is not configured for project");
    }

    #[test]
    fn cli_703_kinds_are_allowed_and_denied() {
        let (after, said) =
            edited(json!({}), Editor::AllowClusterResource, &["", "Namespace", "web"], &[]).unwrap();
        assert_eq!(
            after["clusterResourceWhitelist"],
            json!([{"group": "", "kind": "Namespace", "name": "web"}])
        );
        let text = "Group '', kind 'Namespace', and name 'web' is added to allowed cluster resources";
        assert_eq!(said, Outcome::Changed(Some(text.to_owned())));
        let again = edited(after.clone(), Editor::AllowClusterResource, &["", "Namespace", "web"], &[]);
        assert_eq!(again.unwrap().1, Outcome::Kept(None));
        let (after, said) =
            edited(after, Editor::DenyClusterResource, &["", "Namespace", "web"], &[]).unwrap();
        assert_eq!(after, json!({}));
        assert!(
            matches!(said, Outcome::Changed(Some(text)) if text.ends_with("is removed from allowed cluster resources"))
        );
        let (after, said) =
            edited(json!({}), Editor::DenyClusterResource, &["a", "B"], &["-l", "deny"]).unwrap();
        assert_eq!(after["clusterResourceBlacklist"], json!([{"group": "a", "kind": "B"}]));
        assert!(
            matches!(said, Outcome::Changed(Some(text)) if text.ends_with("is added to denied cluster resources"))
        );

        let deny = ["-l", "deny"];
        let (after, said) = edited(json!({}), Editor::DenyNamespaceResource, &["", "Secret"], &deny).unwrap();
        assert_eq!(after, json!({"namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}]}));
        let text = "Group '' and kind 'Secret' is added to denied namespaced resources";
        assert_eq!(said, Outcome::Changed(Some(text.to_owned())));
        assert_eq!(
            edited(after, Editor::AllowNamespaceResource, &["", "Secret"], &deny).unwrap().0,
            json!({})
        );
        let refused = edited(json!({}), Editor::AllowNamespaceResource, &["", "Secret"], &["-l", "x"]);
        assert_eq!(refused.unwrap_err(), "unknown list 'x': must be allow or deny");
    }

    /// REP-150: taking the last kind away leaves a list that permits nothing, not one that permits everything.
    #[test]
    fn rep_150_the_last_permitted_kind_leaves_an_empty_list() {
        let spec = json!({"namespaceResourceWhitelist": [{"group": "", "kind": "ConfigMap"}]});
        let (after, _) =
            edited(spec, Editor::DenyNamespaceResource, &["", "ConfigMap"], &["-l", "allow"]).unwrap();
        assert_eq!(after, json!({"namespaceResourceWhitelist": []}));
        let (after, said) =
            edited(json!({}), Editor::DenyNamespaceResource, &["", "ConfigMap"], &[]).unwrap();
        assert_eq!((after, said), (json!({}), Outcome::Kept(None)));
    }
}
