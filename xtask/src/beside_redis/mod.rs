//! Collections of many elements at a Sidle node and at a redis-server, in turns: processor time a command,
//! and memory an element.
//!
//! Both servers run at once on this machine and are asked one after the other, over one connection, in
//! batches. What counts is the processor time of the server's process, all of its threads. A machine that is
//! busy otherwise moves both figures.

mod asked;
mod commands;

use crate::servers::{Build, Server, build_sidle};
use anyhow::Context;
use asked::Asked;
use commands::{FILLS, MEASURED, Measured};
use std::path::{Path, PathBuf};

/// Collections of many elements, at Sidle and at redis-server in turns.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many elements each collection has
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    elements: u64,
    /// How many of each command are sent in a turn
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    requests: u64,
    /// How many requests are sent at once
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    depth: u64,
    /// How many turns each server has; their median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
    /// What Sidle may keep
    #[arg(long, default_value = "2gb")]
    memory: String,
}

/// A server that is measured.
struct Peer {
    name: &'static str,
    asked: Asked,
    _server: Server,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let program = build_sidle(Build::Release)?;
    let folder = std::env::temp_dir().join(format!("sidle-beside-redis-{}", std::process::id()));
    let result = compare(arguments, &program, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn compare(arguments: &Arguments, program: &Path, folder: &Path) -> anyhow::Result<()> {
    let data = |name: &str| -> anyhow::Result<PathBuf> {
        let data = folder.join(name);
        std::fs::create_dir_all(&data).with_context(|| format!("cannot make {}", data.display()))?;
        Ok(data)
    };
    let sidle = Server::start_sidle(program, &data("sidle")?, &arguments.memory)?;
    let redis = Server::start_redis(&data("redis")?)?;
    let mut peers = Vec::new();
    for (name, server) in [("redis", redis), ("sidle", sidle)] {
        peers.push(Peer { name, asked: Asked::connect(server.port)?, _server: server });
    }
    println!("{} elements in each collection, {} requests at once", arguments.elements, arguments.depth);
    fill(arguments, &mut peers)?;
    measure(arguments, &mut peers)?;
    remove(&mut peers)
}

fn fill(arguments: &Arguments, peers: &mut [Peer]) -> anyhow::Result<()> {
    println!("\n{:28}{:>10}{:>10}{:>10}", "bytes an element, live", "redis", "sidle", "ratio");
    for fill in FILLS {
        let mut bytes = Vec::new();
        for peer in &mut *peers {
            let before = peer.asked.needed_memory()?;
            let request = |number| (fill.request)(number, arguments.elements);
            peer.asked.send(arguments.elements, 500, request)?;
            bytes.push((peer.asked.needed_memory()? - before) as f64 / arguments.elements as f64);
        }
        println!("{:28}{:>10.1}{:>10.1}{:>10.2}", fill.name, bytes[0], bytes[1], bytes[1] / bytes[0]);
    }
    Ok(())
}

fn measure(arguments: &Arguments, peers: &mut [Peer]) -> anyhow::Result<()> {
    println!("\n{:28}{:>10}{:>10}{:>10}", "ns of processor a command", "redis", "sidle", "ratio");
    for Measured { name, request } in MEASURED {
        let mut ns: Vec<Vec<f64>> = vec![Vec::new(); peers.len()];
        for turn in 0..arguments.turns {
            for (peer, ns) in peers.iter_mut().zip(&mut ns) {
                let before = peer.asked.processor_ns()?;
                let first = turn * arguments.requests;
                let request = |number| request(first + number, arguments.elements);
                peer.asked.send(arguments.requests, arguments.depth, request)?;
                let after = peer.asked.processor_ns()?;
                ns.push((after - before) as f64 / arguments.requests as f64);
            }
        }
        let medians: Vec<f64> = ns.into_iter().map(median).collect();
        println!("{:28}{:>10.0}{:>10.0}{:>10.2}", name, medians[0], medians[1], medians[1] / medians[0]);
    }
    Ok(())
}

/// How long the reply to a DEL of a whole collection takes.
fn remove(peers: &mut [Peer]) -> anyhow::Result<()> {
    println!("\n{:28}{:>10}{:>10}", "ms until DEL replies", peers[0].name, peers[1].name);
    for fill in FILLS {
        let mut ms = Vec::new();
        for peer in &mut *peers {
            ms.push(peer.asked.removed_in_ms(fill.key)?);
        }
        println!("{:28}{:>10.2}{:>10.2}", fill.name, ms[0], ms[1]);
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_in_the_middle() {
        assert!((super::median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
