"""External back ends shipped with Loopwright: examples to copy, registered like those of plug-ins.

- blas.py: matrix products by OpenBLAS (`pip install scipy-openblas32`)
- onednn.py: convolutions, products, pooling by oneDNN (`pip install onednn-cpu-gomp`)
- tensorrt_json.py: whole networks described for TensorRT's builder; network.py reads descriptions

They are entry points `loopwright.backends` in pyproject.toml.
"""
