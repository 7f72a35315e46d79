/* SPDX-License-Identifier: Apache-2.0 */
/* convert_test.c: files of records in another format: every value keeps its meaning, or the
 * conversion fails and says which record cannot be written. */
#include "env/env.h"
#include "merge/convert.h"
#include "merge/sink.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = test_dir_make();
    return folder ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    test_dir_remove(folder);
    return 0;
}

static const char *path_of(const char *name, char path[4096])
{
    snprintf(path, 4096, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static char *read_file(const char *path)
{
    char *text = calloc(1, 65536);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, 65535, file) < 65535);
    fclose(file);
    return text;
}

struct conversion {
    enum hf_merge_format from, to;
    const char *key, *time;
    bool headless;
    const char *text,
        *expected; /* expected NULL: the status and a part of the reason instead */
    enum hf_status status;
    const char *why;
};

static struct merge_options options_of(const struct conversion *conversion)
{
    struct merge_options options = MERGE_OPTIONS;
    options.format = conversion->from;
    options.key = view_of(conversion->key);
    if (conversion->time)
        options.time = view_of(conversion->time);
    options.headless = conversion->headless;
    options.memory_bytes = 16 * MIB;
    return options;
}

static void convert(const struct conversion *conversion,
                    const struct merge_selection *selection)
{
    char from[4096], to[4096];
    struct merge_options options = options_of(conversion);
    struct convert_result result;
    struct hf_error error;
    const struct hf_merge_file output = { path_of("to", to), -1 };
    struct convert_order order = { .input = path_of("from", from),
                                   .to = conversion->to,
                                   .output = &output,
                                   .coding = HF_MERGE_PLAIN };
    if (selection)
        order.selection = *selection;
    write_file(from, conversion->text);
    unlink(to);
    enum hf_status status = merge_convert(env_real(), &options, &order, &result, &error);
    if (!conversion->expected) {
        if (status != conversion->status || !strstr(error.why, conversion->why))
            fail_msg("%s: %s: %s", conversion->text, hf_status_name(status), error.why);
        assert_int_not_equal(access(to, F_OK), 0);
        return;
    }
    assert_status(HF_OK, status, &error);
    char *got = read_file(to);
    if (strcmp(got, conversion->expected) != 0)
        fail_msg("%s became %s, not %s", conversion->text, got, conversion->expected);
    assert_int_equal(result.bytes_out, strlen(got));
    free(got);
}

static void values_keep_their_meaning(void **state)
{
    (void)state;
    static const struct conversion rows[] = {
        { HF_MERGE_CSV, HF_MERGE_NDJSON, "id", NULL, false,
          "id,n\na,1\nb,\"x \"\"y\"\", z\"\nc,\n",
          "{\"id\":\"a\",\"n\":\"1\"}\n{\"id\":\"b\",\"n\":\"x \\\"y\\\", z\"}\n"
          "{\"id\":\"c\",\"n\":\"\"}\n",
          0, NULL },
        { HF_MERGE_CSV, HF_MERGE_TSV, "id", NULL, false, "id,n\na,\"1\t2\"\n",
          "id\tn\na\t\"1\t2\"\n", 0, NULL },
        { HF_MERGE_TSV, HF_MERGE_CSV, "id", NULL, false, "id\tn\na\t1,2\n", "id,n\na,\"1,2\"\n",
          0, NULL },
        { HF_MERGE_CSV, HF_MERGE_USV, "id", NULL, false, "id,n\na,\"1,2\"\n",
          "a\x1f"
          "1,2\n",
          0, NULL },
        { HF_MERGE_CSV, HF_MERGE_NDJSON, "1", NULL, true, "a,1\nb,2,3\n",
          "{\"1\":\"a\",\"2\":\"1\"}\n{\"1\":\"b\",\"2\":\"2\",\"3\":\"3\"}\n", 0, NULL },
        { HF_MERGE_CSV, HF_MERGE_TSV, "1", NULL, true, "a,1\n", "a\t1\n", 0, NULL },
        { HF_MERGE_USV, HF_MERGE_CSV, "1", NULL, false,
          "a\x1f"
          "b,c\x1e"
          "d\x1f\n",
          "a,\"b,c\"\nd,\n", 0, NULL },
        { HF_MERGE_USV, HF_MERGE_NDJSON, "1", NULL, false, "a\x1f\x01\n",
          "{\"1\":\"a\",\"2\":\"\\u0001\"}\n", 0, NULL },
        { HF_MERGE_NDJSON, HF_MERGE_CSV, "id", NULL, false,
          "{\"id\":\"a\",\"n\":1.50}\n{\"id\":\"b\",\"x\":null,\"\\u006e\":\"\\u00e4\\n\"}\n"
          "{\"id\":\"c\",\"o\":{\"p\":[1, 2]},\"t\":true}\n",
          "id,n,x,o,t\na,1.50,,,\nb,\"\xc3\xa4\n\",,,\nc,,,\"{\"\"p\"\":[1, 2]}\",true\n", 0,
          NULL },
        { HF_MERGE_NDJSON, HF_MERGE_USV, "id", NULL, false,
          "{\"id\":\"a\"}\n{\"n\":2,\"id\":3}\n",
          "a\x1f\n3\x1f"
          "2\n",
          0, NULL },
        { HF_MERGE_NDJSON, HF_MERGE_NDJSON, "id", NULL, false, "{ \"id\": 1 }\n",
          "{ \"id\": 1 }\n", 0, NULL },
        { HF_MERGE_CSV, HF_MERGE_CSV, "id", NULL, false, "\"id\",n\n\"a\",1\n",
          "\"id\",n\n\"a\",1\n", 0, NULL },
        { HF_MERGE_CSV, HF_MERGE_NDJSON, "id", NULL, false, "id\n", "", 0, NULL },
        { HF_MERGE_NDJSON, HF_MERGE_CSV, "id", NULL, false, "", "", 0, NULL },
        { HF_MERGE_NDJSON, HF_MERGE_CSV, "id", NULL, false, "{\"id\":\"\"}\n", "id\n\"\"\n", 0,
          NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        convert(&rows[i], NULL);
}

static void what_cannot_be_written_fails(void **state)
{
    (void)state;
    static const struct conversion rows[] = {
        { HF_MERGE_CSV, HF_MERGE_USV, "id", NULL, false, "id,n\na,1\nb,\"x\ny\"\n", NULL,
          HF_INVALID, "record 2 has a value with a line end" },
        { HF_MERGE_CSV, HF_MERGE_USV, "1", NULL, true,
          "a\x1f"
          "b\n",
          NULL, HF_INVALID, "choose csv or ndjson" },
        { HF_MERGE_CSV, HF_MERGE_NDJSON, "id", NULL, false, "id,n\na,\xff\n", NULL, HF_INVALID,
          "record 1 is not UTF-8" },
        { HF_MERGE_NDJSON, HF_MERGE_CSV, "id", NULL, false, "{\"id\":1,\"n\":\"\\ud800\"}\n",
          NULL, HF_INVALID, "unpaired surrogate" },
        { HF_MERGE_NDJSON, HF_MERGE_CSV, "id", NULL, false, "{\"id\":1}\n{\"id\":\n", NULL,
          HF_CORRUPT, "record 2 is not one JSON object" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        convert(&rows[i], NULL);
}

static void too_many_columns_fail(void **state)
{
    (void)state;
    struct conversion row = { HF_MERGE_NDJSON, HF_MERGE_CSV,      "id", NULL, false, NULL, NULL,
                              HF_INVALID,      "too many columns" };
    struct buffer text = BUFFER_INIT(MIB);
    buffer_append(&text, VIEW("{\"id\":1"));
    for (int i = 0; i < CONVERT_COLUMNS_MAX; i++)
        buffer_print(&text, ",\"c%d\":1", i);
    buffer_append(&text, VIEW("}\n"));
    row.text = buffer_text(&text);
    convert(&row, NULL);
    buffer_release(&text);
}

static struct instant at_second(int64_t s)
{
    return (struct instant){ s, 0 };
}

static void records_are_selected(void **state)
{
    (void)state;
    const char *text = "id,t\nab,100\nabc,200\nb,300\n";
    const struct conversion all = { HF_MERGE_CSV, HF_MERGE_CSV, "id", "t", false,
                                    text,         text,         0,    NULL };
    struct conversion row = all;
    convert(&row, &(struct merge_selection){ .key_prefix = VIEW("") });
    row.expected = "id,t\nab,100\nabc,200\n";
    convert(&row, &(struct merge_selection){ .key_prefix = VIEW("ab") });
    row.expected = "id,t\nabc,200\nb,300\n";
    convert(&row, &(struct merge_selection){ .has_since = true, .since = at_second(200) });
    row.expected = "id,t\nab,100\n";
    convert(&row, &(struct merge_selection){ .has_until = true, .until = at_second(200) });
    row.expected = "id,t\n";
    convert(&row, &(struct merge_selection){ .key_prefix = VIEW("x") });
    const struct conversion json = { HF_MERGE_NDJSON,
                                     HF_MERGE_CSV,
                                     "id",
                                     "t",
                                     false,
                                     "{\"x\":1,\"id\":\"a\\u0062\",\"t\":1}\n"
                                     "{\"id\":\"c\",\"t\":2,\"y\":1}\n",
                                     "x,id,t,y\n1,ab,1,\n",
                                     0,
                                     NULL };
    convert(&json, &(struct merge_selection){ .key_prefix = VIEW("ab") });
}

struct seen {
    size_t count;
    char text[256];
};

static enum hf_status see(void *context, const struct merge_record *record,
                          struct hf_error *error)
{
    struct seen *seen = context;
    size_t at = strlen(seen->text);
    snprintf(seen->text + at, sizeof seen->text - at, "%.*s|%.*s|%.*s|%d;",
             VIEW_ARGS(record->header), VIEW_ARGS(record->bytes), VIEW_ARGS(record->key),
             (int)record->time.s);
    return ++seen->count == 2 ? error_set(error, HF_CANCELLED, "enough") : HF_OK;
}

static void a_callback_gets_records_and_can_stop(void **state)
{
    (void)state;
    char from[4096];
    const struct conversion row = { HF_MERGE_CSV, HF_MERGE_TSV, "id", "t", false,
                                    NULL,         NULL,         0,    NULL };
    struct merge_options options = options_of(&row);
    struct seen seen = { 0 };
    struct convert_result result;
    struct hf_error error;
    const struct convert_order order = {
        .input = path_of("from", from), .to = HF_MERGE_TSV, .each = see, .context = &seen
    };
    write_file(from, "id,t\na,1\nb,2\nc,3\n");
    assert_int_equal(merge_convert(env_real(), &options, &order, &result, &error),
                     HF_CANCELLED);
    assert_string_equal(seen.text, "id\tt|a\t1|a|1;id\tt|b\t2|b|2;");
}

static void a_pipe_without_a_reader_stops_it(void **state)
{
    (void)state;
    char from[4096];
    int ends[2];
    const struct conversion row = {
        HF_MERGE_CSV, HF_MERGE_NDJSON, "id", NULL, false, NULL, NULL, 0, NULL
    };
    struct merge_options options = options_of(&row);
    struct convert_result result;
    struct hf_error error;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    const struct hf_merge_file output = { NULL, ends[1] };
    const struct convert_order order = { .input = path_of("from", from),
                                         .to = HF_MERGE_NDJSON,
                                         .output = &output,
                                         .coding = HF_MERGE_PLAIN };
    write_file(from, "id\na\n");
    assert_int_equal(merge_convert(env_real(), &options, &order, &result, &error),
                     HF_CANCELLED);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("values keep their meaning in every format", values_keep_their_meaning),
        IT("a value that cannot be written fails the conversion, and its record is named",
           what_cannot_be_written_fails),
        IT("too many columns fail the conversion", too_many_columns_fail),
        IT("records are selected by a prefix of the key and by time", records_are_selected),
        IT("a callback gets each record with its key and time, and can stop",
           a_callback_gets_records_and_can_stop),
        IT("a pipe without a reader stops the conversion", a_pipe_without_a_reader_stops_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
