"""TVM's `script.parser.core.doc_core`: the classes of syntax trees, which are Python's own."""

from __future__ import annotations

from ast import *  # noqa: F403
