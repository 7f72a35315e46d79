/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: lists a `dir:` store in the byte order of its keys, one directory at a time.
 *
 * The walk is a stack of directories. Each is read once into a sorted array of at most
 * LEVEL_ENTRIES_MAX names, the smallest that the listing may still need. If the directory has more
 * names, it is read again when these have been used, starting after the last of them. Directories
 * that lie entirely before the start of the page, or outside its prefix, are not opened. So memory
 * is bounded by the depth, and the cost of a page depends on the size of the directories that it
 * visits, not on the size of the store. */
#include "base/check.h"
#include "store/dir/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LEVEL_ENTRIES_MAX (LIST_PAGE_MAX + 2)

/* One level per segment, and one for each piece of a long segment. Each level but the last
 * takes at least one byte of the key. */
#define LEVELS_MAX (KEY_BYTES_MAX + 2)

/* A decoded name. For a file: the rest of its key, from its directory on. For a directory: the
 * common start of the keys in it, with a trailing "/" unless the segment continues inside. */
struct entry {
    uint8_t size;
    bool folder;
    bool aside;
    char bytes[DIR_PIECE_MAX + 1];
};

static_assert(DIR_PIECE_MAX + 1 <= UINT8_MAX, "the size of an entry is one byte");

struct level {
    struct entry *entries; /* a heap (largest first) while reading; then sorted */
    size_t count;
    size_t capacity;
    size_t next;
    bool cut;         /* the directory has more, after the last entry */
    size_t key_size;  /* length of the prefix shared by all its keys */
    size_t path_size; /* length of the path of this directory */
};

struct dir_walk {
    struct dir_store *dir;
    struct list_call *call;
    struct list_cursor cursor;
    struct mono_time deadline;
    char key[KEY_BYTES_MAX + DIR_PIECE_MAX + 1];
    char path[DIR_PATH_MAX];
    struct level *levels;
    size_t depth;
    size_t capacity;
};

static struct view entry_view(const struct entry *entry)
{
    return (struct view){ entry->bytes, entry->size };
}

/* In key order. A plain file comes before a file aside of the same name. */
static int entry_compare(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    int order = view_compare(entry_view(a), entry_view(b));
    return order != 0 ? order : a->aside - b->aside;
}

/* ---- Which entries the listing needs ------------------------------------------------- */

/* The key of the directory, followed by the bytes of the entry. */
static struct view key_at_level(struct dir_walk *walk, const struct level *level,
                                const struct entry *entry)
{
    memcpy(walk->key + level->key_size, entry->bytes, entry->size);
    return (struct view){ walk->key, level->key_size + entry->size };
}

/* False if all keys of the entry come before the cursor, or none can have the prefix. */
static bool entry_is_wanted(struct dir_walk *walk, const struct level *level,
                            const struct entry *entry)
{
    struct view key = key_at_level(walk, level, entry);
    struct view prefix = walk->call->prefix;
    int order = view_compare(key, walk->cursor.from);
    bool before = entry->folder ? order < 0 && !view_starts_with(walk->cursor.from, key)
                                : order < 0 || (order == 0 && walk->cursor.beyond);
    bool can_match =
        view_starts_with(key, prefix) || (entry->folder && view_starts_with(prefix, key));
    return key.size <= KEY_BYTES_MAX && !before && can_match;
}

/* ---- Reading a directory ------------------------------------------------------------- */

/* False for names that belong to no key: foreign names, links, pipes. */
static bool decode_entry(int fd, const struct dirent *found, struct entry *ret_entry)
{
    struct dir_name name;
    if (!dir_name_decode(view_of(found->d_name), &name))
        return false;
    struct stat st;
    bool folder = found->d_type == DT_DIR;
    bool file = found->d_type == DT_REG;
    if (found->d_type == DT_UNKNOWN &&
        fstatat(fd, found->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        folder = S_ISDIR(st.st_mode);
        file = S_ISREG(st.st_mode);
    }
    if (name.kind == DIR_NAME_PLAIN ? !folder && !file
                                    : (name.kind == DIR_NAME_ASIDE ? !file : !folder))
        return false;
    memcpy(ret_entry->bytes, name.bytes, name.size);
    ret_entry->size = (uint8_t)name.size;
    ret_entry->folder = folder;
    ret_entry->aside = name.kind == DIR_NAME_ASIDE;
    if (folder && name.kind == DIR_NAME_PLAIN)
        ret_entry->bytes[ret_entry->size++] = '/';
    return true;
}

static void sift_down(struct level *level)
{
    struct entry moved = level->entries[0];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= level->count)
            break;
        if (child + 1 < level->count &&
            entry_compare(&level->entries[child], &level->entries[child + 1]) < 0)
            child++;
        if (entry_compare(&moved, &level->entries[child]) >= 0)
            break;
        level->entries[at] = level->entries[child];
        at = child;
    }
    level->entries[at] = moved;
}

static void sift_up(struct level *level, const struct entry *entry)
{
    size_t at = level->count++;
    while (at > 0 && entry_compare(&level->entries[(at - 1) / 2], entry) < 0) {
        level->entries[at] = level->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    level->entries[at] = *entry;
}

/* Keeps the smallest LEVEL_ENTRIES_MAX entries. False if memory runs out. */
static bool level_add(struct level *level, const struct entry *entry)
{
    if (level->count == LEVEL_ENTRIES_MAX) {
        level->cut = true;
        if (entry_compare(entry, &level->entries[0]) < 0) {
            level->entries[0] = *entry;
            sift_down(level);
        }
        return true;
    }
    if (level->count == level->capacity) {
        size_t capacity = level->capacity ? 2 * level->capacity : 16;
        struct entry *larger = realloc(level->entries, capacity * sizeof *larger);
        if (!larger)
            return false;
        level->entries = larger;
        level->capacity = capacity;
    }
    sift_up(level, entry);
    return true;
}

static bool past_deadline(const struct dir_walk *walk)
{
    return !mono_before(env_now(walk->dir->base.env), walk->deadline);
}

/* Reads a stream from where it is to its end, and keeps the entries after `after`; NULL: all.
 * *ret_last is the position of the last one in the stream. */
static enum hf_status read_entries(struct dir_walk *walk, struct level *level, DIR *stream,
                                   const struct entry *after, long *ret_last)
{
    struct dirent *found;
    long position = telldir(stream);
    while ((errno = 0, found = readdir(stream))) {
        struct entry entry;
        *ret_last = position;
        position = telldir(stream);
        if (decode_entry(dirfd(stream), found, &entry) &&
            (!after || entry_compare(&entry, after) > 0) &&
            entry_is_wanted(walk, level, &entry) && !level_add(level, &entry))
            return error_no_memory(&walk->call->error);
    }
    if (errno != 0)
        return error_from_errno(&walk->call->error, errno, "read a folder");
    return HF_OK;
}

/* Whether a file that is overwritten gets a new position in its directory, behind all others, and
 * a stream ends at what was the last position when it was opened or last positioned (btrfs since
 * Linux 6.5). Other file systems keep the position. */
static bool moves_what_is_overwritten(DIR *stream)
{
    struct statfs system;
    return fstatfs(dirfd(stream), &system) == 0 &&
           (unsigned long)system.f_type == BTRFS_SUPER_MAGIC;
}

/* Reads what was behind the last entry by the time that it was read, again and again until the
 * directory has not changed during such a read, which takes a few microseconds. So an object that
 * was overwritten before its turn came is found at its new position. What is found at both is in
 * the level twice, and the walk passes over the second. Before Linux 6.13, two changes within a few
 * milliseconds may have the same time, and an object that was overwritten during the first read is
 * missed if it is overwritten once more in such a short read just after another change. */
static enum hf_status read_on(struct dir_walk *walk, struct level *level, DIR *stream,
                              const struct entry *after, long last)
{
    struct hf_error *error = &walk->call->error;
    struct stat before, now;
    bool changed;
    do {
        if (fstat(dirfd(stream), &before) != 0)
            return error_from_errno(error, errno, "read a folder");
        seekdir(stream, last);
        if (read_entries(walk, level, stream, after, &last) != HF_OK)
            return error->status;
        if (fstat(dirfd(stream), &now) != 0)
            return error_from_errno(error, errno, "read a folder");
        changed = now.st_ctim.tv_sec != before.st_ctim.tv_sec ||
                  now.st_ctim.tv_nsec != before.st_ctim.tv_nsec;
        if (changed && past_deadline(walk))
            return error_set(error, HF_UNAVAILABLE, "the listing took too long");
    } while (changed);
    return HF_OK;
}

/* Reads the entries after `after`; NULL: from the start. */
static enum hf_status read_stream(struct dir_walk *walk, struct level *level, DIR *stream,
                                  const struct entry *after)
{
    long last = 0;
    level->count = 0;
    level->next = 0;
    level->cut = false;
    enum hf_status status = read_entries(walk, level, stream, after, &last);
    if (status == HF_OK && moves_what_is_overwritten(stream))
        status = read_on(walk, level, stream, after, last);
    if (level->count > 1)
        qsort(level->entries, level->count, sizeof *level->entries, entry_compare);
    return status;
}

/* A directory that has since been removed, or replaced by a link, counts as empty. */
static enum hf_status open_level_stream(struct dir_walk *walk, const struct level *level,
                                        DIR **ret_stream)
{
    walk->path[level->path_size] = '\0';
    int fd = dir_open_beneath(walk->dir->root, level->path_size ? walk->path : ".",
                              O_RDONLY | O_DIRECTORY);
    *ret_stream = fd < 0 ? NULL : fdopendir(fd);
    if (*ret_stream || errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
        return HF_OK;
    int failed = errno;
    if (fd >= 0)
        close(fd);
    return error_from_errno(&walk->call->error, failed, "open a folder");
}

/* Reads the directory under DIR_LOCK_MOVE. If a file were moved aside during the read, the listing
 * could miss it under both names. */
static enum hf_status read_under_lock(struct dir_walk *walk, struct level *level, DIR *stream,
                                      const struct entry *after)
{
    struct dir_locks *locks = &walk->dir->locks;
    struct dir_lock lock;
    if (dir_lock_take(locks, DIR_LOCK_MOVE, DIR_LOCK_SHARED, walk->deadline, &lock,
                      &walk->call->error) != HF_OK)
        return walk->call->error.status;
    enum hf_status status = read_stream(walk, level, stream, after);
    dir_lock_drop(locks, &lock);
    return status;
}

/* The same for a reader without permission to lock: reads again until no file was moved during a
 * read. */
static enum hf_status read_without_lock(struct dir_walk *walk, struct level *level, DIR *stream,
                                        const struct entry *after)
{
    struct dir_locks *locks = &walk->dir->locks;
    struct hf_error *error = &walk->call->error;
    uint64_t before, now;
    enum hf_status status = dir_moves(locks, walk->deadline, &now, error);
    do {
        before = now;
        rewinddir(stream);
        if (status == HF_OK)
            status = read_stream(walk, level, stream, after);
        if (status == HF_OK)
            status = dir_moves(locks, walk->deadline, &now, error);
        if (status == HF_OK && now != before && past_deadline(walk))
            status = error_set(error, HF_UNAVAILABLE, "the listing took too long");
    } while (status == HF_OK && now != before);
    return status;
}

static enum hf_status read_level(struct dir_walk *walk, struct level *level)
{
    struct hf_error *error = &walk->call->error;
    struct entry last;
    const struct entry *after = NULL;
    DIR *stream;
    if (past_deadline(walk))
        return error_set(error, HF_UNAVAILABLE, "the listing took too long");
    if (open_level_stream(walk, level, &stream) != HF_OK)
        return error->status;
    if (!stream) {
        level->count = level->next = 0;
        level->cut = false;
        return HF_OK;
    }
    if (level->cut) {
        last = level->entries[level->count - 1];
        after = &last;
    }
    enum hf_status status = walk->dir->locks.fd >= 0
                                ? read_under_lock(walk, level, stream, after)
                                : read_without_lock(walk, level, stream, after);
    closedir(stream);
    return status;
}

/* ---- Walking ------------------------------------------------------------------------- */

static enum hf_status push_level(struct dir_walk *walk, size_t key_size, size_t path_size)
{
    check(walk->depth < LEVELS_MAX);
    if (walk->depth == walk->capacity) {
        size_t capacity = walk->capacity ? 2 * walk->capacity : 8;
        struct level *larger = realloc(walk->levels, capacity * sizeof *larger);
        if (!larger)
            return error_no_memory(&walk->call->error);
        walk->levels = larger;
        walk->capacity = capacity;
    }
    struct level *level = &walk->levels[walk->depth++];
    *level = (struct level){ .key_size = key_size, .path_size = path_size };
    return read_level(walk, level);
}

static void pop_level(struct dir_walk *walk)
{
    free(walk->levels[--walk->depth].entries);
}

/* Enters the directory of an entry. `key` ends with the bytes of that entry. */
static enum hf_status open_listed_folder(struct dir_walk *walk, const struct level *level,
                                         struct view key)
{
    struct dir_path path;
    dir_path_encode(key, &path);
    size_t size = path.size;
    while (size > 0 && path.text[size - 1] != '/')
        size--;
    size -= size > 0;
    check(size > level->path_size);
    memcpy(walk->path, path.text, size);
    return push_level(walk, key.size, size);
}

/* The next file of the walk that the listing may need. `ret_key` is empty at the end. */
static enum hf_status next_file(struct dir_walk *walk, struct view *ret_key)
{
    *ret_key = (struct view){ "", 0 };
    while (walk->depth > 0) {
        struct level *level = &walk->levels[walk->depth - 1];
        enum hf_status status = HF_OK;
        if (level->next == level->count && level->cut) {
            status = read_level(walk, level);
        } else if (level->next == level->count) {
            pop_level(walk);
        } else {
            const struct entry *entry = &level->entries[level->next++];
            struct view key = key_at_level(walk, level, entry);
            if (!entry_is_wanted(walk, level, entry))
                continue;
            if (!entry->folder) {
                *ret_key = key;
                return HF_OK;
            }
            status = open_listed_folder(walk, level, key);
        }
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- The page ------------------------------------------------------------------------ */

/* Whether the key appears in the listing only as part of a group. */
static bool is_grouped(const struct list_call *call, struct view key)
{
    struct view behind = view_from(key, call->prefix.size);
    return call->delimiter.size > 0 && view_find(behind, call->delimiter.data[0]) < behind.size;
}

/* Reads the ETag, size and time of a key. False if the object is gone, or on an error. */
static bool read_info(struct dir_walk *walk, struct view key, struct object_info *ret_info)
{
    struct list_call *call = walk->call;
    struct dir_path path;
    struct stat st;
    int fd;
    dir_path_encode(key, &path);
    if (dir_look(walk->dir, &path, &fd, &call->error) != HF_OK) {
        if (call->error.status == HF_INVALID)
            error_clear(&call->error);
        return false;
    }
    if (fd < 0)
        return false;
    dir_file_info(fd, ret_info, &st, &call->error);
    close(fd);
    return call->error.status == HF_OK;
}

/* Foreign files are read to compute their ETags. If that takes too long, the page ends early,
 * but never before its first entry. */
static void fill_page(struct dir_walk *walk)
{
    struct list_call *call = walk->call;
    bool more = push_level(walk, 0, 0) == HF_OK;
    while (more) {
        struct view key;
        struct object_info info;
        if (next_file(walk, &key) != HF_OK || key.size == 0)
            break;
        bool grouped = is_grouped(call, key);
        if (!grouped && call->count > 0 && past_deadline(walk)) {
            call->more = true;
            break;
        }
        if (grouped || read_info(walk, key, &info))
            more = list_offer(call, &walk->cursor, key, &info);
        else
            more = call->error.status == HF_OK;
    }
    while (walk->depth > 0)
        pop_level(walk);
    free(walk->levels);
}

void dir_list(struct store *store, struct list_call *call)
{
    if (store_is_forked(dir_of(store)->pid, &call->error))
        return;
    struct dir_walk *walk = malloc(sizeof *walk);
    if (!walk) {
        error_no_memory(&call->error);
        return;
    }
    walk->dir = dir_of(store);
    walk->call = call;
    walk->deadline = local_deadline(walk->dir->base.env, call->deadline);
    walk->levels = NULL;
    walk->depth = walk->capacity = 0;
    list_start(call, &walk->cursor);
    fill_page(walk);
    /* Everything on the page must be durable before the caller sees it. */
    if (call->error.status == HF_OK)
        dir_settle_all(&walk->dir->locks, walk->deadline, &call->error);
    free(walk);
}
