//! Fields of the `AppProject` (REP-120).

use super::field::{Table, Type};

pub(super) const TYPES: Table = &[
    Type {
        name: "AppProject",
        fields: &[
            ("apiVersion", "string", "Version of the schema of this object."),
            ("kind", "string", "Kind of this object."),
            ("metadata*", "metadata", "Standard metadata."),
            ("spec*", "AppProjectSpec", "What applications of the project may do."),
            ("status", "AppProjectStatus", "Tokens that are valid."),
        ],
    },
    Type {
        name: "AppProjectSpec",
        fields: &[
            ("sourceRepos", "[string]", "Globs of permitted repositories; ! forbids."),
            ("destinations", "[ProjectDestination]", "Permitted clusters and namespaces, in order."),
            ("description", "string max=255", "Text for people."),
            ("roles", "[ProjectRole]", "Roles and their permissions."),
            (
                "clusterResourceWhitelist",
                "[ClusterResourceItem]",
                "Permitted cluster-scoped kinds; none when absent.",
            ),
            ("clusterResourceBlacklist", "[ClusterResourceItem]", "Forbidden cluster-scoped kinds."),
            ("namespaceResourceWhitelist", "[ResourceItem]", "Permitted namespaced kinds; all when absent."),
            ("namespaceResourceBlacklist", "[ResourceItem]", "Forbidden namespaced kinds."),
            ("orphanedResources", "OrphanedResources", "Presence turns the monitoring of orphans on."),
            ("syncWindows", "[SyncWindow]", "When syncs are allowed or denied."),
            ("signatureKeys", "[SignatureKey]", "Keys that must have signed commits."),
            ("sourceIntegrity", "SourceIntegrity", "Rules about signatures."),
            ("sourceNamespaces", "[string]", "Namespaces whose Applications may use the project."),
            (
                "permitOnlyProjectScopedClusters",
                "boolean",
                "Whether only clusters of this project may be used.",
            ),
            ("destinationServiceAccounts", "[DestinationServiceAccount]", "Accounts that syncs act as."),
        ],
    },
    Type {
        name: "ProjectDestination",
        fields: &[
            ("server", "string", "Glob of the API server's URL; ! forbids."),
            ("name", "string", "Glob of the cluster's name; ! forbids."),
            ("namespace", "string", "Glob of the namespace; ! forbids."),
        ],
    },
    Type {
        name: "ProjectRole",
        fields: &[
            ("name*", "string", "Name."),
            ("description", "string", "Text for people."),
            ("policies", "[string]", "Permissions as policy lines."),
            ("groups", "[string]", "Groups that have the role."),
            ("jwtTokens", "[JwtToken]", "Tokens of the role."),
        ],
    },
    Type {
        name: "JwtToken",
        fields: &[
            ("iat*", "int", "Time of issue in seconds."),
            ("exp", "int", "Time of expiry in seconds."),
            ("id", "string", "Id."),
        ],
    },
    Type {
        name: "ResourceItem",
        fields: &[
            ("group*", "string", "Pattern of the API group."),
            ("kind*", "string", "Pattern of the kind."),
        ],
    },
    Type {
        name: "ClusterResourceItem",
        fields: &[
            ("group*", "string", "Pattern of the API group."),
            ("kind*", "string", "Pattern of the kind."),
            ("name", "string", "Pattern of the name; any when absent."),
        ],
    },
    Type {
        name: "OrphanedResources",
        fields: &[
            ("warn", "boolean", "Whether orphans make a warning."),
            ("ignore", "[OrphanedResourceKey]", "Objects that do not count."),
        ],
    },
    Type {
        name: "OrphanedResourceKey",
        fields: &[
            ("group", "string", "Glob of the API group."),
            ("kind", "string", "Glob of the kind; any when empty."),
            ("name", "string", "Glob of the name; any when empty."),
        ],
    },
    Type {
        name: "SyncWindow",
        fields: &[
            ("kind", "string", "allow or deny."),
            ("schedule", "string", "Start, as five cron fields."),
            ("duration", "string", "Length, such as 1h30m."),
            ("applications", "[string]", "Globs of names of Applications."),
            ("namespaces", "[string]", "Globs of destination namespaces."),
            ("clusters", "[string]", "Globs of servers or names of clusters."),
            ("manualSync", "boolean", "Whether people may sync all the same."),
            ("timeZone", "string", "Time zone of the schedule; UTC when empty."),
            ("andOperator", "boolean", "Whether all given selectors must match instead of any."),
            ("description", "string max=255", "Text for people."),
            ("syncOverrun", "boolean", "Whether a sync that began in time may end."),
        ],
    },
    Type { name: "SignatureKey", fields: &[("keyID*", "string", "Id of a GnuPG key.")] },
    Type { name: "SourceIntegrity", fields: &[("git", "GitIntegrity", "Rules for Git repositories.")] },
    Type {
        name: "GitIntegrity",
        fields: &[("policies", "[GitIntegrityPolicy]", "One rule per group of repositories.")],
    },
    Type {
        name: "GitIntegrityPolicy",
        fields: &[
            ("repos", "[IntegrityRepo]", "Repositories the rule is about."),
            ("gpg", "GpgPolicy", "What must be signed, and by whom."),
        ],
    },
    Type { name: "IntegrityRepo", fields: &[("url*", "string", "Glob of the URL; ! excludes.")] },
    Type {
        name: "GpgPolicy",
        fields: &[
            ("mode*", "string enum=none|head|strict", "What must be signed."),
            ("keys", "[string]", "Ids of the keys that may sign."),
        ],
    },
    Type {
        name: "DestinationServiceAccount",
        fields: &[
            ("server*", "string", "Glob of the API server's URL."),
            ("namespace", "string", "Glob of the destination namespace."),
            ("defaultServiceAccount*", "string", "Account, or namespace:account."),
        ],
    },
    Type {
        name: "AppProjectStatus",
        fields: &[("jwtTokensByRole", "{JwtTokens}", "Valid tokens of each role.")],
    },
    Type { name: "JwtTokens", fields: &[("items", "[JwtToken]", "Newest first.")] },
];
