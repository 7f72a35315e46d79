/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_merge_usv.c: parses arbitrary bytes as records between separators. */
#include "base/check.h"
#include "fuzz.h"
#include "merge_cut.h"

static bool ends_only(struct view gap, bool row_before, bool at_end)
{
    for (size_t i = 0; i < gap.size; i++)
        if (gap.data[i] != '\n' && gap.data[i] != 0x1e)
            return false;
    return gap.size > 0 || !row_before || at_end;
}

static bool is_end(struct view bytes)
{
    return bytes.size == 1 && ends_only(bytes, true, true);
}

/* The contents of the field, parsed in the simplest way; false if there is no such field. */
static bool field_of(struct view record, size_t number, struct view *ret_value)
{
    bool found = false;
    for (size_t i = 1; i <= number; i++) {
        found = i == 1 || record.data > (ret_value->data + ret_value->size);
        *ret_value = view_cut(&record, 0x1f);
    }
    return found;
}

static void row_holds(const struct cut_setup *setup, struct view record,
                      const struct kept_row *row)
{
    struct view key = { 0 }, time = { 0 };
    struct instant instant;
    check(memchr(record.data, '\n', record.size) == NULL);
    check(memchr(record.data, 0x1e, record.size) == NULL);
    bool has_key = field_of(record, setup->key.number, &key);
    bool has_time = !setup->time.asked || field_of(record, setup->time.number, &time);
    check((row->fault == ROW_NO_KEY) == !has_key);
    check((row->fault == ROW_NO_TIME) == (has_key && !has_time));
    if (row->fault == ROW_BAD_TIME)
        check(!instant_parse(time, &instant));
    if (row->fault == ROW_NONE)
        check(view_equal(row->key, key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct cut_setup setup = { .format = &format_usv,
                               .key = { true, 1 + (data[0] & 3), VIEW("") },
                               .gap_is_fine = ends_only,
                               .is_end = is_end,
                               .row_holds = row_holds };
    if (data[0] & 4)
        setup.time = (struct field){ true, 1 + (data[0] >> 3 & 3), VIEW("") };
    cut_holds(&setup, (struct view){ (const char *)data + 2, size - 2 }, data[1]);
    return 0;
}
