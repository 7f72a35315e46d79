/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: the mutants of src/index. */
#include "sim/mutants/index.h"

#include "base/rule.h"

#include <string.h>

void mutant_drops_nonce(char *nonce)
{
    if (!RULE(ENTRIES_HAVE_A_NONCE))
        memset(nonce, '0', strlen(nonce));
}

void mutant_looks_in_shard_first(enum hf_status (**first)(struct lookup *, struct hf_error *),
                                 enum hf_status (**second)(struct lookup *, struct hf_error *))
{
    enum hf_status (*inbox)(struct lookup *, struct hf_error *) = *first;
    if (RULE(INBOX_BEFORE_SHARD))
        return;
    *first = *second;
    *second = inbox;
}

/* If the shard cannot be opened here, the library opens it again after the inbox. */
void mutant_opens_shard_first(enum hf_status (*open)(struct shard_merge *, struct hf_error *),
                              struct shard_merge *merge)
{
    struct hf_error ignored;
    if (!RULE(INBOX_BEFORE_SHARD))
        open(merge, &ignored);
}

void mutant_clears_before_swap(void (*clear)(struct shard_compile *), struct shard_compile *job)
{
    if (!RULE(CLEAR_AFTER_THE_SWAP))
        clear(job);
}

void mutant_takes_shard_for_stored(enum hf_status *status)
{
    if (*status == HF_CONFLICT && !RULE(CONFLICT_CLEARS_NOTHING))
        *status = HF_OK;
    if (*status == HF_UNSURE && !RULE(UNSURE_CLEARS_NOTHING))
        *status = HF_OK;
}

void mutant_takes_plain_for_stored(enum hf_status *status)
{
    if (*status == HF_UNSURE && !RULE(PLAIN_SHARDS_ARE_READ_BACK))
        *status = HF_OK;
}

void mutant_takes_last_read(int *order)
{
    if (!RULE(LATEST_WINS))
        *order = -1;
}
