//! Fields of the `ApplicationSet` (ASET-1..4) and of its generators (ASET section 3).

use super::field::{Table, Type};

pub(super) const TYPES: Table = &[
    Type {
        name: "ApplicationSet",
        fields: &[
            ("apiVersion", "string", "Version of the schema of this object."),
            ("kind", "string", "Kind of this object."),
            ("metadata*", "metadata", "Standard metadata."),
            ("spec*", "ApplicationSetSpec", "Which Applications should exist."),
            ("status", "ApplicationSetStatus", "What the controller observed."),
        ],
    },
    Type {
        name: "ApplicationSetSpec",
        fields: &[
            ("project", "string", "Project the set is confined to; unset leaves it unconfined."),
            ("goTemplate", "boolean", "Whether templates are Go templates instead of placeholders."),
            ("goTemplateOptions", "[string]", "Options of the template engine, such as missingkey=error."),
            ("generators*", "[Generator]", "Sources of parameters."),
            ("template*", "ApplicationTemplate", "The Application each set of parameters makes."),
            ("templatePatch", "string", "Patch of the rendered Application, a template of its own."),
            ("syncPolicy", "ApplicationSetSyncPolicy", "What may happen to generated Applications."),
            ("strategy", "ApplicationSetStrategy", "In which order Applications change and go."),
            ("preservedFields", "PreservedFields", "Metadata that keeps its live value."),
            (
                "ignoreApplicationDifferences",
                "[ApplicationIgnoreDifference]",
                "Fields that keep their live value.",
            ),
            (
                "applyNestedSelectors",
                "boolean",
                "Without effect: selectors of nested generators always apply.",
            ),
        ],
    },
    Type {
        name: "ApplicationTemplate",
        fields: &[
            ("metadata*", "TemplateMetadata", "Metadata of the Application."),
            ("spec*", "ApplicationSpec", "Spec of the Application."),
        ],
    },
    Type {
        name: "TemplateMetadata",
        fields: &[
            ("name", "string", "Name."),
            ("namespace", "string", "Without effect: Applications live in the namespace of the set."),
            ("labels", "{string}", "Labels."),
            ("annotations", "{string}", "Annotations."),
            ("finalizers", "[string]", "Finalizers."),
        ],
    },
    Type {
        name: "ApplicationSetSyncPolicy",
        fields: &[
            (
                "preserveResourcesOnDeletion",
                "boolean",
                "Whether deleted Applications leave their resources behind.",
            ),
            (
                "applicationsSync",
                "string enum=create-only|create-update|create-delete|sync",
                "What may happen to generated Applications.",
            ),
        ],
    },
    Type {
        name: "ApplicationSetStrategy",
        fields: &[
            ("type", "string", "AllAtOnce or RollingSync."),
            ("rollingSync", "RolloutSteps", "Steps of a roll-out."),
            ("deletionOrder", "string", "AllAtOnce, Reverse or Custom."),
            ("deletionSync", "RolloutSteps", "Steps of a deletion in order Custom."),
        ],
    },
    Type { name: "RolloutSteps", fields: &[("steps", "[RolloutStep]", "Steps, in order.")] },
    Type {
        name: "RolloutStep",
        fields: &[
            ("matchExpressions", "[RolloutExpression]", "Conditions on labels; all must hold."),
            ("maxUpdate", "int-or-string", "Applications at once, as a number or percentage."),
        ],
    },
    Type {
        name: "RolloutExpression",
        fields: &[
            ("key", "string", "Label."),
            ("operator", "string", "In or NotIn."),
            ("values", "[string]", "Values."),
        ],
    },
    Type {
        name: "PreservedFields",
        fields: &[
            ("annotations", "[string]", "Keys of annotations."),
            ("labels", "[string]", "Keys of labels."),
        ],
    },
    Type {
        name: "ApplicationIgnoreDifference",
        fields: &[
            ("name", "string", "Only the Application of this name."),
            ("jsonPointers", "[string]", "JSON pointers of the fields."),
            ("jqPathExpressions", "[string]", "jq paths of the fields."),
        ],
    },
    Type {
        name: "ApplicationSetStatus",
        fields: &[
            ("conditions", "[ApplicationSetCondition]", "Observations."),
            ("applicationStatus", "[RolloutApplicationStatus]", "State of the roll-out."),
            ("resources", "[ResourceStatus]", "Generated Applications."),
            ("resourcesCount", "int", "Number of generated Applications."),
            ("health", "HealthStatus", "The conditions in one word."),
        ],
    },
    Type {
        name: "ApplicationSetCondition",
        fields: &[
            ("type*", "string", "Type."),
            ("status*", "string", "True, False or Unknown."),
            ("reason*", "string", "Reason, for machines."),
            ("message*", "string", "Text for people."),
            ("lastTransitionTime", "time", "When it last changed."),
        ],
    },
    Type {
        name: "RolloutApplicationStatus",
        fields: &[
            ("application*", "string", "Name of the Application."),
            ("step*", "string", "Step, from 1."),
            ("status*", "string", "Waiting, Pending, Progressing or Healthy."),
            ("message*", "string", "Text for people."),
            ("targetRevisions*", "[string]", "Revisions the state is about."),
            ("lastTransitionTime", "time", "When the status last changed."),
        ],
    },
];

pub(super) const GENERATORS: Table = &[
    Type {
        name: "Generator",
        fields: &[
            ("list", "ListGenerator", "Parameters written here."),
            ("clusters", "ClustersGenerator", "Parameters of registered clusters."),
            ("git", "GitGenerator", "Directories or files of a Git repository."),
            ("scmProvider", "ScmProviderGenerator", "Repositories of an organisation."),
            ("clusterDecisionResource", "DecisionGenerator", "Clusters that another resource chose."),
            ("pullRequest", "PullRequestGenerator", "Open pull requests."),
            ("matrix", "MatrixGenerator", "Each combination of two generators."),
            ("merge", "MergeGenerator", "Parameters of several generators, merged by key."),
            ("plugin", "PluginGenerator", "Parameters that a service returns."),
            ("selector", "LabelSelector", "Keeps only matching sets of parameters."),
        ],
    },
    Type {
        name: "NestedGenerator",
        fields: &[
            ("list", "ListGenerator", "Parameters written here."),
            ("clusters", "ClustersGenerator", "Parameters of registered clusters."),
            ("git", "GitGenerator", "Directories or files of a Git repository."),
            ("scmProvider", "ScmProviderGenerator", "Repositories of an organisation."),
            ("clusterDecisionResource", "DecisionGenerator", "Clusters that another resource chose."),
            ("pullRequest", "PullRequestGenerator", "Open pull requests."),
            ("matrix", "any", "Each combination of two generators; no further nesting inside."),
            ("merge", "any", "Parameters of several generators, merged by key; no further nesting inside."),
            ("plugin", "PluginGenerator", "Parameters that a service returns."),
            ("selector", "LabelSelector", "Keeps only matching sets of parameters."),
        ],
    },
    Type {
        name: "LabelSelector",
        fields: &[
            ("matchLabels", "{string}", "Values that must be equal."),
            ("matchExpressions", "[SelectorExpression]", "Conditions; all must hold."),
        ],
    },
    Type {
        name: "SelectorExpression",
        fields: &[
            ("key*", "string", "Key."),
            ("operator*", "string", "In, NotIn, Exists or DoesNotExist."),
            ("values", "[string]", "Values."),
        ],
    },
    Type {
        name: "ListGenerator",
        fields: &[
            ("elements", "[any]", "One set of parameters each."),
            ("elementsYaml", "string", "Further elements as YAML text."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "ClustersGenerator",
        fields: &[
            ("selector", "LabelSelector", "Labels of the cluster Secrets."),
            ("values", "{string}", "Additional parameters."),
            ("flatList", "boolean", "Whether all clusters become one set of parameters."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "DecisionGenerator",
        fields: &[
            ("configMapRef*", "string", "ConfigMap that describes the resource."),
            ("name", "string", "Name of the resource."),
            ("labelSelector", "LabelSelector", "Labels of the resource."),
            ("requeueAfterSeconds", "int", "How often to look again."),
            ("values", "{string}", "Additional parameters."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "GitGenerator",
        fields: &[
            ("repoURL*", "string", "URL of the repository."),
            ("revision*", "string", "Branch, tag or commit."),
            ("directories", "[GitPath]", "Directories."),
            ("files", "[GitPath]", "Files with parameters."),
            ("pathParamPrefix", "string", "Prefix of the path parameters."),
            ("requeueAfterSeconds", "int", "How often to look again."),
            ("values", "{string}", "Additional parameters."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "GitPath",
        fields: &[
            ("path*", "string", "Pattern of paths."),
            ("exclude", "boolean", "Whether matching paths are left out."),
        ],
    },
    Type {
        name: "PluginGenerator",
        fields: &[
            ("configMapRef*", "PluginConfig", "ConfigMap with the address of the service."),
            ("input", "PluginInput", "What the service gets."),
            ("requeueAfterSeconds", "int", "How often to ask again."),
            ("values", "{string}", "Additional parameters."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type { name: "PluginConfig", fields: &[("name*", "string", "Name of the ConfigMap.")] },
    Type { name: "PluginInput", fields: &[("parameters", "{any}", "Parameters of any shape.")] },
    Type {
        name: "MatrixGenerator",
        fields: &[
            ("generators*", "[NestedGenerator]", "The two generators."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "MergeGenerator",
        fields: &[
            ("generators*", "[NestedGenerator]", "The generators; later ones win."),
            ("mergeKeys*", "[string]", "Parameters that identify a set."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "SecretKey",
        fields: &[
            ("secretName*", "string", "Name of the Secret."),
            ("key*", "string", "Key inside the Secret."),
        ],
    },
    Type {
        name: "ConfigMapKey",
        fields: &[
            ("configMapName*", "string", "Name of the ConfigMap."),
            ("key*", "string", "Key inside the ConfigMap."),
        ],
    },
    Type {
        name: "BasicAuth",
        fields: &[("username*", "string", "User."), ("passwordRef*", "SecretKey", "Password.")],
    },
    Type { name: "BearerToken", fields: &[("tokenRef*", "SecretKey", "Token.")] },
    Type {
        name: "ScmProviderGenerator",
        fields: &[
            ("github", "ScmGithub", "GitHub."),
            ("gitlab", "ScmGitlab", "GitLab."),
            ("gitea", "ScmGitea", "Gitea."),
            ("bitbucketServer", "ScmBitbucketServer", "Bitbucket Server."),
            ("bitbucket", "ScmBitbucket", "Bitbucket Cloud."),
            ("azureDevOps", "ScmAzureDevOps", "Azure DevOps."),
            ("awsCodeCommit", "ScmCodeCommit", "AWS CodeCommit."),
            ("filters", "[ScmFilter]", "Repositories and branches to keep."),
            ("cloneProtocol", "string", "ssh or https."),
            ("requeueAfterSeconds", "int", "How often to look again."),
            ("values", "{string}", "Additional parameters."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "ScmFilter",
        fields: &[
            ("repositoryMatch", "string", "Regular expression of the repository."),
            ("branchMatch", "string", "Regular expression of the branch."),
            ("labelMatch", "string", "Regular expression of a label."),
            ("pathsExist", "[string]", "Paths that must exist."),
            ("pathsDoNotExist", "[string]", "Paths that must not exist."),
        ],
    },
    Type {
        name: "ScmGithub",
        fields: &[
            ("organization*", "string", "Organisation."),
            ("api", "string", "URL of the API."),
            ("tokenRef", "SecretKey", "Token."),
            ("appSecretName", "string", "Secret with a GitHub App."),
            ("allBranches", "boolean", "Whether all branches count."),
            ("excludeArchivedRepos", "boolean", "Whether archived repositories are left out."),
        ],
    },
    Type {
        name: "ScmGitlab",
        fields: &[
            ("group*", "string", "Id or path of the group."),
            ("includeSubgroups", "boolean", "Whether subgroups count."),
            ("includeSharedProjects", "boolean", "Whether shared projects count; true when absent."),
            ("includeArchivedRepos", "boolean", "Whether archived repositories count."),
            ("topic", "string", "Only projects with this topic."),
            ("api", "string", "URL of the API."),
            ("tokenRef", "SecretKey", "Token."),
            ("insecure", "boolean", "Whether the certificate is not verified."),
            ("caRef", "ConfigMapKey", "Certificate authorities."),
            ("allBranches", "boolean", "Whether all branches count."),
        ],
    },
    Type {
        name: "ScmGitea",
        fields: &[
            ("owner*", "string", "Organisation."),
            ("api*", "string", "URL of the API."),
            ("tokenRef", "SecretKey", "Token."),
            ("insecure", "boolean", "Whether the certificate is not verified."),
            ("allBranches", "boolean", "Whether all branches count."),
            ("excludeArchivedRepos", "boolean", "Whether archived repositories are left out."),
        ],
    },
    Type {
        name: "ScmBitbucketServer",
        fields: &[
            ("project*", "string", "Project."),
            ("api*", "string", "URL of the API."),
            ("basicAuth", "BasicAuth", "User and password."),
            ("bearerToken", "BearerToken", "Token; wins over basicAuth."),
            ("insecure", "boolean", "Whether the certificate is not verified."),
            ("caRef", "ConfigMapKey", "Certificate authorities."),
            ("allBranches", "boolean", "Whether all branches count."),
        ],
    },
    Type {
        name: "ScmBitbucket",
        fields: &[
            ("owner*", "string", "Workspace."),
            ("user*", "string", "User."),
            ("appPasswordRef*", "SecretKey", "App password."),
            ("allBranches", "boolean", "Whether all branches count."),
        ],
    },
    Type {
        name: "ScmAzureDevOps",
        fields: &[
            ("organization*", "string", "Organisation."),
            ("teamProject*", "string", "Project."),
            ("accessTokenRef*", "SecretKey", "Token."),
            ("api", "string", "URL of the API."),
            ("allBranches", "boolean", "Whether all branches count."),
        ],
    },
    Type {
        name: "ScmCodeCommit",
        fields: &[
            ("tagFilters", "[CodeCommitTag]", "Tags of the repositories."),
            ("role", "string", "Role to assume."),
            ("region", "string", "Region."),
            ("allBranches", "boolean", "Whether all branches count."),
        ],
    },
    Type {
        name: "CodeCommitTag",
        fields: &[("key*", "string", "Key."), ("value", "string", "Value; any when absent.")],
    },
    Type {
        name: "PullRequestGenerator",
        fields: &[
            ("github", "PullGithub", "GitHub."),
            ("gitlab", "PullGitlab", "GitLab."),
            ("gitea", "PullGitea", "Gitea."),
            ("bitbucketServer", "PullBitbucketServer", "Bitbucket Server."),
            ("bitbucket", "PullBitbucket", "Bitbucket Cloud."),
            ("azuredevops", "PullAzureDevOps", "Azure DevOps."),
            ("filters", "[PullFilter]", "Pull requests to keep."),
            ("continueOnRepoNotFoundError", "boolean", "Whether a missing repository has no pull requests."),
            ("requeueAfterSeconds", "int", "How often to look again."),
            ("values", "{string}", "Additional parameters."),
            ("template", "bare ApplicationTemplate", "Overrides of the template."),
        ],
    },
    Type {
        name: "PullFilter",
        fields: &[
            ("branchMatch", "string", "Regular expression of the branch."),
            ("targetBranchMatch", "string", "Regular expression of the target branch."),
            ("titleMatch", "string", "Regular expression of the title."),
        ],
    },
    Type {
        name: "PullGithub",
        fields: &[
            ("owner*", "string", "Owner."),
            ("repo*", "string", "Repository."),
            ("api", "string", "URL of the API."),
            ("tokenRef", "SecretKey", "Token."),
            ("appSecretName", "string", "Secret with a GitHub App."),
            ("labels", "[string]", "Labels a pull request must have."),
        ],
    },
    Type {
        name: "PullGitlab",
        fields: &[
            ("project*", "string", "Project."),
            ("api", "string", "URL of the API."),
            ("tokenRef", "SecretKey", "Token."),
            ("labels", "[string]", "Labels a merge request must have."),
            ("pullRequestState", "string", "State of merge requests; all when empty."),
            ("insecure", "boolean", "Whether the certificate is not verified."),
            ("caRef", "ConfigMapKey", "Certificate authorities."),
        ],
    },
    Type {
        name: "PullGitea",
        fields: &[
            ("owner*", "string", "Owner."),
            ("repo*", "string", "Repository."),
            ("api*", "string", "URL of the API."),
            ("tokenRef", "SecretKey", "Token."),
            ("insecure", "boolean", "Whether the certificate is not verified."),
            ("labels", "[string]", "Labels a pull request must have."),
        ],
    },
    Type {
        name: "PullBitbucketServer",
        fields: &[
            ("project*", "string", "Project."),
            ("repo*", "string", "Repository."),
            ("api*", "string", "URL of the API."),
            ("basicAuth", "BasicAuth", "User and password."),
            ("bearerToken", "BearerToken", "Token."),
            ("insecure", "boolean", "Whether the certificate is not verified."),
            ("caRef", "ConfigMapKey", "Certificate authorities."),
        ],
    },
    Type {
        name: "PullBitbucket",
        fields: &[
            ("owner*", "string", "Workspace."),
            ("repo*", "string", "Repository."),
            ("api", "string", "URL of the API."),
            ("basicAuth", "BasicAuth", "User and password."),
            ("bearerToken", "BearerToken", "Token."),
        ],
    },
    Type {
        name: "PullAzureDevOps",
        fields: &[
            ("organization*", "string", "Organisation."),
            ("project*", "string", "Project."),
            ("repo*", "string", "Repository."),
            ("api", "string", "URL of the API."),
            ("tokenRef", "SecretKey", "Token."),
            ("labels", "[string]", "Labels a pull request must have."),
        ],
    },
];
