//! `tribunal dead requeue` and `tribunal dead drop`: what becomes of dead letters.

use std::collections::HashSet;

use tribunal_shared::config::Settings;

use super::super::args::ChosenDead;
use super::super::exit::{Exit, Failure, complain};
use super::super::{connect, escape, output};
use crate::client::{Client, Requeued};

/// Letters that share their fate in one go. Each go looks at all letters; one that fails leaves at most so many in doubt.
const AT_ONCE: usize = 100;

pub async fn requeue(chosen: ChosenDead, settings: &Settings) -> Result<Exit, Failure> {
    let client = connect::client(settings).await?;
    let Chosen { keys, mut gravest } = Chosen::among(&client, &chosen).await?;
    for keys in keys.chunks(AT_ONCE) {
        for (key, outcome) in keys.iter().zip(client.requeue(keys).await?) {
            gravest = gravest.max(told(key, outcome)?);
        }
    }
    Ok(gravest)
}

fn told(key: &str, outcome: Requeued) -> Result<Exit, Failure> {
    let shown = escape::line(key);
    Ok(match outcome {
        Requeued::Done => {
            output::print(&format!("{shown}: requeued\n"))?;
            Exit::Success
        }
        Requeued::NotThere => gone(key),
        Requeued::HasResult(result) => {
            complain(&format!(
                "{shown} is not requeued, because it has a result: {}. `tribunal dead drop` takes its letter away",
                result.status.as_str()
            ));
            Exit::NotAllPassed
        }
        Requeued::Conflict => {
            complain(&format!(
                "{shown} is not requeued, because its id belongs to another request by now. `tribunal dead drop` takes its \
                 letter away; its code can be submitted under another id"
            ));
            Exit::NotAllPassed
        }
    })
}

pub async fn drop(chosen: ChosenDead, settings: &Settings) -> Result<Exit, Failure> {
    let client = connect::queue_only(settings)?;
    let Chosen { keys, mut gravest } = Chosen::among(&client, &chosen).await?;
    for keys in keys.chunks(AT_ONCE) {
        for (key, dropped) in keys.iter().zip(client.drop_dead(keys).await?) {
            if dropped {
                output::print(&format!("{}: dropped\n", escape::line(key)))?;
            } else {
                gravest = gravest.max(gone(key));
            }
        }
    }
    Ok(gravest)
}

/// Somebody else was faster, or looks at it just now.
fn gone(key: &str) -> Exit {
    let failure = super::not_there(key);
    failure.print();
    failure.exit()
}

struct Chosen {
    /// Each once, the oldest first.
    keys: Vec<String>,
    /// What follows from names that are nobody's.
    gravest: Exit,
}

impl Chosen {
    async fn among(client: &Client, ChosenDead { keys: names, all }: &ChosenDead) -> Result<Self, Failure> {
        let letters = client.dead_letters(usize::MAX).await?;
        let missing = names.iter().filter(|name| !letters.iter().any(|letter| super::is_meant(letter, name)));
        let gravest = missing.map(|name| gone(name)).max().unwrap_or(Exit::Success);
        let meant = letters.iter().filter(|letter| *all || names.iter().any(|name| super::is_meant(letter, name)));
        let mut seen = HashSet::new();
        let keys: Vec<_> = meant.map(|letter| letter.key()).filter(|key| seen.insert(key.clone())).collect();
        if *all && keys.is_empty() {
            output::print("no dead letters\n")?;
        }
        Ok(Self { keys, gravest })
    }
}
