/* store.h: the functions behind the commands `store ...`, whose rows stand in store.c. */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "cli/cli.h"

enum hf_status run_store_probe(struct cli *cli);
enum hf_status run_store_ls(struct cli *cli);
enum hf_status run_store_get(struct cli *cli);
enum hf_status run_store_put(struct cli *cli);
enum hf_status run_store_rm(struct cli *cli);
enum hf_status run_store_cp(struct cli *cli);

/* The ETag of --if-match; NULL when it was not given. INVALID when it cannot be one. */
enum hf_status parse_if_match(struct cli *cli, const char **ret_etag);

#endif
