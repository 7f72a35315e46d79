/* compact_status.h: what `compact status` knows, between gathering and telling it. */
#ifndef CLI_COMPACT_STATUS_H
#define CLI_COMPACT_STATUS_H

#include "cli/compact.h"
#include "cli/lock.h"
#include "compact/jobs.h"
#include "compact/plan.h"
#include "elect/roster.h"

/* Of the quarantined so many are named; all are counted. */
#define SHOWN_MAX 100

struct level_sum {
    uint64_t chunks, bytes, rows;
};

/* Lists are kept as JSON, and told in words from there. */
struct overview {
    struct desk *desk;
    struct leased_chunks leased;
    bool paused;
    char why[HF_WHY_MAX];
    json_t *settings;
    struct allow_exec allowed;
    bool needs_allow_exec; /* its command may not run here: */
    char needs_why[HF_WHY_MAX];
    struct level_sum levels[CASCADE_LEVELS_MAX];
    uint64_t pressure, backlog_max;
    uint64_t due_groups, due_bytes;
    uint64_t quarantined_count;
    json_t *quarantined;
    uint64_t tombstones, tombstone_bytes;
    uint64_t retired, condemned; /* deleting */
    size_t catalog_count;
    json_t *catalogs;
    json_t *jobs;             /* under way */
    char blocked[HF_WHY_MAX]; /* by what, and until when nothing is granted */
    uint64_t pins, unsettled;
    uint64_t committed, failed, lost; /* in the last hour */
    uint64_t committed_bytes;
    int64_t committed_ms;
    char last_failure[HF_WHY_MAX];
    json_t *records;
    uint64_t present;
    json_t *members;
};

void overview_tell(struct overview *view);

/* Takes the lists over. */
void overview_tell_json(struct overview *view);

#endif
