/* SPDX-License-Identifier: Apache-2.0 */
/* api_merge_test.c: merging through the public header only: order, descriptors, rejects,
 * cancellation, and mistakes of the caller. */
#include "holdfast.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* A path in the folder; four at a time. */
static const char *at(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void assert_file(const char *path, const char *expected)
{
    char text[4096] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

static bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static struct hf_merge_options csv(void)
{
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    options.format = HF_MERGE_CSV;
    options.key = "id";
    options.time = "at";
    return options;
}

/* Two files of which the second is later, and in no order. */
static void make_inputs(const char *inputs[2])
{
    inputs[0] = at("a.csv");
    inputs[1] = at("b.csv");
    write_file(inputs[0], "id,at,v\n1,2026-01-01T00:00:00Z,old\n2,2026-01-01T00:00:00Z,two\n");
    write_file(inputs[1],
               "id,at,v\n3,2026-01-02T00:00:00Z,three\n1,2026-01-02T00:00:00Z,new\n");
}

#define MERGED                                                          \
    "id,at,v\n1,2026-01-02T00:00:00Z,new\n2,2026-01-01T00:00:00Z,two\n" \
    "3,2026-01-02T00:00:00Z,three\n"

static void the_latest_of_each_key_is_kept_and_every_row_is_accounted_for(void **state)
{
    (void)state;
    const char *inputs[2];
    struct hf_merge_options options = csv();
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct hf_error error;
    make_inputs(inputs);
    assert_status(HF_OK, hf_merge(inputs, 2, at("out.csv"), &options, &report, &error), &error);
    assert_file(at("out.csv"), MERGED);
    assert_true(report.rows_counted);
    assert_int_equal(report.rows_in, 4);
    assert_int_equal(report.rows_out, 3);
    assert_int_equal(report.rows_superseded, 1);
    assert_int_equal(report.rows_rejected, 0);
    assert_int_equal(report.inputs_unsorted, 1);
    assert_true(report.bytes_in > 0 && report.bytes_out == strlen(MERGED));
    assert_false(is_there(at("out.csv.rejects")));
}

static void an_output_is_compressed_as_its_name_ends_and_an_input_is_told_by_its_bytes(
    void **state)
{
    (void)state;
    const char *inputs[2], *packed[1] = { at("packed.gz") };
    struct hf_merge_options options = csv();
    struct hf_error error;
    make_inputs(inputs);
    assert_status(HF_OK, hf_merge(inputs, 2, packed[0], &options, NULL, &error), &error);
    options.coding = HF_MERGE_PLAIN;
    assert_status(HF_OK, hf_merge(packed, 1, at("plain.gz"), &options, NULL, &error), &error);
    assert_file(at("plain.gz"), MERGED);
}

static void descriptors_are_read_from_their_start_and_stay_where_they_are(void **state)
{
    (void)state;
    const char *inputs[2];
    struct hf_merge_options options = csv();
    struct hf_error error;
    make_inputs(inputs);
    int first = open(inputs[0], O_RDONLY | O_CLOEXEC);
    assert_true(first >= 0);
    assert_int_equal(lseek(first, 5, SEEK_SET), 5);
    unlink(inputs[0]); /* it has no name any more */
    const struct hf_merge_file files[] = { { NULL, first }, { inputs[1], -1 } };
    const struct hf_merge_file output = { at("out2.csv"), -1 };
    assert_status(HF_OK, hf_merge_files(files, 2, &output, &options, NULL, &error), &error);
    assert_file(at("out2.csv"), MERGED);
    assert_int_equal(lseek(first, 0, SEEK_CUR), 5);
    close(first);
}

static void an_output_may_be_a_pipe(void **state)
{
    (void)state;
    const char *inputs[2];
    struct hf_merge_options options = csv();
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct hf_error error;
    int ends[2];
    char text[512] = "";
    make_inputs(inputs);
    options.scratch_folder = folder;
    assert_int_equal(pipe(ends), 0);
    const struct hf_merge_file files[] = { { inputs[0], -1 }, { inputs[1], -1 } };
    const struct hf_merge_file output = { NULL, ends[1] };
    assert_status(HF_OK, hf_merge_files(files, 2, &output, &options, &report, &error), &error);
    close(ends[1]);
    assert_int_equal(read(ends[0], text, sizeof text - 1), strlen(MERGED));
    assert_string_equal(text, MERGED);
    close(ends[0]);
}

static void nothing_is_written_to_a_descriptor_unless_the_merge_is_good(void **state)
{
    (void)state;
    const char *bad = at("bad.csv");
    struct hf_merge_options options = csv();
    struct hf_error error;
    write_file(bad, "id,at,v\n1,no time,x\n");
    int fd = open(at("target"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const struct hf_merge_file input = { bad, -1 }, output = { NULL, fd };
    assert_status(HF_INVALID, hf_merge_files(&input, 1, &output, &options, NULL, &error),
                  &error);
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    options.rejects_max = 1; /* where would they go? */
    assert_status(HF_INVALID, hf_merge_files(&input, 1, &output, &options, NULL, &error),
                  &error);
    assert_non_null(strstr(error.why, "reject_path"));
    options.reject_path = at("target.rejects");
    assert_status(HF_OK, hf_merge_files(&input, 1, &output, &options, NULL, &error), &error);
    assert_file(options.reject_path, "1,no time,x\n");
    close(fd);
}

static void a_descriptor_that_cannot_be_used_is_invalid(void **state)
{
    (void)state;
    const char *inputs[2];
    struct hf_merge_options options = csv();
    struct hf_error error;
    make_inputs(inputs);
    const struct hf_merge_file good = { inputs[0], -1 }, bad = { NULL, -1 };
    int read_only = open(inputs[1], O_RDONLY | O_CLOEXEC);
    const struct hf_merge_file no_output = { NULL, read_only };
    assert_status(HF_INVALID, hf_merge_files(&bad, 1, &good, &options, NULL, &error), &error);
    assert_status(HF_INVALID, hf_merge_files(&good, 1, &bad, &options, NULL, &error), &error);
    assert_status(HF_INVALID, hf_merge_files(&good, 1, &no_output, &options, NULL, &error),
                  &error);
    close(read_only);
}

static void too_many_rejects_leave_their_file_and_no_output(void **state)
{
    (void)state;
    const char *input[] = { at("r.csv") };
    struct hf_merge_options options = csv();
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct hf_error error;
    write_file(input[0], "id,at,v\n1,2026-01-01T00:00:00Z,x\n2,never,y\n");
    assert_status(HF_INVALID, hf_merge(input, 1, at("r.out"), &options, &report, &error),
                  &error);
    assert_false(is_there(at("r.out")));
    assert_file(at("r.out.rejects"), "2,never,y\n");
    assert_true(report.rejects_kept);
    assert_int_equal(report.reason_count, 1);
    assert_non_null(strstr(report.reasons[0], "record 2"));
    options.rejects_max = HF_MERGE_REJECTS_ANY;
    options.reject_path = at("elsewhere");
    assert_status(HF_OK, hf_merge(input, 1, at("r.out"), &options, &report, &error), &error);
    assert_file(at("elsewhere"), "2,never,y\n");
    assert_int_equal(report.rows_rejected, 1);
}

static void a_time_without_a_zone_needs_one(void **state)
{
    (void)state;
    const char *input[] = { at("z.csv") };
    struct hf_merge_options options = csv();
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct hf_error error;
    write_file(input[0], "id,at,v\n1,2026-01-01T00:00:00,x\n");
    assert_status(HF_INVALID, hf_merge(input, 1, at("z.out"), &options, &report, &error),
                  &error);
    assert_true(report.zone_missing);
    options.zone = "+02:00";
    assert_status(HF_OK, hf_merge(input, 1, at("z.out"), &options, NULL, &error), &error);
    options.zone = "Mars";
    assert_status(HF_INVALID, hf_merge(input, 1, at("z.out"), &options, NULL, &error), &error);
    options.zone = "UTC";
    options.time = NULL;
    assert_status(HF_INVALID, hf_merge(input, 1, at("z.out"), &options, NULL, &error), &error);
}

/* ---- Progress ------------------------------------------------------------------------ */

struct watched {
    unsigned steps, most;
    uint64_t done, total;
    bool unfinished_seen, unfinished_left;
};

static bool step(void *argument, const struct hf_merge_progress *progress)
{
    struct watched *watched = argument;
    assert_true(progress->struct_size == sizeof *progress);
    watched->done = progress->bytes_done;
    watched->total = progress->bytes_total;
    return ++watched->steps < watched->most;
}

static void note_unfinished(void *argument, enum hf_merge_part part, const char *path)
{
    struct watched *watched = argument;
    if (part != HF_MERGE_PART_OUTPUT)
        return;
    watched->unfinished_seen |= path != NULL;
    watched->unfinished_left = path != NULL;
}

static const char *make_large(void)
{
    const char *path = at("large.usv");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (unsigned i = 0; i < 200000; i++)
        fprintf(file,
                "%08u\x1f"
                "some text that makes it longer\n",
                i);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void progress_is_told_and_false_cancels_and_leaves_nothing(void **state)
{
    (void)state;
    const char *input[] = { make_large() };
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    struct watched watched = { .most = 1000000 };
    struct hf_error error;
    options.key = "1";
    options.progress = step;
    options.unfinished = note_unfinished;
    options.argument = &watched;
    assert_status(HF_OK, hf_merge(input, 1, at("large.out"), &options, NULL, &error), &error);
    assert_true(watched.steps > 2 && watched.total > 0);
    assert_true(watched.unfinished_seen && !watched.unfinished_left);
    watched = (struct watched){ .most = 2 };
    assert_status(HF_CANCELLED, hf_merge(input, 1, at("none.out"), &options, NULL, &error),
                  &error);
    assert_int_equal(watched.steps, 2);
    assert_false(is_there(at("none.out")));
    assert_false(watched.unfinished_left);
}

/* ---- Commands ------------------------------------------------------------------------ */

static void a_command_merges_files_and_descriptors(void **state)
{
    (void)state;
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct hf_error error;
    write_file(at("c1"), "b\n");
    write_file(at("c2"), "a\n");
    int fd = open(at("c2"), O_RDONLY | O_CLOEXEC);
    options.format = HF_MERGE_EXEC;
    const struct hf_merge_file inputs[] = { { at("c1"), -1 }, { NULL, fd } };
    const struct hf_merge_file output = { at("c.out"), -1 };
    assert_status(HF_INVALID, hf_merge_files(inputs, 2, &output, &options, &report, &error),
                  &error);
    options.command = "sort -o {output} {inputs}";
    assert_status(HF_OK, hf_merge_files(inputs, 2, &output, &options, &report, &error), &error);
    assert_file(at("c.out"), "a\nb\n");
    assert_false(report.rows_counted);
    options.command = "sh -c 'sleep 60' {output} {inputs}";
    options.command_limit_ms = 50;
    assert_status(HF_TIMEOUT, hf_merge_files(inputs, 2, &output, &options, NULL, &error),
                  &error);
    close(fd);
}

/* ---- What a caller gets wrong -------------------------------------------------------- */

static void what_makes_no_sense_is_invalid(void **state)
{
    (void)state;
    const char *inputs[2];
    struct hf_merge_options options = csv();
    struct hf_error error;
    make_inputs(inputs);
    const char *output = at("none");
    assert_status(HF_INVALID, hf_merge(inputs, 0, output, &options, NULL, &error), &error);
    assert_status(HF_INVALID, hf_merge(inputs, 2, output, NULL, NULL, &error), &error);
    options.memory_bytes = 1;
    assert_status(HF_INVALID, hf_merge(inputs, 2, output, &options, NULL, &error), &error);
    options = csv();
    options.format = (enum hf_merge_format)77;
    assert_status(HF_INVALID, hf_merge(inputs, 2, output, &options, NULL, &error), &error);
    options = csv();
    options.coding = (enum hf_merge_coding)77;
    assert_status(HF_INVALID, hf_merge(inputs, 2, output, &options, NULL, &error), &error);
    options = csv();
    options.command_cpu_ms = -1;
    assert_status(HF_INVALID, hf_merge(inputs, 2, output, &options, NULL, &error), &error);
    options = csv();
    options.struct_size = 0;
    assert_status(HF_INVALID, hf_merge(inputs, 2, output, &options, NULL, &error), &error);
    options = csv();
    inputs[1] = at("not there");
    assert_status(HF_NOT_FOUND, hf_merge(inputs, 2, output, &options, NULL, &error), &error);
    assert_false(is_there(output));
}

static void formats_and_codings_have_names_both_ways(void **state)
{
    (void)state;
    struct hf_error error;
    for (int i = 0; i < HF_MERGE_FORMAT_COUNT; i++) {
        enum hf_merge_format format;
        assert_status(HF_OK,
                      hf_merge_format_parse(hf_merge_format_name((enum hf_merge_format)i),
                                            &format, &error),
                      &error);
        assert_int_equal(format, i);
    }
    for (int i = HF_MERGE_PLAIN; i < HF_MERGE_CODING_COUNT; i++) {
        enum hf_merge_coding coding;
        assert_status(HF_OK,
                      hf_merge_coding_parse(hf_merge_coding_name((enum hf_merge_coding)i),
                                            &coding, &error),
                      &error);
        assert_int_equal(coding, i);
    }
    assert_string_equal(hf_merge_format_name((enum hf_merge_format)77), "unknown");
    assert_string_equal(hf_merge_coding_name((enum hf_merge_coding)77), "unknown");
    enum hf_merge_format format;
    assert_status(HF_INVALID, hf_merge_format_parse("xml", &format, &error), &error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_of_each_key_is_kept_and_every_row_is_accounted_for),
        cmocka_unit_test(
            an_output_is_compressed_as_its_name_ends_and_an_input_is_told_by_its_bytes),
        cmocka_unit_test(descriptors_are_read_from_their_start_and_stay_where_they_are),
        cmocka_unit_test(an_output_may_be_a_pipe),
        cmocka_unit_test(nothing_is_written_to_a_descriptor_unless_the_merge_is_good),
        cmocka_unit_test(a_descriptor_that_cannot_be_used_is_invalid),
        cmocka_unit_test(too_many_rejects_leave_their_file_and_no_output),
        cmocka_unit_test(a_time_without_a_zone_needs_one),
        cmocka_unit_test(progress_is_told_and_false_cancels_and_leaves_nothing),
        cmocka_unit_test(a_command_merges_files_and_descriptors),
        cmocka_unit_test(what_makes_no_sense_is_invalid),
        cmocka_unit_test(formats_and_codings_have_names_both_ways),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
