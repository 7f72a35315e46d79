/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: the large objects of an sqlite store: one file each, in a directory beside the
 * database, under a random name that is never used again.
 *
 * A file belongs to the store when a row of the database names it. A write takes these steps in
 * order: write and sync the file, sync the directory, commit the row, remove the file that the row
 * named before. A crash in between leaves at worst a file that no row names. Such an orphan must be
 * distinguished from a file whose row is about to be committed. A lock does this: the creator of a
 * file holds a lock on it until the outcome of its commit is known.
 *
 *   writer: create, lock, check that the name is still there, write, sync, commit the row, unlock
 *   sweep:  lock, discard what cannot be seen, look for a row; if there is none, remove; unlock
 *
 * If the sweep gets the lock before the writer, the writer finds its file locked or without a
 * name, and creates another one. If the sweep gets the lock after the writer, the row has been
 * committed, or was not and never will be, or is part of a commit that the writer has written to
 * the log but nobody can see: the writer died, or could not sync the log. Such a commit becomes
 * visible if the log is read from the start before another commit has overwritten it. So the sweep
 * makes a commit of its own after it has locked the files, and looks for their rows after that. */
#ifndef STORE_SQLITE_FILES_H
#define STORE_SQLITE_FILES_H

#include "store/store.h"

/* 16 digits of the store's id, so that the sweep does not touch the files of another database in
 * this directory; then 32 random digits; then a NUL. */
#define LARGE_NAME_SIZE 49

struct large_folder {
    struct env *env;
    int fd; /* -1: there is no directory */
    bool durable;
    const char *store_id;
};

struct large_file {
    int fd; /* this descriptor holds the lock */
    char name[LARGE_NAME_SIZE];
};

/* Opens the directory PATH.objects, and creates it if `create`. If it is missing and `create`
 * is false, the store has no large objects. */
enum hf_status large_folder_open(struct large_folder *folder, const char *database_path,
                                 bool create, struct hf_error *error);
void large_folder_close(struct large_folder *folder);

/* Makes the names of new files durable. */
enum hf_status large_folder_sync(const struct large_folder *folder, struct hf_error *error);

/* Creates a new, empty, locked file or, if `given` is not -1 and the file system allows it, gives
 * the file `given` itself a new name and locks it. In the second case *ret_is_given is true. */
enum hf_status large_file_new(const struct large_folder *folder, int given,
                              struct large_file *ret_file, bool *ret_is_given,
                              struct hf_error *error);

enum hf_status large_file_sync(const struct large_folder *folder, const struct large_file *file,
                               struct hf_error *error);

/* Releases the lock; the file stays. */
void large_file_keep(struct large_file *file);

/* Removes the file, while it is still locked. */
void large_file_drop(const struct large_folder *folder, struct large_file *file);

/* Opens a file for reading. NOT_FOUND: the object has been replaced, or the store is damaged. */
enum hf_status large_file_read(const struct large_folder *folder, const char *name, int *ret_fd,
                               struct hf_error *error);

/* Removes a file that no row names any more. */
void large_name_remove(const struct large_folder *folder, const char *name);

bool large_name_is_good(struct view name);

/* The rows of the database, as the sweep uses them. */
struct large_rows {
    /* Whether a row names the file now; true if this cannot be determined. */
    bool (*is_named)(void *argument, const char *name);
    /* After true, everything that is_named sees is durable, and no commit that was written before
     * this call and could not be seen will ever be seen. */
    bool (*discard_unseen)(void *argument);
    void *argument;
};

/* Removes files of dead writers. Visits at most SWEEP_MAX names; if there are more, a random range
 * of them. The number is small because every open does this, and a program that reads one key
 * should not have to scan hundreds of names. Calls discard_unseen, which writes to the database,
 * only if it has found an orphan. */
#define SWEEP_MAX 32
void large_folder_sweep(const struct large_folder *folder, const struct large_rows *rows);

/* Creates a directory, and makes its name durable in its parent. OK if it exists. */
enum hf_status folder_make(const char *path, unsigned mode, struct hf_error *error);

#endif
