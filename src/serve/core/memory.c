/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: request ids, and the results that are kept for retries. It guards against a retry that
 * does its work twice: while an operation is under way, a request with its id joins it, and for
 * some time after that, gets the same result again. */
#include "serve/core/core_inside.h"

#include "base/check.h"
#include "base/rule.h"

struct core_op *memory_find(const struct core *core, struct view id)
{
    return id.size > 0 ? map_get(&core->ids, id) : NULL;
}

bool memory_add(struct core *core, struct core_op *op)
{
    void *old;
    if (op->id.size == 0)
        return true;
    if (!map_put(&core->ids, op->id, op, &old))
        return false;
    check(old == NULL);
    op->known_by_id = true;
    return true;
}

void memory_remove(struct core *core, struct core_op *op)
{
    if (op->known_by_id)
        check(map_take(&core->ids, op->id) == op);
    op->known_by_id = false;
}

static void forget_oldest(struct core *core)
{
    struct core_op *op = TAILQ_FIRST(&core->remembered);
    TAILQ_REMOVE(&core->remembered, op, link);
    core->remembered_count--;
    op->remembered = false;
    memory_remove(core, op);
    op_free_if_unused(core, op);
}

void memory_keep(struct core *core, struct core_op *op)
{
    check(op->state == OP_ENDED && !op->remembered);
    if (!op->known_by_id)
        return;
    bool keeps = RULE(RETRY_GETS_THE_RESULT) && op->result.keep;
    if (!keeps) {
        memory_remove(core, op);
        return;
    }
    op->remembered = true;
    op->ended_at = core->now;
    TAILQ_INSERT_TAIL(&core->remembered, op, link);
    core->remembered_count++;
    memory_forget(core);
}

void memory_forget(struct core *core)
{
    struct span most = core->limits.remember_for;
    const struct core_op *oldest;
    while ((oldest = TAILQ_FIRST(&core->remembered)) &&
           ((RULE(MEMORY_IS_BOUNDED) && core->remembered_count > core->limits.remembered_max) ||
            mono_since(core->now, oldest->ended_at).us >= most.us))
        forget_oldest(core);
}

void memory_clear(struct core *core)
{
    while (!TAILQ_EMPTY(&core->remembered))
        forget_oldest(core);
}
