/* files.h: the large objects of an sqlite store: one file each, in a folder beside the
 * database, under a name that is drawn once and never used again.
 *
 * A file belongs to the store when a row of the database names it. The order of writes is:
 * the file whole and synced, the folder synced, the row committed, the file that the row named
 * before unlinked. A crash in between leaves at worst a file that no row names. Such an orphan
 * is told from a file whose row is about to be committed by a lock: whoever makes a file holds
 * a lock on it until the outcome of its commit is known.
 *
 *   writer: create, lock, still linked? write, sync, commit the row, unlock
 *   sweep:  lock, then look for a row, none: unlink, unlock
 *
 * If the sweep gets the lock before the writer does, the writer finds its file locked or
 * without a name, and draws another one. If it gets it after, the row has been committed
 * already, or never will be. */
#ifndef STORE_SQLITE_FILES_H
#define STORE_SQLITE_FILES_H

#include "store/store.h"

/* 16 digits of the store's id, so that a folder left by another database is never touched; then
 * 32 random ones; then NUL. */
#define LARGE_NAME_SIZE 49

struct large_folder {
    struct env *env;
    int fd; /* -1: there is none */
    bool durable;
    const char *store_id;
};

struct large_file {
    int fd; /* holds the lock */
    char name[LARGE_NAME_SIZE];
};

/* Opens the folder PATH.objects, or creates it when `create`. Without it, and not allowed to
 * create it, the folder is as good as empty. */
enum hf_status large_folder_open(struct large_folder *folder, const char *database_path,
                                 bool create, struct hf_error *error);
void large_folder_close(struct large_folder *folder);

/* Makes names that were given to new files durable. */
enum hf_status large_folder_sync(const struct large_folder *folder, struct hf_error *error);

/* A new, empty, locked file; or, with `given` not -1 and where that can be, that file itself under
 * a new name: then *ret_is_given. */
enum hf_status large_file_new(const struct large_folder *folder, int given,
                              struct large_file *ret_file, bool *ret_is_given,
                              struct hf_error *error);

enum hf_status large_file_sync(const struct large_folder *folder, const struct large_file *file,
                               struct hf_error *error);

/* Gives the lock up; the file stays. */
void large_file_keep(struct large_file *file);

/* Removes the file, while it is still locked. */
void large_file_drop(const struct large_folder *folder, struct large_file *file);

/* Opens a file for reading. NOT_FOUND: it was replaced meanwhile, or the store is damaged. */
enum hf_status large_file_read(const struct large_folder *folder, const char *name, int *ret_fd,
                               struct hf_error *error);

/* Removes a file that no row names any more. */
void large_name_remove(const struct large_folder *folder, const char *name);

bool large_name_is_good(struct view name);

/* Removes files of dead writers: at most SWEEP_MAX names are looked at, a random stretch where
 * there are more: few, since it is done at every open, and a look-up of one key should not pay for
 * a folder of hundreds. `is_named` says if a row names the file now; when it cannot say, it says
 * yes. */
#define SWEEP_MAX 32
void large_folder_sweep(const struct large_folder *folder,
                        bool (*is_named)(void *argument, const char *name), void *argument);

/* Creates a folder, and makes its name durable in the folder above. OK if it is there. */
enum hf_status folder_make(const char *path, unsigned mode, struct hf_error *error);

#endif
