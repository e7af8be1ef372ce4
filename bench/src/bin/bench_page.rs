//! Writes `docs/benchmarks.md` and its pictures from the figures of the last full runs.

fn main() -> Result<(), stanchion_bench::Failure> {
    stanchion_bench::page::write()
}
