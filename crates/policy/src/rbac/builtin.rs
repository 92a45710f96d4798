//! The policy that is always in force (API-100, ASET-279).

use smol_str::SmolStr;

use super::lines::{PolicyRule, RoleLink};

const READONLY: &str = "role:readonly";
const ADMIN: &str = "role:admin";

/// Role, resources, actions, object.
type Row = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

const ROWS: &[Row] = &[
    (READONLY, &["applications", "applicationsets", "logs"], &["get"], "*/*"),
    (
        READONLY,
        &[
            "certificates",
            "clusters",
            "repositories",
            "write-repositories",
            "projects",
            "accounts",
            "gpgkeys",
        ],
        &["get"],
        "*",
    ),
    (
        ADMIN,
        &["applications"],
        &["create", "update", "update/*", "delete", "delete/*", "sync", "rollback", "override", "action/*"],
        "*/*",
    ),
    (ADMIN, &["applicationsets"], &["get", "create", "update", "delete"], "*/*"),
    (ADMIN, &["applicationsets"], &["unscoped"], "*"),
    (ADMIN, &["certificates"], &["create", "update", "delete"], "*"),
    (
        ADMIN,
        &["clusters", "repositories", "write-repositories", "projects"],
        &["create", "update", "delete"],
        "*",
    ),
    (ADMIN, &["accounts"], &["update"], "*"),
    (ADMIN, &["gpgkeys"], &["create", "delete"], "*"),
    (ADMIN, &["exec"], &["create"], "*/*"),
];

const LINKS: [(&str, &str); 2] = [(ADMIN, READONLY), ("admin", ADMIN)];

/// Its rules; their patterns are globs in every mode (API-87).
pub(super) fn rules() -> impl Iterator<Item = PolicyRule> {
    let text = SmolStr::new_static;
    ROWS.iter().flat_map(move |(role, resources, actions, object)| {
        let pairs =
            resources.iter().flat_map(|resource| actions.iter().map(move |action| (*resource, *action)));
        pairs.map(move |(resource, action)| PolicyRule {
            subject: text(role),
            resource: text(resource),
            action: text(action),
            object: text(object),
            effect: text("allow"),
        })
    })
}

/// Its links.
pub(super) fn links() -> impl Iterator<Item = RoleLink> {
    LINKS.into_iter().map(|(member, role)| RoleLink {
        member: SmolStr::new_static(member),
        role: SmolStr::new_static(role),
    })
}
