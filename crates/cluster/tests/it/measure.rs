//! What the index costs. Ignored by default: numbers of an unoptimised build say little.

use crate::support::Bed;

/// CPU time of this process in milliseconds and its resident memory in kilobytes.
fn usage() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    (ticks * 10, line.split_whitespace().nth(1).unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, not a test"]
async fn b6_cost_of_indexing_with_several_threads() {
    measure().await;
}

#[tokio::test]
#[ignore = "a measurement, not a test"]
async fn b6_cost_of_indexing_with_one_thread() {
    measure().await;
}

async fn measure() {
    let Some(bed) = Bed::connect("b6_cost_of_indexing").await else { return };
    let (before, _) = usage();
    let begun = tokio::time::Instant::now();
    let started = bed.index();
    started.index.ready().await.unwrap();
    let wall = begun.elapsed().as_millis();
    let (cpu, memory) = usage();
    let objects: usize = started.index.counts().values().sum();
    println!(
        "{objects} objects: {wall} ms, {} ms CPU (target 800 for 50k), {memory} KB resident (target 60000)",
        cpu - before
    );
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let (later, memory) = usage();
    println!("20 s later: {} ms more CPU, {memory} KB resident", later - cpu);
}
