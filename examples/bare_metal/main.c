/* Runs the model on one input, which build.py wrote to sample.h, and prints the bytes of its output and how
 * deep the stack became. */
#include <stddef.h>
#include <stdint.h>
#include "gesture.h"
#include "sample.h"

void print(const char* text);

extern uint8_t stack_end[];

static uint8_t output[OUTPUT_BYTES] __attribute__((aligned(4)));

static void print_hex(uint32_t value, int digits) {
  char text[9];
  text[digits] = 0;
  while (digits > 0) {
    text[--digits] = "0123456789abcdef"[value & 15];
    value >>= 4;
  }
  print(text);
}

int main(void) {
  struct gesture_main_inputs inputs = {(const void*)sample};
  struct gesture_main_outputs outputs = {(void*)output};
  uint8_t* const here = __builtin_frame_address(0);
  volatile uint8_t* at = stack_end;
  while (at < here - 64) *at++ = 0xA5; /* what the call leaves untouched keeps this mark */
  if (gesture_main_run(&inputs, &outputs, NULL) != 0) return 1;
  print("output ");
  for (size_t k = 0; k < sizeof output; ++k) print_hex(output[k], 2);
  for (at = stack_end; *at == 0xA5;) ++at;
  print("\nstack ");
  print_hex((uint32_t)(here - at), 8);
  print("\n");
  return 0;
}
