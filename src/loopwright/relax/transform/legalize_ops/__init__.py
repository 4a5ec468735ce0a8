"""The registry of legalization rules that LegalizeOps uses."""

from . import common as common
