/* SPDX-License-Identifier: Apache-2.0 */
/* usv.c: records with fields separated by unit separators (0x1F), ended by LF, RS or RS LF. All
 * other bytes are data. An empty line is not a record, so RS LF needs no lookahead: RS ends the
 * record, and LF ends an empty one. */
#include "merge/control.h"
#include "merge/format.h"

static_assert(BLOCK_SLACK >= 2 * CONTROL_BYTES, "it looks one step ahead of the last one");

#define UNIT_SEPARATOR   0x1F
#define RECORD_SEPARATOR 0x1E

/* The scanner's position within an incomplete record. */
struct place {
    size_t start; /* of the record */
    size_t field; /* where the current field starts */
    size_t number;
    struct view key;
    struct view time;
};

static inline void end_field(const struct cutter *cutter, struct place *place, size_t at)
{
    const char *block = cutter->batch->block;
    if (place->number == cutter->key.parts[0].field.number)
        place->key = (struct view){ block + place->field, at - place->field };
    if (place->number == cutter->time.number)
        place->time = (struct view){ block + place->field, at - place->field };
    place->number++;
    place->field = at + 1;
}

/* A field of a record; false if the record has fewer. */
static bool usv_field(struct view record, size_t number, struct view *ret_value)
{
    for (size_t i = 1; i < number; i++) {
        size_t end = view_find(record, UNIT_SEPARATOR);
        if (end == record.size)
            return false;
        record = view_from(record, end + 1);
    }
    *ret_value = view_first(record, view_find(record, UNIT_SEPARATOR));
    return true;
}

static enum row_fault take_usv_key(struct cutter *cutter, struct view record)
{
    buffer_clear(&cutter->encoded);
    for (size_t i = 0; i < cutter->key.count; i++) {
        const struct key_part *part = &cutter->key.parts[i];
        struct view value;
        if (!usv_field(record, part->field.number, &value))
            return ROW_NO_KEY;
        if (!key_append(&cutter->encoded, part, value))
            return ROW_KEY_NUMBER;
    }
    if (cutter->encoded.failed)
        cutter->batch->keys.failed = true;
    return ROW_NONE;
}

/* A row whose key is encoded, or that can be a deletion. */
__attribute__((noinline)) static void add_special_usv(struct cutter *cutter, struct view record,
                                                      struct view key,
                                                      const struct instant *time)
{
    bool is_encoded = cutter->key.is_encoded, is_deleted = false;
    struct view value;
    enum row_fault fault = is_encoded ? take_usv_key(cutter, record) : ROW_NONE;
    if (fault == ROW_NONE && cutter->deleted.asked &&
        usv_field(record, cutter->deleted.number, &value) && !cut_deleted(value, &is_deleted))
        fault = ROW_BAD_DELETED;
    if (cutter->batch->keys.failed)
        return;
    if (fault != ROW_NONE)
        cut_fault(cutter, record, fault);
    else
        cut_row_slowly(cutter, record, is_encoded ? buffer_view(&cutter->encoded) : key,
                       is_encoded, time, is_deleted);
}

static inline void end_record(struct cutter *cutter, struct place *place, size_t at)
{
    struct view record = { cutter->batch->block + place->start, at - place->start };
    struct instant time;
    enum row_fault fault;
    if (record.size == 0)
        return;
    end_field(cutter, place, at);
    if (cutter->key.count > 0 && !place->key.data)
        cut_fault(cutter, record, ROW_NO_KEY);
    else if (cutter->time.asked && !place->time.data)
        cut_fault(cutter, record, ROW_NO_TIME);
    else if (cutter->time.asked && !cut_time(cutter, place->time, &time, &fault))
        cut_fault(cutter, record, fault);
    else if (cutter->key.is_encoded || cutter->deleted.asked)
        add_special_usv(cutter, record, place->key, &time);
    else
        cut_row(cutter, record, place->key, /* apart */ false, &time);
}

static inline struct place begin_record(size_t at)
{
    return (struct place){ .start = at, .field = at, .number = 1 };
}

static size_t usv_cut(struct cutter *cutter, size_t at, size_t size, bool at_end)
{
    struct batch *batch = cutter->batch;
    size_t end = at + size;
    struct place place = begin_record(at);
    uint64_t bits, next = control_bits(batch->block + at);
    for (size_t base = at; base < end; base += CONTROL_BYTES) {
        /* The next bits are computed ahead, so that they are ready when the current ones are used
         * up. */
        bits = next;
        next = control_bits(batch->block + base + CONTROL_BYTES);
        for (; bits; bits &= bits - 1) {
            size_t here = base + (size_t)__builtin_ctzll(bits);
            char byte = batch->block[here];
            if (here >= end)
                break;
            if (byte == UNIT_SEPARATOR) {
                end_field(cutter, &place, here);
            } else if (byte == '\n' || byte == RECORD_SEPARATOR) {
                end_record(cutter, &place, here);
                place = begin_record(here + 1);
                if (batch_full(batch))
                    return here + 1 - at;
            }
        }
    }
    if (at_end && place.start < end) {
        end_record(cutter, &place, end);
        place.start = end;
    }
    return place.start - at;
}

static size_t usv_skip(struct view bytes, bool *ret_ended)
{
    for (size_t i = 0; i < bytes.size; i++) {
        if (bytes.data[i] == '\n' || bytes.data[i] == RECORD_SEPARATOR) {
            *ret_ended = true;
            return i + 1;
        }
    }
    *ret_ended = false;
    return bytes.size;
}

static enum hf_status usv_resolve(struct cutter *cutter, struct view header,
                                  struct hf_error *error)
{
    bool named = (cutter->time.asked && !cutter->time.number) ||
                 (cutter->deleted.asked && !cutter->deleted.number);
    (void)header;
    for (size_t i = 0; i < cutter->key.count; i++)
        named = named || !cutter->key.parts[i].field.number;
    if (named)
        return error_set(error, HF_INVALID,
                         "usv fields have no names; give their numbers, counted from 1");
    return HF_OK;
}

const struct format format_usv = {
    .cut = usv_cut,
    .skip = usv_skip,
    .resolve = usv_resolve,
};
