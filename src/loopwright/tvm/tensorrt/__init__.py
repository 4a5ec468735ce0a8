"""Networks described for TensorRT's builder: a machine that is not here reads them."""
