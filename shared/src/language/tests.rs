use super::*;
use crate::config::Settings;

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

fn builtin() -> Languages {
    Settings::defaults().languages()
}

fn language(source: &str, aliases: &[&str]) -> Language {
    Language {
        root: None,
        package: None,
        name: String::new(),
        aliases: aliases.iter().map(ToString::to_string).collect(),
        image: "image".into(),
        source: source.into(),
        compile: None,
        run: words("run"),
        env: BTreeMap::new(),
        version: words("version"),
    }
}

fn problem(stanzas: &[(&str, Language)]) -> String {
    let stanzas = stanzas.iter().map(|(name, language)| (name.to_string(), language.clone())).collect();
    Languages::new(stanzas).expect_err("a problem").to_string()
}

fn classes(code: &str) -> (String, String) {
    let JavaClasses { file, main } = JavaClasses::find(code);
    (file, main)
}

#[test]
fn every_language_has_its_image_its_file_and_its_commands() {
    let table = [
        ("python", "python", "python:3.11-slim", "solution.py", None, "python3 solution.py"),
        ("python3", "python", "python:3.11-slim", "solution.py", None, "python3 solution.py"),
        ("cpp", "cpp", "gcc:12", "solution.cpp", Some("g++ -O2 -std=c++17 -o solution solution.cpp"), "./solution"),
        ("c", "c", "gcc:12", "solution.c", Some("gcc -O2 -std=c11 -o solution solution.c -lm"), "./solution"),
        (
            "java",
            "java",
            "openjdk:17-slim",
            "Solution.java",
            Some("javac -d . Solution.java"),
            "java -Xmx256m -XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 Solution",
        ),
        ("javascript", "javascript", "node:20-slim", "solution.js", None, "node --max-old-space-size=256 solution.js"),
        ("go", "go", "golang:1.21-alpine", "solution.go", Some("go build -o solution solution.go"), "./solution"),
        ("rust", "rust", "rust:1.74-slim", "solution.rs", Some("rustc -O -o solution solution.rs"), "./solution"),
        ("ruby", "ruby", "ruby:3.2-slim", "solution.rb", None, "ruby solution.rb"),
        ("bash", "bash", "bash:5.1", "solution.sh", None, "bash solution.sh"),
    ];
    let languages = builtin();
    for (asked, name, image, source_file, compile, run) in table {
        let language = languages.get(asked).expect(asked);
        assert_eq!((language.name(), language.image.as_str()), (name, image));
        let commands = Commands { source_file: source_file.into(), compile: compile.map(words), run: words(run) };
        assert_eq!(language.commands("", 256), commands, "{asked}");
        assert_eq!(languages.by_extension(language.extension()).expect(asked).name(), name);
        assert!(!language.version.is_empty(), "{asked}");
    }
}

#[test]
fn names_are_found_however_they_are_spelled() {
    let languages = builtin();
    for (asked, name) in [("Python3", "python"), ("C++", "cpp"), ("JS", "javascript"), ("GoLang", "go"), ("sh", "bash")]
    {
        assert_eq!(languages.get(asked).expect(asked).name(), name);
    }
    for unknown in ["", "cobol", "python ", "python2", "python\0"] {
        assert!(languages.get(unknown).is_none(), "{unknown:?}");
    }
    assert!(languages.by_extension("").is_none());
    assert!(languages.by_extension("txt").is_none());
}

#[test]
fn a_compiler_gets_30_s_512_mb_and_64_processes_unless_its_stanza_says_otherwise() {
    let languages = builtin();
    for (name, limits) in [
        ("cpp", (30_000, 512, 64)),
        ("c", (30_000, 512, 64)),
        ("java", (30_000, 512, 64)),
        ("rust", (30_000, 1024, 128)),
        ("go", (60_000, 1536, 256)),
    ] {
        let language = languages.get(name).unwrap();
        let compile = language.compile.as_ref().expect(name);
        assert_eq!((compile.timeout_ms, compile.memory_mb, compile.processes), limits, "{name}");
    }
    let compile: Compile = serde_json::from_value(serde_json::json!({"command": ["cc"]})).unwrap();
    assert_eq!((compile.timeout_ms, compile.memory_mb, compile.processes), (30_000, 512, 64));
    assert_eq!((compile.cpus, compile.tmp_mb), (1.0, 128));
}

#[test]
fn variables_of_a_toolchain_keep_their_case() {
    assert_eq!(builtin().get("go").unwrap().env["GOCACHE"], "/tmp/go-build");
}

#[test]
fn placeholders_are_filled_wherever_they_stand() {
    let mut language = language("{class}.x", &[]);
    language.run = words("a={source} {memory_mb}{memory_mb} {main_class}/{class} {unknown}");
    language.compile = Some(serde_json::from_value(serde_json::json!({"command": ["cc", "{source}"]})).unwrap());
    let commands = language.commands("package p; class A {}", 64);
    assert_eq!(commands.source_file, "A.x");
    assert_eq!(commands.run, words("a=A.x 6464 p.A/A {unknown}"));
    assert_eq!(commands.compile.unwrap(), words("cc A.x"));
}

#[test]
fn only_a_language_that_asks_for_classes_looks_for_them() {
    let python = builtin().get("python").unwrap();
    assert_eq!(python.commands("class A: pass", 64).run, words("python3 solution.py"));
}

#[test]
fn the_java_class_to_start_is_found() {
    const MAIN: &str = "public static void main(String[] args) {}";
    let table = [
        ("public", "public class Main {}", ("Main", "Main")),
        ("public and final", "public final class Main {}", ("Main", "Main")),
        ("public abstract", "public  abstract\n strictfp class Main {}", ("Main", "Main")),
        ("public after another", "class A {} public class Main {}", ("Main", "Main")),
        ("none public, main wins over the first", "class A {} class B { MAIN }", ("B", "B")),
        ("none public, no main: the first", "class A {} class B {}", ("A", "A")),
        ("a nested class before main", "class Main { static class Node {} MAIN }", ("Main", "Main")),
        ("a nested public class", "class Main { public class Node {} MAIN }", ("Main", "Main")),
        ("a class after main", "class Main { MAIN } class Z {}", ("Main", "Main")),
        ("the file is the public one's, the start main's", "public class Api {} class Go { MAIN }", ("Api", "Go")),
        ("two with main: the public one", "class Test { MAIN } public class Main { MAIN }", ("Main", "Main")),
        ("two with main, none public: the first", "class A { MAIN } class B { MAIN }", ("A", "A")),
        ("other spelling of main", "class A {} class B { static public final void main (String... a) {} }", ("B", "B")),
        ("record", "public record Main(int x) { MAIN }", ("Main", "Main")),
        ("enum", "enum Main { ONE; MAIN }", ("Main", "Main")),
        ("interface", "public interface Main { MAIN }", ("Main", "Main")),
        ("sealed", "public sealed interface Main permits A {} final class A implements Main { MAIN }", ("Main", "A")),
        ("generic", "public class Main<T> { MAIN }", ("Main", "Main")),
        ("annotation with braces", "@SuppressWarnings({\"a\", \"b\"}) class Main { MAIN }", ("Main", "Main")),
        ("package", "package a.b.c;\npublic class Main {}", ("Main", "a.b.c.Main")),
        ("package after a comment", "/* package x; */ package a ; class Main {}", ("Main", "a.Main")),
        ("dollar, digits, letters", "public class Größe_1$ {}", ("Größe_1$", "Größe_1$")),
        ("line comment", "// public class No {}\nclass Main {}", ("Main", "Main")),
        ("block comment", "/* public class No {\n */ class Main {}", ("Main", "Main")),
        ("string", "class Main { String s = \"} public class No {\"; MAIN }", ("Main", "Main")),
        ("escaped quote", r#"class Main { String s = "\"} public class No {"; MAIN }"#, ("Main", "Main")),
        ("text block", "class Main { String s = \"\"\"\n} public class No { \" \"\"\"; MAIN }", ("Main", "Main")),
        ("character", "class Main { char a = '\"', b = '{', c = '\\''; MAIN } class B {}", ("Main", "Main")),
        ("comment in a string", "class Main { String s = \"/*\"; MAIN } /* class No {} */", ("Main", "Main")),
        ("main in a comment", "class A { /* MAIN */ } class B { MAIN }", ("B", "B")),
        ("nothing", "System.out.println(1);", ("Solution", "Solution")),
        ("empty", "", ("Solution", "Solution")),
        ("a class without a name", "public class", ("Solution", "Solution")),
        ("braces that do not match", "}}} class Main { MAIN", ("Main", "Main")),
        ("subclass and classes", "subclass A; classes B; class Main {}", ("Main", "Main")),
    ];
    for (what, code, (file, main)) in table {
        assert_eq!(classes(&code.replace("MAIN", MAIN)), (file.into(), main.into()), "{what}: {code}");
    }
}

#[test]
fn a_class_name_that_cannot_be_a_file_name_is_not_used() {
    let longest = "C".repeat(200);
    assert_eq!(classes(&format!("public class {longest} {{}}")), (longest.clone(), longest.clone()));
    assert_eq!(classes(&format!("public class {longest}C {{}}")), ("Solution".into(), "Solution".into()));
    assert_eq!(classes(&format!("public class {longest}C {{}} class A {{}}")), ("A".into(), "A".into()));
    assert_eq!(classes(&format!("package {}; class A {{}}", "p".repeat(1001))), ("A".into(), "A".into()));
}

#[test]
fn code_made_to_be_slow_is_searched_in_linear_time() {
    let pieces =
        ["class A { static void main( } ", "\"\"\"", "/*", "/*'a'", "\"\"\"'a'\\", "'", "'a\n", "{", "public final "];
    for piece in pieces {
        let code = piece.repeat(1024 * 1024 / piece.len());
        let started = std::time::Instant::now();
        let (file, _) = classes(&code);
        // Milliseconds if linear, even without optimization; hours if not.
        assert!(started.elapsed().as_secs() < 20, "{piece:?} took {:?}", started.elapsed());
        assert!(["A", "Solution"].contains(&file.as_str()), "{piece:?}: {file}");
    }
}

#[test]
fn an_alias_belongs_to_one_language() {
    let stanzas = [("a", language("a.x", &["same"])), ("b", language("b.x", &["SAME"]))];
    assert_eq!(problem(&stanzas), "languages.b: alias \"SAME\" belongs to a already");
}

#[test]
fn an_alias_is_not_the_name_of_another_language() {
    for alias in ["b", "B"] {
        let stanzas = [("a", language("a.x", &[alias])), ("b", language("b.x", &[]))];
        assert_eq!(problem(&stanzas), format!("languages.a: alias {alias:?} is the name of another language"));
    }
}

#[test]
fn a_source_that_is_no_plain_file_name_is_refused() {
    for source in ["", "a/b.c", "/etc/passwd", "../x.c", ".", "..", ".hidden", "a\0b"] {
        let problem = problem(&[("x", language(source, &[]))]);
        assert_eq!(problem, format!("languages.x: source {source:?} must be a plain file name"));
    }
}

#[test]
fn a_command_without_words_and_a_name_with_capitals_are_refused() {
    let good = language("a.x", &[]);
    let commandless = Compile { command: Vec::new(), ..builtin().get("c").unwrap().compile.clone().unwrap() };
    let table = [
        ("x", Language { run: Vec::new(), ..good.clone() }, "run and version must each name a command"),
        ("x", Language { version: Vec::new(), ..good.clone() }, "run and version must each name a command"),
        ("x", Language { compile: Some(commandless), ..good.clone() }, "compile.command must name a command"),
        ("Kotlin", good, "the name must be in lower case"),
    ];
    for (name, language, expected) in table {
        let problem = problem(&[(name, language)]);
        assert!(problem.starts_with(&format!("languages.{name}: {expected}")), "{problem}");
    }
}
