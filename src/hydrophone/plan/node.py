"""Nodes: frozen descriptions of operators that form a plan, with identity by digest."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
import pyarrow as pa

from hydrophone.errors import HydrophoneError, ParameterError, PlanError, user_line
from hydrophone.model.kernel import Kernel
from hydrophone.model.timebase import Timebase
from hydrophone.plan import expr
from hydrophone.plan.function_identity import class_identity, is_ours
from hydrophone.plan.function_identity import identity as function_identity
from hydrophone.plan.parameters import converted
from hydrophone.plan.reach import Reach
from hydrophone.plan.traits import Order, Traits
from hydrophone.plan.types import DataType, rate

__all__ = ["Node", "Order", "build", "canonical", "locating", "operator_identity", "readers", "rebuild", "topological"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Node(Traits):
    """Base of all operators: parameters are typed fields, part of identity unless declared with ``compare=False``.

    Attributes
    ----------
    inputs : the nodes this one reads
    where : the user's line, for errors; not part of identity
    """

    inputs: tuple[Node, ...] = field(default=(), repr=False)
    where: str | None = field(default=None, repr=False, compare=False)

    stable_name: ClassVar[str] = "node"
    """The operator's name in identities. It stays when the class is renamed or moved, and is unique."""
    version: ClassVar[int] = 1
    """Increases when the same parameters give another answer, so that the identity changes."""

    # --- what an operator says about itself, beside its traits ------------------------------------------------------------

    def check(self) -> None:
        """Refuse invalid parameters, when the query is built."""

    def output_type(self, *inputs: Any) -> DataType:
        """Type rule."""
        raise NotImplementedError

    def kernel(self, *inputs: Any) -> Kernel:
        """Make the kernel that runs this operator."""
        raise NotImplementedError

    def describe(self) -> str:
        """Parameters, for `explain`."""
        return ", ".join(f"{f.name}={_short_text(getattr(self, f.name))}" for f in self.parameters())

    # --- forms of the operator that the compiler may put in its place ---------------------------------------------------

    def without_flush(self) -> Node:
        """The same operator without smoothing: results leave as soon as they are final."""
        return self

    def carrying(self, column: str) -> Node:
        """The same row operator, which hands on one more column of its input."""
        return self

    def partial_form(self, rows: Node) -> Node | None:
        """The operator that makes partial aggregates of any share of the rows, for a task; None where there is no such form."""
        return None

    def final_form(self, parts: Node) -> Node:
        """The operator that gives this one's answer from what the low level makes of its input."""
        raise NotImplementedError

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
        return [f for f in dataclasses.fields(self) if f.name != "inputs" and f.compare]

    @cached_property
    def digest(self) -> str:
        """Identity: operator, version, parameters that differ from their defaults, inputs."""
        self.bottom_up("digest")
        parts = [operator_identity(type(self)), *(i.digest for i in self.inputs)]
        parts += [f"{name}={canonical(value)}" for name, value in self.identifying()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    def identifying(self) -> Iterator[tuple[str, Any]]:
        """The names and values that distinguish this operator from others of its class over the same inputs."""
        for f in self.parameters():
            value = getattr(self, f.name)
            if f.default is dataclasses.MISSING or not _same(value, f.default):
                yield f.name, value

    def check_same(self, other: Node) -> None:
        """Refuse another node with the same identity that differs: a plan would run one of them for both."""
        if type(self) is not type(other) and _class_of(type(self)) != _class_of(type(other)):
            raise PlanError(
                f"two operators have one identity: {_class_of(type(self))} and {_class_of(type(other))}",
                hint="give one of them another stable_name",
            )

    @cached_property
    def type(self) -> Any:
        """What flows out of this node."""
        self.bottom_up("type")
        return self.output_type(*(i.type for i in self.inputs))

    @cached_property
    def order(self) -> Order:
        """The order in which rows of one key leave this node."""
        self.bottom_up("order")
        return self.gives if self.gives is not None else self.inputs[0].order

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """Reach per input port."""
        reach = self.reach(*(i.type for i in self.inputs))
        return reach if isinstance(reach, tuple) else (reach,) * len(self.inputs)

    def bottom_up(self, name: str) -> None:
        """Compute a cached property of all nodes below, inputs first. This avoids recursion in deep plans."""
        stack: list[Node] = [i for i in self.inputs if name not in vars(i)]
        asked: set[int] = set()
        while stack:
            node = stack[-1]
            lacking = [i for i in node.inputs if name not in vars(i) and id(i) not in asked]
            if lacking:
                stack.extend(lacking)
            else:
                getattr(stack.pop(), name)
                asked.add(id(node))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a flat list of all nodes below, inputs first: nested pickling fails for deep plans."""
        number: dict[int, int] = {}
        parts: list[tuple[type[Node], dict[str, Any], tuple[int, ...]]] = []
        stack: list[Node] = [self]
        while stack:
            node = stack[-1]
            lacking = [i for i in node.inputs if id(i) not in number]
            if lacking:
                stack.extend(lacking)
            elif id(stack.pop()) not in number:
                number[id(node)] = len(parts)
                state = {name: value for name, value in vars(node).items() if name != "inputs"}
                parts.append((type(node), state, tuple(number[id(i)] for i in node.inputs)))
        return _unpickled, (parts,)

    def topological(self) -> list[Node]:
        """Itself and all below, inputs first, equal nodes once."""
        return topological([self])

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """The same operator over other inputs."""
        return self if tuple(inputs) == self.inputs else dataclasses.replace(self, inputs=tuple(inputs))


def _unpickled(parts: list[tuple[type[Node], dict[str, Any], tuple[int, ...]]]) -> Node:
    nodes: list[Node] = []
    for kind, state, inputs in parts:
        node = object.__new__(kind)
        vars(node).update(state, inputs=tuple(nodes[i] for i in inputs))
        nodes.append(node)
    return nodes[-1]


def topological(roots: Sequence[Node]) -> list[Node]:
    """All nodes under several roots, inputs first, equal nodes once: common sub-plans are shared."""
    seen: dict[Node, Node] = {}
    same: set[int] = set()
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if (known := seen.get(node)) is not None:
            if known is not node and id(node) not in same:
                same.add(id(node))
                known.check_same(node)
                stack.extend((i, False) for i in node.inputs)
            continue
        if ready:
            seen[node] = node
        else:
            stack.append((node, True))
            stack.extend((i, False) for i in reversed(node.inputs))
    return list(seen)


def build(node: Node) -> Node:
    """Check a node as the user's query is built; errors say the operator and the user's line."""
    line = user_line()
    try:
        given = {
            f.name: converted(getattr(node, f.name), str(f.type), f"{node.name()}: {f.name}") for f in node.parameters()
        }
        node = dataclasses.replace(node, where=line, **given)
        node.check()
        _ = node.type, node.digest
    except HydrophoneError as error:
        error.locate(node.name(), line)
        raise
    except MemoryError as error:
        said = " ".join(str(error).split())
        raise ParameterError(
            f"{node.name()}: {node.describe()} asks for more memory than there is: {said}", where=line
        ) from error
    return node


class locating:
    """Context for the work of an operator: errors get the operator and the user's line.

    A class, because every step of every operator enters it, and a generator would cost more.
    """

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, HydrophoneError):
            error.locate(self.node.name(), self.node.where)


def operator_identity(kind: type[Node]) -> str:
    """The operator's stable name and version; for a user's class also its module, name and code."""
    if is_ours(kind):
        if "stable_name" not in vars(kind):
            raise TypeError(f"{kind.__qualname__} declares no stable_name")
        return f"{kind.stable_name}/{kind.version}"
    return f"{kind.stable_name}/{kind.version} {class_identity(kind, Node)}"


def _class_of(kind: type[Node]) -> str:
    """The class behind an operator, whichever process made it."""
    return f"{kind.__module__}.{kind.__name__}" + ("" if is_ours(kind) else f" {operator_identity(kind)}")


def canonical(value: Any) -> str:
    """Text that is equal for equal parameters and different for different ones, in every process."""
    if value is None or isinstance(value, bool | int | str | Fraction | np.dtype):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, float):
        return f"float:{value.hex()}"
    if isinstance(value, complex):
        return f"complex:{value.real.hex()},{value.imag.hex()}"
    if isinstance(value, Enum):
        return f"{_type_name(value)}.{value.name}"
    if isinstance(value, tuple):
        if set(map(type, value)) == {float}:  # taps and weights: thousands of them, asked for again and again
            return "(float:" + ",float:".join(map(float.hex, value)) + ")"
        return "(" + ",".join(canonical(v) for v in value) + ")"
    if isinstance(getattr(value, "identity", None), str):
        return f"{_type_name(value)}:{value.identity}"
    if isinstance(value, Timebase) or dataclasses.is_dataclass(value):
        fields = ",".join(
            f"{f.name}={canonical(getattr(value, f.name))}" for f in dataclasses.fields(value) if f.compare
        )
        return f"{_type_name(value)}({fields})"
    if isinstance(value, pa.Schema):
        return "schema:" + ",".join(f"{f.name}:{f.type}" for f in value)
    if isinstance(value, nw.Expr):
        return f"expr:{expr.expression_text(value)}"
    if callable(value):
        return f"function:{function_identity(value)}"
    raise TypeError(f"a parameter of type {type(value).__name__} has no identity")


def _type_name(value: Any) -> str:
    """The class name of a parameter; with the module for classes that are not ours."""
    kind = type(value)
    return kind.__name__ if is_ours(kind) else f"{kind.__module__}.{kind.__qualname__}"


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and canonical(value) == canonical(default)


def _short_text(value: Any) -> str:
    if isinstance(value, tuple) and len(value) > 6:
        return f"[{len(value)} values]"
    if isinstance(value, nw.Expr):
        return expr.expression_text(value)
    if isinstance(value, Timebase):
        return rate(value)
    if isinstance(value, Enum):
        return str(value.value)
    return getattr(value, "__qualname__", None) or str(value)


def rebuild(root: Node, change: Callable[[Node, Node], Node]) -> Node:
    """Rebuild a plan, inputs first: `change` gets each old node, and the same node over its new inputs."""
    done: dict[Node, Node] = {}
    for node in root.topological():
        done[node] = change(node, node.with_inputs([done[i] for i in node.inputs]))
    return done[root]


def readers(root: Node) -> dict[Node, list[Node]]:
    """For every node its readers, once per input."""
    found: dict[Node, list[Node]] = {}
    for node in root.topological():
        for child in node.inputs:
            found.setdefault(child, []).append(node)
    return found
