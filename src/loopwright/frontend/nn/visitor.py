"""`Mutator`: replaces parts of a model before it is exported."""

from __future__ import annotations

from typing import Any

from .core import Effect, Module, ModuleDict, ModuleList, Parameter


class Mutator:
    """Visits the parts of a module in place; the result of the method for a part replaces it.

    Names are paths from the module that was visited first, like "layers.0.weight".

    >>> class Smooth(nn.Mutator):
    ...     def visit_module(self, name, node):
    ...         return nn.SiLU() if isinstance(node, nn.ReLU) else self.visit(name, node)
    >>> net = Smooth().visit("", nn.ModuleList([nn.Linear(4, 8), nn.ReLU()]))
    >>> type(net[1]).__name__
    'SiLU'
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """Called for a module that is not a list or dict of modules; by default visits its parts."""
        return self.visit(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """Called for an effect; by default returns it."""
        return node

    def visit_param(self, name: str, node: Parameter) -> Any:
        """Called for a parameter; by default returns it."""
        return node

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """Called for a list of modules; by default visits its modules."""
        return self.visit(name, node)

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """Called for a dict of modules; by default visits its modules."""
        return self.visit(name, node)

    def visit(self, name: str, node: Module) -> Any:
        """Replace each part of `node`, whose path is `name`, by its method's result; returns `node`."""
        if isinstance(node, ModuleList):
            for i, part in enumerate(node.modules):
                node.modules[i] = self._part(_join(name, str(i)), part)
        elif isinstance(node, ModuleDict):
            for key, part in list(node.modules.items()):
                node.modules[key] = self._part(_join(name, key), part)
        else:
            for key, part in list(vars(node).items()):
                setattr(node, key, self._part(_join(name, key), part))
        return node

    def _part(self, path: str, part: object) -> Any:
        if isinstance(part, ModuleList):
            return self.visit_modulelist(path, part)
        if isinstance(part, ModuleDict):
            return self.visit_moduledict(path, part)
        if isinstance(part, Module):
            return self.visit_module(path, part)
        if isinstance(part, Effect):
            return self.visit_effect(path, part)
        if isinstance(part, Parameter):
            return self.visit_param(path, part)
        return part


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
