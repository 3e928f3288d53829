#pragma once
#include <stdint.h>

/// Whose allocations are counted: an index below 3. 0: nobody's that anybody asks for.
void counting_malloc_begin(int counter);
/// How often memory was asked for while a counter was the one.
uint64_t counting_malloc_count(int counter);
