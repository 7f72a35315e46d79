/* SPDX-License-Identifier: Apache-2.0 */
/* temp.h: where the files of a `dir:` store are written before they get their names.
 *
 * Each open store that writes has its own directory, "%tmp/<id>", and holds the lock on byte
 * DIR_LOCK_ALIVE + id of the lock file while it is open. The next process that opens the store
 * removes the directories whose byte is not locked, because their owners are dead. */
#ifndef STORE_DIR_TEMP_H
#define STORE_DIR_TEMP_H

#include "store/dir/file.h"
#include "store/dir/lock.h"

struct dir_temp {
    struct dir_locks *locks;
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        int fd;                 /* our directory; -1 until the first write */
        struct dir_lock alive;
        char name[16];
    } own;
};

void dir_temp_init(struct dir_temp *temp, struct dir_locks *locks);

/* Also works in a forked child (`forked`), which does not own the directory. */
void dir_temp_release(struct dir_temp *temp, bool forked);

/* Removes the files of dead writers. Does nothing without write permission. */
void dir_temp_sweep(struct dir_temp *temp);

/* A file that is being written. */
struct dir_new {
    int fd;
    int directory;
    unsigned char random[DIR_ETAG_BYTES]; /* its name and its ETag */
    char name[2 * DIR_ETAG_BYTES + 1];
};

/* Creates a new file or, if `given` is not -1 and the file system allows it, gives the file `given`
 * itself a new name. In the second case *ret_is_given is true. */
enum hf_status dir_temp_make(struct dir_temp *temp, int given, struct dir_new *ret_new,
                             bool *ret_is_given, struct hf_error *error);

/* Gives the file its final name. With `replace`, it takes the place of the file that has this name,
 * and the old file may then have the temporary name. Returns 0, or -1 with errno. */
int dir_new_place(struct dir_new *file, int parent, const char *name, bool replace);

/* Closes the file and, unless `keep`, removes the file that has its temporary name. */
void dir_new_release(struct dir_new *file, bool keep);

#endif
