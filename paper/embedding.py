"""Texts to vectors through a sentence-transformers model, kept on disk by content."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from groupshift._io.files import whole_file

# Texts per cached file: what an interrupted run loses at most.
BLOCK = 1024

Progress = Callable[[int, int], None]


class Encoder(Protocol):
    """What a sentence-transformers model can do, and all that is asked of it."""

    def encode(self, sentences: list[str]) -> ArrayLike: ...


def embed_reviews(
    texts: Sequence[str],
    *,
    encoder: str | Path | Encoder = "all-MiniLM-L6-v2",
    encoder_name: str | None = None,
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Embed texts, in blocks that are kept on disk: a second run reads them, an interrupted one goes on.

    Parameters
    ----------
    encoder : str, path or object with `encode`
        Name of a sentence-transformers model, folder of one (no network needed), or the model itself.
    encoder_name : str, optional
        What to remember a model object by; needed to cache its vectors.
    cache_dir : path, optional
        Where blocks are kept, named by a hash of model and texts: a changed text or model is embedded anew.
    progress : callable, optional
        Called with (texts done, texts in all) after each block.

    Examples
    --------
    >>> class Lengths:
    ...     def encode(self, sentences):
    ...         return np.array([[len(s)] for s in sentences])
    >>> embed_reviews(["good", "so so"], encoder=Lengths())
    array([[4.], [5.]], dtype=float32)
    """
    texts = [str(text) for text in texts]
    if not texts:
        raise ValueError("There are no texts to embed. Pass at least one.")
    # Loaded at its first use: a run that finds everything on disk needs no model.
    model = cache(lambda: _loaded(encoder))
    identity = None if cache_dir is None else _identity(encoder, encoder_name)
    blocks = []
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        file = None if cache_dir is None else Path(cache_dir) / f"{_digest([str(identity), *block])}.npy"
        blocks.append(_embed_block(block, model, file))
        if progress is not None:
            progress(start + len(block), len(texts))
    return np.concatenate(blocks)


def _embed_block(block: list[str], model: Callable[[], Encoder], file: Path | None) -> np.ndarray:
    if file is not None and file.is_file():
        return np.asarray(np.load(file))
    vectors = np.asarray(model().encode(block), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(block):
        raise ValueError(
            f"The encoder returned shape {vectors.shape} for {len(block)} texts, expected one row for each."
        )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A killed run never leaves half a block under its final name.
        with whole_file(file, force=True) as out:
            np.save(out, vectors)
    return vectors


def _loaded(encoder: str | Path | Encoder) -> Encoder:
    if not isinstance(encoder, str | Path):
        return encoder
    from sentence_transformers import SentenceTransformer

    return cast(Encoder, SentenceTransformer(str(encoder)))


def _identity(encoder: str | Path | Encoder, encoder_name: str | None) -> str:
    """What tells one model's vectors from another's: its name, or the content of its folder."""
    if encoder_name is not None:
        return encoder_name
    if not isinstance(encoder, str | Path):
        raise ValueError(
            "To cache vectors of a model object, name it: pass encoder_name=, or drop cache_dir."
        )
    folder = Path(encoder)
    if not folder.is_dir():
        return str(encoder)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return _digest([part for file in files for part in (str(file.relative_to(folder)), _file_digest(file))])


def _file_digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _digest(parts: Sequence[str]) -> str:
    """Hash of a list of texts; lengths go in too, so that moving a boundary changes it."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]
