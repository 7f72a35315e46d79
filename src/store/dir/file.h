/* SPDX-License-Identifier: Apache-2.0 */
/* file.h: one object of a `dir:` store as a file: how to open it without leaving the store, and
 * whether it is still as Holdfast wrote it, or was changed or added by hand. */
#ifndef STORE_DIR_FILE_H
#define STORE_DIR_FILE_H

#include "store/dir/name.h"
#include "store/store.h"

#include <sys/stat.h>

/* Opens a path below `at` without following symbolic links. Returns -1 with errno set, to ELOOP for
 * a link. The descriptor is close-on-exec, and opening a named pipe does not wait for its
 * writer. */
int dir_open_beneath(int at, const char *path, int flags);

/* The same, one path component at a time, for kernels without openat2. */
int dir_open_stepwise(int at, const char *path, int flags);

/* The location of the object for a path or, if there is no object (fd is -1), where to create
 * it. */
struct dir_found {
    int fd;
    bool aside;
};

/* Finds the object for a path. A plain file at the path itself is the object. Otherwise the file
 * aside, if it exists, is the object. Beside a plain file, a file aside is ignored. `path` must
 * have room for the mark. */
enum hf_status dir_find(int at, const char *path, size_t size, struct dir_found *ret_found,
                        struct hf_error *error);

/* The name of a file that is set aside. `ret_name` must have room for size + 2 bytes. */
void dir_aside_name(const char *path, size_t size, char *ret_name);

#define DIR_ETAG_BYTES 16

/* Labels an open, completely written file as the version that these random bytes name, and returns
 * its ETag. */
enum hf_status dir_file_label(int fd, const unsigned char random[DIR_ETAG_BYTES],
                              struct etag *ret_etag, struct hf_error *error);

/* ETag, size and time of an open object. A foreign file has no label, or has changed since it was
 * labelled; its ETag is a hash of its bytes, which must be read to compute it. */
enum hf_status dir_file_info(int fd, struct object_info *ret_info, struct stat *ret_stat,
                             struct hf_error *error);

/* Whether the file is unchanged since this stat. Only foreign files can change. */
bool dir_file_unchanged(int fd, const struct stat *before);

#endif
