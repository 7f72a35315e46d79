/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: maps numbers to names from the tables in the public headers, one function per table. A
 * caller may pass a number that has no row, for example one from a later version of a header. So a
 * number is never used as an index unchecked. */
#include "holdfast.h"

static const char *word_of(const char *const *words, size_t count, size_t number)
{
    return number < count ? words[number] : "unknown";
}

#define WORD(name, word, text) word,
#define TEXT(name, word, text) text,
#define ONLY_WORD(name, word)  word,
#define NAMES(call, type, ...)                                               \
    const char *call(enum type number)                                       \
    {                                                                        \
        static const char *const words[] = { __VA_ARGS__ };                  \
        return word_of(words, sizeof words / sizeof *words, (size_t)number); \
    }

NAMES(hf_change_name, hf_change, HF_CHANGE_TABLE(WORD))
NAMES(hf_chunk_state_name, hf_chunk_state, HF_CHUNK_STATE_TABLE(WORD))
NAMES(hf_compact_end_name, hf_compact_end, HF_COMPACT_END_TABLE(WORD))
NAMES(hf_compact_event_name, hf_compact_event_kind, HF_COMPACT_EVENT_TABLE(WORD))
NAMES(hf_compact_policy_name, hf_compact_policy, HF_COMPACT_POLICY_TABLE(WORD))
NAMES(hf_event_name, hf_event_kind, HF_EVENT_TABLE(WORD))
NAMES(hf_finding_name, hf_finding, HF_FINDING_TABLE(WORD))
NAMES(hf_fsck_kind_name, hf_fsck_kind, HF_FSCK_KIND_TABLE(WORD))
NAMES(hf_fsck_kind_text, hf_fsck_kind, HF_FSCK_KIND_TABLE(TEXT))
NAMES(hf_index_end_name, hf_index_end, HF_INDEX_END_TABLE(WORD))
NAMES(hf_index_format_name, hf_index_format, HF_INDEX_FORMAT_TABLE(WORD))
NAMES(hf_index_made_name, hf_index_made, HF_INDEX_MADE_TABLE(ONLY_WORD))
NAMES(hf_lease_state_name, hf_lease_state, HF_LEASE_STATE_TABLE(WORD))
NAMES(hf_merge_coding_name, hf_merge_coding, HF_MERGE_CODING_TABLE(WORD))
NAMES(hf_merge_format_name, hf_merge_format, HF_MERGE_FORMAT_TABLE(WORD))
NAMES(hf_mode_name, hf_mode, "exclusive", "shared", "slots")
NAMES(hf_proof_name, hf_proof, "none", "store time", "watched")
NAMES(hf_scrub_kind_name, hf_scrub_kind, HF_SCRUB_KIND_TABLE(WORD))
NAMES(hf_scrub_kind_text, hf_scrub_kind, HF_SCRUB_KIND_TABLE(TEXT))
NAMES(hf_store_call_name, hf_store_call, HF_STORE_CALL_TABLE(ONLY_WORD))
NAMES(hf_store_clock_name, hf_store_clock, HF_STORE_CLOCK_TABLE(WORD))
NAMES(hf_sweep_stop_name, hf_sweep_stop, HF_SWEEP_STOP_TABLE(WORD))
NAMES(hf_sweep_stop_text, hf_sweep_stop, HF_SWEEP_STOP_TABLE(TEXT))
NAMES(hf_txn_state_name, hf_txn_state, HF_TXN_STATE_TABLE(WORD))
