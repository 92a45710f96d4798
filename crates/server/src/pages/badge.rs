//! Badges that say how an application, or all of some projects, are doing (API-212..219).
//!
//! [`decide`] finds out what a badge says, from the catalog; `svg` draws it. Where badges are on, they tell everybody which
//! applications there are, unless `statusbadge.requireToken` keeps them for those who may see them (API-219).

mod svg;

use std::net::SocketAddr;

use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use tiphys_policy::project::namespace_enabled;

use crate::catalog::{AppKey, Catalog, Entry};
use crate::http::{Body, body, is_resource_name};
use crate::services::Services;
use crate::world::World;
use svg::{Badge, Colour};

/// Bytes of a query that is looked at.
const QUERY_BYTES_MAX: usize = 16 << 10;
/// Projects that one badge is about.
const PROJECTS_MAX: usize = 100;
/// The width of the largest badge.
const WIDTH_MAX: u32 = 10_000;
/// Letters of a revision that is shown in short.
const SHORT: usize = 7;
/// Letters of a revision that is shown at all.
const REVISION_CHARS_MAX: usize = 128;

/// Whether there are badges.
pub(crate) fn is_enabled(world: &World) -> bool {
    world.is_set("statusbadge.enabled")
}

/// Whether badges are for those alone who may see what they say (API-219). Deviation (API-231): a word that is neither yes
/// nor no keeps them closed.
fn needs_token(world: &World) -> bool {
    !matches!(world.setting("statusbadge.requireToken"), "" | "0" | "f" | "F" | "FALSE" | "false" | "False")
}

/// Answers with a badge.
pub(super) async fn serve(
    world: &World,
    catalog: &Catalog,
    (parts, peer): (&Parts, SocketAddr),
    services: &Services,
) -> Response<Body> {
    let asked = is_enabled(world).then(|| Asked::read(parts.uri.query().unwrap_or_default()));
    let decided = match asked {
        None => Ok(Badge::unknown()),
        Some(Err(malformed)) => Err(malformed),
        Some(Ok(asked)) if needs_token(world) => {
            let viewer = services.viewer(parts, peer).await;
            Ok(viewer.asking(|sees| decide(world, catalog, &asked, &Audience::Of(sees))))
        }
        Some(Ok(asked)) => Ok(decide(world, catalog, &asked, &Audience::Everybody)),
    };
    let mut response = Response::new(body::empty());
    match decided {
        Ok(badge) => *response.body_mut() = body::full(svg::draw(&badge)),
        Err(Malformed) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// A parameter that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    name: Option<String>,
    namespace: Option<String>,
    projects: Vec<String>,
    shows_revision: bool,
    keeps_full_revision: bool,
    shows_name: bool,
    width: Option<u32>,
}

impl Asked {
    /// Reads the parameters. Of several of one name the first counts, but for projects.
    fn read(query: &str) -> Result<Self, Malformed> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(Malformed);
        }
        let mut asked = Self::default();
        let (mut seen, is_true) = (Vec::new(), |text: &str| text.eq_ignore_ascii_case("true"));
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let is_list = key == "project";
            if !is_list && seen.contains(&key) {
                continue;
            }
            match &*key {
                "name" => asked.name = Some(named(&value, is_resource_name)?),
                "namespace" => asked.namespace = Some(named(&value, is_namespace)?),
                "project" if asked.projects.len() < PROJECTS_MAX => {
                    asked.projects.push(named(&value, is_resource_name)?);
                }
                "project" => return Err(Malformed),
                "revision" => asked.shows_revision = is_true(&value),
                "keepFullRevision" => asked.keeps_full_revision = is_true(&value),
                "showAppName" => asked.shows_name = is_true(&value),
                "width" => {
                    let width = value.parse().ok().filter(|width| (1..=WIDTH_MAX).contains(width));
                    asked.width = Some(width.ok_or(Malformed)?);
                }
                _ => continue,
            }
            seen.push(key);
        }
        Ok(asked)
    }
}

fn named(value: &str, is_name: fn(&str) -> bool) -> Result<String, Malformed> {
    if is_name(value) { Ok(value.to_owned()) } else { Err(Malformed) }
}

/// A DNS label, as namespaces are named.
fn is_namespace(text: &str) -> bool {
    text.len() <= 63 && !text.contains('.') && is_resource_name(text)
}

/// Who a badge is for.
enum Audience<'s> {
    /// Whoever asks.
    Everybody,
    /// Somebody, with the question whether they may see an application. What they may not see does not exist for them.
    Of(&'s dyn Fn(&Entry) -> bool),
}

impl Audience<'_> {
    fn sees(&self, entry: &Entry) -> bool {
        match self {
            Self::Everybody => true,
            Self::Of(sees) => sees(entry),
        }
    }

    /// Whether they may be told that there is an application that cannot be read, of which nobody knows the project.
    fn is_everybody(&self) -> bool {
        matches!(self, Self::Everybody)
    }
}

/// What a badge says (API-213..215).
fn decide(world: &World, catalog: &Catalog, asked: &Asked, audience: &Audience<'_>) -> Badge {
    let mut badge = Badge { width: asked.width, ..Badge::unknown() };
    let namespace = asked.namespace.as_deref().unwrap_or_else(|| world.namespace());
    if !namespace_enabled(&world.installation.settings, namespace, world.namespace()) {
        badge.not_found();
        return badge;
    }
    // Before there was a complete list nobody knows what there is not.
    let is_known = catalog.is_complete();
    if let Some(name) = &asked.name {
        let key = AppKey::new(namespace, name);
        match catalog.get(&key).filter(|entry| audience.sees(entry)) {
            Some(entry) => {
                badge.say(or_unknown(&entry.health), or_unknown(&entry.sync));
                badge.title = asked.shows_name.then(|| name.clone());
                badge.revision = asked.shows_revision.then(|| revision(&entry, asked)).flatten();
            }
            None if is_known && !(audience.is_everybody() && catalog.is_unreadable(&key)) => {
                badge.not_found();
            }
            None => {}
        }
    }
    if !asked.projects.is_empty() && is_known {
        let all = catalog.snapshot().entries;
        let mut concerned = all
            .iter()
            .filter(|entry| entry.key.namespace == namespace)
            .filter(|entry| asked.projects.iter().any(|project| entry.project == *project))
            .filter(|entry| audience.sees(entry))
            .peekable();
        if concerned.peek().is_some() {
            let (mut is_healthy, mut is_synced) = (true, true);
            for entry in concerned {
                is_healthy &= entry.health == "Healthy";
                is_synced &= entry.sync == "Synced";
            }
            badge.say(
                if is_healthy { "Healthy" } else { "Degraded" },
                if is_synced { "Synced" } else { "OutOfSync" },
            );
        }
    }
    badge
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "Unknown" } else { text }
}

/// The revision that was synced last; `None` when there is none.
fn revision(entry: &Entry, asked: &Asked) -> Option<svg::Revision> {
    let app = entry.application().ok()?;
    let result = app.status.operation_state.as_ref()?.sync_result.as_ref()?;
    let whole = result.revisions.first().unwrap_or(&result.revision);
    if whole.is_empty() {
        return None;
    }
    let is_short = !asked.keeps_full_revision && whole.chars().count() > SHORT;
    let shown = whole.chars().take(if is_short { SHORT } else { REVISION_CHARS_MAX }).collect();
    Some(svg::Revision { text: shown, is_short })
}

impl Badge {
    /// What is said where nothing is known.
    fn unknown() -> Self {
        Self {
            left: "Unknown".to_owned(),
            left_colour: Colour::of_health("Unknown"),
            right: "Unknown".to_owned(),
            right_colour: Colour::of_sync("Unknown"),
            revision: None,
            title: None,
            width: None,
        }
    }

    fn say(&mut self, health: &str, sync: &str) {
        (self.left, self.left_colour) = (health.to_owned(), Colour::of_health(health));
        (self.right, self.right_colour) = (sync.to_owned(), Colour::of_sync(sync));
    }

    fn not_found(&mut self) {
        "Not Found".clone_into(&mut self.left);
        self.right.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_213_what_is_no_name_is_refused() {
        let read = |query: &str| Asked::read(query);
        for wrong in [
            "name=",
            "name=A",
            "name=a%2Fb",
            "name=a%00",
            "namespace=a.b",
            "namespace=",
            "project=%3Cb%3E",
            "width=x",
            "width=0",
            "width=-1",
            "width=10001",
            "width=99999999999",
            "name=a&namespace=..",
        ] {
            assert_eq!(read(wrong), Err(Malformed), "{wrong}");
        }
        let many = "project=a&".repeat(101);
        assert_eq!(read(&many), Err(Malformed));
        assert_eq!(read(&"a".repeat(20_000)), Err(Malformed));
        let asked =
            read("name=web&name=B%20&project=a&project=b&revision=TRUE&width=300&showAppName=1&x=%3C")
                .unwrap();
        let expected = Asked {
            name: Some("web".to_owned()),
            projects: vec!["a".to_owned(), "b".to_owned()],
            shows_revision: true,
            width: Some(300),
            ..Asked::default()
        };
        assert_eq!(asked, expected);
    }
}
