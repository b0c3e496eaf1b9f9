//! A bar chart: p50 of each kind, back to back and with gaps, on a logarithmic scale.

use std::fmt::Write as _;

use super::PerKind;
use super::measure::{GAP, Measured};
use super::report::short;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 64.0;
const ROW: f64 = 48.0;
const BAR: f64 = 16.0;
const BACK_TO_BACK: &str = "#2f6f9f";
const GAPPED: &str = "#9cc3df";

pub fn svg(rows: &PerKind<Measured>) -> String {
    let rows: Vec<_> = rows.iter().filter_map(|(kind, measured)| Some((*kind, measured.as_ref().ok()?))).collect();
    let values = rows.iter().flat_map(|(_, measured)| [measured.back_to_back.p50_ms, measured.gapped.p50_ms]);
    let scale = Scale::over(values);
    let height = TOP + ROW * rows.len() as f64 + 40.0;

    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{LEFT}" y="22" font-size="15">Median time of one run, in milliseconds (logarithmic)</text>
<rect x="{LEFT}" y="34" width="10" height="10" fill="{BACK_TO_BACK}"/><text x="{}" y="43">back to back</text>
<rect x="{}" y="34" width="10" height="10" fill="{GAPPED}"/><text x="{}" y="43">{} ms apart</text>
"##,
        LEFT + 15.0,
        LEFT + 120.0,
        LEFT + 135.0,
        GAP.as_millis(),
    );
    for (value, x) in scale.ticks() {
        let (top, bottom) = (TOP - 8.0, height - 30.0);
        let _ = writeln!(
            svg,
            r##"<line x1="{x:.1}" y1="{top}" x2="{x:.1}" y2="{bottom}" stroke="#ddd"/><text x="{x:.1}" y="{}" text-anchor="middle" fill="#666">{value}</text>"##,
            bottom + 16.0,
        );
    }
    for (index, (kind, measured)) in rows.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let _ = writeln!(
            svg,
            r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#,
            LEFT - 10.0,
            y + BAR + 4.0,
            kind.name()
        );
        bar(&mut svg, &scale, y, measured.back_to_back.p50_ms, BACK_TO_BACK);
        bar(&mut svg, &scale, y + BAR + 2.0, measured.gapped.p50_ms, GAPPED);
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, scale: &Scale, y: f64, value: f64, colour: &str) {
    let end = scale.x(value);
    let _ = writeln!(
        svg,
        r#"<rect x="{LEFT}" y="{y}" width="{:.1}" height="{BAR}" fill="{colour}"/><text x="{:.1}" y="{:.1}">{} ms</text>"#,
        end - LEFT,
        end + 6.0,
        y + BAR - 4.0,
        short(value),
    );
}

/// From a power of ten below the least value to one above the greatest.
struct Scale {
    first: i32,
    last: i32,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) =
            values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
        if least > most {
            return Self { first: 0, last: 1 };
        }
        let first = least.log10().floor() as i32;
        Self { first, last: (most.log10().ceil() as i32).max(first + 1) }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        (self.first..=self.last).map(|power| {
            let value = 10f64.powi(power);
            (value, self.x(value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::rows;
    use super::*;

    #[test]
    fn the_scale_holds_every_value_and_is_logarithmic() {
        let scale = Scale::over([0.8, 216.0].into_iter());
        assert_eq!((scale.first, scale.last), (-1, 3));
        let step = |from: f64, to: f64| scale.x(to) - scale.x(from);
        assert!((step(1.0, 10.0) - step(10.0, 100.0)).abs() < 1e-9);
        assert!(scale.x(0.8) > LEFT && scale.x(216.0) < WIDTH - RIGHT);
    }

    #[test]
    fn the_chart_has_two_bars_for_each_kind_that_was_measured() {
        let svg = svg(&rows());
        assert_eq!(svg.matches("<rect").count(), 1 + 2 + 2 * 3);
        assert!(svg.contains(">native<") && !svg.contains(">isolate<"));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
