//! The command line: thin adapters from arguments to [`Client`](crate::client::Client) and from results to text.
//!
//! [`args`] is what can be typed, [`load`] turns a path into a request, a module per command does what it says,
//! [`render`] shows a result to a person. Text that comes from requests, results or events goes through [`escape`].

pub mod args;
mod bench;
mod cancel;
mod connect;
mod dead;
mod difference;
mod doctor;
mod embedded;
mod escape;
mod exit;
mod fleet;
mod judge;
mod languages;
mod load;
mod moment;
mod output;
mod progress;
mod render;
mod result;
mod run;
mod signals;
mod submit;
mod trace;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use tribunal_shared::config::Settings;

use args::{Arguments, Command, SettingsArguments};
use exit::{Exit, Failure};

/// Whatever is down shows within this time, which leaves a command the rest of 5 seconds. The queue, the store and the
/// sandbox have shorter limits of their own for what they know can take long.
const ANSWER_WITHIN: Duration = Duration::from_millis(4500);

/// Runs the command to its end. What went wrong is on stderr, the exit code says of which kind it was.
pub fn main(arguments: Arguments) -> ExitCode {
    let exit = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(Failure::Infrastructure(format!("cannot start: {error}"))),
    };
    match exit {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.print();
            failure.exit().into()
        }
    }
}

async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let settings = settings(&arguments.settings)?;
    match arguments.command {
        Command::Judge(judge) => judge::run(judge, settings).await,
        Command::Run(run) => run::run(run, settings).await,
        Command::Submit(submit) => submit::run(submit, &settings).await,
        Command::Result(result) => result::run(result, &settings).await,
        Command::Watch(watch) => watch::run(watch, &settings).await,
        Command::Cancel(cancel) => cancel::run(cancel, &settings).await,
        Command::Fleet(fleet) => fleet::run(fleet, &settings).await,
        Command::Dead(dead) => dead::run(dead, &settings).await,
        Command::Languages(languages) => languages::run(languages, settings).await,
        Command::Doctor(doctor) => doctor::run(doctor, &settings).await,
        Command::Bench(bench) => bench::run(bench, settings).await,
    }
}

fn settings(arguments: &SettingsArguments) -> Result<Settings, Failure> {
    let mut settings = Settings::load(arguments.config.as_deref())?;
    if let Some(url) = &arguments.queue_url {
        settings.queue.url.clone_from(url);
    }
    if let Some(url) = &arguments.store_url {
        settings.store.url.clone_from(url);
    }
    Ok(settings)
}
