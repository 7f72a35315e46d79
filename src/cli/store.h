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

/* Whether an object of this key is Holdfast's own, and --force was not given. */
bool is_guarded(struct cli *cli, struct view key);

/* INVALID if so. */
enum hf_status check_not_guarded(struct cli *cli, struct view key);

/* The ETag of --if-match into *ret_etag. INVALID when it cannot be one. */
enum hf_status parse_if_match(struct cli *cli, struct etag *ret_etag);

#endif
