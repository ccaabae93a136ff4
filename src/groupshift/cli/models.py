"""Saved models as the commands use them: loaded with their recipe, and asked about tables."""

from typing import Any

import numpy as np

from groupshift._io.files import need_pyarrow
from groupshift._io.table_files import Source, no_column
from groupshift.cli.errors import InputError
from groupshift.cli.recipe import Recipe


def load_model(path: str, *, group: str | None = None) -> tuple[Any, Recipe, dict[str, Any]]:
    """A model, its recipe, and its manifest."""
    from groupshift._io.model_files import load, read_manifest

    need_pyarrow("The command line")
    manifest = read_manifest(path)
    model = load(path)
    if not hasattr(model, "predict_details"):
        raise InputError(
            f"{path} holds a {type(model).__name__}, which has no shares and intervals. Use it in Python."
        )
    recipe = Recipe.from_json(manifest["table"]) if manifest.get("table") else Recipe.of_model(model, group)
    if group is not None:
        recipe.group = group
    return model, recipe, manifest


def check_columns(recipe: Recipe, source: Source, keep: list[str] | None = None) -> list[str]:
    """The columns to read of a file; an error names all that it does not have."""
    wanted = [*recipe.names, *([recipe.group] if recipe.group else []), *(keep or [])]
    missing = [name for name in dict.fromkeys(wanted) if name not in source.columns]
    if missing:
        raise InputError(f"{no_column(missing, source)} The model was fitted with it.")
    return list(dict.fromkeys(wanted))


def native(features: Any, groups: np.ndarray | None, model: Any) -> tuple[Any, np.ndarray | None]:
    """Features in the library that the model was fitted with, its own group column back in its place."""
    own_group = getattr(model, "group", None)
    if own_group is not None and groups is not None:
        import pyarrow as pa

        features = features.append_column(own_group, pa.array(groups))
        names = getattr(model, "feature_names_in_", None)
        features = features if names is None else features.select([str(name) for name in names])
        groups = None
    library = model.frame_library_
    if library == "pandas":
        return features.to_pandas(), groups
    if library == "polars":
        import polars

        return polars.from_arrow(features), groups
    if library is None:
        return np.column_stack([column.to_numpy() for column in features.columns]).astype(float), groups
    return features, groups


def unseen_place_holder(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Groups without gaps, and where the gaps were: a row without a group is one of a group never seen."""
    if groups.dtype.kind == "f":
        missing = np.isnan(groups)
        return np.where(missing, np.inf, groups), missing
    missing = np.fromiter((value is None for value in groups), bool, len(groups))
    return np.where(missing, "\0no group", groups), missing
