"""External back ends shipped with Loopwright: examples to copy, registered like those of plug-ins.

- blas.py: matrix products by OpenBLAS (`pip install scipy-openblas32`)
- onednn.py: convolutions, products, pooling by oneDNN (`pip install onednn-cpu-gomp`)
(`tvm/tensorrt` is a third, which describes whole networks.)

They are entry points `loopwright.backends` in pyproject.toml.
"""
