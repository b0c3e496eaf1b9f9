//! What holds for any request at all.

use proptest::prelude::*;

use super::*;

/// Mostly within bounds, often at one, sometimes absurd.
fn number(bounds: [i64; 2]) -> impl Strategy<Value = Option<i64>> {
    let [min, max] = bounds;
    prop_oneof![
        3 => Just(None),
        4 => (min..=max).prop_map(Some),
        2 => prop::sample::select(vec![min - 1, min, max, max + 1, 0, -1]).prop_map(Some),
        1 => any::<i64>().prop_map(Some),
    ]
}

fn test_case() -> impl Strategy<Value = TestCase> {
    let id = prop_oneof![4 => Just(None), 2 => "[a-z0-9]{1,6}".prop_map(Some), 1 => ".{0,140}".prop_map(Some)];
    (id, ".{0,8}", ".{0,8}", number([100, 60_000])).prop_map(|(id, input, expected_output, timeout_ms)| TestCase {
        id,
        input,
        expected_output,
        timeout_ms,
        ..TestCase::default()
    })
}

fn request() -> impl Strategy<Value = ExecutionRequest> {
    let id = prop_oneof![6 => "[A-Za-z0-9._:-]{1,128}".prop_map(Some), 1 => ".{0,140}".prop_map(Some), 1 => Just(None)];
    let code = prop_oneof![4 => "print\\([0-9]{1,3}\\)", 1 => "\\PC{0,20}", 1 => "[\0 x]{0,4}"];
    let language = prop_oneof![8 => prop::sample::select(vec!["python", "python3", "C", "java"]).prop_map(String::from), 1 => ".{0,9}"];
    let cpus = prop_oneof![3 => Just(None), 2 => (0.0..9.0).prop_map(Some), 1 => any::<f64>().prop_map(Some)];
    let limits = (number([100, 60_000]), number([100, 600_000]), number([16, 1024]), cpus);
    let priority = prop_oneof![3 => Just(None), 3 => prop::sample::select(vec!["low", "normal", "high"]).prop_map(|word| Some(word.into())), 1 => ".{0,7}".prop_map(Some)];
    (id, code, language, prop::collection::vec(test_case(), 0..6), limits, priority).prop_map(
        |(request_id, code, language, test_cases, limits, priority)| {
            let (timeout_ms, total_timeout_ms, memory_limit_mb, cpu_limit) = limits;
            let metadata = serde_json::Map::new();
            ExecutionRequest {
                request_id,
                code,
                language,
                test_cases,
                timeout_ms,
                total_timeout_ms,
                memory_limit_mb,
                cpu_limit,
                priority,
                metadata,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_passes_the_check_respects_all_bounds(request in request()) {
        let asked = request.clone();
        match Job::check(request, &SETTINGS.limits, &LANGUAGES) {
            Ok(job) => {
                let limits = job.limits();
                prop_assert!((100..=60_000).contains(&limits.timeout.as_millis()));
                prop_assert!(limits.total_timeout >= limits.timeout && limits.total_timeout.as_secs() <= 600);
                prop_assert!((16..=1024).contains(&limits.memory_mb));
                prop_assert!(limits.cpus > 0.0 && limits.cpus <= 8.0);
                prop_assert!(!job.code().trim().is_empty() && !job.code().contains('\0'));
                prop_assert!((1..=128).contains(&job.id().as_str().len()));
                prop_assert_eq!(job.tests().len(), asked.test_cases.len());
                let ids: HashSet<_> = job.tests().iter().map(|test| &test.id).collect();
                prop_assert_eq!(ids.len(), job.tests().len());
                for test in job.tests() {
                    prop_assert!((100..=60_000).contains(&test.timeout.as_millis()));
                    prop_assert!((1..=128).contains(&test.id.chars().count()));
                }
            }
            Err(Rejection::Invalid(problems)) => {
                prop_assert!(!problems.is_empty());
                prop_assert!(problems.iter().all(|problem| !problem.field.is_empty() && !problem.message.is_empty()));
            }
            Err(Rejection::UnsupportedLanguage(name)) => prop_assert!(LANGUAGES.get(&name).is_none()),
        }
    }

    #[test]
    fn what_is_written_is_read_again(request in request()) {
        prop_assume!(request.cpu_limit.is_none_or(f64::is_finite));
        let body = serde_json::to_vec(&request).unwrap();
        let read = ExecutionRequest::from_json(&body).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(read, request);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let error = ExecutionRequest::from_json(&body).expect_err("noise is no request");
        prop_assert!(!error.message.is_empty());
    }

    #[test]
    fn no_damage_to_a_body_makes_the_parser_panic(at in 0_usize..70, bytes in prop::collection::vec(any::<u8>(), 0..4)) {
        let mut body = minimal().to_string().into_bytes();
        let end = (at + bytes.len()).min(body.len());
        body.splice(at..end, bytes);
        match ExecutionRequest::from_json(&body) {
            Ok(request) => prop_assert!(serde_json::from_slice::<Value>(&body).is_ok(), "{:?}", request),
            Err(error) => prop_assert!(!error.field.is_empty() && !error.message.is_empty()),
        }
    }
}
