/* SPDX-License-Identifier: Apache-2.0 */
/* api_alloc_test.c: fails every allocation of the calls of holdfast/merge.h and
 * holdfast/compact.h in turn. Each call must return a status, leak nothing, and work again
 * afterwards. */
#include "alloc.h"
#include "api_compact_kit.h"

#include <stdio.h>

typedef enum hf_status (*step)(struct desk *desk);

static bool see_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    (void)argument, (void)chunk;
    return true;
}

static bool see_group(void *argument, const struct hf_compact_group *group)
{
    (void)argument, (void)group;
    return true;
}

static enum hf_status open_another(struct desk *desk)
{
    static const char *const programs[] = { "/bin/true" };
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct hf_compact *compact;
    options.allow_exec = programs;
    options.allow_exec_count = 1;
    enum hf_status status =
        hf_compact_open(desk->client, "p", &options, &compact, &desk->error);
    assert_true((status == HF_OK) == (compact != NULL));
    hf_compact_close(compact);
    return status;
}

static enum hf_status get_settings(struct desk *desk)
{
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    return hf_compact_get_settings(desk->compact, &settings, &desk->error);
}

static enum hf_status set(struct desk *desk)
{
    struct hf_compact_settings settings = desk_settings();
    return hf_compact_set(desk->compact, NULL, &settings, &desk->error);
}

static enum hf_status list(struct desk *desk)
{
    return hf_compact_chunks(desk->compact, HF_CHUNKS_ALL, see_chunk, NULL, &desk->error);
}

static enum hf_status plan(struct desk *desk)
{
    return hf_compact_plan(desk->compact, true, see_group, NULL, NULL, &desk->error);
}

static enum hf_status get_status(struct desk *desk)
{
    struct hf_compact_status status = HF_COMPACT_STATUS;
    return hf_compact_get_status(desk->compact, NULL, &status, &desk->error);
}

static enum hf_status read_chunks(struct desk *desk)
{
    struct hf_compact_reader *reader;
    enum hf_status status = hf_compact_reader_open(desk->compact, NULL, &reader, &desk->error);
    assert_true((status == HF_OK) == (reader != NULL));
    hf_compact_reader_close(reader);
    return status;
}

static enum hf_status look_through(struct desk *desk)
{
    struct hf_fsck_options options = HF_FSCK_OPTIONS;
    options.scratch_folder = desk->folder;
    return hf_compact_fsck(desk->client, "p", &options, NULL, &desk->error);
}

static enum hf_status merge(struct desk *desk)
{
    char path[700], output[700];
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    snprintf(path, sizeof path, "%s/fill.usv", desk->folder);
    snprintf(output, sizeof output, "%s/merged", desk->folder);
    const char *inputs[] = { path, path };
    options.key = "1";
    options.threads = 1;
    return hf_merge(inputs, 2, output, &options, NULL, &desk->error);
}

/* Pins of a try that failed may still be given back in the background: then it is UNAVAILABLE, or
 * not answered. */
static void each_allocation_of_each_call_fails_in_turn(void **state)
{
    (void)state;
    static const step steps[] = { open_another, get_settings, set,          list, plan,
                                  get_status,   read_chunks,  look_through, merge };
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        bool failed = true;
        for (long n = 0; failed && n < 2000; n++) {
            alloc_fail_after(n);
            enum hf_status status = steps[i](&desk);
            failed = alloc_stop();
            if (status != HF_OK && status != HF_UNAVAILABLE && status != HF_UNSURE)
                fail_msg("call %zu, allocation %ld: %s: %s", i, n, hf_status_name(status),
                         desk.error.why);
        }
        assert_status(HF_OK, steps[i](&desk), &desk.error);
    }
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_of_each_call_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
