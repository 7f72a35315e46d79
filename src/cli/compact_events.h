/* compact_events.h: what a worker tells while it works, as JSON and in words. */
#ifndef CLI_COMPACT_EVENTS_H
#define CLI_COMPACT_EVENTS_H

#include "cli/output.h"
#include "compact/worker.h"

/* One line an event; of progress there is none. */
json_t *notice_as_json(const struct worker_notice *notice);
void tell_notice(struct output *out, const struct worker_notice *notice);

json_t *totals_as_json(const struct worker_totals *totals);
void tell_totals(struct output *out, const struct worker_totals *totals, struct span took);

#endif
