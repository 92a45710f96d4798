//! How many times a second one core renders charts (B11).
//!
//! `bench [--seconds N] CHART...`

#![expect(clippy::print_stdout, reason = "a program")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::{Failure, World, load};
use tiphys_helm::{Documents, HelmVersion, RenderLimits, RenderRequest, UserValues, render};

mod support;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (mut charts, mut seconds) = (Vec::new(), 3);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().ok_or("--seconds N")?.parse()?,
            _ => charts.push(PathBuf::from(argument)),
        }
    }
    for path in charts {
        let started = Instant::now();
        let chart = load(&path, HelmVersion::V4)??;
        let loaded = started.elapsed();
        let (values, documents) = (UserValues::default(), Documents::new());
        let request = RenderRequest {
            chart: &chart,
            version: HelmVersion::V4,
            release_name: "rel",
            namespace: "apps",
            kube_version: Some("1.36.0"),
            api_versions: &[],
            values: &values,
            include_crds: true,
            skip_schema_validation: false,
            skip_tests: false,
            schema_documents: &documents,
            repositories: &[],
            determinism: None,
            limits: RenderLimits::default(),
        };
        let started = Instant::now();
        let objects = render(&request, &World)?.objects().count();
        let first = started.elapsed();
        let (started, mut count) = (Instant::now(), 0_u32);
        while started.elapsed() < Duration::from_secs(seconds) {
            render(&request, &World)?;
            count += 1;
        }
        let each = started.elapsed() / count;
        println!(
            "{}: {objects} objects, loaded in {loaded:.2?}, first in {first:.2?}, then {each:.2?}: {:.0} a second",
            path.display(),
            1.0 / each.as_secs_f64()
        );
    }
    Ok(())
}
