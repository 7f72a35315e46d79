/* new_file.c: names, modes and the order of calls that make a file appear at once. */
#include "merge/new_file.h"

#include "base/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
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

/* Not every file system has nameless files: then the name is taken away again. */
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

enum hf_status temporary_file(int *ret_fd, struct hf_error *error)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || !folder[0])
        folder = "/tmp";
    if (strlen(folder) >= PATH_MAX - sizeof "/holdfast-XXXXXX")
        return error_set(error, HF_UNAVAILABLE, "the path in TMPDIR is too long");
    int fd = nameless_file(folder);
    if (fd < 0) {
        error_from_errno(error, errno, "make a temporary file");
        error_about(error, folder);
        return error->status = HF_UNAVAILABLE;
    }
    *ret_fd = fd;
    return HF_OK;
}

static bool choose_names(struct new_file *file, struct env *env, const char *path)
{
    char random[SCRATCH_DIGITS + 1];
    env_random_hex(env, SCRATCH_DIGITS, random);
    file->path = realpath(path, NULL);
    if (!file->path)
        file->path = strdup(path);
    if (!file->path)
        return false;
    const char *slash = strrchr(file->path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - file->path) : 0;
    size_t size = folder + NAME_MAX + 1;
    file->scratch = malloc(size);
    if (file->scratch) /* a long name is cut, to leave room for what is added */
        snprintf(file->scratch, size, "%.*s%.200s.part-%s", (int)folder, file->path,
                 file->path + folder, random);
    return file->scratch != NULL;
}

static enum hf_status check_place(const struct new_file *file, const char *path,
                                  struct hf_error *error)
{
    struct stat old;
    if (view_starts_with(view_of(path), VIEW("/dev/")) ||
        view_starts_with(view_of(path), VIEW("/proc/")))
        return error_set(error, HF_INVALID, "it must be a file that can be replaced");
    if (stat(file->path, &old) == 0 && !S_ISREG(old.st_mode))
        return error_set(error, HF_INVALID, "it exists and is not a regular file");
    return HF_OK;
}

static void tell(const struct new_file *file, const char *scratch)
{
    if (file->watch.writes)
        file->watch.writes(file->watch.context, file->watch.which, scratch);
}

enum hf_status new_file_reserve(struct new_file *file, struct env *env, const char *path,
                                struct file_watch watch, struct hf_error *error)
{
    *file = (struct new_file){ .fd = -1, .watch = watch };
    if (!choose_names(file, env, path))
        return error_no_memory(error);
    enum hf_status status = check_place(file, path, error);
    if (status == HF_OK)
        tell(file, file->scratch);
    return status;
}

static void keep_mode(const struct new_file *file)
{
    struct stat old;
    if (stat(file->path, &old) == 0)
        (void)!fchmod(file->fd, old.st_mode & 0777);
}

enum hf_status new_file_take(struct new_file *file, struct hf_error *error)
{
    struct stat info;
    file->fd = open(file->scratch, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file->fd < 0 && errno == ENOENT)
        return error_set(error, HF_UNAVAILABLE, "there is no output file");
    if (file->fd < 0 || fstat(file->fd, &info) != 0)
        return error_from_errno(error, errno, "open the output file");
    if (!S_ISREG(info.st_mode))
        return error_set(error, HF_UNAVAILABLE, "the output is not a regular file");
    keep_mode(file);
    return HF_OK;
}

enum hf_status new_file_create(struct new_file *file, struct env *env, const char *path,
                               struct file_watch watch, struct hf_error *error)
{
    enum hf_status status = new_file_reserve(file, env, path, watch, error);
    if (status != HF_OK)
        return status;
    file->fd = open(file->scratch, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return error_from_errno(error, errno, "create a file beside it");
    keep_mode(file);
    return HF_OK;
}

enum hf_status new_file_keep(struct new_file *file, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    char path[PATH_MAX];
    /* One that may be written to but not read cannot be synced; nor can any on some systems, which
     * say EINVAL. */
    int folder = open(folder_of(file->path, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rename(file->scratch, file->path) != 0) {
        status = error_from_errno(error, errno, "give it its name");
    } else {
        file->kept = true;
        if (folder >= 0 && fsync(folder) != 0 && errno != EINVAL)
            status = error_from_errno(error, errno, "it has its name, but sync its folder");
    }
    if (folder >= 0)
        close(folder);
    return status;
}

void new_file_release(struct new_file *file)
{
    bool remove = file->scratch && !file->kept;
    if (remove && unlink(file->scratch) != 0 && errno == EISDIR)
        rmdir(file->scratch);
    tell(file, NULL);
    if (file->fd >= 0)
        close(file->fd);
    free(file->scratch);
    free(file->path);
    *file = (struct new_file){ .fd = -1 };
}
