/* api_client_kit.h: a client of an empty store, for tests that know the public headers only. The
 * first argument of such a test is the kind of store: mem or sqlite. */
#ifndef TESTS_API_CLIENT_KIT_H
#define TESTS_API_CLIENT_KIT_H

#include "holdfast.h"

#include "test.h"

struct place {
    char *folder; /* empty at first, but for the store */
    char url[512];
    struct hf_client *client;
    struct hf_error error;
};

#define OK(call)         assert_status(HF_OK, call, &place->error)
#define IS(status, call) assert_status(status, call, &place->error)

/* Whether it is a store that several clients share. */
bool place_is_shared(const struct place *place);

/* Another client of that store, as another process would be; to be closed. */
struct hf_client *place_other_client(struct place *place);

/* A new file in the folder, open to be written and read, with this text; at its start. */
int place_file(struct place *place, const char *text);

/* All that is in a file, to be freed. */
char *place_read(int fd);

/* Runs the tests, each with a place of its own. */
int place_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

#endif
