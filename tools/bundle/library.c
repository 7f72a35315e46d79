/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: takes the place of src/file/library.c in a program that contains its libraries (make
 * tarball): their functions are in a table (tools/bundle.py). */
#include "file/library.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern const struct bundled_function {
    const char *file, *symbol;
    void *function;
} bundled_functions[] __attribute__((visibility("default")));

static void *find_function(const char *file, const char *symbol)
{
    for (const struct bundled_function *at = bundled_functions; at->file; at++)
        if (strcmp(at->file, file) == 0 && strcmp(at->symbol, symbol) == 0)
            return at->function;
    return NULL;
}

const void *library_load(struct library *library)
{
    void **functions = atomic_load_explicit(&library->functions, memory_order_acquire);
    if (functions)
        return functions;
    void **found = calloc(library->count, sizeof *found);
    for (size_t i = 0; found && i < library->count; i++) {
        found[i] = find_function(library->file, library->symbols[i]);
        if (!found[i]) {
            free(found);
            return NULL;
        }
    }
    if (!found || atomic_compare_exchange_strong(&library->functions, &functions, found))
        return found;
    free(found);
    return functions;
}
