/* elect.h: what the commands of election share. */
#ifndef CLI_ELECT_H
#define CLI_ELECT_H

#include "cli/cli.h"

#define ELECT_BEAT_DEFAULT SPAN_S(10)

/* Whom people should look for: host and process. */
#define OWN_LABEL_MAX 128
struct view own_label(char text[OWN_LABEL_MAX]);

enum hf_status run_elect_run(struct cli *cli);

#endif
