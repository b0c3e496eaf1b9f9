//! The numbers, for people and for scripts.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment};
use serde_json::{Value, json};

use super::super::args::BenchKind;
use super::super::{escape, render};
use super::PerKind;
use super::measure::{GAP, Latency, Measured, Plan};

pub fn text(rows: &PerKind<Measured>, plan: &Plan, colours: bool) -> String {
    let lanes = format!("{} AT ONCE", plan.lanes);
    let gapped = format!("P50, {} MS APART", GAP.as_millis());
    let header = ["KIND", "P50", "P95", "× BARE", "CPU", "ONE AT A TIME", lanes.as_str(), gapped.as_str(), "× BARE"];
    let mut table = render::table(&header, colours);
    for numbers in table.column_iter_mut().skip(1) {
        numbers.set_cell_alignment(CellAlignment::Right);
    }
    for (kind, measured) in rows {
        if let Ok(measured) = measured {
            let Measured { back_to_back, gapped, cpu_ms, one_at_a_time_per_s, all_lanes_per_s } = measured;
            let ms = |number: &f64| format!("{} ms", short(*number));
            let per_second = |number: &f64| format!("{}/s", short(*number));
            table.add_row([
                Cell::new(kind.name()),
                Cell::new(ms(&back_to_back.p50_ms)),
                Cell::new(ms(&back_to_back.p95_ms)),
                Cell::new(short(back_to_back.times_bare)),
                Cell::new(ms(cpu_ms)),
                Cell::new(per_second(one_at_a_time_per_s)),
                Cell::new(per_second(all_lanes_per_s)),
                Cell::new(ms(&gapped.p50_ms)),
                Cell::new(short(gapped.times_bare)),
            ]);
        }
    }
    let mut text = format!("{}\n", render::finished(&table));
    for (kind, measured) in rows {
        if let Err(problem) = measured {
            let _ = writeln!(text, "{:7} {}", kind.name(), escape::line(problem));
        }
    }
    let _ = writeln!(
        text,
        "\nA static C program that returns 0; {} rounds in turns; CPU of the whole machine.",
        plan.rounds
    );
    text
}

pub fn json(rows: &PerKind<Measured>, plan: &Plan) -> Value {
    let latency = |latency: &Latency| json!({ "p50_ms": latency.p50_ms, "p95_ms": latency.p95_ms, "times_bare": latency.times_bare });
    let row = |(kind, measured): &(BenchKind, Result<Measured, String>)| match measured {
        Ok(measured) => json!({
            "kind": kind,
            "back_to_back": latency(&measured.back_to_back),
            "gapped": latency(&measured.gapped),
            "cpu_ms": measured.cpu_ms,
            "one_at_a_time_per_s": measured.one_at_a_time_per_s,
            "all_at_once_per_s": measured.all_lanes_per_s,
        }),
        Err(problem) => json!({ "kind": kind, "not_measured": problem }),
    };
    json!({
        "rounds": plan.rounds,
        "gap_ms": GAP.as_millis() as u64,
        "at_once": plan.lanes,
        "cpu_measured_by": "/proc/stat",
        "kinds": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Three digits say enough.
pub fn short(number: f64) -> String {
    match number {
        _ if number < 9.995 => format!("{number:.2}"),
        _ if number < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    pub fn rows() -> PerKind<Measured> {
        let latency = |p50_ms| Latency { p50_ms, p95_ms: p50_ms * 1.5, times_bare: p50_ms / 0.8 };
        let measured = |p50_ms: f64| Measured {
            back_to_back: latency(p50_ms),
            gapped: latency(p50_ms * 1.2),
            cpu_ms: p50_ms,
            one_at_a_time_per_s: 1000.0 / p50_ms,
            all_lanes_per_s: 1900.0 / p50_ms,
        };
        vec![
            (BenchKind::Bare, Ok(measured(0.8))),
            (BenchKind::Native, Ok(measured(1.25))),
            (BenchKind::Docker, Ok(measured(180.0))),
            (BenchKind::Isolate, Err("not installed (apt-get install isolate)".into())),
        ]
    }

    fn plan() -> Plan {
        Plan { rounds: 7, batch: Duration::ZERO, lanes: 2 }
    }

    #[test]
    fn the_table_has_a_row_for_each_and_says_what_is_missing() {
        let text = text(&rows(), &plan(), false);
        let native = text.lines().find(|line| line.starts_with("native")).unwrap();
        let words: Vec<_> = native.split_whitespace().collect();
        assert_eq!(words.join(" "), "native 1.25 ms 1.88 ms 1.56 1.25 ms 800/s 1520/s 1.50 ms 1.88", "{text}");
        assert!(text.contains("\nisolate not installed (apt-get install isolate)\n"), "{text}");
        assert!(text.contains("7 rounds") && !text.contains('\x1b'), "{text}");
    }

    #[test]
    fn scripts_get_the_same_numbers() {
        let json = json(&rows(), &plan());
        assert_eq!(json["kinds"][1]["kind"], "native");
        assert_eq!(json["kinds"][1]["back_to_back"]["p50_ms"], 1.25);
        assert!(json["kinds"][3]["not_measured"].as_str().unwrap().contains("apt-get"));
        assert_eq!((&json["rounds"], &json["at_once"]), (&7.into(), &2.into()));
    }
}
