"""The converters of the standard operators: a file per family.

Importing this package fills the table of `registry`.
"""

from . import (
    attention,
    contrib,
    contrib_attention,
    contrib_experts,
    contrib_gated,
    contrib_search,
    contrib_words,
    control,
    create,
    elementwise,
    linear,
    ml,
    nchwc,
    nn,
    order,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    resize,
    sampling,
    scatter,
    sequences,
    shape,
    signal,
    texts,
    training,
    trees,
)
