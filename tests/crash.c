/* SPDX-License-Identifier: Apache-2.0 */
/* crash.c: runs a few store calls, disturbs them by a kill or a simulated power loss at every
 * point, and checks the store afterwards. */
#include "crash.h"

#include "base/check.h"
#include "base/prng.h"
#include "crash_model.h"
#include "crash_trace.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BODY_MAX (4 * MIB)

/* All subsets are tried of so many changes. */
#define PENDING_ALL_MAX 5

/* A reader asked while the writer is stopped waits so long for it, in vain. */
#define READER_WAIT SPAN_MS(3)

/* ---- Steps --------------------------------------------------------------------------- */

static struct store *open_store(const char *pattern, const char *folder)
{
    char url[URL_BYTES_MAX];
    struct hf_error error;
    struct store *store = NULL;
    size_t at = strcspn(pattern, "%");
    int size =
        snprintf(url, sizeof url, "%.*s%s%s", (int)at, pattern, folder, pattern + at + 2);
    if (store_open(env_real(), (struct view){ url, (size_t)size }, &store, &error) != HF_OK)
        fail_msg("the store does not open: %s", error.why);
    return store;
}

/* The body of a version tells its letter and its place everywhere, so that a mixture shows. */
static char *make_body(size_t size, char letter)
{
    char *body = malloc(size + 1);
    check(body);
    for (size_t i = 0; i < size; i++)
        body[i] = i % 16 == 0 ? letter : (char)('0' + i / 16 % 75);
    return body;
}

static int make_file(const char *body, size_t size)
{
    int fd = memfd_create("body", MFD_CLOEXEC);
    check(fd >= 0 && pwrite(fd, body, size, 0) == (ssize_t)size);
    return fd;
}

static struct view decide(void *argument, const struct etag *now, struct view body)
{
    (void)now;
    (void)body;
    return *(const struct view *)argument;
}

static enum hf_status do_change(struct store *store, const struct crash_step *step,
                                const struct etag *known, struct hf_error *error)
{
    char *bytes = make_body(step->size, step->letter);
    struct view body = { bytes, step->size };
    struct change_call change = {
        .key = view_of(step->key), .known = *known, .decide = decide, .argument = &body
    };
    enum hf_status status = store_change(store, &change);
    check(status != HF_OK || change.wrote);
    *error = change.error;
    free(bytes);
    return status;
}

static enum hf_status do_put(struct store *store, const struct crash_step *step,
                             const struct condition *condition, struct hf_error *error)
{
    char *body = make_body(step->size, step->letter);
    struct put_call put = { .key = view_of(step->key), .condition = *condition };
    enum hf_status status;
    if (step->act == CRASH_PUT_FILE) {
        int fd = make_file(body, step->size);
        status = store_put_file(store, &put, fd, /* progress */ NULL);
        close(fd);
    } else {
        put.body = (struct view){ body, step->size };
        status = store_put(store, &put);
    }
    *error = put.error;
    free(body);
    return status;
}

static struct condition condition_of(struct store *store, const char *key)
{
    struct buffer body = BUFFER_INIT(BODY_MAX);
    struct get_call get = { .key = view_of(key), .body = &body };
    enum hf_status status = store_get(store, &get);
    buffer_release(&body);
    return status == HF_OK ? if_match(&get.info.etag) : if_absent();
}

static enum hf_status do_step(struct store *store, const struct crash_step *step,
                              struct hf_error *error)
{
    struct condition condition = condition_of(store, step->key);
    if (step->act == CRASH_CHANGE)
        return do_change(store, step, &condition.etag, error);
    if (step->act != CRASH_DELETE)
        return do_put(store, step, &condition, error);
    struct delete_call call = { .key = view_of(step->key), .condition = condition };
    store_delete(store, &call);
    *error = call.error;
    return call.error.status;
}

static size_t count_steps(const struct crash_step *steps)
{
    size_t count = 0;
    while (count < CRASH_STEPS_MAX && steps[count].key)
        count++;
    return count;
}

static void do_steps(struct store *store, const struct crash_step *steps, bool mark)
{
    size_t count = count_steps(steps);
    if (mark)
        trace_mark(0);
    for (size_t i = 0; i < count; i++) {
        struct hf_error error;
        enum hf_status status = do_step(store, &steps[i], &error);
        if (status != HF_OK)
            fprintf(stderr, "step %zu: %s: %s\n", i, hf_status_name(status), error.why);
        check(status == HF_OK);
        if (mark)
            trace_mark((int)i + 1);
    }
}

static void do_batch(struct store *store, const struct crash_step *steps)
{
    struct put_call puts[CRASH_STEPS_MAX] = { 0 };
    struct delete_call removals[CRASH_STEPS_MAX] = { 0 };
    char *bodies[CRASH_STEPS_MAX];
    size_t count = count_steps(steps);
    bool removes = steps[0].act == CRASH_DELETE;
    for (size_t i = 0; i < count; i++) {
        bodies[i] = make_body(steps[i].size, steps[i].letter);
        puts[i].key = removals[i].key = view_of(steps[i].key);
        puts[i].body = (struct view){ bodies[i], steps[i].size };
        puts[i].condition = removals[i].condition = condition_of(store, steps[i].key);
    }
    trace_mark(0);
    check((removes ? store_delete_many(store, removals, count)
                   : store_put_many(store, puts, count)) == HF_OK);
    trace_mark((int)count);
    for (size_t i = 0; i < count; i++)
        free(bodies[i]);
}

/* ---- Judging what is left ------------------------------------------------------------ */

/* What stands in the way of one judgement: which state, for the message. */
struct judgement {
    const struct crash_store *kind;
    const struct crash_story *story;
    unsigned done; /* a bit for each step that was acknowledged, or that a reader has seen */
    size_t moment; /* for messages */
    size_t subset;
};

static unsigned first_steps(size_t count)
{
    return (1u << count) - 1;
}

/* The steps that may be under way once these are done. */
static unsigned next_steps(const struct crash_story *story, unsigned done)
{
    unsigned all = first_steps(count_steps(story->steps));
    return story->batch ? all : all & (done << 1 | 1);
}

/* The last of these steps that concerns a key; NULL: nothing ever did. */
static const struct crash_step *last_step(const struct crash_story *story, const char *key,
                                          unsigned steps)
{
    const struct crash_step *last = NULL;
    for (size_t i = 0; i < count_steps(story->before); i++)
        if (strcmp(story->before[i].key, key) == 0)
            last = &story->before[i];
    for (size_t i = 0; i < count_steps(story->steps); i++)
        if ((steps >> i & 1) && strcmp(story->steps[i].key, key) == 0)
            last = &story->steps[i];
    return last;
}

static bool is_result_of(const struct crash_step *step, enum hf_status status, struct view body)
{
    if (!step || step->act == CRASH_DELETE)
        return status == HF_NOT_FOUND;
    if (status != HF_OK || body.size != step->size)
        return false;
    char *expected = make_body(step->size, step->letter);
    bool equal = memcmp(expected, body.data, body.size) == 0;
    free(expected);
    return equal;
}

static void check_listing(struct store *store, const struct get_call *get,
                          enum hf_status status)
{
    struct list_call list = { .prefix = get->key };
    assert_status(HF_OK, store_list(store, &list), &list.error);
    const struct list_entry *found = NULL;
    for (size_t i = 0; i < list.count; i++)
        if (view_equal(list.entries[i].key, get->key))
            found = &list.entries[i];
    assert_true((found != NULL) == (status == HF_OK));
    if (found)
        assert_true(etag_equal(&found->info.etag, &get->info.etag));
    list_release(&list);
}

static void judge_key(struct store *store, const struct judgement *judgement, const char *key)
{
    const struct crash_story *story = judgement->story;
    unsigned next = next_steps(story, judgement->done);
    struct buffer body = BUFFER_INIT(BODY_MAX);
    struct get_call get = { .key = view_of(key), .body = &body };
    enum hf_status status = store_get(store, &get);
    if (!is_result_of(last_step(story, key, judgement->done), status, buffer_view(&body)) &&
        !is_result_of(last_step(story, key, next), status, buffer_view(&body)))
        fail_msg("moment %zu, subset %zu: steps %x were acknowledged, but %s is %s, %zu bytes "
                 "of %c: %s",
                 judgement->moment, judgement->subset, judgement->done, key,
                 hf_status_name(status), body.size, body.size ? body.data[0] : '-',
                 status == HF_OK ? "" : get.error.why);
    if (status == HF_OK && judgement->kind->knows_etag &&
        !judgement->kind->knows_etag(&get.info.etag))
        fail_msg("moment %zu, subset %zu: the ETag of %s is not that of its put",
                 judgement->moment, judgement->subset, key);
    check_listing(store, &get, status);
    buffer_release(&body);
}

/* The store goes on: a put by what was read, then a delete by that. */
static void check_goes_on(struct store *store, const char *key)
{
    struct hf_error error;
    const struct crash_step put = { CRASH_PUT, key, 100, 'z' };
    const struct crash_step gone = { CRASH_DELETE, key, 0, 0 };
    assert_status(HF_OK, do_step(store, &put, &error), &error);
    assert_status(HF_OK, do_step(store, &gone, &error), &error);
}

static void judge_store(const struct judgement *judgement, const char *folder)
{
    bool fast = judgement->subset > 0 && judgement->kind->url_fast;
    struct store *store =
        open_store(fast ? judgement->kind->url_fast : judgement->kind->url, folder);
    const struct crash_story *story = judgement->story;
    for (size_t i = 0; i < count_steps(story->before); i++)
        judge_key(store, judgement, story->before[i].key);
    for (size_t i = 0; i < count_steps(story->steps); i++)
        judge_key(store, judgement, story->steps[i].key);
    for (size_t i = 0; i < count_steps(story->steps); i++)
        check_goes_on(store, story->steps[i].key);
    store_close(store);
}

/* ---- Killed -------------------------------------------------------------------------- */

/* One run of the steps in a child. */
struct run {
    const struct crash_store *kind;
    const struct crash_story *story;
    const char *folder;
    int done;     /* the last mark; -1 before the first */
    size_t stops; /* since the first mark */
    size_t kill_at;
    struct record *record;
    struct store *reader;
};

static void prepare(struct run *run, const struct crash_store *kind,
                    const struct crash_story *story)
{
    *run = (struct run){ .kind = kind, .story = story, .folder = test_dir_make(), .done = -1 };
    struct store *store = open_store(kind->url_fast ? kind->url_fast : kind->url, run->folder);
    do_steps(store, story->before, /* mark */ false);
    store_close(store);
}

static void run_child(void *argument)
{
    struct run *run = argument;
    struct store *store = open_store(run->kind->url, run->folder);
    if (run->story->batch)
        do_batch(store, run->story->steps);
    else
        do_steps(store, run->story->steps, /* mark */ true);
}

static bool stop_to_kill(void *argument, const struct trace_stop *stop)
{
    struct run *run = argument;
    int mark;
    if (trace_is_mark(stop, &mark)) {
        run->done = mark;
        return true;
    }
    if (run->done < 0 || run->done == (int)count_steps(run->story->steps))
        return true;
    return ++run->stops != run->kill_at;
}

void crash_by_kill(const struct crash_store *kind, const struct crash_story *story)
{
    bool killed = true;
    size_t at = 1;
    for (; killed; at++) {
        struct run run;
        prepare(&run, kind, story);
        run.kill_at = at;
        struct store *idle = story->beside ? open_store(kind->url, run.folder) : NULL;
        struct tracer tracer = { .child = run_child, .stop = stop_to_kill, .argument = &run };
        bool ended = trace_run(&tracer);
        killed = run.stops >= at;
        if (ended == killed)
            fail_msg("the child failed by itself after %zu stops", run.stops);
        if (story->beside)
            store_close(open_store(kind->url, run.folder));
        store_close(idle);
        struct judgement judgement = { .kind = kind,
                                       .story = story,
                                       .done = first_steps(run.done < 0 ? 0 : (size_t)run.done),
                                       .moment = at };
        judge_store(&judgement, run.folder);
        test_dir_remove((char *)(uintptr_t)run.folder);
    }
    print_message("# killed at %zu places\n", at - 2);
    assert_true(at > 10);
}

/* ---- Without power ------------------------------------------------------------------- */

/* The steps under way whose results somebody who reads now is told. */
static unsigned steps_that_a_reader_sees(struct run *run)
{
    unsigned done = first_steps((size_t)run->done), seen = 0;
    unsigned next = next_steps(run->story, done) & ~done;
    for (size_t i = 0; run->reader && next >> i != 0; i++) {
        if (!(next >> i & 1))
            continue;
        struct buffer body = BUFFER_INIT(BODY_MAX);
        struct get_call get = { .key = view_of(run->story->steps[i].key),
                                .body = &body,
                                .deadline = mono_add(env_now(env_real()), READER_WAIT) };
        enum hf_status status = store_get(run->reader, &get);
        if (is_result_of(&run->story->steps[i], status, buffer_view(&body)))
            seen |= 1u << i;
        buffer_release(&body);
    }
    return seen;
}

static bool stop_to_record(void *argument, const struct trace_stop *stop)
{
    struct run *run = argument;
    int mark;
    size_t before = run->record->count;
    if (trace_is_mark(stop, &mark)) {
        run->done = mark;
        record_add(run->record, &(struct change){ .kind = CHANGE_MARK, .target = mark });
    } else {
        trace_record(run->record, stop);
    }
    if (run->done >= 0 && run->record->count > before)
        run->record->changes[run->record->count - 1].reader_saw = steps_that_a_reader_sees(run);
    return true;
}

static size_t done_at(const struct record *record, size_t moment)
{
    size_t done = 0;
    for (size_t i = 0; i < moment; i++)
        if (record->changes[i].kind == CHANGE_MARK)
            done = (size_t)record->changes[i].target;
    return done;
}

static void judge_state(const struct judgement *judgement, const struct record *record,
                        const size_t *keep)
{
    struct model *model = record_state(record, judgement->moment, keep);
    char *folder = test_dir_make();
    model_build(model, folder, judgement->kind->relabel);
    judge_store(judgement, folder);
    test_dir_remove(folder);
    model_free(model);
}

/* Which of the changes so far are there: everything synced and, of the rest, by subset number:
 * none, all, then by its bits where all are tried, else by lot, writes torn now and then. */
static void choose(const struct record *record, size_t moment, size_t subset, size_t pending,
                   struct prng *prng, size_t *keep)
{
    size_t bit = 0;
    for (size_t i = 0; i < moment; i++) {
        keep[i] = KEEP_ALL;
        if (!record_is_pending(record, i, moment))
            continue;
        bool kept = pending <= PENDING_ALL_MAX ? (subset >> bit & 1) != 0
                    : subset < 2               ? subset == 1
                                               : prng_below(prng, 2) == 1;
        bit++;
        if (!kept)
            keep[i] = 0;
        else if (record->changes[i].kind == CHANGE_WRITE && subset > 1 &&
                 prng_below(prng, 4) == 0)
            keep[i] = 1 + prng_below(prng, record->changes[i].size);
    }
}

/* All states that a power loss after `moment` changes may leave. Returns how many were judged.
 */
static size_t judge_moment(const struct judgement *at, const struct record *record,
                           struct crash_plan plan, size_t *keep)
{
    struct prng prng = prng_seeded(plan.seed + at->moment);
    size_t pending = 0;
    for (size_t i = 0; i < at->moment; i++)
        pending += record_is_pending(record, i, at->moment);
    size_t subsets = pending <= PENDING_ALL_MAX ? (size_t)1 << pending : plan.subsets + 2;
    struct judgement judgement = *at;
    /* Somebody knows of these: they may not be taken back. */
    judgement.done |= record->changes[at->moment - 1].reader_saw;
    for (size_t subset = 0; subset < subsets; subset++) {
        judgement.subset = subset;
        choose(record, at->moment, subset, pending, &prng, keep);
        judge_state(&judgement, record, keep);
    }
    return subsets;
}

void crash_by_power_loss(const struct crash_store *kind, const struct crash_story *story,
                         struct crash_plan plan)
{
    struct run run;
    prepare(&run, kind, story);
    run.record = record_new(run.folder);
    run.reader = kind->reads_durable ? open_store(kind->url, run.folder) : NULL;
    struct tracer tracer = { .child = run_child, .stop = stop_to_record, .argument = &run };
    assert_true(trace_run(&tracer));
    store_close(run.reader);
    const struct record *record = run.record;
    size_t *keep = calloc(record->count, sizeof *keep);
    check(keep);
    size_t states = 0;
    for (size_t moment = 1; moment <= record->count; moment++) {
        struct judgement judgement = { .kind = kind,
                                       .story = story,
                                       .done = first_steps(done_at(record, moment)),
                                       .moment = moment };
        states += judge_moment(&judgement, record, plan, keep);
    }
    print_message("# %zu changes, %zu states after a power loss\n", record->count, states);
    assert_true(done_at(record, record->count) == count_steps(story->steps));
    free(keep);
    record_free(run.record);
    test_dir_remove((char *)(uintptr_t)run.folder);
}
