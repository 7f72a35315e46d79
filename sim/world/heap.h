/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h: tracks which node owns each allocation. Every allocation in the simulator belongs to the
 * node whose fiber made it. The memory of a crashed node can therefore be freed, and a node that
 * ends normally can be checked for leaks.
 *
 * In the program's object files, the linker redirects malloc and related functions to the __wrap_
 * functions in heap.c (the list is in sim/meson.build). Allocations inside libraries are not
 * tracked. A block that libc allocates inside another function (getline, open_memstream, ...) must
 * not be freed with free() here; tests/sim_symbols.py rejects such functions in the core.
 *
 * Outside nodes (the world, the checkers) the owner is NULL, and memory is not tracked. */
#ifndef SIM_WORLD_HEAP_H
#define SIM_WORLD_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap_block;

struct heap {
    struct heap_block *newest;
    size_t count;
    size_t bytes;
    /* For tests: the number of allocations until one fails; 0: none fails. Compilers may optimise
     * some allocations away, so the count depends on the compiler. */
    uint64_t fail_in;
};

#define HEAP_INIT ((struct heap){ NULL, 0, 0, 0 })

/* From now on, allocations belong to `heap` (NULL: to no node). Returns the previous owner. This
 * function must not be inlined: compilers assume that malloc reads none of the program's variables,
 * and would remove the assignments around it. */
struct heap *heap_enter(struct heap *heap);

/* Frees everything that the heap still owns. */
void heap_drop(struct heap *heap);

#endif
