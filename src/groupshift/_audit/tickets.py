"""Tickets: one short text for each row that is asked for, with all that its label will be weighed by.

A file of labels comes back after weeks, from a spreadsheet that sorts lines, drops comments and rewrites numbers. So nothing is
read back from its numbers: each ticket carries the whole design besides its row, and a checksum.
"""

import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from groupshift._audit.betting import Bounds
from groupshift._audit.race import race_times
from groupshift._data.keys import Seeds, uniform_keys
from groupshift._math.arrays import FloatArray, IntArray

# Common shifts at which the overall share is carried along; a smooth curve goes through them.
CURVE = np.arange(-6.0, 6.5, 1.0)
DESIGN = struct.Struct(f"<8s8sQIIQ4d{len(CURVE)}d")
ROW = struct.Struct("<QI3dii")
# A letter in front: no spreadsheet takes a ticket for a number or a formula.
MARK = "A1."
CHECKSUM = 6


@dataclass(frozen=True)
class Design:
    """What all rows of one audit have in common."""

    model: bytes  # of the state of the model that asked
    population: bytes  # of its rows
    n_rows: int
    budget: int
    n_listed: int  # rows to label and spares
    seed: int
    bounds: Bounds
    threshold: float  # when the first row finishes that is not in the file
    curve: FloatArray  # overall share if all log-odds were moved by CURVE

    @property
    def share(self) -> float:
        """Overall share as predicted."""
        return float(self.curve[len(CURVE) // 2])

    def packed(self) -> bytes:
        b = self.bounds
        numbers = (b.low, b.high, b.spread, self.threshold, *self.curve.tolist())
        counts = (self.n_rows, self.budget, self.n_listed, self.seed)
        return DESIGN.pack(self.model, self.population, *counts, *numbers)

    @classmethod
    def unpacked(cls, data: bytes) -> "Design":
        model, population, n_rows, budget, n_listed, seed, *numbers = DESIGN.unpack(data)
        bounds, curve = Bounds(*numbers[:3]), np.array(numbers[4:])
        return cls(model, population, n_rows, budget, n_listed, seed, bounds, numbers[3], curve)


@dataclass(frozen=True)
class Asked:
    """Rows of the population in the order in which they are asked for: arrays of shape (n_asked,)."""

    row: IntArray  # number in the population, from 0
    place: IntArray  # in the order, from 0
    log_odds: FloatArray  # as predicted
    part: FloatArray  # of the population's weight
    chance: FloatArray
    group: IntArray  # in the model's order; -1: unseen
    cluster: IntArray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: IntArray) -> "Asked":
        return Asked(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def order_uniform(rows: IntArray, seed: int) -> FloatArray:
    """The numbers that decide the order, by row number and seed alone."""
    return uniform_keys(rows.astype(np.uint64), Seeds(seed).named("audit order"))


def finished(asked: Asked, design: Design) -> FloatArray:
    """When each asked row finishes its race."""
    return race_times(order_uniform(asked.row, design.seed), asked.chance)


def write_tickets(design: Design, asked: Asked) -> list[str]:
    head = design.packed()
    columns = (getattr(asked, name).tolist() for name in asked.__dataclass_fields__)
    return [_sealed(head + ROW.pack(*line)) for line in zip(*columns, strict=True)]


def read_ticket(ticket: str) -> tuple[bytes, tuple[float, ...]] | None:
    """The packed design, and the row's entries of `Asked`; None for what is no ticket."""
    if not ticket.startswith(MARK):
        return None
    try:
        data = base64.urlsafe_b64decode(ticket[len(MARK) :].encode())
    except (binascii.Error, ValueError):
        return None
    body, seal = data[:-CHECKSUM], data[-CHECKSUM:]
    if len(body) != DESIGN.size + ROW.size or _seal(body) != seal:
        return None
    return body[: DESIGN.size], ROW.unpack(body[DESIGN.size :])


def asked_from(lines: Sequence[tuple[float, ...]]) -> Asked:
    columns = zip(*lines, strict=True)
    kinds = (np.int64, np.int64, float, float, float, np.int64, np.int64)
    return Asked(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def _sealed(body: bytes) -> str:
    return MARK + base64.urlsafe_b64encode(body + _seal(body)).decode()


def _seal(body: bytes) -> bytes:
    return blake2b(body, digest_size=CHECKSUM).digest()
