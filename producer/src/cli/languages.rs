//! `tribunal languages`: what can be judged.

use std::sync::Arc;

use serde::Serialize;
use tribunal_shared::config::Settings;
use tribunal_shared::language::Language;

use super::args::Languages;
use super::embedded::Version;
use super::exit::{Exit, Failure, complain};
use super::{embedded, escape, output, render};

const LONGEST_VERSION: usize = 80;
const NOT_HERE: &str = "(image not here yet)";

#[derive(Serialize)]
struct Entry {
    name: String,
    aliases: Vec<String>,
    extension: String,
    image: String,
    compiled: bool,
    /// What the toolchain says of itself. `None` when it was not asked or could not answer.
    version: Option<String>,
    /// Instead of a version.
    #[serde(skip)]
    shown: &'static str,
}

pub async fn run(arguments: Languages, settings: Settings) -> Result<Exit, Failure> {
    let languages: Vec<Arc<Language>> = settings.languages().iter().cloned().collect();
    let mut entries: Vec<_> = languages.iter().map(|language| entry(language)).collect();

    let mut exit = Exit::Success;
    if !arguments.offline {
        match embedded::versions(settings, &languages).await {
            Ok(versions) => {
                for (entry, version) in entries.iter_mut().zip(versions) {
                    match version {
                        Version::Known(version) => entry.version = Some(version),
                        Version::NotHereYet => entry.shown = NOT_HERE,
                        Version::Failed(problem) => complain(&format!("no version of {}: {problem}", entry.name)),
                    }
                }
            }
            Err(Failure::Infrastructure(problem)) => {
                complain(&format!("no versions: {problem}"));
                exit = Exit::Infrastructure;
            }
            Err(other) => return Err(other),
        }
    }

    if arguments.json {
        output::print_json(&entries)?;
    } else {
        output::print(&format!("{}\n", table(&entries, output::colours())))?;
    }
    Ok(exit)
}

fn entry(language: &Language) -> Entry {
    Entry {
        name: language.name().to_owned(),
        aliases: language.aliases.clone(),
        extension: language.extension().to_owned(),
        image: language.image.clone(),
        compiled: language.compile.is_some(),
        version: None,
        shown: "-",
    }
}

fn table(entries: &[Entry], colours: bool) -> String {
    let mut table = render::table(&["LANGUAGE", "ALSO", "FILES", "IMAGE", "VERSION"], colours);
    for entry in entries {
        table.add_row([
            escape::line(&entry.name),
            escape::line(&entry.aliases.join(", ")),
            escape::line(&format!(".{}", entry.extension)),
            escape::line(&entry.image),
            entry
                .version
                .as_deref()
                .map_or_else(|| entry.shown.into(), |said| escape::first_line(said, LONGEST_VERSION)),
        ]);
    }
    render::finished(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_language_and_escapes_what_toolchains_say() {
        let languages = Settings::defaults().languages();
        let mut entries: Vec<_> = languages.iter().map(|language| entry(language)).collect();
        entries[0].version = Some("GNU bash\x1b[2J".into());
        let text = table(&entries, false);
        assert_eq!(text.lines().count(), entries.len() + 1);
        assert!(text.contains("GNU bash\\u{1b}[2J"), "{text}");
        let python = text.lines().find(|line| line.starts_with("python")).unwrap();
        assert!(python.contains("python3") && python.contains(".py") && python.ends_with(" -"), "{python}");
    }
}
