/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h: the parts of a `dir:` store that its own files share. */
#ifndef STORE_DIR_INSIDE_H
#define STORE_DIR_INSIDE_H

#include "store/dir/file.h"
#include "store/dir/lock.h"
#include "store/dir/temp.h"
#include "store/toolkit.h"
#include "store/write_notify.h"

struct dir_store {
    struct store base;
    pid_t pid; /* a forked child would share our locks, which would not exclude it */
    int root;
    bool sync;
    struct dir_locks locks;
    struct dir_temp temp;
    struct write_notify notify; /* signalled after each change */
};

static inline struct dir_store *dir_of(struct store *store)
{
    return (struct dir_store *)store;
}

static inline struct view dir_path_view(const struct dir_path *path)
{
    return (struct view){ path->text, path->size };
}

/* folder.c: opens the directory that holds the file of a path. Creates it if it is missing, and
 * makes it durable. dir_leaf is the name of the file in that directory. */
enum hf_status dir_folder_open(struct dir_store *dir, const struct dir_path *path,
                               struct mono_time deadline, int *ret_folder,
                               struct hf_error *error);
const char *dir_leaf(const struct dir_path *path);

/* The same, but creates nothing: *ret_folder is -1 if the directory is missing. */
enum hf_status dir_folder_find(struct dir_store *dir, const struct dir_path *path,
                               int *ret_folder, struct hf_error *error);

/* Removes the directories above a path that have become empty. */
void dir_folder_prune(struct dir_store *dir, const struct dir_path *path);

/* write.c */
void dir_put(struct store *store, struct put_call *calls, size_t count);
void dir_put_file(struct store *store, struct put_call *call, int fd,
                  const struct progress *progress);
void dir_remove(struct store *store, struct delete_call *calls, size_t count);

/* list.c */
void dir_list(struct store *store, struct list_call *call);

/* dir.c: opens an object for reading. If there is no object, fd is -1 and the status is OK. */
enum hf_status dir_look(struct dir_store *dir, const struct dir_path *path, int *ret_fd,
                        struct hf_error *error);

#endif
