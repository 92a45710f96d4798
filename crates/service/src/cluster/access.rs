//! The account inside a cluster that deploys to it: what it is made of, and its tokens (CLI-812, REP-114).

use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_cluster::{ApiError, DeleteOptions, Propagation, Target, Writer};
use tiphys_object::{Gvk, Object, ResourceKey};
use tiphys_policy::permit::Permit;

/// Name of the account.
pub const ACCOUNT: &str = "argocd-manager";
/// Name of its roles.
const ROLE: &str = "argocd-manager-role";
/// Name of their bindings.
const BINDING: &str = "argocd-manager-role-binding";
/// Time for the cluster to issue a token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks at it.
const TOKEN_POLL: Duration = Duration::from_millis(300);
/// Names that are tried for the Secret of a new token.
const TOKENS_MAX: u32 = 32;

/// An account, and where its token is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Secret of the token in use; empty when it is not kept in one.
    pub secret: String,
}

/// A token, and the Secret that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Name of the Secret.
    pub secret: String,
    /// The token.
    pub value: Secret<String>,
}

/// The objects that let the account do everything: in the whole cluster, or in these namespaces only.
pub fn manifests(system_namespace: &str, namespaces: &[String]) -> Vec<Value> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": system_namespace}]);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": system_namespace}});
    let mut made = vec![account];
    if namespaces.is_empty() {
        let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
        made.push(
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": ROLE},
            "rules": all}),
        );
        made.push(json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": BINDING}, "subjects": subjects,
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": ROLE}}));
    }
    for namespace in namespaces {
        made.push(json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Role",
            "metadata": {"name": ROLE, "namespace": namespace}, "rules": rules}));
        made.push(json!({"apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding",
            "metadata": {"name": BINDING, "namespace": namespace}, "subjects": subjects,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": ROLE}}));
    }
    made
}

/// The account that a token of Kubernetes was issued to. The signature is not ours to check: the cluster does.
pub fn account_of(token: &str) -> Option<Account> {
    let payload = token.split('.').nth(1)?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Value = serde_json::from_slice(&bytes).ok()?;
    let text =
        |name: &str| claims.get(format!("kubernetes.io/serviceaccount/{name}")).and_then(Value::as_str);
    if let (Some(namespace), Some(name)) = (text("namespace"), text("service-account.name")) {
        let secret = text("secret.name").unwrap_or_default().to_owned();
        return Some(Account { namespace: namespace.to_owned(), name: name.to_owned(), secret });
    }
    let subject = claims.get("sub").and_then(Value::as_str)?;
    let (namespace, name) = subject.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(Account { namespace: namespace.to_owned(), name: name.to_owned(), secret: String::new() })
}

/// The `config` of a cluster with another token; what else it says stays. `None` when it is no JSON object.
pub fn with_token(config: &str, token: &Secret<String>) -> Option<Secret<String>> {
    let mut value: Value = serde_json::from_str(config).ok()?;
    value.as_object_mut()?.insert("bearerToken".to_owned(), token.expose().as_str().into());
    Some(Secret::new(value.to_string()))
}

/// Makes the account and its rights, or brings them up to date. It is what the person who asks does with their own
/// rights.
///
/// # Errors
/// When the cluster refuses.
pub async fn install(writer: &Writer, system_namespace: &str, namespaces: &[String]) -> Result<(), ApiError> {
    for manifest in manifests(system_namespace, namespaces) {
        let permit = Permit::operator(ResourceKey::of(&manifest));
        match writer.create(&permit, &manifest).await {
            Ok(_) => {}
            Err(error) if error.is_already_exists() => {
                writer.merge_patch(&permit, &Target::of(&manifest), None, &manifest).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes the account and its rights away.
///
/// # Errors
/// When the cluster refuses.
pub async fn uninstall(writer: &Writer, system_namespace: &str) -> Result<(), ApiError> {
    // The rights first: an account without them does no harm.
    for manifest in manifests(system_namespace, &[]).iter().rev() {
        let target = Target::of(manifest);
        let options = DeleteOptions { propagation: Propagation::Background, ..DeleteOptions::default() };
        writer.delete(&Permit::operator(target.key()), &target, &options).await?;
    }
    Ok(())
}

/// The token of an account that is there already.
///
/// # Errors
/// When the cluster refuses, or issues none in time.
pub async fn token(writer: &Writer, namespace: &str, account: &str) -> Result<Token, ApiError> {
    let name = format!("{account}-long-lived-token");
    make_token_secret(writer, namespace, account, &name).await?;
    wait_for_token(writer, namespace, &name).await
}

/// A second token of an account.
///
/// # Errors
/// When the cluster refuses, or issues none in time.
pub async fn new_token(writer: &Writer, account: &Account) -> Result<Token, ApiError> {
    for at in 0..TOKENS_MAX {
        let name = format!("{}-token-{at}", account.name);
        if name != account.secret
            && make_token_secret(writer, &account.namespace, &account.name, &name).await?
        {
            return wait_for_token(writer, &account.namespace, &name).await;
        }
    }
    Err(ApiError::Name(format!(
        "{TOKENS_MAX} secrets with tokens of {} exist already, delete some",
        account.name
    )))
}

/// Removes the Secrets with other tokens of an account.
///
/// # Errors
/// When the cluster refuses.
pub async fn remove_tokens(writer: &Writer, account: &Account, keep: &str) -> Result<(), ApiError> {
    if account.secret.is_empty() || account.secret == keep {
        return Ok(());
    }
    let target = secret_target(&account.namespace, &account.secret);
    let options = DeleteOptions { propagation: Propagation::Background, ..DeleteOptions::default() };
    writer.delete(&Permit::operator(target.key()), &target, &options).await.map(drop)
}

fn secret_target(namespace: &str, name: &str) -> Target {
    Target::new(Gvk::new("", "v1", "Secret"), namespace, name)
}

/// Asks for a Secret that the cluster puts a token into; says whether it is new.
async fn make_token_secret(
    writer: &Writer,
    namespace: &str,
    account: &str,
    name: &str,
) -> Result<bool, ApiError> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": account}}});
    match writer.create(&Permit::operator(ResourceKey::of(&secret)), &secret).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

async fn wait_for_token(writer: &Writer, namespace: &str, name: &str) -> Result<Token, ApiError> {
    let found = async {
        loop {
            let secret = writer.get(&secret_target(namespace, name)).await?;
            if let Some(value) = secret.as_deref().and_then(token_of) {
                return Ok(Token { secret: name.to_owned(), value });
            }
            tokio::time::sleep(TOKEN_POLL).await;
        }
    };
    let timeout = ApiError::Timeout { what: "get the token of the service account", after: TOKEN_TIMEOUT };
    tokio::time::timeout(TOKEN_TIMEOUT, found).await.unwrap_or(Err(timeout))
}

fn token_of(secret: &Object) -> Option<Secret<String>> {
    let token = tiphys_installation::objects::decoded(secret).remove("token")?;
    Some(Secret::new(token)).filter(|token| !token.is_empty())
}
