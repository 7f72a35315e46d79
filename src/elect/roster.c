/* SPDX-License-Identifier: Apache-2.0 */
/* roster.c: the members of a group. Each member is an object with a modification time. The code
 * guards against clocks that differ: members are compared with the newest one in the group, by the
 * store's own timestamps. */
#include "elect/roster.h"

#include "base/check.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "store/pages.h"

#include <inttypes.h>
#include <stdio.h>

/* Some stores truncate modification times to the second. */
#define MODIFIED_GRAIN SPAN_S(1)

/* The maximum number of pages listed per group. This leaves some room for foreign keys. */
#define PAGES_MAX (4 * ROSTER_MEMBERS_MAX / LIST_PAGE_MAX)

/* A request may take one heartbeat interval, within these bounds. */
#define REQUEST_SHORTEST SPAN_S(1)
#define REQUEST_LONGEST  SPAN_S(10)

/* A failed heartbeat is retried after this fraction of the interval. */
#define RETRY_PART 4

#define BODY_MAX   (2 * KIB)
#define PREFIX_MAX (sizeof LAYOUT_ROSTER_FOLDER + ROSTER_GROUP_MAX + 1)

/* ---- Names --------------------------------------------------------------------------- */

static enum hf_status check_roster_name(const char *what, struct view text, size_t bytes_max,
                                        struct hf_error *error)
{
    if (layout_name_valid(text, bytes_max))
        return HF_OK;
    return error_set(
        error, HF_INVALID,
        "a %s name must be 1 to %zu characters of a-z 0-9 . _ - and must not start with a dot",
        what, bytes_max);
}

static enum hf_status check_beat(struct span beat, struct hf_error *error)
{
    if (beat.us >= ROSTER_BEAT_LEAST.us && beat.us <= ROSTER_BEAT_MOST.us)
        return HF_OK;
    return error_set(error, HF_INVALID, "the beat must be between 100ms and 1h");
}

static struct view group_prefix(struct view group, char space[PREFIX_MAX])
{
    int size = snprintf(space, PREFIX_MAX, LAYOUT_ROSTER_FOLDER "%.*s/", VIEW_ARGS(group));
    check(size > 0 && (size_t)size < PREFIX_MAX);
    return (struct view){ space, (size_t)size };
}

#define MEMBER_KEY_MAX (PREFIX_MAX + FINGERPRINT_MAX)

static struct view member_key(struct view group, struct view fingerprint,
                              char space[MEMBER_KEY_MAX])
{
    int size = snprintf(space, MEMBER_KEY_MAX, LAYOUT_ROSTER_FOLDER "%.*s/%.*s",
                        VIEW_ARGS(group), VIEW_ARGS(fingerprint));
    check(size > 0 && (size_t)size < MEMBER_KEY_MAX);
    return (struct view){ space, (size_t)size };
}

static struct mono_time deadline_of(struct store *store, struct span beat)
{
    struct span patience = beat.us > REQUEST_SHORTEST.us ? beat : REQUEST_SHORTEST;
    return mono_add(env_now(store->env), span_smaller(patience, REQUEST_LONGEST));
}

static struct view own_fingerprint(const struct roster *roster)
{
    return view_of(roster->fingerprint);
}

/* ---- Listing ------------------------------------------------------------------------- */

struct listing {
    struct store *store;
    struct view prefix;
    struct span beat;
    struct arena *arena;
    struct member *members;
    size_t count;
    size_t room;
    struct wall_time told; /* the store time of the reply, or INT64_MIN */
};

#define ROOM_FIRST 64

static bool reserve_member(struct listing *listing)
{
    if (listing->count < listing->room)
        return true;
    size_t room = listing->room > 0 ? 2 * listing->room : ROOM_FIRST;
    struct member *members = arena_take(listing->arena, room * sizeof *members);
    if (!members)
        return false;
    if (listing->count > 0)
        memcpy(members, listing->members, listing->count * sizeof *members);
    listing->members = members;
    listing->room = room;
    return true;
}

/* Keys that cannot belong to a member are left alone. */
static enum hf_status add_listed(struct listing *listing, const struct list_entry *entry,
                                 struct hf_error *error)
{
    struct view name = view_from(entry->key, listing->prefix.size);
    if (entry->is_prefix || !layout_name_valid(name, FINGERPRINT_MAX))
        return HF_OK;
    struct view kept = arena_copy(listing->arena, name);
    if (!kept.data || !reserve_member(listing))
        return error_no_memory(error);
    listing->members[listing->count++] =
        (struct member){ .fingerprint = kept, .modified = entry->info.modified };
    return HF_OK;
}

static struct wall_time newest_of(const struct member *members, size_t count)
{
    struct wall_time newest = { INT64_MIN };
    for (size_t i = 0; i < count; i++)
        if (wall_before(newest, members[i].modified))
            newest = members[i].modified;
    return newest;
}

static bool is_within(const struct member *member, struct wall_time now, struct span beat,
                      int64_t beats)
{
    return wall_since(now, member->modified).us <= beats * beat.us + MODIFIED_GRAIN.us;
}

/* The current time on the clock of the modification times, for a caller that is not a member: the
 * wall clock of the machine that stores the files, or the date of the reply. If all members of a
 * group are dead, only the clock shows it. */
static struct wall_time now_from_outside(const struct listing *listing)
{
    struct wall_time newest = newest_of(listing->members, listing->count);
    if (listing->store->traits.clock == STORE_CLOCK_BOOT)
        return env_wall(listing->store->env);
    return wall_before(newest, listing->told) ? listing->told : newest;
}

/* The same for a member, who needs no clock: it has just written its own object, so the newest time
 * is current. But the clock may have been set back, and a member that died before that has left a
 * time that is still to come. Since our own write, the clock has not passed more time than we
 * have. */
static struct wall_time now_from_inside(const struct roster *roster,
                                        const struct listing *listing)
{
    struct wall_time newest = newest_of(listing->members, listing->count);
    struct span since = mono_since(env_now(roster->store->env), roster->written);
    for (size_t i = 0; i < listing->count; i++) {
        const struct member *member = &listing->members[i];
        struct wall_time latest = wall_add(wall_add(member->modified, since), MODIFIED_GRAIN);
        if (view_equal(member->fingerprint, own_fingerprint(roster)) &&
            wall_before(latest, newest))
            newest = latest;
    }
    return newest;
}

static enum hf_status list_members(struct listing *listing, struct hf_error *error)
{
    struct pages pages = { .list = { .prefix = listing->prefix, .delimiter = VIEW("/") } };
    enum hf_status status = HF_OK;
    listing->told = (struct wall_time){ INT64_MIN };
    for (size_t page = 0; page < PAGES_MAX; page++) {
        pages.list.deadline = deadline_of(listing->store, listing->beat);
        if (status != HF_OK || listing->count == ROSTER_MEMBERS_MAX ||
            !pages_next(&pages, listing->store))
            break;
        if (pages.list.stamp.known && !pages.list.stamp.cached)
            listing->told = pages.list.stamp.date;
        for (size_t i = 0; i < pages.list.count; i++) {
            if (status != HF_OK || listing->count == ROSTER_MEMBERS_MAX)
                break;
            status = add_listed(listing, &pages.list.entries[i], error);
        }
    }
    status = pages_end(&pages, status, error);
    if (status != HF_OK)
        error_prefix(error, "list %.*s", VIEW_ARGS(listing->prefix));
    return status;
}

static void mark_present(const struct listing *listing, struct wall_time now)
{
    for (size_t i = 0; i < listing->count; i++)
        listing->members[i].present =
            is_within(&listing->members[i], now, listing->beat, ROSTER_BEATS_MISSED);
}

/* The interval that a member's object contains; 0: unknown. */
static struct span beat_of_member(const struct listing *listing, const struct member *member)
{
    char space[MEMBER_KEY_MAX];
    struct buffer body = BUFFER_INIT(BODY_MAX);
    struct view name, raw, group = view_first(listing->prefix, listing->prefix.size - 1);
    uint64_t beat_ms = 0;
    group = view_from(group, sizeof LAYOUT_ROSTER_FOLDER - 1);
    struct get_call get = { .key = member_key(group, member->fingerprint, space),
                            .body = &body,
                            .deadline = deadline_of(listing->store, listing->beat) };
    if (store_get(listing->store, &get) == HF_OK) {
        struct json_reader json = json_read(buffer_view(&body));
        for (json_enter_object(&json); json_next_member(&json, &name);) {
            bool taken = json_skip(&json, &raw) && view_equal(name, VIEW("beat_ms"));
            if (taken &&
                parse_u64(raw, (uint64_t)ROSTER_BEAT_MOST.us / 1000, &beat_ms, NULL) != HF_OK)
                beat_ms = 0;
        }
    }
    buffer_release(&body);
    return SPAN_MS(beat_ms);
}

static void judge_by_own_beats(struct listing *listing, struct wall_time now)
{
    size_t reads = 0;
    for (size_t i = 0; i < listing->count && reads < ROSTER_READS_MAX; i++) {
        struct member *member = &listing->members[i];
        if (member->present || !is_within(member, now, ROSTER_BEAT_MOST, ROSTER_BEATS_MISSED))
            continue;
        reads++;
        member->present =
            is_within(member, now, beat_of_member(listing, member), ROSTER_BEATS_MISSED);
    }
}

enum hf_status roster_members(struct store *store, struct view group, struct span beat,
                              bool own_beats, struct arena *arena, struct member_list *ret_list,
                              struct hf_error *error)
{
    char space[PREFIX_MAX];
    enum hf_status status = check_roster_name("group", group, ROSTER_GROUP_MAX, error);
    if (status == HF_OK)
        status = check_beat(beat, error);
    if (status != HF_OK)
        return status;
    struct listing listing = {
        .store = store, .prefix = group_prefix(group, space), .beat = beat, .arena = arena
    };
    status = list_members(&listing, error);
    if (status != HF_OK)
        return status;
    struct wall_time now = now_from_outside(&listing);
    mark_present(&listing, now);
    if (own_beats)
        judge_by_own_beats(&listing, now);
    *ret_list = (struct member_list){ listing.members, listing.count };
    return HF_OK;
}

/* ---- Our own member ------------------------------------------------------------------ */

/* The write needs no condition. If it gets no reply, the next heartbeat repeats it. */
static enum hf_status put_beat(struct roster *roster, struct hf_error *error)
{
    char space[MEMBER_KEY_MAX];
    struct buffer body = BUFFER_INIT(BODY_MAX);
    roster->beats++;
    buffer_append(&body, VIEW("{\"format\":\"" LAYOUT_ROSTER_FORMAT "\",\"label\":"));
    json_write_string(&body, view_of(roster->label));
    buffer_print(&body, ",\"beat_ms\":%" PRId64 ",\"beats\":%" PRIu64 "}\n",
                 roster->beat.us / 1000, roster->beats);
    if (body.failed) {
        buffer_release(&body);
        return error_no_memory(error);
    }
    struct put_call call = { .key = member_key(view_of(roster->group), own_fingerprint(roster),
                                               space),
                             .body = buffer_view(&body),
                             .quiet = true,
                             .deadline = deadline_of(roster->store, roster->beat) };
    struct mono_time sent = env_now(roster->store->env);
    enum hf_status status = store_put(roster->store, &call);
    buffer_release(&body);
    if (status == HF_OK) {
        roster->written = sent;
    } else {
        *error = call.error;
        error_prefix(error, "put %.*s", VIEW_ARGS(call.key));
    }
    return status;
}

/* Sets the members that are present, in byte order. They always include ourselves. */
static enum hf_status set_present(struct roster *roster, const struct listing *listing,
                                  struct arena *arena, struct hf_error *error)
{
    struct view *present = arena_take(arena, (listing->count + 1) * sizeof *present);
    struct view own = arena_copy(arena, own_fingerprint(roster));
    size_t count = 0;
    bool placed = false;
    if (!present || !own.data)
        return error_no_memory(error);
    for (size_t i = 0; i < listing->count; i++) {
        const struct member *member = &listing->members[i];
        int order = view_compare(member->fingerprint, own);
        if (order >= 0 && !placed) {
            present[count++] = own;
            placed = true;
        }
        bool left_out = RULE(ABSENT_ARE_LEFT_OUT) && !member->present;
        if (order != 0 && !left_out)
            present[count++] = member->fingerprint;
    }
    if (!placed)
        present[count++] = own;
    roster->present = present;
    roster->present_count = count;
    return HF_OK;
}

/* Deletes the objects of dead members. If a member was only slow, its next heartbeat writes its
 * object again. If a delete fails, it is retried after the next listing by any member. */
static void delete_dead_members(struct roster *roster, const struct listing *listing,
                                struct wall_time now)
{
    char space[MEMBER_KEY_MAX];
    size_t deleted = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const struct member *member = &listing->members[i];
        if (is_within(member, now, roster->beat, ROSTER_DEAD_BEATS) ||
            view_equal(member->fingerprint, own_fingerprint(roster)))
            continue;
        struct delete_call call = {
            .key = member_key(view_of(roster->group), member->fingerprint, space),
            .deadline = deadline_of(roster->store, roster->beat),
        };
        deleted++;
        if (store_delete(roster->store, &call) != HF_OK || deleted == ROSTER_DELETES_MAX)
            return;
    }
}

enum hf_status roster_look(struct roster *roster, struct hf_error *error)
{
    char space[PREFIX_MAX];
    struct arena arena = ARENA_INIT;
    struct listing listing = { .store = roster->store,
                               .prefix = group_prefix(view_of(roster->group), space),
                               .beat = roster->beat,
                               .arena = &arena };
    struct wall_time now = { 0 };
    enum hf_status status = list_members(&listing, error);
    if (status == HF_OK) {
        now = now_from_inside(roster, &listing);
        mark_present(&listing, now);
        status = set_present(roster, &listing, &arena, error);
    }
    if (status != HF_OK) {
        arena_release(&arena);
        return status;
    }
    arena_release(&roster->arena);
    roster->arena = arena;
    delete_dead_members(roster, &listing, now);
    return HF_OK;
}

/* When to repeat an action that has just been done or tried. */
static struct mono_time repeat_from(const struct roster *roster, struct mono_time now,
                                    enum hf_status status)
{
    int64_t early_us = status == HF_OK ? 0 : roster->beat.us - roster->beat.us / RETRY_PART;
    return (struct mono_time){ now.us - early_us };
}

static bool is_time(const struct roster *roster, struct mono_time last, struct mono_time now)
{
    return !mono_before(now, mono_add(last, roster->beat));
}

enum hf_status roster_keep(struct roster *roster, struct mono_time now, struct hf_error *error)
{
    struct hf_error list_error;
    enum hf_status put_status = HF_OK, list_status = HF_OK;
    if (is_time(roster, roster->beaten, now)) {
        put_status = put_beat(roster, error);
        roster->beaten = repeat_from(roster, now, put_status);
    }
    if (is_time(roster, roster->listed, now)) {
        list_status = roster_look(roster, &list_error);
        roster->listed = repeat_from(roster, now, list_status);
    }
    if (put_status == HF_OK && list_status != HF_OK)
        *error = list_error;
    return put_status != HF_OK ? put_status : list_status;
}

/* ---- Joining and leaving ------------------------------------------------------------- */

static void copy_truncated(char *to, size_t room, struct view text)
{
    struct view kept = view_first(text, room - 1);
    if (kept.size > 0)
        memcpy(to, kept.data, kept.size);
    to[kept.size] = '\0';
}

enum hf_status roster_join(struct roster *roster, struct store *store,
                           const struct roster_options *options, struct hf_error *error)
{
    struct view fingerprint = options->fingerprint;
    enum hf_status status = check_roster_name("group", options->group, ROSTER_GROUP_MAX, error);
    if (status == HF_OK && fingerprint.size > 0)
        status = check_roster_name("member", fingerprint, FINGERPRINT_MAX, error);
    if (status == HF_OK)
        status = check_beat(options->beat, error);
    if (status != HF_OK)
        return status;
    struct mono_time now = env_now(store->env);
    *roster =
        (struct roster){ .store = store, .beat = options->beat, .beaten = now, .listed = now };
    copy_truncated(roster->group, sizeof roster->group, options->group);
    copy_truncated(roster->label, sizeof roster->label, options->label);
    if (fingerprint.size > 0)
        copy_truncated(roster->fingerprint, sizeof roster->fingerprint, fingerprint);
    else
        env_random_hex(store->env, FINGERPRINT_DRAWN, roster->fingerprint);
    status = put_beat(roster, error);
    if (status == HF_UNSURE)
        roster_leave(roster); /* the put may have taken effect */
    if (status != HF_OK)
        return status;
    status = roster_look(roster, error);
    if (status != HF_OK)
        roster_leave(roster);
    return status;
}

void roster_leave(struct roster *roster)
{
    char space[MEMBER_KEY_MAX];
    struct delete_call call = { .key = member_key(view_of(roster->group),
                                                  own_fingerprint(roster), space),
                                .deadline = deadline_of(roster->store, roster->beat) };
    (void)store_delete(roster->store, &call);
    roster_release(roster);
}

void roster_release(struct roster *roster)
{
    arena_release(&roster->arena);
    roster->present = NULL;
    roster->present_count = 0;
}
