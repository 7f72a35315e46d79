/* SPDX-License-Identifier: Apache-2.0 */
/* swap.c: puts an object until the outcome is known, or is given up as unknown. */
#include "index/swap.h"

/* How many times an unanswered put is sent, and the pause after the first attempt. */
#define PUT_TRIES_MAX   4
#define PUT_PAUSE_FIRST SPAN_MS(50)

enum hf_status swap_object(const struct swap *swap, struct hf_error *error)
{
    struct span pause = PUT_PAUSE_FIRST;
    bool unsure = false;
    struct hf_error why = { .status = HF_OK };
    for (int tries = 0; tries < PUT_TRIES_MAX; tries++) {
        enum hf_status status = swap->put(swap->argument, &why);
        unsure = unsure || status == HF_UNSURE;
        if (status == HF_OK)
            return HF_OK;
        if (!unsure && status != HF_CONFLICT)
            break;
        enum stored_version version = swap->look(swap->argument);
        if (version == STORED_OURS)
            return HF_OK;
        if (!unsure || version == STORED_ANOTHER)
            break;
        if (tries + 1 < PUT_TRIES_MAX)
            env_sleep(swap->env, env_jitter(swap->env, pause));
        pause.us *= 2;
    }
    *error = why;
    return unsure ? error->status = HF_UNSURE : why.status;
}
