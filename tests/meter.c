/* SPDX-License-Identifier: Apache-2.0 */
/* meter.c: counts the calls of a store. */
#include "meter.h"

#include <string.h>

void meter_init(struct meter *meter, struct env *env)
{
    *meter = (struct meter){ 0 };
    env_mutex_init(env, &meter->mutex);
}

void meter_release(struct meter *meter)
{
    env_mutex_release(&meter->mutex);
}

static void meter_saw(void *argument, const struct observation *seen)
{
    struct meter *meter = argument;
    env_mutex_lock(&meter->mutex);
    struct meter_counts *counts = &meter->kinds[seen->kind];
    counts->calls++;
    counts->batches += seen->first_of_batch;
    counts->failed += seen->error->status != HF_OK && seen->error->status != HF_NOT_MODIFIED;
    counts->bytes_sent += seen->bytes_sent;
    counts->bytes_received += seen->bytes_received;
    meter->depth = seen->depth > meter->depth ? seen->depth : meter->depth;
    env_mutex_unlock(&meter->mutex);
}

struct observer meter_observer(struct meter *meter)
{
    return (struct observer){ meter_saw, meter };
}

void meter_reset(struct meter *meter)
{
    env_mutex_lock(&meter->mutex);
    memset(meter->kinds, 0, sizeof meter->kinds);
    env_mutex_unlock(&meter->mutex);
}

void meter_read(struct meter *meter, struct meter_counts ret_kinds[CALL_KIND_COUNT])
{
    env_mutex_lock(&meter->mutex);
    memcpy(ret_kinds, meter->kinds, sizeof meter->kinds);
    env_mutex_unlock(&meter->mutex);
}
