/* elect.h: what the commands of election share. */
#ifndef CLI_ELECT_H
#define CLI_ELECT_H

#include "cli/cli.h"

/* The beat of --beat, or the usual one. */
int64_t elect_beat_ms(struct cli *cli);

enum hf_status run_elect_run(struct cli *cli);

#endif
