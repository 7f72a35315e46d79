/* export.h: records that are wanted, written to a file. */
#ifndef INDEX_EXPORT_H
#define INDEX_EXPORT_H

#include "index/read.h"

/* As index_walk; of the visitor only `progress` and `trouble` are asked. A write that fails ends
 * it with the status of the file. */
enum hf_status index_export(struct index *index, const struct index_query *query, int fd,
                            enum hf_index_format format, const struct index_visitor *visitor,
                            struct walk_totals *ret_totals, struct hf_error *error);

#endif
