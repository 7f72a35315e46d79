/* compact_diff.c: two versions of a catalog, one after the other: whether each key went a way that
 * there is, and whether all rows can still be read. */
#include "base/check.h"
#include "base/hash.h"
#include "sim/compact_judge.h"
#include "sim/judge_inside.h"

#include <inttypes.h>
#include <stdlib.h>

/* One write of a catalog. */
struct step {
    struct judge_catalog *judge;
    struct judged_doc *doc;
    const struct catalog_version *before, *now; /* before may be NULL */
};

static const char *const state_words[] = {
    [LISTED_NOWHERE] = "nowhere",     [LISTED_LIVE] = "live",
    [LISTED_TOMBSTONE] = "tombstone", [LISTED_RETIRED] = "retired",
    [LISTED_CONDEMNED] = "condemned", [LISTED_MOVED] = "moved",
};

static enum listed_state state_of(const struct listed *entry)
{
    return entry ? entry->state : LISTED_NOWHERE;
}

#define STEP_FAIL(step, chunk, format, ...) \
    world_fail(catalog_world((step)->judge), "%s " format, (chunk)->key, __VA_ARGS__)

/* ---- Time ---------------------------------------------------------------------------- */

/* In which boot the write that takes effect was sent; 0: nobody knows. */
static uint64_t boot_of_sender(const struct judge_catalog *judge)
{
    struct net_sender sender = net_sender(judge->run->net);
    return sender.node ? judge->boots[node_number(sender.node)][sender.life % JUDGED_LIVES_MAX]
                       : 0;
}

static uint64_t boot_now(struct node *node)
{
    return hash_xxh3(view_of(env_boot_id(node_env(node))));
}

static void note_since(const struct step *step, struct judged_chunk *chunk)
{
    struct judged_since since = { .applied_us = catalog_now_us(step->judge),
                                  .boot = boot_of_sender(step->judge) };
    const struct listed_group *group = &step->now->groups[chunk->after->group];
    if (!listed_stamp_read(group->since, &since.clock, &since.us)) {
        STEP_FAIL(step, chunk, "%s", "has a stamp that nobody can read");
        return;
    }
    bool same = state_of(chunk->before) == chunk->after->state &&
                since.clock == chunk->since.clock && since.us == chunk->since.us;
    if (!same)
        chunk->since = since;
}

/* For how long, at most, what this write ends had been so when the write was sent: by the stamp,
 * as far as its clock can be read, or by standing there, which anybody may have watched. A stamp
 * may be of before it landed, or, of one who had not heard of the store's time for long, of well
 * after. */
static int64_t elapsed_us(const struct step *step, const struct judged_since *since)
{
    struct judge_catalog *judge = step->judge;
    struct net_sender sender = net_sender(judge->run->net);
    int64_t sent_us = judged_sent_us(judge);
    int64_t stood_us = sent_us - since->applied_us, aged_us = 0;
    if (judge->options.by_date && since->clock != 0) {
        struct wall_time date = bucket_date(net_bucket(judge->run->net), SPAN_US(0));
        aged_us = date.us + 1000000 - (catalog_now_us(judge) - sent_us) - since->us;
    } else if (!judge->options.by_date && sender.node && since->boot != 0 &&
               since->boot == boot_of_sender(judge)) {
        if (boot_now(sender.node) != since->boot)
            return INT64_MAX; /* nobody can tell any more what its clock showed */
        aged_us = node_moment(sender.node, sent_us).us - since->us;
    }
    return aged_us > stood_us ? aged_us : stood_us;
}

static void judge_elapsed(const struct step *step, struct judged_chunk *chunk, struct span span,
                          const char *what)
{
    int64_t slack_us = 1000000 + 2 * step->judge->options.clocks_off.us + span.us / 1000;
    int64_t passed_us = elapsed_us(step, &chunk->since);
    if (passed_us < span.us - slack_us)
        STEP_FAIL(step, chunk, "is %s after %" PRId64 " ms, which should have been %" PRId64,
                  what, passed_us / 1000, span.us / 1000);
}

/* ---- What an entry says -------------------------------------------------------------- */

/* data/<partition>/L<level>/... */
static bool is_home(const struct step *step, const struct judged_chunk *chunk)
{
    struct view rest = view_of(chunk->key);
    view_cut(&rest, '/');
    return view_equal(view_cut(&rest, '/'), view_of(step->doc->partition));
}

/* What a live chunk must be, unless we spoilt it. */
static void judge_object(const struct step *step, const struct judged_chunk *chunk)
{
    const struct listed *entry = chunk->after;
    struct view bytes = bucket_peek(net_bucket(step->judge->run->net), view_of(chunk->key));
    if (chunk->spoilt)
        return;
    if (!bytes.data)
        STEP_FAIL(step, chunk, "%s", "is live, and its object is not there");
    else if (!chunk->rows || bytes.size != entry->size || chunk->hash != hash_xxh3(bytes) ||
             crc32c_by_table(0, bytes) != entry->crc32c ||
             (entry->rows_known && entry->rows != chunk->row_count))
        STEP_FAIL(step, chunk, "%s", "is live, and its object is not what its entry says");
    for (size_t i = 0; i < chunk->row_count; i++)
        if (chunk->rows[i].ms < entry->min_ms || chunk->rows[i].ms > entry->max_ms)
            STEP_FAIL(step, chunk, "has a row of %" PRId64 ", outside of what its entry says",
                      chunk->rows[i].ms);
}

/* ---- Coming -------------------------------------------------------------------------- */

/* The grave that names it, made by this write; NULL: it was added. */
static const struct listed_group *grave_into(const struct catalog_version *version,
                                             struct view key)
{
    for (size_t i = 0; version && i < version->group_count; i++)
        if (view_equal(version->groups[i].into, key))
            return &version->groups[i];
    return NULL;
}

static bool same_rows(const struct row *a, size_t a_count, const struct row *b, size_t b_count)
{
    bool same = a_count == b_count;
    for (size_t i = 0; same && i < a_count; i++)
        same = a[i].key == b[i].key && a[i].number == b[i].number && a[i].ms == b[i].ms;
    return same;
}

/* All rows of what was merged into this, sorted; of equal keys the latest. */
static struct row *rows_of_sources(const struct step *step, const struct listed_group *grave,
                                   size_t *ret_count)
{
    size_t count = 0, room = 0;
    size_t group = (size_t)(grave - step->now->groups);
    for (size_t i = 0; i < step->now->count; i++)
        if (step->now->entries[i].state == LISTED_TOMBSTONE &&
            step->now->entries[i].group == group)
            room += step->now->entries[i].chunk->row_count;
    struct row *rows = judge_allocate((room + 1) * sizeof *rows);
    for (size_t i = 0; i < step->now->count; i++) {
        const struct listed *entry = &step->now->entries[i];
        if (entry->state != LISTED_TOMBSTONE || entry->group != group)
            continue;
        if (entry->chunk->row_count > 0)
            memcpy(rows + count, entry->chunk->rows, entry->chunk->row_count * sizeof *rows);
        count += entry->chunk->row_count;
    }
    rows_sort(rows, count);
    *ret_count = step->judge->options.latest_wins ? rows_latest(rows, count) : count;
    return rows;
}

static void judge_merge(const struct step *step, const struct judged_chunk *chunk,
                        const struct listed_group *grave)
{
    size_t count;
    struct row *rows = rows_of_sources(step, grave, &count);
    bool same = same_rows(rows, count, chunk->rows, chunk->row_count);
    free(rows);
    if (!same)
        STEP_FAIL(step, chunk,
                  "is merged, and is not what its sources come to: %zu rows, not %zu",
                  chunk->row_count, count);
}

static void note_rows(struct judge_catalog *judge, const struct judged_chunk *chunk)
{
    for (size_t i = 0; i < chunk->row_count; i++) {
        struct row row = chunk->rows[i];
        if (judge->rows[row.number].added)
            world_fail(catalog_world(judge), "row %u is added twice: in %s, and in %s",
                       row.number, judge->rows[row.number].chunk->key, chunk->key);
        judge->rows[row.number].row = row;
        judge->rows[row.number].added = true;
        judge->rows[row.number].chunk = chunk;
        if (row.number > judge->newest[row.key])
            judge->newest[row.key] = row.number;
        if (row.number > judge->row_last)
            judge->row_last = row.number;
    }
}

static void judge_name(const struct step *step, const struct judged_chunk *chunk)
{
    const struct judge_catalog_options *options = &step->judge->options;
    int64_t age_us = judged_sent_us(step->judge) - chunk->drawn_us;
    if (chunk->ever_live || chunk->ever_deleting)
        STEP_FAIL(step, chunk, "comes to be live, and was %s before",
                  chunk->ever_condemned ? "condemned"
                  : chunk->live         ? "live"
                                        : "deleted");
    if (chunk->told_never)
        STEP_FAIL(step, chunk, "%s", "comes to be live after somebody was told that it is not");
    if (!is_home(step, chunk))
        STEP_FAIL(step, chunk, "comes to be live in %s, which is not its home", step->doc->key);
    if (chunk->drawn_us >= 0 && age_us > options->late_bound.us / 2 + options->standstill.us)
        STEP_FAIL(step, chunk, "comes to be live %" PRId64 " s after its name was drawn",
                  age_us / 1000000);
}

static void comes(const struct step *step, struct judged_chunk *chunk)
{
    const struct listed_group *grave = grave_into(step->now, view_of(chunk->key));
    judge_name(step, chunk);
    judge_object(step, chunk);
    chunk->live = chunk->ever_live = true;
    chunk->came_us = catalog_now_us(step->judge);
    if (chunk->after->max_ms > step->judge->newest_ms)
        step->judge->newest_ms = chunk->after->max_ms;
    if (grave)
        judge_merge(step, chunk, grave);
    else if (chunk->lease)
        STEP_FAIL(step, chunk, "%s",
                  "is the output of a merge, and comes to be live without one");
    else
        note_rows(step->judge, chunk);
}

/* ---- Going --------------------------------------------------------------------------- */

/* The key that a tombstone was merged into; empty when it is none. */
static struct view into_of(const struct catalog_version *version, const struct listed *entry)
{
    return entry && entry->state == LISTED_TOMBSTONE ? version->groups[entry->group].into
                                                     : VIEW("");
}

/* Whether some of its sources were taken out of their graves by this write. */
static bool is_undone(const struct step *step, const struct judged_chunk *chunk)
{
    const struct catalog_version *before = step->before;
    struct view key = view_of(chunk->key);
    for (size_t i = 0; before && i < before->count; i++) {
        const struct listed *entry = &before->entries[i];
        bool was = entry->state == LISTED_TOMBSTONE &&
                   view_equal(before->groups[entry->group].into, key);
        if (was && !view_equal(into_of(step->now, entry->chunk->after), key))
            return true;
    }
    return false;
}

/* Retention goes by the newest of the data, and by the date where the store tells one. */
static void judge_retention(const struct step *step, const struct judged_chunk *chunk)
{
    struct judge_catalog *judge = step->judge;
    struct wall_time date = bucket_date(net_bucket(judge->run->net), SPAN_US(0));
    int64_t latest_ms = (date.us + 1000000 + judge->options.clocks_off.us) / 1000;
    int64_t now_ms = judge->newest_ms;
    if (judge->options.by_date && latest_ms < now_ms)
        now_ms = latest_ms;
    for (size_t i = 0; i < chunk->row_count; i++)
        if (judge->options.retention_ms == 0 ||
            chunk->rows[i].ms >= now_ms - judge->options.retention_ms)
            STEP_FAIL(step, chunk, "expires with a row that is only %" PRId64 " s old",
                      (now_ms - chunk->rows[i].ms) / 1000);
}

static void set_expired(struct judge_catalog *judge, struct judged_chunk *chunk, bool expired)
{
    chunk->expired = expired;
    for (size_t i = 0; i < chunk->row_count; i++)
        judge->rows[chunk->rows[i].number].expired = expired;
}

static void dies(const struct step *step, struct judged_chunk *chunk)
{
    struct view into = step->now->groups[chunk->after->group].into;
    chunk->live = false;
    if (into.size > 0) {
        struct judged_chunk *target = judged_chunk_of(step->judge, into);
        enum listed_state from = state_of(target->before), to = state_of(target->after);
        if (from != LISTED_NOWHERE || (to != LISTED_LIVE && to != LISTED_TOMBSTONE))
            STEP_FAIL(step, chunk, "is merged into %s, which was %s and is %s by that",
                      target->key, state_words[from], state_words[to]);
    } else if (!is_undone(step, chunk)) {
        judge_retention(step, chunk);
        set_expired(step->judge, chunk, true);
    }
}

/* Operations of one process may stand in one write: added, and found to be past its retention. */
static void comes_and_goes(const struct step *step, struct judged_chunk *chunk)
{
    if (step->now->groups[chunk->after->group].into.size > 0)
        STEP_FAIL(step, chunk, "%s", "is merged, and was not live");
    comes(step, chunk);
    dies(step, chunk);
}

/* Whether what was merged into this is live again, or was, and has gone again by the same write. */
static bool is_back(const struct step *step, const struct judged_chunk *chunk, struct view into)
{
    enum listed_state to = state_of(chunk->after);
    return to == LISTED_LIVE ||
           (to == LISTED_TOMBSTONE && !view_equal(into_of(step->now, chunk->after), into));
}

/* What it was merged into goes. It was live, or has come back by the same write, which is judged
 * where that is looked at. */
static void judge_undone_target(const struct step *step, const struct judged_chunk *chunk,
                                struct judged_chunk *target)
{
    enum listed_state from = state_of(target->before), to = state_of(target->after);
    bool was_live = from == LISTED_LIVE || target->expired ||
                    into_of(step->before, target->before).size > 0;
    bool goes = to == LISTED_TOMBSTONE && into_of(step->now, target->after).size == 0;
    if (!was_live || !goes)
        STEP_FAIL(step, chunk, "is undeleted, and %s was %s and is %s", target->key,
                  state_words[from], state_words[to]);
    target->undone = true;
}

/* Undone: all that was merged with it comes back, and what it was merged into goes. */
static void comes_back(const struct step *step, struct judged_chunk *chunk)
{
    size_t group = chunk->before->group;
    struct view into = step->before->groups[group].into;
    for (size_t i = 0; i < step->before->count; i++) {
        const struct listed *entry = &step->before->entries[i];
        if (entry->state == LISTED_TOMBSTONE && entry->group == group && into.size > 0 &&
            !is_back(step, entry->chunk, into))
            STEP_FAIL(step, chunk, "is undeleted without %s, which was merged with it",
                      entry->chunk->key);
    }
    if (into.size > 0)
        judge_undone_target(step, chunk, judged_chunk_of(step->judge, into));
    judge_object(step, chunk);
    chunk->live = true;
    chunk->came_us = catalog_now_us(step->judge);
    if (chunk->expired)
        set_expired(step->judge, chunk, false);
}

/* In another grave than before: it came back, and went again. */
static void stays_dead(const struct step *step, struct judged_chunk *chunk)
{
    if (view_equal(into_of(step->before, chunk->before), into_of(step->now, chunk->after)))
        return;
    comes_back(step, chunk);
    dies(step, chunk);
}

static void is_reaped(const struct step *step, struct judged_chunk *chunk)
{
    judge_elapsed(step, chunk, step->judge->options.grace, "moved to deleting");
    chunk->ever_deleting = true;
}

static void is_condemned(const struct step *step, struct judged_chunk *chunk)
{
    if (chunk->ever_live && !chunk->dropped) /* what is dropped is forgotten */
        STEP_FAIL(step, chunk, "%s", "is condemned, and was live");
    if (!is_home(step, chunk))
        STEP_FAIL(step, chunk, "is condemned in %s, which is not its home", step->doc->key);
    chunk->ever_deleting = chunk->ever_condemned = true;
}

static void is_dropped(const struct step *step, struct judged_chunk *chunk)
{
    judge_elapsed(step, chunk, step->judge->options.late_bound, "dropped");
    if (bucket_peek(net_bucket(step->judge->run->net), view_of(chunk->key)).data)
        STEP_FAIL(step, chunk, "%s", "is dropped, and its object is still there");
    chunk->dropped = true;
}

/* ---- Blame --------------------------------------------------------------------------- */

/* Who condemns the output of a lease that just died counts a try for each of its sources; only the
 * one who had the lease may know better, and may do so before it ends it. */
static void note_blame(const struct step *step, const struct judged_chunk *output)
{
    struct judged_lease *lease = output->lease;
    struct net_sender sender = net_sender(step->judge->run->net);
    if (!lease || !sender.node)
        return;
    bool own = sender.node == lease->owner && sender.life == lease->owner_life;
    bool must = lease->died && !own && !step->judge->condemns_any[node_number(sender.node)];
    for (size_t i = 0; i < lease->source_count; i++) {
        lease->sources[i]->leases_ended_badly += own && !lease->bad;
        lease->sources[i]->must_count += must;
        lease->sources[i]->tried_alone = lease->source_count == 1;
    }
    lease->bad |= own;
}

static void stays_live(const struct step *step, struct judged_chunk *chunk)
{
    const struct listed *before = chunk->before, *after = chunk->after;
    uint64_t counted = after->tries > before->tries ? after->tries - before->tries : 0;
    chunk->tries_counted += counted;
    if (after->tries < before->tries && !chunk->asked_quarantine)
        STEP_FAIL(step, chunk, "was tried %" PRIu64 " times, then %" PRIu64, before->tries,
                  after->tries);
    if (chunk->tries_counted > chunk->leases_ended_badly)
        STEP_FAIL(step, chunk,
                  "was tried %" PRIu64 " times, and %" PRIu64 " leases ended badly",
                  chunk->tries_counted, chunk->leases_ended_badly);
    if (counted < chunk->must_count && !before->quarantined && !after->quarantined &&
        after->tries >= before->tries)
        STEP_FAIL(step, chunk, "was in %u leases that just died, and %" PRIu64 " are counted",
                  chunk->must_count, counted);
    if (after->quarantined && !before->quarantined && !chunk->asked_quarantine &&
        !chunk->spoilt && after->tries < step->judge->options.tries_max)
        STEP_FAIL(step, chunk, "is quarantined after %" PRIu64 " tries, for no reason",
                  after->tries);
    if (after->quarantined && !before->quarantined && !chunk->asked_quarantine &&
        !chunk->spoilt && !chunk->tried_alone)
        STEP_FAIL(step, chunk, "%s", "is quarantined, and was not tried alone");
}

/* ---- One write ----------------------------------------------------------------------- */

#define WAY(from, to) ((from)*8 + (to))

static void judge_way(const struct step *step, struct judged_chunk *chunk)
{
    enum listed_state from = state_of(chunk->before), to = state_of(chunk->after);
    switch (WAY(from, to)) {
    case WAY(LISTED_NOWHERE, LISTED_LIVE): comes(step, chunk); break;
    case WAY(LISTED_NOWHERE, LISTED_CONDEMNED): is_condemned(step, chunk); break;
    case WAY(LISTED_NOWHERE, LISTED_TOMBSTONE): comes_and_goes(step, chunk); break;
    case WAY(LISTED_LIVE, LISTED_LIVE): stays_live(step, chunk); break;
    case WAY(LISTED_LIVE, LISTED_TOMBSTONE): dies(step, chunk); break;
    case WAY(LISTED_TOMBSTONE, LISTED_LIVE): comes_back(step, chunk); break;
    case WAY(LISTED_TOMBSTONE, LISTED_RETIRED): is_reaped(step, chunk); break;
    case WAY(LISTED_RETIRED, LISTED_NOWHERE):
    case WAY(LISTED_CONDEMNED, LISTED_NOWHERE): is_dropped(step, chunk); break;
    case WAY(LISTED_TOMBSTONE, LISTED_TOMBSTONE): stays_dead(step, chunk); break;
    case WAY(LISTED_LIVE, LISTED_MOVED):
    case WAY(LISTED_RETIRED, LISTED_RETIRED):
    case WAY(LISTED_CONDEMNED, LISTED_CONDEMNED):
    case WAY(LISTED_MOVED, LISTED_MOVED): break;
    default: STEP_FAIL(step, chunk, "goes from %s to %s", state_words[from], state_words[to]);
    }
    if (to == LISTED_TOMBSTONE || to == LISTED_RETIRED || to == LISTED_CONDEMNED)
        note_since(step, chunk);
}

static void mark_all(const struct step *step)
{
    for (size_t i = 0; step->before && i < step->before->count; i++)
        step->before->entries[i].chunk->before = &step->before->entries[i];
    for (size_t i = 0; i < step->now->count; i++) {
        struct listed *entry = &step->now->entries[i];
        if (entry->chunk->after)
            STEP_FAIL(step, entry->chunk, "stands twice in %s", step->doc->key);
        entry->chunk->after = entry;
    }
    for (size_t i = 0; i < step->now->count; i++) {
        const struct judged_chunk *chunk = step->now->entries[i].chunk;
        if (step->now->entries[i].state == LISTED_CONDEMNED && !chunk->before)
            note_blame(step, chunk);
    }
}

static void unmark(struct judge_catalog *judge)
{
    for (size_t i = 0; i < judge->chunk_count; i++) {
        struct judged_chunk *chunk = judge->chunks[i];
        if (chunk->undone && chunk->expired) /* its rows are those of its sources again */
            set_expired(judge, chunk, false);
        chunk->before = chunk->after = NULL;
        chunk->must_count = 0;
        chunk->tried_alone = false;
        chunk->undone = false;
    }
}

/* ---- A split ------------------------------------------------------------------------- */

struct judged_doc *judged_doc_of(struct judge_catalog *judge, struct view partition)
{
    for (struct judged_doc *doc = judge->docs; doc; doc = doc->next)
        if (view_equal(view_of(doc->partition), partition))
            return doc;
    return NULL;
}

static bool is_live_in(const struct catalog_version *version, const struct judged_chunk *chunk)
{
    for (size_t i = 0; version && i < version->count; i++)
        if (version->entries[i].chunk == chunk)
            return version->entries[i].state == LISTED_LIVE;
    return false;
}

/* NULL: there is none. */
static const struct catalog_version *child_of(const struct step *step,
                                              const struct listed *entry)
{
    if (entry->group >= step->now->child_count)
        return NULL;
    const struct judged_doc *child =
        judged_doc_of(step->judge, step->now->children[entry->group]);
    return child ? child->now : NULL;
}

static void judge_children(const struct step *step)
{
    if (step->now->child_count == 0 || (step->before && step->before->child_count > 0))
        return;
    for (size_t i = 0; i < step->now->child_count; i++) {
        struct judged_doc *child = judged_doc_of(step->judge, step->now->children[i]);
        if (!child || !child->now) {
            world_fail(catalog_world(step->judge), "%s names a child that is not there",
                       step->doc->key);
            return;
        }
        child->reachable = true;
    }
    for (size_t i = 0; i < step->now->count; i++) {
        const struct listed *entry = &step->now->entries[i];
        if (entry->state == LISTED_MOVED && !is_live_in(child_of(step, entry), entry->chunk))
            STEP_FAIL(step, entry->chunk, "%s", "is moved to a child that does not have it");
    }
}

/* ---- Rows ---------------------------------------------------------------------------- */

static void count_rows(struct judge_catalog *judge, unsigned newest[ROW_KEYS])
{
    for (unsigned i = 1; i <= judge->row_last; i++)
        judge->rows[i].live = 0;
    for (struct judged_doc *doc = judge->docs; doc; doc = doc->next) {
        for (size_t i = 0; doc->reachable && doc->now && i < doc->now->count; i++) {
            const struct listed *entry = &doc->now->entries[i];
            for (size_t k = 0; entry->state == LISTED_LIVE && k < entry->chunk->row_count;
                 k++) {
                struct row row = entry->chunk->rows[k];
                judge->rows[row.number].live++;
                if (row.number > newest[row.key])
                    newest[row.key] = row.number;
            }
        }
    }
}

/* What all live chunks together come to. */
static void judge_rows(struct judge_catalog *judge)
{
    unsigned newest[ROW_KEYS] = { 0 };
    count_rows(judge, newest);
    for (unsigned i = 1; i <= judge->row_last; i++) {
        const struct judged_row *row = &judge->rows[i];
        if (row->live > 1)
            world_fail(catalog_world(judge), "row %u stands in %u live chunks", i, row->live);
        if (!judge->options.latest_wins && row->added && row->live == 0 && !row->expired)
            world_fail(catalog_world(judge), "row %u is lost", i);
    }
    for (unsigned key = 0; judge->options.latest_wins && key < ROW_KEYS; key++)
        if (newest[key] != judge->newest[key] && !judge->rows[judge->newest[key]].expired)
            world_fail(catalog_world(judge), "row %u of key %u is lost: its latest is %u",
                       judge->newest[key], key, newest[key]);
}

static void find_chunks(struct judge_catalog *judge, struct catalog_version *version)
{
    for (size_t i = 0; i < version->count; i++)
        version->entries[i].chunk = judged_chunk_of(judge, version->entries[i].key);
}

void judge_catalog_written(struct judge_catalog *judge, struct judged_doc *doc,
                           struct catalog_version *now)
{
    struct step step = { judge, doc, doc->now, now };
    struct catalog_version *before = doc->now;
    find_chunks(judge, now);
    doc->now = now;
    if (doc->reachable) {
        mark_all(&step);
        for (size_t i = 0; i < now->count; i++)
            judge_way(&step, now->entries[i].chunk);
        for (size_t i = 0; before && i < before->count; i++)
            if (!before->entries[i].chunk->after)
                judge_way(&step, before->entries[i].chunk);
        judge_children(&step);
        unmark(judge);
        judge_rows(judge);
    }
    catalog_version_free(before);
}
