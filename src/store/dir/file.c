/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: opens objects without following symbolic links, which could lead out of the store, and
 * reads the label that distinguishes our own files from files that were changed or added by
 * hand. */
#include "store/dir/file.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/parse.h"
#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ATTRIBUTE "user.holdfast"

/* ---- Opening ------------------------------------------------------------------------- */

#define OPEN_FLAGS (O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* RESOLVE_NO_SYMLINKS refuses a link anywhere in the path with ELOOP. With O_NOFOLLOW, a link at
 * the end of the path would be reported as ENOTDIR, just like a file in the middle of the path. */
int dir_open_beneath(int at, const char *path, int flags)
{
    struct open_how how = {
        .flags = (unsigned)(flags | OPEN_FLAGS),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, at, path, &how, sizeof how);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return dir_open_stepwise(at, path, flags);
    return (int)fd;
}

/* The kernel reports a link in place of a directory as "not a directory"; this function reports
 * ELOOP instead. */
static int open_step(int at, const char *name, int flags)
{
    int fd = openat(at, name, flags | O_NOFOLLOW | OPEN_FLAGS);
    struct stat st;
    if (fd < 0 && errno == ENOTDIR) {
        bool link = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
        errno = link ? ELOOP : ENOTDIR;
    }
    return fd;
}

int dir_open_stepwise(int at, const char *path, int flags)
{
    struct view rest = view_of(path);
    int here = at;
    for (;;) {
        struct view name = view_cut(&rest, '/');
        bool last = name.data + name.size == path + strlen(path);
        char text[256];
        int next = -1;
        if (name.size >= sizeof text) {
            errno = ENAMETOOLONG;
        } else if (view_equal(name, VIEW(".."))) {
            errno = EXDEV;
        } else {
            memcpy(text, name.data, name.size);
            text[name.size] = '\0';
            next = open_step(here, text, last ? flags : O_PATH | O_DIRECTORY);
        }
        int failed = errno;
        if (here != at)
            close(here);
        errno = failed;
        if (last || next < 0)
            return next;
        here = next;
    }
}

void dir_aside_name(const char *path, size_t size, char *ret_name)
{
    memcpy(ret_name, path, size);
    memcpy(ret_name + size, "%", 2);
}

enum open_outcome { OPEN_FILE, OPEN_DIRECTORY, OPEN_NONE, OPEN_FAILED };

static enum open_outcome open_regular_file(int at, const char *path, int *ret_fd,
                                           struct hf_error *error)
{
    int fd = dir_open_beneath(at, path, O_RDONLY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return OPEN_NONE;
    struct stat st = { .st_mode = 0 };
    if (fd < 0 && errno == ELOOP)
        error_set(error, HF_INVALID,
                  "the path contains a symbolic link, which a dir: store does not follow");
    else if (fd < 0 && errno == ENXIO)
        error_set(error, HF_INVALID,
                  "the object's name is taken by something that is not a regular file");
    else if (fd < 0 || fstat(fd, &st) != 0)
        error_from_errno(error, errno, "open the object");
    else if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        error_set(error, HF_INVALID,
                  "the object's name is taken by something that is not a regular file");
    if (S_ISREG(st.st_mode)) {
        *ret_fd = fd;
        return OPEN_FILE;
    }
    if (fd >= 0)
        close(fd);
    return S_ISDIR(st.st_mode) ? OPEN_DIRECTORY : OPEN_FAILED;
}

enum hf_status dir_find(int at, const char *path, size_t size, struct dir_found *ret_found,
                        struct hf_error *error)
{
    check(size + 2 <= DIR_PATH_MAX);
    *ret_found = (struct dir_found){ .fd = -1 };
    enum open_outcome plain = open_regular_file(at, path, &ret_found->fd, error);
    if (plain == OPEN_FILE)
        return HF_OK;
    if (plain == OPEN_FAILED)
        return error->status;
    char aside[DIR_PATH_MAX];
    dir_aside_name(path, size, aside);
    enum open_outcome outcome = open_regular_file(at, aside, &ret_found->fd, error);
    if (outcome == OPEN_FAILED)
        return error->status;
    if (outcome == OPEN_DIRECTORY)
        return error_set(error, HF_INVALID,
                         "the name of the object's file is taken by a folder");
    ret_found->aside = outcome == OPEN_FILE || plain == OPEN_DIRECTORY;
    return HF_OK;
}

/* ---- The label ----------------------------------------------------------------------- */

/* Small enough to fit into the inode, where it needs no block of its own. Little-endian on
 * disk, like all machines that we build for. */
struct label {
    uint8_t version;
    uint8_t zero[7];
    uint8_t random[DIR_ETAG_BYTES];
    uint64_t size;
    int64_t modified_ns;
    uint64_t inode;
};

#define LABEL_VERSION 1

static_assert(sizeof(struct label) == 48, "no padding goes to disk");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "labels are little-endian");

static int64_t modified_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static void label_init(struct label *label, const unsigned char random[DIR_ETAG_BYTES],
                       const struct stat *st)
{
    *label = (struct label){
        .version = LABEL_VERSION,
        .size = (uint64_t)st->st_size,
        .modified_ns = modified_ns(st),
        .inode = (uint64_t)st->st_ino,
    };
    memcpy(label->random, random, DIR_ETAG_BYTES);
}

static void set_etag(struct etag *etag, const unsigned char random[DIR_ETAG_BYTES])
{
    char text[2 * DIR_ETAG_BYTES + 1];
    hex_encode(random, DIR_ETAG_BYTES, text);
    etag_set(etag, view_of(text));
}

enum hf_status dir_file_label(int fd, const unsigned char random[DIR_ETAG_BYTES],
                              struct etag *ret_etag, struct hf_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return error_from_errno(error, errno, "read the status of the new file");
    struct label label;
    label_init(&label, random, &st);
    if (fsetxattr(fd, ATTRIBUTE, &label, sizeof label, 0) != 0)
        return error_from_errno(error, errno, "set the file's attribute");
    set_etag(ret_etag, random);
    return HF_OK;
}

static bool has_label(int fd, const struct stat *st, struct etag *ret_etag)
{
    struct label label;
    struct label expected;
    if (fgetxattr(fd, ATTRIBUTE, &label, sizeof label) != sizeof label)
        return false;
    /* A file that was edited, copied or restored has another size, time or inode than its label. It
     * is foreign, because its old ETag no longer describes its bytes. */
    label_init(&expected, label.random, st);
    if (memcmp(&label, &expected, sizeof label) != 0)
        return false;
    set_etag(ret_etag, label.random);
    return true;
}

/* ---- Foreign files ------------------------------------------------------------------- */

static enum hf_status hash_contents(int fd, struct hash_stream *stream, char *piece,
                                    struct hf_error *error)
{
    uint64_t offset = 0;
    size_t got;
    do {
        if (file_read_at(fd, piece, STREAM_PIECE, offset, &got, error) != HF_OK)
            return error->status;
        hash_stream_add(stream, (struct view){ piece, got });
        offset += got;
    } while (got == STREAM_PIECE && offset < OBJECT_BYTES_MAX);
    return HF_OK;
}

static enum hf_status foreign_etag(int fd, struct etag *ret_etag, struct hf_error *error)
{
    struct hash_stream stream;
    char *piece = malloc(STREAM_PIECE);
    hash_stream_init(&stream);
    enum hf_status status =
        piece ? hash_contents(fd, &stream, piece, error) : error_no_memory(error);
    if (status == HF_OK) {
        unsigned char digest[XXH3_128_BYTES];
        hash_stream_xxh3_128(&stream, digest);
        char text[2 + 2 * sizeof digest] = "f";
        hex_encode(digest, sizeof digest, text + 1);
        etag_set(ret_etag, view_of(text));
    }
    free(piece);
    return status;
}

enum hf_status dir_file_info(int fd, struct object_info *ret_info, struct stat *ret_stat,
                             struct hf_error *error)
{
    if (fstat(fd, ret_stat) != 0)
        return error_from_errno(error, errno, "read the status of the object");
    ret_info->size = (uint64_t)ret_stat->st_size;
    ret_info->modified = (struct wall_time){ modified_ns(ret_stat) / 1000 };
    if (has_label(fd, ret_stat, &ret_info->etag))
        return HF_OK;
    return foreign_etag(fd, &ret_info->etag, error);
}

bool dir_file_unchanged(int fd, const struct stat *before)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size == before->st_size &&
           modified_ns(&st) == modified_ns(before);
}
