/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: the log of the program: what happens in the store and to the locks, one line each. --trace
 * shows every request; -v shows the events of clients and the requests that fail; -vv shows both.
 * --log chooses the form, and a file in place of stderr. */
#ifndef CLI_LOG_H
#define CLI_LOG_H

#include "cli/cli.h"

/* The value of an option that may also be set by a variable or by the configuration file, in this
 * order; or NULL. *ret_origin names the command line or the variable; it is NULL for the file. */
const char *cli_chosen(struct cli *cli, const char *option, const char *variable,
                       const char **ret_origin);

/* Reads --verbose, --log and --trace, and opens the file. INVALID if a value has no meaning. */
enum hf_status log_open(struct cli *cli);
void log_close(struct cli *cli);

/* Applies --color to the output. */
enum hf_status log_color(struct cli *cli);

/* Checks values of --verbose, --log and --color that do not come from the command line. */
enum hf_status log_check_value(struct cli *cli, const char *option, struct view value);

/* Whether requests, or events of clients, are wanted at all. */
bool log_wants_requests(const struct cli *cli);
bool log_wants_events(const struct cli *cli);

/* The callbacks of stores and clients; `cli` is a struct cli. From any thread. */
void log_request(void *cli, const struct hf_store_request *request);
void log_event(void *cli, const struct hf_event *event);

/* While a command waits for a lock, writes once who holds it, as soon as that is known. Only the
 * first wait of a command is logged. `begin` and `end` never wait for the store; `release` may, and
 * comes before the client is closed. */
void log_wait_begin(struct cli *cli, struct hf_lock *lock);
void log_wait_end(struct cli *cli);
void log_wait_release(struct cli *cli);

/* Writes an error or a warning also to the file of the log, if there is one. */
void log_message(struct cli *cli, const char *kind, enum hf_status status, struct view about,
                 struct view text);

#endif
