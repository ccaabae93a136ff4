"""Texts that a spreadsheet would take for formulas."""

from __future__ import annotations

from groupshift.tables.arrow import pa, pc

# What a spreadsheet takes for a formula where a cell begins with it, unless the cell is a number.
FORMULA, NUMBER = r"^[=+\-@\t\r]", r"^[+-]?[\d.,]+([eE][+-]?\d+)?%?$"


def without_formulas(table: pa.Table) -> pa.Table:
    """A table whose texts no spreadsheet takes for formulas: an apostrophe stands before them.

    >>> import pyarrow as pa
    >>> without_formulas(pa.table({"g": ["=1+1", "-5", "a"]}))["g"].to_pylist()
    ["'=1+1", '-5', 'a']
    """

    def escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
        is_formula = pc.match_substring_regex(texts, FORMULA)
        is_formula = pc.and_not(is_formula, pc.match_substring_regex(texts, NUMBER))
        return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)

    names = escaped(pa.chunked_array([pa.array(table.column_names, pa.string())])).to_pylist()
    texts = (pa.types.is_string, pa.types.is_large_string)
    columns = [escaped(c) if any(is_text(c.type) for is_text in texts) else c for c in table.columns]
    return pa.table(columns, names=names)
