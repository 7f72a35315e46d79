/* compile_pass.c: which shard is next: a random one while there is much to do, each once when there
 * is little; and waiting for more. */
#include "base/check.h"
#include "base/parse.h"
#include "index/compile.h"
#include "index/manifest.h"
#include "index/marks.h"
#include "store/pages.h"

#include <stdlib.h>

/* A stop may come out of a signal handler, which cannot wake anybody: so nobody sleeps longer. */
#define SLEEP_MOST SPAN_MS(100)

/* Any write wakes who listens, so this is how often a watcher looks at most. */
#define LOOK_LEAST SPAN_MS(50)

#define POLL_LISTENING SPAN_S(1)
#define POLL_LOCAL     SPAN_MS(200)
#define POLL_NETWORK   SPAN_S(2)

/* Waits that are doubled, after trouble, end here. */
#define WAIT_MOST SPAN_S(60)

/* Shards that were picked in a row and were somebody else's; then a watcher waits. */
#define VAIN_MAX 8

/* How often `once` goes to a shard that somebody else wrote meanwhile. */
#define LOST_TRIES_MAX 3

#define MANIFEST_EVERY SPAN_S(60)

struct pace {
    struct mono_time not_before; /* of a watcher: it has no success here until then */
    struct span wait;
    bool held; /* by somebody else, as was told */
};

struct run {
    struct index *index;
    const struct compile_options *options;
    struct span poll;
    struct pace *paces; /* by the shard's number */
    struct entry_list flat;
    struct manifest noted;
    struct mono_time manifest_at;
    struct compile_totals totals;
    size_t *order;           /* room for the numbers of all shards */
    struct hf_error failed;  /* why the first shard failed */
    struct hf_error lost;    /* why the last one was lost, ... */
    struct hf_error held;    /* ... and held */
    unsigned shard_failures; /* in a row, by the store's fault */
    bool stopped;
    /* Of a watcher. */
    uint64_t ticket;
    bool many;     /* a shard was picked at random; others have entries, too */
    size_t stride; /* how many shards are visited by one look */
    unsigned vain;
    unsigned failures; /* of the store, in a row */
};

static bool is_stopped(struct run *run)
{
    const struct compile_options *options = run->options;
    if (!run->stopped && options->stop)
        run->stopped = options->stop(options->argument);
    return run->stopped;
}

static void tell_trouble(struct run *run, const struct hf_error *error)
{
    if (run->options->trouble)
        run->options->trouble(run->options->argument, error);
}

/* ---- One shard ----------------------------------------------------------------------- */

static void add_totals(struct compile_totals *totals, const struct compile_report *report)
{
    totals->shards_done += report->end == COMPILE_DONE;
    totals->shards_held += report->end == COMPILE_HELD;
    totals->shards_lost += report->end == COMPILE_LOST;
    totals->shards_failed += report->end == COMPILE_FAILED;
    totals->entries += report->entries;
    totals->aside += report->aside;
    totals->records_new += report->fold.records_new;
    totals->records_later += report->fold.records_later;
    totals->superseded += report->fold.superseded;
    totals->clear.deleted += report->clear.deleted;
    totals->clear.marked += report->clear.marked;
    totals->clear.newer += report->clear.newer;
    totals->clear.left += report->clear.left;
}

/* When a watcher may come here again: at once after success, at the next poll when it is somebody
 * else's, later and later after trouble. */
static void keep_pace(struct run *run, struct pace *pace, const struct compile_report *report)
{
    bool trouble = report->end == COMPILE_FAILED || report->clear.left > 0;
    pace->held = report->end == COMPILE_HELD;
    bool others = report->end == COMPILE_HELD || report->end == COMPILE_LOST;
    if (!trouble && !others) {
        *pace = (struct pace){ 0 };
        return;
    }
    pace->wait = others || pace->wait.us == 0
                     ? run->poll
                     : span_smaller(SPAN_US(pace->wait.us * 2), WAIT_MOST);
    pace->not_before = mono_add(env_now(run->index->env), pace->wait);
}

static enum compile_end compile_one(struct run *run, size_t number)
{
    struct index *index = run->index;
    struct shard_id shard = shard_of_number(number, index->schema.digits);
    struct compile_report report;
    size_t flat_count;
    const struct entry *flat = marks_find_flat(&run->flat, shard, &flat_count);
    compile_shard(index, run->options, shard, flat, flat_count, &report);
    add_totals(&run->totals, &report);
    bool is_news = report.end != COMPILE_HELD || !run->paces[number].held;
    if (run->options->tell && is_news)
        run->options->tell(run->options->argument, &report);
    /* Statistics: without memory they are not written. */
    if (report.folds > 0)
        (void)manifest_note(&run->noted, manifest_row_of(number, &report.fold));
    keep_pace(run, &run->paces[number], &report);
    bool failed = report.end == COMPILE_FAILED;
    run->shard_failures =
        failed && !shard_is_the_matter(report.why.status) ? run->shard_failures + 1 : 0;
    if (failed && run->failed.status == HF_OK)
        run->failed = report.why;
    if (report.end == COMPILE_LOST)
        run->lost = report.why;
    if (report.end == COMPILE_HELD)
        run->held = report.why;
    return report.end;
}

static void write_manifest(struct run *run)
{
    struct hf_error why;
    run->manifest_at = mono_add(env_now(run->index->env), MANIFEST_EVERY);
    if (run->noted.count == 0)
        return;
    if (manifest_write(run->index, &run->noted, &why) != HF_OK)
        tell_trouble(run, &why);
    manifest_release(&run->noted);
}

static void write_manifest_in_time(struct run *run)
{
    if (!mono_before(env_now(run->index->env), run->manifest_at))
        write_manifest(run);
}

/* ---- Which shard is next --------------------------------------------------------------- */

/* Entries that were seen in listings, one of them drawn: each is as likely. */
struct draw {
    struct index *index;
    size_t few;
    struct marks *marks; /* of the shards that were seen; may be NULL */
    uint64_t seen;       /* markers not counted, ... */
    uint64_t flats;      /* ... and those of them that stand in no folder */
    size_t number;       /* the shard of the one that was drawn, ... */
    bool flat;           /* ... which stands in no folder */
    bool all;            /* nothing else is there */
};

static void see_entry(struct draw *draw, const struct entry_name *name, bool flat)
{
    const unsigned digits = draw->index->schema.digits;
    size_t number;
    /* A stray in no shard's folder is for the first one to set aside. */
    if (!shard_number(view_of(name->shard.text), digits, &number))
        number = 0;
    if (draw->marks)
        draw->marks->of[number] |= MARK_WAITING;
    draw->flats += flat;
    if (env_random_below(draw->index->env, ++draw->seen) > 0)
        return;
    draw->number = number;
    draw->flat = flat;
}

/* Whether an entry in the inbox stands in a folder. */
static bool is_in_folder(struct view rest)
{
    view_cut(&rest, '/');
    return view_find(rest, '/') < rest.size;
}

static enum hf_status see_page(struct draw *draw, const struct list_call *page, size_t root,
                               struct hf_error *error)
{
    const struct schema *schema = &draw->index->schema;
    struct buffer key = BUFFER_INIT(KEY_BYTES_MAX);
    for (size_t i = 0; i < page->count && !key.failed; i++) {
        const struct list_entry *object = &page->entries[i];
        struct view rest = view_from(object->key, root);
        struct entry_name name = entry_read(rest, schema->digits, &key);
        bool flat = !is_in_folder(rest);
        bool is_entry = !object->is_prefix && object->info.size > 0 && name.kind != ENTRY_NONE;
        /* Nobody lists a folder that is no shard's. */
        bool is_listed = flat ? schema->foreign : name.shard.text[0] != '\0';
        if (is_entry && is_listed)
            see_entry(draw, &name, flat);
    }
    bool failed = key.failed;
    buffer_release(&key);
    return failed ? error_no_memory(error) : HF_OK;
}

/* Sees what is below `folder`, from behind `after`, until it is enough: *ret_more says that
 * there is more. */
static enum hf_status see(struct draw *draw, const char *folder, struct view delimiter,
                          const char *after, uint64_t enough, bool *ret_more,
                          struct hf_error *error)
{
    char root[KEY_BYTES_MAX + 1];
    enum hf_status status = HF_OK;
    struct pages pages = {
        .list = { .prefix = view_of(folder), .after = view_of(after), .delimiter = delimiter }
    };
    check(index_key(draw->index, root, "%s", ""));
    while (status == HF_OK && draw->seen < enough && pages_next(&pages, draw->index->store))
        status = see_page(draw, &pages.list, strlen(root), error);
    *ret_more = !pages.begun || pages.list.more;
    return pages_end(&pages, status, error);
}

/* Draws anew, out of a page that begins at a random shard. If there is nothing behind that, what
 * was drawn stays. */
static enum hf_status draw_from_random_page(struct draw *draw, const char *inbox,
                                            struct hf_error *error)
{
    char after[KEY_BYTES_MAX + 1];
    struct index *index = draw->index;
    size_t number = env_random_below(index->env, shard_count(index->schema.digits));
    struct shard_id start = shard_of_number(number, index->schema.digits);
    struct draw again = { .index = index };
    bool more;
    check(index_key(index, after, LAYOUT_INBOX_FOLDER "%s", start.text));
    enum hf_status status = see(&again, inbox, VIEW(""), after, /* enough */ 1, &more, error);
    if (status == HF_OK && again.seen > 0) {
        draw->number = again.number;
        draw->flat = again.flat;
    }
    return status;
}

/* Sees all when there is little; else draws from a random page. */
static enum hf_status draw_entry(struct draw *draw, struct hf_error *error)
{
    char folder[KEY_BYTES_MAX + 1];
    const uint64_t enough = draw->few > 0 ? draw->few : 1;
    struct index *index = draw->index;
    bool more = false, many = false;
    enum hf_status status = HF_OK;
    if (index->schema.foreign) {
        check(index_key(index, folder, "%s", ""));
        status = see(draw, folder, VIEW("/"), /* after */ "", enough, &more, error);
        many = more;
    }
    check(index_key(index, folder, LAYOUT_INBOX_FOLDER));
    if (status == HF_OK)
        status = see(draw, folder, VIEW(""), /* after */ "", draw->seen + enough, &more, error);
    many = many || more || draw->seen > draw->few;
    draw->all = !many;
    if (status == HF_OK && draw->seen == 0)
        return error_set(error, HF_NOT_FOUND, "nothing waits in the inbox of %s", index->name);
    if (status == HF_OK && many && !draw->flat)
        status = draw_from_random_page(draw, folder, error);
    return status;
}

enum hf_status compile_pick(struct index *index, const struct compile_options *options,
                            struct shard_id *ret_shard, bool *ret_few, struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    struct draw draw = { .index = index, .few = options->few };
    enum hf_status status = draw_entry(&draw, &why);
    if (status == HF_OK) {
        *ret_shard = shard_of_number(draw.number, index->schema.digits);
        *ret_few = draw.all;
    }
    if (error)
        *error = why;
    return status;
}

/* ---- Over all shards ------------------------------------------------------------------- */

/* The marked shards, in an order of its own for everybody who compiles. */
static size_t shuffle(struct run *run, const struct marks *marks)
{
    size_t count = 0;
    for (size_t i = 0; i < marks->count; i++)
        if (marks->of[i] & MARK_WAITING)
            run->order[count++] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)env_random_below(run->index->env, i);
        size_t number = run->order[i - 1];
        run->order[i - 1] = run->order[other];
        run->order[other] = number;
    }
    return count;
}

static bool may_try(struct run *run, size_t number)
{
    return !mono_before(env_now(run->index->env), run->paces[number].not_before);
}

/* Whether a single pass has come to its end before all was visited. */
static bool is_over(struct run *run)
{
    return is_stopped(run) || run->shard_failures >= SHARD_FAILURES_MAX;
}

/* Visits every marked shard; those that somebody else wrote meanwhile stay marked. */
static void pass(struct run *run, struct marks *marks)
{
    size_t count = shuffle(run, marks);
    for (size_t i = 0; i < count && !is_over(run); i++) {
        size_t number = run->order[i];
        enum compile_end end = compile_one(run, number);
        if (end != COMPILE_LOST)
            marks->of[number] = end == COMPILE_HELD ? MARK_HELD : 0;
        write_manifest_in_time(run);
    }
}

/* The same for a watcher. What it saw is old as soon as others work, too: whoever meets them looks
 * again, and then after one shard, two, four ... *ret_left: there are others to be visited. Whether
 * there was anything to fold. */
static bool pass_among_others(struct run *run, struct marks *marks, bool *ret_left)
{
    size_t count = shuffle(run, marks), visited = 0, i = 0;
    bool worked = false, met = false;
    for (; i < count && visited < run->stride && !met && !is_stopped(run); i++) {
        if (!may_try(run, run->order[i]))
            continue;
        visited++;
        enum compile_end end = compile_one(run, run->order[i]);
        worked = worked || end == COMPILE_DONE;
        met = end == COMPILE_NOTHING || end == COMPILE_HELD || end == COMPILE_LOST;
        write_manifest_in_time(run);
    }
    *ret_left = i < count;
    if (met)
        run->stride = 1;
    else if (visited > 0 && run->stride < marks->count)
        run->stride *= 2;
    return worked;
}

static size_t count_marked(const struct marks *marks, unsigned char mark)
{
    size_t count = 0;
    for (size_t i = 0; i < marks->count; i++)
        count += (marks->of[i] & mark) != 0;
    return count;
}

static enum hf_status list_flat(struct run *run, struct marks *marks, struct hf_error *error)
{
    entry_list_release(&run->flat);
    enum hf_status status = inbox_list_flat(run->index, run->options->shard, &run->flat, error);
    if (status == HF_OK)
        marks_flat(marks, run->index, &run->flat);
    return status;
}

/* Only the shard that was asked for. */
static bool mark_wanted(struct run *run, struct marks *marks)
{
    size_t number;
    if (!shard_number(view_of(run->options->shard.text), run->index->schema.digits, &number))
        return false;
    marks->of[number] = MARK_WAITING;
    return true;
}

static void visit_marked(struct run *run, struct marks *marks)
{
    for (unsigned i = 0; i < LOST_TRIES_MAX && count_marked(marks, MARK_WAITING) > 0; i++)
        if (!is_over(run))
            pass(run, marks);
}

static void sleep_until(struct run *run, struct mono_time moment)
{
    struct env *env = run->index->env;
    for (struct mono_time now = env_now(env); mono_before(now, moment) && !is_stopped(run);
         now = env_now(env))
        env_sleep_until(env, mono_earlier(moment, mono_add(now, SLEEP_MOST)));
}

/* Whoever holds a shard does the work, or is dead; and that it is dead may take as long to know as
 * its lease lasts. */
static void visit_held(struct run *run, struct marks *marks)
{
    struct env *env = run->index->env;
    const struct mono_time end = mono_add(env_now(env), run->options->wait);
    size_t held;
    while ((held = count_marked(marks, MARK_HELD)) > 0 && !is_over(run) &&
           mono_before(env_now(env), end)) {
        sleep_until(run, mono_earlier(end, mono_add(env_now(env), run->poll)));
        if (is_stopped(run))
            return;
        for (size_t i = 0; i < marks->count; i++)
            if (marks->of[i] == MARK_HELD)
                marks->of[i] = MARK_WAITING;
        run->totals.shards_held -= held;
        visit_marked(run, marks);
    }
}

static enum hf_status compile_once(struct run *run, struct marks *marks, struct hf_error *error)
{
    enum hf_status status = list_flat(run, marks, error);
    bool one = status == HF_OK && mark_wanted(run, marks);
    if (status == HF_OK && !one)
        status = marks_waiting(marks, run->index, error);
    if (status != HF_OK)
        return status;
    visit_marked(run, marks);
    visit_held(run, marks);
    if (is_stopped(run))
        return error_set(error, HF_CANCELLED, "stopped on the way");
    if (run->failed.status == HF_OK && count_marked(marks, MARK_WAITING) > 0)
        run->failed = run->lost;
    if (run->failed.status == HF_OK && one && count_marked(marks, MARK_HELD) > 0)
        run->failed = run->held;
    *error = run->failed;
    return run->failed.status;
}

/* ---- Watching -------------------------------------------------------------------------- */

/* Whether anything is there to be done in the one shard that is watched. */
static enum hf_status look_at_one(struct run *run, struct marks *marks, struct hf_error *error)
{
    struct entry_list list = { 0 };
    enum hf_status status = inbox_list(run->index, run->options->shard, /* after */ VIEW(""),
                                       LIST_PAGE_MAX, &list, error);
    bool empty = list.count == 0;
    entry_list_release(&list);
    if (status == HF_OK)
        status = list_flat(run, marks, error);
    if (status == HF_OK && empty && run->flat.count == 0)
        return error_set(error, HF_NOT_FOUND, "nothing waits");
    if (status == HF_OK)
        mark_wanted(run, marks);
    return status;
}

/* Marks what is to be visited next: all that has entries, or one shard. */
static enum hf_status look(struct run *run, struct marks *marks, struct hf_error *error)
{
    struct draw draw = { .index = run->index, .few = run->options->few, .marks = marks };
    memset(marks->of, 0, marks->count);
    entry_list_release(&run->flat);
    run->many = false;
    if (run->options->shard.text[0] != '\0')
        return look_at_one(run, marks, error);
    enum hf_status status = draw_entry(&draw, error);
    if (status != HF_OK)
        return status;
    run->many = !draw.all && !draw.flat;
    if (run->many) {
        memset(marks->of, 0, marks->count);
        marks->of[draw.number] = MARK_WAITING;
        return HF_OK;
    }
    /* To find those of one shard that stand in no folder takes a listing of all of them: so let
     * it be for all shards. */
    if (draw.flats > 0 || draw.flat)
        status = list_flat(run, marks, error);
    if (status == HF_OK && !draw.all)
        status = marks_waiting(marks, run->index, error);
    return status;
}

/* Whether to look again at once. */
static bool work(struct run *run, struct marks *marks)
{
    struct hf_error why;
    enum hf_status status = look(run, marks, &why);
    run->failures = status == HF_OK || status == HF_NOT_FOUND ? 0 : run->failures + 1;
    if (run->failures > 0)
        tell_trouble(run, &why);
    if (status != HF_OK)
        return false;
    bool left, worked = pass_among_others(run, marks, &left);
    run->vain = worked ? 0 : run->vain + 1;
    return worked || ((run->many || left) && run->vain < VAIN_MAX);
}

static struct span waiting_time(const struct run *run)
{
    struct span wait = run->poll;
    for (unsigned i = 1; i < run->failures && wait.us < WAIT_MOST.us; i++)
        wait.us *= 2;
    return span_smaller(wait, WAIT_MOST);
}

/* Until somebody may have written, or it is time to look in any case. */
static void wait_for_news(struct run *run)
{
    struct env *env = run->index->env;
    struct store *store = run->index->store;
    const struct mono_time start = env_now(env);
    const struct mono_time least = mono_add(start, LOOK_LEAST);
    const struct mono_time most = mono_add(start, waiting_time(run));
    bool news = false;
    for (struct mono_time now = start;
         !is_stopped(run) && mono_before(now, news ? least : most); now = env_now(env)) {
        struct mono_time until = mono_earlier(most, mono_add(now, SLEEP_MOST));
        if (news || run->failures > 0 || !store_listens(store))
            env_sleep_until(env, news ? least : until);
        else
            news = store_listen(store, &run->ticket, until);
    }
}

static void watch(struct run *run, struct marks *marks)
{
    struct env *env = run->index->env;
    struct store *store = run->index->store;
    if (store_listens(store))
        store_listen(store, &run->ticket, env_now(env));
    while (!is_stopped(run)) {
        if (!work(run, marks))
            wait_for_news(run);
        write_manifest_in_time(run);
    }
}

/* ---- All of it ------------------------------------------------------------------------- */

static enum hf_status judge_options(const struct index *index,
                                    const struct compile_options *options,
                                    struct hf_error *error)
{
    const unsigned digits = index->schema.digits;
    size_t number;
    if (ttl_check(options->ttl, SPAN_MS(1), COMPILE_TTL_MAX, NULL, error) != HF_OK)
        return error->status;
    if (options->batch_entries < 1 || options->batch_entries > INBOX_LIST_MAX ||
        options->batch_bytes < 1)
        return error_set(error, HF_INVALID, "1 to %d entries are folded at once",
                         INBOX_LIST_MAX);
    if (options->shard.text[0] && !shard_number(view_of(options->shard.text), digits, &number))
        return error_set(error, HF_INVALID, "the index %s has no shard %s: it has %zu",
                         index->name, options->shard.text, shard_count(digits));
    return HF_OK;
}

static enum hf_status run_init(struct run *run, struct marks *marks, struct hf_error *error)
{
    struct index *index = run->index;
    struct store *store = index->store;
    bool local = store->traits.clock == STORE_CLOCK_BOOT;
    enum hf_status status = marks_init(marks, index, error);
    if (status != HF_OK)
        return status;
    run->paces = calloc(marks->count, sizeof *run->paces);
    run->order = calloc(marks->count, sizeof *run->order);
    if (!run->paces || !run->order)
        return error_no_memory(error);
    run->poll = run->options->poll;
    if (run->poll.us <= 0)
        run->poll = store_listens(store) ? POLL_LISTENING : local ? POLL_LOCAL : POLL_NETWORK;
    run->manifest_at = mono_add(env_now(index->env), MANIFEST_EVERY);
    run->stride = marks->count;
    return HF_OK;
}

static void run_release(struct run *run)
{
    entry_list_release(&run->flat);
    manifest_release(&run->noted);
    free(run->paces);
    free(run->order);
}

enum hf_status index_compile(struct index *index, const struct compile_options *options,
                             struct compile_totals *ret_totals, struct hf_error *error)
{
    struct run run = { .index = index, .options = options };
    struct marks marks = { 0 };
    struct hf_error why = { .status = HF_OK };
    check(index->client);
    client_active(index->client);
    enum hf_status status = judge_options(index, options, &why);
    if (status == HF_OK)
        status = run_init(&run, &marks, &why);
    if (status == HF_OK && options->once)
        status = compile_once(&run, &marks, &why);
    else if (status == HF_OK)
        watch(&run, &marks);
    write_manifest(&run);
    if (ret_totals)
        *ret_totals = run.totals;
    marks_release(&marks);
    run_release(&run);
    if (error)
        *error = why;
    return status;
}
