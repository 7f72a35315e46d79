/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c: the probe. Each finder tests one promise of the store on scratch objects: conditions
 * that must be honoured, races that must have one winner, reads and listings that must show the
 * last write. A store that breaks a needed promise is refused here, before a lock could rely on
 * it. */
#include "store/probe.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/parse.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RACERS 8

/* Room for the prefix, the random part and the name of a scratch object, all of which are short. */
#define SCRATCH_KEY_MAX 96

struct probe {
    struct store *store;
    struct probe_report *report;
    struct hf_error *error;
    struct mono_time deadline;     /* of the whole probe; zero: none */
    char scratch[SCRATCH_KEY_MAX]; /* ".holdfast/probe/<random>/" */
};

void probe_note(struct probe_report *report, const char *what, enum hf_finding verdict,
                const char *format, ...)
{
    if (report->count == PROBE_FINDINGS_MAX)
        return;
    struct probe_finding *finding = &report->findings[report->count++];
    finding->what = what;
    finding->verdict = verdict;
    va_list args;
    va_start(args, format);
    vsnprintf(finding->detail, sizeof finding->detail, format, args);
    va_end(args);
}

/* ---- Single requests ----------------------------------------------------------------- */

struct scratch_key {
    char text[SCRATCH_KEY_MAX];
};

static struct view format_scratch_key(const struct probe *probe, const char *name,
                                      struct scratch_key *space)
{
    snprintf(space->text, sizeof space->text, "%.64s%.24s", probe->scratch, name);
    return view_of(space->text);
}

/* Calls the back end directly, because the functions of store.h refuse calls that the traits do not
 * allow, and the probe must determine these traits. */
static enum hf_status try_put(struct probe *probe, const char *name, const char *body,
                              struct condition condition, struct etag *ret_etag)
{
    struct scratch_key space;
    struct put_call put = { .key = format_scratch_key(probe, name, &space),
                            .body = view_of(body),
                            .condition = condition,
                            .deadline = probe->deadline };
    probe->report->requests++;
    probe->store->ops->put(probe->store, &put, 1);
    if (put.error.status == HF_OK && ret_etag)
        *ret_etag = put.etag;
    *probe->error = put.error;
    return put.error.status;
}

static enum hf_status try_get(struct probe *probe, const char *name, struct buffer *body,
                              struct etag *ret_etag, struct store_stamp *ret_stamp)
{
    struct scratch_key space;
    struct get_call get = { .key = format_scratch_key(probe, name, &space),
                            .body = body,
                            .deadline = probe->deadline };
    probe->report->requests++;
    buffer_clear(body);
    probe->store->ops->get(probe->store, &get, 1);
    if (get.error.status == HF_OK) {
        *ret_etag = get.info.etag;
        *ret_stamp = get.stamp;
    }
    *probe->error = get.error;
    return get.error.status;
}

static enum hf_status try_delete(struct probe *probe, const char *name,
                                 struct condition condition)
{
    struct scratch_key space;
    struct delete_call removal = { .key = format_scratch_key(probe, name, &space),
                                   .condition = condition,
                                   .deadline = probe->deadline };
    probe->report->requests++;
    probe->store->ops->remove(probe->store, &removal, 1);
    *probe->error = removal.error;
    return removal.error.status;
}

/* Ends the probe: this store breaks a promise. */
static enum hf_status refuse_promise(struct probe *probe, const char *what,
                                     const char *sentence)
{
    probe_note(probe->report, what, HF_FINDING_REFUSED, "%s", sentence);
    return error_set(probe->error, HF_UNSUPPORTED, "this store cannot be used: %s (failed: %s)",
                     sentence, what);
}

/* For a write that the store must refuse: OK if it did, UNSUPPORTED if the write went through. */
static enum hf_status must_conflict(struct probe *probe, const char *what, enum hf_status got,
                                    const char *sentence)
{
    if (got == HF_OK)
        return refuse_promise(probe, what, sentence);
    /* Some stores refuse a put to a missing object with 404. */
    if (got != HF_CONFLICT && got != HF_NOT_FOUND) {
        error_prefix(probe->error, "probe: %s", what);
        return got;
    }
    probe_note(probe->report, what, HF_FINDING_GOOD, "refused, as it must be");
    return error_clear(probe->error);
}

static enum hf_status must_succeed(struct probe *probe, const char *what, enum hf_status got)
{
    if (got != HF_OK)
        error_prefix(probe->error, "probe: %s", what);
    return got;
}

/* ---- The findings, one function each ------------------------------------------------- */

/* An ETag that no object has. As a generation number of Google it is from the year 2001. */
static struct condition wrong_match(void)
{
    struct condition condition = { .kind = CONDITION_MATCH };
    check(etag_set(&condition.etag, VIEW("1000000000000001")));
    return condition;
}

/* Checks that an object has these bytes: UNSUPPORTED if it has others or does not exist. */
static enum hf_status must_read(struct probe *probe, const char *name, const char *bytes,
                                const char *sentence)
{
    struct buffer body = BUFFER_INIT(KIB);
    struct etag etag;
    struct store_stamp stamp;
    const char *what = "read after write";
    enum hf_status status = try_get(probe, name, &body, &etag, &stamp);
    if (status == HF_NOT_FOUND ||
        (status == HF_OK && !view_equal(buffer_view(&body), view_of(bytes))))
        status = refuse_promise(probe, what, sentence);
    else
        status = must_succeed(probe, what, status);
    buffer_release(&body);
    return status;
}

/* The get also gives the back end a reply that shows whether the bucket is versioned. */
static enum hf_status find_absent(struct probe *probe)
{
    enum hf_status status = must_succeed(probe, "a first put if absent",
                                         try_put(probe, "a", "1", if_absent(), NULL));
    if (status == HF_OK)
        status = must_read(probe, "a", "1", "a get does not show what was just put");
    if (status != HF_OK)
        return status;
    return must_conflict(probe, "put if absent", try_put(probe, "a", "2", if_absent(), NULL),
                         "it overwrites an object that must be absent");
}

/* A store may refuse the right ETag occasionally, when another request is in progress or a
 * proxy has sent the put twice. A store that never accepts it cannot be used. */
#define MATCH_TRIES 3
static enum hf_status replace_by_match(struct probe *probe, struct etag *ret_before,
                                       struct etag *ret_etag)
{
    const char *what = "put if match, right ETag";
    for (int i = 0; i < MATCH_TRIES; i++) {
        struct condition always = { .kind = CONDITION_ALWAYS };
        enum hf_status status =
            must_succeed(probe, "put", try_put(probe, "b", "1", always, ret_before));
        if (status != HF_OK)
            return status;
        status = try_put(probe, "b", "2", if_match(ret_before), ret_etag);
        if (status != HF_CONFLICT && status != HF_NOT_FOUND)
            return must_succeed(probe, what, status);
    }
    return refuse_promise(probe, what, "it refuses the ETag that it has just returned");
}

static enum hf_status find_match(struct probe *probe)
{
    struct etag etag, next;
    enum hf_status status =
        must_conflict(probe, "put if match, wrong ETag",
                      try_put(probe, "a", "3", wrong_match(), NULL),
                      "it overwrites an object whose ETag is not the one asked for");
    if (status != HF_OK)
        return status;
    status = must_conflict(probe, "put if match, no object",
                           try_put(probe, "missing", "3", wrong_match(), NULL),
                           "it creates an object when asked to replace a version of it");
    if (status != HF_OK)
        return status;
    status = replace_by_match(probe, &etag, &next);
    if (status != HF_OK)
        return status;
    if (etag_equal(&etag, &next))
        return refuse_promise(probe, "put if match, right ETag",
                              "two versions with different bytes have the same ETag");
    probe_note(probe->report, "put if match, right ETag", HF_FINDING_GOOD, "accepted");
    return must_conflict(probe, "put if match, old ETag",
                         try_put(probe, "b", "3", if_match(&etag), NULL),
                         "it accepts an ETag that is no longer the object's");
}

static enum hf_status find_read_back(struct probe *probe)
{
    enum hf_status status = must_read(probe, "b", "2", "a get does not show the last put");
    if (status == HF_OK)
        probe_note(probe->report, "read after write", HF_FINDING_GOOD,
                   "a get shows the last put");
    return status;
}

static enum hf_status find_fresh_etags(struct probe *probe)
{
    struct etag first, second;
    enum hf_status status =
        must_succeed(probe, "put",
                     try_put(probe, "same", "=", (struct condition){ 0 }, &first));
    if (status == HF_OK)
        status = must_succeed(probe, "put",
                              try_put(probe, "same", "=", (struct condition){ 0 }, &second));
    if (status != HF_OK)
        return status;
    bool fresh = !etag_equal(&first, &second);
    probe->report->traits.etag_fresh = fresh;
    if (fresh)
        probe_note(probe->report, "new ETag on each write", HF_FINDING_GOOD,
                   "equal bytes written again get a new ETag");
    else
        probe_note(probe->report, "new ETag on each write", HF_FINDING_LACKING,
                   "equal bytes have equal ETags, so every document carries a nonce");
    return HF_OK;
}

bool probe_has_answer(enum hf_status status)
{
    return status != HF_UNSURE && status != HF_UNAVAILABLE && status != HF_TIMEOUT;
}

static enum hf_status find_conditional_delete(struct probe *probe)
{
    const char *what = "conditional delete";
    struct buffer body = BUFFER_INIT(KIB);
    struct etag etag;
    struct store_stamp stamp;
    bool survived = false, works = false;
    /* The wrong ETag comes first: some stores accept the condition and delete the object anyway. */
    enum hf_status asked = try_delete(probe, "b", wrong_match()), status = asked;
    if (probe_has_answer(asked))
        status = try_get(probe, "b", &body, &etag, &stamp);
    if (status == HF_OK && asked == HF_CONFLICT) { /* refused: now the right ETag */
        status = try_delete(probe, "b", if_match(&etag));
        if (probe_has_answer(status))
            status = try_get(probe, "b", &body, &etag, &stamp);
        works = status == HF_NOT_FOUND;
        survived = true;
    } else if (status == HF_OK) {
        survived = true;
    }
    buffer_release(&body);
    if (status != HF_OK && status != HF_NOT_FOUND)
        return must_succeed(probe, what, status);
    probe->report->traits.delete_conditional = works;
    if (works)
        probe_note(probe->report, what, HF_FINDING_GOOD, "honoured");
    else
        probe_note(probe->report, what, HF_FINDING_LACKING,
                   survived ? "not supported" : "ignored: it deletes anyway");
    return error_clear(probe->error);
}

static enum hf_status find_listing(struct probe *probe)
{
    /* The byte order of these names differs from alphabetical order and from the order of a
     * directory tree. */
    static const char *const names[] = { "l-B", "l-a", "l-a-b", "l-a/b", "l-a0" };
    size_t count = sizeof names / sizeof names[0];
    for (size_t i = 0; i < count; i++) {
        const char *name = names[(i * 2 + 1) % count]; /* not in the order of the list */
        enum hf_status status =
            must_succeed(probe, "put",
                         try_put(probe, name, name, (struct condition){ 0 }, NULL));
        if (status != HF_OK)
            return status;
    }
    struct scratch_key space;
    struct list_call list = { .prefix = format_scratch_key(probe, "l-", &space),
                              .deadline = probe->deadline };
    probe->report->requests++;
    enum hf_status status = store_list(probe->store, &list);
    *probe->error = list.error;
    if (status != HF_OK)
        return must_succeed(probe, "list", status);
    bool complete = list.count == count;
    bool ordered = true;
    for (size_t i = 1; i < list.count; i++)
        ordered = ordered && view_compare(list.entries[i - 1].key, list.entries[i].key) < 0;
    list_release(&list);
    if (!complete)
        return refuse_promise(probe, "list after write",
                              "a listing does not show what was just put");
    probe_note(probe->report, "list after write", HF_FINDING_GOOD, "shows what was just put");
    probe->report->traits.list_ordered = ordered;
    if (!ordered)
        return refuse_promise(probe, "list order", "listings are not in byte order");
    probe_note(probe->report, "list order", HF_FINDING_GOOD, "byte order");
    return HF_OK;
}

/* ---- Races --------------------------------------------------------------------------- */

struct racer {
    struct probe *probe;
    struct condition condition;
    char body[24];
    enum hf_status status;
};

static void run_racer(void *argument)
{
    struct racer *racer = argument;
    struct scratch_key space;
    struct put_call put = { .key = format_scratch_key(racer->probe, "race", &space),
                            .body = view_of(racer->body),
                            .condition = racer->condition,
                            .deadline = racer->probe->deadline };
    struct store *store = racer->probe->store;
    store->ops->put(store, &put, 1);
    racer->status = put.error.status;
}

/* The replies to RACERS tasks that put the same object at the same time. */
struct outcome {
    unsigned winners;
    unsigned unsure;
    char body[24]; /* what a winner wrote */
};

static enum hf_status race(struct probe *probe, struct condition condition,
                           struct outcome *ret_outcome)
{
    struct racer racers[RACERS];
    struct env_task *tasks[RACERS];
    struct env *env = probe->store->env;
    size_t started = 0;
    enum hf_status status = HF_OK;
    for (; started < RACERS; started++) {
        struct racer *racer = &racers[started];
        *racer = (struct racer){ .probe = probe, .condition = condition };
        /* Each racer writes bytes that the object never had. If ETags are hashes of the content,
         * writing the same bytes again would not change the ETag, and the next racer's condition
         * would still hold. */
        snprintf(racer->body, sizeof racer->body, "racer %zu %s", started,
                 condition.kind == CONDITION_ABSENT ? "first" : "next");
        status = env_task_start(env, run_racer, racer, &tasks[started], probe->error);
        if (status != HF_OK)
            break;
    }
    *ret_outcome = (struct outcome){ 0 };
    for (size_t i = 0; i < started; i++) {
        env_task_join(env, tasks[i]);
        ret_outcome->unsure += racers[i].status == HF_UNSURE;
        if (racers[i].status != HF_OK)
            continue;
        ret_outcome->winners++;
        memcpy(ret_outcome->body, racers[i].body, sizeof ret_outcome->body);
    }
    probe->report->requests += (uint32_t)started;
    return status;
}

/* There must be no more than one winner, and the object must contain its bytes. If there is no
 * winner although no reply was lost, the report contains a warning. */
static enum hf_status check_race(struct probe *probe, const char *what, const char *several,
                                 const struct outcome *outcome, struct etag *ret_etag)
{
    if (outcome->winners > 1)
        return refuse_promise(probe, what, several);
    struct buffer body = BUFFER_INIT(KIB);
    struct store_stamp stamp;
    enum hf_status status =
        must_succeed(probe, what, try_get(probe, "race", &body, ret_etag, &stamp));
    bool kept = view_equal(buffer_view(&body), view_of(outcome->body));
    buffer_release(&body);
    if (status != HF_OK)
        return status;
    if (outcome->winners == 1 && !kept)
        return refuse_promise(
            probe, what,
            "a writer was told that it had won, but its bytes are not in the store");
    bool strange = outcome->winners + outcome->unsure == 0;
    probe_note(probe->report, what, strange ? HF_FINDING_WARNING : HF_FINDING_GOOD,
               "%d writers, %u winner", RACERS, outcome->winners);
    return HF_OK;
}

static enum hf_status find_one_winner(struct probe *probe)
{
    struct outcome outcome;
    struct etag etag;
    enum hf_status status = race(probe, if_absent(), &outcome);
    if (status == HF_OK)
        status = check_race(probe, "one winner, if absent",
                            "several concurrent writers were all told that they were first",
                            &outcome, &etag);
    if (status == HF_OK)
        status = race(probe, if_match(&etag), &outcome);
    if (status == HF_OK)
        status = check_race(probe, "one winner, if match",
                            "several concurrent writers all replaced the same version",
                            &outcome, &etag);
    return status;
}

/* ---- Time ---------------------------------------------------------------------------- */

static void note_date(struct probe *probe, const struct store_stamp *stamp)
{
    if (!stamp->known || stamp->cached) {
        probe_note(probe->report, "store time", HF_FINDING_LACKING,
                   "replies carry no date, or an old one from a cache; the lease of a dead "
                   "holder ends only after a client has watched it for its ttl");
        probe->report->traits.clock = STORE_CLOCK_NONE;
        return;
    }
    char date[TIME_TEXT_MAX], ahead[SPAN_TEXT_MAX];
    struct span offset = wall_since(stamp->date, env_wall(probe->store->env));
    int64_t seconds = offset.us / 1000000;
    struct span rounded = SPAN_S(seconds < 0 ? -seconds : seconds);
    enum hf_finding verdict = rounded.us > SPAN_S(60).us ? HF_FINDING_WARNING : HF_FINDING_GOOD;
    probe_note(probe->report, "store time", verdict, "%s, this machine is %s %s",
               time_text(stamp->date, date), span_text(rounded, ahead),
               seconds > 0 ? "behind" : "ahead");
}

static enum hf_status find_time(struct probe *probe)
{
    if (probe->report->traits.clock == STORE_CLOCK_BOOT) {
        probe_note(probe->report, "store time", HF_FINDING_GOOD,
                   "the boot-time clock of this machine");
        return HF_OK;
    }
    struct buffer body = BUFFER_INIT(KIB);
    struct etag etag;
    struct store_stamp stamp = { 0 };
    enum hf_status status =
        must_succeed(probe, "store time", try_get(probe, "a", &body, &etag, &stamp));
    if (status == HF_OK)
        note_date(probe, &stamp);
    buffer_release(&body);
    return status;
}

/* ---- All of it ----------------------------------------------------------------------- */

#define CLEANUP_TIME SPAN_S(5) /* after the deadline */

static void remove_scratch(struct probe *probe)
{
    static const char *const names[] = { "a",   "b",   "missing", "same",  "race",
                                         "l-B", "l-a", "l-a-b",   "l-a/b", "l-a0" };
    enum { NAMES = sizeof names / sizeof names[0] };
    struct scratch_key spaces[NAMES];
    struct delete_call calls[NAMES];
    for (size_t i = 0; i < NAMES; i++)
        calls[i] = (struct delete_call){ .key = format_scratch_key(probe, names[i], &spaces[i]),
                                         .deadline = mono_add(env_now(probe->store->env),
                                                              CLEANUP_TIME) };
    probe->report->requests++;
    probe->store->ops->remove(probe->store, calls, NAMES);
}

enum hf_status store_probe(struct store *store, struct mono_time deadline,
                           struct probe_report *ret_report, struct hf_error *error)
{
    static enum hf_status (*const finders[])(struct probe *) = {
        find_absent,    find_match,       find_one_winner,
        find_read_back, find_fresh_etags, find_conditional_delete,
        find_listing,   find_time,
    };
    struct probe probe = {
        .store = store, .report = ret_report, .error = error, .deadline = deadline
    };
    *ret_report = (struct probe_report){ .traits = store->traits };
    char random[17];
    /* Each probe has its own folder, so that clients that probe at the same time do not disturb
     * each other. */
    env_random_hex(store->env, 16, random);
    snprintf(probe.scratch, sizeof probe.scratch, LAYOUT_PROBE_SCRATCH "%s/", random);

    enum hf_status status = error_clear(error);
    for (size_t i = 0; i < sizeof finders / sizeof finders[0]; i++) {
        status = finders[i](&probe);
        if (status != HF_OK)
            break;
    }
    remove_scratch(&probe);
    /* Inspect refused stores too, because their settings may be the reason: Ceph 16 ignores
     * conditions in a versioned bucket. */
    bool judged = status == HF_OK || status == HF_UNSUPPORTED;
    for (struct store *layer = judged ? store : NULL; layer; layer = layer->inner)
        if (layer->ops->inspect)
            layer->ops->inspect(layer, deadline, ret_report);
    if (status == HF_OK)
        store->traits = ret_report->traits;
    return status;
}
