//! Patterns in Python code that a person may want to know about. They are logged, never blocked: the sandbox is the
//! boundary, and a list of words is none.

use std::sync::LazyLock;

use regex::RegexSet;

use crate::language::Language;

const NAMES: [&str; 8] = [
    "import os",
    "import subprocess",
    "import socket",
    "from os import",
    "__import__",
    "eval",
    "exec",
    "open for writing",
];

static PATTERNS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        r"import\s+os",
        r"import\s+subprocess",
        r"import\s+socket",
        r"from\s+os\s+import",
        r"__import__\s*\(",
        r"eval\s*\(",
        r"exec\s*\(",
        r#"open\s*\([^)]*['"][wa]"#,
    ])
    .expect("constant patterns")
});

/// What in `code` looks suspicious, by name.
pub fn suspicions(language: &Language, code: &str) -> Vec<&'static str> {
    if language.name() != "python" {
        return Vec::new();
    }
    PATTERNS.matches(code).into_iter().map(|index| NAMES[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn each_pattern_is_seen_in_python_and_in_nothing_else() {
        let languages = Settings::defaults().languages();
        let python = languages.get("python3").expect("python is built in");
        let samples = [
            "import  os",
            "import subprocess as s",
            "import socket",
            "from os import path",
            "__import__ ('x')",
            "eval('1')",
            "exec ( 'x' )",
            "open('f', 'w')",
        ];
        for (sample, name) in samples.iter().zip(NAMES) {
            assert!(suspicions(&python, sample).contains(&name), "{name} in {sample}");
        }
        assert!(suspicions(&python, "print(open('f').read())").is_empty());
        let ruby = languages.get("ruby").expect("ruby is built in");
        assert!(suspicions(&ruby, samples[0]).is_empty());
    }
}
