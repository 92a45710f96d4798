//! Which certificate the port has, and which one it takes next (API-3, API-4).

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use jiff::Timestamp;
use rustls::ServerConfig;
use tiphys_service::Store;
use tiphys_service::port_certificate::{self, Pair};

use super::self_signed::self_signed;
use super::tls::TlsOptions;
use crate::world::{TLS_SECRET, World};

/// How often the certificate of the port is looked at.
const TLS_INTERVAL: Duration = Duration::from_secs(1);

/// What may be done about the certificate of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct May {
    /// Whether one is made where there is none; else the port speaks plain text.
    pub(crate) make: bool,
    /// Whether `argocd-secret` is written, so that all servers of the installation have the same one.
    pub(crate) write: bool,
}

/// That of the Secret of its own.
fn own(world: &World) -> Option<Pair> {
    world.secret(TLS_SECRET).and_then(|object| Pair::of(object))
}

/// That of `argocd-secret`.
fn kept(world: &World) -> Option<Pair> {
    Pair::read(|key| world.installation.settings.secret(key))
}

fn configured(options: &TlsOptions, pair: &Pair, whose: &str) -> Option<Arc<ServerConfig>> {
    match options.server(&pair.certificate, &pair.key) {
        Ok(config) => Some(config),
        Err(error) => {
            tracing::error!(%error, secret = whose, "the certificate of the API server cannot be used");
            None
        }
    }
}

/// The certificate that a port begins with: of its own Secret, else of `argocd-secret`, else one that is made. One that
/// cannot be used stays where it is, and the next one counts. `None` where there is none, and none shall be made.
///
/// # Errors
/// When one is to be made and cannot be: nobody who expects TLS is answered in plain text.
pub(crate) async fn first(
    (world, store): (&World, &Store),
    options: &TlsOptions,
    may: May,
    now: Timestamp,
) -> Result<Option<Arc<ServerConfig>>, String> {
    if let Some(config) = own(world).and_then(|pair| configured(options, &pair, TLS_SECRET)) {
        let is_kept =
            ["tls.crt", "tls.key"].iter().any(|key| world.installation.settings.secret(key).is_some());
        if may.write
            && is_kept
            && let Err(error) = port_certificate::drop_kept(store).await
        {
            tracing::warn!(%error, "the certificate of argocd-secret, which nobody uses, could not be removed");
        }
        return Ok(Some(config));
    }
    let stored = kept(world);
    if let Some(config) = stored.as_ref().and_then(|pair| configured(options, pair, "argocd-secret")) {
        return Ok(Some(config));
    }
    if !may.make {
        return Ok(None);
    }
    let namespace = world.namespace().to_owned();
    let made = tokio::task::spawn_blocking(move || self_signed(&namespace, now)).await;
    let failed = |why: &str| format!("no certificate can be made for the API server: {why}");
    let mut pair = made.map_err(|panic| failed(&panic.to_string()))?.map_err(|why| failed(&why))?;
    if may.write && stored.is_none() {
        match port_certificate::keep(store, &pair).await {
            // Of several servers one was faster.
            Ok(Some(kept)) => pair = kept,
            Ok(None) => {}
            Err(error) => tracing::warn!(
                %error,
                "the certificate that was made for the API server could not be kept in argocd-secret, and is another one \
                 after the next start"
            ),
        }
    }
    configured(options, &pair, "argocd-secret").map(Some).ok_or_else(|| failed("it cannot be used"))
}

/// Takes another certificate for new connections (API-4); one that cannot be used leaves the former one, and so does one
/// that goes.
pub(crate) async fn follow(
    tls: Arc<ArcSwapOption<ServerConfig>>,
    world: Arc<ArcSwap<World>>,
    options: TlsOptions,
) {
    let look = |world: &World| {
        let own = own(world).map(|pair| (pair, TLS_SECRET));
        own.or_else(|| kept(world).map(|pair| (pair, "argocd-secret")))
    };
    let mut known = look(&world.load());
    loop {
        tokio::time::sleep(TLS_INTERVAL).await;
        let found = look(&world.load());
        if found == known {
            continue;
        }
        if let Some(config) = found.as_ref().and_then(|(pair, whose)| configured(&options, pair, whose)) {
            tls.store(Some(config));
        }
        known = found;
    }
}

#[cfg(test)]
mod tests;
