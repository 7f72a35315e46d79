/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: the descriptions of leases for users, and their records. */
#include "base/parse.h"
#include "cli/lock/lock.h"

const char *brief_text(struct span span, char text[SPAN_TEXT_MAX])
{
    int64_t unit = span.us >= 1000000 || span.us <= -1000000 ? 1000000 : 1000;
    return span_text(SPAN_US(span.us / unit * unit), text);
}

bool names_add(struct names *names, struct view name)
{
    if (names->count == names->room) {
        size_t room = names->room > 0 ? 2 * names->room : 64;
        const char **more = arena_take(names->arena, room * sizeof *more);
        if (more && names->count > 0)
            memcpy(more, names->names, names->count * sizeof *more);
        names->names = more;
        names->room = room;
    }
    struct view copy = arena_copy(names->arena, name);
    names->no_memory = !names->names || !copy.data;
    if (!names->no_memory)
        names->names[names->count++] = copy.data;
    return !names->no_memory;
}

bool lease_is_active(const struct hf_lease_info *lease)
{
    return lease->state == HF_LEASE_ACTIVE || lease->state == HF_LEASE_OVERDUE ||
           lease->state == HF_LEASE_OVER;
}

void append_scopes(struct buffer *to, const struct hf_lease_info *lease)
{
    if (lease->scope_count == 0) {
        buffer_print(to, "everything in %s", lease->table);
        return;
    }
    struct view first = view_of(lease->scopes[0]);
    bool named = view_starts_with(first, VIEW("named:"));
    buffer_append(to, named ? view_from(first, strlen("named:")) : first);
    if (lease->scope_count > 1)
        buffer_print(to, " and %zu more", lease->scope_count - 1);
}

void append_barrier(struct buffer *to, const struct hf_lease_info *lease)
{
    char time[TIME_TEXT_MAX], span[SPAN_TEXT_MAX];
    time_text((struct wall_time){ lease->acquired_at_ms * 1000 }, time);
    struct view minute = view_first(view_from(view_of(time), 11), 5);
    buffer_append(to, VIEW("blocked: "));
    if (strcmp(lease->holder, HF_TABLE_REPLACED) == 0)
        buffer_append(to, VIEW("the table was damaged and replaced"));
    else
        escape_append(to, view_first(view_of(lease->holder), 60));
    buffer_print(to, " at %.*s UTC; free again ", VIEW_ARGS(minute));
    if (lease->takeover_ms > 0)
        buffer_print(to, "in %s", brief_text(SPAN_MS(lease->takeover_ms), span));
    else
        buffer_append(to, VIEW("now"));
}

/* Appends "in 18s at the earliest, by store time". */
static void append_takeover(struct buffer *to, const struct hf_lease_info *lease)
{
    char span[SPAN_TEXT_MAX];
    bool watched = lease->takeover_by == HF_PROOF_WATCHED;
    if (lease->takeover_ms <= 0)
        buffer_print(to, "now: the lease has ended, as proven by %s",
                     watched ? "watching" : "store time");
    else
        buffer_print(to, "in %s at the earliest, by %s",
                     brief_text(SPAN_MS(lease->takeover_ms), span),
                     watched ? "watching it stay unchanged until then"
                             : hf_proof_name(lease->takeover_by));
}

static const struct field takeover_record[] = TAKEOVER_RECORD;

/* The fields that only a lease has. A lease that has ended has no text. */
static const struct field grant_record[] = GRANT_RECORD;
const struct field lease_record[] = LEASE_RECORD;

const char lease_row[] =
    "[{place?}waiting {place}|{state}]\t{scope}\t[{slots?}slots={slots}|{mode}]\t"
    "[{barrier?}{blocked}|{holder}]\t[{place?}-|{token}]\t[{place?}-|{held_ms}]\t"
    "[{lease?}[{expires_in_ms?}in {expires_in_ms}|{state} ({expired})]|-]\t"
    "[{lease?}{waiters}|-]";
