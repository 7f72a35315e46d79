/* SPDX-License-Identifier: Apache-2.0 */
/* duckdb.c: loads DuckDB's library and reads texts from its vectors. */
#include "parquet/duckdb.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#define LIBRARY_NAME "libduckdb.so"

#if defined(__aarch64__)
#define LIBRARY_PACKAGE "@duckdb/node-bindings-linux-arm64"
#else
#define LIBRARY_PACKAGE "@duckdb/node-bindings-linux-x64"
#endif

static enum hf_status not_loaded(const char *why, struct hf_error *error)
{
    return error_set(error, HF_UNSUPPORTED,
                     "Parquet needs DuckDB's library (%.75s): set HOLDFAST_DUCKDB to the path "
                     "of libduckdb.so, for example from the npm package " LIBRARY_PACKAGE,
                     why ? why : "it cannot be loaded");
}

enum hf_status duckdb_load(const char *path, struct duckdb *ret_duckdb, struct hf_error *error)
{
    static const char *const names[] = {
#define DUCKDB_NAME_(result, name, arguments) "duckdb_" #name,
        DUCKDB_FUNCTIONS(DUCKDB_NAME_)
#undef DUCKDB_NAME_
    };
    void *functions[sizeof names / sizeof names[0]];
    static_assert(sizeof functions == sizeof *ret_duckdb, "a table of functions");
    const char *file = path[0] ? path : LIBRARY_NAME;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return not_loaded(dlerror(), error);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        functions[i] = dlsym(library, names[i]);
        if (!functions[i])
            return not_loaded(dlerror(), error);
    }
    memcpy(ret_duckdb, functions, sizeof functions);
    return HF_OK;
}

/* A text in a vector: up to 12 bytes are stored in place, more elsewhere. */
union duck_string {
    struct {
        uint32_t size;
        char bytes[12];
    } inlined;
    struct {
        uint32_t size;
        char prefix[4];
        const char *bytes;
    } pointer;
};

struct view duckdb_text(const struct duckdb *duckdb, duck_chunk chunk, uint64_t column,
                        uint64_t row)
{
    duck_vector vector = duckdb->data_chunk_get_vector(chunk, column);
    const uint64_t *validity = duckdb->vector_get_validity(vector);
    const union duck_string *strings = duckdb->vector_get_data(vector);
    if (validity && !(validity[row / 64] >> row % 64 & 1))
        return (struct view){ NULL, 0 };
    const union duck_string *text = &strings[row];
    bool in_place = text->inlined.size <= sizeof text->inlined.bytes;
    return (struct view){ in_place ? text->inlined.bytes : text->pointer.bytes,
                          text->inlined.size };
}
