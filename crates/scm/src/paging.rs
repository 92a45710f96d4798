//! Where the next page of a list is. Pure.
//!
//! Only the query of a next page is taken from what a server says: scheme, host and path stay ours, so that a link can
//! send us nowhere else.

use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Items of a full page.
const FULL: usize = 100;

/// How a server says that there is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    /// A link in a header (GitHub).
    Link,
    /// The number of the page in a header, or a link (GitLab).
    NextPage,
    /// A link, or the number of all items, or neither: then until a page is empty (Gitea).
    Counted,
    /// `isLastPage` and `nextPageStart` in the body (Bitbucket Server).
    Start,
    /// `next` in the body (Bitbucket).
    Next,
    /// Nobody says: until a page is empty (Azure DevOps).
    Skip,
}

/// A page that was read.
#[derive(Debug)]
pub(crate) struct Page<'p> {
    pub(crate) url: &'p Url,
    pub(crate) headers: &'p HeaderMap,
    pub(crate) body: &'p Value,
    /// Items on it.
    pub(crate) here: usize,
    /// Items on it and on those before it.
    pub(crate) so_far: usize,
}

impl Paging {
    /// The page after this one.
    ///
    /// # Errors
    /// When it is said that there is one, and not which.
    pub(crate) fn following(self, page: &Page<'_>) -> Result<Option<Url>, String> {
        let next = match self {
            Self::Link => page.linked_or_counted()?,
            Self::NextPage => match page.header("x-next-page") {
                Some("") => None,
                Some(number) => {
                    let number =
                        number.trim().parse::<u64>().map_err(|_error| "its next page has no number")?;
                    Some(with(page.url, "page", &number.to_string()))
                }
                None => page.linked_or_counted()?,
            },
            Self::Counted => {
                if page.header("link").is_some() {
                    page.linked()?
                } else {
                    let total =
                        page.header("x-total-count").and_then(|total| total.trim().parse::<usize>().ok());
                    let is_last = total.is_some_and(|total| page.so_far >= total) || page.here == 0;
                    if total.is_some_and(|total| page.so_far < total) && page.here == 0 {
                        return Err("its list ends too early".to_owned());
                    }
                    (!is_last).then(|| page.counted_up("page", 1, 1)).transpose()?
                }
            }
            Self::Start => match page.body.get("isLastPage").and_then(Value::as_bool) {
                Some(true) => None,
                Some(false) => {
                    let start = page.body.get("nextPageStart").and_then(Value::as_u64);
                    let start = start.ok_or("it says that there is more, and not where")?;
                    Some(with(page.url, "start", &start.to_string()))
                }
                None => return Err("it does not say whether there is more".to_owned()),
            },
            Self::Next => match page.body.get("next") {
                None | Some(Value::Null) => None,
                Some(next) => {
                    let next = next.as_str().and_then(|next| Url::parse(next).ok());
                    let next = next.ok_or("it says that there is more, and not where")?;
                    Some(queried(page.url, next.query()))
                }
            },
            Self::Skip => (page.here > 0).then(|| page.counted_up("$skip", 0, page.here)).transpose()?,
        };
        if next.as_ref() == Some(page.url) {
            return Err("its next page is the same one".to_owned());
        }
        Ok(next)
    }
}

impl Page<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The link called `next`. A full page without any link may have lost it on its way: then the next page says whether
    /// there is more.
    fn linked_or_counted(&self) -> Result<Option<Url>, String> {
        if self.header("link").is_none() && self.here >= FULL {
            return self.counted_up("page", 1, 1).map(Some);
        }
        self.linked()
    }

    /// The link called `next`.
    fn linked(&self) -> Result<Option<Url>, String> {
        let links = self.headers.get_all("link").iter().filter_map(|value| value.to_str().ok());
        for link in links.flat_map(|links| links.split(',')) {
            let mut parts = link.split(';');
            let target = parts.next().unwrap_or_default().trim();
            let is_next = parts.any(|part| matches!(part.trim(), "rel=\"next\"" | "rel=next"));
            if is_next {
                let target = target.strip_prefix('<').and_then(|target| target.strip_suffix('>'));
                let target = target.and_then(|target| self.url.join(target).ok());
                let target = target.ok_or("it says that there is more, and not where")?;
                return Ok(Some(queried(self.url, target.query())));
            }
        }
        Ok(None)
    }

    /// The address with a number in the query raised.
    fn counted_up(&self, name: &str, first: usize, by: usize) -> Result<Url, String> {
        let present = self.url.query_pairs().find(|(key, _)| key == name);
        let present = present.map_or(Ok(first), |(_, value)| value.parse::<usize>());
        let present = present.map_err(|_error| "its pages cannot be counted".to_owned())?;
        Ok(with(self.url, name, &present.saturating_add(by).to_string()))
    }
}

fn queried(url: &Url, query: Option<&str>) -> Url {
    let mut url = url.clone();
    url.set_query(query);
    url
}

/// The address with a member of the query set.
fn with(url: &Url, name: &str, value: &str) -> Url {
    let others: Vec<(String, String)> =
        url.query_pairs().into_owned().filter(|(key, _)| key != name).collect();
    let mut url = url.clone();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(name, value);
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    fn next(
        paging: Paging,
        url: &str,
        headers: &[(&'static str, &'static str)],
        body: &Value,
        (here, so_far): (usize, usize),
    ) -> Result<Option<String>, String> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let url = Url::parse(url).unwrap();
        let page = Page { url: &url, headers: &headers, body, here, so_far };
        Ok(paging.following(&page)?.map(|url| url.to_string()))
    }

    #[test]
    fn aset_58_next_pages_are_found_and_stay_on_the_host() {
        let null = Value::Null;
        let link = [(
            "link",
            "<https://evil/organizations/1/repos?page=2>; rel=\"next\", <https://a/x?page=9>; rel=\"last\"",
        )];
        let url = "https://a/orgs/o/repos?per_page=100";
        assert_eq!(
            next(Paging::Link, url, &link, &null, (1, 1)),
            Ok(Some("https://a/orgs/o/repos?page=2".to_owned()))
        );
        let last = [("link", "<https://a/x?page=1>; rel=\"prev\"")];
        assert_eq!(next(Paging::Link, url, &last, &null, (1, 1)), Ok(None));
        assert_eq!(next(Paging::Link, url, &[], &null, (1, 1)), Ok(None));
        assert!(next(Paging::Link, url, &[("link", "x; rel=\"next\"")], &null, (1, 1)).is_err());
        // A full page that says nothing is not believed to be the last one.
        for paging in [Paging::Link, Paging::NextPage] {
            assert_eq!(
                next(paging, url, &[], &null, (100, 100)),
                Ok(Some("https://a/orgs/o/repos?per_page=100&page=2".to_owned()))
            );
            assert_eq!(next(paging, url, &[], &null, (99, 99)), Ok(None));
        }
        assert_eq!(next(Paging::Link, url, &last, &null, (100, 200)), Ok(None));

        let numbered = [("x-next-page", "3")];
        assert_eq!(
            next(Paging::NextPage, "https://a/p?page=2", &numbered, &null, (1, 1)),
            Ok(Some("https://a/p?page=3".to_owned()))
        );
        assert_eq!(next(Paging::NextPage, "https://a/p", &[("x-next-page", "")], &null, (1, 1)), Ok(None));
        assert!(next(Paging::NextPage, "https://a/p", &[("x-next-page", "x")], &null, (1, 1)).is_err());
        assert!(
            next(Paging::NextPage, "https://a/p?page=2", &[("x-next-page", "2")], &null, (1, 1)).is_err()
        );

        assert_eq!(
            next(
                Paging::Start,
                "https://a/p",
                &[],
                &json!({"isLastPage": false, "nextPageStart": 25}),
                (1, 1)
            ),
            Ok(Some("https://a/p?start=25".to_owned()))
        );
        assert_eq!(next(Paging::Start, "https://a/p", &[], &json!({"isLastPage": true}), (1, 1)), Ok(None));
        assert!(next(Paging::Start, "https://a/p", &[], &json!({"isLastPage": false}), (1, 1)).is_err());
        assert!(next(Paging::Start, "https://a/p", &[], &json!({}), (1, 1)).is_err());

        assert_eq!(
            next(
                Paging::Next,
                "https://a/p?pagelen=100",
                &[],
                &json!({"next": "https://b/q?page=2&pagelen=100"}),
                (1, 1)
            ),
            Ok(Some("https://a/p?page=2&pagelen=100".to_owned()))
        );
        assert_eq!(next(Paging::Next, "https://a/p", &[], &json!({}), (1, 1)), Ok(None));
        assert!(next(Paging::Next, "https://a/p", &[], &json!({"next": 2}), (1, 1)).is_err());

        assert_eq!(
            next(Paging::Skip, "https://a/p?%24skip=100", &[], &null, (100, 200)),
            Ok(Some("https://a/p?%24skip=200".to_owned()))
        );
        assert_eq!(next(Paging::Skip, "https://a/p", &[], &null, (0, 0)), Ok(None));
    }

    #[test]
    fn aset_58_lists_of_gitea_end_when_all_is_there() {
        let null = Value::Null;
        let url = "https://a/p?limit=50&page=1";
        let counted = |total: &'static str, here, so_far| {
            next(Paging::Counted, url, &[("x-total-count", total)], &null, (here, so_far))
        };
        assert_eq!(counted("51", 50, 50), Ok(Some("https://a/p?limit=50&page=2".to_owned())));
        assert_eq!(counted("50", 50, 50), Ok(None));
        assert!(counted("51", 0, 50).is_err(), "an item is missing");
        assert_eq!(
            next(Paging::Counted, url, &[], &null, (1, 1)),
            Ok(Some("https://a/p?limit=50&page=2".to_owned()))
        );
        assert_eq!(next(Paging::Counted, url, &[], &null, (0, 1)), Ok(None));
        let link = [("link", "<https://a/p?page=2&limit=50>; rel=\"next\""), ("x-total-count", "99")];
        assert_eq!(
            next(Paging::Counted, url, &link, &null, (50, 50)),
            Ok(Some("https://a/p?page=2&limit=50".to_owned()))
        );
    }
}
