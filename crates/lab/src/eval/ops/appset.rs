//! `appset.*`: what a set generates, does in one pass, rolls out and deletes, and what the API answers (ASET).

mod api;
mod deletion;
mod described;
mod environment;
mod plugin;
mod reconcile;
mod rollout;

use super::render::REPO_MEMBERS;
use super::world::{CLUSTERS, CONTROL_PLANE, NOW, PARAMS, PROJECTS, REPOSITORIES, SETTINGS};
use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Shape, default, optional, required};
pub(in crate::eval) use described::describe;
use environment::Environment;
use serde_json::{Value, json};
use tiphys_appset::generate::{Failure, Stop, generate, parameters, requeue_after};
use tiphys_appset::params;
use tiphys_appset::status::Evaluated;

const SET: Member = required("applicationSet", Shape::Map);
const REPOS: Member = default("repos", Shape::List(&Shape::Members(REPO_MEMBERS)), "[]");
const CONFIG_MAPS: Member = default("configMaps", Shape::MapOf(&Shape::TextMap), "{}");
const SECRETS: Member = default("secrets", Shape::MapOf(&Shape::TextMap), "{}");
const DEFAULT_PROJECT: Member = default("defaultProject", Shape::Bool, "true");
const PLUGIN_ANSWER: &[Member] =
    &[optional("match", Shape::Map), default("status", Shape::Integer, "200"), optional("body", Shape::Any)];
const PLUGINS: Member = default("plugins", Shape::MapOf(&Shape::List(&Shape::Members(PLUGIN_ANSWER))), "{}");
const GENERATOR_DATA: Member = default("generatorData", Shape::MapOf(&Shape::List(&Shape::Map)), "{}");
const STRATEGY: Member = required("strategy", Shape::Map);

const CONDITIONS: Member = required("conditions", Shape::Map);
const NAMES: Shape = Shape::List(&Shape::Text);
const EVENTS: Member = required(
    "events",
    Shape::List(&Shape::Members(&[
        required("type", Shape::Text),
        required("reason", Shape::Text),
        required("message", Shape::Text),
    ])),
);

/// The example of a list generator with one element.
const SIMPLE: &str = r#"{"applicationSet":{"metadata":{"name":"s"},"spec":{"generators":[{"list":{"elements":[{"n":"a"}]}}],"template":{"metadata":{"name":"{{n}}-ui"},"spec":{"project":"default","source":{"repoURL":"https://git.acme.test/ui","path":"."},"destination":{"name":"in-cluster","namespace":"ui"}}}}}}"#;

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[
    Operation {
        name: "appset.deletion",
        summary: "In which order the applications of a deleted set go, pass by pass.",
        stability: Stability::Stable,
        spec: &["EVAL-504", "ASET-241", "ASET-244", "ASET-245", "ASET-247"],
        input: &[
            STRATEGY,
            required(
                "applications",
                Shape::List(&Shape::Members(&[
                    required("name", Shape::Text),
                    default("labels", Shape::TextMap, "{}"),
                ])),
            ),
            default("policy", Shape::Text, "\"sync\""),
            default("finalizers", Shape::List(&Shape::Text), r#"["resources-finalizer.argocd.argoproj.io"]"#),
            PARAMS,
            required("passes", Shape::List(&Shape::Members(deletion::PASS))),
        ],
        result: &[required(
            "passes",
            Shape::List(&Shape::Members(&[
                required("deleted", NAMES),
                required("outcome", Shape::Text),
                required("ownerReferencesRemoved", NAMES),
                required("written", NAMES),
                CONDITIONS,
                EVENTS,
            ])),
        )],
        example: (
            r#"{"strategy":{},"applications":[{"name":"ui"}],"passes":[{"at":0}]}"#,
            r#"{"passes":[{"deleted":[],"outcome":"released","ownerReferencesRemoved":[],"written":[],"conditions":{},"events":[]}]}"#,
        ),
        run: deletion::run,
    },
    Operation {
        name: "appset.generate",
        summary: "The applications that a set generates.",
        stability: Stability::Stable,
        spec: &["EVAL-501", "ASET-10", "ASET-27", "ASET-100", "ASET-302", "ASET-304"],
        input: &[
            SET,
            default("outputParameters", Shape::Bool, "false"),
            CLUSTERS,
            PROJECTS,
            DEFAULT_PROJECT,
            REPOS,
            REPOSITORIES,
            CONFIG_MAPS,
            SECRETS,
            PLUGINS,
            GENERATOR_DATA,
            SETTINGS,
            PARAMS,
            CONTROL_PLANE,
            NOW,
        ],
        result: &[
            required("applications", Shape::List(&Shape::Map)),
            optional("parameters", Shape::List(&Shape::Map)),
            required("requeueAfterSeconds", Shape::OrNull(&Shape::Integer)),
            required("warnings", NAMES),
        ],
        example: (
            SIMPLE,
            r#"{"applications":[{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"a-ui","namespace":"argocd","finalizers":["resources-finalizer.argocd.argoproj.io"]},"spec":{"project":"default","source":{"repoURL":"https://git.acme.test/ui","path":"."},"destination":{"name":"in-cluster","namespace":"ui"}}}],"requeueAfterSeconds":null,"warnings":[]}"#,
        ),
        run: run_generate,
    },
    Operation {
        name: "appset.permission",
        summary: "Whether the caller may do something with a set.",
        stability: Stability::Stable,
        spec: &["EVAL-506", "ASET-279", "ASET-281", "ASET-300", "ASET-301"],
        input: &[
            required("request", Shape::Members(&[required("verb", Shape::Text)])),
            optional("applicationSet", Shape::Map),
            default("existing", Shape::OrNull(&Shape::Map), "null"),
            default("rbac", Shape::TextMap, "{}"),
            required("claims", Shape::OrNull(&Shape::Map)),
            PROJECTS,
            DEFAULT_PROJECT,
            CLUSTERS,
            REPOSITORIES,
            SETTINGS,
            PARAMS,
            CONTROL_PLANE,
        ],
        result: &[
            required("allowed", Shape::Bool),
            required("code", Shape::OrNull(&Shape::Text)),
            required("message", Shape::OrNull(&Shape::Text)),
        ],
        example: (
            r#"{"rbac":{"policy.csv":"p, kim, applicationsets, create, shop/*, allow"},"claims":{"sub":"kim"},"projects":[{"metadata":{"name":"shop"}}],"request":{"verb":"create"},"applicationSet":{"metadata":{"name":"s"},"spec":{"generators":[{"list":{}}],"template":{"metadata":{"name":"x"},"spec":{"project":"shop"}}}}}"#,
            r#"{"allowed":true,"code":null,"message":null}"#,
        ),
        run: api::permission,
    },
    Operation {
        name: "appset.reconcile",
        summary: "What one pass of the controller over a living set does.",
        stability: Stability::Stable,
        spec: &["EVAL-502", "ASET-10", "ASET-13", "ASET-130", "ASET-142", "ASET-151", "ASET-277"],
        input: &[
            SET,
            default("liveApplications", Shape::List(&Shape::Map), "[]"),
            CLUSTERS,
            PROJECTS,
            DEFAULT_PROJECT,
            REPOS,
            REPOSITORIES,
            CONFIG_MAPS,
            SECRETS,
            PLUGINS,
            GENERATOR_DATA,
            SETTINGS,
            PARAMS,
            CONTROL_PLANE,
            NOW,
        ],
        result: &[
            CONDITIONS,
            required("created", NAMES),
            required("updated", NAMES),
            required("deleted", NAMES),
            required("unchanged", NAMES),
            required("applications", Shape::MapOf(&Shape::Map)),
            required("finalizerRemovedBeforeDelete", NAMES),
            required("finalizerAdded", Shape::Bool),
            EVENTS,
            required("requeueAfterSeconds", Shape::OrNull(&Shape::Integer)),
        ],
        example: (
            r#"{"applicationSet":{"metadata":{"name":"s","uid":"u"},"spec":{"generators":[{"list":{"elements":[]}}],"template":{"metadata":{"name":"{{n}}-ui"},"spec":{"project":"default","destination":{"name":"in-cluster"}}}}},"liveApplications":[{"metadata":{"name":"old-ui","ownerReferences":[{"apiVersion":"argoproj.io/v1alpha1","kind":"ApplicationSet","name":"s","uid":"u","controller":true}]},"spec":{"project":"default","destination":{"name":"in-cluster"}}}]}"#,
            r#"{"conditions":{"ErrorOccurred":{"status":"False","reason":"ApplicationSetUpToDate","message":"All applications have been generated successfully"},"ParametersGenerated":{"status":"True","reason":"ParametersGenerated","message":"Successfully generated parameters for all Applications"},"ResourcesUpToDate":{"status":"True","reason":"ApplicationSetUpToDate","message":"All applications have been generated successfully"}},"created":[],"updated":[],"deleted":["old-ui"],"unchanged":[],"applications":{},"finalizerRemovedBeforeDelete":[],"finalizerAdded":false,"events":[{"type":"Normal","reason":"Deleted","message":"Deleted Application \"old-ui\""}],"requeueAfterSeconds":null}"#,
        ),
        run: reconcile::run,
    },
    Operation {
        name: "appset.rollout",
        summary: "How a roll-out goes from step to step, pass by pass.",
        stability: Stability::Stable,
        spec: &["EVAL-503", "ASET-205", "ASET-210", "ASET-211", "ASET-230"],
        input: &[
            STRATEGY,
            required("desired", Shape::List(&Shape::Members(rollout::DESIRED))),
            default("applicationStatus", Shape::List(&Shape::Map), "[]"),
            PARAMS,
            required("passes", Shape::List(&Shape::Members(rollout::PASS))),
        ],
        result: &[required(
            "passes",
            Shape::List(&Shape::Members(&[
                required("applicationStatus", Shape::Map),
                required("promoted", NAMES),
                required("operations", NAMES),
                required("progressingStep", Shape::OrNull(&Shape::Integer)),
                CONDITIONS,
            ])),
        )],
        example: (
            r#"{"strategy":{"type":"RollingSync","rollingSync":{"steps":[{}]}},"desired":[{"name":"ui"}],"passes":[{"at":0,"observe":{"ui":{"sync":"OutOfSync"}}}]}"#,
            r#"{"passes":[{"applicationStatus":{"ui":{"status":"Pending","step":"1","message":"Application moved to Pending status, watching for the Application resource to start Progressing","targetRevisions":[]}},"promoted":["ui"],"operations":["ui"],"progressingStep":1,"conditions":{"ErrorOccurred":{"status":"False","reason":"ApplicationSetUpToDate","message":"All applications have been generated successfully"},"InvalidRolloutConfig":{"status":"False","reason":"ApplicationSetValidRolloutConfig","message":"Rolling Sync Configured correctly"},"RolloutProgressing":{"status":"True","reason":"ApplicationSetModified","message":"ApplicationSet is performing rollout of step 1"}}}]}"#,
        ),
        run: rollout::run,
    },
    Operation {
        name: "appset.validate",
        summary: "What the API would answer to a new set, rights aside.",
        stability: Stability::Stable,
        spec: &["EVAL-505", "ASET-253", "ASET-280", "ASET-300"],
        input: &[SET, PROJECTS, DEFAULT_PROJECT, CLUSTERS, REPOSITORIES, SETTINGS, PARAMS, CONTROL_PLANE],
        result: &[
            required("valid", Shape::Bool),
            required("code", Shape::OrNull(&Shape::Text)),
            required("message", Shape::OrNull(&Shape::Text)),
        ],
        example: (
            r#"{"projects":[{"metadata":{"name":"shop"}}],"applicationSet":{"metadata":{"name":"s"},"spec":{"generators":[{"list":{}}],"template":{"metadata":{"name":"x"},"spec":{"project":"shop"}}}}}"#,
            r#"{"valid":true,"code":null,"message":null}"#,
        ),
        run: api::validate,
    },
];

/// A condition without its time.
fn condition(status: bool, reason: &str, message: &str) -> Value {
    json!({"status": if status { "True" } else { "False" }, "reason": reason, "message": message})
}

/// Conditions by type.
fn conditions_of(evaluated: &[Evaluated]) -> Value {
    let one = |new: &Evaluated| {
        (new.kind.as_str().to_owned(), condition(new.holds, new.reason.as_str(), &new.message))
    };
    Value::Object(evaluated.iter().map(one).collect())
}

/// Events as Kubernetes types them.
fn events_of(events: &[tiphys_appset::events::Event]) -> Value {
    let one = |event: &tiphys_appset::events::Event| json!({"type": event.kind(), "reason": event.reason, "message": event.message});
    Value::Array(events.iter().map(one).collect())
}

/// A generation that failed, with the condition's reason (EVAL-501).
fn fault_of(failure: &Failure) -> Fault {
    Fault::new(Code::Unknown, failure.message.clone()).with_reason(failure.reason.as_str())
}

fn run_generate(input: &mut Input) -> Result<Value, Fault> {
    let environment = Environment::read(input)?;
    environment.with_request(|request| {
        let requeue = requeue_after(request).map(|after| after.as_secs());
        let wanted = input.flag("outputParameters");
        let sets = if wanted { Some(environment.answer(parameters(request, &environment))?) } else { None };
        let generated = match environment.answer(generate(request, &environment)) {
            Ok(generated) => generated,
            // Parameters are there although the template is broken (ASET-304).
            Err(fault) if wanted => {
                let mut nothing = tiphys_appset::generate::Generated::default();
                nothing.warnings.push(fault.message);
                nothing
            }
            Err(fault) => return Err(fault),
        };
        let applications: Vec<Value> = generated.applications.iter().map(reconcile::manifest).collect();
        let mut answer = json!({
            "applications": applications,
            "requeueAfterSeconds": requeue,
            "warnings": generated.warnings,
        });
        if let (Some(sets), Value::Object(members)) = (sets, &mut answer) {
            let sets = sets.into_iter().map(|set| params::for_json(Value::Object(set))).collect();
            members.insert("parameters".to_owned(), Value::Array(sets));
        }
        Ok(answer)
    })
}

/// What stopped a generation, as an error of the operation.
fn stopped(stop: Stop) -> Fault {
    match stop {
        Stop::Failed(failure) => fault_of(&failure),
        // Everything is known here.
        Stop::Pending => Fault::new(Code::Internal, "a question was left open"),
    }
}
