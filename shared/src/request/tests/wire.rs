//! The wire form: what is read, what is refused, and what is said about it.

use super::*;

#[test]
fn absent_and_null_limits_take_the_defaults() {
    let null = json!({"timeout_ms": null, "total_timeout_ms": null, "memory_limit_mb": null, "cpu_limit": null});
    for request in [minimal(), with(null)] {
        let limits = check(&request).unwrap().limits();
        let expected = Limits {
            timeout: Duration::from_millis(5_000),
            total_timeout: Duration::from_millis(60_000),
            memory_mb: 256,
            cpus: 1.0,
        };
        assert_eq!(limits, expected);
    }
}

#[test]
fn a_test_without_optional_fields_has_empty_ones() {
    let request = parse(&minimal());
    let expected = TestCase { expected_output: "1".into(), ..TestCase::default() };
    assert_eq!(request.test_cases, [expected]);
    assert!(request.metadata.is_empty());
}

#[test]
fn every_field_is_read() {
    let json = json!({
        "request_id": "all:1",
        "code": "print(1)",
        "language": "python3",
        "test_cases": [{
            "id": "first", "input": "in", "expected_output": "out",
            "is_hidden": true, "timeout_ms": 150, "description": "what it is for",
        }],
        "timeout_ms": 1000,
        "total_timeout_ms": 2000,
        "memory_limit_mb": 64,
        "cpu_limit": 0.5,
        "metadata": {"from": {"any": ["depth", 1, null]}},
    });
    let request = parse(&json);
    assert_eq!(serde_json::to_value(&request).unwrap(), json, "it is written as it was read");

    let job = check(&json).unwrap();
    assert_eq!((job.id().as_str(), job.code(), job.language().name()), ("all:1", "print(1)", "python"));
    let limits = job.limits();
    assert_eq!((limits.timeout.as_millis(), limits.total_timeout.as_millis()), (1000, 2000));
    assert_eq!((limits.memory_mb, limits.cpus), (64, 0.5));
    let test = Test {
        id: "first".into(),
        input: "in".into(),
        expected_output: "out".into(),
        timeout: Duration::from_millis(150),
    };
    assert_eq!(job.tests(), [test]);
}

#[test]
fn unknown_fields_are_ignored_however_deep_they_are() {
    let mut json = with(json!({"urgency": 7, "test_cases": [{"expected_output": "1", "points": [1, {}]}]}));
    assert!(check(&json).is_ok());
    json["new"] = json!({"request_id": "not this one"});
    assert_eq!(parse(&json).request_id.as_deref(), Some("r-1"));

    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = minimal().to_string().replacen('{', &format!("{{\"new\":{deep},"), 1);
    assert!(ExecutionRequest::from_json(body.as_bytes()).is_ok());
}

#[test]
fn a_value_of_the_wrong_type_names_its_field() {
    let table = [
        (with(json!({"code": 5})), "code"),
        (with(json!({"code": null})), "code"),
        (with(json!({"language": ["python"]})), "language"),
        (with(json!({"request_id": 5})), "request_id"),
        (with(json!({"test_cases": {}})), "test_cases"),
        (with(json!({"test_cases": [1]})), "test_cases[0]"),
        (
            with(json!({"test_cases": [{"expected_output": ""}, {"expected_output": 1}]})),
            "test_cases[1].expected_output",
        ),
        (with(json!({"test_cases": [{"expected_output": "", "is_hidden": "no"}]})), "test_cases[0].is_hidden"),
        (with(json!({"test_cases": [{"expected_output": "", "timeout_ms": "1"}]})), "test_cases[0].timeout_ms"),
        (with(json!({"timeout_ms": "5000"})), "timeout_ms"),
        (with(json!({"memory_limit_mb": 1.5})), "memory_limit_mb"),
        (with(json!({"cpu_limit": "1"})), "cpu_limit"),
        (with(json!({"metadata": []})), "metadata"),
    ];
    for (json, field) in table {
        let error = malformed(&json);
        assert_eq!(error.field, field, "{error}");
        assert!(error.message.contains("invalid type"), "{error}");
        assert!(error.to_string().starts_with(&format!("{field}: ")), "{error}");
    }
}

#[test]
fn a_field_that_is_missing_names_itself() {
    for field in ["code", "language", "test_cases"] {
        let mut json = minimal();
        json.as_object_mut().unwrap().remove(field);
        let error = malformed(&json);
        assert!(error.to_string().contains(&format!("missing field `{field}`")), "{error}");
    }
    let error = malformed(&with(json!({"test_cases": [{"id": "a"}]})));
    assert!(error.to_string().starts_with("test_cases[0]: missing field `expected_output`"), "{error}");
}

#[test]
fn absurd_numbers_are_refused_and_name_their_field() {
    for number in ["1e300", "-1e300", "99999999999999999999", "1e999", "NaN", "Infinity", "-", "1.5"] {
        for field in ["timeout_ms", "total_timeout_ms", "memory_limit_mb"] {
            let body = with(json!({field: 0}))
                .to_string()
                .replace(&format!("\"{field}\":0"), &format!("\"{field}\":{number}"));
            let error = ExecutionRequest::from_json(body.as_bytes()).expect_err(&body);
            assert_eq!(error.field, field, "{number}: {error}");
        }
    }
    for (field, number) in [("timeout_ms", i64::MIN), ("total_timeout_ms", i64::MAX), ("memory_limit_mb", -1)] {
        let problems = problems(json!({field: number}));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].0, field);
        assert!(problems[0].1.starts_with(&number.to_string()), "{problems:?}");
    }
}

#[test]
fn a_body_that_is_no_json_object_is_an_error() {
    let bodies: [&[u8]; 12] =
        [b"", b" ", b"null", b"[]", b"5", b"\"text\"", b"{", b"{}", b"\xff", b"\0", b"{\"code\":", b"\xef\xbb\xbf{}"];
    for body in bodies {
        let error = ExecutionRequest::from_json(body).expect_err("no request");
        assert!(!error.field.is_empty() && !error.message.is_empty(), "{error}");
        assert_eq!(error.request_id, None, "{body:?}");
    }
    let error = ExecutionRequest::from_json(b"5").expect_err("no request");
    assert_eq!(error.field, "request");
}

#[test]
fn a_body_that_goes_wrong_between_fields_names_the_nearest_thing_around() {
    let table = [
        (r#"{"timeout_ms":0x10}"#, "request"),
        (r#"{"code":"a" "b"}"#, "request"),
        (r#"{"code":"a",}"#, "request"),
        (r#"{"test_cases":[{"id":"a" 5}]}"#, "test_cases[0]"),
        (r#"{"test_cases":[{} {}]}"#, "test_cases[0]"),
        (r#"{"test_cases":[{"expected_output":""} {}]}"#, "test_cases"),
    ];
    for (body, field) in table {
        let error = ExecutionRequest::from_json(body.as_bytes()).expect_err(body);
        assert_eq!(error.field, field, "{body}: {error}");
    }
}

#[test]
fn every_cut_of_a_body_is_an_error() {
    let body = minimal().to_string();
    for length in 0..body.len() {
        assert!(ExecutionRequest::from_json(&body.as_bytes()[..length]).is_err(), "{}", &body[..length]);
    }
}

#[test]
fn metadata_is_taken_apart_only_if_it_is_small() {
    let body = |items: usize| with(json!({"metadata": {"bomb": vec![json!({"": 0}); items]}})).to_string();
    assert!(ExecutionRequest::from_json(body(1000).as_bytes()).is_ok());
    let error = ExecutionRequest::from_json(body(100_000).as_bytes()).expect_err("too large");
    assert_eq!(error.field, "metadata");
    assert!(error.message.contains("at most 65536"), "{error}");
    assert!(error.request_id.is_some());
}

#[test]
fn nesting_that_would_exhaust_the_stack_is_an_error() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for close in [close, ""] {
            let deep = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
            let body = minimal().to_string().replacen('{', &format!("{{\"metadata\":{{\"deep\":{deep}}},"), 1);
            let error = ExecutionRequest::from_json(body.as_bytes()).expect_err("too deep");
            let expected = ["recursion limit", "EOF", "expected"];
            assert!(expected.iter().any(|words| error.message.contains(words)), "{error}");
        }
    }
}

#[test]
fn what_follows_the_body_is_an_error_and_the_id_is_still_read() {
    for rest in ["x", "{}", "\0", "]"] {
        let body = format!("{}{rest}", minimal());
        let error = ExecutionRequest::from_json(body.as_bytes()).expect_err(rest);
        assert_eq!(error.field, "request");
        assert!(error.message.contains("trailing characters"), "{error}");
        assert_eq!(error.request_id, "r-1".parse().ok());
    }
    let spaced = format!("\n {}\r\n\t", minimal());
    assert!(ExecutionRequest::from_json(spaced.as_bytes()).is_ok());
}

#[test]
fn text_that_is_no_utf_8_is_an_error_and_the_id_is_still_read() {
    let mut body = minimal().to_string().into_bytes();
    let at = body.windows(5).position(|window| window == b"print").unwrap();
    body[at] = 0xff;
    let error = ExecutionRequest::from_json(&body).expect_err("no UTF-8");
    assert_eq!(error.field, "code");
    assert_eq!(error.request_id, "r-1".parse().ok());
}

#[test]
fn the_id_of_a_malformed_body_is_read_where_that_is_possible() {
    let readable = |json: Value| malformed(&json).request_id.map(String::from);
    assert_eq!(readable(with(json!({"code": 5}))).as_deref(), Some("r-1"));
    assert_eq!(readable(json!({"request_id": "only:this"})).as_deref(), Some("only:this"));
    for bad in [json!(5), json!(null), json!(""), json!("a b"), json!("a".repeat(129)), json!({"a": 1})] {
        assert_eq!(readable(json!({"request_id": bad})), None, "{bad}");
    }
    assert_eq!(readable(json!({"code": 5})), None);
    let twice = ExecutionRequest::from_json(br#"{"request_id": "a", "request_id": "b"}"#).expect_err("two ids");
    assert_eq!(twice.request_id, None, "which one is meant?");
}

#[test]
fn a_digest_tells_bodies_apart() {
    assert_eq!(Digest::of(b"one"), Digest::of(b"one"));
    assert_ne!(Digest::of(b"one"), Digest::of(b"two"));
    assert_eq!(Digest::of(b"").as_str(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn what_somebody_made_up_is_not_said_of_a_malformed_body() {
    let long = "k".repeat(100_000);
    for (body, field) in [
        (format!(r#"{{"request_id": "x", "{long}": tru}}"#), "request"),
        (format!(r#"{{"a\u001bb": tru, "code": "{long}"}}"#), "request"),
        (format!(r#"{{"test_cases": [{{"{long}": tru}}]}}"#), "test_cases[0]"),
        (r#"{"test_cases": [{"expected_output": "x"}, {"input": 1}]}"#.into(), "test_cases[1].input"),
        (format!(r#"{{"timeout_ms": "{long}"}}"#), "timeout_ms"),
    ] {
        let malformed = ExecutionRequest::from_json(body.as_bytes()).unwrap_err();
        assert_eq!(malformed.field, field);
        assert!(malformed.message.len() <= 300, "{}", malformed.message.len());
    }
}
