//! What templates get: `.Values`, `.Chart`, `.Release` and so on (RND-177..179).

mod capabilities;
mod chart;
mod files;
mod values;

use tiphys_go::template::{Map, MapType, Text, Value};

pub(crate) use capabilities::capabilities;
pub(crate) use values::values_type;

use crate::HelmVersion;
use crate::chart::ChartType;
use crate::dependencies::Part;
use crate::values::table;

/// A template of a chart in a rendering, with its dot.
pub(crate) struct Renderable {
    /// Path, beginning with the name of the root chart.
    pub(crate) path: String,
    /// Directory of the templates of its chart.
    pub(crate) base: String,
    /// The objects of its chart; `.Template` is set before it is executed.
    pub(crate) dot: Map,
}

/// What is the same for all charts of a rendering.
pub(crate) struct Shared {
    pub(crate) version: HelmVersion,
    pub(crate) release: Value,
    pub(crate) capabilities: Value,
}

/// `.Release`: always the first revision of an install (RND-93).
pub(crate) fn release(name: &str, namespace: &str) -> Value {
    let members: [(&str, Value); 6] = [
        ("Name", name.into()),
        ("Namespace", namespace.into()),
        ("IsUpgrade", false.into()),
        ("IsInstall", true.into()),
        ("Revision", Value::int(1)),
        ("Service", "Helm".into()),
    ];
    members.into_iter().collect::<Map>().into()
}

/// A chart with its objects, for those who look for its templates.
pub(crate) struct Visited<'p> {
    pub(crate) part: &'p Part,
    pub(crate) path: String,
    pub(crate) dot: Map,
}

/// Makes the objects of all charts, each before those above it.
pub(crate) fn objects<'p>(root: &'p Part, values: &Map, shared: &Shared) -> Vec<Visited<'p>> {
    let mut visited = Vec::new();
    let values = values.retyped(values_type(shared.version));
    visit(root, root.name.clone(), true, &values, shared, &mut visited);
    visited
}

fn visit<'p>(
    part: &'p Part,
    path: String,
    is_root: bool,
    values: &Map,
    shared: &Shared,
    visited: &mut Vec<Visited<'p>>,
) -> Map {
    let below = Map::new();
    let members: [(&str, Value); 6] = [
        ("Chart", chart::chart(part, is_root, shared.version)),
        ("Files", files::files(&part.chart)),
        ("Release", shared.release.clone()),
        ("Capabilities", shared.capabilities.clone()),
        ("Values", values.clone().into()),
        ("Subcharts", below.clone().into()),
    ];
    let dot: Map = members.into_iter().collect();
    for child in &part.children {
        // A name with dots is a path of tables here, as in Helm.
        let own = table(&values.retyped(&MapType::ANY), &child.name);
        let own = own.unwrap_or_default().retyped(values_type(shared.version));
        let path = format!("{path}/charts/{}", child.name);
        let inner = visit(child, path, false, &own, shared, visited);
        below.set(Text::from(child.name.as_str()), inner.into());
    }
    visited.push(Visited { part, path, dot: dot.clone() });
    dot
}

/// Whether a chart contributes a template, or only partials (RND-201).
pub(crate) fn takes_part(chart_type: ChartType, name: &str) -> bool {
    chart_type == ChartType::Application || is_partial(name)
}

/// Whether a file is never rendered by itself.
pub(crate) fn is_partial(path: &str) -> bool {
    path.rsplit_once('/').map_or(path, |(_, name)| name).starts_with('_')
}
