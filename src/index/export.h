/* SPDX-License-Identifier: Apache-2.0 */
/* export.h: writes the selected records to a file. */
#ifndef INDEX_EXPORT_H
#define INDEX_EXPORT_H

#include "index/read.h"

struct export_file {
    int fd; /* owned by the caller */
    enum hf_index_format format;
};

/* Like index_walk, but only the visitor's `progress` and `trouble` are used. If a write fails, the
 * export ends with the error of the file. */
enum hf_status index_export(struct index *index, const struct index_query *query,
                            const struct export_file *file, const struct index_visitor *visitor,
                            struct hf_index_progress *ret_totals, struct hf_error *error);

#endif
