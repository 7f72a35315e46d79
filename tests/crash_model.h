/* SPDX-License-Identifier: Apache-2.0 */
/* crash_model.h: a folder as a model: nodes with bytes or names, and the changes that lead from
 * one state to the next, each of which a power loss may take back until it is synced. */
#ifndef TESTS_CRASH_MODEL_H
#define TESTS_CRASH_MODEL_H

#include "crash.h"

#include <time.h>

#define MODEL_NODES_MAX 512
#define MODEL_NAMES_MAX 64
#define MODEL_NAME_SIZE 256
#define MODEL_ATTRIBUTE "user.holdfast"

struct model_name {
    char text[MODEL_NAME_SIZE];
    int node;
};

struct model_node {
    bool folder;
    ino_t inode; /* in the recorded folder */
    struct timespec modified;
    char *data;
    size_t size;
    char attribute[128];
    size_t attribute_size;
    struct model_name *names; /* room for MODEL_NAMES_MAX when it is a folder */
    size_t count;
};

/* Node 0 is the folder itself. */
struct model {
    struct model_node nodes[MODEL_NODES_MAX];
    int count;
};

enum change_kind {
    CHANGE_WRITE,     /* data at offset */
    CHANGE_TRUNCATE,  /* to the size `offset` */
    CHANGE_ATTRIBUTE, /* data is its value */
    CHANGE_NAME,      /* in `node`: name leads to `target`, or to nothing if that is -1 */
    CHANGE_RENAME,    /* in `node`: name is removed, and name2 leads to `target`, at once */
    CHANGE_SYNC,      /* of `node` */
    CHANGE_SYNC_ALL,
    CHANGE_MARK, /* the calls acknowledged so far are `target` */
};

struct change {
    enum change_kind kind;
    int node;
    int target;
    uint64_t offset;
    char *data;
    size_t size;
    struct timespec modified;
    char name[MODEL_NAME_SIZE];
    char name2[MODEL_NAME_SIZE];
    unsigned reader_saw; /* a bit for each step that a reader was told of after it */
};

struct record {
    struct model *start;
    struct model *live; /* start with all changes, kept while recording */
    struct change *changes;
    size_t count;
    size_t capacity;
};

struct record *record_new(const char *folder);
void record_free(struct record *record);

/* Appends a change and applies it to the live model; copies the data. */
void record_add(struct record *record, const struct change *change);

/* A node that nothing leads to yet. */
int record_node(struct record *record, bool folder, ino_t inode);

/* The node of an inode that is in use, or -1. */
int model_find(const struct model *model, ino_t inode);
int model_lookup(const struct model *model, int folder, const char *name);
void model_apply(struct model *model, const struct change *change);

/* Whether the change at `at` may be missing if the power fails after `moment` changes. */
bool record_is_pending(const struct record *record, size_t at, size_t moment);

/* The state after `moment` changes without those for which keep[at] is 0; of a write the first
 * keep[at] - 1 bytes at most are there. */
#define KEEP_ALL SIZE_MAX
struct model *record_state(const struct record *record, size_t moment, const size_t *keep);
void model_free(struct model *model);

/* Builds the folder, which is there and empty. */
void model_build(const struct model *model, const char *folder,
                 void (*relabel)(void *attribute, size_t size, ino_t inode));

#endif
