"""What a named map shows of itself: every lane's value in every lane.

`AllLanes` gives y[k] = lane k's x, the same in all lanes.  Its transpose, `LaneSum`, adds up what all
lanes say of every lane, and gives each lane its own; they are each other's transpose.  Both know their
map by its name, so that they may be recorded in a program and batched later.
"""

from __future__ import annotations

from rune.level import bind
from rune.primitives import movement, reduce
from rune.primitives.primitive import Linear
from rune.program import Type, type_of

__all__ = ["all_lanes", "lane_sum"]


class AllLanes(Linear):
    name = "AllLanes"
    recompute = False

    def type(self, types, params):
        return [Type(types[0].dtype, (int(params["size"]), *types[0].shape))]

    def evaluate(self, args, params):
        """For a value that is the same in all lanes."""
        return [movement.broadcast(args[0], (int(params["size"]), *type_of(args[0]).shape))]

    def transpose(self, cts, args, params):
        return bind(lane_sum, cts, params)

    def batch(self, size, args, mapped, params):
        if getattr(size, "name", None) == params["axis"]:
            return [args[0]], [False]
        return [movement.swap_front(x) for x in bind(self, args, params)], [True]

    def lower(self, e):
        return movement.broadcast_.lower(e)

    def details(self, params):
        return f"of {params['axis']!r}"


class LaneSum(Linear):
    name = "LaneSum"
    recompute = False

    def type(self, types, params):
        return [Type(types[0].dtype, types[0].shape[1:])]

    def evaluate(self, args, params):
        raise AssertionError("a sum over lanes outside its map")

    def transpose(self, cts, args, params):
        return bind(all_lanes, cts, params)

    def batch(self, size, args, mapped, params):
        if getattr(size, "name", None) == params["axis"]:
            return [reduce.reduce("sum", args[0], (0,))], [True]
        return bind(self, [movement.swap_front(args[0])], params), [True]

    def details(self, params):
        return f"of {params['axis']!r}"


all_lanes, lane_sum = AllLanes(), LaneSum()
