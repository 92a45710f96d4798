//! Well-known names: groups, annotations, finalizers, labels and `ConfigMaps` (ENG-1, TRK section 1, CTL-75).

/// API group of the product's custom resources.
pub const GROUP: &str = "argoproj.io";
/// API version of the product's custom resources.
pub const VERSION: &str = "v1alpha1";
/// The version of the reference whose API is served and spoken; programs compare it with their own (API-183, CLI-215).
pub const COMPATIBLE_VERSION: &str = "v3.6.0";
/// Server URL that means "the cluster Tiphys itself talks to" (REP-110).
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
/// Name of that cluster (REP-110).
pub const IN_CLUSTER_NAME: &str = "in-cluster";
/// Field manager of every server-side apply (ENG-2).
pub const FIELD_MANAGER: &str = "argocd-controller";
/// `kubectl`'s record of the last applied manifest.
pub use tiphys_object::LAST_APPLIED;

/// `ConfigMap` with the settings.
pub const SETTINGS_CONFIG_MAP: &str = "argocd-cm";
/// `ConfigMap` with the parameters of the components.
pub const PARAMS_CONFIG_MAP: &str = "argocd-cmd-params-cm";
/// `ConfigMap` with the RBAC policy.
pub const RBAC_CONFIG_MAP: &str = "argocd-rbac-cm";
/// Secret with keys and passwords of the installation.
pub const SECRET: &str = "argocd-secret";
/// `ConfigMap` with the certificates that vouch for servers, by host.
pub const TLS_CERTS_CONFIG_MAP: &str = "argocd-tls-certs-cm";
/// `ConfigMap` with the public keys of those who may sign commits.
pub const GPG_KEYS_CONFIG_MAP: &str = "argocd-gpg-keys-cm";
/// `ConfigMap` with SSH known hosts.
pub const KNOWN_HOSTS_CONFIG_MAP: &str = "argocd-ssh-known-hosts-cm";
/// Key of the known hosts in it.
pub const KNOWN_HOSTS_KEY: &str = "ssh_known_hosts";
/// Label that makes a `ConfigMap` count.
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
/// Its value.
pub const PART_OF: &str = "argocd";
/// Label that says what a Secret holds.
pub const SECRET_TYPE_LABEL: &str = "argocd.argoproj.io/secret-type";

/// Names of annotations.
pub mod annotation {
    /// Requests a refresh: `normal` or `hard` (CTL-10).
    pub const REFRESH: &str = "argocd.argoproj.io/refresh";
    /// Stamp that orders refresh requests (CTL-30).
    pub const REFRESH_TIMESTAMP: &str = "argocd.argoproj.io/refresh-timestamp";
    /// Requests a look at what is hydrated: `normal` or `hard` (CTL-10).
    pub const HYDRATE: &str = "argocd.argoproj.io/hydrate";
    /// Stamp that orders such requests (CTL-107).
    pub const HYDRATE_TIMESTAMP: &str = "argocd.argoproj.io/hydrate-timestamp";
    /// Paths that decide whether a commit matters (CTL-40).
    pub const MANIFEST_GENERATE_PATHS: &str = "argocd.argoproj.io/manifest-generate-paths";
    /// Stops processing of an application (CTL-19).
    pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
    /// CSV of compare options (ENG-1).
    pub const COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
    /// CSV of sync options (ENG-1).
    pub const SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";
    /// Sync wave (ENG-148).
    pub const SYNC_WAVE: &str = "argocd.argoproj.io/sync-wave";
    /// CSV of hook types (ENG-143).
    pub const HOOK: &str = "argocd.argoproj.io/hook";
    /// CSV of hook delete policies (ENG-147).
    pub const HOOK_DELETE_POLICY: &str = "argocd.argoproj.io/hook-delete-policy";
    /// Helm's hook types (ENG-143).
    pub const HELM_HOOK: &str = "helm.sh/hook";
    /// Helm's hook weight (ENG-148).
    pub const HELM_HOOK_WEIGHT: &str = "helm.sh/hook-weight";
    /// Helm's hook delete policies (ENG-147).
    pub const HELM_HOOK_DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
    /// Helm's resource policy; `keep` keeps the object (CTL-78).
    pub const HELM_RESOURCE_POLICY: &str = "helm.sh/resource-policy";
    /// Tracking method of one application (TRK-110).
    pub const TRACKING_METHOD: &str = "argocd.argoproj.io/tracking-method";
    /// Asks for a look at a set with freshly resolved revisions (ASET-182).
    pub const SET_REFRESH: &str = "argocd.argoproj.io/application-set-refresh";
    /// Under which tracking settings an application was synced last (TRK-102).
    pub const TRACKING_PROFILE: &str = "argocd.argoproj.io/tracking-profile";
    /// Who an object belongs to (TRK-30).
    pub const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
    /// Installation id (TRK section 1).
    pub const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
    /// `"true"` leaves an object out of the application's health (ENG-122).
    pub const IGNORE_HEALTHCHECK: &str = "argocd.argoproj.io/ignore-healthcheck";
    /// `"true"` on a Pod: assess as long-running (ENG-105).
    pub const IGNORE_RESTART_POLICY: &str = "argocd.argoproj.io/ignore-restart-policy";
    /// Lets a deletion go on without its hooks (CTL-84).
    pub const DELETION_SKIP_HOOKS: &str = "argocd.argoproj.io/deletion-skip-hooks";
    /// Time of confirmation of deletions (ENG-173).
    pub const DELETION_APPROVED: &str = "argocd.argoproj.io/deletion-approved";
    /// Says who manages a Secret (REP-3).
    pub const MANAGED_BY: &str = "managed-by";
    /// Its value on Secrets that the product made and may delete (REP-3).
    pub const MANAGED_BY_US: &str = "argocd.argoproj.io";
    /// Marks the operation and attempt that made a hook, so that a restart adopts it instead of running it
    /// again (INV-9). Ours.
    pub const OPERATION_ID: &str = "tiphys.dev/operation-id";
    /// Since when an Application holds the directory that it is hydrated to, signed by the controller (CTL-109). Ours.
    pub const HYDRATION_CLAIM: &str = "tiphys.dev/hydration-claim";
    /// Who renders the sources of an Application: `helm=exec,kustomize=native` (RND-159).
    pub const RENDERER: &str = "tiphys.dev/renderer";
}

/// Whether an annotation of an Application is a note of the controller, and nobody's declaration.
pub fn is_own_note(name: &str) -> bool {
    matches!(name, annotation::TRACKING_PROFILE | annotation::HYDRATION_CLAIM)
}

/// Names of labels.
pub mod label {
    /// `"true"` on the Secret of a cluster: the controller keeps its version in a label (REP-103).
    pub const AUTO_LABEL_CLUSTER_INFO: &str = "argocd.argoproj.io/auto-label-cluster-info";
    /// That label (REP-103).
    pub const KUBERNETES_VERSION: &str = "argocd.argoproj.io/kubernetes-version";
}

/// Names of finalizers.
pub mod finalizer {
    /// Keeps hooks observable until their result is recorded (ENG-150).
    pub const HOOK: &str = "argocd.argoproj.io/hook-finalizer";
    /// Cascade delete, foreground (CTL-75).
    pub const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";
    /// Cascade delete, foreground, long form (CTL-75).
    pub const CASCADE_FOREGROUND: &str = "resources-finalizer.argocd.argoproj.io/foreground";
    /// Cascade delete, background (CTL-75).
    pub const CASCADE_BACKGROUND: &str = "resources-finalizer.argocd.argoproj.io/background";
    /// Runs `PreDelete` hooks (CTL-76).
    pub const PRE_DELETE: &str = "pre-delete-finalizer.argocd.argoproj.io";
    /// Cleans `PreDelete` hooks up (CTL-76).
    pub const PRE_DELETE_CLEANUP: &str = "pre-delete-finalizer.argocd.argoproj.io/cleanup";
    /// Runs `PostDelete` hooks (CTL-76).
    pub const POST_DELETE: &str = "post-delete-finalizer.argocd.argoproj.io";
    /// Cleans `PostDelete` hooks up (CTL-76).
    pub const POST_DELETE_CLEANUP: &str = "post-delete-finalizer.argocd.argoproj.io/cleanup";
}
