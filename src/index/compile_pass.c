/* SPDX-License-Identifier: Apache-2.0 */
/* compile_pass.c: chooses the next shard and waits for more entries. If there are many entries, it
 * picks a random shard, so that compilers do not compete for the same shards. If there are few, it
 * visits each shard that has entries once. */
#include "base/check.h"
#include "base/parse.h"
#include "index/compile.h"
#include "index/manifest.h"
#include "index/shard_set.h"
#include "store/pages.h"

#include <stdlib.h>

/* A signal handler can request a stop but cannot wake a sleeping task, so no sleep is longer than
 * this. */
#define SLEEP_MAX SPAN_MS(100)

/* Every write wakes the watcher, so the watcher waits at least this long between two listings. */
#define LIST_INTERVAL_MIN SPAN_MS(50)

#define POLL_LISTENING SPAN_S(1)
#define POLL_LOCAL     SPAN_MS(200)
#define POLL_NETWORK   SPAN_S(2)

/* The longest wait after errors. Waits are doubled up to this limit. */
#define WAIT_MAX SPAN_S(60)

/* A watcher waits after this many consecutive rounds in which it could not fold anything. */
#define IDLE_ROUNDS_MAX 8

/* How many times `once` visits a shard that other compilers keep writing. */
#define LOST_TRIES_MAX 3

#define MANIFEST_EVERY SPAN_S(60)

struct pace {
    struct mono_time not_before; /* a watcher does not retry the shard before this time */
    struct span wait;
    bool held; /* by another compiler, as reported */
};

struct compile_run {
    struct index *index;
    const struct compile_options *options;
    struct span poll;
    struct pace *paces; /* by the shard's number */
    struct entry_list flat;
    struct manifest noted;
    struct mono_time manifest_at;
    struct hf_index_compile_report totals;
    size_t *order;           /* room for the numbers of all shards */
    struct hf_error failed;  /* why the first shard failed */
    struct hf_error lost;    /* why the last lost shard was lost */
    struct hf_error held;    /* why the last held shard was held */
    unsigned shard_failures; /* consecutive, caused by the store */
    bool stopped;
    /* For a watcher. */
    uint64_t ticket;
    bool many;     /* a random shard was picked; other shards have entries too */
    size_t stride; /* shards visited per listing */
    unsigned idle_rounds;
    unsigned failures; /* consecutive store failures */
};

static bool run_is_stopped(struct compile_run *run)
{
    const struct compile_options *options = run->options;
    if (!run->stopped && options->stop)
        run->stopped = options->stop(options->argument);
    return run->stopped;
}

static void report_store_trouble(struct compile_run *run, const struct hf_error *error)
{
    if (run->options->trouble)
        run->options->trouble(run->options->argument, error);
}

/* ---- One shard ----------------------------------------------------------------------- */

static void add_totals(struct hf_index_compile_report *totals,
                       const struct compile_report *report)
{
    totals->shards_done += report->end == HF_INDEX_END_DONE;
    totals->shards_held += report->end == HF_INDEX_END_HELD;
    totals->shards_lost += report->end == HF_INDEX_END_LOST;
    totals->shards_failed += report->end == HF_INDEX_END_FAILED;
    totals->folded.entries += report->entries;
    totals->folded.aside += report->aside;
    totals->folded.records_new += report->fold.records_new;
    totals->folded.records_later += report->fold.records_later;
    totals->folded.superseded += report->fold.superseded;
    totals->folded.deleted += report->clear.deleted;
    totals->keys_deleted += report->fold.deleted;
    totals->deletions_dropped += report->fold.dropped;
    totals->folded.marked += report->clear.marked;
    totals->folded.newer += report->clear.newer;
    totals->folded.left += report->clear.left;
}

/* When a watcher may return to the shard: immediately after success, at the next poll if another
 * compiler is working on the shard, and after increasing delays if there were errors. */
static void set_pace(struct compile_run *run, struct pace *pace,
                     const struct compile_report *report)
{
    bool trouble = report->end == HF_INDEX_END_FAILED || report->clear.left > 0;
    pace->held = report->end == HF_INDEX_END_HELD;
    bool others = report->end == HF_INDEX_END_HELD || report->end == HF_INDEX_END_LOST;
    if (!trouble && !others) {
        *pace = (struct pace){ 0 };
        return;
    }
    pace->wait = others || pace->wait.us == 0
                     ? run->poll
                     : span_smaller(SPAN_US(pace->wait.us * 2), WAIT_MAX);
    pace->not_before = mono_add(env_now(run->index->env), pace->wait);
}

static enum hf_index_end compile_one(struct compile_run *run, size_t number)
{
    struct index *index = run->index;
    struct shard_id shard = shard_of_number(number, index->schema.digits);
    struct compile_report report;
    size_t flat_count;
    const struct entry *flat = shard_set_find_flat(&run->flat, shard, &flat_count);
    compile_shard(index, run->options, shard, flat, flat_count, &report);
    add_totals(&run->totals, &report);
    bool is_news = report.end != HF_INDEX_END_HELD || !run->paces[number].held;
    if (run->options->tell && is_news)
        run->options->tell(run->options->argument, &report);
    /* These are only statistics: they are not written if there is no memory for them. */
    if (report.folds > 0)
        (void)manifest_note(&run->noted, manifest_row_of(number, &report.fold));
    set_pace(run, &run->paces[number], &report);
    bool failed = report.end == HF_INDEX_END_FAILED;
    run->shard_failures =
        failed && !shard_is_the_matter(report.why.status) ? run->shard_failures + 1 : 0;
    if (failed && run->failed.status == HF_OK)
        run->failed = report.why;
    if (report.end == HF_INDEX_END_LOST)
        run->lost = report.why;
    if (report.end == HF_INDEX_END_HELD)
        run->held = report.why;
    return report.end;
}

static void write_manifest(struct compile_run *run)
{
    struct hf_error why;
    run->manifest_at = mono_add(env_now(run->index->env), MANIFEST_EVERY);
    if (run->noted.count == 0)
        return;
    /* A manifest must not arrive after its index was dropped. */
    if (index_check_mark(run->index, &why) != HF_OK ||
        manifest_write(run->index, &run->noted, &why) != HF_OK)
        report_store_trouble(run, &why);
    manifest_release(&run->noted);
}

static void write_manifest_in_time(struct compile_run *run)
{
    if (!mono_before(env_now(run->index->env), run->manifest_at))
        write_manifest(run);
}

/* ---- Which shard is next --------------------------------------------------------------- */

/* Selects one of the listed entries, each with the same probability. */
struct draw {
    struct index *index;
    size_t few;
    uint64_t enough;              /* a listing ends after this many entries */
    struct shard_set *shards_due; /* the shards seen; may be NULL */
    uint64_t seen;                /* entries seen, without markers, ... */
    uint64_t flats;               /* ... and how many of them are outside any folder */
    size_t number;                /* the shard of the selected entry, ... */
    bool flat;                    /* ... and whether that entry is outside any folder */
    bool all;                     /* everything was listed */
};

static void sample_entry(struct draw *draw, const struct entry_name *name, bool flat)
{
    const unsigned digits = draw->index->schema.digits;
    size_t number;
    /* A stray outside the shards' folders is set aside with the first shard. */
    if (!shard_number(view_of(name->shard.text), digits, &number))
        number = 0;
    if (draw->shards_due)
        draw->shards_due->of[number] |= MARK_WAITING;
    draw->flats += flat;
    if (env_random_below(draw->index->env, ++draw->seen) > 0)
        return;
    draw->number = number;
    draw->flat = flat;
}

static enum hf_status scan_page(struct draw *draw, const struct list_call *page, size_t root,
                                struct hf_error *error)
{
    const struct schema *schema = &draw->index->schema;
    struct buffer key = BUFFER_INIT(KEY_BYTES_MAX);
    for (size_t i = 0; i < page->count; i++) {
        const struct list_entry *object = &page->entries[i];
        struct view rest = view_from(object->key, root);
        struct entry_name name = entry_read(rest, schema->digits, &key);
        if (key.failed)
            break;
        view_cut(&rest, '/');
        bool flat = view_find(rest, '/') == rest.size; /* not in a folder of the inbox */
        bool is_entry = !object->is_prefix && object->info.size > 0 && name.kind != ENTRY_NONE;
        /* Folders that do not belong to a shard are never listed. */
        bool is_listed = flat ? schema->foreign : name.shard.text[0] != '\0';
        if (is_entry && is_listed)
            sample_entry(draw, &name, flat);
    }
    bool failed = key.failed;
    buffer_release(&key);
    return failed ? error_no_memory(error) : HF_OK;
}

/* Scans `folder`, starting after `after`, until enough entries are found. *ret_more: there are
 * more. */
static enum hf_status scan_folder(struct draw *draw, const char *folder, struct view delimiter,
                                  const char *after, bool *ret_more, struct hf_error *error)
{
    char root[KEY_BYTES_MAX + 1];
    enum hf_status status = HF_OK;
    struct pages pages = {
        .list = { .prefix = view_of(folder), .after = view_of(after), .delimiter = delimiter }
    };
    check(index_key(draw->index, root, "%s", ""));
    while (status == HF_OK && draw->seen < draw->enough &&
           pages_next(&pages, draw->index->store))
        status = scan_page(draw, &pages.list, strlen(root), error);
    *ret_more = !pages.begun || pages.list.more;
    return pages_end(&pages, status, error);
}

/* Selects again, from a page that starts at a random shard. If nothing follows there, the first
 * selection stays. */
static enum hf_status draw_from_random_page(struct draw *draw, const char *inbox,
                                            struct hf_error *error)
{
    char after[KEY_BYTES_MAX + 1];
    struct index *index = draw->index;
    size_t number = env_random_below(index->env, shard_count(index->schema.digits));
    struct shard_id start = shard_of_number(number, index->schema.digits);
    struct draw again = { .index = index, .enough = 1 };
    bool more;
    check(index_key(index, after, LAYOUT_INBOX_FOLDER "%s", start.text));
    enum hf_status status = scan_folder(&again, inbox, VIEW(""), after, &more, error);
    if (status == HF_OK && again.seen > 0) {
        draw->number = again.number;
        draw->flat = again.flat;
    }
    return status;
}

/* If there are few entries, lists all of them. Otherwise selects an entry from a random page. */
static enum hf_status draw_entry(struct draw *draw, struct hf_error *error)
{
    char folder[KEY_BYTES_MAX + 1];
    const uint64_t enough = draw->few > 0 ? draw->few : 1;
    struct index *index = draw->index;
    bool more = false, many = false;
    enum hf_status status = HF_OK;
    draw->enough = enough;
    if (index->schema.foreign) {
        check(index_key(index, folder, "%s", ""));
        status = scan_folder(draw, folder, VIEW("/"), /* after */ "", &more, error);
        many = more;
    }
    check(index_key(index, folder, LAYOUT_INBOX_FOLDER));
    draw->enough = draw->seen + enough;
    if (status == HF_OK)
        status = scan_folder(draw, folder, VIEW(""), /* after */ "", &more, error);
    many = many || more || draw->seen > draw->few;
    draw->all = !many;
    if (status == HF_OK && draw->seen == 0)
        return error_set(error, HF_NOT_FOUND, "the inbox of index %s is empty", index->name);
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

/* Puts the marked shards into a random order, so that compilers do not compete for the same
 * shards. */
static size_t shuffle(struct compile_run *run, const struct shard_set *shards_due)
{
    size_t count = 0;
    for (size_t i = 0; i < shards_due->count; i++)
        if (shards_due->of[i] & MARK_WAITING)
            run->order[count++] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)env_random_below(run->index->env, i);
        size_t number = run->order[i - 1];
        run->order[i - 1] = run->order[other];
        run->order[other] = number;
    }
    return count;
}

/* Whether a single run must end before all shards were visited. */
static bool must_end(struct compile_run *run)
{
    return run_is_stopped(run) || run->shard_failures >= SHARD_FAILURES_MAX;
}

/* Visits every marked shard. A shard that another compiler wrote in the meantime stays marked. */
static void visit_each_shard(struct compile_run *run, struct shard_set *shards_due)
{
    size_t count = shuffle(run, shards_due);
    for (size_t i = 0; i < count; i++) {
        if (must_end(run))
            break;
        size_t number = run->order[i];
        enum hf_index_end end = compile_one(run, number);
        if (end != HF_INDEX_END_LOST)
            shards_due->of[number] = end == HF_INDEX_END_HELD ? MARK_HELD : 0;
        write_manifest_in_time(run);
    }
}

/* The same for a watcher. While other compilers work, a listing becomes outdated. So if the watcher
 * finds that another compiler was at a shard, it lists again, first after one shard, then after
 * two, four, and so on. *ret_left: there are more shards to visit. Returns whether there was
 * anything to fold. */
static bool visit_among_others(struct compile_run *run, struct shard_set *shards_due,
                               bool *ret_left)
{
    size_t count = shuffle(run, shards_due), visited = 0, i = 0;
    bool worked = false, met = false;
    while (i < count && visited < run->stride && !met) {
        if (run_is_stopped(run))
            break;
        size_t number = run->order[i++];
        if (mono_before(env_now(run->index->env), run->paces[number].not_before))
            continue;
        visited++;
        enum hf_index_end end = compile_one(run, number);
        worked = worked || end == HF_INDEX_END_DONE;
        met =
            end == HF_INDEX_END_NOTHING || end == HF_INDEX_END_HELD || end == HF_INDEX_END_LOST;
        write_manifest_in_time(run);
    }
    *ret_left = i < count;
    if (met)
        run->stride = 1;
    else if (visited > 0 && run->stride < shards_due->count)
        run->stride *= 2;
    return worked;
}

static size_t count_marked(const struct shard_set *shards_due, unsigned char mark)
{
    size_t count = 0;
    for (size_t i = 0; i < shards_due->count; i++)
        count += (shards_due->of[i] & mark) != 0;
    return count;
}

static enum hf_status list_flat(struct compile_run *run, struct shard_set *shards_due,
                                struct hf_error *error)
{
    entry_list_release(&run->flat);
    enum hf_status status = inbox_list_flat(run->index, run->options->shard, &run->flat, error);
    if (status == HF_OK)
        shard_set_flat(shards_due, run->index, &run->flat);
    return status;
}

/* Marks the requested shard; false if no single shard was requested. */
static bool mark_wanted(struct compile_run *run, struct shard_set *shards_due)
{
    size_t number;
    if (!shard_number(view_of(run->options->shard.text), run->index->schema.digits, &number))
        return false;
    shards_due->of[number] = MARK_WAITING;
    return true;
}

static void visit_marked(struct compile_run *run, struct shard_set *shards_due)
{
    for (unsigned i = 0; i < LOST_TRIES_MAX; i++) {
        if (count_marked(shards_due, MARK_WAITING) == 0 || must_end(run))
            break;
        visit_each_shard(run, shards_due);
    }
}

static void sleep_until(struct compile_run *run, struct mono_time moment)
{
    struct env *env = run->index->env;
    struct mono_time now = env_now(env);
    while (mono_before(now, moment) && !run_is_stopped(run)) {
        env_sleep_until(env, mono_earlier(moment, mono_add(now, SLEEP_MAX)));
        now = env_now(env);
    }
}

/* Visits the held shards again. The holder of a shard is either compiling it or dead. It may take
 * as long as its ttl to prove that its lease has expired. */
static void visit_held(struct compile_run *run, struct shard_set *shards_due)
{
    struct env *env = run->index->env;
    const struct mono_time end = mono_add(env_now(env), run->options->wait);
    size_t held;
    while ((held = count_marked(shards_due, MARK_HELD)) > 0 && !must_end(run) &&
           mono_before(env_now(env), end)) {
        sleep_until(run, mono_earlier(end, mono_add(env_now(env), run->poll)));
        if (run_is_stopped(run))
            return;
        for (size_t i = 0; i < shards_due->count; i++)
            if (shards_due->of[i] == MARK_HELD)
                shards_due->of[i] = MARK_WAITING;
        run->totals.shards_held -= held;
        visit_marked(run, shards_due);
    }
}

static enum hf_status compile_once(struct compile_run *run, struct shard_set *shards_due,
                                   struct hf_error *error)
{
    enum hf_status status = list_flat(run, shards_due, error);
    bool one = status == HF_OK && mark_wanted(run, shards_due);
    if (status == HF_OK && !one)
        status = shard_set_waiting(shards_due, run->index, error);
    if (status != HF_OK)
        return status;
    visit_marked(run, shards_due);
    visit_held(run, shards_due);
    if (run_is_stopped(run))
        return error_set(error, HF_CANCELLED, "stopped by the caller");
    if (run->failed.status == HF_OK && count_marked(shards_due, MARK_WAITING) > 0)
        run->failed = run->lost;
    if (run->failed.status == HF_OK && one && count_marked(shards_due, MARK_HELD) > 0)
        run->failed = run->held;
    *error = run->failed;
    return run->failed.status;
}

/* ---- Watching -------------------------------------------------------------------------- */

/* Marks the one watched shard if it has entries. */
static enum hf_status mark_one_if_due(struct compile_run *run, struct shard_set *shards_due,
                                      struct hf_error *error)
{
    struct entry_list list = { 0 };
    enum hf_status status = inbox_list(run->index, run->options->shard, /* after */ VIEW(""),
                                       LIST_PAGE_MAX, &list, error);
    bool empty = list.count == 0;
    entry_list_release(&list);
    if (status == HF_OK)
        status = list_flat(run, shards_due, error);
    if (status == HF_OK && empty && run->flat.count == 0)
        return error_set(error, HF_NOT_FOUND, "no entries are waiting");
    if (status == HF_OK)
        mark_wanted(run, shards_due);
    return status;
}

/* Marks the shards to visit next: all that have entries, or one. */
static enum hf_status mark_due_shards(struct compile_run *run, struct shard_set *shards_due,
                                      struct hf_error *error)
{
    struct draw draw = { .index = run->index,
                         .few = run->options->few,
                         .shards_due = shards_due };
    memset(shards_due->of, 0, shards_due->count);
    entry_list_release(&run->flat);
    run->many = false;
    if (run->options->shard.text[0] != '\0')
        return mark_one_if_due(run, shards_due, error);
    enum hf_status status = draw_entry(&draw, error);
    if (status != HF_OK)
        return status;
    run->many = !draw.all && !draw.flat;
    if (run->many) {
        memset(shards_due->of, 0, shards_due->count);
        shards_due->of[draw.number] = MARK_WAITING;
        return HF_OK;
    }
    /* Finding the flat entries of one shard takes a listing of all of them, so all their shards are
     * marked. */
    if (draw.flats > 0 || draw.flat)
        status = list_flat(run, shards_due, error);
    if (status == HF_OK && !draw.all)
        status = shard_set_waiting(shards_due, run->index, error);
    return status;
}

/* Visits the shards that are due. Returns whether to list again immediately. */
static bool visit_due_shards(struct compile_run *run, struct shard_set *shards_due)
{
    struct hf_error why;
    enum hf_status status = mark_due_shards(run, shards_due, &why);
    run->failures = status == HF_OK || status == HF_NOT_FOUND ? 0 : run->failures + 1;
    if (run->failures > 0)
        report_store_trouble(run, &why);
    if (status != HF_OK)
        return false;
    bool left, worked = visit_among_others(run, shards_due, &left);
    run->idle_rounds = worked ? 0 : run->idle_rounds + 1;
    return worked || ((run->many || left) && run->idle_rounds < IDLE_ROUNDS_MAX);
}

/* Waits for a write, or until the next poll. */
static void wait_for_writes(struct compile_run *run)
{
    struct env *env = run->index->env;
    struct store *store = run->index->store;
    const struct mono_time start = env_now(env);
    const struct mono_time least = mono_add(start, LIST_INTERVAL_MIN);
    struct span wait = span_smaller(run->poll, WAIT_MAX);
    for (unsigned i = 1; i < run->failures; i++)
        wait = span_smaller(SPAN_US(wait.us * 2), WAIT_MAX);
    const struct mono_time most = mono_add(start, wait);
    bool news = false;
    struct mono_time now = start;
    while (!run_is_stopped(run) && mono_before(now, news ? least : most)) {
        struct mono_time until = mono_earlier(most, mono_add(now, SLEEP_MAX));
        if (news || run->failures > 0 || !store_listens(store))
            env_sleep_until(env, news ? least : until);
        else
            news = store_listen(store, &run->ticket, until);
        now = env_now(env);
    }
}

static void run_watcher(struct compile_run *run, struct shard_set *shards_due)
{
    struct env *env = run->index->env;
    struct store *store = run->index->store;
    if (store_listens(store))
        store_listen(store, &run->ticket, env_now(env));
    while (!run_is_stopped(run)) {
        if (!visit_due_shards(run, shards_due))
            wait_for_writes(run);
        write_manifest_in_time(run);
    }
}

/* ---- Entry points ---------------------------------------------------------------------- */

static enum hf_status check_compile_options(const struct index *index,
                                            const struct compile_options *options,
                                            struct hf_error *error)
{
    const unsigned digits = index->schema.digits;
    size_t number;
    if (ttl_check(options->ttl, SPAN_MS(1), COMPILE_TTL_MAX, NULL, error) != HF_OK)
        return error->status;
    if (options->batch_entries < 1 || options->batch_entries > INBOX_LIST_MAX ||
        options->batch_bytes < 1)
        return error_set(error, HF_INVALID, "1 to %d entries can be folded at once",
                         INBOX_LIST_MAX);
    struct span least = compile_keep_least(index);
    if (options->keep_deleted.us < 0 ||
        (options->keep_deleted.us > 0 && options->keep_deleted.us < least.us)) {
        char text[SPAN_TEXT_MAX];
        return error_set(error, HF_INVALID,
                         "deletions must be kept for at least %s, because a request that was "
                         "abandoned may take effect so late",
                         span_text(least, text));
    }
    if (options->shard.text[0] && !shard_number(view_of(options->shard.text), digits, &number))
        return error_set(error, HF_INVALID, "the index %s has no shard %s: it has %zu shards",
                         index->name, options->shard.text, shard_count(digits));
    return HF_OK;
}

static enum hf_status run_init(struct compile_run *run, struct shard_set *shards_due,
                               struct hf_error *error)
{
    struct index *index = run->index;
    struct store *store = index->store;
    bool local = store->traits.clock == STORE_CLOCK_BOOT;
    enum hf_status status = shard_set_init(shards_due, index, error);
    if (status != HF_OK)
        return status;
    run->paces = calloc(shards_due->count, sizeof *run->paces);
    run->order = calloc(shards_due->count, sizeof *run->order);
    if (!run->paces || !run->order)
        return error_no_memory(error);
    run->poll = run->options->poll;
    if (run->poll.us <= 0)
        run->poll = store_listens(store) ? POLL_LISTENING : local ? POLL_LOCAL : POLL_NETWORK;
    run->manifest_at = mono_add(env_now(index->env), MANIFEST_EVERY);
    run->stride = shards_due->count;
    return HF_OK;
}

enum hf_status index_compile(struct index *index, const struct compile_options *options,
                             struct hf_index_compile_report *ret_totals, struct hf_error *error)
{
    struct compile_run run = { .index = index,
                               .options = options,
                               .totals = HF_INDEX_COMPILE_REPORT };
    struct shard_set shards_due = { 0 };
    struct hf_error why = { .status = HF_OK };
    check(index->client);
    client_active(index->client);
    enum hf_status status = check_compile_options(index, options, &why);
    if (status == HF_OK)
        status = run_init(&run, &shards_due, &why);
    if (status == HF_OK && options->once)
        status = compile_once(&run, &shards_due, &why);
    else if (status == HF_OK)
        run_watcher(&run, &shards_due);
    write_manifest(&run);
    if (ret_totals)
        *ret_totals = run.totals;
    shard_set_release(&shards_due);
    entry_list_release(&run.flat);
    manifest_release(&run.noted);
    free(run.paces);
    free(run.order);
    if (error)
        *error = why;
    return status;
}
