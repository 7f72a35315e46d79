/* connect.h: a client of locks on the store of the command line. */
#ifndef CLI_CONNECT_H
#define CLI_CONNECT_H

#include "cli/cli.h"

/* Opens the store into cli->store, unless it is open already, and a client on it, which must be
 * closed before the store is. Without a holder of its own the client is called by host name and
 * process id. */
enum hf_status cli_connect(struct cli *cli, struct hf_client_options options,
                           struct hf_client **ret_client);

#endif
