/* SPDX-License-Identifier: Apache-2.0 */
/* compact_diff.c: compares each version of a catalog with the previous one. It fails the run if a
 * key makes a transition that is not allowed, or if a row is no longer readable. */
#include "base/check.h"
#include "base/hash.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/compact_inside.h"

#include <inttypes.h>
#include <stdlib.h>

/* One write to a catalog. */
struct step {
    struct catalog_checker *checker;
    struct checked_doc *doc;
    const struct catalog_version *before, *now; /* before may be NULL */
};

static const char *const state_words[] = {
    [LISTED_NOWHERE] = "nowhere",     [LISTED_LIVE] = "live",
    [LISTED_TOMBSTONE] = "tombstone", [LISTED_RETIRED] = "retired",
    [LISTED_CONDEMNED] = "condemned", [LISTED_MOVED] = "moved",
    [LISTED_PENDING] = "pending",
};

static enum listed_state state_of(const struct listed *entry)
{
    return entry ? entry->state : LISTED_NOWHERE;
}

#define STEP_FAIL(step, chunk, format, ...) \
    world_fail(catalog_world((step)->checker), "%s " format, (chunk)->key, __VA_ARGS__)

/* ---- Time ---------------------------------------------------------------------------- */

/* The boot of the machine from which the current write was sent; 0 if unknown. */
static uint64_t boot_of_sender(const struct catalog_checker *checker)
{
    struct net_sender sender = net_sender(checker->run->net);
    return sender.node
               ? checker->boots[node_number(sender.node)][sender.life % CHECKED_LIVES_MAX]
               : 0;
}

static uint64_t boot_now(struct node *node)
{
    return hash_xxh3(view_of(env_boot_id(node_env(node))));
}

static void note_since(const struct step *step, struct checked_chunk *chunk)
{
    struct checked_since since = { .applied_us = catalog_now_us(step->checker),
                                   .boot = boot_of_sender(step->checker) };
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

/* The longest time for which the entry that this write removes can have existed when the write was
 * sent. The time is computed from the stamp if the stamp's clock can be read. Otherwise it is the
 * time for which the entry was in the catalog, because any client may have watched it there. A
 * stamp may be much earlier than the instant at which its write took effect. If its writer had not
 * learned the store time for a long time, the stamp may also be far in the future. */
static int64_t elapsed_us(const struct step *step, const struct checked_since *since)
{
    struct catalog_checker *checker = step->checker;
    struct net_sender sender = net_sender(checker->run->net);
    int64_t sent_us = checked_sent_us(checker);
    int64_t stood_us = sent_us - since->applied_us, aged_us = 0;
    if (checker->options.by_date && since->clock != 0) {
        struct wall_time date = bucket_date(net_bucket(checker->run->net), SPAN_US(0));
        aged_us = date.us + 1000000 - (catalog_now_us(checker) - sent_us) - since->us;
    } else if (!checker->options.by_date && sender.node && since->boot != 0 &&
               since->boot == boot_of_sender(checker)) {
        if (boot_now(sender.node) != since->boot)
            return INT64_MAX; /* the time on its clock is no longer known */
        aged_us = node_moment(sender.node, sent_us).us - since->us;
    }
    return aged_us > stood_us ? aged_us : stood_us;
}

static void checker_elapsed(const struct step *step, struct checked_chunk *chunk,
                            struct span span, const char *what)
{
    int64_t slack_us = 1000000 + 2 * step->checker->options.clocks_off.us + span.us / 1000;
    int64_t passed_us = elapsed_us(step, &chunk->since);
    if (passed_us < span.us - slack_us)
        STEP_FAIL(step, chunk, "is %s after %" PRId64 " ms, which should have been %" PRId64,
                  what, passed_us / 1000, span.us / 1000);
}

/* ---- Entries and objects ------------------------------------------------------------- */

/* data/<partition>/L<level>/... */
static bool is_home(const struct step *step, const struct checked_chunk *chunk)
{
    struct view rest = view_of(chunk->key);
    view_cut(&rest, '/');
    return view_equal(view_cut(&rest, '/'), view_of(step->doc->partition));
}

/* Compares the entry of a live chunk with its object, unless the workload damaged the object. */
static void checker_object(const struct step *step, const struct checked_chunk *chunk)
{
    const struct listed *entry = chunk->after;
    struct view bytes = bucket_peek(net_bucket(step->checker->run->net), view_of(chunk->key));
    if (chunk->adopted &&
        (chunk->adopted->size != entry->size || chunk->adopted->crc32c != entry->crc32c ||
         entry->rows != chunk->adopted->row_count))
        STEP_FAIL(step, chunk, "adopts %s, which is not what its entry says",
                  chunk->adopted->key);
    if (chunk->spoilt || chunk->adopted)
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

/* ---- Keys that become live ----------------------------------------------------------- */

/* The chunks that a group of tombstones was merged into. */
static size_t targets_of(const struct listed_group *group)
{
    return group->target_count > 0 ? group->target_count : group->into.size > 0;
}

static struct view target_of(const struct listed_group *group, size_t index)
{
    return group->target_count > 0 ? group->targets[index] : group->into;
}

static bool is_target(const struct listed_group *group, struct view key)
{
    for (size_t i = 0; i < targets_of(group); i++)
        if (view_equal(target_of(group, i), key))
            return true;
    return false;
}

/* The group of tombstones in this write that were merged into the chunk; NULL: the chunk was
 * added. */
static const struct listed_group *grave_into(const struct catalog_version *version,
                                             struct view key)
{
    for (size_t i = 0; version && i < version->group_count; i++)
        if (is_target(&version->groups[i], key))
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

/* The rows of all chunks that were merged into this one, sorted, with only the latest row of each
 * key. */
static struct row *rows_of_sources(const struct step *step, const struct listed_group *grave,
                                   size_t *ret_count)
{
    size_t count = 0, room = 0, group = (size_t)(grave - step->now->groups);
    for (size_t i = 0; i < step->now->count; i++)
        if (step->now->entries[i].state == LISTED_TOMBSTONE &&
            step->now->entries[i].group == group)
            room += step->now->entries[i].chunk->row_count;
    struct row *rows = checker_allocate((room + 1) * sizeof *rows);
    for (size_t i = 0; i < step->now->count; i++) {
        const struct listed *entry = &step->now->entries[i];
        if (entry->state != LISTED_TOMBSTONE || entry->group != group)
            continue;
        if (entry->chunk->row_count > 0)
            memcpy(rows + count, entry->chunk->rows, entry->chunk->row_count * sizeof *rows);
        count += entry->chunk->row_count;
    }
    rows_sort(rows, count, step->checker->options.deletes);
    *ret_count = step->checker->options.latest_wins ? rows_latest(rows, count) : count;
    return rows;
}

/* A chunk is committed by itself only if it moves to its home in this catalog, or if its deletion
 * markers were dropped. Any other copy would be made for nothing. */
static void checker_copy(const struct step *step, const struct checked_chunk *chunk,
                         const struct listed_group *grave)
{
    const struct checked_chunk *only = NULL;
    size_t count = 0;
    for (size_t i = 0; i < step->now->count; i++) {
        const struct listed *entry = &step->now->entries[i];
        if (entry->state != LISTED_TOMBSTONE || &step->now->groups[entry->group] != grave)
            continue;
        only = entry->chunk;
        count++;
    }
    if (count == 1 && state_of(only->before) == LISTED_LIVE && is_home(step, only) &&
        chunk->row_count == only->row_count)
        STEP_FAIL(step, only, "%s", "is committed again, merged with no other chunk");
}

/* The rows of all targets of a merge, in the order of the targets. Ranges do not overlap: no key is
 * in two of them, and their keys ascend. */
static struct row *rows_of_targets(const struct step *step, const struct listed_group *grave,
                                   size_t *ret_count)
{
    size_t count = 0, room = 0;
    for (size_t i = 0; i < targets_of(grave); i++)
        room += checked_chunk_of(step->checker, target_of(grave, i))->row_count;
    struct row *rows = checker_allocate((room + 1) * sizeof *rows);
    for (size_t i = 0; i < targets_of(grave); i++) {
        struct checked_chunk *target = checked_chunk_of(step->checker, target_of(grave, i));
        if (grave->target_count > 0 && !checked_made_for(target, grave->into, i))
            STEP_FAIL(step, target, "%s", "is committed as a range that it was not made for");
        if (target->row_count == 0)
            continue;
        if (count > 0 && rows[count - 1].key >= target->rows[0].key)
            STEP_FAIL(step, target, "%s", "has keys of the range before it");
        memcpy(rows + count, target->rows, target->row_count * sizeof *rows);
        count += target->row_count;
    }
    *ret_count = count;
    return rows;
}

/* Markers are dropped no sooner than twice D after they were added. */
static void checker_marker_ages(const struct step *step, const struct checked_chunk *chunk,
                                const struct row *rows, size_t count)
{
    const struct catalog_checker *checker = step->checker;
    int64_t least_us = 2 * checker->options.late_bound.us;
    least_us -= 1000000 + 2 * checker->options.clocks_off.us + least_us / 1000;
    for (size_t i = 0; i < count; i++) {
        int64_t age_us = checked_sent_us(checker) - checker->rows[rows[i].number].added_us;
        if (row_is_marker(&rows[i]) && age_us < least_us)
            STEP_FAIL(step, chunk, "lacks the marker %u, which was added %" PRId64 " s before",
                      rows[i].number, age_us / 1000000);
    }
}

static void checker_merge(const struct step *step, const struct checked_chunk *chunk,
                          const struct listed_group *grave)
{
    size_t count, made;
    checker_copy(step, chunk, grave);
    struct row *rows = rows_of_sources(step, grave, &count);
    struct row *targets = rows_of_targets(step, grave, &made);
    bool same = same_rows(rows, count, targets, made);
    if (!same && step->checker->options.deletes) {
        checker_marker_ages(step, chunk, rows, count);
        count = rows_without_markers(rows, count);
        same = same_rows(rows, count, targets, made);
    }
    free(rows);
    free(targets);
    if (!same)
        STEP_FAIL(step, chunk,
                  "is merged, and is not what its sources come to: %zu rows, not %zu", made,
                  count);
}

static void note_rows(struct catalog_checker *checker, const struct checked_chunk *chunk)
{
    for (size_t i = 0; i < chunk->row_count; i++) {
        struct row row = chunk->rows[i];
        const struct checked_chunk *before = checker->rows[row.number].chunk;
        if (checker->rows[row.number].added && !checked_adopts_anew(checker, before, chunk))
            world_fail(catalog_world(checker), "row %u is added twice: in %s, and in %s",
                       row.number, checker->rows[row.number].chunk->key, chunk->key);
        checker->rows[row.number].row = row;
        checker->rows[row.number].added = true;
        checker->rows[row.number].expired = false;
        checker->rows[row.number].added_us = catalog_now_us(checker);
        checker->rows[row.number].chunk = chunk;
        if (row.number > checker->newest[row.key])
            checker->newest[row.key] = row.number;
        if (row.number > checker->row_last)
            checker->row_last = row.number;
    }
}

static void checker_name(const struct step *step, const struct checked_chunk *chunk)
{
    const struct catalog_checker_options *options = &step->checker->options;
    int64_t age_us = checked_sent_us(step->checker) - chunk->drawn_us;
    if (chunk->ever_live || chunk->ever_deleting)
        STEP_FAIL(step, chunk, "comes to be live, and was %s before",
                  chunk->ever_condemned ? "condemned"
                  : chunk->live         ? "live"
                                        : "deleted");
    if (chunk->told_never)
        STEP_FAIL(step, chunk, "%s", "comes to be live after somebody was told that it is not");
    if (!is_home(step, chunk))
        STEP_FAIL(step, chunk, "comes to be live in %s, which is not its home", step->doc->key);
    if (chunk->ever_pending)
        return;
    if (chunk->drawn_us >= 0 && age_us > options->late_bound.us / 2 + options->standstill.us)
        STEP_FAIL(step, chunk, "comes to be live %" PRId64 " s after its name was generated",
                  age_us / 1000000);
}

/* The output of a finished range: its merge is not committed yet. */
static void becomes_pending(const struct step *step, struct checked_chunk *chunk)
{
    checker_name(step, chunk);
    checker_object(step, chunk);
    struct view id = step->now->merges[chunk->after->group].id;
    if (!checked_made_for(chunk, id, chunk->after->range))
        STEP_FAIL(step, chunk, "%s", "is entered as a range that it was not made for");
    chunk->ever_pending = true;
}

static void comes(const struct step *step, struct checked_chunk *chunk)
{
    const struct listed_group *grave = grave_into(step->now, view_of(chunk->key));
    checker_name(step, chunk);
    if (chunk->after->object.size > 0)
        checked_adopts(step->checker, chunk);
    checker_object(step, chunk);
    if (step->before && step->before->dropping && !step->before->dropped)
        STEP_FAIL(step, chunk, "comes to be live in %s, which is being dropped",
                  step->doc->key);
    chunk->live = chunk->ever_live = true;
    chunk->partition_life = step->checker->partition_life;
    chunk->came_us = catalog_now_us(step->checker);
    if (chunk->after->max_ms > step->checker->newest_ms)
        step->checker->newest_ms = chunk->after->max_ms;
    if (grave)
        checker_merge(step, chunk, grave);
    else if (chunk->lease)
        STEP_FAIL(step, chunk, "%s",
                  "is the output of a merge, and comes to be live without one");
    else
        note_rows(step->checker, chunk);
}

/* ---- Keys that leave ----------------------------------------------------------------- */

/* The key that a tombstone was merged into; empty if it is not a tombstone. */
static struct view into_of(const struct catalog_version *version, const struct listed *entry)
{
    return entry && entry->state == LISTED_TOMBSTONE ? version->groups[entry->group].into
                                                     : VIEW("");
}

/* Whether this write undeleted any of the chunk's sources. A source whose grace period is over goes
 * on to be deleted, perhaps in the same write. */
static bool is_undone(const struct step *step, const struct checked_chunk *chunk)
{
    const struct catalog_version *before = step->before;
    struct view key = view_of(chunk->key);
    for (size_t i = 0; before && i < before->count; i++) {
        const struct listed *entry = &before->entries[i];
        bool was =
            entry->state == LISTED_TOMBSTONE && is_target(&before->groups[entry->group], key);
        bool goes_on = state_of(entry->chunk->after) == LISTED_RETIRED;
        if (was && !goes_on &&
            !view_equal(into_of(step->now, entry->chunk->after),
                        before->groups[entry->group].into))
            return true;
    }
    return false;
}

/* Retention is measured from the newest data, and from the date if the store sends one. */
static void checker_retention(const struct step *step, const struct checked_chunk *chunk)
{
    struct catalog_checker *checker = step->checker;
    struct wall_time date = bucket_date(net_bucket(checker->run->net), SPAN_US(0));
    int64_t latest_ms = (date.us + 1000000 + checker->options.clocks_off.us) / 1000;
    int64_t now_ms = checker->newest_ms;
    if (checker->options.by_date && latest_ms < now_ms)
        now_ms = latest_ms;
    for (size_t i = 0; i < chunk->row_count; i++)
        if (checker->options.retention_ms == 0 ||
            chunk->rows[i].ms >= now_ms - checker->options.retention_ms)
            STEP_FAIL(step, chunk, "expires with a row that is only %" PRId64 " s old",
                      (now_ms - chunk->rows[i].ms) / 1000);
}

static void set_expired(struct catalog_checker *checker, struct checked_chunk *chunk,
                        bool expired)
{
    chunk->expired = expired;
    for (size_t i = 0; i < chunk->row_count; i++) {
        checker->rows[chunk->rows[i].number].expired = expired;
        checker->rows[chunk->rows[i].number].ever_expired |= expired;
    }
}

static void dies(const struct step *step, struct checked_chunk *chunk)
{
    const struct listed_group *group = &step->now->groups[chunk->after->group];
    chunk->live = false;
    for (size_t i = 0; i < targets_of(group); i++) {
        struct checked_chunk *target = checked_chunk_of(step->checker, target_of(group, i));
        enum listed_state from = state_of(target->before), to = state_of(target->after);
        if ((from != LISTED_NOWHERE && from != LISTED_PENDING) ||
            (to != LISTED_LIVE && to != LISTED_TOMBSTONE))
            STEP_FAIL(step, chunk, "is merged into %s, which was %s and is %s by that",
                      target->key, state_words[from], state_words[to]);
    }
    if (targets_of(group) == 0 && !is_undone(step, chunk)) {
        /* One write may contain the quarantine and the discard that follows it. */
        bool discarded = chunk->asked_discard && chunk->before &&
                         (chunk->before->quarantined || chunk->asked_quarantine);
        if (!step->now->dropping && !discarded)
            checker_retention(step, chunk);
        set_expired(step->checker, chunk, true);
    }
}

/* One write may contain several of a process's operations: a chunk may be added and, in the
 * same write, found to be past its retention. */
static void comes_and_goes(const struct step *step, struct checked_chunk *chunk)
{
    if (step->now->groups[chunk->after->group].into.size > 0)
        STEP_FAIL(step, chunk, "%s", "is merged, and was not live");
    comes(step, chunk);
    dies(step, chunk);
}

/* Whether the chunks that were merged into this one are live again, or became live and left
 * again in the same write. */
static bool is_back(const struct step *step, const struct checked_chunk *chunk,
                    struct view into)
{
    enum listed_state to = state_of(chunk->after);
    return to == LISTED_LIVE ||
           (to == LISTED_TOMBSTONE && !view_equal(into_of(step->now, chunk->after), into));
}

/* The target of an undone merge leaves. It was live, or it became live again in the same write; the
 * latter case is checked elsewhere. */
static void checker_undone_target(const struct step *step, const struct checked_chunk *chunk,
                                  struct checked_chunk *target)
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

/* An undone merge: all its sources become live again, and its target leaves. */
static void comes_back(const struct step *step, struct checked_chunk *chunk)
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
    const struct listed_group *merged = &step->before->groups[group];
    for (size_t i = 0; i < targets_of(merged); i++)
        checker_undone_target(step, chunk,
                              checked_chunk_of(step->checker, target_of(merged, i)));
    checker_object(step, chunk);
    chunk->live = true;
    chunk->came_us = catalog_now_us(step->checker);
    if (chunk->expired)
        set_expired(step->checker, chunk, false);
}

/* A tombstone with a different target: it became live again, and was merged again. */
static void stays_dead(const struct step *step, struct checked_chunk *chunk)
{
    if (view_equal(into_of(step->before, chunk->before), into_of(step->now, chunk->after)))
        return;
    comes_back(step, chunk);
    dies(step, chunk);
}

static void is_reaped(const struct step *step, struct checked_chunk *chunk)
{
    checker_elapsed(step, chunk, step->checker->options.grace, "moved to deleting");
    chunk->ever_deleting = true;
}

/* Whether this write commits the merge of a pending output. */
static bool is_committed_by(const struct step *step, const struct checked_chunk *chunk)
{
    struct view id = step->before->merges[chunk->before->group].id;
    for (size_t i = 0; i < step->now->group_count; i++)
        if (view_equal(step->now->groups[i].into, id))
            return true;
    return false;
}

static void is_condemned(const struct step *step, struct checked_chunk *chunk)
{
    if (state_of(chunk->before) == LISTED_PENDING && is_committed_by(step, chunk))
        STEP_FAIL(step, chunk, "%s", "is condemned, and its merge is committed");
    if (chunk->ever_live && !chunk->dropped) /* a dropped name is forgotten */
        STEP_FAIL(step, chunk, "%s", "is condemned, and was live");
    if (!is_home(step, chunk))
        STEP_FAIL(step, chunk, "is condemned in %s, which is not its home", step->doc->key);
    chunk->ever_deleting = chunk->ever_condemned = true;
}

static void is_dropped(const struct step *step, struct checked_chunk *chunk)
{
    checker_elapsed(step, chunk, step->checker->options.late_bound, "dropped");
    if (bucket_peek(net_bucket(step->checker->run->net), view_of(chunk->key)).data)
        STEP_FAIL(step, chunk, "%s", "is dropped, and its object is still there");
    if (chunk->own && checked_is_there(step->checker, chunk->adopted))
        STEP_FAIL(step, chunk, "is dropped, and its object %s is still there",
                  chunk->adopted->key);
    chunk->dropped = true;
}

/* ---- Blame --------------------------------------------------------------------------- */

/* A chunk that passed this many tests, and whose merges fail all the same, is quarantined. */
#define TESTED_MAX 3

/* A node that condemns the output of a dead worker's lease counts a try for each source. Only the
 * worker that held the lease can know the real cause, and it may condemn the output before it ends
 * the lease. */
static void note_blame(const struct step *step, const struct checked_chunk *output)
{
    struct checked_lease *lease = output->lease;
    struct net_sender sender = net_sender(step->checker->run->net);
    if (!lease || !sender.node)
        return;
    bool own = sender.node == lease->owner && sender.life == lease->owner_life;
    bool must = lease->died && !own && !step->checker->condemns_any[node_number(sender.node)];
    bool must_mark = must && lease->unbegun && lease->began;
    for (size_t i = 0; i < lease->source_count; i++) {
        lease->sources[i]->leases_ended_badly += own && !lease->bad;
        if (own && !lease->bad)
            checker_bad_range(step->checker, lease->sources[i]);
        lease->sources[i]->must_count += must && !lease->unbegun;
        lease->sources[i]->must_mark |= must_mark;
        lease->sources[i]->tried_alone = lease->source_count == 1;
    }
    lease->bad |= own;
}

/* Whether the node that writes has leased this chunk alone, and so may have tested it. */
static bool is_tested(const struct step *step, const struct checked_chunk *chunk)
{
    const struct catalog_checker *checker = step->checker;
    struct net_sender sender = net_sender(checker->run->net);
    for (size_t i = 0; i < checker->lease_count; i++) {
        const struct checked_lease *lease = checker->leases[i];
        if (lease->owner == sender.node && lease->owner_life == sender.life &&
            lease->source_count == 1 && lease->sources[0] == chunk && !lease->output->was_put)
            return true;
    }
    return false;
}

static void stays_live(const struct step *step, struct checked_chunk *chunk)
{
    const struct listed *before = chunk->before, *after = chunk->after;
    uint64_t counted = after->tries > before->tries ? after->tries - before->tries : 0;
    chunk->tries_counted += counted;
    bool passed = after->tries < before->tries && is_tested(step, chunk);
    if (after->tries < before->tries && !chunk->asked_quarantine && !passed)
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
    if (chunk->must_mark && !after->mark_begin)
        STEP_FAIL(step, chunk, "%s",
                  "may have killed its worker, and nobody will know it the next time either");
    if (after->quarantined && !before->quarantined && !chunk->asked_quarantine &&
        !chunk->spoilt && after->tries < step->checker->options.tries_max &&
        !(passed && after->tested >= TESTED_MAX))
        STEP_FAIL(step, chunk, "is quarantined after %" PRIu64 " tries, for no reason",
                  after->tries);
    if (after->quarantined && !before->quarantined && !chunk->asked_quarantine &&
        !chunk->spoilt && !chunk->tried_alone && !passed)
        STEP_FAIL(step, chunk, "%s", "is quarantined, and was not tried alone");
}

/* ---- One write ----------------------------------------------------------------------- */

#define WAY(from, to) ((from)*8 + (to))

static void checker_way(const struct step *step, struct checked_chunk *chunk)
{
    enum listed_state from = state_of(chunk->before), to = state_of(chunk->after);
    switch (WAY(from, to)) {
    case WAY(LISTED_NOWHERE, LISTED_LIVE): comes(step, chunk); break;
    case WAY(LISTED_NOWHERE, LISTED_PENDING): becomes_pending(step, chunk); break;
    case WAY(LISTED_PENDING, LISTED_LIVE): comes(step, chunk); break;
    case WAY(LISTED_PENDING, LISTED_CONDEMNED):
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
    case WAY(LISTED_PENDING, LISTED_PENDING):
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
        entry->chunk->begin_marked =
            entry->state == LISTED_LIVE && (entry->tries > 0 || entry->mark_begin);
    }
    for (size_t i = 0; i < step->now->count; i++) {
        const struct checked_chunk *chunk = step->now->entries[i].chunk;
        if (step->now->entries[i].state == LISTED_CONDEMNED && !chunk->before)
            note_blame(step, chunk);
    }
}

static void unmark(struct catalog_checker *checker)
{
    for (size_t i = 0; i < checker->chunk_count; i++) {
        struct checked_chunk *chunk = checker->chunks[i];
        if (chunk->undone && chunk->expired) /* its sources have its rows again */
            set_expired(checker, chunk, false);
        chunk->before = chunk->after = NULL;
        chunk->must_count = 0;
        chunk->must_mark = false;
        chunk->tried_alone = false;
        chunk->undone = false;
    }
}

/* ---- A split ------------------------------------------------------------------------- */

struct checked_doc *checked_doc_of(const struct catalog_checker *checker, struct view partition)
{
    for (struct checked_doc *doc = checker->docs; doc; doc = doc->next)
        if (view_equal(view_of(doc->partition), partition))
            return doc;
    return NULL;
}

static bool is_live_in(const struct catalog_version *version, const struct checked_chunk *chunk)
{
    for (size_t i = 0; version && i < version->count; i++)
        if (version->entries[i].chunk == chunk)
            return version->entries[i].state == LISTED_LIVE;
    return false;
}

/* Returns NULL if there is none. */
static const struct catalog_version *child_of(const struct step *step,
                                              const struct listed *entry)
{
    if (entry->group >= step->now->child_count)
        return NULL;
    const struct checked_doc *child =
        checked_doc_of(step->checker, step->now->children[entry->group]);
    return child ? child->now : NULL;
}

static void checker_children(const struct step *step)
{
    if (step->now->child_count == 0 || (step->before && step->before->child_count > 0))
        return;
    for (size_t i = 0; i < step->now->child_count; i++) {
        struct checked_doc *child = checked_doc_of(step->checker, step->now->children[i]);
        if (!child || !child->now) {
            world_fail(catalog_world(step->checker), "%s names a child that is not there",
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

/* ---- The write as a whole ------------------------------------------------------------ */

static void find_chunks(struct catalog_checker *checker, struct catalog_version *version)
{
    for (size_t i = 0; i < version->count; i++)
        version->entries[i].chunk = checked_chunk_of(checker, version->entries[i].key);
}

static void note_mark(const struct step *step)
{
    bool before = step->before && step->before->dropping;
    if (step->now->dropping && !before)
        step->doc->marked_us = catalog_now_us(step->checker);
    if (step->now->dropped && !(step->before && step->before->dropped))
        checker_removed(step->checker, step->doc, step->now);
}

void catalog_checker_written(struct catalog_checker *checker, struct checked_doc *doc,
                             struct catalog_version *now)
{
    struct step step = { checker, doc, doc->now, now };
    struct catalog_version *before = doc->now;
    find_chunks(checker, now);
    if (doc->reachable) /* finds the divided merge that this write gives up */
        mark_all(&step);
    doc->now = now;
    if (doc->reachable) {
        for (size_t i = 0; i < now->count; i++)
            checker_way(&step, now->entries[i].chunk);
        for (size_t i = 0; before && i < before->count; i++)
            if (!before->entries[i].chunk->after)
                checker_way(&step, before->entries[i].chunk);
        checker_children(&step);
        note_mark(&step);
        unmark(checker);
        checked_live_rows(checker);
    }
    catalog_version_free(before);
}
