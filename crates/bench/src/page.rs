//! Pages: one HTML file each, without need of a network. The page's script draws the JSON in the file;
//! the script, the styles and the JSON are all in the file.

use crate::report::Report;
use crate::summary;
use serde::Serialize;

const TEMPLATE: &str = include_str!("../assets/page.html");
/// The style of all pages.
pub const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/common.js");

/// One kind of page's own parts, beside the common ones.
pub struct Parts<'a> {
    /// The page's title until its script knows a better one.
    pub title: &'a str,
    /// The content of the page's main element, as HTML.
    pub main: &'a str,
    /// Style sheets; later ones win.
    pub styles: &'a [&'a str],
    /// Scripts, in the order of execution.
    pub scripts: &'a [&'a str],
}

impl Parts<'_> {
    /// The page of a report, which its scripts find as `report`.
    pub fn page(&self, report: &impl Serialize) -> String {
        let json = serde_json::to_string(report).expect("a report is plain data");
        // Inside a script element only "<" can end the data early.
        let json = json.replace('<', "\\u003c");
        let scripts =
            [SCRIPT].iter().chain(self.scripts).map(|script| format!("<script>\n{script}</script>\n"));
        fill(
            TEMPLATE,
            &[
                ("title", self.title),
                ("styles", &self.styles.concat()),
                ("main", self.main),
                ("report", &json),
                ("scripts", &scripts.collect::<String>()),
            ],
        )
    }
}

/// Puts each text where the template has its name in double braces. The texts' contents are left alone.
///
/// # Panics
/// If the template has another name.
fn fill(template: &str, texts: &[(&str, &str)]) -> String {
    let length = texts.iter().map(|(_, text)| text.len()).sum::<usize>();
    let mut page = String::with_capacity(template.len() + length);
    let mut rest = template;
    while let Some((before, from)) = rest.split_once("{{") {
        let (name, after) = from.split_once("}}").expect("braces are closed");
        let (_, text) =
            texts.iter().find(|(known, _)| *known == name).expect("the template has no other names");
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page + rest
}

/// Draws the page of one run.
pub fn page(report: &Report) -> String {
    let licence = include_str!("../assets/uplot/LICENSE");
    let disturbance = report.machine.disturbance.filter(|disturbance| disturbance.is_much());
    let warning = disturbance.map(|much| format!("The machine's host {}.", summary::host(&much)));
    let parts = Parts {
        title: "Sidle: a run",
        main: &fill(
            include_str!("../assets/run.html"),
            &[("warning", &warning.unwrap_or_default()), ("licence", licence)],
        ),
        styles: &[include_str!("../assets/uplot/uPlot.min.css"), STYLE],
        scripts: &[include_str!("../assets/uplot/uPlot.iife.min.js"), include_str!("../assets/run.js")],
    };
    parts.page(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Disturbance;

    #[test]
    fn a_run_that_the_host_disturbed_has_the_summarys_warning() {
        let mut report = Report::default();
        assert!(page(&report).contains("<p id=\"warning\"></p>"));
        let mut disturb = |longest_still_ms| {
            report.machine.disturbance = Some(Disturbance { longest_still_ms, ..Disturbance::default() });
            page(&report)
        };
        assert!(disturb(Some(7.0)).contains("<p id=\"warning\"></p>"));
        let warned = "The machine's host let the machine stand still for 51 ms at most: these figures say more of \
                      it than of the nodes.</p>";
        assert!(disturb(Some(51.0)).contains(warned));
    }

    #[test]
    fn the_page_is_whole_and_asks_nobody() {
        let mut report = Report { workload: "</script><b>{{title}}".into(), ..Report::default() };
        report.say_unmeasured("seconds", "nothing moved");
        let page = page(&report);
        assert_eq!(page.matches("{{").count(), 1, "a mark was left, or one of the data was taken for one");
        assert!(!page.contains("</script><b>"), "data must not end the script");
        assert!(page.contains("nothing moved"));
        let addresses = page.matches("http").count();
        let allowed =
            page.matches("https://github.com/leeoniya/uPlot").count() + page.matches("http-equiv").count();
        assert_eq!(addresses, allowed, "no address but uPlot's own comment");
    }
}
