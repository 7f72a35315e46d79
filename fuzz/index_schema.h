/* SPDX-License-Identifier: Apache-2.0 */
/* index_schema.h: the index whose records the fuzzers generate: a key, a time, and two fields. */
#ifndef FUZZ_INDEX_SCHEMA_H
#define FUZZ_INDEX_SCHEMA_H

#include "base/check.h"
#include "index/name.h"

#define FIELDS 4

static inline struct schema schema_of_fields(void)
{
    const struct view fields[FIELDS] = { VIEW("key"), VIEW("a"), VIEW("time"), VIEW("b") };
    struct schema schema;
    check(schema_new(&(struct schema_spec){ fields, FIELDS, fields[0], fields[2], 2, true,
                                            false },
                     &schema, NULL) == HF_OK);
    return schema;
}

#endif
