/* SPDX-License-Identifier: Apache-2.0 */
/* survey_test.c: a survey counts the same as a merge of the same file: rows, and rows that
 * cannot be merged. Compared with merge_files, over formats, compressions and damage. */
#include "alloc.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/prng.h"
#include "env/env.h"
#include "merge/codec.h"
#include "merge/survey.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = test_dir_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_dir_remove(folder);
    return 0;
}

/* Two names may be in use at once. */
static const char *in_folder(const char *name)
{
    static char paths[2][4096];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, struct view bytes)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    if (bytes.size)
        assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
    assert_int_equal(fclose(file), 0);
}

static enum hf_status gather(void *context, struct view bytes, struct hf_error *error)
{
    return buffer_append(context, bytes) ? HF_OK : error_no_memory(error);
}

static void compress(enum hf_merge_coding coding, struct view bytes, struct buffer *to)
{
    struct encoder *encoder;
    struct hf_error error;
    assert_status(HF_OK, encoder_new(coding, &encoder, &error), &error);
    assert_status(HF_OK, encoder_add(encoder, bytes, /* last */ true, gather, to, &error),
                  &error);
    encoder_free(encoder);
}

static enum hf_status survey(const struct merge_options *options, const char *name,
                             struct survey *ret_survey, struct hf_error *error)
{
    return merge_survey(env_real(), options, in_folder(name), ret_survey, error);
}

static struct merge_options options_of(enum hf_merge_format format, const char *key,
                                       const char *time)
{
    struct merge_options options = MERGE_OPTIONS;
    options.format = format;
    options.rejects_max = UINT64_MAX;
    options.intermediate = true; /* disks are slow */
    if (key)
        options.key = view_of(key);
    if (time)
        options.time = view_of(time);
    return options;
}

/* ---- As a merge counts --------------------------------------------------------------- */

/* The survey of these bytes agrees with a merge of them; returns it. */
static struct survey agree(struct merge_options options, const char *name, struct view bytes)
{
    char output[4096], rejects[4200];
    struct merge_result result;
    struct survey found = { 0 };
    struct hf_error error, merge_error;
    write_file(name, bytes);
    snprintf(output, sizeof output, "%s", in_folder("out"));
    snprintf(rejects, sizeof rejects, "%s.rejects", output);
    options.reject_path = rejects;
    const char *input = in_folder(name);
    enum hf_status merged =
        merge_files(env_real(), &options, &(struct merge_paths){ &input, 1, output }, &result,
                    &merge_error);
    assert_status(merged, survey(&options, name, &found, &error), &error);
    if (merged != HF_OK)
        return found;
    assert_int_equal(found.rows_counted, result.rows_counted);
    assert_int_equal(found.rows, result.rows_in);
    assert_int_equal(found.malformed, result.rows_rejected);
    assert_int_equal(found.size, bytes.size);
    assert_int_equal(found.crc32c, crc32c(0, bytes));
    return found;
}

/* The same plain and compressed. */
static struct survey agree_in_all_codings(struct merge_options options, struct view bytes)
{
    struct survey plain = agree(options, "plain", bytes);
    for (int coding = HF_MERGE_GZIP; coding < HF_MERGE_CODING_COUNT; coding++) {
        struct buffer packed = BUFFER_INIT(64 * MIB);
        compress((enum hf_merge_coding)coding, bytes, &packed);
        struct survey found = agree(options, "packed", buffer_view(&packed));
        buffer_release(&packed);
        assert_int_equal(found.rows, plain.rows);
        assert_int_equal(found.malformed, plain.malformed);
        assert_int_equal(found.times_known, plain.times_known);
        assert_true(found.min_ms == plain.min_ms && found.max_ms == plain.max_ms);
        if (plain.rows)
            assert_int_equal(found.coding, coding);
    }
    return plain;
}

struct sample {
    enum hf_merge_format format;
    const char *key, *time;
    bool headless;
    const char *text;
    uint64_t rows, malformed;
};

static void it_counts_what_a_merge_counts(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        { HF_MERGE_USV, "1", NULL, false,
          "a\x1f"
          "1\nb\x1f"
          "2\n",
          2, 0 },
        { HF_MERGE_USV, "1", "2", false,
          "b\x1f"
          "2026-01-01T00:00:00Z\na\x1fnever\n\nc\x1f"
          "3",
          3, 1 },
        { HF_MERGE_USV, "3", NULL, false, "a\nb\x1f\nc\x1f\x1f", 3, 2 },
        { HF_MERGE_USV, "1", NULL, false, "\n\n\n", 0, 0 },
        { HF_MERGE_CSV, "id", NULL, false, "id,n\nb,1\na,2\n", 2, 0 },
        { HF_MERGE_CSV, "id", "at", false, "\xef\xbb\xbfid,at\r\nb,1\r\n\"a\n1\",2\r\nx\r\n", 3,
          1 },
        { HF_MERGE_CSV, "1", NULL, true, "id,n\nb,1\nc,\"no end\n\n", 3, 1 },
        { HF_MERGE_CSV, "id", NULL, false, "id,n\n", 0, 0 },
        { HF_MERGE_CSV, "id", NULL, false, "id,n", 0, 0 },
        { HF_MERGE_TSV, "id", "at", false, "at\tid\n1\ta\n2\tb\nsoon\tc\n", 3, 1 },
        { HF_MERGE_NDJSON, "id", "at", false,
          "{\"id\":1,\"at\":5}\n{\"id\":[]}\nno\n{\"at\":1}", 4, 3 },
        { HF_MERGE_NDJSON, "id", NULL, false, "{\"id\":\"z\"}\n{\"id\":\"a\"}\n\xff\n", 3, 1 },
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        const struct sample *sample = &samples[i];
        struct merge_options options = options_of(sample->format, sample->key, sample->time);
        options.headless = sample->headless;
        struct survey found = agree_in_all_codings(options, view_of(sample->text));
        assert_int_equal(found.rows, sample->rows);
        assert_int_equal(found.malformed, sample->malformed);
    }
}

static void empty_files_have_no_rows(void **state)
{
    (void)state;
    struct merge_options csv = options_of(HF_MERGE_CSV, "id", NULL);
    struct merge_options usv = options_of(HF_MERGE_USV, "1", "2");
    struct survey found = agree(csv, "empty", VIEW(""));
    assert_int_equal(found.rows, 0);
    found = agree(usv, "empty", VIEW(""));
    assert_int_equal(found.rows, 0);
    assert_false(found.times_known);
    assert_int_equal(found.crc32c, 0);
}

/* Text of a format, mostly good, with all that can be wrong. */
static void draw_text(struct prng *prng, enum hf_merge_format format, struct buffer *text)
{
    static const char *const odd[] = { "\n", "\r\n", "\"", ",,", "{", "\x1f\x1f", "\t", "}{" };
    uint64_t rows = prng_below(prng, 400);
    buffer_clear(text);
    if (format == HF_MERGE_CSV || format == HF_MERGE_TSV)
        buffer_print(text, format == HF_MERGE_CSV ? "id,at,n\n" : "id\tat\tn\n");
    for (uint64_t i = 0; i < rows; i++) {
        unsigned id = (unsigned)prng_below(prng, 100000);
        unsigned at = (unsigned)prng_below(prng, 2000000000);
        const char *separator = format == HF_MERGE_CSV   ? ","
                                : format == HF_MERGE_TSV ? "\t"
                                                         : "\x1f";
        if (prng_below(prng, 20) == 0)
            buffer_print(text, "%s", odd[prng_below(prng, sizeof odd / sizeof odd[0])]);
        if (format == HF_MERGE_NDJSON)
            buffer_print(text, "{\"id\":\"%u\",\"at\":%u,\"n\":0}", id, at);
        else
            buffer_print(text, "%u%s%u%s0", id, separator, at, separator);
        if (i + 1 < rows || prng_below(prng, 2))
            buffer_append_byte(text, '\n');
    }
    assert_false(text->failed);
}

static void it_agrees_with_merges_of_random_texts(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(7);
    struct buffer text = BUFFER_INIT(MIB);
    for (int round = 0; round < 60; round++) {
        enum hf_merge_format format = (enum hf_merge_format)(round % 4);
        bool named = format != HF_MERGE_USV;
        struct merge_options options =
            options_of(format, named ? "id" : "1", named ? "at" : "2");
        if (prng_below(&prng, 3) == 0)
            options.key = (struct view){ NULL, 0 };
        draw_text(&prng, format, &text);
        if (prng_below(&prng, 4) == 0)
            agree_in_all_codings(options, buffer_view(&text));
        else
            agree(options, "text", buffer_view(&text));
    }
    buffer_release(&text);
}

static void a_record_that_is_too_long_is_one_row(void **state)
{
    (void)state;
    struct merge_options options = options_of(HF_MERGE_USV, "1", NULL);
    struct buffer text = BUFFER_INIT(8 * MIB);
    options.memory_bytes = HF_MERGE_MEMORY_MIN;
    options.record_bytes_max = 100000;
    buffer_print(&text, "a\x1f"
                        "1\n");
    for (int i = 0; i < 3000000; i++)
        buffer_append_byte(&text, 'x');
    buffer_print(&text, "\nb\x1f"
                        "1\n");
    for (int i = 0; i < 100001; i++)
        buffer_append_byte(&text, 'y');
    struct survey found = agree_in_all_codings(options, buffer_view(&text));
    assert_int_equal(found.rows, 4);
    assert_int_equal(found.malformed, 2);
    buffer_release(&text);
}

/* ---- Times --------------------------------------------------------------------------- */

struct times {
    const char *text;
    int64_t min_ms, max_ms;
};

static void times_are_rounded_outward_to_milliseconds(void **state)
{
    (void)state;
    static const struct times cases[] = {
        { "a\x1f"
          "1970-01-01T00:00:01.0005Z\n",
          1000, 1001 },
        { "a\x1f"
          "1970-01-01T00:00:01.999999999999999999Z\n",
          1999, 2000 },
        { "a\x1f"
          "1969-12-31T23:59:59.9995Z\n",
          -1, 0 },
        { "a\x1f"
          "1969-12-31T23:59:58.5Z\nb\x1f"
          "2026-02-06T11:00:00+01:00\n",
          -1500, INT64_C(1770372000000) },
        { "b\x1f"
          "1700000000123456789\na\x1f"
          "1700000000000\n",
          INT64_C(1700000000000), INT64_C(1700000000124) },
        { "a\x1f"
          "9999-12-31T23:59:59.9999Z\nb\x1f"
          "0001-01-01T00:00:00Z\nc\x1fsoon\n",
          INT64_C(-62135596800000), INT64_C(253402300800000) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct survey found =
            agree(options_of(HF_MERGE_USV, "1", "2"), "times", view_of(cases[i].text));
        assert_true(found.times_known);
        assert_true(found.min_ms == cases[i].min_ms);
        assert_true(found.max_ms == cases[i].max_ms);
    }
}

static void rows_that_are_malformed_tell_no_time(void **state)
{
    (void)state;
    struct survey found = agree(options_of(HF_MERGE_NDJSON, "id", "at"), "text",
                                VIEW("{\"at\":1}\n{\"id\":{},\"at\":2}\n"));
    assert_int_equal(found.rows, 2);
    assert_int_equal(found.malformed, 2);
    assert_false(found.times_known);
    found =
        agree(options_of(HF_MERGE_NDJSON, "id", NULL), "text", VIEW("{\"id\":1,\"at\":1}\n"));
    assert_false(found.times_known);
}

/* ---- Without records ----------------------------------------------------------------- */

static void concat_is_only_weighed(void **state)
{
    (void)state;
    struct survey found;
    struct hf_error error;
    struct view bytes = VIEW("\x1f\x8b\x08 no gzip at all");
    struct merge_options options = options_of(HF_MERGE_CONCAT, NULL, NULL);
    write_file("bytes.zst", bytes);
    assert_status(HF_OK, survey(&options, "bytes.zst", &found, &error), &error);
    assert_false(found.rows_counted || found.times_known);
    assert_int_equal(found.size, bytes.size);
    assert_int_equal(found.crc32c, crc32c(0, bytes));
    assert_int_equal(found.coding, HF_MERGE_ZSTD);
    options.format = HF_MERGE_EXEC;
    assert_status(HF_OK, survey(&options, "bytes.zst", &found, &error), &error);
    assert_false(found.rows_counted);
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void what_cannot_be_read_is_told(void **state)
{
    (void)state;
    struct survey found = { .rows = 77 };
    struct hf_error error;
    struct merge_options options = options_of(HF_MERGE_USV, "1", NULL);
    assert_status(HF_NOT_FOUND, survey(&options, "nowhere", &found, &error), &error);
    assert_non_null(strstr(error.why, "nowhere"));
    assert_status(HF_INVALID, survey(&options, ".", &found, &error), &error);
    write_file("cut.gz", VIEW("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"));
    assert_status(HF_CORRUPT, survey(&options, "cut.gz", &found, &error), &error);
    write_file("plain.gz", VIEW("a\n"));
    assert_status(HF_CORRUPT, survey(&options, "plain.gz", &found, &error), &error);
    options.key = (struct view){ NULL, 0 };
    assert_status(HF_INVALID, survey(&options, "plain.gz", &found, &error), &error);
    write_file("csv", VIEW("id\n1\n"));
    write_file("local", VIEW("a\x1f"
                             "2026-01-01 00:00:00\n"));
    struct merge_options timed = options_of(HF_MERGE_USV, "1", "2");
    assert_status(HF_INVALID, survey(&timed, "local", &found, &error), &error);
    assert_non_null(strstr(error.why, "record 1 has a time without a zone"));
    options = options_of(HF_MERGE_CSV, "name", NULL);
    assert_status(HF_INVALID, survey(&options, "csv", &found, &error), &error);
    assert_int_equal(found.rows, 77);
}

static bool count_steps(void *context, uint64_t done, uint64_t total)
{
    int *left = context;
    assert_true(done <= total);
    return --*left > 0;
}

static void it_can_be_stopped(void **state)
{
    (void)state;
    struct survey found;
    struct hf_error error;
    struct merge_options options = options_of(HF_MERGE_USV, "1", NULL);
    struct buffer text = BUFFER_INIT(8 * MIB);
    for (int i = 0; i < 400000; i++)
        buffer_print(&text, "key%d\n", i);
    write_file("large", buffer_view(&text));
    buffer_release(&text);
    int left = 2;
    options.progress.step = count_steps;
    options.progress.context = &left;
    assert_status(HF_CANCELLED, survey(&options, "large", &found, &error), &error);
    left = 1000;
    assert_status(HF_OK, survey(&options, "large", &found, &error), &error);
    assert_int_equal(found.rows, 400000);
}

static void an_allocation_that_fails_is_told(void **state)
{
    (void)state;
    struct merge_options options = options_of(HF_MERGE_CSV, "id", "at");
    struct buffer packed = BUFFER_INIT(MIB);
    compress(HF_MERGE_GZIP, VIEW("id,at\n\"a\",1\nb,2\n"), &packed);
    write_file("file", buffer_view(&packed));
    buffer_release(&packed);
    long failures = 0;
    for (;; failures++) {
        struct survey found;
        struct hf_error error;
        alloc_fail_after(failures);
        enum hf_status status = survey(&options, "file", &found, &error);
        bool failed = alloc_stop();
        assert_status(failed ? HF_UNAVAILABLE : HF_OK, status, &error);
        if (!failed)
            break;
    }
    assert_true(failures > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a survey counts what a merge counts", it_counts_what_a_merge_counts),
        IT("empty files have no rows", empty_files_have_no_rows),
        IT("a survey agrees with merges of random texts",
           it_agrees_with_merges_of_random_texts),
        IT("a record that is too long is one row, however long",
           a_record_that_is_too_long_is_one_row),
        IT("times are rounded outward to milliseconds",
           times_are_rounded_outward_to_milliseconds),
        IT("rows that are malformed tell no time", rows_that_are_malformed_tell_no_time),
        IT("concat and exec are only weighed", concat_is_only_weighed),
        IT("what cannot be read is told, and nothing is answered", what_cannot_be_read_is_told),
        IT("a survey can be stopped", it_can_be_stopped),
        IT("an allocation that fails is told", an_allocation_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
