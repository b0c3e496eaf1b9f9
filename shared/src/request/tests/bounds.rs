//! Every rule of validation, on both sides of its bound.

use super::*;

const MAX_CODE: usize = 1024 * 1024;

#[test]
fn a_request_without_an_id_or_with_a_bad_one_is_told_so() {
    for id in [json!(null), json!(""), json!("a b"), json!("a".repeat(129)), json!("a/b"), json!("é"), json!("a\0")] {
        let problems = problems(json!({"request_id": id}));
        let message = "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -".to_owned();
        assert_eq!(problems, [("request_id".to_owned(), message)], "{id}");
    }
}

#[test]
fn an_id_has_1_to_128_characters_of_its_alphabet() {
    let all: String = ('!'..='~').filter(|c| c.is_ascii_alphanumeric() || "._:-".contains(*c)).collect();
    assert_eq!(all.len(), 66);
    for good in ["a", "-", "..", &all, &"x".repeat(128), RequestId::generate().as_str()] {
        assert_eq!(good.parse::<RequestId>().expect(good).as_str(), good);
        assert_eq!(serde_json::to_value(good.parse::<RequestId>().unwrap()).unwrap(), good);
    }
    for bad in
        ["", &"x".repeat(129), "a b", "a\n", "a*", "a{b}", "ä", "a/b", "a\\b", "a\0", "a%20", "a,b", "a\u{2024}b"]
    {
        assert_eq!(bad.parse::<RequestId>(), Err(BadRequestId), "{bad:?}");
        assert!(serde_json::from_value::<RequestId>(json!(bad)).is_err(), "{bad:?}");
    }
}

#[test]
fn generated_ids_are_new_and_sort_by_time() {
    let ids: Vec<_> = (0..1000).map(|_| RequestId::generate().to_string()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn code_is_neither_blank_nor_longer_than_1_mib() {
    for blank in ["", " \t\r\n", "\0", "\0 \n\0", "\u{a0}\u{2003}"] {
        assert_eq!(problems(json!({"code": blank})), [("code".into(), "is empty".into())], "{blank:?}");
    }
    assert_eq!(fields(json!({"code": "x".repeat(MAX_CODE)})), [""; 0]);
    let message = "is 1048577 bytes long, at most 1048576 are allowed".to_owned();
    assert_eq!(problems(json!({"code": "x".repeat(MAX_CODE + 1)})), [("code".into(), message)]);
    assert_eq!(fields(json!({"code": "ü".repeat(MAX_CODE / 2)})), [""; 0], "bytes count, not characters");
    assert_eq!(fields(json!({"code": "ü".repeat(MAX_CODE / 2) + "x"})), ["code"]);
}

#[test]
fn nul_bytes_are_stripped_from_code_and_do_not_count() {
    let job = check(&with(json!({"code": "\0pri\0nt(1)\0"}))).unwrap();
    assert_eq!(job.code(), "print(1)");
    let code = "x".repeat(MAX_CODE) + "\0";
    assert_eq!(check(&with(json!({"code": code}))).unwrap().code().len(), MAX_CODE);
}

#[test]
fn nul_bytes_stay_in_input_and_expected_output() {
    let job = check(&with(json!({"test_cases": [{"input": "\0i", "expected_output": "o\0"}]}))).unwrap();
    assert_eq!((job.tests()[0].input.as_str(), job.tests()[0].expected_output.as_str()), ("\0i", "o\0"));
}

#[test]
fn numbers_are_right_up_to_their_bounds_and_wrong_beyond() {
    let table = [
        ("timeout_ms", vec![json!(100), json!(60_000)], vec![json!(99), json!(60_001), json!(0), json!(-1)]),
        (
            "total_timeout_ms",
            vec![json!(5_000), json!(600_000)],
            vec![json!(4_999), json!(600_001), json!(0), json!(-1)],
        ),
        ("memory_limit_mb", vec![json!(16), json!(1024)], vec![json!(15), json!(1025), json!(0), json!(-256)]),
        (
            "cpu_limit",
            vec![json!(8), json!(8.0), json!(0.001), json!(f64::MIN_POSITIVE)],
            vec![json!(8.000001), json!(0), json!(0.0), json!(-0.0), json!(-1), json!(1e300)],
        ),
    ];
    for (field, right, wrong) in table {
        for value in right {
            assert_eq!(problems(json!({field: value})), [], "{field}: {value}");
        }
        for value in wrong {
            let problems = problems(json!({field: value}));
            assert_eq!(problems.len(), 1, "{field}: {value}: {problems:?}");
            assert_eq!(problems[0].0, field);
            assert!(problems[0].1.contains(" not "), "{problems:?}");
        }
    }
}

#[test]
fn a_message_says_the_value_and_the_bounds() {
    let table = [
        (json!({"timeout_ms": 99}), "99 ms is not between 100 and 60000 ms"),
        (json!({"memory_limit_mb": 2048}), "2048 MB is not between 16 and 1024 MB"),
        (json!({"cpu_limit": 8.5}), "8.5 is not more than 0 and at most 8"),
        (json!({"priority": "urgent"}), "\"urgent\" is neither low, normal nor high"),
        (json!({"total_timeout_ms": 4_999}), "4999 ms is not between timeout_ms (5000) and 600000 ms"),
    ];
    for (changes, message) in table {
        assert_eq!(problems(changes)[0].1, message);
    }
}

#[test]
fn a_total_timeout_below_one_timeout_is_named() {
    assert_eq!(fields(json!({"timeout_ms": 7_000, "total_timeout_ms": 7_000})), [""; 0]);
    assert_eq!(fields(json!({"timeout_ms": 7_001, "total_timeout_ms": 7_000})), ["total_timeout_ms"]);
    assert_eq!(fields(json!({"timeout_ms": 60_000})), [""; 0], "the default total is enough for the longest timeout");
}

#[test]
fn a_wrong_timeout_is_not_held_against_the_total() {
    assert_eq!(fields(json!({"timeout_ms": 50, "total_timeout_ms": 3_000})), ["timeout_ms"]);
    assert_eq!(fields(json!({"timeout_ms": 90_000, "total_timeout_ms": 90_000})), ["timeout_ms"]);
    assert_eq!(fields(json!({"timeout_ms": 50, "total_timeout_ms": 50})), ["timeout_ms", "total_timeout_ms"]);
}

#[test]
fn there_are_1_to_1000_tests() {
    assert_eq!(problems(json!({"test_cases": []})), [("test_cases".into(), "no test cases provided".into())]);
    assert_eq!(fields(json!({"test_cases": tests(1)})), [""; 0]);
    assert_eq!(fields(json!({"test_cases": tests(1000)})), [""; 0]);
    let message = "has 1001 tests, at most 1000 are allowed".to_owned();
    assert_eq!(problems(json!({"test_cases": tests(1001)})), [("test_cases".into(), message)]);
}

#[test]
fn tests_without_an_id_are_named_by_their_position() {
    let cases =
        json!([{"expected_output": ""}, {"id": "mine", "expected_output": ""}, {"id": null, "expected_output": ""}]);
    let job = check(&with(json!({"test_cases": cases}))).unwrap();
    let ids: Vec<_> = job.tests().iter().map(|test| test.id.as_str()).collect();
    assert_eq!(ids, ["test_0", "mine", "test_2"]);
}

#[test]
fn an_id_used_twice_is_named_even_if_one_was_given_by_position() {
    let cases = |ids: [Option<&str>; 3]| json!(ids.map(|id| json!({"id": id, "expected_output": ""})));
    let table = [([Some("a"), Some("b"), Some("a")], "a"), ([Some("test_2"), Some("b"), None], "test_2")];
    for (ids, twice) in table {
        let problems = problems(json!({"test_cases": cases(ids)}));
        assert_eq!(problems, [("test_cases[2].id".into(), format!("{twice:?} is used twice"))]);
    }
    assert_eq!(fields(json!({"test_cases": cases([Some("a"), Some("A"), Some("a ")])})), [""; 0]);
}

#[test]
fn the_id_of_a_test_has_1_to_128_characters_and_no_control_characters() {
    let with_id = |id: &str| json!({"test_cases": [{"id": id, "expected_output": ""}]});
    for good in ["1", "ünï/ #✓", &"é".repeat(128)] {
        assert_eq!(fields(with_id(good)), [""; 0], "{good:?}");
    }
    for bad in ["", "a\nb", "\0", "a\u{1b}[31m", "\u{85}", &"x".repeat(129)] {
        assert_eq!(fields(with_id(bad)), ["test_cases[0].id"], "{bad:?}");
    }
}

#[test]
fn a_test_may_have_a_timeout_of_its_own_within_the_same_range() {
    let cases = |own: i64| json!([{"expected_output": ""}, {"expected_output": "", "timeout_ms": own}]);
    for own in [100, 60_000] {
        let job = check(&with(json!({"timeout_ms": 250, "test_cases": cases(own)}))).unwrap();
        let timeouts: Vec<_> = job.tests().iter().map(|test| test.timeout.as_millis() as i64).collect();
        assert_eq!(timeouts, [250, own]);
    }
    for own in [99, 60_001, 0, -1, i64::MIN] {
        assert_eq!(fields(json!({"test_cases": cases(own)})), ["test_cases[1].timeout_ms"], "{own}");
    }
}

#[test]
fn python3_is_python_and_case_does_not_matter() {
    for name in ["python", "python3", "Python", "PYTHON3"] {
        assert_eq!(check(&with(json!({"language": name}))).unwrap().language().name(), "python");
    }
}

#[test]
fn an_unknown_language_alone_is_unsupported_and_with_other_problems_one_of_them() {
    assert_eq!(check(&with(json!({"language": "cobol"}))).unwrap_err(), Rejection::UnsupportedLanguage("cobol".into()));
    let problems = problems(json!({"language": "cobol", "timeout_ms": 1}));
    assert_eq!(problems[0].0, "timeout_ms");
    assert_eq!(problems[1], ("language".into(), "\"cobol\" is not supported".into()));
}

#[test]
fn a_hostile_name_of_a_language_is_not_echoed_at_any_length() {
    let long = "ß".repeat(1_000_000);
    let Err(Rejection::UnsupportedLanguage(echo)) = check(&with(json!({"language": long}))) else {
        panic!("it is not supported");
    };
    assert_eq!(echo, "ß".repeat(64));
    assert!(problems(json!({"language": long, "timeout_ms": 1}))[1].1.chars().count() < 100);
}

#[test]
fn all_problems_are_named_at_once_each_with_its_field() {
    let everything = json!({
        "request_id": "?",
        "code": " ",
        "language": "cobol",
        "timeout_ms": 1,
        "total_timeout_ms": 1,
        "memory_limit_mb": 1,
        "cpu_limit": 0,
        "test_cases": [
            {"id": "", "expected_output": "", "timeout_ms": 1},
            {"id": "a", "expected_output": ""},
            {"id": "a", "expected_output": ""},
        ],
    });
    let expected = [
        "request_id",
        "code",
        "timeout_ms",
        "memory_limit_mb",
        "total_timeout_ms",
        "cpu_limit",
        "test_cases[0].id",
        "test_cases[0].timeout_ms",
        "test_cases[2].id",
        "language",
    ];
    assert_eq!(fields(everything.clone()), expected);

    let message = check(&with(everything)).unwrap_err().to_string();
    assert_eq!(message.split("; ").count(), expected.len(), "{message}");
    for (part, field) in message.split("; ").zip(expected) {
        assert!(part.starts_with(&format!("{field}: ")), "{part}");
    }
}

#[test]
fn bounds_are_configuration() {
    let mut limits = SETTINGS.limits.clone();
    limits.max_code_bytes = 3;
    limits.max_tests = 1;
    limits.timeout_ms = Range { default: 20, min: 10, max: 30 };
    limits.total_timeout_ms.default = 25;
    limits.total_timeout_ms.max = 50;
    limits.memory_mb = Range { default: 2, min: 1, max: 3 };
    limits.cpu.max = 0.5;
    limits.cpu.default = 0.25;
    let check = |changes: Value| Job::check(parse(&with(changes)), &limits, &LANGUAGES);

    let job = check(json!({"code": "1+1"})).unwrap();
    assert_eq!((job.limits().timeout.as_millis(), job.limits().total_timeout.as_millis()), (20, 25));
    assert_eq!((job.limits().memory_mb, job.limits().cpus), (2, 0.25));
    let beyond = json!({
        "code": "1+11", "timeout_ms": 31, "total_timeout_ms": 51, "memory_limit_mb": 4, "cpu_limit": 1, "test_cases": tests(2),
    });
    let Err(Rejection::Invalid(problems)) = check(beyond) else { panic!("everything is beyond its bounds") };
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["code", "timeout_ms", "memory_limit_mb", "total_timeout_ms", "cpu_limit", "test_cases"]);
}
