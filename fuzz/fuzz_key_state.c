/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_key_state.c: parses arbitrary bytes as the state of a key. An accepted state must be
 * written and read back as the same, and every change of it must leave a state that can be
 * written. */
#include "base/check.h"
#include "fuzz.h"
#include "key/state.h"
#include "lease/table.h"

static void is_same(const struct state_version *a, const struct state_version *b)
{
    check(a->number == b->number && a->token == b->token && a->size == b->size);
    check(strcmp(a->etag, b->etag) == 0 && a->at.us == b->at.us);
    check(a->removed == b->removed && a->has_body == b->has_body);
    check(view_equal(a->bytes, b->bytes) && view_equal(a->unknown, b->unknown));
}

static void survives_the_round_trip(const struct key_state *state)
{
    struct buffer text = BUFFER_INIT(4 * TABLE_STATE_MAX);
    struct key_state again;
    struct hf_error error;
    state_init(&again);
    if (state_write(state, &text)) { /* else it is too long, once its unknown members are in */
        check(state_read(buffer_view(&text), &again, &error) == HF_OK);
        is_same(&again.now, &state->now);
        check(again.staged == state->staged && again.old_count == state->old_count);
        check(again.lost == state->lost);
        if (state->staged)
            check(strcmp(again.stage.txn, state->stage.txn) == 0);
        if (state->staged && state->stage.changes)
            is_same(&again.stage.next, &state->stage.next);
    }
    state_release(&again);
    buffer_release(&text);
}

/* A stage is promoted or discarded; then it is gone, and no body that is in use counts as old. */
static void moves(struct view text, bool promote)
{
    struct key_state state;
    state_init(&state);
    check(state_read(text, &state, NULL) == HF_OK);
    if (promote)
        state_promote(&state);
    else
        state_discard(&state);
    check(!state.staged);
    for (size_t i = 0; i < state.old_count; i++)
        check(!state_names_body(&state, &state.old[i]));
    survives_the_round_trip(&state);
    state_release(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = { (const char *)data, size };
    struct key_state state;
    struct hf_error error;
    state_init(&state);
    if (state_read(text, &state, &error) == HF_OK) {
        survives_the_round_trip(&state);
        if (state.staged) {
            moves(text, true);
            moves(text, false);
        }
    } else {
        check(error.status == HF_CORRUPT || error.status == HF_UNAVAILABLE);
        check(!state.staged && state.now.number == 0);
    }
    state_release(&state);
    return 0;
}
