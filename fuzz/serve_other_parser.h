/* SPDX-License-Identifier: Apache-2.0 */
/* serve_other_parser.h: what http-parser, a parser of other programs, sees in a request.
 * Apart from the fuzzer, because the names of http-parser's header are those of ours. */
#ifndef FUZZ_SERVE_OTHER_PARSER_H
#define FUZZ_SERVE_OTHER_PARSER_H

#include "base/view.h"

#include <stdint.h>

struct other_request {
    bool complete;
    bool more; /* there is a second request in the same bytes */
    bool keep_alive;
    size_t taken;
    size_t headers;
    size_t body_size;
    uint64_t body_sum;
    unsigned minor;
    const char *method;
};

/* False if it refuses the bytes. */
bool other_parser_read(struct view bytes, struct other_request *ret_request);

/* A checksum that can be computed in pieces. */
uint64_t other_parser_sum(uint64_t sum, struct view bytes);

#endif
