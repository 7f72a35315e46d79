/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_merge_csv.c: parses arbitrary bytes as CSV or TSV, and compares the result with a simple
 * reader that takes one byte at a time. */
#include "base/check.h"
#include "fuzz.h"
#include "merge_cut.h"

/* ---- What stands between rows -------------------------------------------------------- */

static bool ends_only(struct view gap, bool row_before, bool at_end)
{
    bool any = gap.size > 0;
    while (gap.size > 0) {
        size_t returns = leading_returns(gap);
        if (returns == gap.size)
            return at_end;
        if (gap.data[returns] != '\n')
            return false;
        gap = view_from(gap, returns + 1);
    }
    return any || !row_before || at_end;
}

/* ---- The slow reader ----------------------------------------------------------------- */

struct reading {
    size_t fields;
    bool bad;
    char value[CUT_ROWS_MAX]; /* of the field that was asked for */
    size_t value_size;
};

static void read_byte(struct reading *reading, size_t wanted, char byte)
{
    if (reading->fields == wanted)
        reading->value[reading->value_size++] = byte;
}

/* Where the quoted field that begins at `at` is closed, behind the quote; 0: nowhere. */
static size_t find_close(struct view record, size_t at, char separator)
{
    for (at++; at < record.size; at++) {
        bool last = at + 1 == record.size;
        if (record.data[at] == '"' && (last || record.data[at + 1] != '"'))
            return last || record.data[at + 1] == separator ? at + 1 : 0;
        at += record.data[at] == '"';
    }
    return 0;
}

static size_t read_quoted(struct reading *reading, struct view record, size_t at, size_t close,
                          size_t wanted)
{
    for (at++; at + 1 < close; at++) {
        read_byte(reading, wanted, record.data[at]);
        at += record.data[at] == '"';
    }
    return close;
}

static void read_record(struct view record, char separator, size_t wanted,
                        struct reading *ret_reading)
{
    size_t at = 0;
    *ret_reading = (struct reading){ 0 };
    for (;; at++) {
        ret_reading->fields++;
        bool quoted = at < record.size && record.data[at] == '"';
        size_t close = quoted ? find_close(record, at, separator) : 0;
        if (close)
            at = read_quoted(ret_reading, record, at, close, wanted);
        for (; at < record.size && record.data[at] != separator; at++) {
            check(record.data[at] != '\n');
            ret_reading->bad = ret_reading->bad || record.data[at] == '"';
            read_byte(ret_reading, wanted, record.data[at]);
        }
        if (at == record.size)
            break;
    }
}

static void row_holds(const struct cut_setup *setup, struct view record,
                      const struct kept_row *row)
{
    static struct reading reading;
    struct instant instant;
    read_record(record, setup->separator, setup->key.number, &reading);
    struct view key = { reading.value, reading.value_size };
    check((row->fault == ROW_QUOTES) == reading.bad);
    if (reading.bad)
        return;
    bool columns = setup->columns == 0 || reading.fields == setup->columns;
    bool has_key = reading.fields >= setup->key.number;
    bool has_time = !setup->time.asked || reading.fields >= setup->time.number;
    check((row->fault == ROW_COLUMNS) == !columns);
    check((row->fault == ROW_NO_KEY) == (columns && !has_key));
    check((row->fault == ROW_NO_TIME) == (columns && has_key && !has_time));
    if (row->fault == ROW_NONE)
        check(view_equal(row->key, key));
    if (!setup->time.asked || !columns || !has_key || !has_time)
        return;
    read_record(record, setup->separator, setup->time.number, &reading);
    struct view time = { reading.value, reading.value_size };
    bool local = instant_parse_local(time, 0, &instant);
    bool good = instant_parse(time, &instant);
    check((row->fault == ROW_BAD_TIME) == (!good && !local));
    check((row->fault == ROW_NO_ZONE) == (!good && local));
    if (row->fault == ROW_NONE)
        check(instant_compare(instant, row->time) == 0);
}

/* ---- Headers ------------------------------------------------------------------------- */

static void header_resolves(struct cutter *cutter, struct view header)
{
    static struct reading reading;
    struct hf_error error = { .why = "" };
    struct field *key = &cutter->key.parts[0].field;
    size_t wanted = key->number;
    read_record(header, cutter->separator, wanted, &reading);
    enum hf_status status = format_csv.resolve(cutter, header, &error);
    check(status == HF_INVALID ? error.why[0] != '\0' : status == HF_OK);
    check((status == HF_OK) == (!reading.bad && wanted <= reading.fields));
    if (status != HF_OK)
        return;
    check(cutter->columns == reading.fields);
    *key = (struct field){ true, 0, { reading.value, reading.value_size } };
    status = format_csv.resolve(cutter, header, &error);
    check(status == HF_INVALID ? strstr(error.why, "number") != NULL : key->number == wanted);
}

/* More bytes may change the result until the header is found; then it must stay. To know that a
 * quote in the header is stray, the parser may have to look past it. */
static void header_holds(const struct cut_setup *setup, struct view input, size_t step)
{
    static char block[CUT_ROWS_MAX + BLOCK_SLACK];
    struct cutter cutter = { .separator = setup->separator,
                             .key = { .parts = { { .field = setup->key } }, .count = 1 } };
    struct view header, part;
    memcpy(block, input.data, input.size);
    input.data = block;
    static struct reading reading;
    size_t size = format_csv.header(&cutter, input, true, &header);
    read_record(header, cutter.separator, 1, &reading);
    check(size <= input.size && (size > 0 || input.size == 0));
    for (size_t offered = 0; offered < input.size; offered += 1 + step) {
        size_t found = format_csv.header(&cutter, view_first(input, offered), false, &part);
        check(found == 0 || (found == size && view_equal(part, header)));
        check(found == size || offered <= size || reading.bad);
    }
    check(header.data ? header.size > 0 : header.size == 0);
    if (header.data)
        header_resolves(&cutter, header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct view input =
        view_first((struct view){ (const char *)data + 2, size - 2 }, CUT_ROWS_MAX);
    struct cut_setup setup = { .format = &format_csv,
                               .separator = data[0] & 0x40 ? '\t' : ',',
                               .key = { true, 1 + (data[0] & 3), VIEW("") },
                               .columns = data[0] & 0x20 ? 3 : 0,
                               .gap_is_fine = ends_only,
                               .is_end = is_line_end,
                               .row_holds = row_holds };
    if (data[0] & 4)
        setup.time = (struct field){ true, 1 + (data[0] >> 3 & 3), VIEW("") };
    cut_holds(&setup, input, data[1]);
    header_holds(&setup, input, data[1]);
    return 0;
}
