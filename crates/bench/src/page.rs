//! The report as one HTML page that needs no network: the charts' code, the styles and the report itself are all in
//! the file.

use crate::report::Report;

const PAGE: &str = include_str!("../assets/page.html");

/// Draws the page.
pub fn page(report: &Report) -> String {
    let json = serde_json::to_string(report).expect("a report is plain data");
    // Inside a script element only "<" can end the data early.
    let json = json.replace('<', "\\u003c");
    let parts = [
        ("/*{{uplot.css}}*/", include_str!("../assets/uplot/uPlot.min.css")),
        ("/*{{page.css}}*/", include_str!("../assets/page.css")),
        ("{{uplot.licence}}", include_str!("../assets/uplot/LICENSE")),
        ("/*{{uplot.js}}*/", include_str!("../assets/uplot/uPlot.iife.min.js")),
        ("/*{{page.js}}*/", include_str!("../assets/page.js")),
        ("{{report}}", json.as_str()),
    ];
    let mut page =
        String::with_capacity(PAGE.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = PAGE;
    while let Some(start) = rest.find("{{") {
        let part = parts.iter().find_map(|(mark, text)| {
            let at = start + 2 - (mark.find("{{").expect("a mark has braces") + 2);
            rest[at..].starts_with(mark).then_some((at, mark.len(), *text))
        });
        let (at, length, text) = part.expect("the page has no other marks");
        page.push_str(&rest[..at]);
        page.push_str(text);
        rest = &rest[at + length..];
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_asks_nobody() {
        let mut report = Report { workload: "</script><b>".into(), ..Report::default() };
        report.say_unmeasured("seconds", "nothing moved");
        let page = page(&report);
        assert!(!page.contains("{{"), "a mark was left");
        assert!(!page.contains("</script><b>"), "data must not end the script");
        assert!(page.contains("nothing moved"));
        let addresses = page.matches("http").count();
        let allowed =
            page.matches("https://github.com/leeoniya/uPlot").count() + page.matches("http-equiv").count();
        assert_eq!(addresses, allowed, "no address but uPlot's own comment");
    }
}
