/* file.h: one object of a `dir:` store as a file: how it is opened without leaving the
 * store, and what it is: ours, or changed or put there by hand. */
#ifndef STORE_DIR_FILE_H
#define STORE_DIR_FILE_H

#include "store/dir/name.h"
#include "store/store.h"

#include <sys/stat.h>

/* Opens a path below `at` and follows no symbolic link on the way: -1 with errno, ELOOP for a
 * link. Close-on-exec, and without waiting for whoever writes a named pipe. */
int dir_open_beneath(int at, const char *path, int flags);

/* The same a name at a time, for kernels that have no openat2. */
int dir_open_stepwise(int at, const char *path, int flags);

/* Where the object of a path is, or, when there is none (fd is -1), where one is to be put. */
struct dir_found {
    int fd;
    bool aside;
};

/* A plain file has the path itself. Only if it has not, the object is the file aside, if there
 * is one; a file aside of a plain file means nothing. `path` has room for the mark. */
enum hf_status dir_find(int at, const char *path, size_t size, struct dir_found *ret_found,
                        struct hf_error *error);

/* What a file is called that stands aside; `ret_name` has room for size + 2. */
void dir_aside_name(const char *path, size_t size, char *ret_name);

#define DIR_ETAG_BYTES 16

/* Marks an open file, whose bytes are all written, as the version named by these random bytes,
 * and sets the ETag that says so. */
enum hf_status dir_file_label(int fd, const unsigned char random[DIR_ETAG_BYTES],
                              struct etag *ret_etag, struct hf_error *error);

/* ETag, size and time of an open object. Foreign (no label, or the file is no longer what the
 * label says): the ETag is a hash of the bytes, which are read for it. */
enum hf_status dir_file_info(int fd, struct object_info *ret_info, struct stat *ret_stat,
                             struct hf_error *error);

/* Whether the file was left alone since it had this stat: only foreign ones are not. */
bool dir_file_unchanged(int fd, const struct stat *before);

#endif
