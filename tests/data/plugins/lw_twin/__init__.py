"""A package whose second back end has the name of another package's."""

from lw_good import codegen

from loopwright.relax.byoc import Backend

BACKENDS = [Backend("twin", codegen=codegen), Backend("good", codegen=codegen)]
NOTHING = 3
