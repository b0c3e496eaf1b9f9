//! `tribunal dead`: requests that were given up.

mod fate;
mod letter;
mod show;

use tribunal_shared::config::Settings;
use tribunal_shared::queue::DeadLetter;

use super::args::{Dead, DeadCommand, ListDead};
use super::exit::{Exit, Failure, note};
use super::{connect, escape, moment, output, render};
use letter::Letter;

/// Letters that a list has. Who has more wants to see their causes, not all of them.
const LISTED: usize = 1000;
const LONGEST_REASON: usize = 100;

pub async fn run(Dead { command }: Dead, settings: &Settings) -> Result<Exit, Failure> {
    match command {
        DeadCommand::Ls(arguments) => list(arguments, settings).await,
        DeadCommand::Show(arguments) => show::run(arguments, settings).await,
        DeadCommand::Requeue(chosen) => fate::requeue(chosen, settings).await,
        DeadCommand::Drop(chosen) => fate::drop(chosen, settings).await,
    }
}

async fn list(ListDead { json }: ListDead, settings: &Settings) -> Result<Exit, Failure> {
    let mut letters = connect::queue_only(settings)?.dead_letters(LISTED + 1).await?;
    let more = letters.len() > LISTED;
    letters.truncate(LISTED);
    let letters: Vec<_> = letters.iter().map(|letter| Letter::new(letter, &settings.limits)).collect();
    if json {
        output::print_json(&letters)?;
    } else if letters.is_empty() {
        output::print("no dead letters\n")?;
    } else {
        output::print(&table(&letters, output::colours()))?;
    }
    if more {
        note(&format!("only the oldest {LISTED} are shown"));
    }
    Ok(Exit::Success)
}

fn table(letters: &[Letter<'_>], colours: bool) -> String {
    let mut table = render::table(&["ID", "DIED", "LANGUAGE", "ATTEMPTS", "QUEUE", "REASON"], colours);
    for Letter { key, dead, content, .. } in letters {
        let died = if dead.died_at_ms == 0 { "-".to_owned() } else { moment::ago(dead.died_at_ms) };
        table.add_row([
            escape::line(key),
            died,
            content.language.as_deref().map_or("-".into(), |language| escape::first_line(language, 20)),
            dead.attempts.len().to_string(),
            escape::line(&dead.queue),
            escape::first_line(&dead.reason, LONGEST_REASON),
        ]);
    }
    format!("{}\n", render::finished(&table))
}

/// Whether somebody means this letter: by its key, or by what a list shows of a key that cannot be typed.
fn is_meant(letter: &DeadLetter, name: &str) -> bool {
    let key = letter.key();
    key == name || escape::line(&key) == name
}

fn not_there(name: &str) -> Failure {
    Failure::Usage(format!(
        "{} is not among the dead letters: `tribunal dead ls` lists them. `tribunal result` says what became of a request",
        escape::line(name)
    ))
}
