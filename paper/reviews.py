"""Product reviews by category, as embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from groupshift.datasets import LabeledTable

POSITIVE_STARS = 3
MODEL = "all-MiniLM-L6-v2"


class Encoder(Protocol):
    """What a sentence-transformers model can do, and all that is asked of it."""

    def encode(self, sentences: list[str]) -> ArrayLike: ...


def load_reviews(
    source: str | Path,
    *,
    rating: str | None = None,
    drop_three_stars: bool = False,
    n_components: int | None = None,
    encoder: Encoder | None = None,
    name: str = "reviews",
) -> LabeledTable:
    """Load reviews as embeddings; categories are the groups, and copies of one text are one example.

    Parameters
    ----------
    source : path
        An npz with `embedding`, `label` and `category`, or a Parquet file with `text`, `label` or a rating, and `category`:
        its texts are embedded with the article's model, unless another `encoder` is given.
    rating : str, optional
        Column of stars: the label is stars > 3, and `label` is not read.
    drop_three_stars : bool
        Leave out rows of exactly 3 stars first, as the authors' code does; their text does not say so.
    n_components : int, optional
        Reduce the embeddings to this many principal components.
    """
    columns = _read_columns(Path(source))
    vectors = "embedding" if "embedding" in columns else "text"
    absent = [c for c in ("category", rating or "label", vectors) if c not in columns]
    if absent:
        raise ValueError(f"{source} has columns {', '.join(columns)} and lacks {', '.join(absent)}.")
    if drop_three_stars and rating is None:
        raise ValueError("drop_three_stars needs the stars: name their column with rating=.")
    if drop_three_stars and rating is not None:
        keep = columns[rating].astype(float) != POSITIVE_STARS
        columns = {c: column[keep] for c, column in columns.items()}
    if vectors == "embedding":
        X = columns["embedding"].astype(np.float32)
    else:
        X = np.asarray((encoder or _article_model()).encode(columns["text"].tolist()), dtype=np.float32)
    y = columns["label"] if rating is None else columns[rating].astype(float) > POSITIVE_STARS
    if not np.isin(y, (0, 1)).all():
        raise ValueError(
            f"Column 'label' holds {np.unique(y)[:5].tolist()}, expected 0 and 1. For stars, pass rating=."
        )
    return LabeledTable(
        X=X if n_components is None else _principal_components(X, n_components),
        y=y.astype(np.int64),
        groups=columns["category"].astype(str),
        example_ids=np.unique(columns["text"], return_inverse=True)[1] if "text" in columns else None,
        feature_names=tuple(f"{'pc' if n_components else 'e'}{j}" for j in range(n_components or X.shape[1])),
        name=name,
    )


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: expected a Parquet table of reviews, or an npz.")
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {key: arrays[key] for key in arrays}
    from pyarrow import parquet

    table = parquet.read_table(path)
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}


def _article_model() -> Encoder:
    from sentence_transformers import SentenceTransformer

    model: Encoder = SentenceTransformer(MODEL)
    return model


def _principal_components(X: np.ndarray, n_components: int) -> np.ndarray:
    from sklearn.decomposition import PCA

    # Exact, and the same on every run: 384 columns are few.
    return np.asarray(PCA(n_components, svd_solver="covariance_eigh").fit_transform(X))
