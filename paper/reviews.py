"""Product reviews by category: tables with text and a rating or label, as embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from narwhals.typing import IntoDataFrame

from groupshift._io.extras import need
from groupshift.datasets.containers import is_frame, named_columns
from groupshift.datasets.sample import LabeledTable
from paper.embedding import Encoder, Progress, embed_reviews

if TYPE_CHECKING:
    import pyarrow

# A table of reviews: a file, a frame, or columns by name.
Source: TypeAlias = "str | Path | dict[str, np.ndarray] | IntoDataFrame"
POSITIVE_STARS = 3


def load_reviews(
    source: Source,
    *,
    embeddings: np.ndarray | str | Path | None = None,
    text: str = "text",
    label: str = "label",
    rating: str | None = None,
    category: str = "category",
    drop_three_stars: bool = False,
    encoder: str | Path | Encoder = "all-MiniLM-L6-v2",
    encoder_name: str | None = None,
    cache_dir: str | Path | None = None,
    n_components: int | None = None,
    progress: Progress | None = None,
    name: str = "reviews",
) -> LabeledTable:
    """Load reviews as embeddings; categories are the groups, and copies of one text are one example.

    Parameters
    ----------
    source : path, frame or dict of columns
        Parquet or CSV with text, label or rating, and category; or an npz with `embedding`, `label` and
        `category`.
    embeddings : array or path to an npz, optional
        Ready embeddings, row for row the table. Otherwise the texts are embedded by `embed_reviews`.
    text, label, rating, category : str
        Column names. With `rating` the label is stars > 3, and `label` is not read.
    drop_three_stars : bool
        Leave out rows of exactly 3 stars first, as the authors' code does; their text does not say so.
    encoder, encoder_name, cache_dir, progress
        Passed on to `embed_reviews`.
    n_components : int, optional
        Reduce the embeddings to this many principal components, such as 25.

    Examples
    --------
    >>> table = {"text": ["good", "bad", "so so"], "stars": [5, 1, 3], "category": ["toys", "toys", "books"]}
    >>> load_reviews(table, embeddings=np.eye(3), rating="stars", drop_three_stars=True)
    LabeledTable('reviews', 2 rows, 1 groups, 3 features, 50.0 % positive)
    """
    columns = _read_columns(source)
    needed = [
        category,
        *([label] if rating is None else [rating]),
        *([] if "embedding" in columns else [text]),
    ]
    absent = [c for c in needed if c not in columns]
    if absent:
        raise ValueError(
            f"The table has columns {', '.join(columns)} and lacks {', '.join(absent)}. Name yours "
            f"with text=, label= or rating=, and category=."
        )
    if drop_three_stars and rating is None:
        raise ValueError("drop_three_stars needs the stars: name their column with rating=.")
    ready = _ready_embeddings(embeddings, columns, label=label)
    keep = np.arange(len(columns[category]))
    if drop_three_stars and rating is not None:
        keep = np.flatnonzero(columns[rating].astype(float) != POSITIVE_STARS)
    columns = {c: np.asarray(columns[c])[keep] for c in columns if c != "embedding"}
    if ready is None:
        texts = columns[text].tolist()
        X = embed_reviews(
            texts, encoder=encoder, encoder_name=encoder_name, cache_dir=cache_dir, progress=progress
        )
    else:
        X = np.asarray(ready[keep], dtype=np.float32)
    X = X if n_components is None else _principal_components(X, n_components)
    y = columns[label] if rating is None else columns[rating].astype(float) > POSITIVE_STARS
    return LabeledTable(
        X=X,
        y=_binary(y, label if rating is None else rating),
        groups=columns[category].astype(str),
        example_ids=_same_text(columns[text]) if text in columns else None,
        feature_names=tuple(f"{'pc' if n_components else 'e'}{j}" for j in range(X.shape[1])),
        name=name,
    )


def _read_columns(source: Source) -> dict[str, np.ndarray]:
    if isinstance(source, dict) or is_frame(source):
        return named_columns(source)
    path = Path(str(source))
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}: expected a Parquet or CSV table of reviews, or an npz."
        )
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {key: arrays[key] for key in arrays}
    need("pyarrow", extra="files", what=f"Reading {path.name}")
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
    else:
        from pyarrow import csv

        # Reviews have line breaks.
        table = csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
    return {name: _as_array(table[name]) for name in table.column_names}


def _as_array(column: pyarrow.ChunkedArray) -> np.ndarray:
    # Texts as objects: a fixed-width array would give each review the room of the longest.
    values = column.to_pylist()
    return np.array(values, dtype=object if any(isinstance(v, str) for v in values[:1]) else None)


def _ready_embeddings(
    embeddings: np.ndarray | str | Path | None, columns: dict[str, np.ndarray], *, label: str
) -> np.ndarray | None:
    """The embedding of every row of the table, or None; labels that come with it must agree."""
    if embeddings is None:
        return columns.get("embedding")
    if isinstance(embeddings, str | Path):
        arrays = _read_columns(embeddings)
        if label in arrays and label in columns and not np.array_equal(arrays[label], columns[label]):
            raise ValueError(
                f"{embeddings} and the table disagree on {label!r}: they are not row for row the same."
            )
        embeddings = arrays["embedding"]
    n = len(next(iter(columns.values())))
    if len(embeddings) != n:
        raise ValueError(f"There are {len(embeddings)} embeddings for {n} rows: they must match row for row.")
    return np.asarray(embeddings)


def _principal_components(X: np.ndarray, n_components: int) -> np.ndarray:
    from sklearn.decomposition import PCA

    # Exact, and the same on every run: 384 columns are few.
    return np.asarray(PCA(n_components, svd_solver="covariance_eigh").fit_transform(X))


def _same_text(texts: np.ndarray) -> np.ndarray:
    """One id per distinct text, in order of appearance."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(str(t), len(seen)) for t in texts])


def _binary(y: np.ndarray, name: str) -> np.ndarray:
    values = np.unique(y)
    if not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"Column {name!r} holds {values[:5].tolist()}, expected 0 and 1. For stars, pass it as rating=."
        )
    return y.astype(np.int64)
