/* toy_cg_thflow: a vendor's library of two layers. Matrices are dense, row by row. */
#ifndef TOY_CG_THFLOW_H
#define TOY_CG_THFLOW_H

#include <stdint.h>

/* out[rows, units] = x[rows, depth] * weight[depth, units] + bias[units]; 0, or -1 for bad sizes */
int32_t dense_bias(const float *x, const float *weight, const float *bias, float *out,
                   int32_t rows, int32_t depth, int32_t units);

/* the same, and what is negative becomes 0 */
int32_t dense_bias_relu(const float *x, const float *weight, const float *bias, float *out,
                        int32_t rows, int32_t depth, int32_t units);

#endif
