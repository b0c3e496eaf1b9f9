//! `tribunal languages`: what can be judged.

use std::sync::Arc;

use serde::Serialize;
use tribunal_shared::config::{SandboxKind, Settings};
use tribunal_shared::language::{Language, Root};

use super::args::Languages;
use super::embedded::Version;
use super::exit::{Exit, Failure, complain};
use super::{embedded, escape, output, render};

const LONGEST_VERSION: usize = 80;

#[derive(Serialize)]
struct Entry {
    name: String,
    aliases: Vec<String>,
    extension: String,
    image: String,
    /// What the native sandbox runs it on: `host`, `image` or a folder. `None` with the Docker sandbox.
    root: Option<String>,
    /// The Debian package that brings its toolchain to the host.
    package: Option<String>,
    compiled: bool,
    /// What the toolchain says of itself. `None` when it was not asked or could not answer.
    version: Option<String>,
    /// Instead of a version.
    #[serde(skip)]
    shown: String,
}

pub async fn run(arguments: Languages, settings: Settings) -> Result<Exit, Failure> {
    let languages: Vec<Arc<Language>> = settings.languages().iter().cloned().collect();
    let mut entries: Vec<_> = languages.iter().map(|language| entry(language, &settings)).collect();

    let mut exit = Exit::Success;
    if !arguments.offline {
        match embedded::versions(settings, &languages).await {
            Ok(versions) => {
                for (entry, version) in entries.iter_mut().zip(versions) {
                    match version {
                        Version::Known(version) => entry.version = Some(version),
                        Version::NotHereYet => entry.shown = entry.what_is_missing(),
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

fn entry(language: &Language, settings: &Settings) -> Entry {
    Entry {
        name: language.name().to_owned(),
        aliases: language.aliases.clone(),
        extension: language.extension().to_owned(),
        image: language.image.clone(),
        root: match settings.sandbox.kind {
            SandboxKind::Native => Some(language.root.clone().unwrap_or_else(|| settings.sandbox.native.root.clone())),
            SandboxKind::Docker => None,
        },
        package: language.package.clone(),
        compiled: language.compile.is_some(),
        version: None,
        shown: "-".into(),
    }
}

impl Entry {
    fn root(&self) -> Option<Root> {
        self.root.as_deref().and_then(|root| Root::parse(root).ok())
    }

    fn runs_on(&self) -> &str {
        match (self.root(), &self.root) {
            (None | Some(Root::Image), _) | (_, None) => &self.image,
            (Some(Root::Host | Root::Folder(_)), Some(root)) => root,
        }
    }

    fn what_is_missing(&self) -> String {
        match (self.root(), &self.package) {
            (None, _) => "(image not here yet)".into(),
            (Some(Root::Image), _) => "(image not imported yet)".into(),
            (Some(Root::Host), Some(package)) => format!("(not installed: {})", escape::line(package)),
            (Some(Root::Host | Root::Folder(_)), _) => "(not installed)".into(),
        }
    }
}

fn table(entries: &[Entry], colours: bool) -> String {
    let mut table = render::table(&["LANGUAGE", "ALSO", "FILES", "RUNS ON", "VERSION"], colours);
    for entry in entries {
        table.add_row([
            escape::line(&entry.name),
            escape::line(&entry.aliases.join(", ")),
            escape::line(&format!(".{}", entry.extension)),
            escape::line(entry.runs_on()),
            entry
                .version
                .as_deref()
                .map_or_else(|| entry.shown.clone(), |said| escape::first_line(said, LONGEST_VERSION)),
        ]);
    }
    render::finished(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_language_and_escapes_what_toolchains_say() {
        let settings = Settings::defaults();
        let mut entries: Vec<_> = settings.languages().iter().map(|language| entry(language, &settings)).collect();
        entries[0].version = Some("GNU bash\x1b[2J".into());
        let text = table(&entries, false);
        assert_eq!(text.lines().count(), entries.len() + 1);
        assert!(text.contains("GNU bash\\u{1b}[2J"), "{text}");
        let python = text.lines().find(|line| line.starts_with("python")).unwrap();
        assert!(python.contains("python3") && python.contains(".py") && python.ends_with(" -"), "{python}");
    }

    #[test]
    fn what_a_language_runs_on_is_shown_and_what_it_lacks() {
        let java = |kind, root: &str| {
            let mut settings = Settings::defaults();
            settings.sandbox.kind = kind;
            settings.sandbox.native.root = root.into();
            let entry = entry(&settings.languages().get("java").unwrap(), &settings);
            (entry.runs_on().to_owned(), entry.what_is_missing())
        };
        let told = |runs_on: &str, missing: &str| (runs_on.to_owned(), missing.to_owned());
        let image = "openjdk:17-slim";
        assert_eq!(java(SandboxKind::Docker, "host"), told(image, "(image not here yet)"));
        assert_eq!(java(SandboxKind::Native, "host"), told("host", "(not installed: default-jdk-headless)"));
        assert_eq!(java(SandboxKind::Native, "image"), told(image, "(image not imported yet)"));
        assert_eq!(java(SandboxKind::Native, "/srv/root"), told("/srv/root", "(not installed)"));
    }
}
