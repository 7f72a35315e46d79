/* SPDX-License-Identifier: Apache-2.0 */
/* probe_turn.c: which of many clients probes. It guards against 200 clients that probe a new bucket
 * at the same time, none of which is done before its deadline. */
#include "store/probe_turn.h"

#include "base/layout.h"
#include "base/rule.h"

#include <stdio.h>

#define TURN_TIME SPAN_S(10) /* of each request */

/* A probe sends about so many requests in a row. One client is expected to need that time, but no
 * more than PROBE_MAX, because the store is faster once only one client uses it. */
#define PROBE_REQUESTS 64
#define PROBE_MAX      SPAN_S(5)

static bool announce(struct store *store, struct probe_turn *turn)
{
    char random[17];
    env_random_hex(store->env, 16, random);
    snprintf(turn->keys[0], sizeof turn->keys[0], LAYOUT_PROBE_TURNS "%s", random);
    struct put_call put = { .key = view_of(turn->keys[0]),
                            .body = VIEW("probe"),
                            .condition = if_absent(),
                            .deadline = mono_add(env_now(store->env), TURN_TIME) };
    enum hf_status status = store_put(store, &put);
    turn->count = status == HF_OK || status == HF_UNSURE; /* it may be there */
    return status == HF_OK;
}

static void find_those_ahead(struct store *store, struct probe_turn *turn)
{
    struct list_call list = { .prefix = VIEW(LAYOUT_PROBE_TURNS),
                              .max = PROBE_TURNS_AHEAD,
                              .deadline = mono_add(env_now(store->env), TURN_TIME) };
    enum hf_status status = store_list(store, &list);
    for (size_t i = 0; status == HF_OK && i < list.count; i++) {
        struct view key = list.entries[i].key;
        bool ahead = view_compare(key, view_of(turn->keys[0])) < 0;
        if (ahead && key.size < sizeof turn->keys[0])
            snprintf(turn->keys[turn->count++], sizeof turn->keys[0], "%.*s", VIEW_ARGS(key));
    }
    list_release(&list);
}

struct span probe_turn_take(struct store *store, struct probe_turn *turn)
{
    struct mono_time began = env_now(store->env);
    turn->count = 0;
    if (RULE(ONE_PROBES_FOR_ALL) && announce(store, turn))
        find_those_ahead(store, turn);
    if (turn->count <= 1)
        return SPAN_US(0);
    struct span request = SPAN_US(mono_since(env_now(store->env), began).us / 2);
    struct span probe = span_smaller(SPAN_US(PROBE_REQUESTS * request.us), PROBE_MAX);
    return SPAN_US((int64_t)(turn->count - 1) * probe.us);
}

void probe_turn_end(struct store *store, const struct probe_turn *turn, bool probed)
{
    struct delete_call removals[1 + PROBE_TURNS_AHEAD];
    size_t count = probed || turn->count == 0 ? turn->count : 1;
    for (size_t i = 0; i < count; i++)
        removals[i] =
            (struct delete_call){ .key = view_of(turn->keys[i]),
                                  .deadline = mono_add(env_now(store->env), TURN_TIME) };
    if (count > 0)
        (void)store_delete_many(store, removals, count);
}
