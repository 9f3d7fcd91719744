"""From line by line to compiled: functions with Python's own control flow as programs."""

from opstep.convert.control_functions import cond as cond, while_loop as while_loop
from opstep.convert.to_graph import (
    Converted as Converted,
    ConvertedProgram as ConvertedProgram,
    Spec as Spec,
    to_graph as to_graph,
)
from opstep.convert.while_block import while_ as while_
