/* heap.h: whose memory is it? Every allocation of the simulator belongs to the node whose fiber
 * made it, so that a node that crashes takes its memory with it, and one that ends properly can
 * be asked whether it has given all of it back.
 *
 * The linker turns malloc and its relatives into the __wrap_ functions of heap.c (the
 * list is in sim/meson.build), in the same object files that the program is made of. What
 * libraries allocate within themselves is not seen. A block that libc allocates inside another
 * function (getline, open_memstream, ...) must not be freed with free() here:
 * tests/sim_symbols.py refuses such functions in the core.
 *
 * Outside nodes (the world, the judges) the owner is NULL and memory is plain. */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap_block;

struct heap {
    struct heap_block *newest;
    size_t count;
    size_t bytes;
    /* Allocations until one fails, for tests; 0: none does. Compilers may do without some, so
     * the count is not the same for all of them. */
    uint64_t fail_in;
};

#define HEAP_INIT ((struct heap){ NULL, 0, 0, 0 })

/* From here on allocations belong to `heap` (NULL: to nobody). Returns who it was before. Not to be
 * made inline: compilers take malloc for a function that looks at no variable of ours, and would
 * leave out what is set before it and set back behind it. */
struct heap *heap_enter(struct heap *heap);

/* Frees all that the heap still owns. */
void heap_drop(struct heap *heap);

#endif
