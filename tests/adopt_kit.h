/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_kit.h: a bucket with objects of other programs, and clients that adopt them. */
#ifndef TESTS_ADOPT_KIT_H
#define TESTS_ADOPT_KIT_H

#include "catalog_tree_kit.h"

#include "compact/care/maintain.h"
#include "compact/work/adopt.h"

#define OUTSIDE_CROWD 4 /* clients that adopt; one more only looks */

struct outside {
    struct ground ground;
    struct adopt_report report;
    struct hf_error error;
    bool described; /* every object is described, and none is read */
    void (*hook)(
        struct outside *outside); /* called before each object is described; may be NULL */
    char failed[256];             /* the last object that failed */
    unsigned failures;
};

/* `kind` and `plan` as for ground_open. */
void outside_open(struct outside *outside, void **state, const struct fault_plan *plan,
                  struct compact_settings settings);

/* Settings by time with this D. */
struct compact_settings outside_short_d(int64_t d_ms);

/* Puts an object with one row; or so many of them, PREFIXobject-0000.usv and so on. */
void outside_put_row(struct outside *outside, const char *key, unsigned row);
void outside_put_objects(struct outside *outside, const char *prefix, size_t count);

struct adopt_options outside_options(struct outside *outside, bool own);

/* Adopts a path by the client of this bed. */
enum hf_status outside_adopt(struct outside *outside, size_t bed, const char *path, bool own);

/* Fails the test unless so many chunks are live. */
void outside_assert_live(struct outside *outside, size_t live);

/* The live chunk of an object, and whether there is one. */
struct sought {
    const char *object;
    bool found;
    char key[KEY_BYTES_MAX + 1];
};
struct sought outside_seek(struct outside *outside, const char *object);

/* Merges the chunks of these objects, at most four. */
void outside_merge(struct outside *outside, const char *const *objects, size_t count);

struct maintain_report outside_maintain(struct outside *outside);

#endif
