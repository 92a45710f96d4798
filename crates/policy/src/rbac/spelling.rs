//! Other spellings of the objects that are named by an address: a denial of a repository or a cluster covers all of them
//! (A2). An allowance covers what it says.

use smol_str::SmolStr;

use super::pattern::MatchMode;
use super::vocabulary::Resource;
use crate::project::{AddressSpelling, denial_spellings};

/// Resources whose objects are addresses, alone or behind a project (REP-41, REP-112).
pub(super) const ADDRESSED: [Resource; 3] =
    [Resource::Clusters, Resource::Repositories, Resource::WriteRepositories];

/// The other spellings of an object; none for what is not named by an address.
pub(super) fn of_object(mode: MatchMode, resource: &str, object: &str) -> Vec<String> {
    if !ADDRESSED.iter().any(|known| known.as_str() == resource) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (project, address) in readings(object) {
        let AddressSpelling { exact, canonical } = AddressSpelling::of(address);
        // Expressions may say how a URL ends; of globs that is left out.
        let ends: &[&str] = if mode == MatchMode::Regex { &["", "/", ".git"] } else { &[""] };
        let ends = ends.iter().map(|end| format!("{canonical}{end}"));
        found.extend([exact].into_iter().chain(ends).map(|spelling| format!("{project}{spelling}")));
    }
    unlike(found, object)
}

/// The patterns that a denial stands for besides the one that is written.
pub(super) fn of_denial(mode: MatchMode, pattern: &str) -> Vec<SmolStr> {
    let found = match mode {
        MatchMode::Regex => vec![format!("(?i){pattern}")],
        MatchMode::Glob => {
            let spelled = |(project, address): (&str, &str)| {
                denial_spellings(address).map(|spelling| format!("{project}{spelling}"))
            };
            readings(pattern).into_iter().flat_map(spelled).collect()
        }
    };
    unlike(found, pattern).into_iter().map(SmolStr::from).collect()
}

fn unlike(mut found: Vec<String>, written: &str) -> Vec<String> {
    found.sort_unstable();
    found.dedup();
    found.retain(|spelling| spelling != written);
    found
}

/// The ways to read an object or a pattern: what stands for a project, with its `/`, and the address behind it. Without a
/// scheme both are possible.
fn readings(text: &str) -> Vec<(&str, &str)> {
    let split = |at: usize| (text.get(..at).unwrap_or_default(), text.get(at..).unwrap_or_default());
    if let Some(scheme) = text.find("://") {
        let (before, _) = split(scheme);
        return vec![split(before.rfind('/').map_or(0, |at| at + 1))];
    }
    let project = text.find('/').map(|at| split(at + 1));
    [Some(("", text)), project].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_102_objects_are_read_as_projects_and_addresses() {
        assert_eq!(readings("https://git/r"), [("", "https://git/r")]);
        assert_eq!(readings("shop/https://git/r"), [("shop/", "https://git/r")]);
        assert_eq!(readings("*/https://git/r"), [("*/", "https://git/r")]);
        assert_eq!(readings("shop/git@h:o/r"), [("", "shop/git@h:o/r"), ("shop/", "git@h:o/r")]);
        assert_eq!(readings("*"), [("", "*")]);
    }

    #[test]
    fn api_102_only_addresses_have_other_spellings() {
        assert!(of_object(MatchMode::Glob, "applications", "Shop/Web").is_empty());
        let of_repository = of_object(MatchMode::Glob, "repositories", "shop/https://u:p@Git:443/O/r.git");
        assert!(of_repository.contains(&"shop/https://git/o/r".to_owned()), "{of_repository:?}");
        assert!(of_denial(MatchMode::Glob, "*").is_empty());
        assert!(of_denial(MatchMode::Glob, "shop/*").is_empty());
        let denied = of_denial(MatchMode::Glob, "shop/https://Git/O/*.git");
        assert_eq!(denied, ["shop/https://git/o/*"]);
    }
}
