//! Whose families of metrics are whose: each port of a process has those of one component of Argo CD, so that what scrapes
//! and shows these goes on (API-1, CTL-127).

/// Families that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Of the API server: calls, logins, extensions, webhooks.
    Api,
    /// Of the controllers of Applications and of `ApplicationSets`; whatever belongs to nobody else.
    Controller,
    /// Of the repository service.
    Repository,
    /// Of the commit service.
    Commits,
    /// Of requests to API servers of Kubernetes, and to the store of shared state.
    Requests,
    /// What runs.
    Info,
}

/// The beginnings of names.
const BEGINNINGS: [(&str, Group); 13] = [
    ("argocd_login_", Group::Api),
    ("grpc_server_", Group::Api),
    ("argocd_proxy_extension_", Group::Api),
    ("argocd_webhook_", Group::Api),
    ("argocd_git_", Group::Repository),
    ("argocd_oci_", Group::Repository),
    ("argocd_repo_", Group::Repository),
    ("tiphys_render_", Group::Repository),
    ("tiphys_repository_", Group::Repository),
    ("argocd_commitserver_", Group::Commits),
    ("argocd_kubectl_", Group::Requests),
    ("argocd_redis_", Group::Requests),
    ("argocd_info", Group::Info),
];

impl Group {
    /// The group of a family.
    fn of(name: &str) -> Self {
        let found = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning));
        found.map_or(Self::Controller, |(_, group)| *group)
    }
}

/// The families of some groups, out of the text of a scrape.
pub(crate) fn only(text: &str, groups: &[Group]) -> String {
    let mut kept = String::with_capacity(text.len() / 2);
    let mut is_kept = true;
    for line in text.split_inclusive('\n') {
        let described = ["# HELP ", "# TYPE ", "# UNIT "].iter().find_map(|word| line.strip_prefix(word));
        if let Some(rest) = described {
            is_kept = groups.contains(&Group::of(rest.split_whitespace().next().unwrap_or_default()));
        }
        if is_kept || line.starts_with("# EOF") {
            kept.push_str(line);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctl_127_each_port_has_the_families_of_its_component() {
        let text = "# HELP argocd_app_info Information.\n# TYPE argocd_app_info gauge\nargocd_app_info{name=\"a\"} 1\n\
            # HELP argocd_login_request Logins.\n# TYPE argocd_login_request counter\n\
            argocd_login_request_total{status=\"success\"} 1\n\
            # HELP argocd_git_request Questions.\n# TYPE argocd_git_request counter\nargocd_git_request_total 3\n\
            # HELP argocd_kubectl_requests Requests.\n# TYPE argocd_kubectl_requests counter\n\
            # HELP argocd_info What runs.\n# TYPE argocd_info gauge\nargocd_info{version=\"1\"} 1\n# EOF\n";
        let names = |groups: &[Group]| -> Vec<String> {
            let found = only(text, groups);
            assert!(found.ends_with("# EOF\n"), "{found}");
            let described = found.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            described.filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
        };
        assert_eq!(names(&[Group::Api, Group::Info]), ["argocd_login_request", "argocd_info"]);
        assert_eq!(
            names(&[Group::Controller, Group::Requests]),
            ["argocd_app_info", "argocd_kubectl_requests"]
        );
        assert_eq!(names(&[Group::Repository]), ["argocd_git_request"]);
        assert_eq!(only(text, &[Group::Commits]), "# EOF\n");
        let all =
            [Group::Api, Group::Controller, Group::Repository, Group::Commits, Group::Requests, Group::Info];
        assert_eq!(only(text, &all), text, "nothing belongs to nobody");
        assert!(!only(text, &[Group::Controller]).contains("login"), "samples go with their family");
    }
}
