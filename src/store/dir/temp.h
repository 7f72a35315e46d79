/* temp.h: where the files of a `dir:` store are written before they have their names.
 *
 * Each open store that writes has a directory of its own, "%tmp/<id>", and holds the byte
 * DIR_LOCK_ALIVE + id of the lock file as long as it lives. Whoever opens the store later
 * removes the directories whose byte nobody holds: their owners are dead. */
#ifndef STORE_DIR_TEMP_H
#define STORE_DIR_TEMP_H

#include "store/dir/file.h"
#include "store/dir/lock.h"

struct dir_temp {
    struct dir_locks *locks;
    struct {
        struct env_mutex mutex; /* guards what stands beside it */
        int fd;                 /* of our directory; -1 until the first write */
        struct dir_lock alive;
        char name[16];
    } own;
};

void dir_temp_init(struct dir_temp *temp, struct dir_locks *locks);

/* Also in a forked child, to whom (`forked`) the directory does not belong. */
void dir_temp_release(struct dir_temp *temp, bool forked);

/* Removes what dead writers left; does nothing where it may not. */
void dir_temp_sweep(struct dir_temp *temp);

/* A file that is being written. */
struct dir_new {
    int fd;
    int directory;
    unsigned char random[DIR_ETAG_BYTES]; /* its name, and its ETag */
    char name[2 * DIR_ETAG_BYTES + 1];
};

/* A new file; or, with `given` not -1 and where that can be, that file itself under a new name:
 * then *ret_is_given. */
enum hf_status dir_temp_make(struct dir_temp *temp, int given, struct dir_new *ret_new,
                             bool *ret_is_given, struct hf_error *error);

/* Brings the file in place as `name`, or, with `replace`, instead of the file of that name;
 * then the old one may have the temporary name. 0, or -1 with errno. */
int dir_new_place(struct dir_new *file, int parent, const char *name, bool replace);

/* Closes the file, and unless `keep`, removes what has its temporary name. */
void dir_new_release(struct dir_new *file, bool keep);

#endif
