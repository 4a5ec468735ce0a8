/* Calls a function of a library for aarch64 on tensors from the standard input, and writes them back.
 *
 * runner LIBRARY FUNCTION LAST_ERROR < request > reply
 * request: the numbers of tensors and arguments; the bytes of each tensor; for each argument its kind (0 a
 * tensor, 1 an integer, 2 the bits of a float) and its value; the tensors. reply: the result, the tensors. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 512

/* Integers and floats are passed in registers of their own, the ninth integer and the next ones on the stack. */
typedef int32_t (*function)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            double, double, double, double, double, double, double, double,
#define SIXTEEN int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, \
                int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t
                            SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN);

static void take(void* to, size_t size) {
  if (size > 0 && fread(to, size, 1, stdin) != 1) exit(3);
}

int main(int argc, char** argv) {
  static int64_t counts[2], sizes[MOST], kinds[2 * MOST], whole[MOST];
  static double real[MOST];
  static void* tensors[MOST];
  void* library = argc > 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (library == NULL) {
    fprintf(stderr, "%s\n", argc > 3 ? dlerror() : "LIBRARY FUNCTION LAST_ERROR");
    return 4;
  }
  take(counts, sizeof counts);
  if (counts[0] > MOST || counts[1] > 72) return 5;
  take(sizes, (size_t)counts[0] * 8);
  take(kinds, (size_t)counts[1] * 16);
  for (int64_t k = 0; k < counts[0]; ++k) {
    tensors[k] = malloc((size_t)sizes[k] + 1);
    take(tensors[k], (size_t)sizes[k]);
  }
  int64_t n = 0, m = 0;
  for (int64_t k = 0; k < counts[1]; ++k) {
    const int64_t kind = kinds[2 * k], value = kinds[2 * k + 1];
    if (kind == 2) memcpy(&real[m++], &value, 8);
    else whole[n++] = kind == 0 ? (int64_t)(intptr_t)tensors[value] : value;
  }
  function f;
  void* address = dlsym(library, argv[2]);
  if (address == NULL) return 6;
  memcpy(&f, &address, sizeof f);
#define W(k) whole[k], whole[k + 1], whole[k + 2], whole[k + 3], whole[k + 4], whole[k + 5], whole[k + 6], whole[k + 7]
  const int64_t code = f(W(0), real[0], real[1], real[2], real[3], real[4], real[5], real[6], real[7],
                         W(8), W(16), W(24), W(32), W(40), W(48), W(56), W(64));
  if (code != 0) {
    const char* (*said)(void);
    void* at = dlsym(library, argv[3]);
    memcpy(&said, &at, sizeof said);
    fprintf(stderr, "%s\n", at == NULL ? "it failed" : said());
    return 1;
  }
  for (int64_t k = 0; k < counts[0]; ++k) fwrite(tensors[k], 1, (size_t)sizes[k], stdout);
  return 0;
}
