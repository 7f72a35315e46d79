/* SPDX-License-Identifier: Apache-2.0 */
/* lease_info.c: converts a lease in a table to the public struct, and applies the options that all
 * lists share. */
#include "api/lease_info.h"

#include "lock/lease_name.h"

#include <stdio.h>

int64_t shown_ms(struct span span)
{
    return span.us > 0 && span.us < 1000 ? 1 : span.us / 1000;
}

static bool add_info_text(struct arena *arena, struct view text, const char **ret_text)
{
    struct view copy = arena_copy(arena, text);
    *ret_text = copy.data;
    return copy.data != NULL;
}

static bool add_info_scopes(struct arena *arena, const struct lease *lease,
                            struct hf_lease_info *info)
{
    char text[SCOPE_TEXT_MAX + 1];
    const char **scopes = arena_take(arena, (lease->wish.scope_count + 1) * sizeof *scopes);
    if (!scopes)
        return false;
    for (size_t i = 0; i < lease->wish.scope_count; i++)
        if (!add_info_text(arena, view_of(scope_text(&lease->wish.scopes[i], text)),
                           &scopes[i]))
            return false;
    info->scopes = scopes;
    info->scope_count = lease->wish.scope_count;
    return true;
}

static bool add_lease_text(struct arena *arena, const struct table_snapshot *sight,
                           const struct lease *lease, struct hf_lease_info *info)
{
    struct buffer text = BUFFER_INIT(HF_LEASE_TEXT_MAX);
    if (lease->status == LEASE_ACTIVE)
        lease_name_append(&text, &(struct lease_name){ lease->token, lease->id, sight->key });
    bool done = !text.failed && add_info_text(arena, buffer_view(&text), &info->lease);
    buffer_release(&text);
    return done;
}

static size_t count_waiters(const struct lease_table *table, const struct lease *lease)
{
    size_t count = 0;
    for (size_t i = 0; i < table->waiter_count; i++)
        count += wishes_conflict(&table->waiters[i].wanted->asked.wish, &lease->wish);
    return count;
}

/* Fills in the members that only a granted lease has. */
static void fill_grant(const struct table_snapshot *sight, const struct lease *lease,
                       struct hf_lease_info *info)
{
    static const enum hf_proof proofs[] = { [PROOF_NONE] = HF_PROOF_NONE,
                                            [PROOF_STORE_TIME] = HF_PROOF_STORE_TIME,
                                            [PROOF_WATCHED] = HF_PROOF_WATCHED };
    const struct evidence *evidence = &sight->evidence;
    info->state = lease_shown_state(&sight->settings, lease, evidence);
    info->barrier = lease_is_barrier(lease);
    info->token = lease->token;
    info->renewals = lease->renewals;
    info->acquired_at_ms = lease->acquired_at.us / 1000;
    info->ends_at_ms = lease->expires_at.us / 1000;
    info->held_ms = shown_ms(lease_held(lease, evidence));
    if (lease->status != LEASE_ACTIVE)
        return;
    enum lease_proof proof;
    struct mono_time at = lease_provable_at(&sight->settings, lease, evidence, &proof);
    struct span left = mono_since(at, evidence->now);
    info->remaining_ms = shown_ms(lease_left(lease, evidence));
    info->takeover_ms = left.us > 0 ? shown_ms(left) : 0;
    info->takeover_by = proofs[proof];
    info->waiters = count_waiters(sight->table, lease);
}

bool lease_info_fill(struct arena *arena, const struct table_snapshot *sight,
                     const struct lease *lease, size_t place, struct hf_lease_info *ret_info)
{
    static const enum hf_mode modes[] = {
        [LEASE_EXCLUSIVE] = HF_EXCLUSIVE, [LEASE_SHARED] = HF_SHARED, [LEASE_SLOTS] = HF_SLOTS
    };
    struct hf_lease_info info = { .struct_size = sizeof info,
                                  .state = HF_LEASE_WAITING,
                                  .mode = modes[lease->wish.mode],
                                  .slots = lease->wish.slots,
                                  .ttl_ms = shown_ms(lease->wish.ttl),
                                  .place = place,
                                  .lease = "" };
    bool done = add_info_text(arena, sight->key, &info.table) &&
                add_info_text(arena, lease->id, &info.id) &&
                add_info_text(arena, lease->holder, &info.holder) &&
                add_info_text(arena, lease->output, &info.output) &&
                add_info_text(arena, lease->note, &info.note) &&
                add_info_scopes(arena, lease, &info);
    if (done && place == 0) {
        fill_grant(sight, lease, &info);
        done = add_lease_text(arena, sight, lease, &info);
    } else if (done) {
        info.turn = sight->table->waiters[place - 1].reserved;
        info.poll_ms = shown_ms(lease->wish.poll);
    }
    *ret_info = info;
    return done;
}

bool lease_info_keep(struct arena *arena, struct hf_lease_info *info)
{
    const char **scopes = arena_take(arena, (info->scope_count + 1) * sizeof *scopes);
    bool done = scopes && add_info_text(arena, view_of(info->table), &info->table) &&
                add_info_text(arena, view_of(info->id), &info->id) &&
                add_info_text(arena, view_of(info->lease), &info->lease) &&
                add_info_text(arena, view_of(info->holder), &info->holder) &&
                add_info_text(arena, view_of(info->output), &info->output) &&
                add_info_text(arena, view_of(info->note), &info->note);
    for (size_t i = 0; done && i < info->scope_count; i++)
        done = add_info_text(arena, view_of(info->scopes[i]), &scopes[i]);
    info->scopes = scopes;
    return done;
}

enum hf_status visit_leases(const struct table_snapshot *sight, lease_visit_fn *visit,
                            void *argument, struct hf_error *error)
{
    const struct lease_table *table = sight->table;
    for (size_t i = 0; i < table->lease_count + table->waiter_count; i++) {
        size_t place = i < table->lease_count ? 0 : i - table->lease_count + 1;
        struct lease waiter;
        if (place > 0)
            waiter = lease_asked(&table->waiters[place - 1].wanted->asked);
        enum hf_status status =
            visit(argument, sight, place > 0 ? &waiter : table->leases[i], place, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

enum hf_status list_proceeds(const struct hf_list_options *options, void *argument,
                             struct hf_error *error)
{
    if (!options->proceed || options->proceed(argument))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped by the caller");
}

enum hf_status list_damaged(const struct hf_list_options *options, void *argument,
                            struct view key, const struct hf_error *why, struct hf_error *error)
{
    char text[KEY_BYTES_MAX + 1];
    snprintf(text, sizeof text, "%.*s", VIEW_ARGS(key));
    if (options->damaged) {
        options->damaged(argument, text, why);
        return HF_OK;
    }
    *error = *why;
    error_prefix(error, "%.100s", text);
    return error->status;
}
