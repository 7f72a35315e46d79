/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_crash_test.c: an `sqlite:` store after kills and power losses during its calls: in
 * rows, in files, and when an object changes from one to the other. */
#include "crash.h"
#include "test.h"

#define LARGE (SQLITE_INLINE_MAX + 1000)

static const struct crash_store sqlite = {
    .url = "sqlite:%s/s.db",
    .url_fast = "sqlite:%s/s.db?sync=off",
    .reads_durable = true,
};

static const struct crash_story put_first = {
    .steps = { { CRASH_PUT, "key", 3000, 'n' } },
};
static const struct crash_story overwrite = {
    .before = { { CRASH_PUT, "key", 2000, 'o' }, { CRASH_PUT, "other", 500, 'p' } },
    .steps = { { CRASH_PUT, "key", 3000, 'n' } },
};
static const struct crash_story delete = {
    .before = { { CRASH_PUT, "key", 2000, 'o' } },
    .steps = { { CRASH_DELETE, "key", 0, 0 } },
};
static const struct crash_story put_large = {
    .before = { { CRASH_PUT, "key", LARGE, 'o' } },
    .steps = { { CRASH_PUT, "key", LARGE + 1, 'n' } },
};
static const struct crash_story put_large_beside = {
    .before = { { CRASH_PUT, "key", LARGE, 'o' } },
    .steps = { { CRASH_PUT, "key", LARGE + 1, 'n' } },
    .beside = true,
};
static const struct crash_story put_file = {
    .before = { { CRASH_PUT, "key", 2000, 'o' } },
    .steps = { { CRASH_PUT_FILE, "key", 300000, 'n' } },
};
static const struct crash_story shrink_and_delete = {
    .before = { { CRASH_PUT, "a", LARGE, 'o' }, { CRASH_PUT, "b", LARGE, 'o' } },
    .steps = { { CRASH_PUT, "a", 10, 'n' }, { CRASH_DELETE, "b", 0, 0 } },
};

static const struct crash_story change = {
    .before = { { CRASH_PUT, "row", 2000, 'o' }, { CRASH_PUT, "large", LARGE, 'o' } },
    .steps = { { CRASH_CHANGE, "row", 3000, 'n' },
               { CRASH_CHANGE, "new", 500, 'n' },
               { CRASH_CHANGE, "large", 10, 'n' } },
};

#define KILLED(story)                        \
    static void story##_killed(void **state) \
    {                                        \
        (void)state;                         \
        crash_by_kill(&sqlite, &story);      \
    }
#define WITHOUT_POWER(story)                                                                  \
    static void story##_without_power(void **state)                                           \
    {                                                                                         \
        (void)state;                                                                          \
        crash_by_power_loss(&sqlite, &story, (struct crash_plan){ .seed = 1, .subsets = 8 }); \
    }

KILLED(put_first)
KILLED(overwrite)
KILLED(delete)
KILLED(put_large)
KILLED(put_large_beside)
KILLED(put_file)
KILLED(shrink_and_delete)
KILLED(change)
WITHOUT_POWER(put_first)
WITHOUT_POWER(overwrite)
WITHOUT_POWER(delete)
WITHOUT_POWER(put_large)
WITHOUT_POWER(put_file)
WITHOUT_POWER(shrink_and_delete)
WITHOUT_POWER(change)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a first put that is killed anywhere leaves nothing or all", put_first_killed),
        IT("an overwrite that is killed leaves the old or the new object", overwrite_killed),
        IT("a delete that is killed leaves the object or none", delete_killed),
        IT("a large object that is killed on its way leaves the old or the new one",
           put_large_killed),
        IT("a large object that is killed on its way is whole after others have opened the "
           "store",
           put_large_beside_killed),
        IT("a streamed put that is killed leaves the old or the new object", put_file_killed),
        IT("shrinking and deleting large objects survives a kill", shrink_and_delete_killed),
        IT("a first put survives a power loss at any moment", put_first_without_power),
        IT("an overwrite survives a power loss", overwrite_without_power),
        IT("a delete survives a power loss", delete_without_power),
        IT("a large object survives a power loss", put_large_without_power),
        IT("a streamed put survives a power loss", put_file_without_power),
        IT("shrinking and deleting large objects survives a power loss",
           shrink_and_delete_without_power),
        IT("a change that is killed anywhere leaves the old or the new object", change_killed),
        IT("a change survives a power loss at any moment", change_without_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
