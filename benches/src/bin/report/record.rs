//! What was measured, as rows that are written to and read from a record.

use std::{fmt::Write as _, io, path::Path};

use pipewriter_benches::stats::{Spread, median};

/// What a number is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) group: String,
    pub(crate) build: String,
    pub(crate) case: String,
    pub(crate) contender: String,
    pub(crate) metric: String,
}

/// A number with what each process found for it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) values: Vec<f64>,
}

/// All rows of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) rows: Vec<Row>,
}

const HEADER: &str = "group,build,case,contender,metric,median,low,high,processes";

impl Record {
    pub(crate) fn add(&mut self, [group, build, case, contender, metric]: [&str; 5], value: f64) {
        let [group, build, case, contender, metric] = [group, build, case, contender, metric].map(String::from);
        self.push(Key { group, build, case, contender, metric }, value);
    }

    fn push(&mut self, key: Key, value: f64) {
        match self.rows.iter_mut().find(|row| row.key == key) {
            Some(row) => row.values.push(value),
            None => self.rows.push(Row { key, values: vec![value] }),
        }
    }

    /// Adds what one process found.
    pub(crate) fn extend(&mut self, other: Self) {
        for row in other.rows {
            row.values.into_iter().for_each(|value| self.push(row.key.clone(), value));
        }
    }

    pub(crate) fn values(&self, key: [&str; 5]) -> Option<&[f64]> {
        let is = |row: &&Row| {
            let Key { group, build, case, contender, metric } = &row.key;
            [group, build, case, contender, metric].map(String::as_str) == key
        };
        self.rows.iter().find(is).map(|row| &row.values[..])
    }

    pub(crate) fn get(&self, key: [&str; 5]) -> Option<Spread> {
        self.values(key).map(median)
    }

    /// How much more the one is than the other, taken within each process where both come from the same ones.
    pub(crate) fn ratio(&self, one: [&str; 5], other: [&str; 5]) -> Option<Spread> {
        let (one, other) = (self.values(one)?, self.values(other)?);
        if one.len() == other.len() {
            let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
            Some(median(&ratios))
        } else {
            let ratio = median(one).median / median(other).median;
            Some(Spread { median: ratio, low: ratio, high: ratio })
        }
    }

    pub(crate) fn of_group(&self, group: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.key.group == group)
    }

    pub(crate) fn to_csv(&self) -> String {
        let mut csv = format!("{HEADER}\n");
        for Row { key: Key { group, build, case, contender, metric }, values } in &self.rows {
            let Spread { median, low, high } = median(values);
            let field = |text: &str| if text.contains(',') { format!("\"{text}\"") } else { text.to_owned() };
            let fields = [group, build, case, contender, metric].map(|text| field(text)).join(",");
            let _ = writeln!(csv, "{fields},{},{},{},{}", short(median), short(low), short(high), values.len());
        }
        csv
    }

    pub(crate) fn from_csv(csv: &str) -> Option<Self> {
        let mut record = Self::default();
        let mut lines = csv.lines();
        if lines.next()? != HEADER {
            return None;
        }
        for line in lines {
            let fields = split(line);
            let [group, build, case, contender, metric, median, ..] = &fields[..] else { return None };
            record.add([group, build, case, contender, metric], median.parse().ok()?);
        }
        Some(record)
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Self::from_csv(&std::fs::read_to_string(path)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Five digits that count.
fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (4 - value.abs().log10().floor() as i32).clamp(0, 9) };
    format!("{value:.*}", digits.unsigned_abs() as usize)
}

/// The fields of a line, of which some are quoted.
fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for char in line.chars() {
        match char {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => {
                if let Some(field) = fields.last_mut() {
                    field.push(char);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut record = Record::default();
        let key = ["micro", "plain", "one, and two", "ours", "ns"];
        for value in [3.0, 1.0, 2.0] {
            record.add(key, value);
        }
        record.add(["memory", "", "idle", "ours", "bytes"], 123_456.789);
        let csv = record.to_csv();
        assert!(csv.contains("2.0000,1.0000,3.0000,3\n"), "{csv}");
        let read = Record::from_csv(&csv).expect("a record");
        assert_eq!(read.values(key), Some(&[2.0][..]));
        assert_eq!(read.values(["memory", "", "idle", "ours", "bytes"]), Some(&[123_457.0][..]));
    }
}
