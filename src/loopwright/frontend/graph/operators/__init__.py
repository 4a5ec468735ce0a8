"""Operators on Values, of which converters are made: `cx.operators`."""

from .... import ops as ops  # fills relax.op
from . import elementwise as elementwise
from . import images as images
from . import indices as indices
from . import reductions as reductions
from . import shapes as shapes
from . import windows as windows
from .table import Operators as Operators
