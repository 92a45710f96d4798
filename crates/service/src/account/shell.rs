//! Carries changes of accounts out.

use jiff::Timestamp;
use tiphys_api::names::SECRET;
use tiphys_api::secret::Secret;
use tiphys_policy::permit::Own;

use super::{
    AccountError, AccountToken, Drawn, INITIAL_SECRET, SALT_BYTES, hash, plan_add_token, plan_delete_token,
    plan_done, plan_initial, plan_keys, plan_password, prepare,
};
use crate::error::Error;
use crate::store::Store;

/// Makes what the first start of an installation needs: the key that tokens are signed with, and a password of the
/// account `admin` (API-46). Does nothing where both are there; several starts at a time agree.
///
/// # Errors
/// Those of the cluster.
pub async fn first_start(store: &Store, is_admin_enabled: bool, now: Timestamp) -> Result<(), Error> {
    let drawn = Drawn::draw().ok_or(AccountError::Password("the system gives no randomness"))?;
    let namespace = store.namespace();
    let secret = store.get(Own::Secret, SECRET).await?;
    let initial = store
        .settle_one(Own::Secret, INITIAL_SECRET, |initial| {
            plan_initial(namespace, (secret.as_deref(), initial), is_admin_enabled, &drawn)
                .map_err(Error::from)
        })
        .await?;
    let hashing = {
        let (initial, drawn) = (initial, drawn.clone());
        tokio::task::spawn_blocking(move || prepare(initial.as_deref(), &drawn))
    };
    let password =
        hashing.await.map_err(|_panic| AccountError::Password("the password cannot be stored"))??;
    let keys =
        |stored: Option<&_>| Ok::<_, Error>(plan_keys((namespace, stored), password.as_ref(), &drawn, now));
    store.settle_one(Own::Secret, SECRET, keys).await?;
    store.settle_one(Own::Secret, INITIAL_SECRET, |initial| Ok::<_, Error>(plan_done(initial))).await?;
    Ok(())
}

/// Stores a new password of an account (API-56).
///
/// # Errors
/// When it cannot be stored, and those of the cluster.
pub async fn set_password(
    store: &Store,
    account: &str,
    password: Secret<String>,
    now: Timestamp,
) -> Result<(), Error> {
    let mut salt = [0; SALT_BYTES];
    aws_lc_rs::rand::fill(&mut salt)
        .map_err(|_none| AccountError::Password("the system gives no randomness"))?;
    let hashed = tokio::task::spawn_blocking(move || hash(&password, salt)).await;
    let hashed = hashed.map_err(|_panic| AccountError::Password("the password cannot be stored"))??;
    let namespace = store.namespace();
    let plan = |stored: Option<&_>| Ok::<_, Error>(plan_password((namespace, stored), account, &hashed, now));
    store.settle_one(Own::Secret, SECRET, plan).await?;
    Ok(())
}

/// Notes a token of an account (API-57).
///
/// # Errors
/// When its id was used, and those of the cluster.
pub async fn add_token(store: &Store, account: &str, token: &AccountToken) -> Result<(), Error> {
    let namespace = store.namespace();
    let plan =
        |stored: Option<&_>| plan_add_token((namespace, stored), account, token.clone()).map_err(Error::from);
    store.settle_one(Own::Secret, SECRET, plan).await?;
    Ok(())
}

/// Forgets a token of an account (API-57).
///
/// # Errors
/// When there is none of this id, and those of the cluster.
pub async fn delete_token(store: &Store, account: &str, id: &str) -> Result<(), Error> {
    let namespace = store.namespace();
    let plan = |stored: Option<&_>| plan_delete_token((namespace, stored), account, id).map_err(Error::from);
    store.settle_one(Own::Secret, SECRET, plan).await?;
    Ok(())
}
