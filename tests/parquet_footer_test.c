/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_footer_test.c: footers of Parquet files, written here byte by byte as the specification
 * says, and the messages between the library and its helper. */
#include "base/buffer.h"
#include "merge/parquet_footer.h"
#include "merge/parquet_message.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* A footer in Thrift's compact protocol: a schema of a root and one column, rows, row groups. */
#define VERSION "\x15\x02"
#define SCHEMA                   \
    "\x19\x2c"                   \
    "\x48\x06schema\x15\x02\x00" \
    "\x15\x04\x25\x00\x18\x02id\x00"
/* Two columns, idd and another with a name of three bytes. */
#define COLUMNS(name)                 \
    "\x19\x3c"                        \
    "\x48\x06schema\x15\x04\x00"      \
    "\x15\x04\x25\x00\x18\x03idd\x00" \
    "\x15\x04\x25\x00\x18\x03" name "\x00"
/* A struct with the field id, and the column id. */
#define NESTED                       \
    "\x19\x4c"                       \
    "\x48\x06schema\x15\x04\x00"     \
    "\x35\x00\x18\x01s\x15\x02\x00"  \
    "\x15\x04\x25\x00\x18\x02id\x00" \
    "\x15\x04\x25\x00\x18\x02id\x00"
#define ROWS_5 "\x16\x0a"
#define ROW_GROUPS                     \
    "\x19\x2c"                         \
    "\x19\x0c\x16\xc8\x01\x16\x06\x00" \
    "\x19\x0c\x16\x64\x16\x04\x00"
#define CREATED "\x28\x04test"
#define END     "\x00"

#define BYTES(literal)                  \
    {                                   \
        "" literal, sizeof(literal) - 1 \
    }

static const struct {
    const char *what;
    struct view bytes;
    enum hf_status status;
    uint64_t rows;
} footers[] = {
    { "two row groups", BYTES(VERSION SCHEMA ROWS_5 ROW_GROUPS CREATED END), HF_OK, 5 },
    { "no row groups", BYTES(VERSION SCHEMA "\x16\x00\x19\x0c" END), HF_OK, 0 },
    { "rows that do not add up", BYTES(VERSION SCHEMA "\x16\x0c" ROW_GROUPS END), HF_CORRUPT,
      0 },
    { "a negative number of rows", BYTES(VERSION SCHEMA "\x16\x09" ROW_GROUPS END), HF_CORRUPT,
      0 },
    { "no number of rows", BYTES(VERSION SCHEMA END), HF_CORRUPT, 0 },
    { "an encrypted file",
      BYTES(VERSION SCHEMA ROWS_5 ROW_GROUPS CREATED "\x2c\x1c\x00\x00" END), HF_INVALID, 0 },
    { "two columns whose names differ",
      BYTES(VERSION COLUMNS("a\xc3\xa4") ROWS_5 ROW_GROUPS END), HF_OK, 5 },
    { "two columns of one name", BYTES(VERSION COLUMNS("idd") ROWS_5 ROW_GROUPS END),
      HF_INVALID, 0 },
    { "names that differ in case", BYTES(VERSION COLUMNS("IdD") ROWS_5 ROW_GROUPS END),
      HF_INVALID, 0 },
    { "a name that occurs again inside a column", BYTES(VERSION NESTED ROWS_5 ROW_GROUPS END),
      HF_OK, 5 },
    { "more children than elements",
      BYTES(VERSION "\x19\x1c\x48\x06schema\x15\x64\x00" ROWS_5 ROW_GROUPS END), HF_CORRUPT,
      0 },
    { "a negative number of children",
      BYTES(VERSION "\x19\x1c\x48\x06schema\x15\x01\x00" ROWS_5 ROW_GROUPS END), HF_CORRUPT,
      0 },
    { "nothing", BYTES(""), HF_CORRUPT, 0 },
    { "a list longer than the footer", BYTES(VERSION "\x19\xfc\xff\xff\xff\xff\x0f" END),
      HF_CORRUPT, 0 },
    { "a varint without an end", BYTES("\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
      HF_CORRUPT, 0 },
    { "structs in structs without an end",
      BYTES("\x5c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c\x1c"),
      HF_CORRUPT, 0 },
    { "a text longer than the footer", BYTES("\x68\xff\x7f"), HF_CORRUPT, 0 },
};

static void footers_are_parsed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof footers / sizeof footers[0]; i++) {
        struct parquet_footer footer = { 0 };
        struct hf_error error;
        enum hf_status status = parquet_footer_parse(footers[i].bytes, &footer, &error);
        if (status != footers[i].status)
            fail_msg("%s: %s", footers[i].what, hf_status_name(status));
        assert_int_equal(footer.rows, footers[i].rows);
        assert_true(status == HF_OK || error.why[0]);
    }
}

static void a_footer_tells_columns_groups_and_bytes(void **state)
{
    struct parquet_footer footer;
    (void)state;
    assert_int_equal(parquet_footer_parse(footers[0].bytes, &footer, NULL), HF_OK);
    assert_int_equal(footer.columns, 1);
    assert_int_equal(footer.row_groups, 2);
    assert_int_equal(footer.bytes, 150);
    assert_int_equal(footer.group_bytes_max, 100);
}

static void every_beginning_of_a_footer_is_damaged(void **state)
{
    struct parquet_footer footer;
    (void)state;
    for (size_t size = 0; size < footers[0].bytes.size; size++)
        assert_int_not_equal(
            parquet_footer_parse(view_first(footers[0].bytes, size), &footer, NULL), HF_OK);
}

/* ---- Files --------------------------------------------------------------------------- */

static enum hf_status read_file_of(struct view bytes, struct parquet_footer *footer,
                                   struct hf_error *error)
{
    char *folder = test_dir_make(), path[4096];
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    enum hf_status status = parquet_footer_read(fd, footer, error);
    close(fd);
    test_dir_remove(folder);
    return status;
}

#define FOOTER      VERSION SCHEMA ROWS_5 ROW_GROUPS CREATED END
#define FOOTER_SIZE "\x32\x00\x00\x00"

static void files_are_told_apart(void **state)
{
    static const struct {
        struct view bytes;
        enum hf_status status;
        const char *words;
    } files[] = {
        { BYTES("PAR1" FOOTER FOOTER_SIZE "PAR1"), HF_OK, "" },
        { BYTES("PAR1" FOOTER FOOTER_SIZE "PAR"), HF_CORRUPT, "truncated" },
        { BYTES("PAR1" FOOTER "\xff\xff\xff\x00"
                "PAR1"),
          HF_CORRUPT, "truncated" },
        { BYTES("PAR1" FOOTER FOOTER_SIZE "PARE"), HF_INVALID, "encrypted" },
        { BYTES("PARE" FOOTER FOOTER_SIZE "PARE"), HF_INVALID, "encrypted" },
        { BYTES("id,v\n1,2\n3,4\n5,6\n"), HF_INVALID, "not a Parquet file" },
        { BYTES("PAR1PAR1"), HF_INVALID, "not a Parquet file" },
        { BYTES(""), HF_INVALID, "not a Parquet file" },
    };
    (void)state;
    assert_int_equal(sizeof(FOOTER) - 1, 0x32);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct parquet_footer footer = { 0 };
        struct hf_error error = { .why = "" };
        assert_int_equal(read_file_of(files[i].bytes, &footer, &error), files[i].status);
        assert_non_null(strstr(error.why, files[i].words));
        assert_int_equal(footer.rows, files[i].status == HF_OK ? 5 : 0);
    }
}

/* ---- Messages ------------------------------------------------------------------------ */

static void a_request_is_read_as_it_was_written(void **state)
{
    const char *inputs[] = { "a b", "", "\n\xff'\"" };
    struct parquet_request request = { .work = PARQUET_MERGE,
                                       .library = "lib",
                                       .key = "a\"b\n",
                                       .output = "out",
                                       .memory_bytes = UINT64_MAX,
                                       .threads = 3,
                                       .inputs = inputs,
                                       .input_count = 3 },
                           read;
    struct buffer text = BUFFER_INIT(PARQUET_REQUEST_MAX);
    struct arena arena = ARENA_INIT;
    (void)state;
    assert_true(parquet_request_write(&request, &text));
    assert_true(parquet_request_read(buffer_view(&text), &arena, &read));
    assert_string_equal(read.key, request.key);
    assert_string_equal(read.time, "");
    assert_int_equal(read.memory_bytes, UINT64_MAX);
    assert_int_equal(read.input_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(read.inputs[i], inputs[i]);
    for (size_t size = 0; size < 100; size++)
        assert_false(parquet_request_read(view_first(buffer_view(&text), size), &arena, &read));
    arena_release(&arena);
    buffer_release(&text);
}

static void a_report_must_be_whole(void **state)
{
    struct parquet_report report = { .status = HF_CORRUPT, .why = "because", .rows_in = 7 },
                          read;
    struct buffer text = BUFFER_INIT(PARQUET_REPORT_MAX);
    (void)state;
    assert_true(parquet_report_write(&report, &text));
    assert_true(parquet_report_read(buffer_view(&text), &read));
    assert_int_equal(read.status, HF_CORRUPT);
    assert_string_equal(read.why, "because");
    assert_int_equal(read.rows_in, 7);
    for (size_t size = 0; size < text.size; size++)
        assert_false(parquet_report_read(view_first(buffer_view(&text), size), &read));
    buffer_append_byte(&text, 'x');
    assert_false(parquet_report_read(buffer_view(&text), &read));
    buffer_clear(&text);
    report.status = 1000;
    assert_true(parquet_report_write(&report, &text));
    assert_false(parquet_report_read(buffer_view(&text), &read));
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("footers are parsed, and damage is told", footers_are_parsed),
        IT("a footer tells columns, row groups and bytes",
           a_footer_tells_columns_groups_and_bytes),
        IT("every beginning of a footer is damaged", every_beginning_of_a_footer_is_damaged),
        IT("whole, truncated, encrypted and foreign files are told apart",
           files_are_told_apart),
        IT("a request is read as it was written", a_request_is_read_as_it_was_written),
        IT("a report must be whole", a_report_must_be_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
