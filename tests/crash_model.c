/* SPDX-License-Identifier: Apache-2.0 */
/* crash_model.c: a model of a directory tree, and the states that a disk could show after a
 * power loss. */
#include "crash_model.h"

#include "base/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- Nodes --------------------------------------------------------------------------- */

static int node_add(struct model *model, bool folder, ino_t inode)
{
    check(model->count < MODEL_NODES_MAX);
    for (int i = 0; i < model->count; i++)
        if (model->nodes[i].inode == inode)
            model->nodes[i].inode = 0; /* that file is gone, and its number in use again */
    struct model_node *node = &model->nodes[model->count];
    *node = (struct model_node){ .folder = folder, .inode = inode };
    if (folder) {
        node->names = calloc(MODEL_NAMES_MAX, sizeof *node->names);
        check(node->names);
    }
    return model->count++;
}

int model_find(const struct model *model, ino_t inode)
{
    for (int i = 0; i < model->count; i++)
        if (inode != 0 && model->nodes[i].inode == inode)
            return i;
    return -1;
}

static struct model_name *find_name(const struct model *model, int folder, const char *name)
{
    const struct model_node *node = &model->nodes[folder];
    for (size_t i = 0; i < node->count; i++)
        if (strcmp(node->names[i].text, name) == 0)
            return &node->names[i];
    return NULL;
}

int model_lookup(const struct model *model, int folder, const char *name)
{
    const struct model_name *found = find_name(model, folder, name);
    return found ? found->node : -1;
}

static void set_name(struct model *model, int folder, const char *name, int target)
{
    struct model_node *node = &model->nodes[folder];
    struct model_name *found = find_name(model, folder, name);
    if (target < 0) {
        if (found)
            *found = node->names[--node->count];
        return;
    }
    if (!found) {
        check(node->count < MODEL_NAMES_MAX);
        found = &node->names[node->count++];
        snprintf(found->text, sizeof found->text, "%s", name);
    }
    found->node = target;
}

static void resize(struct model_node *node, size_t size)
{
    if (size > node->size) {
        node->data = realloc(node->data, size);
        check(node->data);
        memset(node->data + node->size, 0, size - node->size);
    }
    node->size = size;
}

void model_apply(struct model *model, const struct change *change)
{
    struct model_node *node = &model->nodes[change->node];
    switch (change->kind) {
    case CHANGE_WRITE:
        if (change->offset + change->size > node->size)
            resize(node, change->offset + change->size);
        memcpy(node->data + change->offset, change->data, change->size);
        node->modified = change->modified;
        break;
    case CHANGE_TRUNCATE:
        resize(node, change->offset);
        node->modified = change->modified;
        break;
    case CHANGE_ATTRIBUTE:
        check(change->size <= sizeof node->attribute);
        memcpy(node->attribute, change->data, change->size);
        node->attribute_size = change->size;
        break;
    case CHANGE_NAME: set_name(model, change->node, change->name, change->target); break;
    case CHANGE_RENAME:
        set_name(model, change->node, change->name, -1);
        set_name(model, change->node, change->name2, change->target);
        break;
    case CHANGE_SYNC:
    case CHANGE_SYNC_ALL:
    case CHANGE_MARK: break;
    }
}

/* ---- From a folder, and back --------------------------------------------------------- */

static void scan_file(struct model *model, int node, int fd, const struct stat *st)
{
    struct model_node *file = &model->nodes[node];
    resize(file, (size_t)st->st_size);
    check(pread(fd, file->data, file->size, 0) == (ssize_t)file->size);
    file->modified = st->st_mtim;
    ssize_t size = fgetxattr(fd, MODEL_ATTRIBUTE, file->attribute, sizeof file->attribute);
    file->attribute_size = size > 0 ? (size_t)size : 0;
}

static bool is_modelled(const char *name)
{
    size_t size = strlen(name);
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           (size < 4 || strcmp(name + size - 4, "-shm") != 0);
}

/* Recurses as deep as the folder goes, which the stories keep shallow. */
static void scan_folder(struct model *model, int node, int fd)
{
    DIR *stream = fdopendir(fd);
    check(stream);
    struct dirent *entry;
    while ((entry = readdir(stream))) {
        if (!is_modelled(entry->d_name))
            continue;
        int child = openat(fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        check(child >= 0 && fstat(child, &st) == 0);
        int found = model_find(model, st.st_ino);
        int target = found >= 0 ? found : node_add(model, S_ISDIR(st.st_mode), st.st_ino);
        set_name(model, node, entry->d_name, target);
        if (S_ISDIR(st.st_mode)) {
            scan_folder(model, target, child);
            continue;
        }
        if (found < 0)
            scan_file(model, target, child, &st);
        close(child);
    }
    closedir(stream);
}

static struct model *model_copy(const struct model *model)
{
    struct model *copy = malloc(sizeof *copy);
    check(copy);
    *copy = *model;
    for (int i = 0; i < model->count; i++) {
        const struct model_node *from = &model->nodes[i];
        struct model_node *to = &copy->nodes[i];
        to->data = NULL;
        to->size = 0;
        resize(to, from->size);
        if (from->size)
            memcpy(to->data, from->data, from->size);
        if (from->folder) {
            to->names = malloc(MODEL_NAMES_MAX * sizeof *to->names);
            check(to->names);
            memcpy(to->names, from->names, MODEL_NAMES_MAX * sizeof *to->names);
        }
    }
    return copy;
}

void model_free(struct model *model)
{
    for (int i = 0; i < model->count; i++) {
        free(model->nodes[i].data);
        free(model->nodes[i].names);
    }
    free(model);
}

static void build_file(const struct model_node *node, const char *path,
                       void (*relabel)(void *attribute, size_t size, ino_t inode))
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat st;
    check(fd >= 0 && fstat(fd, &st) == 0);
    check(pwrite(fd, node->data, node->size, 0) == (ssize_t)node->size);
    if (node->attribute_size > 0) {
        char attribute[sizeof node->attribute];
        memcpy(attribute, node->attribute, node->attribute_size);
        if (relabel)
            relabel(attribute, node->attribute_size, st.st_ino);
        check(fsetxattr(fd, MODEL_ATTRIBUTE, attribute, node->attribute_size, 0) == 0);
    }
    struct timespec times[2] = { node->modified, node->modified };
    check(futimens(fd, times) == 0);
    close(fd);
}

struct build {
    const struct model *model;
    void (*relabel)(void *attribute, size_t size, ino_t inode);
    char (*paths)[4096]; /* where each node has been built, to link to */
};

/* A directory cannot have two names; of those a power loss leaves it the first counts. */
static void build_folder(struct build *build, int folder)
{
    const struct model_node *node = &build->model->nodes[folder];
    for (size_t i = 0; i < node->count; i++) {
        int target = node->names[i].node;
        char path[4096];
        int size = snprintf(path, sizeof path, "%.3700s/%s", build->paths[folder],
                            node->names[i].text);
        check(size > 0 && (size_t)size < sizeof path);
        bool again = build->paths[target][0] != '\0';
        if (again && !build->model->nodes[target].folder)
            check(link(build->paths[target], path) == 0);
        if (again)
            continue;
        memcpy(build->paths[target], path, sizeof path);
        if (build->model->nodes[target].folder) {
            check(mkdir(path, 0777) == 0);
            build_folder(build, target);
        } else {
            build_file(&build->model->nodes[target], path, build->relabel);
        }
    }
}

void model_build(const struct model *model, const char *folder,
                 void (*relabel)(void *attribute, size_t size, ino_t inode))
{
    struct build build = { .model = model, .relabel = relabel };
    build.paths = calloc((size_t)model->count, sizeof *build.paths);
    check(build.paths);
    snprintf(build.paths[0], sizeof build.paths[0], "%s", folder);
    build_folder(&build, 0);
    free(build.paths);
}

/* ---- The record ---------------------------------------------------------------------- */

struct record *record_new(const char *folder)
{
    struct record *record = calloc(1, sizeof *record);
    check(record);
    record->start = calloc(1, sizeof *record->start);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    check(record->start && fd >= 0 && fstat(fd, &st) == 0);
    node_add(record->start, /* folder */ true, st.st_ino);
    scan_folder(record->start, 0, fd);
    record->live = model_copy(record->start);
    return record;
}

void record_free(struct record *record)
{
    model_free(record->start);
    model_free(record->live);
    for (size_t i = 0; i < record->count; i++)
        free(record->changes[i].data);
    free(record->changes);
    free(record);
}

int record_node(struct record *record, bool folder, ino_t inode)
{
    node_add(record->start, folder, inode);
    return node_add(record->live, folder, inode);
}

void record_add(struct record *record, const struct change *change)
{
    if (record->count == record->capacity) {
        record->capacity = record->capacity ? 2 * record->capacity : 64;
        record->changes = realloc(record->changes, record->capacity * sizeof *record->changes);
        check(record->changes);
    }
    struct change *copy = &record->changes[record->count++];
    *copy = *change;
    copy->data = NULL;
    if (change->size > 0) {
        copy->data = malloc(change->size);
        check(copy->data);
        memcpy(copy->data, change->data, change->size);
    }
    model_apply(record->live, copy);
}

static bool is_sync(const struct change *change)
{
    return change->kind == CHANGE_SYNC || change->kind == CHANGE_SYNC_ALL ||
           change->kind == CHANGE_MARK;
}

bool record_is_pending(const struct record *record, size_t at, size_t moment)
{
    const struct change *change = &record->changes[at];
    if (is_sync(change))
        return false;
    for (size_t i = at + 1; i < moment; i++) {
        const struct change *later = &record->changes[i];
        if (later->kind == CHANGE_SYNC_ALL ||
            (later->kind == CHANGE_SYNC && later->node == change->node))
            return false;
    }
    return true;
}

struct model *record_state(const struct record *record, size_t moment, const size_t *keep)
{
    struct model *model = model_copy(record->start);
    for (size_t i = 0; i < moment; i++) {
        struct change change = record->changes[i];
        if (keep[i] == 0)
            continue;
        if (change.kind == CHANGE_WRITE && keep[i] - 1 < change.size)
            change.size = keep[i] - 1;
        model_apply(model, &change);
    }
    return model;
}
