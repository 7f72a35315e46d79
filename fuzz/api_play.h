/* SPDX-License-Identifier: Apache-2.0 */
/* api_play.h: the material of a sequence of random public calls: handles in slots, texts,
 * files, options right and wrong, and a clock that the sequence can set forward.
 *
 * Each argument is drawn from one byte of the step, named by its index, so the order in which a
 * compiler evaluates arguments does not matter. Every byte gives something that a caller may
 * pass: NULL and nonsense are legal, a handle that was freed is not. */
#ifndef FUZZ_API_PLAY_H
#define FUZZ_API_PLAY_H

#include "holdfast.h"

#define ARGUMENTS 9
#define SLOTS     4
#define NAMES_MAX 3

/* The kinds of handles: name, struct, and the call that frees one. */
#define KIND_TABLE(ROW)                                     \
    ROW(CLIENT, hf_client, hf_client_close)                 \
    ROW(LOCK, hf_lock, hf_lock_free)                        \
    ROW(KEY, hf_key, hf_key_free)                           \
    ROW(TXN, hf_txn, hf_txn_free)                           \
    ROW(STORE, hf_store, hf_store_close)                    \
    ROW(INDEX, hf_index, hf_index_close)                    \
    ROW(CURSOR, hf_index_cursor, hf_index_cursor_close)     \
    ROW(RECORD, hf_index_record, hf_index_record_free)      \
    ROW(MEMBER, hf_elect_member, hf_elect_leave)            \
    ROW(SWEEPER, hf_sweeper, hf_sweeper_stop)               \
    ROW(COMPACT, hf_compact, hf_compact_close)              \
    ROW(READER, hf_compact_reader, hf_compact_reader_close) \
    ROW(WORKER, hf_compact_worker, hf_compact_worker_free)  \
    ROW(WATCH, hf_watch, hf_watch_free)

#define KIND_ENUM(name, type, free_call) KIND_##name,
enum kind { KIND_TABLE(KIND_ENUM) KINDS };

/* A step of the input. */
struct step {
    uint8_t call[2];             /* the call whose name has this hash, or the next above it */
    uint8_t argument[ARGUMENTS]; /* the source of each argument */
    uint8_t memory;              /* from 0x80 on: the allocation of this number fails */
};

struct slot {
    void *handle;
    void *owner; /* the handle that this one is freed with; NULL: none */
};

struct play {
    const struct step *step;
    bool trace;
    struct slot slots[KINDS][SLOTS];
    char leases[SLOTS][HF_LEASE_TEXT_MAX];
    char etag[HF_KEY_ETAG_SIZE + 1];  /* the last one reported */
    char txn_id[HF_TXN_ID_SIZE + 1];  /* of the last that was opened without a handle */
    char chunk[HF_KEY_BYTES_MAX + 1]; /* the last that was listed */

    /* Outputs of the call that is being made. */
    struct hf_error error;
    bool has_error;
    void *made; /* a handle */
    void *made_many[NAMES_MAX];
    void *data;
    size_t size;
    uint64_t number;
    bool flags[NAMES_MAX];
    char url[HF_STORE_URL_MAX];
    int word; /* an enumerator */
    union {
        size_t struct_size;
        struct hf_key_info key;
    } report;
};

void play_begin(struct play *play);

/* Frees all that is left: the clients first, or last. */
void play_end(struct play *play, bool clients_first);

/* ---- Arguments ------------------------------------------------------------------------- */

/* The byte itself. */
uint8_t play_byte(const struct play *play, int index);

/* The handle of a slot, or NULL. `take` empties the slot, for a call that frees the handle; a
 * handle that belongs to another is not given away. */
void *play_handle(struct play *play, enum kind kind, int index);
void *play_take(struct play *play, enum kind kind, int index);

/* A lock, or the lock of a key. */
struct hf_lock *play_any_lock(struct play *play, int index);

const char *play_url(const struct play *play, int index);
const char *play_text(const struct play *play, int index);  /* scopes, keys, names, notes */
const char *play_lease(const struct play *play, int index); /* leases as text */

/* So many texts, one of which may be NULL, or NULL. */
const char *const *play_names(const struct play *play, int index);
size_t play_count(const struct play *play, int index);

const void *play_bytes(const struct play *play, int index);
size_t play_bytes_size(const struct play *play, int index);
int64_t play_wait_ms(const struct play *play, int index);
int play_file(const struct play *play, int index);

/* Options: one of these rows, as a caller of some version would pass it. */
const void *play_sized(const struct play *play, int index, const void *row, size_t size);
#define PLAY_COUNT(array) (sizeof(array) / sizeof *(array))
#define PLAY_ROW(rows)                                                               \
    play_sized(play, index, &(rows)[play_byte(play, index) % 16 % PLAY_COUNT(rows)], \
               sizeof *(rows))

const struct hf_client_options *play_client_options(const struct play *play, int index);
const struct hf_lock_options *play_lock_options(const struct play *play, int index);
const struct hf_key_options *play_key_options(const struct play *play, int index);
const struct hf_txn_options *play_txn_options(const struct play *play, int index);
const struct hf_key_if *play_key_if(const struct play *play, int index);
const struct hf_key_change_options *play_key_change_options(const struct play *play, int index);
const struct hf_key_write *play_key_writes(const struct play *play, int index);

/* Changes to two keys, or NULL now and then. */
struct hf_txn_change *play_txn_changes(struct play *play, int index);

/* Two locks or keys to acquire or release, or NULL now and then. */
struct hf_try *play_tries(struct play *play, int index);

/* Where outputs go: NULL now and then. */
struct hf_error *play_error(struct play *play, int index);
void *play_output(const struct play *play, int index, void *output);
struct hf_key_info *play_key_info(struct play *play, int index);

/* Room for a report of this size. */
void *play_report(const struct play *play, int index, size_t size);

/* The result of a callback. */
bool play_goes_on(void);

/* ---- What became of it ----------------------------------------------------------------- */

/* Checks that the status is valid and is in the error with a sentence. */
void play_status(struct play *play, enum hf_status status);

/* The same, and that a handle was made if and only if the call succeeded. The handle goes into
 * the slot, and the slot's former handle is freed. */
void play_made(struct play *play, enum kind kind, int index, enum hf_status status);
void play_made_keys(struct play *play, void *owner, size_t count, enum hf_status status);

/* The same for data, which is freed. */
void play_made_data(struct play *play, enum hf_status status);

/* ---- Time ------------------------------------------------------------------------------ */

/* Sets the clock forward; to tasks of the library it looks as if they had slept. */
void play_pass_time(const struct play *play, int index);

/* Back to the real time: when no task is left. */
void play_reset_time(void);

#endif
