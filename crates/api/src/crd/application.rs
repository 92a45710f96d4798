//! Fields of the Application (CTL-1..9).

use super::field::{Table, Type};

pub(super) const TYPES: Table = &[
    Type {
        name: "Application",
        fields: &[
            ("apiVersion", "string", "Version of the schema of this object."),
            ("kind", "string", "Kind of this object."),
            ("metadata*", "metadata", "Standard metadata."),
            ("spec*", "ApplicationSpec", "What should be deployed, from where, to where."),
            ("operation", "Operation", "The operation to run now; taken away when it starts."),
            ("status", "ApplicationStatus", "What the controller observed."),
        ],
    },
    Type {
        name: "ApplicationSpec",
        fields: &[
            ("project*", "string", "Name of the AppProject; empty means default."),
            ("destination*", "Destination", "Where the objects go."),
            ("source", "Source", "Where the manifests come from, if there is one place."),
            (
                "sources",
                "[Source]",
                "Where the manifests come from, if there are several places; wins over source.",
            ),
            (
                "sourceHydrator",
                "SourceHydrator",
                "Rendering into a branch that is then deployed; wins over source and sources.",
            ),
            ("syncPolicy", "SyncPolicy", "When and how to sync."),
            ("ignoreDifferences", "[IgnoreDifference]", "Differences that do not count."),
            ("info", "[Info]", "Notes and links for people."),
            ("revisionHistoryLimit", "int", "Deployments to remember; 10 when absent, 0 remembers none."),
        ],
    },
    Type {
        name: "Destination",
        fields: &[
            ("server", "string", "URL of the API server; exactly one of server and name is given."),
            ("name", "string", "Name of the cluster; exactly one of server and name is given."),
            ("namespace", "string", "Namespace of objects that name none."),
        ],
    },
    Type {
        name: "Source",
        fields: &[
            ("repoURL*", "string", "URL of the Git, Helm or OCI repository."),
            ("path", "string", "Directory inside the repository."),
            ("targetRevision", "string", "Branch, tag, commit, or version range; HEAD when empty."),
            ("chart", "string", "Name of a chart in a Helm repository."),
            ("ref", "string", "Name under which value files of other sources reach this repository."),
            ("name", "string", "Name of the source among several."),
            ("tagPrefix", "string", "Prefix of the tags that a version range is about."),
            ("helm", "HelmSource", "Options of Helm."),
            ("kustomize", "KustomizeSource", "Options of Kustomize."),
            ("directory", "DirectorySource", "Options of plain manifests and Jsonnet."),
            ("plugin", "PluginSource", "Options of a config management plugin."),
        ],
    },
    Type {
        name: "HelmSource",
        fields: &[
            ("valueFiles", "[string]", "Value files, in order; later ones win."),
            ("parameters", "[HelmParameter]", "Values set one by one; they win over files."),
            ("fileParameters", "[HelmFileParameter]", "Values set to the content of files."),
            ("releaseName", "string", "Name of the release; the application's name when empty."),
            ("values", "string", "Values as YAML text."),
            ("valuesObject", "object", "Values as a mapping; wins over values."),
            ("ignoreMissingValueFiles", "boolean", "Whether value files that do not exist are skipped."),
            ("skipCrds", "boolean", "Whether the chart's CRDs are left out."),
            ("skipTests", "boolean", "Whether the chart's test hooks are left out."),
            ("skipSchemaValidation", "boolean", "Whether values are not checked against the chart's schema."),
            ("passCredentials", "boolean", "Whether credentials are sent to all hosts of the repository."),
            ("version", "string", "Version of Helm; v3 is the only one."),
            ("kubeVersion", "string", "Version of Kubernetes that templates see."),
            ("apiVersions", "[string]", "API versions that templates see."),
            ("namespace", "string", "Namespace that templates see."),
        ],
    },
    Type {
        name: "HelmParameter",
        fields: &[
            ("name", "string", "Path of the value."),
            ("value", "string", "The value."),
            ("forceString", "boolean", "Whether numbers and booleans stay text."),
        ],
    },
    Type {
        name: "HelmFileParameter",
        fields: &[("name", "string", "Path of the value."), ("path", "string", "File with the value.")],
    },
    Type {
        name: "KustomizeSource",
        fields: &[
            ("namePrefix", "string", "Prefix of all names."),
            ("nameSuffix", "string", "Suffix of all names."),
            ("images", "[string]", "Image overrides in Kustomize's notation."),
            ("commonLabels", "{string}", "Labels of all objects."),
            ("commonAnnotations", "{string}", "Annotations of all objects."),
            (
                "commonAnnotationsEnvsubst",
                "boolean",
                "Whether build variables are replaced in commonAnnotations.",
            ),
            ("forceCommonLabels", "boolean", "Whether commonLabels win over existing ones."),
            ("forceCommonAnnotations", "boolean", "Whether commonAnnotations win over existing ones."),
            ("labelWithoutSelector", "boolean", "Whether commonLabels stay out of selectors."),
            ("labelIncludeTemplates", "boolean", "Whether commonLabels also go into pod templates."),
            ("namespace", "string", "Namespace of all objects."),
            ("version", "string", "Version of Kustomize to use."),
            ("kubeVersion", "string", "Version of Kubernetes that charts see."),
            ("apiVersions", "[string]", "API versions that charts see."),
            ("replicas", "[KustomizeReplica]", "Replica overrides."),
            ("patches", "[KustomizePatch]", "Patches."),
            ("components", "[string]", "Components to add."),
            ("ignoreMissingComponents", "boolean", "Whether components that do not exist are skipped."),
        ],
    },
    Type {
        name: "KustomizeReplica",
        fields: &[
            ("name*", "string", "Name of the Deployment or StatefulSet."),
            ("count*", "int-or-string", "Number of replicas."),
        ],
    },
    Type {
        name: "KustomizePatch",
        fields: &[
            ("path", "string", "File with the patch."),
            ("patch", "string", "The patch itself."),
            ("target", "KustomizeSelector", "Objects to patch."),
            ("options", "{boolean}", "Switches of the patch."),
        ],
    },
    Type {
        name: "KustomizeSelector",
        fields: &[
            ("group", "string", "API group."),
            ("version", "string", "API version."),
            ("kind", "string", "Kind."),
            ("name", "string", "Pattern of the name."),
            ("namespace", "string", "Pattern of the namespace."),
            ("labelSelector", "string", "Label selector."),
            ("annotationSelector", "string", "Annotation selector."),
        ],
    },
    Type {
        name: "DirectorySource",
        fields: &[
            ("recurse", "boolean", "Whether subdirectories are read."),
            ("include", "string", "Glob of the files to read."),
            ("exclude", "string", "Glob of the files to leave out."),
            ("disableExtensionFilter", "boolean", "Whether files of any extension are read."),
            ("jsonnet", "JsonnetSource", "Options of Jsonnet."),
        ],
    },
    Type {
        name: "JsonnetSource",
        fields: &[
            ("extVars", "[JsonnetVariable]", "External variables."),
            ("tlas", "[JsonnetVariable]", "Top-level arguments."),
            ("libs", "[string]", "Library directories."),
        ],
    },
    Type {
        name: "JsonnetVariable",
        fields: &[
            ("name*", "string", "Name."),
            ("value*", "string", "Value."),
            ("code", "boolean", "Whether the value is Jsonnet instead of text."),
        ],
    },
    Type {
        name: "PluginSource",
        fields: &[
            ("name", "string", "Name of the plugin; discovered when empty."),
            ("env", "[PluginVariable]", "Environment variables."),
            ("parameters", "[PluginParameter]", "Parameters."),
        ],
    },
    Type { name: "PluginVariable", fields: &[("name*", "string", "Name."), ("value*", "string", "Value.")] },
    Type {
        name: "PluginParameter",
        fields: &[
            ("name", "string", "Name."),
            ("string", "string", "Value, if it is text."),
            ("array", "[string]", "Value, if it is a list."),
            ("map", "{string}", "Value, if it is a mapping."),
        ],
    },
    Type {
        name: "SourceHydrator",
        fields: &[
            ("drySource*", "DrySource", "What is rendered."),
            ("syncSource*", "SyncSource", "What is deployed."),
            ("hydrateTo", "HydrateTo", "Where rendered manifests are proposed instead."),
        ],
    },
    Type {
        name: "DrySource",
        fields: &[
            ("repoURL*", "string", "URL of the repository."),
            ("path*", "string", "Directory inside the repository."),
            ("targetRevision*", "string", "Branch, tag or commit."),
            ("helm", "HelmSource", "Options of Helm."),
            ("kustomize", "KustomizeSource", "Options of Kustomize."),
            ("directory", "DirectorySource", "Options of plain manifests and Jsonnet."),
            ("plugin", "PluginSource", "Options of a config management plugin."),
        ],
    },
    Type {
        name: "SyncSource",
        fields: &[
            ("targetBranch*", "string", "Branch with rendered manifests."),
            ("path*", "string pattern=^.{2,}|[^./]$", "Directory of the branch; never its root."),
            ("repoURL", "string", "URL of the repository; that of drySource when empty."),
        ],
    },
    Type { name: "HydrateTo", fields: &[("targetBranch*", "string", "Branch to write to.")] },
    Type {
        name: "SyncPolicy",
        fields: &[
            ("automated", "AutomatedSync", "Presence turns automatic sync on."),
            ("syncOptions", "[string]", "Options such as CreateNamespace=true."),
            ("retry", "RetryStrategy", "What to do after a failed sync."),
            ("managedNamespaceMetadata", "NamespaceMetadata", "Metadata of the namespace that is created."),
        ],
    },
    Type {
        name: "AutomatedSync",
        fields: &[
            ("enabled", "boolean", "Whether automatic sync is on; true when absent."),
            ("prune", "boolean", "Whether objects that left the source are deleted."),
            ("selfHeal", "boolean", "Whether changes made in the cluster are undone."),
            ("allowEmpty", "boolean", "Whether everything may be deleted when the source is empty."),
        ],
    },
    Type {
        name: "RetryStrategy",
        fields: &[
            ("limit", "int", "Number of retries; negative means without end."),
            ("refresh", "boolean", "Whether a retry takes the newest revision."),
            ("backoff", "Backoff", "How long to wait between retries."),
        ],
    },
    Type {
        name: "Backoff",
        fields: &[
            ("duration", "string", "First wait, such as 5s."),
            ("factor", "int", "Growth from one wait to the next."),
            ("maxDuration", "string", "Longest wait, such as 3m."),
        ],
    },
    Type {
        name: "NamespaceMetadata",
        fields: &[("labels", "{string}", "Labels."), ("annotations", "{string}", "Annotations.")],
    },
    Type {
        name: "IgnoreDifference",
        fields: &[
            ("group", "string", "Glob of the API group; empty is the core group."),
            ("kind*", "string", "Glob of the kind."),
            ("name", "string", "Name; empty means any."),
            ("namespace", "string", "Namespace; empty means any."),
            ("jsonPointers", "[string]", "JSON pointers of the fields."),
            ("jqPathExpressions", "[string]", "jq paths of the fields."),
            ("managedFieldsManagers", "[string]", "Field managers whose fields are meant."),
        ],
    },
    Type { name: "Info", fields: &[("name*", "string", "Name."), ("value*", "string", "Text or URL.")] },
    Type {
        name: "Operation",
        fields: &[
            ("sync", "SyncOperation", "The sync to run."),
            ("initiatedBy", "OperationInitiator", "Who asked."),
            ("info", "[Info]", "Notes."),
            ("retry", "RetryStrategy", "What to do when it fails."),
        ],
    },
    Type {
        name: "OperationInitiator",
        fields: &[
            ("username", "string", "Name of the user."),
            ("automated", "boolean", "Whether a controller asked."),
        ],
    },
    Type {
        name: "SyncOperation",
        fields: &[
            ("revision", "string", "Revision to sync to."),
            ("revisions", "[string]", "Revisions to sync to, one per source."),
            ("source", "Source", "Source instead of the one in the spec."),
            ("sources", "[Source]", "Sources instead of those in the spec."),
            ("prune", "boolean", "Whether objects that left the source are deleted."),
            ("dryRun", "boolean", "Whether nothing is changed."),
            ("syncStrategy", "SyncStrategy", "With hooks or without."),
            ("resources", "[SyncResource]", "Objects of a partial sync; empty means all."),
            ("manifests", "[string]", "Manifests to use instead of the source."),
            ("syncOptions", "[string]", "Options such as CreateNamespace=true."),
            ("autoHealAttemptsCount", "int", "Self-heals so far."),
        ],
    },
    Type {
        name: "SyncStrategy",
        fields: &[
            ("apply", "StrategyForce", "Apply without hooks."),
            ("hook", "StrategyForce", "Apply with hooks."),
        ],
    },
    Type {
        name: "StrategyForce",
        fields: &[(
            "force",
            "boolean",
            "Whether an object that cannot be changed is deleted and created again.",
        )],
    },
    Type {
        name: "SyncResource",
        fields: &[
            ("group", "string", "API group."),
            ("kind*", "string", "Kind."),
            ("name*", "string", "Name."),
            ("namespace", "string", "Namespace."),
        ],
    },
    Type {
        name: "ApplicationStatus",
        fields: &[
            ("sync", "SyncStatus", "Result of the last comparison."),
            ("health", "HealthStatus", "Health of all objects together."),
            ("resources", "[ResourceStatus]", "State of each object."),
            ("resourceHealthSource", "string", "Where the health of objects is kept; empty means here."),
            ("conditions", "[ApplicationCondition]", "Problems and warnings."),
            ("reconciledAt", "time", "Last full comparison."),
            ("observedAt", "time", "Not written any more."),
            ("operationState", "OperationState", "The running or last operation."),
            ("history", "[HistoryEntry]", "Deployments, oldest first."),
            ("sourceType", "string", "What renders the source."),
            ("sourceTypes", "[string]", "What renders each source."),
            ("summary", "Summary", "Links and images."),
            ("controllerNamespace", "string", "Namespace of the controller in charge."),
            ("sourceHydrator", "SourceHydratorStatus", "State of the rendering into a branch."),
        ],
    },
    Type {
        name: "SyncStatus",
        fields: &[
            ("status*", "string", "Synced, OutOfSync or Unknown."),
            ("revision", "string", "Revision compared with."),
            ("revisions", "[string]", "Revisions compared with, one per source."),
            ("comparedTo", "ComparedTo", "Spec compared with."),
        ],
    },
    Type {
        name: "ComparedTo",
        fields: &[
            ("source", "Source", "Source."),
            ("sources", "[Source]", "Sources."),
            ("destination*", "Destination", "Destination."),
            ("ignoreDifferences", "[IgnoreDifference]", "Differences that did not count."),
        ],
    },
    Type {
        name: "HealthStatus",
        fields: &[
            ("status", "string", "Healthy, Progressing, Degraded, Suspended, Missing or Unknown."),
            ("message", "string", "Reason."),
            ("lastTransitionTime", "time", "When the status last changed."),
        ],
    },
    Type {
        name: "ResourceStatus",
        fields: &[
            ("group", "string", "API group."),
            ("version", "string", "API version."),
            ("kind", "string", "Kind."),
            ("namespace", "string", "Namespace."),
            ("name", "string", "Name."),
            ("status", "string", "Synced, OutOfSync or Unknown."),
            ("health", "HealthStatus", "Health."),
            ("hook", "boolean", "Whether it is a hook."),
            ("requiresPruning", "boolean", "Whether it left the source."),
            ("syncWave", "int", "Sync wave."),
            ("requiresDeletionConfirmation", "boolean", "Whether a deletion must be confirmed."),
        ],
    },
    Type {
        name: "ApplicationCondition",
        fields: &[
            ("type*", "string", "Type; one that ends with Error is an error."),
            ("message*", "string", "Text for people."),
            ("lastTransitionTime", "time", "When it appeared."),
        ],
    },
    Type {
        name: "OperationState",
        fields: &[
            ("operation*", "Operation", "The operation."),
            ("phase*", "string", "Running, Terminating, Succeeded, Failed or Error."),
            ("message", "string", "Text for people."),
            ("startedAt*", "time", "Start."),
            ("finishedAt", "time", "End."),
            ("retryCount", "int", "Retries so far."),
            ("syncResult", "SyncResult", "Results of the sync."),
        ],
    },
    Type {
        name: "SyncResult",
        fields: &[
            ("revision*", "string", "Revision synced to."),
            ("revisions", "[string]", "Revisions synced to, one per source."),
            ("source", "Source", "Source."),
            ("sources", "[Source]", "Sources."),
            ("managedNamespaceMetadata", "NamespaceMetadata", "Metadata of the namespace."),
            ("resources", "[ResourceResult]", "Result of each object."),
        ],
    },
    Type {
        name: "ResourceResult",
        fields: &[
            ("group*", "string", "API group."),
            ("version*", "string", "API version."),
            ("kind*", "string", "Kind."),
            ("namespace*", "string", "Namespace."),
            ("name*", "string", "Name."),
            ("status", "string", "Synced, SyncFailed, Pruned or PruneSkipped."),
            ("message", "string", "Text for people."),
            ("hookType", "string", "Phase the hook belongs to."),
            ("hookPhase", "string", "State of the task."),
            ("syncPhase", "string", "Phase of the sync."),
            ("images", "[string]", "Container images."),
        ],
    },
    Type {
        name: "HistoryEntry",
        fields: &[
            ("id*", "int", "Number."),
            ("revision", "string", "Revision."),
            ("revisions", "[string]", "Revisions, one per source."),
            ("source", "Source", "Source."),
            ("sources", "[Source]", "Sources."),
            ("deployedAt*", "time", "End."),
            ("deployStartedAt", "time", "Start."),
            ("initiatedBy", "OperationInitiator", "Who asked."),
        ],
    },
    Type {
        name: "Summary",
        fields: &[
            ("externalURLs", "[string]", "Links to what is deployed."),
            ("images", "[string]", "Container images."),
            ("isAppOfApps", "boolean", "Whether Applications are among the objects."),
        ],
    },
    Type {
        name: "SourceHydratorStatus",
        fields: &[
            ("currentOperation", "HydrateOperation", "The running or last rendering."),
            ("lastSuccessfulOperation", "HydratedOperation", "The last rendering that succeeded."),
            ("lastComparedDryRevision", "string", "Newest revision known not to need a rendering."),
        ],
    },
    Type {
        name: "HydrateOperation",
        fields: &[
            ("startedAt", "time", "Start."),
            ("finishedAt", "time", "End."),
            ("phase*", "string enum=Hydrating|Failed|Hydrated", "State."),
            ("message*", "string", "Text for people."),
            ("drySHA", "string", "Commit rendered from."),
            ("hydratedSHA", "string", "Commit rendered to."),
            ("sourceHydrator", "SourceHydrator", "Settings of the rendering."),
        ],
    },
    Type {
        name: "HydratedOperation",
        fields: &[
            ("drySHA", "string", "Commit rendered from."),
            ("hydratedSHA", "string", "Commit rendered to."),
            ("sourceHydrator", "SourceHydrator", "Settings of the rendering."),
        ],
    },
];
