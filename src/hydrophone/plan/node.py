"""Nodes: frozen descriptions of operators that form a plan, with identity by digest."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
import pyarrow as pa

from hydrophone import expr
from hydrophone.errors import HydrophoneError, user_line
from hydrophone.kernel import Kernel
from hydrophone.plan.function import identity as function_identity
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import DataType, rate
from hydrophone.timebase import Timebase


class Order(Enum):
    """In what order rows of one key travel on an edge."""

    ANY = "any"
    INDEX = "per key in order"


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """Base of all operators: parameters are typed fields, all of them part of identity.

    Attributes
    ----------
    inputs : the nodes this one reads
    where : the user's line, for errors; not part of identity
    """

    inputs: tuple[Node, ...] = ()
    where: str | None = field(default=None, repr=False)

    needs: ClassVar[Order] = Order.ANY
    """The order that this operator needs on its inputs."""
    gives: ClassVar[Order | None] = Order.ANY
    """The order of its output; None: that of its input."""
    rowwise: ClassVar[bool] = False
    """Whether every output row comes from one input row alone, whatever its key: such operators run before an exchange."""

    # --- what an operator says about itself -----------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse illegal parameters, when the query is built."""

    def output_type(self, *inputs: Any) -> DataType:
        """Type rule."""
        raise NotImplementedError

    def reach(self, *inputs: Any) -> Reach | tuple[Reach, ...]:
        """What the value at one instant needs around it: for all inputs, or one per input port."""
        return Reach()

    def kernel(self, *inputs: Any) -> Kernel:
        """Make the kernel that runs this operator."""
        raise NotImplementedError

    def describe(self) -> str:
        """Parameters, for `explain`."""
        return ", ".join(f"{f.name}={_brief(getattr(self, f.name))}" for f in self.parameters())

    # --- what follows from it -------------------------------------------------------------------------------------------

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return int(self.digest[:15], 16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.digest == other.digest

    @classmethod
    def name(cls) -> str:
        """The operator's name as the user writes it."""
        return "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")

    def parameters(self) -> list[dataclasses.Field[Any]]:
        """The fields that make up this operator."""
        return [f for f in dataclasses.fields(self) if f.name not in ("inputs", "where")]

    @cached_property
    def digest(self) -> str:
        """Identity: class, parameters that differ from their defaults, inputs."""
        parts = [type(self).__name__, *(i.digest for i in self.inputs)]
        for f in self.parameters():
            value = getattr(self, f.name)
            if f.default is dataclasses.MISSING or not _same(value, f.default):
                parts.append(f"{f.name}={canonical(value)}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    @cached_property
    def type(self) -> Any:
        """What flows out of this node."""
        return self.output_type(*(i.type for i in self.inputs))

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """Reach per input port."""
        reach = self.reach(*(i.type for i in self.inputs))
        return reach if isinstance(reach, tuple) else (reach,) * len(self.inputs)

    @property
    def step(self) -> int | None:
        """Marks that are no multiples of this, in nanoseconds, make nothing final here; None: any mark may."""
        return None

    @property
    def keeps_ends(self) -> bool:
        """Whether the events of the output end when those of the inputs do, so that progress on ends passes through."""
        return self.rowwise

    @property
    def paired(self) -> str | None:
        """The column with the other time of pairs, where the output progresses on both times together."""
        return None

    @property
    def order(self) -> Order:
        """The order in which rows of one key leave this node."""
        return self.gives if self.gives is not None else self.inputs[0].order

    def topological(self) -> list[Node]:
        """Itself and all below, inputs first, equal nodes once."""
        return topological([self])

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """The same operator over other inputs."""
        return self if tuple(inputs) == self.inputs else dataclasses.replace(self, inputs=tuple(inputs))


def topological(roots: Sequence[Node]) -> list[Node]:
    """All nodes under several roots, inputs first, equal nodes once: common sub-plans are shared."""
    seen: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node in seen:
            continue
        if ready:
            seen[node] = None
        else:
            stack.append((node, True))
            stack.extend((i, False) for i in reversed(node.inputs))
    return list(seen)


def build(node: Node) -> Node:
    """Check a node as the user's query is built; errors say the operator and the user's line."""
    line = user_line()
    node = dataclasses.replace(node, where=line)
    try:
        node.check()
        _ = node.type, node.digest
    except HydrophoneError as error:
        error.locate(node.name(), line)
        raise
    return node


class locating:
    """Around what an operator does: its errors say the operator and the user's line.

    A class, because every step of every operator passes here, and a generator would cost more than it does.
    """

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, HydrophoneError):
            error.locate(self.node.name(), self.node.where)


def canonical(value: Any) -> str:
    """Text that is equal for equal parameters and different for different ones, in every process."""
    if value is None or isinstance(value, bool | int | str | Fraction | np.dtype):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, float):
        return f"float:{value.hex()}"
    if isinstance(value, complex):
        return f"complex:{value.real.hex()},{value.imag.hex()}"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return "(" + ",".join(canonical(v) for v in value) + ")"
    if isinstance(getattr(value, "identity", None), str):
        return f"{type(value).__name__}:{value.identity}"
    if isinstance(value, Timebase) or dataclasses.is_dataclass(value):
        fields = ",".join(
            f"{f.name}={canonical(getattr(value, f.name))}" for f in dataclasses.fields(value) if f.compare
        )
        return f"{type(value).__name__}({fields})"
    if isinstance(value, pa.Schema):
        return "schema:" + ",".join(f"{f.name}:{f.type}" for f in value)
    if isinstance(value, nw.Expr):
        return f"expr:{expr.text(value)}"
    if callable(value):
        return f"function:{function_identity(value)}"
    raise TypeError(f"a parameter of type {type(value).__name__} has no identity")


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and canonical(value) == canonical(default)


def _brief(value: Any) -> str:
    if isinstance(value, tuple) and len(value) > 6:
        return f"[{len(value)} values]"
    if isinstance(value, nw.Expr):
        return expr.text(value)
    if isinstance(value, Timebase):
        return rate(value)
    if isinstance(value, Enum):
        return str(value.value)
    return getattr(value, "__qualname__", None) or str(value)
