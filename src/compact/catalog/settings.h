/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: the settings of a partition. They are stored in its catalog, so all workers use the
 * same settings. The children of a split inherit them. */
#ifndef COMPACT_CATALOG_SETTINGS_H
#define COMPACT_CATALOG_SETTINGS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "base/moment.h"
#include "merge/merge.h"

/* The longest record of a chunk. It does not depend on a worker's memory; otherwise one worker
 * would reject a record that another one merges. */
#define CHUNK_RECORD_MAX MERGE_RECORD_DEFAULT

/* Times are in milliseconds, as in the document. */
struct compact_settings {
    enum hf_merge_format format; /* of the chunks; with a command, only their extension */
    struct view key, time;       /* as in merge.h */
    struct view deleted;         /* the field that marks deletions, or empty */
    bool headless;
    enum hf_merge_coding coding; /* of merged chunks */
    struct view command;         /* exec: the merge command; otherwise empty */
    int64_t command_limit_ms;
    uint64_t rejects_max; /* unreadable rows per chunk; ingest refuses a file with more */
    enum hf_compact_policy policy;
    uint64_t level0_count; /* how many chunks from the same hour trigger a merge; 15 */
    uint64_t level1_bytes; /* chunks of level 1 are merged once they reach this size; 2 GiB */
    uint64_t level_factor; /* the size for each further level is this many times larger; 5 */
    uint64_t cascade_base; /* 20 */
    uint64_t group_max;    /* maximum number of sources per merge; 256 */
    int64_t ttl_ms;        /* of leases for merging; 60 s */
    int64_t grace_ms;      /* how long a merged chunk is kept; 15 min */
    int64_t late_bound_ms; /* D: how late an abandoned request can take effect; 24 h */
    int64_t skew_tolerance_ms; /* of the store's clock; 30 s */
    int64_t retention_ms;      /* older data expires; 0: never */
    uint64_t backlog_max;      /* level-0 chunks per catalog at which ingest waits; 3,000 */
    uint64_t tries_max;        /* tries before a chunk is quarantined; 3 */
    int64_t step_ms;           /* ladder: each rank starts this much later; 1 s */
    uint64_t output_max;       /* a merge of more bytes is divided, if it can be; 1 GiB */
};

/* The defaults; the caller still has to set the format (HF_MERGE_USV here). */
struct compact_settings compact_settings_default(void);

/* INVALID, with a message, if a value is out of range or contradicts another. */
enum hf_status compact_settings_check(const struct compact_settings *settings,
                                      struct hf_error *error);

/* Encodes the settings as a JSON object, and decodes them. Unknown members are appended to
 * `unknown` as ,"name":value. Decoded strings point into the text, or into `space` if they
 * contained escapes. */
bool compact_settings_encode(const struct compact_settings *settings, struct buffer *text);
bool compact_settings_decode(struct json_reader *reader, struct buffer *space,
                             struct buffer *unknown, struct compact_settings *ret_settings);

/* The version of the document that can contain the settings: 1, or 2 for a key other than one field
 * that is compared as bytes. Programs that do not know the version refuse the document, because
 * they would merge in another order. */
unsigned compact_settings_version(const struct compact_settings *settings);

/* Returns `current` with all that differs between `before` and `after`. */
struct compact_settings compact_settings_change(const struct compact_settings *current,
                                                const struct compact_settings *before,
                                                const struct compact_settings *after);

/* Whether two settings are equal. */
bool compact_settings_equal(const struct compact_settings *a, const struct compact_settings *b);

/* Copies the strings into the arena, so the settings outlive their source. False if out of
 * memory. */
bool compact_settings_keep(struct compact_settings *settings, struct arena *arena);

/* Adds the settings to a hash. Equal settings have equal hashes within one process. */
struct hash_stream;
void compact_settings_hash(const struct compact_settings *settings, struct hash_stream *stream);

enum hf_status compact_policy_parse(struct view text, enum hf_compact_policy *ret_policy,
                                    struct hf_error *error);

/* The options for reading a chunk: format, fields and longest record. */
struct merge_options compact_chunk_options(const struct compact_settings *settings);

/* The size at which chunks of this level (1 and up) are merged into the next. */
uint64_t compact_level_bytes(const struct compact_settings *settings, unsigned level);

#endif
