/* compact_events.h: what a worker tells while it works, as JSON and in words. */
#ifndef CLI_COMPACT_EVENTS_H
#define CLI_COMPACT_EVENTS_H

#include "base/moment.h"
#include "cli/output.h"

/* One line an event; of progress there is none. */
json_t *event_as_json(const struct hf_compact_event *event);
void tell_event(struct output *out, const struct hf_compact_event *event);

json_t *totals_as_json(const struct hf_compact_totals *totals);
void tell_totals(struct output *out, const struct hf_compact_totals *totals, struct span took);

#endif
