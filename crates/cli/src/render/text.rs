//! Tables and paragraphs on the terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// The widest line, in characters.
pub const WIDTH: u16 = 100;

pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    table
}

/// Texts to the left, numbers to the right, one blank between columns.
pub(crate) fn align(table: &mut Table, texts: usize) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 0));
        column.set_cell_alignment(if index < texts { CellAlignment::Left } else { CellAlignment::Right });
    }
}

pub(crate) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Breaks a text into lines of at most [`WIDTH`] characters; lines after the first begin with `indent`.
pub(crate) fn wrap(text: &str, indent: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    // A number and its unit stay together.
    let glued = [" %", " µs", " ms", " s"].iter().fold(text.to_owned(), |text, unit| {
        text.replace(&format!("{unit} "), &format!("{} ", unit.replace(' ', "\u{a0}")))
    });
    for word in glued.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > usize::from(WIDTH) {
            wrapped.push('\n');
            wrapped.push_str(indent);
            width = indent.len();
        } else if width > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(&word.replace('\u{a0}', " "));
        width += length;
    }
    wrapped.push('\n');
    wrapped
}
