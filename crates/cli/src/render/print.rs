//! Where manifests go: standard output, or one file each (CLI-1030).

use std::path::Path;

use serde_json::Value;
use tiphys_object::access;

use crate::failure::Failure;
use crate::flags::Parsed;
use crate::output::{Format, machine_format, print, unknown_format};
use crate::terminal::Terminal;

/// Prints or writes manifests.
pub(super) fn show(terminal: &Terminal, parsed: &Parsed, objects: &[&Value]) -> Result<(), Failure> {
    let output = parsed.text("output");
    let format = machine_format(output).ok_or_else(|| unknown_format(output))?;
    if parsed.is_on("check") {
        return Ok(());
    }
    let directory = parsed.text("split");
    if !directory.is_empty() {
        return split(Path::new(directory), objects, format);
    }
    match format {
        Format::Json => terminal.data(&print(&objects.iter().copied().cloned().collect(), format)?),
        Format::Yaml => {
            let mut text = String::new();
            for object in objects {
                text.push_str("---\n");
                text.push_str(&print(object, format)?);
            }
            terminal.data(&text);
        }
    }
    Ok(())
}

/// One file for each object, in their order.
fn split(directory: &Path, objects: &[&Value], format: Format) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Failure::generic(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let end = match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    };
    let digits = objects.len().to_string().len();
    for (number, object) in objects.iter().enumerate() {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let parts = [kind.as_str(), access::namespace(object), access::name(object)];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
        // Names of objects are no paths.
        let name: String =
            name.chars().map(|c| if c.is_alphanumeric() || "-._".contains(c) { c } else { '-' }).collect();
        let name: String = name.chars().take(150).collect();
        let path = directory.join(format!("{:0digits$}-{name}.{end}", number + 1));
        std::fs::write(&path, print(object, format)?).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
