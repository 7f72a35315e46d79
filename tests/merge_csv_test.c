/* SPDX-License-Identifier: Apache-2.0 */
/* merge_csv_test.c: CSV and TSV: where records and fields end, the value of a key, and which
 * rows are rejected. */
#include "alloc.h"
#include "cut_kit.h"
#include "test.h"

#include <stdio.h>

static const struct cut_setup by_first = { .format = &format_csv, .key = "1" };
static const struct cut_setup by_second = { .format = &format_csv, .key = "2" };

/* ---- Records and fields -------------------------------------------------------------- */

static void fields_are_found_by_number(void **state)
{
    (void)state;
    assert_rows(&by_second, "a,b,c\nd,e,f\n", "b|a,b,c\ne|d,e,f\n");
    assert_rows(&by_second, "a,\n,b\n,\n", "|a,\nb|,b\n|,\n");
    assert_rows(&by_first, "one\n,two\n", "one|one\n|,two\n");
}

static void the_last_record_needs_no_end(void **state)
{
    (void)state;
    assert_rows(&by_second, "a,b\nc,d", "b|a,b\nd|c,d\n");
    assert_rows(&by_second, "a,\"b\"", "b|a,\"b\"\n");
    assert_rows(&by_second, "a,", "|a,\n");
    assert_rows(&by_first, "", "");
}

static void quotes_are_no_part_of_the_value(void **state)
{
    (void)state;
    assert_rows(&by_first, "\"a\",1\n\"\",2\n", "a|\"a\",1\n|\"\",2\n");
    assert_rows(&by_first, "\"say \"\"hi\"\"\",1\n\"\"\"\",2\n\"\"\"\"\"x\",3\n",
                "say \"hi\"|\"say \"\"hi\"\"\",1\n\"|\"\"\"\",2\n\"\"x|\"\"\"\"\"x\",3\n");
}

static void quoted_separators_and_line_ends_are_data(void **state)
{
    (void)state;
    assert_rows(&by_first, "\"a,b\",1\n\"c\nd\",2\n\"e\r\n\",3\n",
                "a,b|\"a,b\",1\nc\nd|\"c\nd\",2\ne\r\n|\"e\r\n\",3\n");
}

static void crlf_ends_a_record_and_a_lone_cr_does_not(void **state)
{
    (void)state;
    assert_rows(&by_second, "a,b\r\nc,\"d\"\r\ne,\r\n", "b|a,b\nd|c,\"d\"\n|e,\n");
    assert_rows(&by_second, "a,b\rc\nd,e\r\r\n", "b\rc|a,b\rc\ne|d,e\n");
    assert_rows(&by_second, "a,b\r", "b|a,b\n");
    assert_rows(&by_second, "a,\"b\r\"\r\r", "b\r|a,\"b\r\"\n");
    assert_rows(&by_first, "\r", "");
    assert_rows(&by_first, "\r\r\na\n\r\r", "a|a\n");
}

static void empty_lines_are_no_records(void **state)
{
    (void)state;
    assert_rows(&by_first, "\n\r\na\n\n\r\n\nb\r\n\r\n", "a|a\nb|b\n");
    assert_rows(&by_first, "\n\n", "");
    assert_rows(&by_first, "\"\"\n \n", "|\"\"\n | \n");
}

static void tabs_separate_fields_of_tsv(void **state)
{
    (void)state;
    const struct cut_setup tsv = { .format = &format_csv, .key = "2", .separator = '\t' };
    assert_rows(&tsv, "a,b\tc\n\"d\te\"\t\"f\"\n", "c|a,b\tc\nf|\"d\te\"\t\"f\"\n");
}

/* Words of eight bytes: each length of a field at each distance from the start. */
static void fields_of_any_length_end_where_they_end(void **state)
{
    (void)state;
    char input[128], expected[128];
    for (int before = 0; before < 10; before++) {
        for (int size = 0; size < 20; size++) {
            const char *text = "abcdefghijklmnopqrst";
            int n = snprintf(input, sizeof input, "%.*s,%.*s,-\n%.*s,\"%.*s\"\n", before, text,
                             size, text, before, text, size, text);
            snprintf(expected, sizeof expected, "%.*s|%.*s,%.*s,-\n%.*s|%.*s,\"%.*s\"\n", size,
                     text, before, text, size, text, size, text, before, text, size, text);
            assert_rows_of(&by_second, (struct view){ input, (size_t)n }, expected);
        }
    }
}

/* Whatever byte a word has beside them. */
static void only_the_three_bytes_end_a_field(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        if (byte == ',' || byte == '\n' || byte == '"')
            continue;
        char line[] = { (char)byte, 'x', (char)byte, (char)byte, ',', (char)byte, '\n' };
        struct view input = { line, sizeof line };
        struct cut cut;
        cut_open(&cut, &by_first, input);
        assert_int_equal(format_csv.cut(&cut.cutter, 0, input.size, false), input.size);
        assert_int_equal(cut.batch.row_count, 1);
        assert_true(view_equal(batch_key(&cut.batch, cut.batch.rows), view_first(input, 4)));
        cut_close(&cut);
    }
}

/* ---- Rows that are no good ----------------------------------------------------------- */

static void misplaced_quotes_cost_one_record(void **state)
{
    (void)state;
    assert_rows(&by_first, "a\"b,1\nc,2\n", "!QUOTES|a\"b,1\nc|c,2\n");
    assert_rows(&by_first, "\"a\"b,1\nc,2\n", "!QUOTES|\"a\"b,1\nc|c,2\n");
    assert_rows(&by_first, "\"a\" ,1\nc,2\n", "!QUOTES|\"a\" ,1\nc|c,2\n");
    assert_rows(&by_first, "x,\"a\"\ry\r\nc,2\n", "!QUOTES|x,\"a\"\ry\nc|c,2\n");
    assert_rows(&by_first, "\"a\"\r", "a|\"a\"\n");
    assert_rows(&by_first, "\"a\"\r\r\n\"b\"\r\rc\n", "a|\"a\"\n!QUOTES|\"b\"\r\rc\n");
    /* Only a quote at the start of a field opens one. */
    assert_rows(&by_first, "a\",\"b\nc\",d\ne\n", "!QUOTES|a\",\"b\nc\",d\ne|e\n");
    assert_rows(&by_first, "a\"\"\nb\n", "!QUOTES|a\"\"\nb|b\n");
    assert_rows(&by_first, "\"a\"\"b\"c\"\n\"d\"\n", "!QUOTES|\"a\"\"b\"c\"\nd|\"d\"\n");
}

static void a_quote_never_closed_costs_its_line(void **state)
{
    (void)state;
    assert_rows(&by_first, "a,1\n\"b,2\nc,3\n", "a|a,1\n!QUOTES|\"b,2\nc|c,3\n");
    assert_rows(&by_first, "b,\"2\r\n\r\nc,3\n", "!QUOTES|b,\"2\nc|c,3\n");
    assert_rows(&by_first, "\"", "!QUOTES|\"\n");
    assert_rows(&by_first, "\"a\"\"", "!QUOTES|\"a\"\"\n");
    assert_rows(&by_first, "\"a\"\"\nb\n", "!QUOTES|\"a\"\"\nb|b\n");
    /* Fields before it that are closed are whole, line ends and all. */
    assert_rows(&by_first, "\"a\nb\",\"c\nd\n", "!QUOTES|\"a\nb\",\"c\nd|d\n");
}

/* The next quote is that of another field, and would make one row of all between them. */
static void a_quote_closed_by_no_other_costs_its_line(void **state)
{
    (void)state;
    assert_rows(&by_first, "\"a\nb\n\"c\",1\n", "!QUOTES|\"a\nb|b\nc|\"c\",1\n");
    assert_rows(&by_first, "a,\"1\nb,2\nc,\"3\nd,4\n",
                "!QUOTES|a,\"1\nb|b,2\n!QUOTES|c,\"3\nd|d,4\n");
    assert_rows(&by_first, "\"a\nb\" ,1\nc\n", "!QUOTES|\"a\n!QUOTES|b\" ,1\nc|c\n");
    assert_rows(&by_first, "\"p,\"q\nr\",1\ns\n", "!QUOTES|\"p,\"q\nr\",1\ns|s\n");
    assert_rows(&by_first, "\"a\n\"\"\"b\",1\n", "!QUOTES|\"a\n\"b|\"\"\"b\",1\n");
}

/* Ten bytes may be a record: a closing quote is among them or does not count. */
static void a_quote_is_closed_within_the_longest_record(void **state)
{
    (void)state;
    const struct cut_setup ten = { .format = &format_csv, .key = "1", .record_bytes_max = 10 };
    assert_rows(&ten, "\"abcdefgh\"\nx\n", "abcdefgh|\"abcdefgh\"\nx|x\n");
    assert_rows(&ten, "\"abcd\nfgh\"\nx\n", "abcd\nfgh|\"abcd\nfgh\"\nx|x\n");
    assert_rows(&ten, "\"abcd\nfgh\",1\nx\n", "!TOO_LONG|\"abcd\nfgh\",1\nx|x\n");
    assert_rows(&ten, "\"abcd\nfghi\"\nx\n", "!QUOTES|\"abcd\n!QUOTES|fghi\"\nx|x\n");
    assert_rows(&ten, "\"abcd\nfgh\"\"\"\nx\n", "!QUOTES|\"abcd\n!QUOTES|fgh\"\"\"\nx|x\n");
    assert_rows(&ten, "a,\"bcdefghijk\nx\",1\ny\n",
                "!TOO_LONG|a,\"bcdefghijk\n!QUOTES|x\",1\ny|y\n");
    assert_rows(&ten, "abcdefghijkl,\"\nx\n", "!TOO_LONG|abcdefghijkl,\"\nx|x\n");
}

static void another_number_of_fields_is_a_fault(void **state)
{
    (void)state;
    const struct cut_setup three = { .format = &format_csv, .key = "1", .columns = 3 };
    assert_rows(&three, "a,b,c\na,b\na,b,c,d\n,,\na\n",
                "a|a,b,c\n!COLUMNS|a,b\n!COLUMNS|a,b,c,d\n|,,\n!COLUMNS|a\n");
}

static void missing_fields_and_bad_times_are_faults(void **state)
{
    (void)state;
    const struct cut_setup both = { .format = &format_csv, .key = "2", .time = "3" };
    assert_rows(&both,
                "a\na,b\na,b,\na,b,yesterday\na,b,1970-01-01T00:01:00Z\na,b,\"61\"\n"
                "a,b,\"6\"\"1\"\n",
                "!NO_KEY|a\n!NO_TIME|a,b\n!BAD_TIME|a,b,\n!BAD_TIME|a,b,yesterday\n"
                "b|a,b,1970-01-01T00:01:00Z|60\nb|a,b,\"61\"|61\n!BAD_TIME|a,b,\"6\"\"1\"\n");
    assert_rows(&both, "a,b,1970-01-01 00:01:00\na,b,1970-01-01T00:01\n",
                "!NO_ZONE|a,b,1970-01-01 00:01:00\n!BAD_TIME|a,b,1970-01-01T00:01\n");
    const struct cut_setup timed = { .format = &format_csv, .time = "1" };
    assert_rows(&timed, "60,a\n-1,b\n", "@60|60,a\n@-1|-1,b\n");
}

/* ---- Order and memory ---------------------------------------------------------------- */

static void a_row_out_of_order_is_noticed_and_left(void **state)
{
    (void)state;
    assert_disorder_is_noticed(&by_first, VIEW("a,1\n\"b\",2\nb,3\n\"\"\"\",4\n"), 7);
}

static void without_memory_for_a_key_the_record_is_left(void **state)
{
    (void)state;
    assert_key_needs_memory(&by_first, VIEW("a,1\n\"b\"\"\",2\n"), 4);
}

/* ---- Long records -------------------------------------------------------------------- */

static void skipping_ends_with_the_line(void **state)
{
    (void)state;
    static const char *const rests[] = { "a,b\n", "a\"b\r\n", "\n", "\"a,\"\"b\r\n" };
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        char two[64];
        snprintf(two, sizeof two, "%snext\"\n", rests[i]);
        for (size_t piece = 1; piece < 20; piece++) {
            bool ended;
            assert_int_equal(cut_skip(&format_csv, view_of(two), piece, &ended),
                             strlen(rests[i]));
            assert_true(ended);
            struct view broken_off = { rests[i], strlen(rests[i]) - 1 };
            assert_int_equal(cut_skip(&format_csv, broken_off, piece, &ended), broken_off.size);
            assert_false(ended);
        }
    }
}

/* ---- Headers ------------------------------------------------------------------------- */

static void assert_header(struct view bytes, bool at_end, size_t size, const char *expected)
{
    struct cutter cutter = { .separator = ',' };
    struct view record = VIEW("untouched");
    struct buffer block = BUFFER_INIT(1024);
    assert_true(buffer_append(&block, bytes) && buffer_reserve(&block, BLOCK_SLACK));
    assert_int_equal(format_csv.header(&cutter, buffer_view(&block), at_end, &record), size);
    if (!expected)
        assert_null(record.data);
    else if (!view_equal(record, view_of(expected)))
        fail_msg("the header is \"%.*s\", not \"%s\"", VIEW_ARGS(record), expected);
    buffer_release(&block);
}

static void the_header_is_the_first_record(void **state)
{
    (void)state;
    assert_header(VIEW("a,b\n1,2\n"), false, 4, "a,b");
    assert_header(VIEW("a,b\r\n1,2\n"), false, 5, "a,b");
    assert_header(VIEW("\xef\xbb\xbf"
                       "a,b\n1"),
                  false, 7, "a,b");
    assert_header(VIEW("\"a\nb\",c\n1"), false, 8, "\"a\nb\",c");
    assert_header(VIEW("a,b"), true, 3, "a,b");
    assert_header(VIEW("\n\r\na\nb\n"), false, 5, "a");
    assert_header(VIEW("a,b"), false, 0, "untouched");
    assert_header(VIEW("\"a\n"), false, 0, "untouched");
    assert_header(VIEW("\"a\nb\n"), true, 3, "\"a");
    assert_header(VIEW("\xef\xbb"), false, 0, "untouched");
    assert_header(VIEW(""), true, 0, NULL);
    assert_header(VIEW("\xef\xbb\xbf"), true, 3, NULL);
    assert_header(VIEW("\n\n"), true, 2, NULL);
}

/* NULL: no header. */
static enum hf_status resolve(const char *header, const char *key, const char *time,
                              struct cutter *ret_cutter, struct hf_error *error)
{
    const struct cut_setup setup = { .format = &format_csv, .key = key, .time = time };
    struct cut cut;
    cut_open(&cut, &setup, VIEW(""));
    struct view record = { header, header ? strlen(header) : 0 };
    enum hf_status status = format_csv.resolve(&cut.cutter, record, error);
    cut_close(&cut);
    *ret_cutter = cut.cutter;
    return status;
}

static void names_become_numbers(void **state)
{
    (void)state;
    struct cutter cutter;
    struct hf_error error;
    assert_status(HF_OK, resolve("id,name,at", "id", "at", &cutter, &error), &error);
    assert_int_equal(cutter.key.parts[0].field.number, 1);
    assert_int_equal(cutter.time.number, 3);
    assert_int_equal(cutter.columns, 3);
    assert_status(HF_OK, resolve("a,\"b \"\"c\"\"\"", "b \"c\"", NULL, &cutter, &error),
                  &error);
    assert_int_equal(cutter.key.parts[0].field.number, 2);
    assert_status(HF_OK, resolve("a,a,b", "2", "b", &cutter, &error), &error);
    assert_int_equal(cutter.key.parts[0].field.number, 2);
    assert_int_equal(cutter.time.number, 3);
    assert_status(HF_OK, resolve("one", "1", NULL, &cutter, &error), &error);
    assert_int_equal(cutter.columns, 1);
    assert_status(HF_OK, resolve(NULL, "7", "100", &cutter, &error), &error);
    assert_int_equal(cutter.columns, 0);
}

static void assert_unresolved(const char *header, const char *key, const char *why)
{
    struct cutter cutter;
    struct hf_error error;
    assert_status(HF_INVALID, resolve(header, key, NULL, &cutter, &error), &error);
    assert_string_equal(error.why, why);
    assert_status(HF_INVALID, resolve(header, "1", key, &cutter, &error), &error);
    assert_string_equal(error.why, why);
}

static void a_field_that_is_not_there_is_refused_in_words(void **state)
{
    (void)state;
    assert_unresolved("id,\"na\tme\"", "Id",
                      "the header has no field 'Id'; its fields are id, na?me");
    assert_unresolved("id,name", "3", "there is no field 3; the header has 2: id, name");
    assert_unresolved(
        "id,x,id", "id",
        "the header has 2 fields named \"id\"; give the field's number, counted from 1");
    assert_unresolved("id,\"x", "id", "the header has a misplaced or unclosed quote");
    assert_unresolved(
        NULL, "id",
        "without a header, no field is named \"id\"; give the field's number, counted from 1");
}

static void the_names_in_a_refusal_are_few(void **state)
{
    (void)state;
    char header[4000];
    size_t size = 0;
    for (int i = 0; i < 300; i++)
        size += (size_t)snprintf(header + size, sizeof header - size, "%sname-%03d",
                                 i ? "," : "", i);
    struct cutter cutter;
    struct hf_error error;
    assert_status(HF_INVALID, resolve(header, "x", NULL, &cutter, &error), &error);
    assert_non_null(strstr(error.why, "name-000, name-001, "));
    assert_string_equal(error.why + strlen(error.why) - 5, ", ...");
}

static void a_header_needs_memory(void **state)
{
    (void)state;
    const struct cut_setup setup = { .format = &format_csv, .key = "a" };
    struct hf_error error;
    struct cut cut;
    cut_open(&cut, &setup, VIEW(""));
    alloc_fail_after(0);
    enum hf_status status = format_csv.resolve(&cut.cutter, VIEW("a,b"), &error);
    assert_true(alloc_stop());
    assert_status(HF_UNAVAILABLE, status, &error);
    cut_close(&cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("fields are found by number", fields_are_found_by_number),
        IT("the last record needs no end", the_last_record_needs_no_end),
        IT("quotes are no part of the value", quotes_are_no_part_of_the_value),
        IT("quoted separators and line ends are data",
           quoted_separators_and_line_ends_are_data),
        IT("CRLF ends a record, and a lone CR does not",
           crlf_ends_a_record_and_a_lone_cr_does_not),
        IT("empty lines are no records", empty_lines_are_no_records),
        IT("tabs separate the fields of TSV", tabs_separate_fields_of_tsv),
        IT("fields of any length end where they end", fields_of_any_length_end_where_they_end),
        IT("only a separator, LF or quote ends a field", only_the_three_bytes_end_a_field),
        IT("misplaced quotes cost one record", misplaced_quotes_cost_one_record),
        IT("a quote that is never closed costs its own line",
           a_quote_never_closed_costs_its_line),
        IT("a quote that the next one does not close costs its own line",
           a_quote_closed_by_no_other_costs_its_line),
        IT("a quote is closed within the longest record, or not at all",
           a_quote_is_closed_within_the_longest_record),
        IT("another number of fields than the header's is a fault",
           another_number_of_fields_is_a_fault),
        IT("missing fields and unreadable times are faults",
           missing_fields_and_bad_times_are_faults),
        IT("a row out of order is noticed and left", a_row_out_of_order_is_noticed_and_left),
        IT("without memory for a key its record is left",
           without_memory_for_a_key_the_record_is_left),
        IT("the rest of a record that is too long ends with the line",
           skipping_ends_with_the_line),
        IT("the header is the first record, without mark and line end",
           the_header_is_the_first_record),
        IT("names become numbers", names_become_numbers),
        IT("a field that is not there is refused in words",
           a_field_that_is_not_there_is_refused_in_words),
        IT("a refusal shows only the first names of a long header",
           the_names_in_a_refusal_are_few),
        IT("a header without memory is UNAVAILABLE", a_header_needs_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
