"""Importers: models of other systems, and the `nn` modules, become IRModules."""

from .common import detach_params as detach_params
