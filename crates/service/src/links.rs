//! Links that operators put beside applications, projects and resources (API-186..188).

use serde_json::{Map, Value};
use tiphys_go::expr::{self, Environment, Program, Run};
use tiphys_go::template::{Engine, FunctionSet, Integers, Limits, Still, Templates, Value as TemplateValue};
use tiphys_go::yaml::{self, Dialect};

/// Name of the template, as errors have it.
const NAME: &str = "deep-link";
/// Bounds of one address.
const LIMITS: Limits = Limits {
    steps: 1_000_000,
    made_bytes: 16 << 20,
    live_bytes: 16 << 20,
    text_bytes: 64 << 10,
    nesting: 200,
};
/// Links that one setting may have.
const LINKS_MAX: usize = 100;

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it is called.
    pub title: String,
    /// Where it goes.
    pub url: String,
    /// What it is for.
    pub description: Option<String>,
    /// Class of an icon.
    pub icon_class: Option<String>,
}

/// The links of a setting, and why others are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// In the order of the setting.
    pub shown: Vec<Link>,
    /// One sentence for each that fails.
    pub hidden: Vec<String>,
}

/// Evaluates a setting (`application.links` and its like) with what its links may know by name.
///
/// A link whose condition fails or is no boolean, or whose address cannot be made, is hidden; the others are shown.
///
/// # Errors
/// When the setting is no list of links.
pub fn links(setting: &str, known: &Value, now: jiff::Timestamp) -> Result<Links, String> {
    let value =
        yaml::parse(setting, Dialect::Sigs, &yaml::Limits::default()).map_err(|error| error.to_string())?;
    let items = match value {
        None | Some(Value::Null) => return Ok(Links::default()),
        Some(Value::Array(items)) if items.len() <= LINKS_MAX => items,
        Some(Value::Array(items)) => return Err(format!("{} links are more than {LINKS_MAX}", items.len())),
        Some(_) => return Err("it is no list of links".to_owned()),
    };
    let environment = expr::Value::from_object(known).and_then(Environment::of);
    let around = Around {
        environment: environment.map_err(|error| error.to_string())?,
        variables: TemplateValue::from_json_with(known, Integers::Kept),
        functions: FunctionSet::isolated(),
        now,
    };
    let mut links = Links::default();
    for item in &items {
        let Some(members) = item.as_object() else {
            return Err("a link is a map with title and url".to_owned());
        };
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let title = text("title").unwrap_or_default();
        match link(members, &around) {
            Ok(Some(url)) => links.shown.push(Link {
                title,
                url,
                description: text("description"),
                icon_class: text("icon.class"),
            }),
            Ok(None) => {}
            Err(error) => links.hidden.push(format!("link {title:?}: {error}")),
        }
    }
    Ok(links)
}

/// What all links of a setting are evaluated with.
struct Around {
    environment: Environment,
    variables: TemplateValue,
    functions: FunctionSet,
    now: jiff::Timestamp,
}

/// The address of a link; none where its condition is false.
fn link(members: &Map<String, Value>, around: &Around) -> Result<Option<String>, String> {
    let condition = match members.get("if") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Bool(truth)) => Some(truth.to_string()),
        Some(_) => return Err("if is no expression".to_owned()),
    };
    if let Some(condition) = condition.filter(|text| !text.is_empty()) {
        let program = Program::unchecked(&condition).map_err(|error| error.to_string())?;
        let value =
            program.run(&around.environment, &Run::at(around.now)).map_err(|error| error.to_string())?;
        match value.as_bool() {
            Some(true) => {}
            Some(false) => return Ok(None),
            None => return Err(format!("{condition} is no boolean")),
        }
    }
    let url = members.get("url").and_then(Value::as_str).ok_or("it has no url")?;
    let mut templates = Templates::new(NAME, around.functions.clone());
    templates.parse(NAME, url.as_bytes().to_vec()).map_err(|error| error.to_string())?;
    let made = Engine::new(&templates, &Still(around.now), LIMITS).execute(NAME, &around.variables);
    let made = made.map_err(|error| error.to_string())?;
    Ok(Some(String::from_utf8_lossy(&made).into_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(setting: &str) -> Links {
        let app = json!({"metadata": {"name": "web", "labels": {"team": "shop"}}});
        links(setting, &json!({"app": app, "application": app}), jiff::Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn api_186_conditions_choose_and_addresses_are_templates() {
        let links = of(
            "- {title: A, url: 'https://x/{{.app.metadata.name | upper}}', icon.class: fa-book, description: D}\n\
                        - {title: B, url: u, if: app.metadata.labels.team == 'ops'}\n\
                        - {title: C, url: '{{.app.nothing}}', if: \"app.metadata.labels.team in ['shop']\"}\n",
        );
        let first = Link {
            title: "A".to_owned(),
            url: "https://x/WEB".to_owned(),
            description: Some("D".to_owned()),
            icon_class: Some("fa-book".to_owned()),
        };
        assert_eq!(links.shown[0], first);
        assert_eq!((links.shown[1].title.as_str(), links.shown[1].url.as_str()), ("C", "<no value>"));
        assert_eq!((links.shown.len(), links.hidden.len()), (2, 0));
    }

    /// API-186, API-188: what fails hides its own link.
    #[test]
    fn api_188_what_fails_is_hidden_and_said() {
        let links = of("- {title: A, url: u, if: metadata.name == 'web'}\n- {title: B, url: u, if: '1'}\n\
                        - {title: C, url: '{{ env \"HOME\" }}'}\n- {title: D}\n- {title: E, url: e}\n");
        assert_eq!(links.shown.iter().map(|link| link.title.as_str()).collect::<Vec<_>>(), ["E"]);
        assert_eq!(links.hidden.len(), 4, "{:?}", links.hidden);
        assert!(super::links("a: b", &json!({}), jiff::Timestamp::UNIX_EPOCH).is_err());
    }
}
