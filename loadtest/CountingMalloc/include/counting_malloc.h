#pragma once
#include <stdint.h>

/// Selects the counter of the allocations that follow: an index below 3. Nobody reads counter 0.
void counting_malloc_begin(int counter);
/// How often memory was requested while the counter was selected.
uint64_t counting_malloc_count(int counter);
