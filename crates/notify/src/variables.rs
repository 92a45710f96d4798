//! What expressions and templates know by name (NTF-120..125).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tiphys_go::expr::{self, Call, CallError, Environment, Fault};
use tiphys_go::template::{Integers, Map, Value as TemplateValue, query_escape};

/// The values of one look at one application.
#[derive(Clone, Debug)]
pub struct Variables<'a> {
    /// The Application as it is stored.
    pub application: &'a Value,
    /// Its project; an empty map when it cannot be read.
    pub project: Option<&'a Value>,
    /// Variables of the operator's.
    pub context: &'a BTreeMap<String, String>,
    /// Data of the Secret; none where namespaces have configurations of their own (NTF-802).
    pub secrets: Option<&'a BTreeMap<String, String>>,
}

impl Variables<'_> {
    fn project(&self) -> Value {
        self.project.cloned().unwrap_or_else(|| json!({}))
    }

    /// For conditions.
    ///
    /// # Errors
    /// When a value is nested too deeply.
    pub fn environment(&self) -> Result<Environment, Fault> {
        let mut environment = Environment::new()
            .with("app", expr::Value::from_object(self.application)?)?
            .with("appProject", expr::Value::from_object(&self.project())?)?
            .with("context", expr::Value::from_object(&json!(self.context))?)?
            .with("time", expr::time()?)?
            .with("strings", expr::strings()?)?
            .with("repo", repo()?)?
            .with("sync", expr::Value::namespace([("GetInfoItem", expr::Value::function(info_item))])?)?;
        if let Some(secrets) = self.secrets {
            let bytes = |text: &String| expr::Value::Bytes(text.as_str().into());
            let members = secrets.iter().map(|(name, value)| (name.as_str(), bytes(value)));
            environment = environment.with("secrets", expr::Value::namespace(members)?)?;
        }
        Ok(environment)
    }

    /// For the templates of one delivery.
    #[must_use]
    pub fn of_delivery(&self, service: &str, recipient: &str) -> TemplateValue {
        let mut context = self.context.clone();
        context.insert("notificationType".to_owned(), service.to_owned());
        let members = json!({"app": self.application, "appProject": self.project(), "context": context,
            "serviceType": service, "recipient": recipient});
        let variables = TemplateValue::from_json_with(&members, Integers::Kept);
        if let (Some(secrets), Some(map)) = (self.secrets, variables.as_map()) {
            let of = Map::new();
            for (name, value) in secrets {
                of.set(name.as_str().into(), TemplateValue::Bytes(Some(value.as_bytes().into())));
            }
            map.set("secrets".into(), of.into());
        }
        variables
    }
}

/// `repo`: what is done to URLs. What asks a repository ends in an error here (NTF-123).
fn repo() -> Result<expr::Value, Fault> {
    let missing = |_: &mut Call<'_>| -> Result<expr::Value, CallError> {
        Err(CallError::new("the repository cannot be asked here"))
    };
    expr::Value::namespace([
        ("RepoURLToHTTPS", expr::Value::function(|call: &mut Call<'_>| url_function(call, to_https))),
        ("FullNameByRepoURL", expr::Value::function(|call: &mut Call<'_>| url_function(call, full_name))),
        (
            "QueryEscape",
            expr::Value::function(|call: &mut Call<'_>| url_function(call, |text| Ok(query_escaped(text)))),
        ),
        ("GetCommitMetadata", expr::Value::function(missing)),
        ("GetAppDetails", expr::Value::function(missing)),
    ])
}

fn url_function(
    call: &mut Call<'_>,
    run: fn(&str) -> Result<String, String>,
) -> Result<expr::Value, CallError> {
    call.takes(1)?;
    run(&call.text(0)?).map(Into::into).map_err(CallError::new)
}

/// Host with port, and path, of a URL or of the form that ssh has.
fn parts(url: &str) -> Result<(&str, &str), String> {
    let broken = || format!("{url} is no URL of a repository");
    let (host, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        None => url.split_once(':').ok_or_else(broken)?,
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if host.is_empty() { Err(broken()) } else { Ok((host, path.trim_start_matches('/'))) }
}

fn to_https(url: &str) -> Result<String, String> {
    parts(url).map(|(host, path)| format!("https://{host}/{path}"))
}

fn full_name(url: &str) -> Result<String, String> {
    let (_, path) = parts(url)?;
    let mut segments = path.strip_suffix(".git").unwrap_or(path).split('/').filter(|part| !part.is_empty());
    match (segments.next(), segments.next()) {
        (Some(owner), Some(name)) => Ok(format!("{owner}/{name}")),
        (Some(one), None) => Ok(one.to_owned()),
        _ => Err(format!("{url} has no path")),
    }
}

fn query_escaped(text: &str) -> String {
    String::from_utf8_lossy(&query_escape(text.as_bytes())).into_owned()
}

/// `sync.GetInfoItem(app, name)` (NTF-125).
fn info_item(call: &mut Call<'_>) -> Result<expr::Value, CallError> {
    call.takes(2)?;
    let name = call.text(1)?;
    let app = call.arguments().first().map(|app| app.to_json(&mut expr::Budget::default())).transpose();
    let app = app.map_err(|fault| CallError::new(fault.to_string()))?.unwrap_or(Value::Null);
    let items = [app.pointer("/operation/info"), app.pointer("/status/operationState/operation/info")];
    let items = items.into_iter().flatten().find_map(Value::as_array);
    let found = items.into_iter().flatten().find(|item| item["name"] == name.as_str());
    let value = found.and_then(|item| item["value"].as_str()).unwrap_or_default();
    Ok(value.to_owned().into())
}

#[cfg(test)]
mod tests {
    use tiphys_go::expr::{Program, Run};

    use super::*;

    fn shown(text: &str) -> String {
        let application = json!({"operation": {"info": [{"name": "why", "value": "because"}]}});
        let (context, secrets) = (BTreeMap::new(), BTreeMap::from([("k".to_owned(), "v".to_owned())]));
        let variables = Variables {
            application: &application,
            project: None,
            context: &context,
            secrets: Some(&secrets),
        };
        let program = Program::new(text).unwrap();
        match program.run(&variables.environment().unwrap(), &Run::default()) {
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn ntf_123_urls_of_repositories() {
        assert_eq!(shown("repo.RepoURLToHTTPS('git@h:o/r.git')"), "https://h/o/r.git");
        assert_eq!(shown("repo.RepoURLToHTTPS('ssh://git@h:22/o/r')"), "https://h:22/o/r");
        assert_eq!(shown("repo.FullNameByRepoURL('https://u:p@h/o/r.git')"), "o/r");
        assert_eq!(shown("repo.QueryEscape('a b&c')"), "a+b%26c");
        assert!(shown("repo.GetCommitMetadata('x')").starts_with("error: "));
    }

    #[test]
    fn ntf_120_variables_of_conditions() {
        assert_eq!(shown("sync.GetInfoItem(app, 'why')"), "because");
        assert_eq!(shown("len(appProject)"), "0");
        assert_eq!(shown("len(secrets.k) == 1"), "true");
    }
}
