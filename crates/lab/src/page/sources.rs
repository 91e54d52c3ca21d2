//! The sources of the papers' figures on the page: each once, numbered in the order of
//! citation.

use super::data::Cited;
use crate::papers::PaperFigure;

/// The sources cited so far.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<&'static str>);

impl Sources {
    /// A source's value.
    pub(super) fn cite(&mut self, value: f64, source: &'static str) -> Cited {
        let known = self.0.iter().position(|known| *known == source);
        let source = known.unwrap_or_else(|| {
            self.0.push(source);
            self.0.len() - 1
        });
        Cited { value, source }
    }

    /// A paper's figure, if it has one.
    pub(super) fn figure(&mut self, figure: Option<&'static PaperFigure>) -> Option<Cited> {
        figure.map(|figure| self.cite(figure.value, figure.source))
    }

    /// All of them; a [`Cited`] names its index.
    pub(super) fn into_list(self) -> Vec<&'static str> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_one_number_however_often_it_is_cited() {
        let mut sources = Sources::default();
        let cited = [(1.0, "a"), (2.0, "b"), (3.0, "a")].map(|(value, source)| sources.cite(value, source));
        assert_eq!(cited.map(|cited| cited.source), [0, 1, 0]);
        assert_eq!(sources.into_list(), ["a", "b"]);
    }
}
