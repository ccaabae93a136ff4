"""pyarrow, imported when it is first used: the library works without it, and what needs it says which extra is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupshift._data.extras import need

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _Lazy:
        """A module that is not imported before one of its names is wanted; its submodules are among these."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, attribute: str) -> object:
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            module = need(self._name)
            if not hasattr(module, attribute):
                need(f"{self._name}.{attribute}")
            found = self.__dict__[attribute] = getattr(module, attribute)
            return found

    pa, pc = _Lazy("pyarrow"), _Lazy("pyarrow.compute")

__all__ = ["pa", "pc"]
