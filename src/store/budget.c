/* SPDX-License-Identifier: Apache-2.0 */
/* budget.c: the bucket of tokens that limits retries (budget.h). Only what is missing is counted,
 * so that a store needs no initialisation for it. */
#include "store/budget.h"

#define TOKEN          1000 /* counted in thousandths */
#define ANSWERED_SHARE 100

/* Puts tokens back; the bucket does not get more than full. */
static void put_back(struct retry_budget *budget, int64_t amount)
{
    int64_t spent = atomic_load(&budget->spent);
    int64_t left;
    if (spent == 0) /* as nearly always */
        return;
    do
        left = spent > amount ? spent - amount : 0;
    while (!atomic_compare_exchange_weak(&budget->spent, &spent, left));
}

/* Each interval of time is counted once, by the task that ends it. What is left of an interval
 * counts the next time. */
static void refill_budget(struct retry_budget *budget, struct mono_time now)
{
    const int64_t unit_us = RETRY_TOKEN_EVERY.us / TOKEN;
    int64_t since_us = atomic_load(&budget->refilled_us);
    int64_t units = (now.us - since_us) / unit_us;
    int64_t until_us = since_us > 0 ? since_us + units * unit_us : now.us;
    if (units > 0 &&
        atomic_compare_exchange_strong(&budget->refilled_us, &since_us, until_us) &&
        since_us > 0)
        put_back(budget, units);
}

bool retry_budget_take(struct retry_budget *budget, struct mono_time now)
{
    refill_budget(budget, now);
    int64_t spent = atomic_load(&budget->spent);
    do {
        if (spent + TOKEN > RETRY_TOKENS_MAX * TOKEN)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->spent, &spent, spent + TOKEN));
    return true;
}

void retry_budget_answered(struct retry_budget *budget, enum hf_status status)
{
    if (retry_is_answered(status))
        put_back(budget, ANSWERED_SHARE);
}

void retry_budget_refund(struct retry_budget *budget)
{
    put_back(budget, TOKEN);
}
