// The program's malloc, which counts and passes on to glibc's. One thread is measured, so the counters need no care.
#include "counting_malloc.h"
#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static uint64_t counts[3];
static int current;

void counting_malloc_begin(int counter) { current = counter; }
uint64_t counting_malloc_count(int counter) { return counts[counter]; }

void *malloc(size_t size) {
  counts[current]++;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  counts[current]++;
  return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
  counts[current]++;
  return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  counts[current]++;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  counts[current]++;
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
