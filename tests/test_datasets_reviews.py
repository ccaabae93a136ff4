"""Reviews: labels from stars, vectors from any encoder, kept on disk by content."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paper import embedding as embedding_module
from paper.embedding import embed_reviews
from paper.reviews import load_reviews

SHARED = Path(__file__).parents[2] / "shared" / "data"
NPZ, TEXT = SHARED / "amazon_reviews_minilm.npz", SHARED / "amazon_reviews_text.parquet"
needs_reviews = pytest.mark.skipif(not (NPZ.is_file() and TEXT.is_file()), reason=f"needs {NPZ} and {TEXT}")


class Letters:
    """Counts the letters a and b, and how often it was asked."""

    def __init__(self):
        self.calls = 0

    def encode(self, sentences):
        self.calls += 1
        return [[s.count("a"), s.count("b")] for s in sentences]


TABLE = pd.DataFrame(
    {
        "text": ["aab", "bb", "a", "aab", "b"],
        "stars": [5, 1, 3, 4, 2],
        "category": ["toys", "toys", "books", "books", "books"],
    }
)


def test_more_than_three_stars_are_positive():
    table = load_reviews(TABLE, rating="stars", encoder=Letters())
    np.testing.assert_array_equal(table.y, [1, 0, 0, 1, 0])
    np.testing.assert_array_equal(table.X[:2], [[2, 1], [0, 2]])
    assert table.groups.tolist() == TABLE["category"].tolist()


def test_three_star_rows_can_be_dropped_first():
    table = load_reviews(TABLE, rating="stars", drop_three_stars=True, encoder=Letters())
    np.testing.assert_array_equal(table.y, [1, 0, 1, 0])


def test_copies_of_one_text_are_one_example():
    ids = load_reviews(TABLE, rating="stars", encoder=Letters()).example_ids
    assert ids[0] == ids[3]
    assert len(np.unique(ids)) == 4


def test_csv_and_parquet_read_as_the_frame(tmp_path):
    pytest.importorskip("pyarrow")
    expected = load_reviews(TABLE, rating="stars", encoder=Letters())
    TABLE.to_csv(tmp_path / "r.csv", index=False)
    TABLE.to_parquet(tmp_path / "r.parquet")
    for file in ("r.csv", "r.parquet"):
        table = load_reviews(tmp_path / file, rating="stars", encoder=Letters())
        np.testing.assert_array_equal(table.X, expected.X)
        np.testing.assert_array_equal(table.y, expected.y)


def test_second_run_reads_from_disk(tmp_path):
    encoder = Letters()
    first = embed_reviews(["a", "ab"], encoder=encoder, encoder_name="letters", cache_dir=tmp_path)
    second = embed_reviews(["a", "ab"], encoder=encoder, encoder_name="letters", cache_dir=tmp_path)
    np.testing.assert_array_equal(first, second)
    assert encoder.calls == 1


@pytest.mark.parametrize(
    ("texts", "name"),
    [(["ab", "a"], "letters"), (["a", "a b"], "letters"), (["aa", "b"], "letters"), (["a", "ab"], "v2")],
)
def test_changed_texts_order_or_model_are_embedded_anew(tmp_path, texts, name):
    encoder = Letters()
    embed_reviews(["a", "ab"], encoder=encoder, encoder_name="letters", cache_dir=tmp_path)
    embed_reviews(texts, encoder=encoder, encoder_name=name, cache_dir=tmp_path)
    assert encoder.calls == 2


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_module, "BLOCK", 2)
    texts = ["a", "b", "ab", "ba", "aa"]

    class Interrupted(Letters):
        def encode(self, sentences):
            if self.calls == 2:
                raise KeyboardInterrupt
            return super().encode(sentences)

    with pytest.raises(KeyboardInterrupt):
        embed_reviews(texts, encoder=Interrupted(), encoder_name="letters", cache_dir=tmp_path)
    encoder, seen = Letters(), []
    X = embed_reviews(texts, encoder=encoder, encoder_name="letters", cache_dir=tmp_path,
                      progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert encoder.calls == 1
    assert seen == [(2, 5), (4, 5), (5, 5)]
    np.testing.assert_array_equal(X, embed_reviews(texts, encoder=Letters()))
    assert not list(tmp_path.glob("*.tmp"))


def test_a_model_object_without_a_name_is_not_cached(tmp_path):
    with pytest.raises(ValueError, match="encoder_name"):
        embed_reviews(["a"], encoder=Letters(), cache_dir=tmp_path)


def test_the_folder_of_a_model_is_known_by_its_content(tmp_path):
    (tmp_path / "weights").write_bytes(b"1")
    before = embedding_module._identity(tmp_path, None)
    assert before == embedding_module._identity(str(tmp_path), None)
    (tmp_path / "weights").write_bytes(b"2")
    assert before != embedding_module._identity(tmp_path, None)


def test_without_sentence_transformers_it_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match="sentence_transformers"):
        embed_reviews(["a"])


def test_a_tiny_model_folder_loads_and_embeds_offline(tmp_path):
    library = pytest.importorskip("sentence_transformers", reason='needs pip install "groupshift[text]"')
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    try:
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    except ImportError:  # before sentence-transformers 6
        from sentence_transformers.models import StaticEmbedding

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "good": 1, "bad": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    weights = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32)
    model = library.SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu"
    )
    model.save(str(tmp_path / "model"))
    X = embed_reviews(["good", "bad", "good bad"], encoder=tmp_path / "model", cache_dir=tmp_path / "cache")
    np.testing.assert_allclose(X, [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-6)
    assert len(list((tmp_path / "cache").glob("*.npy"))) == 1


def test_principal_components_keep_the_directions_that_vary():
    X = np.random.default_rng(0).normal(size=(50, 4)) * [10, 5, 0.1, 0.1]
    table = {"text": [str(i) for i in range(50)], "label": np.arange(50) % 2, "category": ["a"] * 50}
    reduced = load_reviews(table, embeddings=X, n_components=2).X
    np.testing.assert_allclose(reduced.var(axis=0).sum(), X.var(axis=0)[:2].sum(), rtol=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"source": TABLE}, "lacks label"),
        ({"source": TABLE, "label": "stars", "embeddings": np.eye(5)}, "pass it as rating="),
        ({"source": TABLE, "rating": "stars", "embeddings": np.eye(3)}, "3 embeddings for 5 rows"),
        ({"source": TABLE.assign(label=1), "drop_three_stars": True}, "rating="),
    ],
)
def test_errors_name_what_was_found(call, message):
    with pytest.raises(ValueError, match=message):
        load_reviews(**call)


@needs_reviews
def test_ready_embeddings_and_texts_agree_row_for_row():
    pytest.importorskip("pyarrow")
    both = load_reviews(TEXT, embeddings=NPZ, n_components=25)
    alone = load_reviews(NPZ)
    assert both.X.shape == (25_947, 25)
    assert alone.X.shape == (25_947, 384)
    np.testing.assert_array_equal(both.y, alone.y)
    np.testing.assert_array_equal(both.groups, alone.groups)
    assert len(np.unique(both.groups)) == 14
