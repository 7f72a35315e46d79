#include "store/probe.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/parse.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RACERS 8

/* Names of scratch objects are short and known; this is room for prefix, random and name. */
#define SCRATCH_KEY_MAX 96

struct probe {
    struct store *store;
    struct probe_report *report;
    struct hf_error *error;
    struct mono_time deadline;     /* of the whole; zero: none */
    char scratch[SCRATCH_KEY_MAX]; /* ".holdfast/probe/<random>/" */
};

static_assert((int)HF_FINDING_GOOD == (int)PROBE_GOOD &&
                  (int)HF_FINDING_LACKING == (int)PROBE_LACKING &&
                  (int)HF_FINDING_REFUSED == (int)PROBE_REFUSED &&
                  (int)HF_FINDING_WARNING == (int)PROBE_WARNING,
              "the findings of the public header are the verdicts");

const char *hf_finding_name(enum hf_finding finding)
{
#define ROW(name, word, text) [HF_FINDING_##name] = word,
    static const char *const names[HF_FINDING_COUNT] = { HF_FINDING_TABLE(ROW) };
#undef ROW
    return (unsigned)finding < HF_FINDING_COUNT ? names[finding] : "unknown";
}

void probe_note(struct probe_report *report, const char *what, enum probe_verdict verdict,
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

/* ---- Small steps --------------------------------------------------------------------- */

struct scratch_key {
    char text[SCRATCH_KEY_MAX];
};

static struct view key_of(const struct probe *probe, const char *name,
                          struct scratch_key *space)
{
    snprintf(space->text, sizeof space->text, "%.64s%.24s", probe->scratch, name);
    return view_of(space->text);
}

/* Puts straight to the back end: the front door would refuse what the traits do not promise,
 * and that is what is to be found out. */
static enum hf_status try_put(struct probe *probe, const char *name, const char *body,
                              struct condition condition, struct etag *ret_etag)
{
    struct scratch_key space;
    struct put_call put = { .key = key_of(probe, name, &space),
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
    struct get_call get = { .key = key_of(probe, name, &space),
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
    struct delete_call removal = { .key = key_of(probe, name, &space),
                                   .condition = condition,
                                   .deadline = probe->deadline };
    probe->report->requests++;
    probe->store->ops->remove(probe->store, &removal, 1);
    *probe->error = removal.error;
    return removal.error.status;
}

/* Ends the probe: this store breaks a promise. */
static enum hf_status refuse(struct probe *probe, const char *what, const char *sentence)
{
    probe_note(probe->report, what, PROBE_REFUSED, "%s", sentence);
    return error_set(probe->error, HF_UNSUPPORTED, "this store cannot be used: %s (failed: %s)",
                     sentence, what);
}

/* A write that was to be refused: OK when it was, UNSUPPORTED when it went through. */
static enum hf_status must_conflict(struct probe *probe, const char *what, enum hf_status got,
                                    const char *sentence)
{
    if (got == HF_OK)
        return refuse(probe, what, sentence);
    if (got != HF_CONFLICT && got != HF_NOT_FOUND) {
        error_prefix(probe->error, "probe: %s", what);
        return got;
    }
    probe_note(probe->report, what, PROBE_GOOD, "refused, as it must be");
    return error_clear(probe->error);
}

static enum hf_status must_succeed(struct probe *probe, const char *what, enum hf_status got)
{
    if (got != HF_OK)
        error_prefix(probe->error, "probe: %s", what);
    return got;
}

/* ---- The findings, each a function --------------------------------------------------- */

static struct condition wrong_match(void)
{
    struct condition condition = { .kind = CONDITION_MATCH };
    check(etag_set(&condition.etag, VIEW("00000000000000000000000000000000")));
    return condition;
}

/* Whether an object has these bytes: UNSUPPORTED when it has others. */
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
        status = refuse(probe, what, sentence);
    else
        status = must_succeed(probe, what, status);
    buffer_release(&body);
    return status;
}

/* The get also lets the back end see what replies to gets are like: whether there are versions. */
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

/* A store may refuse the right ETag now and then, when something else is under way or a proxy has
 * sent the put twice; one that never takes it cannot be used. */
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
    return refuse(probe, what, "it refuses the very ETag that it gave");
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
                           "it makes an object when asked to replace a version of it");
    if (status != HF_OK)
        return status;
    status = replace_by_match(probe, &etag, &next);
    if (status != HF_OK)
        return status;
    if (etag_equal(&etag, &next))
        return refuse(probe, "put if match, right ETag", "other bytes have the same ETag");
    probe_note(probe->report, "put if match, right ETag", PROBE_GOOD, "accepted");
    return must_conflict(probe, "put if match, old ETag",
                         try_put(probe, "b", "3", if_match(&etag), NULL),
                         "it accepts an ETag that is no longer the object's");
}

static enum hf_status find_read_back(struct probe *probe)
{
    enum hf_status status = must_read(probe, "b", "2", "a get does not show the last put");
    if (status == HF_OK)
        probe_note(probe->report, "read after write", PROBE_GOOD, "a get shows the last put");
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
        probe_note(probe->report, "new ETag on each write", PROBE_GOOD,
                   "equal bytes written again have a new ETag");
    else
        probe_note(probe->report, "new ETag on each write", PROBE_LACKING,
                   "equal bytes have equal ETags; every document carries a nonce");
    return HF_OK;
}

/* No answer says nothing about what the store can do. */
static bool has_answer(enum hf_status status)
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
    enum hf_status asked = try_delete(probe, "b", wrong_match()), status = asked;
    if (has_answer(asked))
        status = try_get(probe, "b", &body, &etag, &stamp);
    if (status == HF_OK && asked == HF_CONFLICT) { /* now the right one */
        status = try_delete(probe, "b", if_match(&etag));
        if (has_answer(status))
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
        probe_note(probe->report, what, PROBE_GOOD, "honoured");
    else
        probe_note(probe->report, what, PROBE_LACKING,
                   survived ? "not supported" : "ignored: it deletes all the same");
    return error_clear(probe->error);
}

static enum hf_status find_listing(struct probe *probe)
{
    static const char *const names[] = { "l-B", "l-a", "l-a-b", "l-a/b", "l-a0" };
    size_t count = sizeof names / sizeof names[0];
    for (size_t i = 0; i < count; i++) {
        const char *name = names[(i * 2 + 1) % count]; /* written in another order */
        enum hf_status status =
            must_succeed(probe, "put",
                         try_put(probe, name, name, (struct condition){ 0 }, NULL));
        if (status != HF_OK)
            return status;
    }
    struct scratch_key space;
    struct list_call list = { .prefix = key_of(probe, "l-", &space),
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
        return refuse(probe, "list after write", "a listing does not show what was just put");
    probe_note(probe->report, "list after write", PROBE_GOOD, "shows what was just put");
    probe->report->traits.list_ordered = ordered;
    if (!ordered)
        return refuse(probe, "list order", "listings are not in byte order");
    probe_note(probe->report, "list order", PROBE_GOOD, "byte order");
    return HF_OK;
}

/* ---- One winner among many ----------------------------------------------------------- */

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
    struct put_call put = { .key = key_of(racer->probe, "race", &space),
                            .body = view_of(racer->body),
                            .condition = racer->condition,
                            .deadline = racer->probe->deadline };
    struct store *store = racer->probe->store;
    store->ops->put(store, &put, 1);
    racer->status = put.error.status;
}

/* What RACERS tasks that put one object at once were told. */
struct outcome {
    unsigned winners;
    unsigned unsure;
    char body[24]; /* of a winner */
};

static void count_racer(struct outcome *outcome, const struct racer *racer)
{
    outcome->unsure += racer->status == HF_UNSURE;
    if (racer->status != HF_OK)
        return;
    outcome->winners++;
    memcpy(outcome->body, racer->body, sizeof outcome->body);
}

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
        /* Bytes that the object never had: where an ETag is a hash of them, writing the same ones
         * again would leave the version as it was for the next writer, too. */
        snprintf(racer->body, sizeof racer->body, "racer %zu %s", started,
                 condition.kind == CONDITION_ABSENT ? "first" : "next");
        status = env_task_start(env, run_racer, racer, &tasks[started], probe->error);
        if (status != HF_OK)
            break;
    }
    *ret_outcome = (struct outcome){ 0 };
    for (size_t i = 0; i < started; i++) {
        env_task_join(env, tasks[i]);
        count_racer(ret_outcome, &racers[i]);
    }
    probe->report->requests += (uint32_t)started;
    return status;
}

/* One winner, whose bytes are there; or none that knows of it, where replies got lost. */
static enum hf_status judge_race(struct probe *probe, const char *what, const char *several,
                                 const struct outcome *outcome, struct etag *ret_etag)
{
    if (outcome->winners > 1)
        return refuse(probe, what, several);
    struct buffer body = BUFFER_INIT(KIB);
    struct store_stamp stamp;
    enum hf_status status =
        must_succeed(probe, what, try_get(probe, "race", &body, ret_etag, &stamp));
    bool kept = view_equal(buffer_view(&body), view_of(outcome->body));
    buffer_release(&body);
    if (status != HF_OK)
        return status;
    if (outcome->winners == 1 && !kept)
        return refuse(probe, what, "the bytes of the writer who was told that it won are gone");
    bool strange = outcome->winners + outcome->unsure == 0;
    probe_note(probe->report, what, strange ? PROBE_WARNING : PROBE_GOOD,
               "%d writers, %u winner", RACERS, outcome->winners);
    return HF_OK;
}

static enum hf_status find_one_winner(struct probe *probe)
{
    struct outcome outcome;
    struct etag etag;
    enum hf_status status = race(probe, if_absent(), &outcome);
    if (status == HF_OK)
        status = judge_race(probe, "one winner, if absent",
                            "several writers at once were all told that they were first",
                            &outcome, &etag);
    if (status == HF_OK)
        status = race(probe, if_match(&etag), &outcome);
    if (status == HF_OK)
        status = judge_race(probe, "one winner, if match",
                            "several writers at once all replaced the same version", &outcome,
                            &etag);
    return status;
}

/* ---- Time ---------------------------------------------------------------------------- */

static void note_date(struct probe *probe, const struct store_stamp *stamp)
{
    if (!stamp->known || stamp->cached) {
        probe_note(
            probe->report, "store time", PROBE_LACKING,
            "replies carry no date, or an old one out of a cache; a dead holder is waited "
            "out by watching it");
        probe->report->traits.clock = STORE_CLOCK_NONE;
        return;
    }
    char date[TIME_TEXT_MAX], ahead[SPAN_TEXT_MAX];
    struct span offset = wall_since(stamp->date, env_wall(probe->store->env));
    int64_t seconds = offset.us / 1000000;
    struct span rounded = SPAN_S(seconds < 0 ? -seconds : seconds);
    enum probe_verdict verdict = rounded.us > SPAN_S(60).us ? PROBE_WARNING : PROBE_GOOD;
    probe_note(probe->report, "store time", verdict, "%s, this machine is %s %s",
               time_text(stamp->date, date), span_text(rounded, ahead),
               seconds > 0 ? "behind" : "ahead");
}

static enum hf_status find_time(struct probe *probe)
{
    if (probe->report->traits.clock == STORE_CLOCK_BOOT) {
        probe_note(probe->report, "store time", PROBE_GOOD,
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

#define CLEANUP_TIME SPAN_S(5) /* beyond the deadline */

static void remove_scratch(struct probe *probe)
{
    static const char *const names[] = { "a",   "b",   "missing", "same",  "race",
                                         "l-B", "l-a", "l-a-b",   "l-a/b", "l-a0" };
    enum { NAMES = sizeof names / sizeof names[0] };
    struct scratch_key spaces[NAMES];
    struct delete_call calls[NAMES];
    for (size_t i = 0; i < NAMES; i++)
        calls[i] = (struct delete_call){ .key = key_of(probe, names[i], &spaces[i]),
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
    env_random_hex(store->env, 16, random);
    snprintf(probe.scratch, sizeof probe.scratch, LAYOUT_PROBE_SCRATCH "%s/", random);

    enum hf_status status = error_clear(error);
    for (size_t i = 0; i < sizeof finders / sizeof finders[0] && status == HF_OK; i++)
        status = finders[i](&probe);
    remove_scratch(&probe);
    /* Of a store that is refused too: its surroundings may be the reason. */
    if ((status == HF_OK || status == HF_UNSUPPORTED) && store->ops->inspect)
        store->ops->inspect(store, ret_report);
    if (status == HF_OK)
        store->traits = ret_report->traits;
    return status;
}
