/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: loads a shared library at run time and looks up the functions that we call. */
#include "file/library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* If two threads load at the same time, the first one wins, and both get the same table. */
const void *library_load(struct library *library)
{
    void **functions = atomic_load_explicit(&library->functions, memory_order_acquire);
    if (functions)
        return functions;
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    void **found = calloc(library->count, sizeof *found);
    bool complete = handle && found;
    for (size_t i = 0; i < library->count; i++) {
        if (!complete)
            break;
        found[i] = dlsym(handle, library->symbols[i]);
        complete = found[i] != NULL;
    }
    if (!complete) {
        free(found);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&library->functions, &functions, found))
        return found;
    free(found);
    return functions;
}
