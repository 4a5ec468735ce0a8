/* What runs before and below main: the vector table, memory, and what compilers call by themselves.
 * There is no C library. */
#include <stddef.h>
#include <stdint.h>

int main(void);
void reset(void);
void finish(int code);

/* Of memory.ld. */
extern uint8_t stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];

static void fault(void) { finish(99); }

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, reset, fault, fault, fault, fault, fault};

void* memcpy(void* restrict to, const void* restrict from, size_t size) {
  uint8_t* a = to;
  const uint8_t* b = from;
  for (; size > 0; --size) *a++ = *b++;
  return to;
}

void* memset(void* to, int value, size_t size) {
  for (uint8_t* a = to; size > 0; --size) *a++ = (uint8_t)value;
  return to;
}

/* A request to the debugger, or to qemu -semihosting. */
static void request(uint32_t operation, const void* argument) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void print(const char* text) { request(0x04, text); /* SYS_WRITE0 */ }

void finish(int code) {
  const uint32_t block[2] = {0x20026 /* the application exits */, (uint32_t)code};
  request(0x20 /* SYS_EXIT_EXTENDED */, block);
  for (;;) {
  }
}

void reset(void) {
#if defined(__ARM_FP)
  *(volatile uint32_t*)0xE000ED88 |= 0xFu << 20; /* CPACR: the floating-point unit is on */
  __asm__ volatile("dsb\n\tisb");
#endif
  memcpy(data_start, data_load, (size_t)(data_end - data_start));
  memset(bss_start, 0, (size_t)(bss_end - bss_start));
  finish(main());
}
