use super::*;

fn from_file(text: &str) -> Result<Settings, SettingsError> {
    Settings::build(Some(("/etc/fleet.toml".into(), text.into())), HashMap::new())
}

fn from_variables(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    Settings::layered(
        Some(&written("").path()),
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())),
    )
}

/// A settings file in a folder of its own.
struct Written(tempfile::TempDir);

impl Written {
    fn path(&self) -> PathBuf {
        self.0.path().join("settings.toml")
    }
}

fn written(text: &str) -> Written {
    let written = Written(tempfile::tempdir().unwrap());
    std::fs::write(written.path(), text).unwrap();
    written
}

fn none() -> impl Iterator<Item = (String, String)> {
    std::iter::empty()
}

#[test]
fn the_defaults_are_those_that_the_documented_file_shows() {
    let settings = Settings::defaults();
    assert_eq!(settings.queue.url, "amqp://127.0.0.1:5672/%2f");
    assert_eq!(settings.queue.name, "tribunal");
    assert_eq!(settings.store.url, "redis://127.0.0.1:6379/");
    assert!(!settings.store.allow_eviction);
    assert_eq!(settings.worker.max_attempts, 3);
    assert_eq!(settings.sandbox.kind, SandboxKind::Native);
    assert_eq!(settings.sandbox.output_limit_kb, 64);
    assert_eq!(settings.sandbox.max_processes, 64);
    assert_eq!(settings.sandbox.docker.pull_policy, PullPolicy::IfNotPresent);
    assert_eq!(settings.limits.max_code_bytes, 1024 * 1024);
    assert_eq!(settings.limits.max_tests, 1000);
    assert_eq!(settings.languages().iter().count(), 9, "python and python3 are one");
}

#[test]
fn no_slots_mean_one_for_each_core() {
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(Settings::defaults().worker.slots(), cores);
    assert_eq!(from_file("[worker]\nslots = 7").unwrap().worker.slots(), 7);
}

#[test]
fn the_documented_file_is_a_good_start_for_ones_own() {
    let settings = from_file(DEFAULTS).unwrap();
    assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::defaults()));
}

/// That an unknown key is refused makes every key of the default file a used one. This checks the converse: a setting
/// whose line is taken out is missed, so nothing has a second, hidden default.
#[test]
fn every_setting_has_its_default_in_the_documented_file_and_nowhere_else() {
    let lines: Vec<_> = DEFAULTS.lines().collect();
    let settings = lines.iter().enumerate().filter(|(_, line)| line.contains(" = ") && !line.starts_with('#'));
    let mut checked = 0;
    for (index, line) in settings {
        let rest: Vec<_> =
            lines.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, line)| *line).collect();
        let layers = Config::builder()
            .add_source(File::from_str(&rest.join("\n"), FileFormat::Toml))
            .add_source(File::from_str(LANGUAGES, FileFormat::Toml));
        let key = line.split(" = ").next().unwrap();
        let problem = Settings::from_files(layers).expect_err(line);
        assert!(problem.ends_with(&format!("missing field `{key}`")), "{line}: {problem}");
        checked += 1;
    }
    assert!(checked > 25, "only {checked} settings were found in the documented file");
}

#[test]
fn a_file_overrides_single_defaults() {
    let settings = from_file("[queue]\nname = 'exam'\n[limits.memory_mb]\nmax = 2048").unwrap();
    assert_eq!(settings.queue.name, "exam");
    assert_eq!(settings.queue.url, "amqp://127.0.0.1:5672/%2f");
    assert_eq!((settings.limits.memory_mb.min, settings.limits.memory_mb.max), (16, 2048));
}

#[test]
fn the_environment_overrides_the_file() {
    let file = written("[queue]\nurl = 'amqp://file/'\nname = 'file'");
    let variables = [("TRIBUNAL_QUEUE__URL", "amqp://environment/"), ("PATH", "/bin"), ("OTHER_QUEUE__NAME", "x")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::layered(Some(&file.path()), variables.into_iter()).unwrap();
    assert_eq!(settings.queue.url, "amqp://environment/");
    assert_eq!(settings.queue.name, "file");
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let settings = from_variables(&[("TRIBUNAL_QUEUE__URL", ""), ("TRIBUNAL_CONFIG", "")]).unwrap();
    assert_eq!(settings.queue.url, Settings::defaults().queue.url);
}

#[test]
fn variables_are_converted_to_the_kind_of_their_key_and_text_is_left_alone() {
    for text in ["123", "007", "1e3", "1.10", "true", "NaN", "a b"] {
        assert_eq!(from_variables(&[("TRIBUNAL_QUEUE__NAME", text)]).unwrap().queue.name, text);
    }
    let settings = from_variables(&[
        ("TRIBUNAL_QUEUE__URL", "amqp://me:p%40ss@10.0.0.1:5672/%2f?heartbeat=5"),
        ("TRIBUNAL_STORE__ALLOW_EVICTION", "true"),
        ("TRIBUNAL_WORKER__SLOTS", "4"),
        ("TRIBUNAL_LIMITS__CPU__MAX", "2.5"),
        ("TRIBUNAL_LIMITS__TIMEOUT_MS__DEFAULT", "250"),
        ("TRIBUNAL_SANDBOX__DOCKER__PULL_POLICY", "never"),
        ("TRIBUNAL_SANDBOX__DOCKER__USER", "1000"),
        ("TRIBUNAL_LANGUAGES__PYTHON__IMAGE", "local/python"),
        ("tribunal_sandbox__kind", "docker"),
        ("TRIBUNAL_QUEUE__SEPARATE", "rust, java"),
        ("TRIBUNAL_WORKER__LANGUAGES", "rust"),
        ("TRIBUNAL_WORKER__LISTEN", "0.0.0.0:9100"),
    ])
    .unwrap();
    assert_eq!(settings.queue.separate, ["rust", "java"]);
    assert_eq!(
        (&settings.worker.languages[..], settings.worker.listen.as_str()),
        (&["rust".to_owned()][..], "0.0.0.0:9100")
    );
    assert_eq!(settings.queue.url, "amqp://me:p%40ss@10.0.0.1:5672/%2f?heartbeat=5");
    assert!(settings.store.allow_eviction);
    assert_eq!(settings.worker.slots(), 4);
    assert_eq!(settings.limits.cpu.max, 2.5);
    assert_eq!(settings.limits.timeout_ms.default, 250);
    assert_eq!(settings.sandbox.docker.pull_policy, PullPolicy::Never);
    assert_eq!(settings.sandbox.docker.user, "1000");
    assert_eq!(settings.languages().get("python").unwrap().image, "local/python");
}

#[test]
fn what_is_wrong_in_a_file_names_its_key_its_value_and_the_file() {
    let table = [
        ("[queue]\nnmae = 'x'", "queue.nmae: unknown field `nmae`, expected one of `url`, `name`, `separate`"),
        ("[que]\nurl = 'x'", "que: unknown field `que`, expected one of `queue`"),
        ("queue = 5", "queue: invalid type: integer `5`, expected a table"),
        ("[queue]\nurl = 5", "queue.url: invalid type: integer `5`, expected a string"),
        ("[worker]\nslots = 'many'", "worker.slots: invalid type: string \"many\""),
        ("[worker]\nslots = true", "worker.slots: invalid type: boolean `true`"),
        ("[worker]\nslots = 1.5", "worker.slots: invalid type: floating point `1.5`"),
        ("[worker]\nslots = -1", "worker.slots: invalid value: integer `-1`"),
        ("[worker]\nmax_attempts = 4294967297", "worker.max_attempts: invalid value: integer `4294967297`"),
        ("[store]\nallow_eviction = 'no'", "store.allow_eviction: invalid type: string \"no\""),
        ("[sandbox]\nkind = 'podman'", "sandbox.kind: unknown variant `podman`, expected `native` or `docker`"),
        ("[sandbox.docker]\npull_policy = 'maybe'", "pull_policy: unknown variant `maybe`, expected one of `always`"),
        ("[limits.timeout_ms]\nmin = 'x'", "limits.timeout_ms.min: invalid type: string \"x\""),
        ("[languages.python]\nimge = 'x'", "languages.python.imge: unknown field `imge`, expected one of"),
        ("[languages.python]\nrun = 'x'", "languages.python.run: invalid type: string \"x\", expected a sequence"),
        ("[languages.c.compile]\ncomand = []", "languages.c.compile.comand: unknown field `comand`"),
        ("[languages.kotlin]\nimage = 'x'", "languages.kotlin: missing field `source`"),
        ("[languages.c]\naliases = ['c++']", "languages.cpp: alias \"c++\" belongs to c already"),
        ("[languages.c]\naliases = ['Java']", "languages.c: alias \"Java\" is the name of another language"),
        ("[languages.c]\nsource = 'a/b.c'", "languages.c: source \"a/b.c\" must be a plain file name"),
        ("[queue]\nseparate = ['cobol']", "queue.separate: \"cobol\" is not the name of a language"),
        ("[queue]\nseparate = ['c++']", "queue.separate: \"c++\" is not the name of a language"),
        ("[queue]\nseparate = 5", "queue.separate: must be a list of words"),
        (
            "[worker]\nlanguages = ['rust']",
            "worker.languages: \"rust\" has no queue of its own; add it to queue.separate",
        ),
        ("[worker]\nlisten = '9100'", "worker.listen: \"9100\" is no address like 127.0.0.1:9100"),
        ("a = = b", "TOML parse error at line 1, column 5"),
    ];
    for (text, problem) in table {
        let error = from_file(text).expect_err(text).to_string();
        assert!(error.contains(problem), "{text:?}: {error}");
        assert!(error.starts_with("settings: ") && error.ends_with(" (in /etc/fleet.toml)"), "{text:?}: {error}");
    }
}

#[test]
fn what_is_wrong_in_the_environment_names_its_key_its_value_and_the_variable() {
    let table = [
        ("TRIBUNAL_QUEUE__NMAE", "x", "queue.nmae: unknown field `nmae`, expected one of `url`, `name`"),
        ("TRIBUNAL_QUEUE_URL", "x", "queue_url: unknown field `queue_url`, expected one of `queue`"),
        ("TRIBUNAL_QUEUE", "x", "queue: invalid type: string \"x\", expected a table"),
        ("TRIBUNAL_WORKER__SLOTS", "many", "worker.slots: invalid type: string \"many\", expected an integer"),
        ("TRIBUNAL_WORKER__SLOTS", "-4", "worker.slots: invalid type: string \"-4\", expected an integer"),
        ("TRIBUNAL_WORKER__SLOTS", "1.5", "worker.slots: invalid type: string \"1.5\", expected an integer"),
        ("TRIBUNAL_STORE__ALLOW_EVICTION", "maybe", "store.allow_eviction: invalid type: string \"maybe\""),
        ("TRIBUNAL_SANDBOX__KIND", "podman", "sandbox.kind: unknown variant `podman`, expected `native` or `docker`"),
        ("TRIBUNAL_LANGUAGES__C__RUN", "a", "languages.c.run: invalid type: string \"a\", expected a sequence"),
        ("TRIBUNAL_LIMITS__TIMEOUT_MS__MIN", "70000", "limits.timeout_ms: min <= default <= max does not hold"),
    ];
    for (name, value, problem) in table {
        // Another variable, which is right, must not be blamed.
        let error = from_variables(&[("TRIBUNAL_STORE__URL", "redis://other/"), (name, value)]).expect_err(name);
        let expected = format!("(in {name})");
        let error = error.to_string();
        assert!(error.contains(problem) && error.ends_with(&expected), "{name}={value}: {error}");
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let table = [
        ("[limits.timeout_ms]\ndefault = 99", "limits.timeout_ms: min <= default <= max does not hold"),
        ("[limits.timeout_ms]\ndefault = 60001", "limits.timeout_ms: min <= default <= max does not hold"),
        ("[limits.memory_mb]\nmin = 257", "limits.memory_mb: min <= default <= max does not hold"),
        ("[limits.total_timeout_ms]\ndefault = 4999", "limits.total_timeout_ms: limits.timeout_ms.default <= default"),
        ("[limits.total_timeout_ms]\nmax = 59999", "limits.total_timeout_ms: limits.timeout_ms.default <= default"),
        ("[limits.cpu]\ndefault = 0.0", "limits.cpu: 0 < default <= max does not hold"),
        ("[limits.cpu]\nmax = 0.5", "limits.cpu: 0 < default <= max does not hold"),
        ("[limits.cpu]\ndefault = nan", "limits.cpu"),
        ("[queue]\nname = ''", "queue.name: must be 1 to 200 bytes long"),
        ("[sandbox]\nworkspace_root = 'tmp'", "sandbox.workspace_root: must be an absolute path"),
    ];
    for (text, problem) in table {
        let error = from_file(text).expect_err(text).to_string();
        assert!(error.contains(problem), "{text:?}: {error}");
    }
    for name in ["n".repeat(200), "ü".repeat(100)] {
        assert!(from_file(&format!("[queue]\nname = '{name}'")).is_ok());
        assert!(from_file(&format!("[queue]\nname = '{name}x'")).is_err());
    }
}

#[test]
fn values_out_of_bounds_are_refused_with_the_bounds() {
    let table = [
        ("store", "result_ttl_s", Some(0), Some(315_360_001)),
        ("worker", "slots", None, Some(1025)),
        ("worker", "max_attempts", Some(0), Some(11)),
        ("worker", "grace_s", None, Some(3601)),
        ("sandbox", "output_limit_kb", Some(0), Some(65_537)),
        ("sandbox", "result_output_kb", Some(0), Some(262_145)),
        ("sandbox", "max_processes", Some(0), Some(100_001)),
        ("sandbox", "tmp_mb", Some(0), Some(65_537)),
        ("sandbox", "workspace_limit_mb", Some(0), Some(1_048_577)),
        ("sandbox", "wall_allowance_ms", None, Some(60_001)),
        ("limits", "max_code_bytes", Some(0), None),
        ("limits", "max_tests", Some(0), None),
        ("limits", "max_request_bytes", Some(0), None),
        ("limits.timeout_ms", "min", Some(0), Some(86_400_001)),
        ("limits.timeout_ms", "max", Some(0), Some(86_400_001)),
        ("limits.total_timeout_ms", "max", Some(0), Some(86_400_001)),
        ("limits.memory_mb", "min", Some(0), Some(1_048_577)),
        ("limits.memory_mb", "max", Some(0), Some(1_048_577)),
    ];
    for (section, key, below, above) in table {
        for value in [below, above].into_iter().flatten() {
            let error = from_file(&format!("[{section}]\n{key} = {value}")).expect_err(key).to_string();
            let bounds = match (below, above) {
                (Some(below), None) => format!("is less than {}", below + 1),
                (below, above) => {
                    let least = below.map_or(0, |below| below + 1);
                    format!("is not between {least} and {}", above.expect("a bound") - 1)
                }
            };
            assert!(error.contains(&format!("{section}.{key}: {value} {bounds}")), "{error}");
        }
        // The bounds themselves are in, but for the limits of a request, which also bound each other.
        let bounds = [below.map(|below: u64| below + 1), above.map(|above: u64| above - 1)];
        for value in bounds.into_iter().flatten().filter(|_| !section.starts_with("limits.")) {
            assert!(from_file(&format!("[{section}]\n{key} = {value}")).is_ok(), "{section}.{key} = {value}");
        }
    }
    for cores in ["0.0", "-1.0", "1024.5"] {
        let error = from_file(&format!("[limits.cpu]\nmax = {cores}")).expect_err(cores).to_string();
        assert!(error.contains("limits.cpu.max") && error.contains("1024"), "{error}");
    }
}

#[test]
fn a_variable_is_not_blamed_for_another_whose_name_begins_alike() {
    for (wrong, right) in [("TRIBUNAL_QUEU__URL", "TRIBUNAL_QUEUE__NAME"), ("TRIBUNAL_Q", "TRIBUNAL_QUEUE__NAME")] {
        let error = from_variables(&[(wrong, "x"), (right, "x")]).expect_err(wrong).to_string();
        assert!(error.ends_with(&format!("(in {wrong})")), "{error}");
    }
}

#[test]
fn single_keys_of_a_language_are_overridden_and_the_others_stay() {
    let text =
        "[languages.go]\nimage = 'local/go'\n[languages.go.compile]\nmemory_mb = 777\n[languages.go.env]\nGOGC = 'off'";
    let settings = from_file(text).unwrap();
    let go = settings.languages().get("golang").unwrap();
    let default = Settings::defaults().languages().get("go").unwrap();
    assert_eq!(go.image, "local/go");
    assert_eq!(go.compile.as_ref().unwrap().memory_mb, 777);
    assert_eq!(go.compile.as_ref().unwrap().processes, default.compile.as_ref().unwrap().processes);
    assert_eq!(go.commands("", 1), default.commands("", 1));
    assert_eq!(go.env["GOGC"], "off");
    assert_eq!(go.env["GOCACHE"], default.env["GOCACHE"]);
}

#[test]
fn a_language_is_added_by_a_stanza_alone() {
    let text = "[languages.kotlin]\naliases = ['kt']\nimage = 'local/kotlin'\nsource = 'solution.kt'\n\
                run = ['java', '-jar', 'solution.jar']\nversion = ['kotlinc', '-version']\n\
                compile.command = ['kotlinc', '{source}', '-d', 'solution.jar']";
    let languages = from_file(text).unwrap().languages();
    let kotlin = languages.get("KT").unwrap();
    assert_eq!(kotlin.name(), "kotlin");
    assert_eq!(kotlin.commands("", 1).compile.unwrap()[1], "solution.kt");
    assert_eq!(languages.by_extension("kt").unwrap().name(), "kotlin");
    assert!(languages.get("python").is_some());
}

#[test]
fn a_file_that_was_named_must_be_there_and_the_error_says_who_named_it() {
    let error = Settings::layered(Some(Path::new("/nonexistent/a.toml")), none()).unwrap_err().to_string();
    assert!(error.contains("the file /nonexistent/a.toml named by --config cannot be read"), "{error}");

    let variable = ("TRIBUNAL_CONFIG".to_owned(), "/nonexistent/b.toml".to_owned());
    let error = Settings::layered(None, [variable.clone()].into_iter()).unwrap_err().to_string();
    assert!(error.contains("the file /nonexistent/b.toml named by TRIBUNAL_CONFIG cannot be read"), "{error}");

    // The flag wins, and the variable's file is not even looked at.
    let file = written("[queue]\nname = 'flag'");
    let settings = Settings::layered(Some(&file.path()), [variable].into_iter()).unwrap();
    assert_eq!(settings.queue.name, "flag");
}

#[test]
fn the_file_named_in_the_environment_is_read() {
    let file = written("[queue]\nname = 'named'");
    let variable = ("TRIBUNAL_CONFIG".to_owned(), file.path().display().to_string());
    assert_eq!(Settings::layered(None, [variable].into_iter()).unwrap().queue.name, "named");
}

#[test]
fn a_file_that_is_no_text_is_an_error() {
    let file = written("");
    std::fs::write(file.path(), b"[queue]\nname = '\xff'").unwrap();
    let error = Settings::layered(Some(&file.path()), none()).unwrap_err().to_string();
    assert!(error.contains("settings.toml named by --config cannot be read"), "{error}");
}
