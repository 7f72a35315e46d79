/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h: the columns of the inputs, and their union by name.
 *
 * The union depends on the set of schemas alone, not on the order of the inputs: schemas with fewer
 * columns come first (a schema usually grows at its end), schemas with equally many in byte order,
 * and each column has the place of its first appearance.
 *
 * Two types of one column unite if one is wider: integers of the same sign, and FLOAT with DOUBLE.
 * Any other difference is a clash. The type that most of the data has, in bytes, is taken to be
 * right: a few small files must not put a large chunk in quarantine. In a survey, the second input
 * is right. */
#ifndef PARQUET_SCHEMA_H
#define PARQUET_SCHEMA_H

#include "parquet/engine.h"

#define COLUMNS_MAX 100000

struct column {
    struct view name, type; /* the type is DuckDB's, such as DECIMAL(18,3) */
};

/* The columns of one or more inputs. */
struct schema {
    struct view text; /* names and types, each ended by a NUL */
    struct column *columns;
    size_t count;
    uint64_t first_input;
    uint64_t bytes; /* of its inputs */
};

struct schemas {
    struct schema *list;
    size_t count;
    struct column *columns; /* the union */
    size_t column_count;
    const struct column **by_name; /* the same, in the byte order of their names */
};

/* Reads the columns of all inputs, and unites them. *ret_input: the input that is at fault, counted
 * from 1.
 *
 *   CORRUPT   an input cannot be read
 *   INVALID   a clash of types, or names that differ only in case, which DuckDB does not tell
 *             apart */
enum hf_status schemas_read(struct engine *engine, struct schemas *ret_schemas,
                            uint64_t *ret_input, struct hf_error *error);

/* Checks that every input has the columns of the request, with suitable types. */
enum hf_status schemas_check_fields(const struct engine *engine, const struct schemas *schemas,
                                    uint64_t *ret_input, struct hf_error *error);

/* Forgets all but the columns of the first input. */
void schemas_keep_first(struct schemas *schemas);

/* A column of the union; NULL: there is no such column. */
const struct column *schemas_find(const struct schemas *schemas, struct view name);

#endif
