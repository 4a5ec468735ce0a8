"""Which rule lowers an operator: the registry that LegalizeOps asks."""

from . import common as common
