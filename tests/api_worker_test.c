/* SPDX-License-Identifier: Apache-2.0 */
/* api_worker_test.c KIND: workers, readers and the caller's own mergers, through the public
 * header only. KIND is mem, sqlite or dir. */
#include "api_compact_kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Workers ------------------------------------------------------------------------- */

struct heard {
    atomic_uint kinds[HF_COMPACT_EVENT_COUNT];
    atomic_uint committed;
    atomic_bool more;
};

static bool hear(void *argument, const struct hf_compact_event *event)
{
    struct heard *heard = argument;
    heard->kinds[event->kind]++;
    assert_non_null(event->totals);
    assert_non_null(event->why);
    assert_int_equal(event->result != NULL, event->kind == HF_COMPACT_ENDED);
    if (event->kind == HF_COMPACT_ENDED && event->result->end == HF_COMPACT_END_COMMITTED) {
        heard->committed++;
        assert_true(event->group->source_count >= 2);
        assert_true(event->result->output[0] != '\0');
    }
    return heard->more;
}

static struct hf_compact_worker_options options_of(enum hf_compact_mode mode,
                                                   struct heard *heard)
{
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    options.mode = mode;
    options.poll_ms = 10;
    options.jobs = 2;
    options.memory_bytes = 32 << 20;
    if (heard) {
        heard->more = true;
        options.event = hear;
        options.argument = heard;
    }
    return options;
}

/* Until the counter is there, or the worker is over. */
static void wait_for(struct desk *desk, struct hf_compact_worker *worker, atomic_uint *counter,
                     unsigned wanted)
{
    enum hf_status status = HF_TIMEOUT;
    for (int i = 0; i < 3000 && *counter < wanted && status == HF_TIMEOUT; i++)
        status = hf_compact_worker_wait(worker, 10, NULL, &desk->error);
    if (*counter < wanted)
        fail_msg("%u of %u: %s", *counter, wanted, desk->error.why);
}

static void a_heartbeat_interval_is_within_bounds(void **state)
{
    static const int64_t refused[] = { INT64_MIN, -1, 1, 99, 3600001, INT64_MAX };
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_ONCE, NULL);
    desk_open(&desk, &settings);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        options.beat_ms = refused[i];
        assert_status(HF_INVALID, hf_compact_run(desk.compact, &options, NULL, &desk.error),
                      &desk.error);
        assert_string_equal(desk.error.why, "the beat must be between 100ms and 1h");
    }
    options.beat_ms = 3600000;
    GOOD(&desk, hf_compact_run(desk.compact, &options, NULL, &desk.error));
    desk_close(&desk);
}

static void a_worker_merges_what_comes_until_it_is_stopped(void **state)
{
    (void)state;
    struct desk desk;
    struct heard heard = { 0 };
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_WATCH, &heard);
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_compact_worker *worker;
    desk_open(&desk, &settings);
    GOOD(&desk, hf_compact_worker_start(desk.compact, &options, &worker, &desk.error));
    assert_status(HF_TIMEOUT, hf_compact_worker_wait(worker, 0, NULL, &desk.error),
                  &desk.error);
    desk_fill(&desk, 3);
    wait_for(&desk, worker, &heard.committed, 1);
    desk_fill(&desk, 3);
    wait_for(&desk, worker, &heard.committed, 2);
    hf_compact_worker_stop(worker);
    hf_compact_worker_stop(worker);
    GOOD(&desk, hf_compact_worker_wait(worker, HF_WAIT_FOREVER, &totals, &desk.error));
    GOOD(&desk, hf_compact_worker_wait(worker, 0, &totals, &desk.error));
    hf_compact_worker_free(worker);
    assert_int_equal(totals.groups_committed, heard.committed);
    assert_true(heard.kinds[HF_COMPACT_NEEDED] >= 1 && heard.kinds[HF_COMPACT_PLANNED] >= 1);
    assert_int_equal(heard.kinds[HF_COMPACT_STARTED], heard.kinds[HF_COMPACT_ENDED]);
    assert_int_equal(desk_count(&desk).rows, 6);
    desk_close(&desk);
}

static void a_drain_leaves_nothing_to_do_and_an_event_can_end_it(void **state)
{
    (void)state;
    struct desk desk;
    struct heard heard = { 0 };
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    bool start = true;
    desk_open(&desk, &settings);
    desk_fill(&desk, 9);
    struct hf_compact_worker_options options = options_of(HF_COMPACT_DRAIN, &heard);
    heard.more = false;
    assert_status(HF_CANCELLED, hf_compact_run(desk.compact, &options, &totals, &desk.error),
                  &desk.error);
    heard.more = true;
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    GOOD(&desk, hf_compact_should_start(desk.compact, &start, NULL, &desk.error));
    assert_false(start);
    options.force = true;
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    assert_int_equal(desk_count(&desk).chunks, 1);
    assert_int_equal(desk_count(&desk).rows, 9);
    desk_close(&desk);
}

/* ---- What an event may call ---------------------------------------------------------- */

struct caller {
    struct desk *desk;
    struct hf_compact_worker *_Atomic worker;
    atomic_uint calls;
    atomic_uint committed;
};

static bool see_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct hf_compact *compact = argument;
    bool start;
    assert_true(chunk->size > 0);
    return hf_compact_should_start(compact, &start, NULL, NULL) == HF_OK;
}

static bool see_lease(void *argument, const struct hf_lease_info *lease)
{
    (void)argument;
    return lease->id != NULL;
}

/* Everything but waiting for the end of the worker. */
static bool call_all(void *argument, const struct hf_compact_event *event)
{
    struct caller *caller = argument;
    struct hf_compact *compact = caller->desk->compact;
    struct hf_compact_status status = HF_COMPACT_STATUS;
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    struct hf_compact_reader *reader;
    struct hf_error error; /* the one of the desk is that of another thread */
    if (!caller->worker)
        return true;
    assert_status(HF_OK, hf_compact_get_status(compact, NULL, &status, &error), &error);
    assert_status(HF_OK, hf_compact_get_settings(compact, &settings, &error), &error);
    assert_status(HF_OK, hf_compact_chunks(compact, HF_CHUNKS_LIVE, see_chunk, compact, &error),
                  &error);
    assert_status(HF_OK, hf_compact_reader_open(compact, NULL, &reader, &error), &error);
    hf_compact_reader_close(reader);
    assert_status(HF_OK, hf_locks_list(caller->desk->client, "", NULL, see_lease, NULL, &error),
                  &error);
    assert_status(HF_TIMEOUT, hf_compact_worker_wait(caller->worker, 0, &totals, &error),
                  &error);
    assert_int_equal(totals.groups_committed, event->totals->groups_committed);
    caller->committed += event->result && event->result->end == HF_COMPACT_END_COMMITTED;
    caller->calls++;
    if (caller->committed == 2)
        hf_compact_worker_stop(caller->worker);
    return true;
}

static void an_event_may_call_anything_but_wait_for_its_worker(void **state)
{
    (void)state;
    struct desk desk;
    struct caller caller = { .desk = &desk };
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_WATCH, NULL);
    struct hf_compact_worker *worker;
    options.event = call_all;
    options.argument = &caller;
    desk_open(&desk, &settings);
    GOOD(&desk, hf_compact_worker_start(desk.compact, &options, &worker, &desk.error));
    caller.worker = worker;
    desk_fill(&desk, 3);
    wait_for(&desk, worker, &caller.committed, 1);
    desk_fill(&desk, 3);
    GOOD(&desk, hf_compact_worker_wait(worker, HF_WAIT_FOREVER, NULL, &desk.error));
    assert_true(caller.calls >= 4);
    hf_compact_worker_free(worker);
    desk_close(&desk);
}

static void a_worker_and_a_reader_outlive_the_handles_they_came_from(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_WATCH, NULL);
    struct hf_chunk_info chunk = HF_CHUNK_INFO;
    struct hf_compact_worker *worker;
    struct hf_compact_reader *reader;
    desk_open(&desk, &settings);
    desk_fill(&desk, 2);
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &reader, &desk.error));
    GOOD(&desk, hf_compact_worker_start(desk.compact, &options, &worker, &desk.error));
    hf_compact_close(desk.compact);
    desk.compact = NULL;
    hf_client_close(desk.client);
    desk.client = NULL;
    GOOD(&desk, hf_compact_reader_next(reader, &chunk, &desk.error));
    assert_status(HF_LOST, hf_compact_reader_check(reader, &desk.error), &desk.error);
    assert_status(HF_TIMEOUT, hf_compact_worker_wait(worker, 50, NULL, &desk.error),
                  &desk.error);
    hf_compact_worker_free(worker);
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

static void who_merges_by_itself_is_told_when_it_is_needed(void **state)
{
    (void)state;
    struct desk desk;
    struct heard heard = { 0 };
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_NOTIFY, &heard);
    struct hf_compact_worker *worker;
    desk_open(&desk, &settings);
    GOOD(&desk, hf_compact_worker_start(desk.compact, &options, &worker, &desk.error));
    desk_fill(&desk, 3);
    wait_for(&desk, worker, &heard.kinds[HF_COMPACT_NEEDED], 1);
    assert_int_equal(desk_count(&desk).chunks, 3);
    GOOD(&desk, hf_compact_run(desk.compact, NULL, NULL, &desk.error));
    assert_int_equal(desk_count(&desk).chunks, 1);
    hf_compact_worker_free(worker); /* stops it */
    options.event = NULL;
    assert_status(HF_INVALID,
                  hf_compact_worker_start(desk.compact, &options, &worker, &desk.error),
                  &desk.error);
    assert_null(worker);
    desk_close(&desk);
}

static void a_worker_that_makes_no_sense_is_invalid(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    struct hf_merger merger = HF_MERGER;
    desk_open(&desk, &settings);
    options.jobs = 65;
    assert_status(HF_INVALID, hf_compact_run(desk.compact, &options, NULL, &desk.error),
                  &desk.error);
    options.jobs = 2;
    options.memory_bytes = 1 << 20;
    assert_status(HF_INVALID, hf_compact_run(desk.compact, &options, NULL, &desk.error),
                  &desk.error);
    options.memory_bytes = 0;
    options.mode = (enum hf_compact_mode)9;
    assert_status(HF_INVALID, hf_compact_run(desk.compact, &options, NULL, &desk.error),
                  &desk.error);
    options.mode = HF_COMPACT_ONCE;
    options.merger = &merger;
    assert_status(HF_INVALID, hf_compact_run(desk.compact, &options, NULL, &desk.error),
                  &desk.error);
    desk_close(&desk);
}

/* ---- Readers ------------------------------------------------------------------------- */

/* The bytes of all chunks of a reader, each checked. */
static uint64_t read_all(struct desk *desk, struct hf_compact_reader *reader)
{
    struct hf_chunk_info chunk = HF_CHUNK_INFO;
    uint64_t bytes = 0, count = 0;
    char path[700];
    enum hf_status status;
    snprintf(path, sizeof path, "%s/fetched", desk->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    hf_compact_reader_rewind(reader);
    while ((status = hf_compact_reader_next(reader, &chunk, &desk->error)) == HF_OK) {
        GOOD(desk, hf_compact_reader_fetch(reader, chunk.key, fd, &desk->error));
        assert_int_equal(lseek(fd, 0, SEEK_END), chunk.size);
        bytes += chunk.size;
        count++;
    }
    assert_int_equal(status, HF_NOT_FOUND);
    assert_int_equal(count, hf_compact_reader_count(reader));
    close(fd);
    return bytes;
}

static void what_a_reader_has_stays_readable_while_a_worker_merges(void **state)
{
    (void)state;
    struct desk desk;
    struct heard heard = { 0 };
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_WATCH, &heard);
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_compact_reader *reader;
    struct hf_compact_worker *worker;
    desk_open(&desk, &settings);
    desk_fill(&desk, 6);
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &reader, &desk.error));
    assert_int_equal(hf_compact_reader_count(reader), 6);
    uint64_t bytes = read_all(&desk, reader);
    GOOD(&desk, hf_compact_worker_start(desk.compact, &options, &worker, &desk.error));
    wait_for(&desk, worker, &heard.committed, 2);
    assert_int_equal(read_all(&desk, reader), bytes);
    hf_compact_worker_free(worker);
    options.mode = HF_COMPACT_DRAIN;
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    assert_int_equal(totals.deleted, 0); /* though their grace is over */
    assert_true(totals.pinned >= 6);
    assert_int_equal(read_all(&desk, reader), bytes);
    GOOD(&desk, hf_compact_reader_check(reader, &desk.error));
    assert_int_equal(desk_count(&desk).chunks, 2);
    hf_compact_reader_close(reader);
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    assert_true(totals.deleted >= 6);
    desk_close(&desk);
}

static void a_reader_sees_one_moment_and_fetches_only_what_it_has(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_status status = HF_COMPACT_STATUS;
    struct hf_compact_reader *reader;
    desk_open(&desk, &settings);
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &reader, &desk.error));
    assert_int_equal(hf_compact_reader_count(reader), 0);
    hf_compact_reader_close(reader);
    desk_fill(&desk, 2);
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &reader, &desk.error));
    desk_fill(&desk, 2);
    assert_int_equal(hf_compact_reader_count(reader), 2);
    GOOD(&desk, hf_compact_get_status(desk.compact, NULL, &status, &desk.error));
    assert_true(status.pins > 0);
    assert_status(HF_NOT_FOUND, hf_compact_reader_fetch(reader, "none", 0, &desk.error),
                  &desk.error);
    struct hf_chunk_info chunk = HF_CHUNK_INFO;
    GOOD(&desk, hf_compact_reader_next(reader, &chunk, &desk.error));
    assert_status(HF_INVALID, hf_compact_reader_fetch(reader, chunk.key, -1, &desk.error),
                  &desk.error);
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

static void chunks_are_pinned_by_key_too(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_compact_worker_options options = options_of(HF_COMPACT_DRAIN, NULL);
    struct hf_lock *lock;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    struct counted counted = desk_count(&desk);
    const char *keys[] = { counted.first, "data/p/L0/2026/01/none.usv" };
    assert_status(HF_NOT_FOUND,
                  hf_compact_pin(desk.compact, keys, 2, 60000, &lock, &desk.error),
                  &desk.error);
    assert_null(lock);
    GOOD(&desk, hf_compact_pin(desk.compact, keys, 1, 60000, &lock, &desk.error));
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    assert_true(totals.deleted >= 2 && totals.pinned >= 1); /* each round counts anew */
    struct hf_lock *again;
    GOOD(&desk, hf_lock_check(lock, &desk.error));
    assert_status(HF_NOT_FOUND,
                  hf_compact_pin(desk.compact, keys, 1, 60000, &again, &desk.error),
                  &desk.error); /* it is read by those who have it, and found by nobody else */
    GOOD(&desk, hf_lock_release(lock, &desk.error));
    hf_lock_free(lock);
    desk_close(&desk);
}

/* ---- A merger of one's own ----------------------------------------------------------- */

struct engine {
    atomic_uint calls;
    enum hf_status status; /* that it answers with, after it has written */
    size_t culprit;
    bool writes_nothing;
    bool waits; /* until it is told to end */
    bool spoils_its_input;
};

static void append_file(FILE *to, const char *path)
{
    char text[4096];
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    size_t size = fread(text, 1, sizeof text, from);
    fclose(from);
    assert_int_equal(fwrite(text, 1, size, to), size);
}

/* Its format: files one behind the other, and a line at the end. */
static enum hf_status merge_own(void *argument, const struct hf_merger_job *job,
                                struct hf_merged *merged, struct hf_error *error)
{
    struct engine *engine = argument;
    uint64_t bytes = 0;
    engine->calls++;
    assert_string_equal(job->partition, "p");
    assert_true(job->level >= 1 && job->memory_bytes > 0 && job->source_count >= 1);
    assert_memory_equal(job->output, job->folder, strlen(job->folder));
    while (engine->waits && hf_merger_goes_on(job, 0))
        ;
    FILE *output = fopen(job->output, "wx");
    assert_non_null(output);
    for (size_t i = 0; i < job->source_count && !engine->writes_nothing; i++) {
        assert_memory_equal(job->sources[i].key, "data/p/", 7);
        append_file(output, job->sources[i].path);
        bytes += job->sources[i].size;
        if (!hf_merger_goes_on(job, bytes))
            engine->status = HF_CANCELLED;
    }
    assert_int_equal(fclose(output), 0);
    if (engine->spoils_its_input) {
        FILE *input = fopen(job->sources[0].path, "a");
        assert_non_null(input);
        fputs("spoiled", input);
        fclose(input);
    }
    merged->culprit = engine->culprit;
    if (engine->status != HF_OK) {
        error->status = engine->status;
        snprintf(error->why, sizeof error->why, "%s is odd", job->sources[0].path);
    }
    return engine->waits ? HF_CANCELLED : engine->status;
}

static struct hf_compact_settings engine_settings(void)
{
    struct hf_compact_settings settings = desk_settings();
    settings.format = HF_MERGE_EXEC;
    settings.key = settings.time = NULL;
    settings.command = "engine {inputs} {output}";
    return settings;
}

static struct hf_merger merger_of(struct engine *engine)
{
    struct hf_merger merger = HF_MERGER;
    merger.name = "engine";
    merger.merge = merge_own;
    merger.argument = engine;
    engine->culprit = HF_MERGER_NOBODY;
    return merger;
}

static void an_engine_merges_its_own_format_and_nobody_else_touches_it(void **state)
{
    (void)state;
    struct desk desk;
    struct engine engine = { 0 };
    struct hf_merger merger = merger_of(&engine);
    struct hf_compact_settings settings = engine_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_ONCE, NULL);
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_compact_reader *reader;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    assert_status(HF_DENIED, hf_compact_run(desk.compact, &options, &totals, &desk.error),
                  &desk.error);
    merger.name = "another";
    options.merger = &merger;
    assert_status(HF_DENIED, hf_compact_run(desk.compact, &options, &totals, &desk.error),
                  &desk.error);
    assert_non_null(strstr(desk.error.why, "engine"));
    assert_int_equal(desk_count(&desk).chunks, 3);
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &reader, &desk.error));
    uint64_t bytes = read_all(&desk, reader);
    hf_compact_reader_close(reader);
    merger.name = "engine";
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    assert_int_equal(totals.groups_committed, 1);
    assert_int_equal(engine.calls, 1);
    assert_int_equal(desk_count(&desk).chunks, 1);
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &reader, &desk.error));
    assert_int_equal(read_all(&desk, reader), bytes);
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

static void a_merger_without_a_name_merges_records_too_and_they_are_counted(void **state)
{
    (void)state;
    struct desk desk;
    struct engine engine = { 0 };
    struct hf_merger merger = merger_of(&engine);
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_ONCE, NULL);
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    merger.name = NULL;
    options.merger = &merger;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    assert_int_equal(totals.rows_in, 3);
    assert_int_equal(totals.rows_out, 3);
    assert_int_equal(engine.calls, 1);
    desk_close(&desk);
}

/* Runs a pass with such an engine, and tells what is left. */
static struct counted run_with(struct desk *desk, struct engine *engine, uint64_t failed)
{
    struct hf_merger merger = merger_of(engine);
    struct hf_compact_worker_options options = options_of(HF_COMPACT_ONCE, NULL);
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    if (engine->status == HF_CORRUPT)
        engine->culprit = 1;
    options.merger = &merger;
    GOOD(desk, hf_compact_run(desk->compact, &options, &totals, &desk->error));
    assert_int_equal(totals.groups_failed, failed);
    assert_int_equal(totals.groups_committed, 0);
    return desk_count(desk);
}

static bool sum_tries(void *argument, const struct hf_chunk_info *chunk)
{
    *(unsigned *)argument += chunk->tries;
    return true;
}

static unsigned count_tries(struct desk *desk)
{
    unsigned tries = 0;
    GOOD(desk,
         hf_compact_chunks(desk->compact, HF_CHUNKS_LIVE, sum_tries, &tries, &desk->error));
    return tries;
}

static void whom_a_merger_blames_is_blamed(void **state)
{
    (void)state;
    struct desk desk;
    struct engine blames_one = { .status = HF_CORRUPT };
    struct engine blames_all = { .status = HF_INVALID };
    struct engine blames_nobody = { .status = HF_UNAVAILABLE };
    struct hf_compact_settings settings = engine_settings();
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    assert_int_equal(run_with(&desk, &blames_nobody, 1).quarantined, 0);
    assert_int_equal(count_tries(&desk), 0);
    assert_int_equal(run_with(&desk, &blames_all, 1).quarantined, 0);
    assert_int_equal(count_tries(&desk), 3);
    desk_close(&desk);
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    assert_int_equal(run_with(&desk, &blames_one, 1).quarantined, 1);
    desk_close(&desk);
}

static void a_merger_that_lies_is_found_out(void **state)
{
    (void)state;
    struct desk desk;
    struct engine lazy = { .writes_nothing = true };
    struct engine spoiler = { .spoils_its_input = true };
    struct hf_compact_settings settings = engine_settings();
    struct hf_compact_reader *reader;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    assert_int_equal(run_with(&desk, &lazy, 1).chunks, 3);
    desk_close(&desk);
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    assert_int_equal(run_with(&desk, &spoiler, 1).chunks, 3);
    GOOD(&desk, hf_compact_reader_open(desk.compact, NULL, &reader, &desk.error));
    read_all(&desk, reader); /* the chunks themselves are as they were */
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

static void a_stop_ends_a_merge_under_way_and_blames_nobody(void **state)
{
    (void)state;
    struct desk desk;
    struct heard heard = { 0 };
    struct engine engine = { .waits = true };
    struct hf_merger merger = merger_of(&engine);
    struct hf_compact_settings settings = engine_settings();
    struct hf_compact_worker_options options = options_of(HF_COMPACT_DRAIN, &heard);
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_compact_worker *worker;
    options.merger = &merger;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    GOOD(&desk, hf_compact_worker_start(desk.compact, &options, &worker, &desk.error));
    wait_for(&desk, worker, &engine.calls, 1);
    hf_compact_worker_stop(worker);
    assert_status(HF_CANCELLED,
                  hf_compact_worker_wait(worker, HF_WAIT_FOREVER, &totals, &desk.error),
                  &desk.error);
    hf_compact_worker_free(worker);
    assert_int_equal(totals.groups_committed, 0);
    assert_int_equal(desk_count(&desk).chunks, 3);
    assert_int_equal(count_tries(&desk), 0);
    engine.waits = false;
    engine.status = HF_OK;
    GOOD(&desk, hf_compact_run(desk.compact, &options, &totals, &desk.error));
    assert_int_equal(totals.groups_committed, 1); /* the lease was given back */
    desk_close(&desk);
}

int main(int argc, char **argv)
{
    if (!desk_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_merges_what_comes_until_it_is_stopped),
        cmocka_unit_test(a_heartbeat_interval_is_within_bounds),
        cmocka_unit_test(a_drain_leaves_nothing_to_do_and_an_event_can_end_it),
        cmocka_unit_test(an_event_may_call_anything_but_wait_for_its_worker),
        cmocka_unit_test(a_worker_and_a_reader_outlive_the_handles_they_came_from),
        cmocka_unit_test(who_merges_by_itself_is_told_when_it_is_needed),
        cmocka_unit_test(a_worker_that_makes_no_sense_is_invalid),
        cmocka_unit_test(what_a_reader_has_stays_readable_while_a_worker_merges),
        cmocka_unit_test(a_reader_sees_one_moment_and_fetches_only_what_it_has),
        cmocka_unit_test(chunks_are_pinned_by_key_too),
        cmocka_unit_test(an_engine_merges_its_own_format_and_nobody_else_touches_it),
        cmocka_unit_test(a_merger_without_a_name_merges_records_too_and_they_are_counted),
        cmocka_unit_test(whom_a_merger_blames_is_blamed),
        cmocka_unit_test(a_merger_that_lies_is_found_out),
        cmocka_unit_test(a_stop_ends_a_merge_under_way_and_blames_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
