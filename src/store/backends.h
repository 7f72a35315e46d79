/* SPDX-License-Identifier: Apache-2.0 */
/* backends.h: the function that opens each kind of store. Other code opens stores by URL
 * (store_open). */
#ifndef STORE_BACKENDS_H
#define STORE_BACKENDS_H

#include "base/url.h"
#include "store/store.h"

#include <limits.h>

/* Objects in this process's memory. They are lost when the store is closed. ?delay=20ms makes each
 * request take that long, as on a network. */
enum hf_status mem_store_open(struct env *env, const struct url *url, struct store **ret_store,
                              struct hf_error *error);

/* Plain files under a directory. ?sync=off trades durability for speed. */
enum hf_status dir_store_open(struct env *env, const struct url *url, struct store **ret_store,
                              struct hf_error *error);

/* Rows in one SQLite file; large objects are files beside it. ?sync=off as above. */
enum hf_status sqlite_store_open(struct env *env, const struct url *url,
                                 struct store **ret_store, struct hf_error *error);

/* The file that "sqlite:" without a path refers to: $XDG_STATE_HOME/holdfast/store.db, or
 * ~/.local/state/holdfast/store.db. Creates nothing. */
enum hf_status sqlite_default_path(char path[PATH_MAX], struct hf_error *error);

/* Objects in a bucket, at AWS or at any server that speaks the S3 protocol. For the parameters see
 * s3.c. */
enum hf_status s3_store_open(struct env *env, const struct url *url, struct store **ret_store,
                             struct hf_error *error);

/* The same at Google Cloud Storage, or at a server that speaks its XML interface. */
enum hf_status gs_store_open(struct env *env, const struct url *url, struct store **ret_store,
                             struct hf_error *error);

/* Block blobs in a container of an Azure storage account. For the parameters see azure.c. */
enum hf_status azure_store_open(struct env *env, const struct url *url,
                                struct store **ret_store, struct hf_error *error);

/* The locks and keys of a server (server/server.h). */
enum hf_status server_store_open(struct env *env, const struct url *url,
                                 struct store **ret_store, struct hf_error *error);

#endif
