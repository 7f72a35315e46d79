/* SPDX-License-Identifier: Apache-2.0 */
/* dir_crash_test.c: a `dir:` store after kills and power losses in the middle of its calls. */
#include "crash.h"
#include "test.h"

#include <string.h>

/* Where src/store/dir/file.c keeps the inode number in a file's label. */
#define LABEL_SIZE  48
#define LABEL_INODE 40

static void relabel(void *attribute, size_t size, ino_t inode)
{
    uint64_t number = inode;
    if (size == LABEL_SIZE)
        memcpy((char *)attribute + LABEL_INODE, &number, sizeof number);
}

/* A foreign file's has one more byte. */
static bool knows_etag(const struct etag *etag)
{
    return etag->size == 32;
}

static const struct crash_store dir = {
    .url = "dir:%s",
    .url_fast = "dir:%s?sync=off",
    .relabel = relabel,
    .knows_etag = knows_etag,
    .reads_durable = true,
};

static const struct crash_story put_absent = {
    .before = { { CRASH_PUT, "other", 500, 'o' } },
    .steps = { { CRASH_PUT, "key", 3000, 'n' } },
};
static const struct crash_story put_absent_deep = {
    .steps = { { CRASH_PUT, "a/b/c", 3000, 'n' } },
};
static const struct crash_story overwrite = {
    .before = { { CRASH_PUT, "a/key", 2000, 'o' } },
    .steps = { { CRASH_PUT, "a/key", 3000, 'n' } },
};
static const struct crash_story delete = {
    .before = { { CRASH_PUT, "a/b/key", 2000, 'o' } },
    .steps = { { CRASH_DELETE, "a/b/key", 0, 0 } },
};
static const struct crash_story put_file = {
    .before = { { CRASH_PUT, "f", 2000, 'o' } },
    .steps = { { CRASH_PUT_FILE, "f", 700000, 'n' } },
};
static const struct crash_story stand_aside = {
    .before = { { CRASH_PUT, "a", 2000, 'o' } },
    .steps = { { CRASH_PUT, "a/b", 100, 'n' }, { CRASH_PUT, "a", 200, 'p' } },
};
static const struct crash_story come_and_go = {
    .steps = { { CRASH_PUT, "a/b", 100, 'n' },
               { CRASH_PUT, "a/c", 100, 'm' },
               { CRASH_DELETE, "a/b", 0, 0 },
               { CRASH_DELETE, "a/c", 0, 0 },
               { CRASH_PUT, "a", 100, 'k' } },
};

static const struct crash_story put_batch = {
    .before = { { CRASH_PUT, "a/2", 300, 'o' }, { CRASH_PUT, "c", 300, 'p' } },
    .steps = { { CRASH_PUT, "a/1", 100, 'k' },
               { CRASH_PUT, "a/2", 200, 'l' },
               { CRASH_PUT, "b/1", 100, 'm' },
               { CRASH_PUT, "c", 100, 'n' } },
    .batch = true,
};
static const struct crash_story delete_batch = {
    .before = { { CRASH_PUT, "a/1", 100, 'k' },
                { CRASH_PUT, "a/2", 200, 'l' },
                { CRASH_PUT, "b/1", 100, 'm' } },
    .steps = { { CRASH_DELETE, "a/1", 0, 0 },
               { CRASH_DELETE, "a/2", 0, 0 },
               { CRASH_DELETE, "b/1", 0, 0 } },
    .batch = true,
};

#define KILLED(story)                        \
    static void story##_killed(void **state) \
    {                                        \
        (void)state;                         \
        crash_by_kill(&dir, &story);         \
    }
#define WITHOUT_POWER(story)                                                                \
    static void story##_without_power(void **state)                                         \
    {                                                                                       \
        (void)state;                                                                        \
        crash_by_power_loss(&dir, &story, (struct crash_plan){ .seed = 1, .subsets = 10 }); \
    }

KILLED(put_absent)
KILLED(put_absent_deep)
KILLED(overwrite)
KILLED(delete)
KILLED(put_file)
KILLED(stand_aside)
KILLED(put_batch)
KILLED(delete_batch)
WITHOUT_POWER(put_absent)
WITHOUT_POWER(put_absent_deep)
WITHOUT_POWER(overwrite)
WITHOUT_POWER(delete)
WITHOUT_POWER(put_file)
WITHOUT_POWER(stand_aside)
WITHOUT_POWER(come_and_go)
WITHOUT_POWER(put_batch)
WITHOUT_POWER(delete_batch)

/* With the argument "short" only the stories with the most in them. */
int main(int count, char **arguments)
{
    const struct CMUnitTest most[] = {
        IT("an overwrite that is killed leaves the old or the new object", overwrite_killed),
        IT("a put if absent that makes folders survives a power loss",
           put_absent_deep_without_power),
        IT("a file that stands aside is never lost to a power loss", stand_aside_without_power),
        IT("a batch of puts survives a power loss", put_batch_without_power),
    };
    const struct CMUnitTest all[] = {
        IT("a put if absent that is killed anywhere leaves nothing or all", put_absent_killed),
        IT("a put if absent that is killed as it makes folders does too",
           put_absent_deep_killed),
        IT("an overwrite that is killed leaves the old or the new object", overwrite_killed),
        IT("a delete that is killed leaves the object or none", delete_killed),
        IT("a streamed put that is killed leaves the old or the new object", put_file_killed),
        IT("a file that stands aside is never lost to a kill", stand_aside_killed),
        IT("a put if absent survives a power loss at any moment", put_absent_without_power),
        IT("a put if absent that makes folders survives a power loss",
           put_absent_deep_without_power),
        IT("an overwrite survives a power loss", overwrite_without_power),
        IT("a delete survives a power loss", delete_without_power),
        IT("a streamed put survives a power loss", put_file_without_power),
        IT("a file that stands aside is never lost to a power loss", stand_aside_without_power),
        IT("folders that come and go survive a power loss", come_and_go_without_power),
        IT("each put of a batch that is killed is done or not", put_batch_killed),
        IT("each delete of a batch that is killed is done or not", delete_batch_killed),
        IT("a batch of puts survives a power loss", put_batch_without_power),
        IT("a batch of deletes survives a power loss", delete_batch_without_power),
    };
    if (count > 1 && strcmp(arguments[1], "short") == 0)
        return cmocka_run_group_tests(most, NULL, NULL);
    return cmocka_run_group_tests(all, NULL, NULL);
}
