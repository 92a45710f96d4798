//! Writes the custom resource definitions to `deploy/crds`, one file per kind.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    for manifest in tiphys_api::crd::manifests() {
        let plural =
            manifest.pointer("/spec/names/plural").and_then(|name| name.as_str()).unwrap_or_default();
        std::fs::write(folder.join(format!("{plural}.yaml")), tiphys_go::yaml::to_string(&manifest)?)?;
    }
    Ok(())
}
