/* SPDX-License-Identifier: Apache-2.0 */
/* api_client_kit.h: a client of an empty store, for tests that use only the public headers. The
 * first argument of such a test is the kind of store: mem or sqlite. */
#ifndef TESTS_API_CLIENT_KIT_H
#define TESTS_API_CLIENT_KIT_H

#include "holdfast.h"

#include "test.h"

struct place {
    char *folder; /* empty at first, except for the store */
    char url[512];
    struct hf_client *client; /* its holder is "ada" */
    struct hf_error error;
};

#define OK(call)         assert_status(HF_OK, call, &place->error)
#define IS(status, call) assert_status(status, call, &place->error)

/* Whether several clients can share the store. */
bool place_is_shared(const struct place *place);

/* Another client of that store, as in another process. The caller closes it. */
struct hf_client *place_other_client(struct place *place);

/* A lock of the client that is not renewed: not held, held, or waiting. The caller frees it. */
struct hf_lock *place_lock(struct place *place, const char *scope, int64_t ttl_ms);
struct hf_lock *place_held(struct place *place, const char *scope);
struct hf_lock *place_waiting(struct place *place, const char *scope);

/* A new file in the directory with this text, open for reading and writing, positioned at its
 * start. */
int place_file(struct place *place, const char *text);

/* The contents of a file. The caller frees them. */
char *place_read(int fd);

/* Runs the tests, each with its own place. */
int place_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

#endif
