/* SPDX-License-Identifier: Apache-2.0 */
/* places.h: objects in place of files. A command that reads or writes data also accepts the URL of
 * an object, STORE#KEY (hf_store_url_split); STORE may be a name from the configuration file. The
 * object is copied through an unnamed temporary
 * file: a command never sees part of an object, and an object appears only when it is complete. */
#ifndef CLI_PLACES_H
#define CLI_PLACES_H

#include "cli/cli.h"

/* The stores that were opened for URLs, each only once. Zero-initialised, except for `cli`. */
struct places {
    struct cli *cli;
    struct place_store *stores;
};

/* Closes the stores. */
void places_close(struct places *places);

/* Whether an argument names an object rather than a file: it starts like a store URL, or with the
 * name of a store in the configuration file and '#'. A file of such a name is ./NAME. */
bool place_is_object(struct cli *cli, const char *text);

/* INVALID, with the reason in cli->error, unless the URL names an object. Opens nothing. */
enum hf_status place_check(struct cli *cli, const char *url);

/* Copies an object to an unnamed temporary file, which the caller closes. An object that is
 * replaced meanwhile is refused (UNAVAILABLE). Errors name the URL. */
enum hf_status place_fetch(struct places *places, const char *url, int *ret_fd);

/* An object that is to be written, as it was before the work began. */
struct place_target {
    const char *url;
    struct hf_store *store;
    const char *key;
    bool exists;
    struct hf_object_info info; /* its version then, and after place_put the new one */
};

/* Looks for the object. Its store is created if it is local and missing. INVALID if the object is
 * one of Holdfast's own. */
enum hf_status place_target_find(struct places *places, const char *url,
                                 struct place_target *ret_target);

/* Writes a file as the object, on condition that nobody else has written or removed the object
 * since place_target_find: CONFLICT. */
enum hf_status place_put(struct cli *cli, struct place_target *target, int fd);

#endif
