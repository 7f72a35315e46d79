/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_compact_test.c: a NULL for a pointer of a call of holdfast/compact.h, adopt.h,
 * drop.h or fsck.h is INVALID. */
#include "api_compact_kit.h"
#include "public_calls_kit.h"

struct good {
    struct desk *desk;
    struct hf_compact *compact;
    struct hf_compact_reader *reader;
};

static const char *const names[] = { "a", "b" };
static const char *const with_null[] = { "a", NULL };

static bool see_row(void *argument, const struct hf_compact_row *row)
{
    (void)argument;
    (void)row;
    return true;
}

static bool see_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    (void)argument, (void)chunk;
    return true;
}

static bool see_path(void *argument, const struct hf_compact_path *path)
{
    (void)argument, (void)path;
    return true;
}

static int open_it(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_compact *compact = FILLED(hf_compact);
    if (argument > 1)
        return -1;
    int status = (int)hf_compact_open(LEFT_OUT(0, good->desk->client), NULL, NULL,
                                      LEFT_OUT(1, &compact), error);
    assert_true(argument == 1 || compact == NULL);
    return status;
}

/* Calls of a partition, whose pointers are numbered from it on. */
#define CALL_OF(name, most, ...)                                                    \
    static int name(const struct good *good, int argument, struct hf_error *error)  \
    {                                                                               \
        struct hf_compact *compact = LEFT_OUT(0, good->compact);                    \
        (void)compact;                                                              \
        return argument > (most) ? -1 : (int)hf_compact_##name(__VA_ARGS__, error); \
    }

static struct hf_compact_settings settings;
static struct hf_compact_status status_of;
static struct hf_chunk_info info;
static const struct hf_merge_file file = { "/nowhere/at/all", -1 };
static struct hf_lock *lock;
static enum hf_compact_policy policy;
static bool start;

#define KEYS(number) LEFT_OUT(number, argument == 2 ? with_null : names), 2

CALL_OF(policy_parse, 1, LEFT_OUT(0, "levels"), LEFT_OUT(1, &policy))
CALL_OF(create, 1, compact, LEFT_OUT(1, &settings))
CALL_OF(get_settings, 1, compact, LEFT_OUT(1, &settings))
CALL_OF(set, 1, compact, NULL, LEFT_OUT(1, &settings))
CALL_OF(pause, 0, compact, NULL, NULL)
CALL_OF(resume, 0, compact)
CALL_OF(ingest, 2, compact, KEYS(1), NULL, NULL)
CALL_OF(ingest_objects, 2, compact, KEYS(1), NULL, NULL)
CALL_OF(adopt, 2, compact, KEYS(1), NULL, NULL)
CALL_OF(release, 1, compact, LEFT_OUT(1, "a/"), NULL)
CALL_OF(paths, 1, compact, LEFT_OUT(1, see_path), NULL)
CALL_OF(chunks, 1, compact, HF_CHUNKS_LIVE, LEFT_OUT(1, see_chunk), NULL)
CALL_OF(quarantine, 2, compact, LEFT_OUT(1, "k"), LEFT_OUT(2, "why"))
CALL_OF(unquarantine, 1, compact, LEFT_OUT(1, "k"))
CALL_OF(discard, 1, compact, LEFT_OUT(1, "k"))
CALL_OF(undelete, 1, compact, LEFT_OUT(1, "k"), NULL)
CALL_OF(plan, 0, compact, false, NULL, NULL, NULL)
CALL_OF(should_start, 1, compact, LEFT_OUT(1, &start), NULL)
CALL_OF(run, 0, compact, NULL, NULL)
CALL_OF(get_status, 1, compact, NULL, LEFT_OUT(1, &status_of))
CALL_OF(drop, 0, compact, NULL, NULL)
CALL_OF(fsck, 0, LEFT_OUT(0, good->desk->client), NULL, NULL, NULL)
CALL_OF(reader_next, 1, LEFT_OUT(0, good->reader), LEFT_OUT(1, &info))
CALL_OF(reader_check, 0, LEFT_OUT(0, good->reader))
CALL_OF(reader_fetch, 1, LEFT_OUT(0, good->reader), LEFT_OUT(1, "k"), 0)
CALL_OF(reader_export, 1, LEFT_OUT(0, good->reader), LEFT_OUT(1, &file), NULL, NULL)
CALL_OF(reader_rows, 1, LEFT_OUT(0, good->reader), LEFT_OUT(1, see_row), NULL, NULL, NULL)
CALL_OF(reader_detach, 0, LEFT_OUT(0, good->reader), NULL, NULL)
CALL_OF(worker_wait, 0, NULL, 0, NULL)

static int pin(const struct good *good, int argument, struct hf_error *error)
{
    lock = FILLED(hf_lock);
    if (argument > 3)
        return -1;
    int status = (int)hf_compact_pin(LEFT_OUT(0, good->compact), KEYS(1), 60000,
                                     LEFT_OUT(3, &lock), error);
    assert_true(argument == 3 || lock == NULL);
    return status;
}

static int reader_open(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_compact_reader *reader = FILLED(hf_compact_reader);
    if (argument > 1)
        return -1;
    int status = (int)hf_compact_reader_open(LEFT_OUT(0, good->compact), NULL,
                                             LEFT_OUT(1, &reader), error);
    assert_true(argument == 1 || reader == NULL);
    return status;
}

static int worker_start(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_compact_worker *worker = FILLED(hf_compact_worker);
    if (argument > 1)
        return -1;
    int status = (int)hf_compact_worker_start(LEFT_OUT(0, good->compact), NULL,
                                              LEFT_OUT(1, &worker), error);
    assert_true(argument == 1 || worker == NULL);
    return status;
}

#define ROW(name)                 \
    {                             \
        "hf_compact_" #name, name \
    }
static const struct public_call_row calls[] = {
    { "hf_compact_open", open_it },
    ROW(policy_parse),
    ROW(create),
    ROW(get_settings),
    ROW(set),
    ROW(pause),
    ROW(resume),
    ROW(ingest),
    ROW(ingest_objects),
    ROW(adopt),
    ROW(chunks),
    ROW(quarantine),
    ROW(unquarantine),
    ROW(undelete),
    ROW(reader_open),
    ROW(reader_next),
    ROW(reader_check),
    ROW(reader_fetch),
    ROW(reader_export),
    ROW(reader_rows),
    ROW(reader_detach),
    ROW(pin),
    ROW(plan),
    ROW(should_start),
    ROW(run),
    ROW(worker_start),
    ROW(worker_wait),
    ROW(get_status),
    ROW(drop),
    ROW(release),
    ROW(paths),
    ROW(discard),
    ROW(fsck),
};

/* Those that give no status, or take no pointer. */
static const char *const others[] = {
    "hf_compact_close",         "hf_compact_policy_name",  "hf_chunk_state_name",
    "hf_compact_reader_rewind", "hf_compact_reader_count", "hf_compact_reader_close",
    "hf_merger_goes_on",        "hf_compact_end_name",     "hf_compact_event_name",
    "hf_compact_worker_stop",   "hf_compact_worker_free",  "hf_fsck_kind_name",
    "hf_fsck_kind_text",
};

static void null_for_any_pointer_of_any_call_is_invalid_and_says_which(void **state)
{
    (void)state;
    struct desk desk;
    settings = desk_settings();
    status_of = HF_COMPACT_STATUS;
    info = HF_CHUNK_INFO;
    desk_open(&desk, &settings);
    struct good good = { .desk = &desk, .compact = desk.compact };
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &good.reader, &desk.error));
    assert_null_is_invalid(calls, sizeof calls / sizeof *calls, &good);
    hf_compact_reader_close(good.reader);
    desk_close(&desk);
}

static void calls_without_a_status_take_null(void **state)
{
    (void)state;
    hf_compact_close(NULL);
    hf_compact_reader_rewind(NULL);
    hf_compact_reader_close(NULL);
    hf_compact_worker_stop(NULL);
    hf_compact_worker_free(NULL);
    assert_int_equal(hf_compact_reader_count(NULL), 0);
    assert_false(hf_merger_goes_on(NULL, 0));
}

static void no_call_of_the_header_is_left_out_here(void **state)
{
    (void)state;
    assert_calls_listed("{adopt,compact,drop,fsck,reader}", calls, sizeof calls / sizeof *calls,
                        others, sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_for_any_pointer_of_any_call_is_invalid_and_says_which),
        cmocka_unit_test(calls_without_a_status_take_null),
        cmocka_unit_test(no_call_of_the_header_is_left_out_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
