#include "elect/roster.h"

#include "base/check.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/rule.h"
#include "store/pages.h"

#include <inttypes.h>
#include <stdio.h>

/* Some stores cut modified times to the second. */
#define MODIFIED_GRAIN SPAN_S(1)

/* Keys of a group that are looked at, whatever they are: with some room for what is not ours. */
#define PAGES_MAX (4 * ROSTER_MEMBERS_MAX / LIST_PAGE_MAX)

/* A request may take a beat, within these. */
#define REQUEST_SHORTEST SPAN_S(1)
#define REQUEST_LONGEST  SPAN_S(10)

/* A beat that failed is tried again after this part of a beat. */
#define RETRY_PART 4

#define BODY_MAX   (2 * KIB)
#define PREFIX_MAX (sizeof LAYOUT_ROSTER_FOLDER + ROSTER_GROUP_MAX + 1)

/* ---- Names --------------------------------------------------------------------------- */

static enum hf_status check_name(const char *what, struct view text, size_t bytes_max,
                                 struct hf_error *error)
{
    if (layout_name_valid(text, bytes_max))
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "the name of a %s has 1 to %zu of a-z 0-9 . _ - and starts with no dot",
                     what, bytes_max);
}

static enum hf_status check_beat(struct span beat, struct hf_error *error)
{
    if (beat.us >= ROSTER_BEAT_LEAST.us && beat.us <= ROSTER_BEAT_MOST.us)
        return HF_OK;
    return error_set(error, HF_INVALID, "a beat is 100ms to 1h");
}

static struct view prefix_of(struct view group, char space[PREFIX_MAX])
{
    int size = snprintf(space, PREFIX_MAX, LAYOUT_ROSTER_FOLDER "%.*s/", VIEW_ARGS(group));
    check(size > 0 && (size_t)size < PREFIX_MAX);
    return (struct view){ space, (size_t)size };
}

#define MEMBER_KEY_MAX (PREFIX_MAX + FINGERPRINT_MAX)

static struct view key_of(struct view group, struct view fingerprint,
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

/* ---- Listing ------------------------------------------------------------------------- */

struct listing {
    struct store *store;
    struct view prefix;
    struct span beat;
    struct arena *arena;
    struct member *members;
    size_t count;
    size_t room;
    struct wall_time told; /* the store's time, as its reply had it; or INT64_MIN */
};

#define ROOM_FIRST 64

static bool make_room(struct listing *listing)
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

/* Keys that cannot be a member's are somebody else's, and left alone. */
static enum hf_status take_entry(struct listing *listing, const struct list_entry *entry,
                                 struct hf_error *error)
{
    struct view name = view_from(entry->key, listing->prefix.size);
    if (entry->is_prefix || !layout_name_valid(name, FINGERPRINT_MAX))
        return HF_OK;
    struct view kept = arena_copy(listing->arena, name);
    if (!kept.data || !make_room(listing))
        return error_no_memory(error);
    listing->members[listing->count++] =
        (struct member){ .fingerprint = kept, .modified = entry->info.modified };
    return HF_OK;
}

static enum hf_status take_pages(struct listing *listing, struct hf_error *error)
{
    struct pages pages = { .list = { .prefix = listing->prefix,
                                     .delimiter = VIEW("/"),
                                     .deadline = deadline_of(listing->store, listing->beat) } };
    enum hf_status status = HF_OK;
    for (size_t page = 0; page < PAGES_MAX && listing->count < ROSTER_MEMBERS_MAX &&
                          status == HF_OK && pages_next(&pages, listing->store);
         page++) {
        if (pages.list.stamp.known && !pages.list.stamp.cached)
            listing->told = pages.list.stamp.date;
        for (size_t i = 0; i < pages.list.count && status == HF_OK; i++)
            if (listing->count < ROSTER_MEMBERS_MAX)
                status = take_entry(listing, &pages.list.entries[i], error);
        pages.list.deadline = deadline_of(listing->store, listing->beat);
    }
    return pages_end(&pages, status, error);
}

static struct wall_time newest_of(const struct member *members, size_t count)
{
    struct wall_time newest = { INT64_MIN };
    for (size_t i = 0; i < count; i++)
        if (wall_before(newest, members[i].modified))
            newest = members[i].modified;
    return newest;
}

static bool is_within(const struct member *member, struct wall_time newest, struct span beat,
                      int64_t beats)
{
    return wall_since(newest, member->modified).us <= beats * beat.us + MODIFIED_GRAIN.us;
}

/* The time now, on the clock that the modified times are of: the date of the reply, or the calendar
 * of the machine whose files they are. INT64_MIN: unknown. */
static struct wall_time time_now(const struct listing *listing)
{
    bool local = listing->store->traits.clock == STORE_CLOCK_BOOT;
    return local ? env_wall(listing->store->env) : listing->told;
}

/* `from_outside`: by one who is no member. A member has just written itself, so that the newest of
 * all tells the time; of a group whose members are all dead only the clock does. */
static enum hf_status list(struct listing *listing, bool from_outside, struct hf_error *error)
{
    listing->told = (struct wall_time){ INT64_MIN };
    enum hf_status status = take_pages(listing, error);
    if (status != HF_OK) {
        error_prefix(error, "list %.*s", VIEW_ARGS(listing->prefix));
        return status;
    }
    struct wall_time newest = newest_of(listing->members, listing->count);
    if (from_outside && wall_before(newest, time_now(listing)))
        newest = time_now(listing);
    for (size_t i = 0; i < listing->count; i++)
        listing->members[i].present =
            is_within(&listing->members[i], newest, listing->beat, ROSTER_BEATS_MISSED);
    return HF_OK;
}

enum hf_status roster_members(struct store *store, struct view group, struct span beat,
                              struct arena *arena, struct member **ret_members,
                              size_t *ret_count, struct hf_error *error)
{
    char space[PREFIX_MAX];
    enum hf_status status = check_name("group", group, ROSTER_GROUP_MAX, error);
    if (status == HF_OK)
        status = check_beat(beat, error);
    if (status != HF_OK)
        return status;
    struct listing listing = {
        .store = store, .prefix = prefix_of(group, space), .beat = beat, .arena = arena
    };
    status = list(&listing, /* from_outside */ true, error);
    if (status == HF_OK) {
        *ret_members = listing.members;
        *ret_count = listing.count;
    }
    return status;
}

/* ---- A member of ours ---------------------------------------------------------------- */

static struct view own_of(const struct roster *roster)
{
    return view_of(roster->fingerprint);
}

static bool encode(const struct roster *roster, struct buffer *body)
{
    buffer_append(body, VIEW("{\"format\":\"" LAYOUT_ROSTER_FORMAT "\",\"label\":"));
    json_write_string(body, view_of(roster->label));
    buffer_print(body, ",\"beat_ms\":%" PRId64 ",\"beats\":%" PRIu64 "}\n",
                 roster->beat.us / 1000, roster->beats);
    return !body->failed;
}

/* A write without an answer is written again with the next beat: it needs no condition. */
static enum hf_status put_beat(struct roster *roster, struct hf_error *error)
{
    char space[MEMBER_KEY_MAX];
    struct buffer body = BUFFER_INIT(BODY_MAX);
    roster->beats++;
    if (!encode(roster, &body)) {
        buffer_release(&body);
        return error_no_memory(error);
    }
    struct put_call call = { .key = key_of(view_of(roster->group), own_of(roster), space),
                             .body = buffer_view(&body),
                             .quiet = true,
                             .deadline = deadline_of(roster->store, roster->beat) };
    enum hf_status status = store_put(roster->store, &call);
    buffer_release(&body);
    if (status != HF_OK) {
        *error = call.error;
        error_prefix(error, "put %.*s", VIEW_ARGS(call.key));
    }
    return status;
}

/* Those who are present, and we, whatever the listing says of us; in byte order. */
static enum hf_status keep_present(struct roster *roster, const struct listing *listing,
                                   struct arena *arena, struct hf_error *error)
{
    struct view *present = arena_take(arena, (listing->count + 1) * sizeof *present);
    struct view own = arena_copy(arena, own_of(roster));
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
        if (order != 0 && (member->present || !RULE(ABSENT_ARE_LEFT_OUT)))
            present[count++] = member->fingerprint;
    }
    if (!placed)
        present[count++] = own;
    roster->present = present;
    roster->present_count = count;
    return HF_OK;
}

/* One that is deleted by mistake is written again with its next beat. What fails here is found
 * again by the next listing, anybody's. */
static void bury(struct roster *roster, const struct listing *listing)
{
    char space[MEMBER_KEY_MAX];
    struct wall_time newest = newest_of(listing->members, listing->count);
    size_t buried = 0;
    for (size_t i = 0; i < listing->count && buried < ROSTER_BURIALS_MAX; i++) {
        const struct member *member = &listing->members[i];
        if (is_within(member, newest, roster->beat, ROSTER_DEAD_BEATS) ||
            view_equal(member->fingerprint, own_of(roster)))
            continue;
        struct delete_call call = {
            .key = key_of(view_of(roster->group), member->fingerprint, space),
            .deadline = deadline_of(roster->store, roster->beat),
        };
        buried++;
        if (store_delete(roster->store, &call) != HF_OK)
            return;
    }
}

enum hf_status roster_look(struct roster *roster, struct hf_error *error)
{
    char space[PREFIX_MAX];
    struct arena arena = ARENA_INIT;
    struct listing listing = { .store = roster->store,
                               .prefix = prefix_of(view_of(roster->group), space),
                               .beat = roster->beat,
                               .arena = &arena };
    enum hf_status status = list(&listing, /* from_outside */ false, error);
    if (status == HF_OK)
        status = keep_present(roster, &listing, &arena, error);
    if (status != HF_OK) {
        arena_release(&arena);
        return status;
    }
    arena_release(&roster->arena);
    roster->arena = arena;
    bury(roster, &listing);
    return HF_OK;
}

/* When to do again what was done, or tried, now. */
static struct mono_time done_at(const struct roster *roster, struct mono_time now,
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
        roster->beaten = done_at(roster, now, put_status);
    }
    if (is_time(roster, roster->listed, now)) {
        list_status = roster_look(roster, &list_error);
        roster->listed = done_at(roster, now, list_status);
    }
    if (put_status == HF_OK && list_status != HF_OK)
        *error = list_error;
    return put_status != HF_OK ? put_status : list_status;
}

/* ---- Coming and going ---------------------------------------------------------------- */

static void copy_text(char *to, size_t room, struct view text)
{
    struct view kept = view_first(text, room - 1);
    if (kept.size > 0)
        memcpy(to, kept.data, kept.size);
    to[kept.size] = '\0';
}

static enum hf_status check_options(struct view group, struct view fingerprint,
                                    struct span beat, struct hf_error *error)
{
    enum hf_status status = check_name("group", group, ROSTER_GROUP_MAX, error);
    if (status == HF_OK && fingerprint.size > 0)
        status = check_name("member", fingerprint, FINGERPRINT_MAX, error);
    return status == HF_OK ? check_beat(beat, error) : status;
}

enum hf_status roster_join(struct roster *roster, struct store *store, struct view group,
                           struct view fingerprint, struct view label, struct span beat,
                           struct hf_error *error)
{
    enum hf_status status = check_options(group, fingerprint, beat, error);
    if (status != HF_OK)
        return status;
    struct mono_time now = env_now(store->env);
    *roster = (struct roster){ .store = store, .beat = beat, .beaten = now, .listed = now };
    copy_text(roster->group, sizeof roster->group, group);
    copy_text(roster->label, sizeof roster->label, label);
    if (fingerprint.size > 0)
        copy_text(roster->fingerprint, sizeof roster->fingerprint, fingerprint);
    else
        env_random_hex(store->env, FINGERPRINT_DRAWN, roster->fingerprint);
    status = put_beat(roster, error);
    if (status == HF_UNSURE)
        roster_leave(roster); /* it may have landed */
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
    struct delete_call call = { .key = key_of(view_of(roster->group), own_of(roster), space),
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
