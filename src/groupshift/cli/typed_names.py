"""Names of columns as they are typed in options."""

import csv


def split_names(names: list[str] | None) -> tuple[str, ...]:
    """Names from options given once with commas, or several times; one that holds a comma stands in double quotes.

    >>> split_names(["a, b", '"Age, in years"'])
    ('a', 'b', 'Age, in years')
    """
    parts = (part for name in csv.reader(names or [], skipinitialspace=True) for part in name)
    return tuple(part.strip() for part in parts if part.strip())
