/* SPDX-License-Identifier: Apache-2.0 */
/* new_file.c: the names, modes and calls that make a file appear atomically. Everything happens in
 * the folder that was opened first, so it makes no difference if part of the path is replaced in
 * the meantime. */
#include "file/new_file.h"

#include "base/parse.h"
#include "base/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SCRATCH_DIGITS 16

const char *folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    snprintf(folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return folder;
}

/* If the file system has no unnamed files, the file is created with a name and unlinked. */
int nameless_file(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    char name[PATH_MAX];
    int size = snprintf(name, sizeof name, "%s/holdfast-XXXXXX", folder);
    if (size < 0 || (size_t)size >= sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        unlink(name);
    return fd;
}

const char *scratch_or_usual(const char *folder)
{
    const char *usual = getenv("TMPDIR");
    return folder ? folder : usual && usual[0] ? usual : "/tmp";
}

enum hf_status temporary_file(int *ret_fd, struct hf_error *error)
{
    const char *folder = scratch_or_usual(NULL);
    if (strlen(folder) >= PATH_MAX - sizeof "/holdfast-XXXXXX")
        return error_set(error, HF_UNAVAILABLE, "the path in TMPDIR is too long");
    int fd = nameless_file(folder);
    if (fd < 0) {
        error_from_errno(error, errno, "create a temporary file");
        error_about(error, folder);
        return error->status = HF_UNAVAILABLE;
    }
    *ret_fd = fd;
    return HF_OK;
}

#define RESERVE_SHARE 32
#define RESERVE_MAX   ((uint64_t)1 << 30)

enum hf_status temporary_room(int fd, size_t bytes, struct hf_error *error)
{
    struct statvfs disk;
    char left[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX];
    if (fstatvfs(fd, &disk) != 0)
        return HF_OK;
    uint64_t size = (uint64_t)disk.f_blocks * disk.f_frsize;
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t reserve = size / RESERVE_SHARE < RESERVE_MAX ? size / RESERVE_SHARE : RESERVE_MAX;
    if (room >= reserve && room - reserve >= bytes)
        return HF_OK;
    return error_set(error, HF_UNAVAILABLE,
                     "the disk with its temporary copy is nearly full: %s of %s are free; use "
                     "another folder, or check whether the input ends",
                     size_text(room, left), size_text(size, all));
}

/* ---- Names --------------------------------------------------------------------------- */

static bool choose_names(struct new_file *file, struct env *env, bool by_others)
{
    char random[SCRATCH_DIGITS + 1];
    const struct safe_path *place = &file->place;
    int folder = (int)(place->leaf - place->text);
    env_random_hex(env, SCRATCH_DIGITS, random);
    file->path = place->text;
    /* A long name is truncated to leave room for the suffix. */
    snprintf(file->part, sizeof file->part, "%.200s.part-%s", place->leaf, random);
    size_t size = strlen(place->text) + sizeof file->part + sizeof "/";
    file->scratch = malloc(size);
    if (file->scratch && by_others)
        snprintf(file->scratch, size, "%.*s%s/%s", folder, place->text, file->part,
                 place->leaf);
    else if (file->scratch)
        snprintf(file->scratch, size, "%.*s%s", folder, place->text, file->part);
    return file->scratch != NULL;
}

/* Whether the kernel provides the file. /dev/shm is different: it is a folder for users' files. */
static bool is_kernels_file(struct view path)
{
    bool device =
        view_starts_with(path, VIEW("/dev/")) && !view_starts_with(path, VIEW("/dev/shm/"));
    return device || view_starts_with(path, VIEW("/proc/"));
}

static enum hf_status check_replaceable(const char *path, struct hf_error *error)
{
    struct stat old;
    if (is_kernels_file(view_of(path)))
        return error_set(error, HF_INVALID, "it must be a file that can be replaced");
    if (stat(path, &old) == 0 && S_ISDIR(old.st_mode))
        return error_set(error, HF_INVALID, "it is a folder; name a file in it");
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
        return error_set(error, HF_INVALID, "it exists and is not a regular file");
    return HF_OK;
}

/* Opens the folder of the path, and checks that the path can be replaced. */
static enum hf_status open_place(struct new_file *file, const char *path,
                                 struct hf_error *error)
{
    struct stat old;
    enum hf_status status = check_replaceable(path, error);
    if (status == HF_OK)
        status = safe_path_open(path, &file->place, error);
    if (status != HF_OK)
        return status;
    if (file->place.by_kernel)
        return error_set(error, HF_INVALID, "it must be a file that can be replaced");
    if (fstatat(file->place.folder, file->place.leaf, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(old.st_mode))
        return error_set(error, HF_INVALID, "it exists and is not a regular file");
    return HF_OK;
}

static void report_name(const struct new_file *file, int which, const char *path)
{
    if (file->watch.writes)
        file->watch.writes(file->watch.context, which, path);
}

static enum hf_status new_file_prepare(struct new_file *file, struct env *env, const char *path,
                                       bool by_others, struct file_watch watch,
                                       struct hf_error *error)
{
    *file = NEW_FILE_NONE;
    file->watch = watch;
    enum hf_status status = open_place(file, path, error);
    if (status == HF_OK && !choose_names(file, env, by_others))
        status = error_no_memory(error);
    if (status == HF_OK)
        report_name(file, watch.which, file->scratch);
    return status;
}

/* ---- Creating the file --------------------------------------------------------------- */

#define PRIVATE_MODE 0600

/* The mode of the old file is kept only if we own that file. Otherwise another user may have put it
 * there to determine the mode. */
static bool find_mode_to_keep(const struct new_file *file, struct stat *ret_old)
{
    return fstatat(file->place.folder, file->place.leaf, ret_old, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(ret_old->st_mode) && !is_planted(file->place.folder, ret_old);
}

/* What the group of the old file may do, no other group may. */
static void keep_mode(const struct new_file *file, const struct stat *old)
{
    bool same_group = fchown(file->fd, (uid_t)-1, old->st_gid) == 0;
    (void)!fchmod(file->fd, old->st_mode & (same_group ? 0777 : 0707));
}

/* The name of the output is in the command line, which every user can read. So the command
 * writes into a private folder, where nobody else can create a file. */
enum hf_status new_file_reserve(struct new_file *file, struct env *env, const char *path,
                                struct file_watch watch, struct hf_error *error)
{
    enum hf_status status =
        new_file_prepare(file, env, path, /* by_others */ true, watch, error);
    if (status != HF_OK)
        return status;
    size_t folder = strlen(file->scratch) - strlen(file->place.leaf) - 1;
    file->own_path = strndup(file->scratch, folder);
    if (!file->own_path)
        return error_no_memory(error);
    report_name(file, FILE_WATCH_FOLDER, file->own_path);
    if (mkdirat(file->place.folder, file->part, 0700) == 0)
        file->own = openat(file->place.folder, file->part,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file->own >= 0)
        return HF_OK;
    error_from_errno(error, errno, "create a temporary folder next to it");
    (void)unlinkat(file->place.folder, file->part, AT_REMOVEDIR);
    return error->status;
}

enum hf_status new_file_take(struct new_file *file, struct hf_error *error)
{
    struct stat info;
    file->fd =
        openat(file->own, file->place.leaf, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file->fd < 0 && errno == ENOENT)
        return error_set(error, HF_UNAVAILABLE, "there is no output file");
    if (file->fd < 0 || fstat(file->fd, &info) != 0)
        return error_from_errno(error, errno, "open the output file");
    if (!S_ISREG(info.st_mode))
        return error_set(error, HF_UNAVAILABLE, "the output is not a regular file");
    struct stat old;
    if (find_mode_to_keep(file, &old))
        keep_mode(file, &old);
    return HF_OK;
}

/* A descriptor that another user opens stays usable after fchmod, so the file must never have a
 * wider mode than at the end. */
static enum hf_status create_part(struct new_file *file, mode_t mode, struct hf_error *error)
{
    file->fd = openat(file->place.folder, file->part,
                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (file->fd < 0)
        return error_from_errno(error, errno, "create a temporary file in the same folder");
    return HF_OK;
}

enum hf_status new_file_create(struct new_file *file, struct env *env, const char *path,
                               struct file_watch watch, struct hf_error *error)
{
    enum hf_status status =
        new_file_prepare(file, env, path, /* by_others */ false, watch, error);
    if (status != HF_OK)
        return status;
    struct stat old;
    bool keeps_mode = find_mode_to_keep(file, &old);
    status = create_part(file, keeps_mode ? PRIVATE_MODE : 0666, error);
    if (status == HF_OK && keeps_mode)
        keep_mode(file, &old);
    return status;
}

enum hf_status new_file_create_private(struct new_file *file, struct env *env, const char *path,
                                       struct hf_error *error)
{
    enum hf_status status = new_file_prepare(file, env, path, /* by_others */ false,
                                             (struct file_watch){ 0 }, error);
    return status == HF_OK ? create_part(file, PRIVATE_MODE, error) : status;
}

/* ---- Renaming it --------------------------------------------------------------------- */

enum hf_status new_file_keep(struct new_file *file, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    const struct safe_path *place = &file->place;
    bool by_others = file->own >= 0;
    /* A folder that is writable but not readable cannot be synced, and some file systems cannot
     * sync folders at all. */
    int folder = openat(place->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (renameat(by_others ? file->own : place->folder, by_others ? place->leaf : file->part,
                 place->folder, place->leaf) != 0) {
        status = error_from_errno(error, errno, "rename the temporary file");
    } else {
        file->kept = true;
        if (folder >= 0 && fsync(folder) != 0 && errno != EINVAL)
            status =
                error_from_errno(error, errno, "sync its folder; the file itself is in place");
    }
    if (folder >= 0)
        close(folder);
    return status;
}

void new_file_take_back(struct new_file *file)
{
    if (file->kept)
        (void)unlinkat(file->place.folder, file->place.leaf, 0);
}

void new_file_release(struct new_file *file)
{
    if (file->scratch && file->own >= 0) {
        folder_clear(file->own);
        (void)unlinkat(file->place.folder, file->part, AT_REMOVEDIR);
        close(file->own);
    } else if (file->fd >= 0 && file->scratch && !file->kept) {
        (void)unlinkat(file->place.folder, file->part, 0);
    }
    report_name(file, file->watch.which, NULL);
    if (file->own_path)
        report_name(file, FILE_WATCH_FOLDER, NULL);
    if (file->fd >= 0)
        close(file->fd);
    safe_path_close(&file->place);
    free(file->scratch);
    free(file->own_path);
    *file = NEW_FILE_NONE;
}
