#include "api/lease_info.h"

#include "lock/lease_name.h"

int64_t shown_ms(struct span span)
{
    return span.us > 0 && span.us < 1000 ? 1 : span.us / 1000;
}

static bool add_text(struct arena *arena, struct view text, const char **ret_text)
{
    struct view copy = arena_copy(arena, text);
    *ret_text = copy.data;
    return copy.data != NULL;
}

static bool add_scopes(struct arena *arena, const struct lease *lease,
                       struct hf_lease_info *info)
{
    char text[SCOPE_TEXT_MAX + 1];
    const char **scopes = arena_take(arena, (lease->scope_count + 1) * sizeof *scopes);
    if (!scopes)
        return false;
    for (size_t i = 0; i < lease->scope_count; i++)
        if (!add_text(arena, view_of(scope_text(&lease->scopes[i], text)), &scopes[i]))
            return false;
    info->scopes = scopes;
    info->scope_count = lease->scope_count;
    return true;
}

static bool add_lease_text(struct arena *arena, const struct sight *sight,
                           const struct lease *lease, struct hf_lease_info *info)
{
    struct buffer text = BUFFER_INIT(HF_LEASE_TEXT_MAX);
    if (lease->status == LEASE_ACTIVE)
        lease_name_append(&text, &(struct lease_name){ lease->token, lease->id, sight->key });
    bool done = !text.failed && add_text(arena, buffer_view(&text), &info->lease);
    buffer_release(&text);
    return done;
}

static size_t count_waiters(const struct lease_table *table, const struct lease *lease)
{
    size_t count = 0;
    for (size_t i = 0; i < table->waiter_count; i++)
        count += leases_conflict(table->waiters[i].wanted, lease);
    return count;
}

/* What only a lease has. */
static void fill_grant(const struct sight *sight, const struct lease *lease,
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

bool lease_info_fill(struct arena *arena, const struct sight *sight, const struct lease *lease,
                     size_t place, struct hf_lease_info *ret_info)
{
    static const enum hf_mode modes[] = {
        [LEASE_EXCLUSIVE] = HF_EXCLUSIVE, [LEASE_SHARED] = HF_SHARED, [LEASE_SLOTS] = HF_SLOTS
    };
    struct hf_lease_info info = { .struct_size = sizeof info,
                                  .state = HF_LEASE_WAITING,
                                  .mode = modes[lease->mode],
                                  .slots = lease->slots,
                                  .ttl_ms = shown_ms(lease->ttl),
                                  .place = place,
                                  .lease = "" };
    bool done = add_text(arena, sight->key, &info.table) &&
                add_text(arena, lease->id, &info.id) &&
                add_text(arena, lease->holder, &info.holder) &&
                add_text(arena, lease->output, &info.output) &&
                add_text(arena, lease->note, &info.note) && add_scopes(arena, lease, &info);
    if (done && place == 0) {
        fill_grant(sight, lease, &info);
        done = add_lease_text(arena, sight, lease, &info);
    } else if (done) {
        info.turn = sight->table->waiters[place - 1].reserved;
        info.poll_ms = shown_ms(lease->poll);
    }
    *ret_info = info;
    return done;
}
