/* SPDX-License-Identifier: Apache-2.0 */
/* ends.h: what `merge` reads and writes. Each input is a file, a pipe or device, stdin ('-'), or an
 * object given by URL; so is the output, with stdout in place of stdin. */
#ifndef CLI_MERGE_ENDS_H
#define CLI_MERGE_ENDS_H

#include "cli/places.h"

struct merge_ends {
    struct cli *cli;
    const char *output; /* as given */
    bool to_stdout;
    bool to_stream; /* a pipe or a device, or stdout */
    bool to_object;
    struct places places;
    struct place_target target; /* the output, if it is an object */
    /* For the library. A name is NULL if the path says it. */
    struct hf_merge_file *inputs;
    const char **names;
    struct hf_merge_file to;
};

/* Checks the names of all inputs and of the output, and opens nothing. */
enum hf_status merge_ends_check(struct merge_ends *ends, struct cli *cli, const char *output);

/* Opens the output, then the inputs; objects are copied to temporary files. */
enum hf_status merge_ends_open(struct merge_ends *ends);

/* After a merge that succeeded: writes the output object, if there is one. */
enum hf_status merge_ends_put(struct merge_ends *ends);

/* Closes everything. May be called at any time. */
void merge_ends_close(struct merge_ends *ends);

#endif
