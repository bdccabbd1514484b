"""Traits: what an operator tells the compiler and the hosts about itself, each with a default, so that nobody asks for its class."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

import narwhals as nw

from hydrophone.plan.reach import Reach


class Order(Enum):
    """In what order rows of one key travel on an edge."""

    ANY = "any"
    INDEX = "per key in order"


Columns = frozenset[str] | None
"""Names of payload columns; None: all of them."""


class Traits:
    """What a node states about its operator. A default is what is safe to believe of any operator."""

    # --- order ------------------------------------------------------------------------------------------------------------

    needs: ClassVar[Order] = Order.ANY
    """The order that this operator needs on its inputs."""
    gives: ClassVar[Order | None] = Order.ANY
    """The order of its output; None: that of its input."""
    inserted: ClassVar[bool] = False
    """Whether the compiler puts this operator into plans: then the user has not written it, and titles leave it out."""

    # --- time -------------------------------------------------------------------------------------------------------------

    def reach(self, *inputs: Any) -> Reach | tuple[Reach, ...]:
        """What the value at one instant needs around it: for all inputs, or one per input port.

        The instant of an output row, which decides the slice that owns it, is its start; of a window, its reference time.
        """
        return Reach()

    @property
    def mark_step(self) -> int | None:
        """Marks that are no multiples of this, in nanoseconds, make nothing final here; None: any mark may."""
        return None

    @property
    def keeps_ends(self) -> bool:
        """Whether the events of the output end when those of the inputs do, so that progress on ends passes through."""
        return self.rowwise

    @cached_property
    def paired(self) -> str | None:
        """The column with the other time of pairs, where the output progresses on both times together."""
        return None

    def group_delay(self, frequency: float) -> float | None:
        """By how many seconds the operator delays a tone of so many Hz; None where there is no such thing."""
        return None

    # --- rows and columns -------------------------------------------------------------------------------------------------

    rowwise: ClassVar[bool] = False
    """Whether every output row comes from one input row alone, whatever its key: such operators run before an exchange."""
    unites: ClassVar[bool] = False
    """Whether the output is the rows of all inputs as they are, and marks pass unchanged."""

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """The payload columns of an input that the operator looks at, given those that are needed of its output.

        Events that tie are ordered by all their columns, so an operator that chooses among them needs all.
        """
        return None

    @property
    def row_filter(self) -> nw.Expr | None:
        """The condition, where the operator keeps the rows that meet one and does nothing else."""
        return None

    def filter_passes(self, names: frozenset[str]) -> bool:
        """Whether a row filter that looks at these columns gives the same answer below this operator as above it."""
        return False

    # --- key --------------------------------------------------------------------------------------------------------------

    changes_key: ClassVar[bool] = False
    """Whether the output belongs to another scope than the input, even where key columns have the same names."""

    def key_below(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """The input's columns that are these key columns of the output of a row operator; None where one is computed."""
        return names

    # --- a plan inside ----------------------------------------------------------------------------------------------------

    @property
    def hosted(self) -> Any:
        """The plan that the engine runs inside this operator, over the same keys; its leaves are ports. None: there is none.

        The kernel finds what runs it in `Kernel.nested`.
        """
        return None

    # --- families ---------------------------------------------------------------------------------------------------------

    @property
    def family(self) -> tuple[str, ...] | None:
        """What is equal in all operators that differ from this one in a number alone; None: it has no such relatives.

        Where several of a family read the same input, one kernel runs them (`hydrophone.model.family`).
        """
        return None

    # --- partial aggregates -----------------------------------------------------------------------------------------------

    @property
    def unmergeable(self) -> tuple[str, ...] | None:
        """The aggregates over panes of time that cannot be merged from parts; None where the operator has no panes.

        The kernel of an operator with panes is a `hydrophone.model.kernel.Panes`.
        """
        return None

    @property
    def remark(self) -> str | None:
        """What `explain` says of an operator that the compiler has put in."""
        return None

    # --- streams ----------------------------------------------------------------------------------------------------------

    def check_stream(self, waiting: str | None) -> None:
        """Refuse what could never give an answer over a stream that does not end: what a key that falls silent holds back for ever.

        `waiting` names the first operator above that waits for the progress of this one; None: its results leave at once.
        """

    @property
    def stalls(self) -> str | None:
        """What may hold back progress for as long as the data goes on so, and what bounds it, for a warning; None: nothing."""
        return None
