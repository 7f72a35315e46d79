/* compact_status.h: what `compact status` knows, between gathering and telling it. */
#ifndef CLI_COMPACT_STATUS_H
#define CLI_COMPACT_STATUS_H

#include "cli/compact.h"
#include "cli/lock.h"

/* Of the quarantined so many are named; all are counted. */
#define SHOWN_MAX 100

/* Lists are kept as JSON, and told in words from there. */
struct overview {
    struct desk *desk;
    struct hf_compact_status status;
    json_t *settings;
    json_t *quarantined;
    json_t *catalogs;
    json_t *jobs; /* under way */
    json_t *records;
    json_t *members;
};

void overview_tell(struct overview *view);

/* Takes the lists over. */
void overview_tell_json(struct overview *view);

#endif
