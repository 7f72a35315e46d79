/* SPDX-License-Identifier: Apache-2.0 */
/* duckdb.h: the functions of DuckDB's C library that we call. The library is loaded at run time, by
 * this process alone, so it is needed neither to build nor to run anything else. The declarations
 * are those of its stable C API; no function that DuckDB calls deprecated is used.
 *
 * A query returns text only: its SQL casts every column to VARCHAR. So one way of reading values is
 * enough. */
#ifndef PARQUET_DUCKDB_H
#define PARQUET_DUCKDB_H

#include "base/error.h"
#include "base/view.h"

#include <stdint.h>

typedef struct duck_database_handle *duck_database;
typedef struct duck_connection_handle *duck_connection;
typedef struct duck_config_handle *duck_config;
typedef struct duck_chunk_handle *duck_chunk;
typedef struct duck_vector_handle *duck_vector;
typedef struct duck_type_handle *duck_type;
typedef struct duck_function_handle *duck_function;
typedef struct duck_call_handle *duck_call;

/* The library's own state of a result. It is passed by value to some functions, so its size is part
 * of the interface; its members are not used. */
typedef struct {
    uint64_t counts[3];
    void *pointers[3];
} duck_result;

/* 0 is success. */
typedef int duck_state;

/* A function of ours that SQL calls with many rows at a time. */
typedef void duck_function_body(duck_call call, duck_chunk arguments, duck_vector result);

/* Each row: result, name without "duckdb_", arguments. */
#define DUCKDB_FUNCTIONS(ROW)                                                              \
    ROW(const char *, library_version, (void))                                             \
    ROW(duck_state, create_config, (duck_config * ret_config))                             \
    ROW(duck_state, set_config, (duck_config config, const char *name, const char *value)) \
    ROW(void, destroy_config, (duck_config * config))                                      \
    ROW(duck_state, open_ext,                                                              \
        (const char *path, duck_database *ret_database, duck_config config, char **error)) \
    ROW(duck_state, connect, (duck_database database, duck_connection * ret_connection))   \
    ROW(duck_state, query,                                                                 \
        (duck_connection connection, const char *sql, duck_result *ret_result))            \
    ROW(const char *, result_error, (duck_result * result))                                \
    ROW(int, result_error_type, (duck_result * result))                                    \
    ROW(duck_chunk, fetch_chunk, (duck_result result))                                     \
    ROW(uint64_t, data_chunk_get_size, (duck_chunk chunk))                                 \
    ROW(duck_vector, data_chunk_get_vector, (duck_chunk chunk, uint64_t column))           \
    ROW(void *, vector_get_data, (duck_vector vector))                                     \
    ROW(uint64_t *, vector_get_validity, (duck_vector vector))                             \
    ROW(void, destroy_data_chunk, (duck_chunk * chunk))                                    \
    ROW(void, destroy_result, (duck_result * result))                                      \
    ROW(duck_type, create_logical_type, (int type))                                        \
    ROW(duck_function, create_scalar_function, (void))                                     \
    ROW(void, scalar_function_set_name, (duck_function function, const char *name))        \
    ROW(void, scalar_function_add_parameter, (duck_function function, duck_type type))     \
    ROW(void, scalar_function_set_return_type, (duck_function function, duck_type type))   \
    ROW(void, scalar_function_set_volatile, (duck_function function))                      \
    ROW(void, scalar_function_set_function,                                                \
        (duck_function function, duck_function_body * body))                               \
    ROW(duck_state, register_scalar_function,                                              \
        (duck_connection connection, duck_function function))

#define DUCKDB_MEMBER_(result, name, arguments) result(*name) arguments;
struct duckdb {
    DUCKDB_FUNCTIONS(DUCKDB_MEMBER_)
};
#undef DUCKDB_MEMBER_

/* The one type of a function's argument and result that we use, as create_logical_type numbers
 * it. */
#define DUCK_TYPE_BOOLEAN 1

/* Kinds of errors, as result_error_type numbers them. */
enum duck_error {
    DUCK_ERROR_CATALOG = 13,
    DUCK_ERROR_IO = 28,
    DUCK_ERROR_OUT_OF_MEMORY = 33,
};

/* Loads the library from this path or, if it is "", by its name. UNSUPPORTED: it is not there,
 * or it lacks a function; the reason says what to install or set. */
enum hf_status duckdb_load(const char *path, struct duckdb *ret_duckdb, struct hf_error *error);

/* The value of a VARCHAR column of a chunk; data NULL: it is NULL. */
struct view duckdb_text(const struct duckdb *duckdb, duck_chunk chunk, uint64_t column,
                        uint64_t row);

#endif
