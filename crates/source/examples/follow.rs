//! Follows one branch: for every line of standard input forgets the refs of a repository, resolves the branch and
//! reads its tree. Prints the commit, the milliseconds it took and the milliseconds of CPU that this process and
//! its children have used so far (in steps of the kernel's clock, mostly 10 ms).
//!
//! `follow URL BRANCH CACHE_DIR`; meant for measurements of a push until its content can be rendered.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::io::BufRead as _;

use tiphys_source::{Clock, Freshness, Repository, SourceOptions, Sources};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, branch, cache] = arguments.as_slice() else {
        return Err("usage: follow URL BRANCH CACHE_DIR".into());
    };
    let clock = Clock::real();
    let mut options = SourceOptions::new(cache.as_ref());
    options.local_roots = vec!["/".into()];
    let sources = Sources::new(options)?;
    let repository = Repository::anonymous(url);
    for line in std::io::stdin().lock().lines() {
        drop(line?);
        let start = clock.elapsed();
        sources.invalidate(url);
        let commit = sources.resolve(&repository, branch, Freshness::Fetch).await?;
        let tree = sources.tree(&repository, &commit).await?;
        let spent = clock.elapsed().saturating_sub(start);
        println!("{commit} {} {:.1} {}", tree.id(), spent.as_secs_f64() * 1000.0, cpu_ms()?);
    }
    Ok(())
}

/// Time of this process and of the children it waited for.
fn cpu_ms() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = text.rsplit_once(')').ok_or("no name in the process table")?;
    let ticks = fields.split_whitespace().skip(11).take(4).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks * 10)
}
