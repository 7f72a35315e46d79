#include "store/s3/library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static bool find_all(void *handle, const struct library *library, void **found)
{
    for (size_t i = 0; i < library->count; i++) {
        found[i] = dlsym(handle, library->symbols[i]);
        if (!found[i])
            return false;
    }
    return true;
}

/* Of two threads that load at once, one is first; both find the same. */
const void *library_load(struct library *library)
{
    void **functions = atomic_load_explicit(&library->functions, memory_order_acquire);
    if (functions)
        return functions;
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    void **found = calloc(library->count, sizeof *found);
    if (!handle || !found || !find_all(handle, library, found)) {
        free(found);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&library->functions, &functions, found))
        return found;
    free(found);
    return functions;
}
