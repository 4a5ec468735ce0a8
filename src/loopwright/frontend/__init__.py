"""Importers: models of other systems, and the `nn` modules, become IRModules."""

from ..base.late import late_names, public_names
from .common import detach_params as detach_params
from .importers import register_importer as register_importer

__getattr__ = late_names(__name__)
__dir__ = public_names(__name__)
