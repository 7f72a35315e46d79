/* SPDX-License-Identifier: Apache-2.0 */
/* store_contract_streams.c: put_file and get_file. The files are memfds, so the rows need no
 * directory. */
#include "store_contract.h"

#include "base/hash.h"
#include "base/prng.h"
#include "store/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file of `size` bytes of a seeded pattern; -1 without one. */
static int pattern_file(size_t size, uint64_t seed, uint32_t *ret_crc)
{
    int fd = memfd_create("pattern", MFD_CLOEXEC);
    char *bytes = malloc(size + 8);
    struct prng prng = prng_seeded(seed);
    for (size_t i = 0; bytes && i < size; i += 8) {
        uint64_t word = prng_next(&prng);
        memcpy(bytes + i, &word, 8);
    }
    bool good =
        fd >= 0 && bytes && file_write_at(fd, (struct view){ bytes, size }, 0, NULL) == HF_OK;
    *ret_crc = good ? crc32c(0, (struct view){ bytes, size }) : 0;
    free(bytes);
    return good ? fd : -1;
}

static uint32_t crc_of_file(int fd, uint64_t size)
{
    char *bytes = malloc(size + 1);
    size_t got = 0;
    uint32_t crc = 1;
    if (bytes && file_read_at(fd, bytes, size + 1, 0, &got, NULL) == HF_OK && got == size)
        crc = crc32c(0, (struct view){ bytes, size });
    free(bytes);
    return crc;
}

static enum hf_status put_pattern(struct contract *c, struct view name, size_t size,
                                  uint64_t seed, struct condition condition, uint32_t *ret_crc,
                                  struct etag *ret_etag)
{
    struct contract_key key;
    struct put_call put = { .key = contract_key(c, name, &key), .condition = condition };
    int fd = pattern_file(size, seed, ret_crc);
    enum hf_status status = store_put_file(c->store, &put, fd, NULL);
    if (status == HF_OK && ret_etag)
        *ret_etag = put.etag;
    if (status != HF_OK && status != HF_CONFLICT)
        contract_fail(c, __FILE__, __LINE__, "put_file: %s", put.error.why);
    close(fd);
    return status;
}

static bool file_holds(struct contract *c, struct view name, uint64_t size, uint32_t crc)
{
    struct contract_key key;
    struct get_call get = { .key = contract_key(c, name, &key) };
    int fd = memfd_create("got", MFD_CLOEXEC);
    bool good = store_get_file(c->store, &get, fd, NULL) == HF_OK && get.info.size == size &&
                crc_of_file(fd, size) == crc;
    close(fd);
    return good;
}

static void streams_come_back_whole(struct contract *c)
{
    static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 262144, 3 * MIB + 11 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t crc;
        EXPECT(c, put_pattern(c, VIEW("s"), sizes[i], i, (struct condition){ 0 }, &crc, NULL) ==
                      HF_OK);
        EXPECT(c, file_holds(c, VIEW("s"), sizes[i], crc));
    }
}

static void streams_obey_conditions(struct contract *c)
{
    uint32_t first_crc, crc;
    struct etag etag, next;
    EXPECT(c, put_pattern(c, VIEW("s"), 200000, 1, if_absent(), &first_crc, &etag) == HF_OK);
    EXPECT(c, put_pattern(c, VIEW("s"), 100, 2, if_absent(), &crc, NULL) == HF_CONFLICT);
    EXPECT(c, file_holds(c, VIEW("s"), 200000, first_crc));
    EXPECT(c, put_pattern(c, VIEW("s"), 100, 3, if_match(&etag), &crc, &next) == HF_OK);
    EXPECT(c, file_holds(c, VIEW("s"), 100, crc));
    EXPECT(c, put_pattern(c, VIEW("s"), 300000, 4, if_match(&etag), &first_crc, NULL) ==
                  HF_CONFLICT);
    EXPECT(c, file_holds(c, VIEW("s"), 100, crc));
    EXPECT(c, put_pattern(c, VIEW("s"), 300000, 5, if_match(&next), &crc, NULL) == HF_OK);
    EXPECT(c, file_holds(c, VIEW("s"), 300000, crc));
}

static void streams_and_bodies_are_the_same_objects(struct contract *c)
{
    struct contract_key key;
    int fd = memfd_create("small", MFD_CLOEXEC);
    struct put_call put = { .key = contract_key(c, VIEW("s"), &key) };
    enum hf_status status = file_write_at(fd, VIEW("hello"), 0, NULL);
    status = status == HF_OK ? store_put_file(c->store, &put, fd, NULL) : status;
    close(fd);
    EXPECT(c, status == HF_OK);
    EXPECT(c, contract_holds(c, VIEW("s"), VIEW("hello")));
    EXPECT(c, contract_put(c, VIEW("s"), VIEW("world!"), NULL));
    EXPECT(c, file_holds(c, VIEW("s"), 6, crc32c(0, VIEW("world!"))));
}

static void a_range_is_streamed(struct contract *c)
{
    uint32_t crc;
    struct contract_key key;
    EXPECT(c,
           put_pattern(c, VIEW("s"), 500000, 9, (struct condition){ 0 }, &crc, NULL) == HF_OK);
    struct get_call get = { .key = contract_key(c, VIEW("s"), &key),
                            .offset = 100000,
                            .length = 200000 };
    int whole = pattern_file(500000, 9, &crc);
    int fd = memfd_create("range", MFD_CLOEXEC);
    int part = memfd_create("part", MFD_CLOEXEC);
    bool good = store_get_file(c->store, &get, fd, NULL) == HF_OK &&
                file_copy(whole, 100000, 200000, part, NULL, NULL) == HF_OK &&
                crc_of_file(fd, 200000) == crc_of_file(part, 200000) && get.info.size == 500000;
    close(whole);
    close(fd);
    close(part);
    EXPECT(c, good);
}

static bool stop_at_once(void *argument, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    ++*(unsigned *)argument;
    return false;
}

static bool count_steps(void *argument, uint64_t done, uint64_t total)
{
    ++*(unsigned *)argument;
    return done <= total;
}

static void a_stream_tells_its_progress_and_can_be_stopped(struct contract *c)
{
    uint32_t crc;
    struct contract_key key;
    unsigned steps = 0;
    struct progress stop = { stop_at_once, &steps };
    int fd = pattern_file(3 * MIB, 4, &crc);
    struct put_call put = { .key = contract_key(c, VIEW("s"), &key) };
    enum hf_status stopped = store_put_file(c->store, &put, fd, &stop);
    EXPECT(c, stopped == HF_CANCELLED || stopped == HF_UNSURE);
    EXPECT(c, steps == 1);
    if (stopped == HF_CANCELLED)
        EXPECT(c, contract_missing(c, VIEW("s")));
    steps = 0;
    struct progress count = { count_steps, &steps };
    EXPECT_STATUS(c, HF_OK, store_put_file(c->store, &put, fd, &count), put.error);
    EXPECT(c, steps > 0);
    steps = 0;
    struct get_call get = { .key = key.view };
    EXPECT(c, store_get_file(c->store, &get, fd, &stop) == HF_CANCELLED);
    EXPECT(c, steps == 1);
    close(fd);
}

static void a_missing_object_streams_nothing(struct contract *c)
{
    struct contract_key key;
    struct get_call get = { .key = contract_key(c, VIEW("none"), &key) };
    int fd = memfd_create("none", MFD_CLOEXEC);
    enum hf_status status = store_get_file(c->store, &get, fd, NULL);
    uint64_t size = 1;
    file_size(fd, &size, NULL);
    close(fd);
    EXPECT(c, status == HF_NOT_FOUND);
    EXPECT(c, size == 0);
}

static void a_lent_file_stays_what_it_was(struct contract *c)
{
    struct contract_key key;
    uint32_t crc;
    int fd = -1;
    struct get_call get = { .key = contract_key(c, VIEW("lent"), &key) };
    EXPECT(c, put_pattern(c, VIEW("lent"), 100001, 8, (struct condition){ 0 }, &crc, NULL) ==
                  HF_OK);
    enum hf_status status = store_lend_file(c->store, &get, &fd);
    EXPECT(c, status == HF_OK || status == HF_UNSUPPORTED);
    if (status != HF_OK)
        return;
    uint32_t other;
    EXPECT(c, get.info.size == 100001);
    EXPECT(c, put_pattern(c, VIEW("lent"), 70000, 9, (struct condition){ 0 }, &other, NULL) ==
                  HF_OK);
    EXPECT(c, crc_of_file(fd, 100001) == crc);
    close(fd);
    get = (struct get_call){ .key = contract_key(c, VIEW("nobody"), &key) };
    EXPECT(c, store_lend_file(c->store, &get, &fd) == HF_NOT_FOUND);
}

/* In the folder where stores of tests live, so that it could become an object by its name alone. */
static void a_given_file_becomes_the_object(struct contract *c)
{
    struct contract_key key;
    uint32_t crc;
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/given-XXXXXX", folder ? folder : "/tmp");
    int from = pattern_file(200003, 10, &crc), fd = mkstemp(path);
    EXPECT(c, fd >= 0 && file_copy(from, 0, 200003, fd, NULL, NULL) == HF_OK);
    struct put_call put = { .key = contract_key(c, VIEW("given"), &key),
                            .condition = if_absent(),
                            .give = true };
    EXPECT_STATUS(c, HF_OK, store_put_file(c->store, &put, fd, NULL), put.error);
    struct put_call again = { .key = key.view, .condition = if_absent(), .give = true };
    EXPECT(c, store_put_file(c->store, &again, fd, NULL) == HF_CONFLICT);
    close(from);
    close(fd);
    unlink(path);
    EXPECT(c, file_holds(c, VIEW("given"), 200003, crc));
}

static const struct contract_row rows[] = {
    { "a stream of any size comes back whole", streams_come_back_whole },
    { "a stream obeys conditions, and a refused one changes nothing", streams_obey_conditions },
    { "streams and bodies are the same objects", streams_and_bodies_are_the_same_objects },
    { "a range of an object is streamed", a_range_is_streamed },
    { "a stream tells its progress and can be stopped",
      a_stream_tells_its_progress_and_can_be_stopped },
    { "a missing object streams nothing", a_missing_object_streams_nothing },
    { "an object that is lent as a file stays what it was", a_lent_file_stays_what_it_was },
    { "a file that is given away becomes the object", a_given_file_becomes_the_object },
};

const struct contract_rows contract_streams = { rows, sizeof rows / sizeof rows[0] };
