/* SPDX-License-Identifier: Apache-2.0 */
/* api_play.c: plays a sequence of random public calls: turns bytes into arguments, keeps the
 * handles, and checks each result. */
#include "api_play.h"

#include "api_parts.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NO_TXN "0123456789abcdef0123456789abcdef"

/* From here on a byte that could name a handle or an output gives NULL. */
#define NULL_FROM 0xf0

/* A callback asks to stop once in this many calls. */
#define CALLS_BACK_MAX 5
static _Atomic unsigned calls_back;

/* Stands where an output must not be touched. */
static char untouched[1];

#define KIND_FREE(name, type, free_call)  \
    static void free_##type(void *handle) \
    {                                     \
        free_call(handle);                \
    }
KIND_TABLE(KIND_FREE)

#define KIND_FREE_ROW(name, type, free_call) free_##type,
static void (*const free_kind[KINDS])(void *handle) = { KIND_TABLE(KIND_FREE_ROW) };

uint8_t play_byte(const struct play *play, int index)
{
    return play->step->argument[index];
}

/* ---- Handles --------------------------------------------------------------------------- */

static struct slot *slot_of(struct play *play, enum kind kind, int index)
{
    return &play->slots[kind][play_byte(play, index) % SLOTS];
}

void *play_handle(struct play *play, enum kind kind, int index)
{
    return play_byte(play, index) >= NULL_FROM ? NULL : slot_of(play, kind, index)->handle;
}

/* Empties the slots of handles that were freed with another one. */
static void forget_owned(struct play *play, const void *owner)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < SLOTS; i++)
            if (owner && play->slots[kind][i].owner == owner)
                play->slots[kind][i] = (struct slot){ NULL, NULL };
}

static void *take_slot(struct play *play, struct slot *slot)
{
    void *handle = slot->owner ? NULL : slot->handle;
    forget_owned(play, handle);
    *slot = (struct slot){ NULL, NULL };
    return handle;
}

void *play_take(struct play *play, enum kind kind, int index)
{
    struct slot *slot = slot_of(play, kind, index);
    return play_byte(play, index) >= NULL_FROM || slot->owner ? NULL : take_slot(play, slot);
}

struct hf_lock *play_any_lock(struct play *play, int index)
{
    if (play_byte(play, index) & 0x40)
        return hf_key_lock(play_handle(play, KIND_KEY, index));
    return play_handle(play, KIND_LOCK, index);
}

static void put_handle(struct play *play, enum kind kind, struct slot *slot, void *handle,
                       void *owner)
{
    free_kind[kind](take_slot(play, slot));
    *slot = (struct slot){ handle, owner };
}

void play_begin(struct play *play)
{
    memset(play, 0, sizeof *play);
    play->trace = getenv("HOLDFAST_FUZZ_TRACE");
    calls_back = 0;
    play_reset_time();
}

void play_end(struct play *play, bool clients_first)
{
    for (int i = 0; i < KINDS; i++) {
        int kind = clients_first ? i : KINDS - 1 - i;
        for (int j = 0; j < SLOTS; j++)
            free_kind[kind](take_slot(play, &play->slots[kind][j]));
    }
    play_remove_files();
}

/* ---- Values ---------------------------------------------------------------------------- */

const char *play_url(const struct play *play, int index)
{
    static const char *const urls[] = { "mem:",  "mem:", "mem:",     "mem:",
                                        "mem:x", "",     "nonsense", NULL };
    return urls[play_byte(play, index) % PLAY_COUNT(urls)];
}

static const char *const texts[] = {
    "a",
    "b",
    "a/b",
    "named:a",
    "path:/a",
    "path:/a/b",
    "tree:/a",
    "inode:7",
    "range:7:0-4096",
    "range:7:4096-",
    "chunk:data/x.usv",
    "pin:data/x.usv",
    "shard:domains/a3",
    "{}",
    "{\"a\":[1,2]}",
    "",
    "/",
    "..",
    "path:",
    "range:7:9-1",
    "A b\n",
    "\xff\xfe",
    ".holdfast/format.json",
    "default/meta/a.json",
    NO_TXN,
    "field",
    "data.csv",
    "a3",
    NULL,
};

/* A name that is longer than any can be. */
static const char *long_text(void)
{
    static char text[70000];
    memset(text, 'a', sizeof text - 1);
    return text;
}

const char *play_text(const struct play *play, int index)
{
    size_t number = play_byte(play, index) % (PLAY_COUNT(texts) + 1);
    return number < PLAY_COUNT(texts) ? texts[number] : long_text();
}

const char *play_lease(const struct play *play, int index)
{
    uint8_t byte = play_byte(play, index);
    return byte < 0xc0 ? play->leases[byte % SLOTS] : play_text(play, index);
}

size_t play_count(const struct play *play, int index)
{
    return play_byte(play, index) % (NAMES_MAX + 1);
}

const char *const *play_names(const struct play *play, int index)
{
    static const char *const lists[][NAMES_MAX] = {
        { "a", "b", "c" },
        { "b", "a", "a" },
        { "c", "a", "" },
        { "a", NULL, "b" },
        { "chunk:data/x.usv", "chunk:data/y.usv", "pin:data/x.usv" },
        { "range:7:0-10", "range:7:20-30", "range:7:5-25" },
        { "path:/a", "path:/b", "tree:/c" },
        { "path:/a", "inode:7", "a" },
    };
    uint8_t byte = play_byte(play, index);
    return byte >= NULL_FROM ? NULL : lists[byte / (NAMES_MAX + 1) % PLAY_COUNT(lists)];
}

/* Some states are too large for the document that names them. */
size_t play_bytes_size(const struct play *play, int index)
{
    static const size_t sizes[] = { 0, 1, 5, 100, 5000, 70000, 300000 };
    return sizes[play_byte(play, index) % PLAY_COUNT(sizes)];
}

const void *play_bytes(const struct play *play, int index)
{
    static char bytes[300000];
    return play_byte(play, index) >= NULL_FROM ? NULL : bytes;
}

int64_t play_wait_ms(const struct play *play, int index)
{
    static const int64_t waits_ms[] = { 0, 0, 0, 1, 200, 2000, -1, INT64_MIN };
    return waits_ms[play_byte(play, index) % PLAY_COUNT(waits_ms)];
}

/* An empty file, one with data, one that takes everything, and none. */
int play_file(const struct play *play, int index)
{
    static int empty = -1, filled = -1;
    uint8_t byte = play_byte(play, index);
    if (empty < 0) {
        empty = memfd_create("empty", MFD_CLOEXEC);
        filled = memfd_create("filled", MFD_CLOEXEC);
        check(empty >= 0 && filled >= 0);
    }
    check(lseek(empty, 0, SEEK_SET) == 0 && lseek(filled, 0, SEEK_SET) == 0);
    check(ftruncate(empty, 0) == 0 && ftruncate(filled, byte & 0x20 ? 200000 : 100) == 0);
    return byte % 4 == 0 ? -1 : byte % 4 == 1 ? empty : filled;
}

/* ---- Options --------------------------------------------------------------------------- */

/* The argument that a caller passes, by its index. */
static union {
    size_t struct_size;
    char space[8192];
} given[ARGUMENTS];

/* Options as a caller of another version would pass them. The highest bits of the byte choose
 * the declared size, and whether there are bytes after the members that we know. */
const void *play_sized(const struct play *play, int index, const void *row, size_t size)
{
    memset(&given[index], 0, sizeof given[index]);
    memcpy(given[index].space, row, size);
    given[index].struct_size = size;
    switch (play_byte(play, index) >> 4) {
    case 15: return NULL;
    case 14: given[index].struct_size = 0; break;
    case 13: given[index].struct_size = SIZE_MAX; break;
    case 12: given[index].struct_size += 64; break;
    case 11:
        given[index].space[size] = 1;
        given[index].struct_size += 64;
        break;
    case 10:
        given[index].struct_size = size * 2 / 3 / 8 * 8; /* between two members */
        break;
    default: break;
    }
    return &given[index];
}

static void take_note(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    check(argument == untouched && lock && event <= HF_LOCK_GONE);
    hf_lock_check(lock, NULL);
    hf_lock_remaining_ms(lock);
    hf_lock_token(lock);
    hf_lock_blocked(lock, 0);
}

static void take_event(void *argument, const struct hf_event *event)
{
    check(argument == untouched && event->struct_size == sizeof *event);
    check(event->kind < HF_EVENT_COUNT && event->key && event->scope && event->why);
}

const struct hf_client_options *play_client_options(const struct play *play, int index)
{
    static const struct hf_client_options rows[] = {
        { .skew_tolerance_ms = -1 },
        { .skew_tolerance_ms = 0, .holder = "somebody", .ns = "other" },
        { .skew_tolerance_ms = -1, .takeover_observed = true },
        { .skew_tolerance_ms = -1, .ttl_max_ms = 200 },
        { .skew_tolerance_ms = -2 },
        { .skew_tolerance_ms = INT64_MAX },
        { .skew_tolerance_ms = -1, .ns = "metadata" },
        { .skew_tolerance_ms = -1, .ns = "", .holder = "" },
        { .skew_tolerance_ms = -1, .ttl_max_ms = INT64_MAX },
        { .skew_tolerance_ms = -1, .ttl_max_ms = -1, .holder = "\n" },
        { .skew_tolerance_ms = -1, .event = take_event, .event_argument = untouched },
    };
    return PLAY_ROW(rows);
}

const struct hf_lock_options *play_lock_options(const struct play *play, int index)
{
    static const struct hf_lock_options rows[] = {
        { .ttl_ms = 30000 },
        { .ttl_ms = 100, .notify = take_note, .notify_argument = untouched },
        { .ttl_ms = 100, .no_renewal = true },
        { .ttl_ms = 30000, .mode = HF_SHARED },
        { .ttl_ms = 30000, .mode = HF_SLOTS, .slots = 2 },
        { .ttl_ms = 200, .mode = HF_SLOTS, .slots = 3, .poll_ms = 1 },
        { .ttl_ms = 30000, .once_per_ms = 1000 },
        { .ttl_ms = 200, .once_per_ms = 3600000, .once_slack_ms = HF_NO_SLACK },
        { .ttl_ms = 600000, .note = "{\"a\":1}" },
        { .ttl_ms = 30000, .output = "data/out.usv", .level = 3 },
        { .ttl_ms = 0 },
        { .ttl_ms = INT64_MIN },
        { .ttl_ms = INT64_MAX, .poll_ms = INT64_MAX, .once_per_ms = INT64_MAX },
        { .ttl_ms = 30000, .mode = (enum hf_mode)77, .slots = UINT32_MAX },
        { .ttl_ms = 30000, .note = "no JSON", .poll_ms = -1 },
        { .ttl_ms = 30000, .once_per_ms = 5, .once_slack_ms = INT64_MIN, .output = "" },
        { .ttl_ms = 30000, .no_renewal = true, .unconfirmed = true },
    };
    return PLAY_ROW(rows);
}

const struct hf_key_options *play_key_options(const struct play *play, int index)
{
    static const struct hf_key_options rows[] = {
        { .ttl_ms = 30000 },
        { .ttl_ms = 30000, .staged = true },
        { .ttl_ms = 100, .notify = take_note, .notify_argument = untouched },
        { .ttl_ms = 100, .no_renewal = true, .staged = true },
        { .ttl_ms = 600000, .note = "{}", .poll_ms = 1 },
        { .ttl_ms = -1 },
        { .ttl_ms = INT64_MAX },
        { .ttl_ms = 30000, .note = "{" },
        { .ttl_ms = 30000, .poll_ms = INT64_MIN },
        { .ttl_ms = 30000, .no_renewal = true, .unconfirmed = true },
    };
    return PLAY_ROW(rows);
}

struct hf_txn_change *play_txn_changes(struct play *play, int index)
{
    static struct hf_txn_change changes[2];
    for (int i = 0; i < 2; i++)
        changes[i] = (struct hf_txn_change){
            .key = play_handle(play, KIND_KEY, index + i),
            .data = play_bytes(play, index + i),
            .size = play_bytes_size(play, index + i),
            .removes = play_byte(play, index + i) == 7,
        };
    return play_output(play, index + 2, changes);
}

struct hf_try *play_tries(struct play *play, int index)
{
    static struct hf_try tries[2];
    for (int i = 0; i < 2; i++) {
        uint8_t byte = play_byte(play, index + i);
        bool is_key = byte % 2 == 1;
        tries[i] = (struct hf_try){
            .kind = (enum hf_try_kind)(byte / 2 % 5),
            .lock = is_key ? NULL : play_handle(play, KIND_LOCK, index + i),
            .key = is_key ? play_handle(play, KIND_KEY, index + i) : NULL,
        };
    }
    return play_output(play, index + 2, tries);
}

const struct hf_key_change_options *play_key_change_options(const struct play *play, int index)
{
    static const struct hf_key_if first = { .struct_size = sizeof first, .version_set = true };
    static const struct hf_key_if bad = { .struct_size = 1 };
    static const struct hf_key_change_options rows[] = {
        { .ttl_ms = 30000 },
        { .ttl_ms = 30000, .when = &first },
        { .ttl_ms = 100, .wait_ms = 5, .removes = true },
        { .ttl_ms = 30000, .when = &bad },
        { .ttl_ms = -1 },
        { .ttl_ms = 30000, .wait_ms = INT64_MIN },
    };
    return PLAY_ROW(rows);
}

const struct hf_key_write *play_key_writes(const struct play *play, int index)
{
    static const struct hf_key_if first = { .struct_size = sizeof first, .version_set = true };
    static const struct hf_key_write rows[][NAMES_MAX] = {
        { { "k", "a", 1, false, NULL },
          { "l", "", 0, false, NULL },
          { "m", "b", 1, false, NULL } },
        { { "k", NULL, 0, true, NULL },
          { "l", "a", 1, false, &first },
          { "m", "b", 1, true, NULL } },
        { { "k", "a", 1, false, NULL },
          { "k", "b", 1, false, NULL },
          { NULL, NULL, 1, false, NULL } },
        { { "../k", "a", 1, false, NULL },
          { "", "a", 1, false, NULL },
          { "m", NULL, 9, false, NULL } },
    };
    uint8_t byte = play_byte(play, index);
    return byte >= 0xf0 ? NULL : rows[byte / 4 % PLAY_COUNT(rows)];
}

/* Joins the transaction of a slot, or one that does not exist. */
const struct hf_txn_options *play_txn_options(const struct play *play, int index)
{
    uint8_t byte = play_byte(play, index);
    struct hf_txn *txn = play->slots[KIND_TXN][byte % SLOTS].handle;
    struct hf_txn_options options = { .id = byte & 8   ? hf_txn_id(txn)
                                            : byte & 4 ? play->txn_id
                                                       : NULL };
    return play_sized(play, index, &options, sizeof options);
}

const struct hf_key_if *play_key_if(const struct play *play, int index)
{
    static const struct hf_key_if rows[] = {
        { .version_set = false },
        { .version_set = true, .version = 0 },
        { .version_set = true, .version = 1 },
        { .version_set = true, .version = UINT64_MAX },
        { .etag = "" },
        { .etag = "0123456789abcdef0123456789abcdef" },
        { .etag = "\xff" },
        { .version = 3 },
    };
    uint8_t byte = play_byte(play, index);
    struct hf_key_if when = rows[byte % PLAY_COUNT(rows)];
    if (byte & 8)
        when.etag = play->etag;
    return play_sized(play, index, &when, sizeof when);
}

/* ---- Outputs --------------------------------------------------------------------------- */

struct hf_error *play_error(struct play *play, int index)
{
    play->error = (struct hf_error){ .status = HF_STATUS_COUNT, .why = "" };
    play->has_error = play_byte(play, index) < NULL_FROM;
    play->made = untouched;
    play->data = untouched;
    return play->has_error ? &play->error : NULL;
}

void *play_output(const struct play *play, int index, void *output)
{
    return play_byte(play, index) >= NULL_FROM ? NULL : output;
}

struct hf_key_info *play_key_info(struct play *play, int index)
{
    uint8_t byte = play_byte(play, index);
    play->report.key = (struct hf_key_info){
        .struct_size = byte >= 0xe0   ? 0
                       : byte >= 0xd0 ? 40
                                      : sizeof play->report.key,
    };
    return byte >= NULL_FROM ? NULL : &play->report.key;
}

void *play_report(const struct play *play, int index, size_t size)
{
    static union {
        size_t struct_size;
        char space[8192];
    } reports[ARGUMENTS];
    uint8_t byte = play_byte(play, index);
    check(size <= sizeof reports[index]);
    memset(&reports[index], 0x55, sizeof reports[index]);
    reports[index].struct_size = byte >= 0xe0 ? 0 : byte >= 0xd0 ? 24 : size;
    return byte >= NULL_FROM ? NULL : &reports[index];
}

bool play_goes_on(void)
{
    return ++calls_back % CALLS_BACK_MAX != 0;
}

void play_status(struct play *play, enum hf_status status)
{
    check(status < HF_STATUS_COUNT);
    if (play->trace)
        fprintf(stderr, "    %s: %s\n", hf_status_name(status),
                play->has_error ? play->error.why : "");
    if (play->has_error) {
        check(play->error.status == status);
        check(memchr(play->error.why, '\0', sizeof play->error.why));
        check(status == HF_OK || play->error.why[0] != '\0');
    }
    if (play->report.key.etag[0])
        memcpy(play->etag, play->report.key.etag, sizeof play->etag);
}

void play_made(struct play *play, enum kind kind, int index, enum hf_status status)
{
    void *made = play->made;
    play_status(play, status);
    if (status == HF_OK) {
        check(made && made != untouched);
        put_handle(play, kind, slot_of(play, kind, index), made, NULL);
    } else {
        check(!made || made == untouched); /* untouched: there was nowhere to put it */
    }
}

void play_made_keys(struct play *play, void *owner, size_t count, enum hf_status status)
{
    play_status(play, status);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        put_handle(play, KIND_KEY, &play->slots[KIND_KEY][i], play->made_many[i], owner);
}

void play_made_data(struct play *play, enum hf_status status)
{
    play_status(play, status);
    check((status == HF_OK) == (play->data != untouched));
    if (status == HF_OK)
        hf_free(play->data);
}
