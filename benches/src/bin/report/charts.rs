//! The charts of a record.

use std::{error::Error, path::Path};

use plotters::prelude::*;

use pipewriter_benches::{contender::contenders, growth::GROWTHS, streams::WRITERS, workload::workload};

use crate::{PLAIN, record::Record};

const OURS: RGBColor = RGBColor(0x2a, 0x7f, 0x62);
const PEER: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
const LIMIT: RGBColor = RGBColor(0xd9, 0xb3, 0x44);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);

/// Draws every chart that the record has numbers for.
pub(crate) fn draw(record: &Record, folder: &Path) -> Result<(), Box<dyn Error>> {
    micro(record, &folder.join("micro.svg"))?;
    streams(record, &folder.join("streams.svg"))?;
    growth(record, &folder.join("growth.svg"))?;
    memory(record, &folder.join("memory.svg"))
}

/// A group of bars under a title, all of one scale.
struct Bars {
    title: String,
    /// Name, value, and how the value is written.
    bars: Vec<(String, f64, String)>,
}

fn colour(name: &str) -> RGBColor {
    match name {
        name if name.starts_with("pipewriter") => OURS,
        name if name.starts_with("limit") => LIMIT,
        _ => PEER,
    }
}

/// Draws groups of bars in two columns. A bar that is more than twice as long as the one in the middle is cut.
fn bars(path: &Path, title: &str, groups: &[Bars]) -> Result<(), Box<dyn Error>> {
    const WIDTH: i32 = 1100;
    const BAR: i32 = 18;
    const NAME: i32 = 215;
    const LENGTH: i32 = 225;
    if groups.iter().all(|group| group.bars.is_empty()) {
        return Ok(());
    }
    let height = |group: &Bars| 44 + BAR * i32::try_from(group.bars.len()).unwrap_or(0);
    let rows: Vec<i32> = groups.chunks(2).map(|row| row.iter().map(height).max().unwrap_or(0)).collect();
    let total = 50 + rows.iter().sum::<i32>();
    let area = SVGBackend::new(path, (WIDTH.unsigned_abs(), total.unsigned_abs())).into_drawing_area();
    area.fill(&WHITE)?;
    let font = |size: i32| ("sans-serif", size).into_font().color(&INK);
    area.draw(&Text::new(title.to_owned(), (20, 14), font(21)))?;
    let mut top = 50;
    for (row, height) in groups.chunks(2).zip(rows) {
        for (column, group) in row.iter().enumerate() {
            let left = 20 + i32::try_from(column).unwrap_or(0) * (WIDTH / 2);
            area.draw(&Text::new(group.title.clone(), (left, top), font(17)))?;
            let mut lengths: Vec<f64> = group.bars.iter().map(|bar| bar.1).collect();
            lengths.sort_by(f64::total_cmp);
            let longest = lengths.last().copied().unwrap_or(1.0).min(2.0 * lengths[lengths.len() / 2]);
            for (index, (name, value, label)) in group.bars.iter().enumerate() {
                let y = top + 20 + BAR * i32::try_from(index).unwrap_or(0);
                let length = ((value / longest).min(1.0) * f64::from(LENGTH)) as i32;
                let cut = if *value > longest { " (cut)" } else { "" };
                area.draw(&Text::new(name.clone(), (left, y + 1), font(15)))?;
                let bar = [(left + NAME, y), (left + NAME + length.max(1), y + BAR - 4)];
                area.draw(&Rectangle::new(bar, colour(name).filled()))?;
                area.draw(&Text::new(format!("{label}{cut}"), (left + NAME + length + 5, y + 1), font(15)))?;
            }
        }
        top += height;
    }
    area.present()?;
    Ok(())
}

fn label(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn micro(record: &Record, path: &Path) -> Result<(), Box<dyn Error>> {
    let groups: Vec<Bars> = ["append", "hello", "batched", "large", "span_large", "append_unknown"]
        .into_iter()
        .map(|case| {
            let workload = workload(case);
            let found = contenders().into_iter().filter_map(|contender| {
                let time = record.get(["micro", PLAIN, case, contender.name(), "ns per operation"])?.median;
                Some((contender.name().to_owned(), time, label(time)))
            });
            let dotnet =
                record.of_group("dotnet").filter(|row| row.key.case == case && row.key.metric.starts_with("ns"));
            let dotnet = dotnet.map(|row| (row.key.contender.clone(), row.values[0], label(row.values[0])));
            Bars { title: format!("{}, ns", workload.title), bars: found.chain(dotnet).collect() }
        })
        .collect();
    bars(path, "Time of an operation over a stream that takes everything (shorter is better)", &groups)
}

fn streams(record: &Record, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut cases: Vec<&str> = record.of_group("streams").map(|row| row.key.case.as_str()).collect();
    cases.dedup();
    let wanted = |case: &&&str| ["Unix socket:", "TCP", "pipe"].iter().any(|stream| case.starts_with(stream));
    let groups: Vec<Bars> = cases
        .iter()
        .filter(wanted)
        .map(|case| Bars {
            title: format!("{case}, MiB/s"),
            bars: WRITERS
                .iter()
                .filter_map(|(_, name)| {
                    let speed = record.get(["streams", PLAIN, case, name, "MiB per s"])?.median;
                    Some(((*name).to_owned(), speed, label(speed)))
                })
                .collect(),
        })
        .collect();
    bars(path, "64 MiB to a reader in another thread (longer is better)", &groups)
}

fn memory(record: &Record, path: &Path) -> Result<(), Box<dyn Error>> {
    let heap = record.of_group("memory").filter(|row| row.key.metric == "heap bytes");
    let heap = heap.map(|row| (row.key.contender.clone(), row.values[0], label(row.values[0])));
    let group = Bars { title: "heap bytes of each".into(), bars: heap.collect() };
    bars(path, "100,000 idle writers that have sent 1 KiB (shorter is better)", &[group])
}

fn growth(record: &Record, path: &Path) -> Result<(), Box<dyn Error>> {
    if record.of_group("growth").next().is_none() {
        return Ok(());
    }
    let area = SVGBackend::new(path, (1100, 520)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("How the time of each grows with their number (level is good)", ("sans-serif", 21))
        .margin(12)
        .margin_right(45)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d((1.0..1e8_f64).log_scale(), (1e-5..1e3_f64).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("how many")
        .x_label_formatter(&|many| format!("{many:.0}"))
        .y_desc("ns for each")
        .label_style(("sans-serif", 14))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (index, growth) in GROWTHS.iter().enumerate() {
        let metric = format!("ns per {}", growth.per);
        let points: Vec<(f64, f64)> = growth
            .sizes()
            .into_iter()
            .filter_map(|size| {
                let time = record.get(["growth", PLAIN, growth.name, &size.to_string(), &metric])?;
                Some((size as f64, time.median))
            })
            .collect();
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(format!("{}, per {}", growth.name, growth.per))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .label_font(("sans-serif", 15))
        .border_style(TRANSPARENT)
        .position(SeriesLabelPosition::LowerLeft)
        .draw()?;
    area.present()?;
    Ok(())
}
