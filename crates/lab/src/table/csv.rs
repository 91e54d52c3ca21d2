//! Every figure of every variant under every load, as comma-separated values.

use super::{FIGURES, Row};

/// A line for each row, under a heading. A figure that a run does not have is empty.
pub fn csv(rows: &[Row]) -> String {
    let headings: Vec<&str> = FIGURES.iter().map(|figure| figure.key).collect();
    let mut text = format!("variant,mix,skew,source_percent,rate_percent,runs,{}\n", headings.join(","));
    for row in rows {
        let rate = row.load.rate_percent.map(|percent| percent.to_string()).unwrap_or_default();
        let figures = FIGURES.iter().map(|figure| match row.figure(figure) {
            Some(value) => format!("{value:.5}"),
            None => String::new(),
        });
        text += &format!(
            "\"{}\",{},{},{},{rate},{},{}\n",
            row.variant,
            row.load.mix,
            row.load.skew,
            row.load.source_percent,
            row.reports.len(),
            figures.collect::<Vec<_>>().join(",")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::loads;
    use super::*;
    use sidle_bench::report::Report;

    #[test]
    fn what_a_run_does_not_have_is_empty() {
        let report = Report { seconds: Some(0.5), ..Report::default() };
        let row = Row { variant: "fulva,hot-first=on", load: loads()[0], reports: vec![report] };
        let text = csv(&[row]);
        let mut lines = text.lines();
        let columns = lines.next().unwrap().split(',').count();
        let line = lines.next().unwrap();
        assert!(line.starts_with("\"fulva,hot-first=on\",A,0.99,100,,1,,"), "{line}");
        assert!(line.contains(",0.50000,"), "{line}");
        assert_eq!(line.split(',').count(), columns + 1, "the variant has a comma, in quotes");
    }
}
