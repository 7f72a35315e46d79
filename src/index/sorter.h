/* SPDX-License-Identifier: Apache-2.0 */
/* sorter.h: sorts records by a field, in bounded memory: records that do not fit into SORT_MEMORY
 * are sorted in temporary files, by the merge library. With a limit, only so many records are
 * kept, so that a short list never needs a file. */
#ifndef INDEX_SORTER_H
#define INDEX_SORTER_H

#include "index/record.h"
#include "index/schema.h"

struct env;

/* The memory for records; the merge library gets as much again. */
#define SORT_MEMORY (16 * MIB)

/* Only this many bytes of a field are compared. */
#define SORT_BYTES_MAX 1024

/* An order of records: by the time field as instants, by another field as bytes or as numbers.
 * Records whose field is not a number follow the numbers. Equal records are in the order of their
 * keys, also if the order is descending. */
struct sort_order {
    size_t field;
    bool by_time, by_number, descending;
};

/* Parses FIELD[:number][:desc]. INVALID: an unknown field or word. */
enum hf_status sort_order_parse(const struct schema *schema, struct view text,
                                struct sort_order *ret_order, struct hf_error *error);

struct record_sorter;

/* `limit` 0: all records. NULL if out of memory. */
struct record_sorter *record_sorter_new(struct env *env, struct sort_order order,
                                        uint64_t limit);
void record_sorter_free(struct record_sorter *sorter);

/* Adds a record, which is copied. */
enum hf_status record_sorter_add(struct record_sorter *sorter, const struct record *record,
                                 struct hf_error *error);

/* The bytes of the next record in the order, valid until the next call. The first call sorts; after
 * it no record can be added. NOT_FOUND: there are no more. */
enum hf_status record_sorter_next(struct record_sorter *sorter, struct view *ret_bytes,
                                  struct hf_error *error);

#endif
