/* settings.h: how a partition is compacted. Kept in its catalog, so that all workers go by the
 * same; children of a split inherit them. */
#ifndef COMPACT_SETTINGS_H
#define COMPACT_SETTINGS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "base/moment.h"
#include "merge/merge.h"

enum compact_policy {
    POLICY_LEVELS, /* level 0 by hour and count, higher levels to a size */
    POLICY_CASCADE, /* everything below a level at once, as a counter carries: for log-like data */
    POLICY_COUNT
};

/* The longest record of a chunk. It is the same for every worker, however little memory it has:
 * else what one merges another would reject. */
#define CHUNK_RECORD_MAX MERGE_RECORD_DEFAULT

/* Times are in milliseconds, as they stand in the document. */
struct compact_settings {
    enum merge_format format; /* of the chunks; with a command only the end of their names */
    struct view key, time;    /* fields, as in merge.h */
    bool headless;
    enum merge_coding coding; /* of what is merged */
    struct view command;      /* exec: what merges; else empty */
    int64_t command_limit_ms;
    uint64_t rejects_max; /* rows of a chunk that cannot be read; one with more is not let in */
    enum compact_policy policy;
    uint64_t level0_count; /* this many chunks of one hour are merged; 15 */
    uint64_t level1_bytes; /* chunks of level 1 are merged once they come to this; 2 GiB, ... */
    uint64_t level_factor; /* ... of each next level to so many times more; 5 */
    uint64_t cascade_base; /* 20 */
    uint64_t group_max;    /* most sources of one merge; 256 */
    int64_t ttl_ms;        /* of leases for merging; 60 s */
    int64_t grace_ms;      /* a chunk that was merged is kept for so long; 15 min */
    int64_t late_bound_ms; /* D: a request given up on lands no later than this; 24 h */
    int64_t skew_tolerance_ms; /* of the store's clock; 30 s */
    int64_t retention_ms;      /* older data expires; 0: never */
    uint64_t backlog_max;      /* level-0 chunks of one catalog; at more ingest waits; 3,000 */
    uint64_t tries_max;        /* then a chunk is quarantined; 3 */
    int64_t step_ms;           /* of the ladder: each rank starts so much later; 1 s */
};

/* The defaults, for a format that is still to be set (MERGE_USV). */
struct compact_settings compact_settings_default(void);

/* INVALID with a sentence when something is out of range or does not go together. */
enum hf_status compact_settings_check(const struct compact_settings *settings,
                                      struct hf_error *error);

/* As a JSON object. Unknown members are skipped by decode: the catalog keeps them. Texts are
 * views of the text, or of `space` when they had escapes. */
bool compact_settings_encode(const struct compact_settings *settings, struct buffer *text);
bool compact_settings_decode(struct json_reader *reader, struct buffer *space,
                             struct compact_settings *ret_settings);

/* Whether a member of this name is one of ours; and whether two are the same. */
bool compact_settings_knows(struct view name);
bool compact_settings_equal(const struct compact_settings *a, const struct compact_settings *b);

/* Copies the texts into the arena, so that the settings outlive what they were read from. False
 * without memory. */
bool compact_settings_keep(struct compact_settings *settings, struct arena *arena);

/* The same settings, the same hash; within one process. */
struct hash_stream;
void compact_settings_hash(const struct compact_settings *settings, struct hash_stream *stream);

const char *compact_policy_name(enum compact_policy policy);
enum hf_status compact_policy_parse(struct view text, enum compact_policy *ret_policy,
                                    struct hf_error *error);

/* The most that chunks of this level (1 and up) may come to before they are merged upward. */
uint64_t compact_level_bytes(const struct compact_settings *settings, unsigned level);

#endif
