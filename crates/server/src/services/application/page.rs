//! Pages of lists: what is searched for, what is left of it by filters, in which order, from where on, and how many there
//! are (UI-1100, B8).
//!
//! One pass looks at every application once; a page costs no more than its own applications beyond that. A page begins
//! after an application, not at a number: what comes and goes between two pages moves nothing that stays.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smol_str::SmolStr;
use xxhash_rust::xxh3::xxh3_64;

use super::requests::Query;
use crate::call::Status;
use crate::catalog::{AppKey, Entry};

/// Applications of one page.
const LIMIT_MAX: usize = 1_000;
/// Bytes of a search.
const SEARCH_BYTES_MAX: usize = 256;
/// Values of one filter.
const VALUES_MAX: usize = 100;
/// Bytes of a token that continues.
const TOKEN_BYTES_MAX: usize = 2_048;
/// Values of one facet that are told, the most frequent ones; the others are one number.
const FACET_VALUES_MAX: usize = 200;

/// What applications are filtered and sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Facet {
    Health,
    Sync,
    Project,
    Repo,
    Cluster,
    Namespace,
}

impl Facet {
    const ALL: [Self; 6] =
        [Self::Health, Self::Sync, Self::Project, Self::Repo, Self::Cluster, Self::Namespace];

    fn as_str(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Sync => "sync",
            Self::Project => "project",
            Self::Repo => "repo",
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|facet| facet.as_str() == text)
    }

    /// The value of an application.
    fn of(self, entry: &Entry) -> &str {
        match self {
            Self::Health => &entry.health,
            Self::Sync => &entry.sync,
            Self::Project => &entry.project,
            Self::Repo => &entry.repository,
            // A cluster is shown by the name that the application gives it.
            Self::Cluster if entry.destination.name.is_empty() => &entry.destination.server,
            Self::Cluster => &entry.destination.name,
            Self::Namespace => &entry.destination.namespace,
        }
    }
}

/// What a list is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Name,
    Created,
    By(Facet),
}

impl Sort {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "name" => Some(Self::Name),
            "created" => Some(Self::Created),
            other => Facet::parse(other).map(Self::By),
        }
    }

    fn of(self, entry: &Entry) -> &str {
        match self {
            Self::Name => "",
            Self::Created => &entry.created,
            Self::By(facet) => facet.of(entry),
        }
    }
}

/// Words and values that an application has to have.
#[derive(Clone, Debug, Default)]
pub(super) struct Narrowing {
    words: Vec<String>,
    filters: BTreeMap<Facet, Vec<String>>,
}

impl Narrowing {
    /// Reads `search` and `filter`.
    ///
    /// # Errors
    /// When a filter is unknown, or a bound is exceeded.
    pub(super) fn read(query: &Query) -> Result<Self, Status> {
        if query.search.len() > SEARCH_BYTES_MAX {
            return Err(Status::invalid(format!("`search` is longer than {SEARCH_BYTES_MAX} bytes")));
        }
        let words = query.search.split_whitespace().map(str::to_lowercase).collect();
        let mut filters = BTreeMap::new();
        for (name, text) in &query.filter {
            let Some(facet) = Facet::parse(name) else {
                let names = Facet::ALL.map(Facet::as_str).join(", ");
                let name = tiphys_api::printable::line(name);
                return Err(Status::invalid(format!("`filter` has no {name:?}; it has {names}")));
            };
            let values: Vec<String> = text.split(',').map(|value| value.trim().to_owned()).collect();
            if values.len() > VALUES_MAX {
                return Err(Status::invalid(format!("`filter[{name}]` has more than {VALUES_MAX} values")));
            }
            filters.insert(facet, values);
        }
        Ok(Self { words, filters })
    }

    /// Whether everything passes.
    pub(super) fn is_nothing(&self) -> bool {
        self.words.is_empty() && self.filters.is_empty()
    }

    /// Whether an application passes.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        self.is_found(entry) && self.refused_by(entry).next().is_none()
    }

    /// Whether every word is somewhere in the application's name, namespace, project, repository or destination.
    fn is_found(&self, entry: &Entry) -> bool {
        let destination = &entry.destination;
        let texts = [
            entry.key.name.as_str(),
            &entry.key.namespace,
            &entry.project,
            &entry.repository,
            &destination.server,
            &destination.name,
            &destination.namespace,
        ];
        self.words.iter().all(|word| texts.iter().any(|text| contains(text, word)))
    }

    fn refused_by<'a>(&'a self, entry: &'a Entry) -> impl Iterator<Item = Facet> + 'a {
        let is_refused =
            |(facet, values): &(&Facet, &Vec<String>)| !values.iter().any(|value| value == facet.of(entry));
        self.filters.iter().filter(is_refused).map(|(facet, _)| *facet)
    }
}

/// Whether a text has a word of small letters, in letters of any size.
fn contains(text: &str, word: &str) -> bool {
    if text.is_ascii() {
        let (text, word) = (text.as_bytes(), word.as_bytes());
        return word.len() <= text.len()
            && text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    }
    text.to_lowercase().contains(word)
}

/// Where a page begins: after this application in this order.
#[derive(Debug, Deserialize, Serialize)]
struct Token {
    value: SmolStr,
    name: SmolStr,
    namespace: SmolStr,
    /// What was asked for.
    asked: u64,
}

/// A page that is asked for, or a list without a bound.
#[derive(Debug)]
pub(super) struct Paging {
    narrowing: Narrowing,
    sort: Sort,
    is_descending: bool,
    limit: Option<usize>,
    after: Option<(SmolStr, AppKey)>,
    asked: u64,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    /// What is on it, in order.
    pub(super) entries: Vec<Arc<Entry>>,
    /// Where the next one begins; empty after the last.
    pub(super) next: String,
    /// How many come after it.
    pub(super) remaining: usize,
    /// How many there are, and of which values; only where a page was asked for.
    pub(super) stats: Option<Value>,
}

impl Paging {
    /// Reads what a query says about pages.
    ///
    /// # Errors
    /// When it says it wrongly.
    pub(super) fn read(query: &Query) -> Result<Self, Status> {
        let limit = match query.limit {
            None => None,
            Some(limit) => Some(
                usize::try_from(limit)
                    .ok()
                    .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                    .ok_or_else(|| Status::invalid(format!("`limit` has to be from 1 to {LIMIT_MAX}")))?,
            ),
        };
        let sort = Sort::parse(&query.sort).ok_or_else(|| {
            let names = Facet::ALL.map(Facet::as_str).join(", ");
            Status::invalid(format!("`sort` has to be name, created, {names}"))
        })?;
        let is_descending = match query.order.as_str() {
            "" | "asc" => false,
            "desc" => true,
            _ => return Err(Status::invalid("`order` has to be asc or desc")),
        };
        let narrowing = Narrowing::read(query)?;
        let asked = asked(query);
        let after = if query.r#continue.is_empty() { None } else { Some(after(&query.r#continue, asked)?) };
        if after.is_some() && limit.is_none() {
            return Err(Status::invalid("`continue` needs `limit`"));
        }
        Ok(Self { narrowing, sort, is_descending, limit, after, asked })
    }

    /// The page of those that the caller may see and asks for otherwise, which are given in the order of their names.
    pub(super) fn of(&self, visible: &[Arc<Entry>]) -> Page {
        let mut facets = Facets::default();
        let (mut total, mut later) = (0, Vec::new());
        for entry in visible.iter().filter(|entry| self.narrowing.is_found(entry)) {
            let mut refused = self.narrowing.refused_by(entry);
            let (first, second) = (refused.next(), refused.next());
            if self.limit.is_some() {
                facets.count(entry, first, second);
            }
            if first.is_none() {
                total += 1;
                if self.after.as_ref().is_none_or(|(value, key)| self.is_after(entry, value, key)) {
                    later.push(entry);
                }
            }
        }
        let limit = self.limit.unwrap_or(later.len());
        let remaining = later.len().saturating_sub(limit);
        match self.sort {
            // They come in this order.
            Sort::Name if self.is_descending => later.reverse(),
            Sort::Name => {}
            Sort::Created | Sort::By(_) => {
                if remaining > 0 && limit > 0 {
                    later.select_nth_unstable_by(limit - 1, |a, b| self.compare(a, b));
                    later.truncate(limit);
                }
                later.sort_unstable_by(|a, b| self.compare(a, b));
            }
        }
        later.truncate(limit);
        let last = later.last().filter(|_| remaining > 0);
        let next = last.map(|entry| self.token(entry)).unwrap_or_default();
        let stats = self.limit.map(|_| json!({"total": total, "facets": facets.shown()}));
        Page { entries: later.into_iter().map(Arc::clone).collect(), next, remaining, stats }
    }

    fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        self.turned((self.sort.of(a), &a.key).cmp(&(self.sort.of(b), &b.key)))
    }

    fn is_after(&self, entry: &Entry, value: &str, key: &AppKey) -> bool {
        self.turned((self.sort.of(entry), &entry.key).cmp(&(value, key))) == Ordering::Greater
    }

    fn turned(&self, order: Ordering) -> Ordering {
        if self.is_descending { order.reverse() } else { order }
    }

    fn token(&self, last: &Entry) -> String {
        let token = Token {
            value: self.sort.of(last).into(),
            name: last.key.name.clone(),
            namespace: last.key.namespace.clone(),
            asked: self.asked,
        };
        // Texts and a number can always be written.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }
}

/// A number for what is asked for, beside the page.
fn asked(query: &Query) -> u64 {
    let all = json!([
        query.name,
        query.app_namespace,
        query.projects(),
        query.selector,
        query.repo,
        query.sort,
        query.order,
        query.search,
        query.filter
    ]);
    xxh3_64(all.to_string().as_bytes())
}

fn after(token: &str, asked: u64) -> Result<(SmolStr, AppKey), Status> {
    let bytes = if token.len() <= TOKEN_BYTES_MAX { URL_SAFE_NO_PAD.decode(token).ok() } else { None };
    let read = bytes.and_then(|bytes| serde_json::from_slice::<Token>(&bytes).ok());
    match read {
        None => Err(Status::invalid("`continue` is none that a list of ours gave; begin anew")),
        Some(token) if token.asked != asked => {
            Err(Status::invalid("`continue` is of a list that asked for something else; begin anew"))
        }
        Some(token) => Ok((token.value, AppKey { name: token.name, namespace: token.namespace })),
    }
}

/// How many applications have which value. A facet counts as if it were not filtered by itself: what choosing another
/// value would bring.
#[derive(Default)]
struct Facets<'a>([Counts<'a>; Facet::ALL.len()]);

impl<'a> Facets<'a> {
    /// Counts an application that the first two of these filters refuse.
    fn count(&mut self, entry: &'a Entry, first: Option<Facet>, second: Option<Facet>) {
        for (facet, counts) in Facet::ALL.into_iter().zip(&mut self.0) {
            let is_counted = match (first, second) {
                (None, _) => true,
                (Some(only), None) => only == facet,
                (Some(_), Some(_)) => false,
            };
            if is_counted {
                counts.add(facet.of(entry));
            }
        }
    }

    /// What is told of them; facets that counted nothing are left out.
    fn shown(self) -> Vec<Value> {
        let shown = Facet::ALL.into_iter().zip(self.0).filter_map(|(facet, counts)| {
            let mut counts: Vec<(&str, usize)> = counts.all().into_iter().collect();
            if counts.is_empty() {
                return None;
            }
            counts.sort_unstable_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
            let others: usize = counts.iter().skip(FACET_VALUES_MAX).map(|(_, count)| count).sum();
            counts.truncate(FACET_VALUES_MAX);
            let counts: Vec<Value> =
                counts.into_iter().map(|(value, count)| json!({"value": value, "count": count})).collect();
            Some(json!({"name": facet.as_str(), "counts": counts, "others": others}))
        });
        shown.collect()
    }
}

/// How often values come. The same one comes many times in a row, and is looked up once then: a page looks at every
/// application (B8).
#[derive(Default)]
struct Counts<'a> {
    known: HashMap<&'a str, usize>,
    /// The last value, and how often it came since another one came.
    run: Option<(&'a str, usize)>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, value: &'a str) {
        match &mut self.run {
            Some((last, times)) if *last == value => *times += 1,
            run => {
                if let Some((last, times)) = run.replace((value, 1)) {
                    *self.known.entry(last).or_default() += times;
                }
            }
        }
    }

    fn all(mut self) -> HashMap<&'a str, usize> {
        if let Some((last, times)) = self.run.take() {
            *self.known.entry(last).or_default() += times;
        }
        self.known
    }
}

#[cfg(test)]
mod tests {
    use tiphys_object::Object;

    use super::*;
    use crate::catalog::Catalog;

    fn catalog(count: usize) -> Catalog {
        let catalog = Catalog::new("argocd");
        for nth in 0..count {
            let health = ["Healthy", "Degraded", "Progressing"][nth % 3];
            let project = ["shop", "bank"][nth % 2];
            let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {"name": format!("app-{nth:05}"), "namespace": "argocd", "resourceVersion": "1",
                    "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", 59 - nth % 60)},
                "spec": {"project": project, "source": {"repoURL": "https://git/Ä"},
                    "destination": {"server": "https://k8s", "namespace": format!("ns-{}", nth % 4)}},
                "status": {"health": {"status": health}, "sync": {"status": "Synced"}}});
            catalog.take(&Object::from_value(&app).unwrap());
        }
        catalog
    }

    fn query(change: impl FnOnce(&mut Query)) -> Query {
        let mut query = Query::default();
        change(&mut query);
        query
    }

    fn page(catalog: &Catalog, query: &Query) -> Page {
        Paging::read(query).unwrap().of(&catalog.snapshot().entries)
    }

    fn names(page: &Page) -> Vec<String> {
        page.entries.iter().map(|entry| entry.key.name.to_string()).collect()
    }

    #[test]
    fn ui_1100_pages_are_the_list_in_any_order_even_when_it_changes_meanwhile() {
        let catalog = catalog(100);
        for (sort, order) in
            [("", ""), ("name", "desc"), ("health", "asc"), ("created", "desc"), ("namespace", "")]
        {
            let whole =
                names(&page(&catalog, &query(|it| (it.sort, it.order) = (sort.into(), order.into()))));
            let mut asked = query(|it| {
                (it.sort, it.order, it.limit) = (sort.into(), order.into(), Some(7));
            });
            let mut all = Vec::new();
            loop {
                let page = page(&catalog, &asked);
                all.extend(names(&page));
                assert_eq!(page.remaining, 100 - all.len());
                assert_eq!(page.stats.as_ref().unwrap()["total"], 100);
                asked.r#continue = page.next;
                if asked.r#continue.is_empty() {
                    break;
                }
            }
            assert_eq!(all, whole, "{sort} {order}");
        }
        let first = page(&catalog, &query(|it| it.limit = Some(2)));
        catalog.remove(&first.entries[1].key);
        let second = page(&catalog, &query(|it| (it.limit, it.r#continue) = (Some(2), first.next)));
        assert_eq!(names(&second), ["app-00002", "app-00003"]);
    }

    #[test]
    fn ui_1100_facets_say_what_another_choice_would_bring() {
        let catalog = catalog(12);
        let found = page(
            &catalog,
            &query(|it| {
                it.limit = Some(1);
                it.filter = [("health", "Healthy,Degraded"), ("project", "shop")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into();
            }),
        );
        let stats = found.stats.unwrap();
        assert_eq!(stats["total"], 4);
        let counts = |name: &str| -> Vec<(String, u64)> {
            let facet = stats["facets"].as_array().unwrap().iter().find(|facet| facet["name"] == name);
            let counts = facet.unwrap()["counts"].as_array().unwrap().iter();
            counts
                .map(|it| (it["value"].as_str().unwrap().to_owned(), it["count"].as_u64().unwrap()))
                .collect()
        };
        let expected =
            |all: &[(&str, u64)]| all.iter().map(|(it, n)| ((*it).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(counts("health"), expected(&[("Degraded", 2), ("Healthy", 2), ("Progressing", 2)]));
        assert_eq!(counts("project"), expected(&[("bank", 4), ("shop", 4)]));
        assert_eq!(counts("sync"), expected(&[("Synced", 4)]));
    }

    #[test]
    fn ui_1100_every_word_of_a_search_is_found_somewhere() {
        let catalog = catalog(8);
        let found = |text: &str| names(&page(&catalog, &query(|it| it.search = text.into()))).len();
        assert_eq!(
            [found("APP-00003"), found("bank NS-3"), found("ä k8s"), found("none"), found("")],
            [1, 2, 8, 0, 8]
        );
    }

    #[test]
    fn ui_1100_what_is_asked_wrongly_is_refused_by_name() {
        let refused = |change: fn(&mut Query)| Paging::read(&query(change)).unwrap_err().message;
        assert!(refused(|it| it.limit = Some(0)).starts_with("`limit`"));
        assert!(refused(|it| it.limit = Some(1_001)).starts_with("`limit`"));
        assert!(refused(|it| it.sort = "colour".into()).starts_with("`sort`"));
        assert!(refused(|it| it.order = "up".into()).starts_with("`order`"));
        assert!(refused(|it| it.search = "x".repeat(257)).starts_with("`search`"));
        assert!(refused(|it| drop(it.filter.insert("colour".into(), "red".into()))).starts_with("`filter`"));
        assert!(
            refused(|it| drop(it.filter.insert("sync".into(), ",".repeat(100))))
                .starts_with("`filter[sync]`")
        );
        assert!(refused(|it| (it.limit, it.r#continue) = (Some(1), "?".into())).starts_with("`continue`"));
        let token = page(&catalog(3), &query(|it| it.limit = Some(1))).next;
        let other = query(|it| (it.limit, it.r#continue, it.search) = (Some(1), token.clone(), "a".into()));
        assert!(Paging::read(&other).unwrap_err().message.contains("something else"));
        assert!(
            Paging::read(&query(|it| it.r#continue = token)).unwrap_err().message.contains("needs `limit`")
        );
    }

    #[test]
    fn ui_1100_a_facet_of_many_values_has_a_bound() {
        let mut facets = Facets::default();
        let projects: Vec<String> = (0..FACET_VALUES_MAX + 5).map(|nth| format!("p-{nth}")).collect();
        for project in projects.iter().chain(&projects) {
            facets.0[0].add(project);
        }
        let shown = facets.shown();
        assert_eq!(shown[0]["counts"].as_array().unwrap().len(), FACET_VALUES_MAX);
        assert_eq!(shown[0]["others"], 10);
    }
}
