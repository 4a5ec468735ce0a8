#include "toy_cg_thflow.h"

#include <stddef.h>

int32_t dense_bias(const float *x, const float *weight, const float *bias, float *out,
                   int32_t rows, int32_t depth, int32_t units) {
  if (rows < 0 || depth < 0 || units < 0) return -1;
  for (int32_t i = 0; i < rows; i++) {
    float *row = out + (size_t)i * (size_t)units;
    for (int32_t j = 0; j < units; j++) row[j] = bias[j];
    for (int32_t k = 0; k < depth; k++) {
      const float *from = weight + (size_t)k * (size_t)units;
      const float scale = x[(size_t)i * (size_t)depth + (size_t)k];
      for (int32_t j = 0; j < units; j++) row[j] += scale * from[j];
    }
  }
  return 0;
}

int32_t dense_bias_relu(const float *x, const float *weight, const float *bias, float *out,
                        int32_t rows, int32_t depth, int32_t units) {
  const int32_t status = dense_bias(x, weight, bias, out, rows, depth, units);
  if (status != 0) return status;
  const size_t count = (size_t)rows * (size_t)units;
  for (size_t i = 0; i < count; i++) out[i] = out[i] < 0.0f ? 0.0f : out[i];
  return 0;
}
