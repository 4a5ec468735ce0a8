"""ONNX's own backend tests through `loopwright.frontend.onnx.backend`, each in a process that may
die: `python -m tools.onnx_suite`."""
