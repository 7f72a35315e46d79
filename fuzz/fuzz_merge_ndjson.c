/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_merge_ndjson.c: parses arbitrary bytes as lines of JSON, and compares the result with
 * jansson.
 *
 * Jansson accepts less than RFC 8259: no lone halves of surrogate pairs, no \u0000 in names,
 * and no numbers beyond a double. Each of these is replaced by something harmless of the same
 * shape before jansson sees the line, so jansson still checks the rest of it. */
#include "base/check.h"
#include "fuzz.h"
#include "merge_cut.h"

#include <jansson.h>

/* A double holds more digits than this before its point. */
#define DIGITS_MAX 300

/* ---- What stands between rows -------------------------------------------------------- */

/* The end of the row, and lines that contain only blanks, the last of which may have no end. */
static bool blanks_only(struct view gap, bool row_before, bool at_end)
{
    for (size_t i = 0; i < gap.size; i++)
        if (!strchr(" \t\r\n", gap.data[i]) || gap.data[i] == '\0')
            return false;
    size_t returns = leading_returns(gap);
    if (row_before && returns < gap.size && gap.data[returns] != '\n')
        return false;
    if (at_end)
        return true;
    return gap.size > 0 ? gap.data[gap.size - 1] == '\n' : !row_before;
}

/* ---- Jansson ------------------------------------------------------------------------- */

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* \ud800 becomes \ue800, \u0000 becomes \u0001. A backslash outside of a string is refused by both,
 * regardless of what follows it. */
static bool tame_escapes(char *text, size_t size)
{
    bool changed = false;
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] != '\\')
            continue;
        i++;
        if (text[i] != 'u' || i + 4 >= size)
            continue;
        char *digits = text + i + 1;
        bool half = (digits[0] | 0x20) == 'd' && strchr("89abcdefABCDEF", digits[1]);
        bool nul = memcmp(digits, "0000", 4) == 0;
        digits[0] = half ? 'e' : digits[0];
        digits[3] = nul ? '1' : digits[3];
        changed = changed || half || nul;
    }
    return changed;
}

/* Exponents become 0; their digits in strings do too, where they make no difference. */
static bool tame_exponents(char *text, size_t size)
{
    bool changed = false;
    for (size_t i = 0; i < size; i++) {
        if ((text[i] | 0x20) != 'e')
            continue;
        size_t at = i + 1;
        at += at < size && (text[at] == '+' || text[at] == '-');
        for (; at < size && is_digit(text[at]); at++) {
            changed = changed || text[at] != '0';
            text[at] = '0';
        }
    }
    return changed;
}

static bool has_long_digits(struct view text)
{
    size_t run = 0;
    for (size_t i = 0; i < text.size && run <= DIGITS_MAX; i++)
        run = is_digit(text.data[i]) ? run + 1 : 0;
    return run > DIGITS_MAX;
}

static enum row_fault scan_line(struct view line)
{
    struct json_reader reader = json_read_data(line);
    struct json_text name, value;
    json_enter_object(&reader);
    while (json_next_pair(&reader, &name, &value))
        check(name.kind == JSON_KIND_STRING);
    json_end(&reader);
    return row_fault_of_json(reader.fault);
}

static size_t count_of(struct view text, const char *bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] != '\0' && strchr(bytes, text.data[i]) != NULL;
    return count;
}

/* The key that jansson finds is the one of the row. */
static void key_holds(const json_t *object, const struct kept_row *row)
{
    const json_t *key = json_object_get(object, "k");
    check((row->fault == ROW_NO_KEY) == (key == NULL));
    if (!key)
        return;
    check((row->fault == ROW_KEY_KIND) == (!json_is_string(key) && !json_is_number(key)));
    if (row->fault == ROW_NONE && json_is_string(key))
        check(view_equal(row->key,
                         (struct view){ json_string_value(key), json_string_length(key) }));
}

static void line_holds(const struct cut_setup *setup, struct view line,
                       const struct kept_row *row)
{
    static char copy[CUT_ROWS_MAX + BLOCK_SLACK];
    (void)setup;
    memcpy(copy, line.data, line.size);
    enum row_fault fault = scan_line((struct view){ copy, line.size });
    check(fault == ROW_NONE || fault == row->fault);
    check(row->fault != ROW_BAD_JSON || fault == ROW_BAD_JSON);
    if (fault == ROW_TOO_DEEP) {
        check(count_of(line, "{[") > JSON_DATA_DEPTH_MAX);
        return;
    }
    /* JSON has no NUL anywhere, but jansson skips one after a number. */
    if (memchr(line.data, '\0', line.size)) {
        check(fault != ROW_NONE);
        return;
    }
    if (has_long_digits(line))
        return;
    bool changed = tame_escapes(copy, line.size);
    changed = tame_exponents(copy, line.size) || changed;
    json_error_t error;
    json_t *root =
        json_loadb(copy, line.size, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL,
                   &error);
    check((fault == ROW_NONE) == (root && json_is_object(root)));
    if (fault == ROW_NONE && !changed)
        key_holds(root, row);
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct cut_setup setup = { .format = &format_ndjson,
                               .key = { true, 0, VIEW("k") },
                               .gap_is_fine = blanks_only,
                               .is_end = is_line_end,
                               .row_holds = line_holds };
    if (data[0] & 1)
        setup.time = (struct field){ true, 0, VIEW("t") };
    cut_holds(&setup, (struct view){ (const char *)data + 2, size - 2 }, data[1]);
    return 0;
}
