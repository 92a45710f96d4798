//! Tables of text in the layout of Go's `tabwriter` (CLI-302, CLI-514).

use std::borrow::Cow;

use tiphys_api::printable;

/// Columns aligned by their longest cell; the last column is not padded.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    minimum: usize,
    rows: Vec<Vec<String>>,
}

/// Blanks behind the longest cell of a column.
const PADDING: usize = 2;

impl Table {
    /// A table with a header.
    pub(crate) fn new(header: &[&str]) -> Self {
        let mut table = Self { minimum: 0, rows: Vec::new() };
        table.row(header.iter().map(|cell| (*cell).to_owned()).collect());
        table
    }

    /// A table without a header whose columns are at least `minimum` wide.
    pub(crate) fn headless(minimum: usize) -> Self {
        Self { minimum, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        // A line break inside a cell would begin a row that nobody wrote.
        let shown = |cell: String| match printable::line(&cell) {
            Cow::Borrowed(_) => cell,
            Cow::Owned(shown) => shown,
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// The text, with a line end after each row.
    pub(crate) fn print(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                // The last cell of a row belongs to no column.
                let cells =
                    self.rows.iter().filter(|row| column + 1 < row.len()).filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count() + PADDING).max().unwrap_or(0).max(self.minimum)
            })
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                out.push_str(cell);
                if index + 1 < row.len() {
                    let blanks = width.saturating_sub(cell.chars().count());
                    out.extend(std::iter::repeat_n(' ', blanks));
                }
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_302_the_last_column_is_not_padded() {
        let mut table = Table::new(&["A", "BCD", "E"]);
        table.row(vec!["äää".into(), String::new(), "x".into()]);
        table.row(vec!["1".into(), "2".into(), String::new()]);
        assert_eq!(table.print(), "A    BCD  E\näää       x\n1    2    \n");
    }

    #[test]
    fn cli_302_a_cell_from_outside_stays_in_its_row() {
        let mut table = Table::new(&["CONDITION", "MESSAGE"]);
        table.row(vec!["x\u{1b}[2J".into(), "fine\nSyncError  forged\r\tx".into()]);
        assert_eq!(table.print(), "CONDITION  MESSAGE\nx\\x1b[2J   fine\\nSyncError  forged\\r\\tx\n");
    }

    #[test]
    fn cli_302_the_header_is_always_there() {
        assert_eq!(Table::new(&["NAME", "X"]).print(), "NAME  X\n");
    }
}
