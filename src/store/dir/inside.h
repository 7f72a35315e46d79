/* inside.h: the parts of a `dir:` store, as its own files see them. */
#ifndef STORE_DIR_INSIDE_H
#define STORE_DIR_INSIDE_H

#include "store/bell.h"
#include "store/dir/file.h"
#include "store/dir/lock.h"
#include "store/dir/temp.h"
#include "store/store.h"

#include <unistd.h>

struct dir_store {
    struct store base;
    pid_t pid; /* a forked child shares our locks: they would not keep it and us apart */
    int root;
    bool sync;
    struct dir_locks locks;
    struct dir_temp temp;
    struct bell bell; /* rung after each change */
};

static inline struct dir_store *dir_of(struct store *store)
{
    return (struct dir_store *)store;
}

static inline bool dir_is_forked(const struct dir_store *dir, struct hf_error *error)
{
    if (getpid() == dir->pid)
        return false;
    error_set(error, HF_INVALID, "the store was opened before fork; open it again");
    return true;
}

/* The deadline of a call that may not have set one. */
static inline struct mono_time dir_deadline(struct dir_store *dir, struct mono_time asked)
{
    return asked.us != 0 ? asked : mono_add(env_now(dir->base.env), SPAN_MS(STORE_TIMEOUT_MS));
}

static inline struct view dir_path_view(const struct dir_path *path)
{
    return (struct view){ path->text, path->size };
}

/* folder.c: the directory that holds the file of a path, made when it is missing, and
 * durable. *ret_leaf is the file's name in it. */
enum hf_status dir_folder_open(struct dir_store *dir, const struct dir_path *path,
                               struct mono_time deadline, int *ret_folder,
                               struct hf_error *error);
const char *dir_leaf(const struct dir_path *path);

/* The same, only if it is there: else *ret_folder is -1. */
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

/* dir.c: finds an object for a reader and what it is; fd -1 and OK when there is none. */
enum hf_status dir_look(struct dir_store *dir, const struct dir_path *path, int *ret_fd,
                        struct hf_error *error);

#endif
