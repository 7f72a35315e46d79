/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c: who held a lock when. It guards against parts of knowledge that arrive late or twice:
 * each half of a hold, its beginning and its end, is replaced only by what is better known. */
#include "base/timeline.h"

#include "base/check.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* How well an end is known. */
enum knowledge { NOT_KNOWN, INFERRED, READ, DONE };

/* Most holds have an owner from the beginning and no other text, so it is in the same memory. */
struct held {
    struct timeline_hold hold;
    enum knowledge end_known;
    uint32_t bytes;
    uint64_t look;   /* the last look that saw it */
    int64_t last_ms; /* when it was last known to hold */
    char owner[];
};

struct timeline {
    size_t max, count, room;
    struct held **holds; /* by token */
    uint64_t dropped, look, next_token;
    int64_t complete_since_ms, looked_ms;
    size_t bytes;
};

const char *timeline_end_name(enum timeline_end end)
{
    static const char *const names[TIMELINE_END_COUNT] = {
        [TIMELINE_HELD] = "held",       [TIMELINE_RELEASE] = "release",
        [TIMELINE_EXPIRY] = "expiry",   [TIMELINE_BREAK] = "break",
        [TIMELINE_UNKNOWN] = "unknown",
    };
    check((unsigned)end < TIMELINE_END_COUNT);
    return names[end];
}

struct timeline *timeline_new(size_t holds_max, int64_t complete_since_ms)
{
    struct timeline *timeline = calloc(1, sizeof *timeline);
    check(holds_max > 0);
    if (!timeline)
        return NULL;
    timeline->max = holds_max;
    timeline->complete_since_ms = complete_since_ms;
    timeline->bytes = sizeof *timeline;
    return timeline;
}

static void free_text(const struct held *held, const char *text)
{
    if (text != held->owner)
        free((void *)(uintptr_t)text);
}

static void held_free(struct held *held)
{
    free_text(held, held->hold.owner);
    free_text(held, held->hold.holder);
    free_text(held, held->hold.scope);
    free_text(held, held->hold.by);
    free_text(held, held->hold.reason);
    free(held);
}

void timeline_free(struct timeline *timeline)
{
    if (!timeline)
        return;
    for (size_t i = 0; i < timeline->count; i++)
        held_free(timeline->holds[i]);
    free(timeline->holds);
    free(timeline);
}

/* ---- Parts --------------------------------------------------------------------------- */

/* The number of the first hold whose token is not below this one. Most parts are about the latest
 * holds, so the search begins there: the others are rarely in the processor's cache. */
static size_t find_hold(const struct timeline *timeline, uint64_t token)
{
    size_t low = timeline->count, high = low;
    for (size_t step = 1; low > 0 && timeline->holds[low - 1]->hold.token >= token; step *= 2) {
        high = low - 1;
        low = low > step ? low - step : 0;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (timeline->holds[middle]->hold.token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool set_hold_text(struct timeline *timeline, struct held *held, const char *text,
                          const char **member)
{
    if (!text || text[0] == '\0' || *member)
        return true;
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (!copy)
        return false;
    memcpy(copy, text, size);
    *member = copy;
    held->bytes += (uint32_t)size;
    timeline->bytes += size;
    return true;
}

static bool set_hold_texts(struct timeline *timeline, struct held *held,
                           const struct timeline_hold *part)
{
    struct timeline_hold *hold = &held->hold;
    return set_hold_text(timeline, held, part->owner, &hold->owner) &&
           set_hold_text(timeline, held, part->holder, &hold->holder) &&
           set_hold_text(timeline, held, part->scope, &hold->scope) &&
           set_hold_text(timeline, held, part->by, &hold->by) &&
           set_hold_text(timeline, held, part->reason, &hold->reason);
}

static void set_end(struct held *held, enum knowledge known, enum timeline_end end,
                    struct timeline_time ended)
{
    if (known <= held->end_known || end == TIMELINE_HELD)
        return;
    held->end_known = known;
    held->hold.end = end;
    held->hold.ended = ended;
}

/* What follows from a grant for the holds before it. Those before an exclusive one have ended
 * already. */
static void end_before(struct timeline *timeline, size_t index)
{
    const struct timeline_hold *next = &timeline->holds[index]->hold;
    for (size_t i = index; i > 0 && next->exclusive; i--) {
        struct held *held = timeline->holds[i - 1];
        int64_t expires = held->hold.expires_ms;
        bool expired = expires > 0 && expires <= next->began.at_ms;
        struct timeline_time ended = { expired ? expires : next->began.at_ms, TIMELINE_EXACT };
        if (!expired && ended.at_ms > held->last_ms)
            ended.slack_ms = ended.at_ms - held->last_ms;
        set_end(held, INFERRED, expired ? TIMELINE_EXPIRY : TIMELINE_UNKNOWN, ended);
        if (held->hold.exclusive)
            break;
    }
}

/* A time by our own clock is no later than an exact limit. The earliest time that is possible stays
 * the same. */
static void clamp_time(struct timeline_time *time, int64_t limit_ms)
{
    if (time->slack_ms == TIMELINE_OTHERS_CLOCK || time->at_ms <= limit_ms)
        return;
    int64_t excess_ms = time->at_ms - limit_ms;
    time->at_ms = limit_ms;
    time->slack_ms = time->slack_ms > excess_ms ? time->slack_ms - excess_ms : TIMELINE_EXACT;
}

/* An exclusive hold that is known to have begun exactly then bounds all before it. */
static bool bounds_holds_before(const struct timeline_hold *hold)
{
    return hold->exclusive && hold->began.slack_ms == TIMELINE_EXACT;
}

/* An exact time is that of an answer, which comes after the event that it tells of, but perhaps
 * also after answers about later events. No grant was later than the next one, and no hold ended
 * later than the next grant that excludes it. */
static void order_times(struct timeline *timeline, size_t changed)
{
    int64_t granted_ms = INT64_MAX, excluded_ms = INT64_MAX; /* the first after number i */
    size_t last = changed + 1; /* nothing after it bounds the one that changed */
    while (last < timeline->count && !bounds_holds_before(&timeline->holds[last]->hold))
        last++;
    for (size_t i = last < timeline->count ? last + 1 : last; i-- > 0;) {
        struct timeline_hold *hold = &timeline->holds[i]->hold;
        int64_t began_ms = hold->began.at_ms;
        clamp_time(&hold->began, granted_ms);
        clamp_time(&hold->ended, hold->exclusive ? granted_ms : excluded_ms);
        if (hold->began.slack_ms != TIMELINE_EXACT)
            continue;
        if (i < changed && bounds_holds_before(hold) && hold->began.at_ms == began_ms)
            break; /* those before it are in order already */
        granted_ms = hold->began.at_ms;
        if (hold->exclusive)
            excluded_ms = granted_ms;
    }
}

/* Drops an eighth at a time, because the others move. */
static void drop_oldest_holds(struct timeline *timeline)
{
    size_t count = 1 + timeline->max / 8;
    for (size_t i = 0; i < count; i++) {
        struct held *held = timeline->holds[i];
        if (held->hold.began.at_ms >= timeline->complete_since_ms)
            timeline->complete_since_ms = held->hold.began.at_ms + 1;
        timeline->bytes -= held->bytes;
        held_free(held);
    }
    timeline->dropped += count;
    timeline->count -= count;
    memmove(timeline->holds, timeline->holds + count, timeline->count * sizeof(struct held *));
}

/* A new hold at this place; NULL if memory runs out. */
static struct held *insert_hold(struct timeline *timeline, size_t index, const char *owner)
{
    size_t owner_size = owner ? strlen(owner) + 1 : 1;
    if (timeline->count == timeline->room) {
        size_t room = timeline->room > 0 ? 2 * timeline->room : 2;
        struct held **holds = realloc(timeline->holds, room * sizeof *holds);
        if (!holds)
            return NULL;
        timeline->bytes += (room - timeline->room) * sizeof *holds;
        timeline->holds = holds;
        timeline->room = room;
    }
    struct held *held = malloc(sizeof *held + owner_size);
    if (!held)
        return NULL;
    memset(held, 0, sizeof *held);
    memcpy(held->owner, owner ? owner : "", owner_size);
    held->hold.owner = owner_size > 1 ? held->owner : NULL;
    struct held **place = &timeline->holds[index];
    memmove(place + 1, place, (timeline->count - index) * sizeof *place);
    *place = held;
    timeline->count++;
    held->bytes = (uint32_t)(sizeof *held + owner_size);
    timeline->bytes += held->bytes;
    return held;
}

static void merge_into_hold(struct held *held, const struct timeline_hold *part, bool seen)
{
    struct timeline_hold *hold = &held->hold;
    bool better = hold->began.at_ms == 0 || (!seen && hold->began.slack_ms != TIMELINE_EXACT);
    if (part->began.at_ms > 0 && better)
        hold->began = part->began;
    if (part->began.at_ms > held->last_ms)
        held->last_ms = part->began.at_ms;
    if (part->expires_ms > hold->expires_ms)
        hold->expires_ms = part->expires_ms;
    if (part->mode && !hold->mode) {
        hold->mode = part->mode;
        hold->exclusive = part->exclusive;
    }
    set_end(held, seen ? READ : DONE, part->end, part->ended);
}

static bool add_to_hold(struct timeline *timeline, const struct timeline_hold *part, bool seen)
{
    size_t index = find_hold(timeline, part->token);
    bool known = index < timeline->count && timeline->holds[index]->hold.token == part->token;
    bool too_old = index == 0 && timeline->dropped > 0;
    if (!known && (part->began.at_ms == 0 || too_old))
        return true;
    struct held *held =
        known ? timeline->holds[index] : insert_hold(timeline, index, part->owner);
    if (!held)
        return false;
    held->hold.token = part->token;
    merge_into_hold(held, part, seen);
    bool done = set_hold_texts(timeline, held, part);
    if (seen)
        held->look = timeline->look;
    if (!known)
        end_before(timeline, index);
    /* What is already known to come after an exclusive hold ends this one, too. */
    if (!known && index + 1 < timeline->count)
        end_before(timeline, index + 1);
    if (!seen)
        order_times(timeline, index);
    if (timeline->count > timeline->max)
        drop_oldest_holds(timeline);
    return done;
}

bool timeline_note(struct timeline *timeline, const struct timeline_hold *hold)
{
    return add_to_hold(timeline, hold, /* seen */ false);
}

/* ---- Looks --------------------------------------------------------------------------- */

void timeline_begin_look(struct timeline *timeline)
{
    timeline->look++;
}

bool timeline_see(struct timeline *timeline, const struct timeline_hold *hold)
{
    return add_to_hold(timeline, hold, /* seen */ true);
}

void timeline_end_look(struct timeline *timeline, uint64_t next_token, int64_t at_ms)
{
    for (size_t i = 0; i < timeline->count; i++) {
        struct held *held = timeline->holds[i];
        if (held->look == timeline->look) {
            held->last_ms = at_ms > held->last_ms ? at_ms : held->last_ms;
        } else if (held->end_known == NOT_KNOWN && held->hold.token < next_token) {
            struct timeline_time ended = { at_ms, TIMELINE_EXACT };
            if (at_ms > held->last_ms)
                ended.slack_ms = at_ms - held->last_ms;
            set_end(held, INFERRED, TIMELINE_UNKNOWN, ended);
            order_times(timeline, i);
        }
    }
    timeline->looked_ms = at_ms;
    if (next_token > timeline->next_token)
        timeline->next_token = next_token;
}

/* ---- Tables -------------------------------------------------------------------------- */

static enum timeline_end end_by_state(enum hf_lease_state state)
{
    switch (state) {
    case HF_LEASE_COMPLETED:
    case HF_LEASE_FAILED:
    case HF_LEASE_RELEASED: return TIMELINE_RELEASE;
    case HF_LEASE_EXPIRED: return TIMELINE_EXPIRY;
    case HF_LEASE_BROKEN: return TIMELINE_BREAK;
    case HF_LEASE_ACTIVE:
    case HF_LEASE_OVERDUE: /* it may still be renewed */
    case HF_LEASE_OVER:
    case HF_LEASE_WAITING:
    case HF_LEASE_STATE_COUNT:
    default: return TIMELINE_HELD;
    }
}

bool timeline_read_lease(const struct hf_lease_info *lease, struct timeline_hold *ret_hold)
{
    static const char *const modes[] = {
        [HF_EXCLUSIVE] = "exclusive", [HF_SHARED] = "shared", [HF_SLOTS] = "slots"
    };
    bool of_scope = lease->relation == HF_RELATION_OF_SCOPE;
    enum timeline_end end = end_by_state(lease->state);
    if (lease->place > 0 || lease->barrier || lease->relation == HF_RELATION_NONE)
        return false;
    *ret_hold = (struct timeline_hold){
        .token = lease->token,
        .began = { lease->acquired_at_ms, TIMELINE_OTHERS_CLOCK },
        .end = end,
        /* A lease on another scope may overlap with others of the kind. */
        .exclusive = lease->mode == HF_EXCLUSIVE && of_scope,
        .mode = modes[lease->mode],
        .holder = lease->holder,
    };
    if (end == TIMELINE_HELD)
        ret_hold->expires_ms = lease->ends_at_ms;
    else
        ret_hold->ended = (struct timeline_time){ lease->ends_at_ms, TIMELINE_OTHERS_CLOCK };
    if (!of_scope && lease->scope_count > 0)
        ret_hold->scope = lease->scopes[0];
    return true;
}

uint64_t timeline_read_audit(const char *json, struct buffer *by, struct buffer *why)
{
    struct json_reader reader = json_read(view_of(json));
    struct json_text name, value;
    uint64_t token = 0;
    bool entered = json_enter_object(&reader);
    while (entered && json_next_pair(&reader, &name, &value)) {
        bool is_text = value.kind == JSON_KIND_STRING;
        if (json_text_is(&name, VIEW("token")) && value.kind == JSON_KIND_NUMBER) {
            struct json_reader number = json_read(value.text);
            json_take_u64(&number, UINT64_MAX, &token);
        } else if (json_text_is(&name, VIEW("by")) && is_text) {
            json_unescape(value.text, by);
        } else if (json_text_is(&name, VIEW("why")) && is_text) {
            json_unescape(value.text, why);
        }
    }
    return token;
}

/* ---- What is known ------------------------------------------------------------------- */

size_t timeline_count(const struct timeline *timeline)
{
    return timeline->count;
}

const struct timeline_hold *timeline_at(const struct timeline *timeline, size_t index)
{
    check(index < timeline->count);
    return &timeline->holds[index]->hold;
}

const char *timeline_began_name(const struct timeline *timeline, size_t index)
{
    const struct timeline_hold *hold = timeline_at(timeline, index);
    if (index > 0 && timeline_at(timeline, index - 1)->end == TIMELINE_EXPIRY)
        return "takeover";
    return hold->began.slack_ms == TIMELINE_EXACT ? "grant" : "seen";
}

uint64_t timeline_dropped(const struct timeline *timeline)
{
    return timeline->dropped;
}

int64_t timeline_complete_since(const struct timeline *timeline)
{
    return timeline->complete_since_ms;
}

int64_t timeline_looked_at(const struct timeline *timeline)
{
    return timeline->looked_ms;
}

size_t timeline_bytes(const struct timeline *timeline)
{
    return timeline->bytes;
}

bool timeline_next_gap(const struct timeline *timeline, size_t *at,
                       struct timeline_gap *ret_gap)
{
    int64_t free_ms = 0; /* since when nobody has held it */
    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_hold *hold = timeline_at(timeline, i);
        const struct timeline_hold *next =
            i + 1 < timeline->count ? timeline_at(timeline, i + 1) : NULL;
        int64_t end = hold->end == TIMELINE_HELD ? INT64_MAX : hold->ended.at_ms;
        free_ms = end > free_ms ? end : free_ms;
        if (i < *at || free_ms == INT64_MAX || (next && next->began.at_ms <= free_ms))
            continue;
        *at = i + 1;
        ret_gap->from_ms = free_ms;
        ret_gap->to_ms = next ? next->began.at_ms : 0;
        ret_gap->certain = (next ? next->token : timeline->next_token) == hold->token + 1;
        return true;
    }
    *at = timeline->count;
    return false;
}
