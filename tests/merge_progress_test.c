/* SPDX-License-Identifier: Apache-2.0 */
/* merge_progress_test.c: the progress of a merge as its caller sees it: the total never changes,
 * what is done never falls, and at the end it is the total. Every call is watched. */
#include "base/prng.h"
#include "base/sanitizer.h"
#include "holdfast.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROW_BYTES  64
#define KEY_DIGITS 12
#define MIB        (UINT64_C(1) << 20)

/* What the callback has seen. */
struct watched {
    uint64_t done, total;
    unsigned calls;
    unsigned steps; /* calls in which more was done */
    uint64_t widest_step;
    bool copying; /* inputs were copied first: total 0 */
};

static bool watch_progress(void *argument, const struct hf_merge_progress *progress)
{
    struct watched *watched = argument;
    bool copying = progress->bytes_total == 0;
    if (progress->bytes_done < watched->done)
        fail_msg("done fell from %llu to %llu", (unsigned long long)watched->done,
                 (unsigned long long)progress->bytes_done);
    if (watched->total && progress->bytes_total != watched->total)
        fail_msg("the total changed from %llu to %llu", (unsigned long long)watched->total,
                 (unsigned long long)progress->bytes_total);
    assert_true(copying || progress->bytes_done <= progress->bytes_total);
    uint64_t step = progress->bytes_done - watched->done;
    watched->copying = watched->copying || copying;
    watched->steps += step > 0;
    if (watched->calls > 0 && step > watched->widest_step && !copying)
        watched->widest_step = step;
    watched->calls++;
    watched->done = progress->bytes_done;
    watched->total = progress->bytes_total;
    return true;
}

/* ---- Inputs -------------------------------------------------------------------------- */

enum order { SORTED, SHUFFLED, LAST_IS_FIRST };

/* A file of rows with their key in front. LAST_IS_FIRST: in order but for the last row, so that
 * nearly everything is read before this is noticed. */
static int make_input(size_t rows, enum order order, uint64_t seed)
{
    struct prng prng = prng_seeded(seed);
    int fd = memfd_create("input", MFD_CLOEXEC);
    char *bytes = malloc(rows * ROW_BYTES);
    assert_non_null(bytes);
    memset(bytes, '0', rows * ROW_BYTES);
    for (size_t i = 0; i < rows; i++) {
        char *row = bytes + i * ROW_BYTES;
        uint64_t key = i * 1000 + seed;
        if (order == SHUFFLED)
            key = prng_below(&prng, 1000000000);
        if (order == LAST_IS_FIRST && i + 1 == rows)
            key = 0;
        for (size_t digit = KEY_DIGITS; key > 0; key /= 10)
            row[--digit] = (char)('0' + key % 10);
        row[KEY_DIGITS] = '\x1f';
        row[ROW_BYTES - 1] = '\n';
    }
    assert_int_equal(write(fd, bytes, rows * ROW_BYTES), rows * ROW_BYTES);
    free(bytes);
    return fd;
}

struct scene {
    const char *name;
    size_t inputs;
    size_t rows; /* of each */
    enum order order;
    size_t odd; /* how many of the inputs have that order; the others are sorted */
    uint64_t memory;
    unsigned threads;
    enum hf_merge_coding coding;
    bool concat;
    bool latest;
    unsigned passes_min; /* bytes that were spilled, at least, as a multiple of the inputs */
};

/* 24 MiB of rows where sorting must use scratch files with 8 MiB of memory. */
static const struct scene scenes[] = {
    { "sorted inputs", 4, 100000, SORTED, 0, 0, 1, HF_MERGE_PLAIN, false, false, 0 },
    { "sorted inputs, read ahead and compressed", 4, 100000, SORTED, 0, 0, 3, HF_MERGE_ZSTD,
      false, false, 0 },
    { "an unsorted input", 1, 200000, SHUFFLED, 1, 0, 1, HF_MERGE_PLAIN, false, false, 1 },
    { "an unsorted input that needs many runs", 1, 400000, SHUFFLED, 1, 8 * MIB, 1,
      HF_MERGE_PLAIN, false, false, 1 },
    { "some unsorted inputs among sorted ones", 6, 60000, SHUFFLED, 2, 8 * MIB, 2,
      HF_MERGE_GZIP, false, false, 0 },
    { "an input whose last row is out of order", 2, 150000, LAST_IS_FIRST, 1, 0, 2,
      HF_MERGE_PLAIN, false, false, 0 },
    { "more inputs than one pass takes", 300, 1500, SORTED, 0, 0, 1, HF_MERGE_PLAIN, false,
      false, 1 },
    { "more inputs than one pass takes, with little memory", 300, 1500, SHUFFLED, 20, 8 * MIB,
      2, HF_MERGE_ZSTD, false, false, 1 },
    { "latest wins", 4, 100000, SHUFFLED, 2, 8 * MIB, 2, HF_MERGE_PLAIN, false, true, 0 },
    { "no records", 3, 100000, SORTED, 0, 0, 1, HF_MERGE_PLAIN, true, false, 0 },
};

static void watch_merge(const struct scene *scene, struct hf_merge_file *inputs,
                        struct watched *watched, struct hf_merge_report *report)
{
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    struct hf_merge_file output = { NULL, memfd_create("output", MFD_CLOEXEC) };
    struct hf_error error;
    options.format = scene->concat ? HF_MERGE_CONCAT : HF_MERGE_USV;
    options.key = scene->concat ? NULL : "1";
    options.time = scene->latest ? "2" : NULL;
    options.memory_bytes = scene->memory;
    options.threads = scene->threads;
    options.coding = scene->coding;
    options.progress = watch_progress;
    options.argument = watched;
    assert_status(HF_OK,
                  hf_merge_files(inputs, scene->inputs, &output, &options, report, &error),
                  &error);
    close(output.fd);
}

static void check_scene(void **state)
{
    const struct scene *scene = *state;
    struct hf_merge_file inputs[300];
    if (WITH_TSAN && scene->threads == 1)
        return; /* one thread races with nobody */
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct watched watched = { 0 };
    for (size_t i = 0; i < scene->inputs; i++)
        inputs[i] = (struct hf_merge_file){
            NULL, make_input(scene->rows, i < scene->odd ? scene->order : SORTED, i + 1)
        };
    watch_merge(scene, inputs, &watched, &report);
    assert_int_equal(watched.total, report.bytes_in);
    assert_int_equal(watched.done, watched.total);
    assert_false(watched.copying);
    assert_true(watched.steps >= 10);
    /* It moves on all the time: no call jumps over a quarter of the bar. */
    if (watched.widest_step > watched.total / 4)
        fail_msg("a step of %llu of %llu", (unsigned long long)watched.widest_step,
                 (unsigned long long)watched.total);
    assert_true(report.bytes_spilled >= scene->passes_min * report.bytes_in);
    for (size_t i = 0; i < scene->inputs; i++)
        close(inputs[i].fd);
}

/* ---- Pipes --------------------------------------------------------------------------- */

/* A pipe, and a process that writes a file to it. */
static int pipe_from(int file)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char bytes[8192];
        ssize_t got;
        lseek(file, 0, SEEK_SET);
        while ((got = read(file, bytes, sizeof bytes)) > 0)
            if (write(ends[1], bytes, (size_t)got) != got)
                _exit(1);
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

static void copied_bytes_are_part_of_the_progress(void **state)
{
    (void)state;
    const struct scene scene = { "",    3,     100000, SHUFFLED, 1, 8 * MIB, 2, HF_MERGE_PLAIN,
                                 false, false, 0 };
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct watched watched = { 0 };
    int files[] = { make_input(scene.rows, SHUFFLED, 1), make_input(scene.rows, SORTED, 2),
                    make_input(scene.rows, SORTED, 3) };
    struct hf_merge_file inputs[] = { { NULL, pipe_from(files[0]) },
                                      { NULL, files[1] },
                                      { NULL, pipe_from(files[2]) } };
    watch_merge(&scene, inputs, &watched, &report);
    uint64_t copied = 2 * (uint64_t)scene.rows * ROW_BYTES;
    assert_true(watched.copying);
    assert_int_equal(report.bytes_in, 3 * (uint64_t)scene.rows * ROW_BYTES);
    assert_int_equal(watched.total, report.bytes_in + copied);
    assert_int_equal(watched.done, watched.total);
    close(inputs[0].fd);
    close(inputs[2].fd);
    for (size_t i = 0; i < 3; i++)
        close(files[i]);
}

static bool stop_while_copying(void *argument, const struct hf_merge_progress *progress)
{
    unsigned *calls = argument;
    assert_int_equal(progress->bytes_total, 0);
    return ++*calls < 3;
}

static void a_caller_can_stop_a_merge_that_waits_for_a_pipe(void **state)
{
    (void)state;
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    struct hf_merge_file output = { NULL, memfd_create("output", MFD_CLOEXEC) };
    struct hf_error error;
    unsigned calls = 0;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct hf_merge_file input = { NULL, ends[0] };
    options.key = "1";
    options.progress = stop_while_copying;
    options.argument = &calls;
    assert_status(HF_CANCELLED, hf_merge_files(&input, 1, &output, &options, NULL, &error),
                  &error);
    assert_int_equal(calls, 3);
    assert_int_equal(lseek(output.fd, 0, SEEK_END), 0);
    close(ends[0]);
    close(ends[1]);
    close(output.fd);
}

static void names_are_used_in_errors_and_suffixes_count(void **state)
{
    (void)state;
    static const char *const names[] = { "the first", "s3://b#x.csv.gz" };
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    struct hf_merge_report report = HF_MERGE_REPORT;
    struct hf_merge_file output = { NULL, memfd_create("output", MFD_CLOEXEC) };
    struct hf_merge_file inputs[] = { { NULL, make_input(1, SORTED, 1) },
                                      { NULL, make_input(1, SORTED, 2) } };
    struct hf_error error;
    unsigned char start[4] = { 0 };
    options.key = "9";
    options.input_names = names;
    assert_status(HF_INVALID, hf_merge_files(inputs, 1, &output, &options, &report, &error),
                  &error);
    assert_string_equal(report.reasons[0], "the first: record 1 has no key field");
    options.key = "1";
    assert_status(HF_CORRUPT, hf_merge_files(inputs, 2, &output, &options, &report, &error),
                  &error);
    assert_non_null(strstr(error.why, "s3://b#x.csv.gz: its name says gzip"));
    options.output_name = "s3://b#out.zst";
    assert_status(HF_OK, hf_merge_files(inputs, 1, &output, &options, &report, &error), &error);
    assert_int_equal(pread(output.fd, start, 4, 0), 4);
    assert_memory_equal(start, "\x28\xb5\x2f\xfd", 4);
    close(inputs[0].fd);
    close(inputs[1].fd);
    close(output.fd);
}

int main(void)
{
    enum { SCENES = sizeof scenes / sizeof scenes[0] };
    static char sentences[SCENES][128];
    struct CMUnitTest tests[SCENES + 3] = {
        [SCENES] = IT("bytes that are copied from pipes are part of the progress",
                      copied_bytes_are_part_of_the_progress),
        IT("a caller can stop a merge that waits for a pipe",
           a_caller_can_stop_a_merge_that_waits_for_a_pipe),
        IT("names are used in errors, and their suffixes count",
           names_are_used_in_errors_and_suffixes_count),
    };
    for (size_t i = 0; i < SCENES; i++) {
        snprintf(sentences[i], sizeof sentences[i], "progress never falls: %s", scenes[i].name);
        tests[i] = (struct CMUnitTest)IT(sentences[i], check_scene);
        tests[i].initial_state = (void *)(uintptr_t)&scenes[i];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
