/* connect.h: the store of the command line, and clients of locks on it. */
#ifndef CLI_CONNECT_H
#define CLI_CONNECT_H

#include "cli/cli.h"

/* Opens a store by URL; `coordinates` and `must_exist` as in struct hf_store_options. */
enum hf_status cli_open_url(struct cli *cli, struct view url, bool coordinates, bool must_exist,
                            struct hf_store **ret_store);

/* Opens the store into cli->handle, unless it is open already, and a client on it, which must be
 * closed before the store is. Without a holder of its own the client is called by host name and
 * process id. */
enum hf_status cli_connect(struct cli *cli, struct hf_client_options options,
                           struct hf_client **ret_client);

#endif
