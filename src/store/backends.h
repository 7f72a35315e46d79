/* backends.h: how each kind of store is made. Everybody else opens stores by URL. */
#ifndef STORE_BACKENDS_H
#define STORE_BACKENDS_H

#include "base/url.h"
#include "store/store.h"

#include <limits.h>

/* Objects in this process's memory, gone with it. */
enum hf_status mem_store_open(struct env *env, const struct url *url, struct store **ret_store,
                              struct hf_error *error);

/* Plain files under a directory. ?sync=off gives up durability for speed. */
enum hf_status dir_store_open(struct env *env, const struct url *url, struct store **ret_store,
                              struct hf_error *error);

/* Rows of one SQLite file, large objects as files beside it. ?sync=off as above. */
enum hf_status sqlite_store_open(struct env *env, const struct url *url,
                                 struct store **ret_store, struct hf_error *error);

/* The file of "sqlite:" alone: $XDG_STATE_HOME/holdfast/store.db, or
 * ~/.local/state/holdfast/store.db. Makes nothing. */
enum hf_status sqlite_default_path(char path[PATH_MAX], struct hf_error *error);

/* Objects of a bucket, at AWS or at what speaks its language. For the parameters see s3.c. */
enum hf_status s3_store_open(struct env *env, const struct url *url, struct store **ret_store,
                             struct hf_error *error);

#endif
