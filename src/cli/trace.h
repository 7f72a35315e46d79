/* trace.h: --trace: a line on stderr for each call of a store, as text or as JSON. */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include "cli/cli.h"

/* For struct hf_store_options; the argument is the struct cli. Counts, too. */
void trace_request(void *argument, const struct hf_store_request *request);

#endif
