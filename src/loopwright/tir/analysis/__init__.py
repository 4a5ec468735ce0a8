"""Questions about TensorIR that change nothing."""

from .access import get_block_access_region as get_block_access_region
from .access import get_block_read_write_region as get_block_read_write_region
