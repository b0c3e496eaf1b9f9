//! Languages are data: a stanza of `languages.toml` is all that a new one needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use regex::{Match, Regex};
use serde::Deserialize;

/// One language as configured. Placeholders in `source` and in commands:
/// `{source}` the file name, `{memory_mb}` the request's memory limit,
/// `{class}` the Java class that names the file, `{main_class}` the one to start, with its package.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Language {
    #[serde(skip)]
    name: String,
    #[serde(default)]
    pub aliases: Vec<String>,
    pub image: String,
    /// What the native sandbox runs it on, if not on what the settings say for all.
    #[serde(default)]
    pub root: Option<String>,
    /// The Debian package that brings its toolchain.
    #[serde(default)]
    pub package: Option<String>,
    source: String,
    #[serde(default)]
    pub compile: Option<Compile>,
    run: Vec<String>,
    /// Environment of both the compiler and the program.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Prints the toolchain's version.
    pub version: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Compile {
    command: Vec<String>,
    #[serde(default = "Compile::default_timeout_ms")]
    pub timeout_ms: u64,
    #[serde(default = "Compile::default_memory_mb")]
    pub memory_mb: u64,
    #[serde(default = "Compile::default_processes")]
    pub processes: u64,
    #[serde(default = "Compile::default_cpus")]
    pub cpus: f64,
    /// Size of the compiler's `/tmp`; it counts as memory.
    #[serde(default = "Compile::default_tmp_mb")]
    pub tmp_mb: u64,
}

impl Compile {
    fn default_timeout_ms() -> u64 {
        30_000
    }
    fn default_memory_mb() -> u64 {
        512
    }
    fn default_processes() -> u64 {
        64
    }
    fn default_cpus() -> f64 {
        1.0
    }
    fn default_tmp_mb() -> u64 {
        128
    }
}

/// The file system that the native sandbox shows to programs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Root {
    /// The machine's own.
    Host,
    /// The language's image, imported.
    Image,
    Folder(PathBuf),
}

impl Root {
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "host" => Ok(Self::Host),
            "image" => Ok(Self::Image),
            path if path.starts_with('/') && !path.contains('\0') => Ok(Self::Folder(path.into())),
            _ => Err(format!("{text:?} is neither host nor image nor an absolute path")),
        }
    }
}

/// A language's commands with every placeholder filled for one piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    pub source_file: String,
    pub compile: Option<Vec<String>>,
    pub run: Vec<String>,
}

impl Language {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The source file's extension, without the dot.
    pub fn extension(&self) -> &str {
        self.source.rsplit('.').next().unwrap_or_default()
    }

    pub fn commands(&self, code: &str, memory_mb: u64) -> Commands {
        let java = if self.uses_class() { JavaClasses::find(code) } else { JavaClasses::default() };
        let source_file = self.source.replace("{class}", &java.file);
        let fill = |words: &[String]| -> Vec<String> {
            words
                .iter()
                .map(|word| {
                    word.replace("{source}", &source_file)
                        .replace("{memory_mb}", &memory_mb.to_string())
                        .replace("{main_class}", &java.main)
                        .replace("{class}", &java.file)
                })
                .collect()
        };
        Commands {
            compile: self.compile.as_ref().map(|compile| fill(&compile.command)),
            run: fill(&self.run),
            source_file,
        }
    }

    /// The programs that must be there: the compiler and, unless it makes the program, what runs it.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let compile = self.compile.iter().flat_map(|compile| compile.command.first());
        compile.chain(self.run.first()).map(String::as_str).filter(|tool| !tool.contains(['/', '{']))
    }

    fn uses_class(&self) -> bool {
        let compile = self.compile.iter().flat_map(|compile| &compile.command);
        std::iter::once(&self.source).chain(compile).chain(&self.run).any(|word| word.contains("class}"))
    }

    fn problem(&self, name: &str) -> Option<String> {
        if name != name.to_lowercase() {
            return Some("the name must be in lower case; requests may spell it as they like".into());
        }
        if self.run.is_empty() || self.version.is_empty() {
            return Some("run and version must each name a command".into());
        }
        if self.compile.as_ref().is_some_and(|compile| compile.command.is_empty()) {
            return Some("compile.command must name a command".into());
        }
        if let Some(problem) = self.root.as_deref().and_then(|root| Root::parse(root).err()) {
            return Some(format!("root {problem}"));
        }
        if self.source.is_empty() || self.source.contains(['/', '\0']) || self.source.starts_with('.') {
            return Some(format!("source {:?} must be a plain file name", self.source));
        }
        None
    }
}

/// What Java wants to know: the file is named after the public class, and any class can hold `main`.
#[derive(Debug, PartialEq, Eq)]
struct JavaClasses {
    /// The public class, else the one to start.
    file: String,
    /// The class with `main`, else the public one, else the first; with its package.
    main: String,
}

impl Default for JavaClasses {
    fn default() -> Self {
        Self { file: "Solution".into(), main: "Solution".into() }
    }
}

impl JavaClasses {
    fn find(code: &str) -> Self {
        static NOISE: LazyLock<Regex> = LazyLock::new(|| {
            // Each also matches when it is never closed: or every opening would be followed to the end of the code.
            pattern(concat!(
                r"(?s)/\*.*?(?:\*/|\z)|//[^\n]*",
                r#"|"""(?:\\.|[^\\])*?(?:"""|\\?\z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"#
            ))
        });
        static PACKAGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|[;\s])package\s+([\w$.]+)\s*;"));
        static PUBLIC: LazyLock<Regex> = LazyLock::new(|| {
            pattern(r"\bpublic\s+(?:(?:final|abstract|strictfp|sealed)\s+)*(?:class|record|enum|interface)\s+([\w$]+)")
        });
        static ANY: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:class|record|enum|interface)\s+([\w$]+)"));
        static MAIN: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"\bstatic\s+(?:(?:public|final|synchronized|strictfp)\s+)*void\s+main\s*\("));

        let code = NOISE.replace_all(code, " ");
        let top = top_level(&code);
        let names = |regex: &'static Regex| regex.captures_iter(&top).filter_map(|found| found.get(1));
        // A class becomes a file; one with a longer name could not be created.
        let class = |name: &Match<'_>| name.len() <= 200;
        let classes: Vec<_> = names(&ANY).filter(class).collect();
        let public = names(&PUBLIC).find(class).map(|name| name.as_str());
        let holders: Vec<_> = MAIN
            .find_iter(&code)
            .filter_map(|main| classes[..classes.partition_point(|class| class.end() < main.start())].last())
            .map(|class| class.as_str())
            .collect();

        let main = public
            .filter(|public| holders.contains(public))
            .or(holders.first().copied())
            .or(public)
            .or(classes.first().map(|class| class.as_str()));
        let Some(main) = main else { return Self::default() };
        // Nor could one so deep in folders.
        let package = names(&PACKAGE).next().filter(|package| package.len() <= 1000);
        let qualified = package.map(|package| format!("{}.{main}", package.as_str()));
        Self { file: public.unwrap_or(main).into(), main: qualified.unwrap_or_else(|| main.into()) }
    }
}

/// The code with all that stands in braces blanked, byte for byte.
fn top_level(code: &str) -> String {
    let mut depth = 0_usize;
    let mut top = String::with_capacity(code.len());
    for char in code.chars() {
        depth = depth.saturating_sub((char == '}').into());
        if depth == 0 {
            top.push(char);
        } else {
            top.extend(std::iter::repeat_n(' ', char.len_utf8()));
        }
        depth += usize::from(char == '{');
    }
    top
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// The languages by name and alias.
#[derive(Debug, Clone, Default)]
pub struct Languages {
    by_name: BTreeMap<String, Arc<Language>>,
    names_by_alias: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
#[error("languages.{language}: {problem}")]
pub struct LanguageError {
    language: String,
    problem: String,
}

impl Languages {
    pub fn new(stanzas: BTreeMap<String, Language>) -> Result<Self, LanguageError> {
        let mut languages = Self::default();
        let names: BTreeSet<_> = stanzas.keys().cloned().collect();
        for (name, mut language) in stanzas {
            if let Some(problem) = language.problem(&name) {
                return Err(LanguageError { language: name, problem });
            }
            for alias in &language.aliases {
                let lower = alias.to_lowercase();
                if lower != name && names.contains(&lower) {
                    let problem = format!("alias {alias:?} is the name of another language");
                    return Err(LanguageError { language: name, problem });
                }
                if let Some(other) = languages.names_by_alias.insert(lower, name.clone()) {
                    let problem = format!("alias {alias:?} belongs to {other} already");
                    return Err(LanguageError { language: name, problem });
                }
            }
            language.name = name.clone();
            languages.by_name.insert(name, Arc::new(language));
        }
        Ok(languages)
    }

    pub fn get(&self, name: &str) -> Option<Arc<Language>> {
        let name = name.to_lowercase();
        self.by_name.get(&name).or_else(|| self.by_name.get(self.names_by_alias.get(&name)?)).cloned()
    }

    /// The language of a file with this extension.
    pub fn by_extension(&self, extension: &str) -> Option<Arc<Language>> {
        self.iter().find(|language| language.extension() == extension).cloned()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Language>> {
        self.by_name.values()
    }
}

#[cfg(test)]
mod tests;
