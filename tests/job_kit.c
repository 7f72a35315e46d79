/* SPDX-License-Identifier: Apache-2.0 */
/* job_kit.c: the merger of lines, the bench and its audit. */
#include "job_kit.h"

#include "base/hash.h"
#include "catalog_check.h"
#include "lock/chunks.h"

#include <stdio.h>
#include <stdlib.h>

#define SOME_TIME INT64_C(1763200800000)
#define PUTS_MAX  4

/* ---- The merger ----------------------------------------------------------------------- */

static uint64_t lines_in(struct view text)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    return lines;
}

static enum hf_status read_sources(struct line_merger *merger, const struct merge_order *order,
                                   struct buffer *text, struct merge_product *product,
                                   struct hf_error *error)
{
    for (size_t i = 0; i < order->source_count; i++) {
        const struct chunk *source = &order->sources[i];
        size_t before = text->size;
        struct get_call call = { .key = source->key, .body = text };
        enum hf_status status = store_get(merger->store, &call);
        struct view body = view_from(buffer_view(text), before);
        product->bytes_read += body.size;
        bool wrong =
            status == HF_OK && (body.size != source->size || crc32c(0, body) != source->crc32c);
        if (wrong)
            status = error_set(&call.error, HF_CORRUPT, "its checksum is wrong");
        if (status == HF_NOT_FOUND || wrong)
            product->culprit = i;
        if (status != HF_OK) {
            *error = call.error;
            return status;
        }
        if (!order->go_on(order->argument, i + 1, 2 * order->source_count))
            return error_set(error, HF_CANCELLED, "told to stop");
    }
    return HF_OK;
}

static enum hf_status put_output(struct line_merger *merger, struct view key, struct view text,
                                 struct hf_error *error)
{
    enum hf_status status = HF_UNSURE;
    bool unsure = false;
    for (int i = 0; i < PUTS_MAX && status == HF_UNSURE; i++) {
        struct put_call call = { .key = key, .body = text, .condition = if_absent() };
        status = store_put(merger->store, &call);
        *error = call.error;
        if (status == HF_CONFLICT && unsure)
            status = HF_OK;
        unsure |= status == HF_UNSURE;
    }
    return status;
}

static enum hf_status make(struct merger *base, const struct merge_order *order,
                           struct merge_product *product, struct hf_error *error)
{
    struct line_merger *merger = (struct line_merger *)(void *)base;
    struct buffer text = BUFFER_INIT(16 * MIB);
    *product = (struct merge_product){ .culprit = MERGE_NO_CULPRIT };
    merger->made++;
    if (merger->begins)
        merger->begins(merger->argument);
    enum hf_status status = read_sources(merger, order, &text, product, error);
    if (status == HF_OK && merger->fails != HF_OK) {
        product->culprit = merger->culprit;
        product->group_fault = merger->group_fault;
        status = error_set(error, merger->fails, "it fails as it was told");
    }
    struct view body = buffer_view(&text);
    product->size = body.size;
    product->crc32c = crc32c(0, body);
    product->rows_known = true;
    product->rows_in = lines_in(body);
    product->rows_out = product->rows_in + merger->miscounts;
    if (status == HF_OK && !order->test) {
        product->put_sent = true;
        status = put_output(merger, order->output, body, error);
    }
    if (status == HF_OK && merger->has_put)
        merger->has_put(merger->argument);
    buffer_release(&text);
    return status;
}

void merger_init(struct line_merger *merger, struct store *store)
{
    *merger = (struct line_merger){ .merger = { make },
                                    .store = store,
                                    .env = store->env,
                                    .fails = HF_OK,
                                    .culprit = MERGE_NO_CULPRIT };
}

/* ---- The bench ----------------------------------------------------------------------- */

struct compact_settings bench_settings(void)
{
    struct compact_settings settings = compact_settings_default();
    settings.format = HF_MERGE_USV;
    settings.key = VIEW("1");
    settings.level0_count = 3;
    settings.grace_ms = 0;
    settings.late_bound_ms = 60000;
    settings.skew_tolerance_ms = 0;
    settings.ttl_ms = 10000;
    settings.step_ms = 20;
    return settings;
}

void hand_open(struct bench *bench, struct hand *hand)
{
    struct hf_error error;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.skew_tolerance_ms = 0;
    peer_open(&hand->peer, &bench->world, &options);
    MUST(catalog_tree_open(&hand->peer.way.base, hand->peer.client, VIEW("default"),
                           &hand->tree, &error));
    merger_init(&hand->merger, &hand->peer.way.base);
}

void hand_close(struct hand *hand)
{
    catalog_tree_close(hand->tree);
    peer_close(&hand->peer);
}

void bench_open(struct bench *bench, size_t hands, const struct compact_settings *settings)
{
    struct hf_error error;
    *bench = (struct bench){ .count = hands };
    world_open(&bench->world);
    for (size_t i = 0; i < hands; i++)
        hand_open(bench, &bench->hands[i]);
    MUST(catalog_tree_create(bench->hands[0].tree, settings, &error));
}

void bench_close(struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++)
        hand_close(&bench->hands[i]);
    world_close(&bench->world);
}

static struct catalog_ref *own_slot(struct hand *hand)
{
    struct hf_error error;
    struct catalog_ref *ref;
    MUST(catalog_tree_ref(hand->tree, VIEW("default"), &ref, &error));
    return ref;
}

void bench_add(struct bench *bench, size_t chunks)
{
    struct hf_error error;
    struct compact_settings settings = bench_settings();
    for (size_t i = 0; i < chunks; i++) {
        char key[KEY_BYTES_MAX + 1], body[64];
        struct mono_time drawn;
        MUST(chunk_key_draw(
            env_real(), &(struct chunk_key_parts){ VIEW("default"), 0, SOME_TIME, &settings },
            key, &drawn, &error));
        snprintf(body, sizeof body, "row-%08llu\nrow-%08llu\n", (unsigned long long)bench->rows,
                 (unsigned long long)bench->rows + 1);
        world_write(&bench->world, key, view_of(body));
        struct chunk chunk = { .key = view_of(key),
                               .size = strlen(body),
                               .rows_known = true,
                               .rows = 2,
                               .min_ms = SOME_TIME,
                               .max_ms = SOME_TIME + 1,
                               .writer = VIEW("w"),
                               .crc32c = crc32c(0, view_of(body)) };
        struct catalog_op op = {
            .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1, .drawn = drawn
        };
        MUST(catalog_ref_apply(own_slot(&bench->hands[0]), &op, (struct mono_time){ 0 }));
        bench->rows += 2;
    }
}

struct first_order {
    struct order *order;
    size_t index;
};

static enum hf_status take_first(void *argument, struct catalog_ref *ref,
                                 const struct catalog *catalog, const struct evidence *evidence,
                                 const struct hf_error *why)
{
    struct first_order *first = argument;
    struct plan_options options = { .force = false };
    struct hf_error error;
    struct plan plan;
    (void)evidence;
    (void)why;
    if (!catalog || first->order)
        return HF_OK;
    MUST(plan_make(catalog, &options, &plan, &error));
    if (plan.count > first->index)
        MUST(order_copy(ref, &plan.groups[first->index], &first->order, &error));
    plan_release(&plan);
    return HF_OK;
}

struct order *bench_order_at(struct hand *hand, size_t index)
{
    struct hf_error error;
    struct first_order first = { .index = index };
    MUST(catalog_tree_walk(hand->tree, take_first, &first, &error));
    return first.order;
}

struct order *bench_order(struct hand *hand)
{
    return bench_order_at(hand, 0);
}

struct job_report run_job(struct hand *hand, const struct order *order)
{
    struct job_options options = { .memory_bytes = 16 * MIB };
    struct job_report report;
    job_run(hand->tree, &hand->merger.merger, order, &options, &report);
    return report;
}

static void draw_output(const struct order *order, char output[KEY_BYTES_MAX + 1])
{
    struct hf_error error;
    struct mono_time drawn;
    struct compact_settings settings = bench_settings();
    MUST(chunk_key_draw(env_real(),
                        &(struct chunk_key_parts){ VIEW("default"), order->level, SOME_TIME,
                                                   &settings },
                        output, &drawn, &error));
}

void hand_dies_with(struct hand *hand, const struct order *order, int64_t ttl_ms,
                    char ret_output[KEY_BYTES_MAX + 1])
{
    hand_dies_saying(hand, order, ttl_ms, NULL, ret_output);
}

void hand_dies_saying(struct hand *hand, const struct order *order, int64_t ttl_ms,
                      const char *note, char ret_output[KEY_BYTES_MAX + 1])
{
    struct hf_error error;
    struct hf_lock *lock;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    char texts[16][KEY_BYTES_MAX + 8];
    const char *scopes[16];
    draw_output(order, ret_output);
    options.ttl_ms = ttl_ms > 0 ? ttl_ms : 60000;
    options.output = ret_output;
    options.note = note;
    for (size_t i = 0; i < order->count; i++) {
        snprintf(texts[i], sizeof texts[i], "chunk:%.*s", VIEW_ARGS(order->sources[i].key));
        scopes[i] = texts[i];
    }
    MUST(hf_lock_new_many(hand->peer.client, scopes, order->count, &options, &lock, &error));
    MUST(hf_lock_acquire(lock, 0, &error));
    struct put_call put = { .key = view_of(ret_output), .body = VIEW("half of it") };
    ASSERT(store_put(hand->tree->store, &put) == HF_OK);
    if (ttl_ms == 0)
        MUST(hf_lock_fail(lock, "{\"blame\":\"group\",\"why\":\"so\"}", &error));
    hf_lock_detach(lock);
}

void hand_commits(struct hand *hand, const struct order *order)
{
    struct buffer text = BUFFER_INIT(MIB);
    struct view keys[16];
    char output[KEY_BYTES_MAX + 1];
    struct hf_error error;
    draw_output(order, output);
    for (size_t i = 0; i < order->count; i++) {
        struct get_call get = { .key = order->sources[i].key, .body = &text };
        ASSERT(store_get(hand->tree->store, &get) == HF_OK);
        keys[i] = order->sources[i].key;
    }
    struct put_call put = { .key = view_of(output), .body = buffer_view(&text) };
    ASSERT(store_put(hand->tree->store, &put) == HF_OK);
    struct catalog_op op = { .kind = CATALOG_COMMIT,
                             .keys = keys,
                             .key_count = order->count,
                             .target = { .key = view_of(output),
                                         .level = order->level,
                                         .size = text.size,
                                         .rows_known = true,
                                         .rows = order->rows,
                                         .min_ms = SOME_TIME,
                                         .max_ms = SOME_TIME + 1,
                                         .crc32c = crc32c(0, buffer_view(&text)) },
                             .drawn = now() };
    MUST(catalog_ref_apply(own_slot(hand), &op, (struct mono_time){ 0 }));
    buffer_release(&text);
}

/* ---- The audit ----------------------------------------------------------------------- */

struct auditing {
    struct bench *bench;
    struct audit audit;
    const struct catalog *catalog;
    unsigned char seen[ROWS_MAX];
};

static void count_rows(struct auditing *auditing, struct view text)
{
    for (struct view rest = text; rest.size > 0;) {
        struct view line = view_cut(&rest, '\n');
        unsigned long long number;
        ASSERT(sscanf(line.data, "row-%llu", &number) == 1 && number < auditing->bench->rows);
        auditing->audit.rows++;
        auditing->audit.rows_twice += auditing->seen[number]++ > 0;
    }
}

static void count_live(struct auditing *auditing, const struct chunk *chunk)
{
    struct buffer body = BUFFER_INIT(16 * MIB);
    struct get_call call = { .key = chunk->key, .body = &body };
    bool good = store_get(auditing->bench->world.truth, &call) == HF_OK &&
                body.size == chunk->size && crc32c(0, buffer_view(&body)) == chunk->crc32c;
    auditing->audit.live++;
    auditing->audit.quarantined += chunk->quarantine.size > 0;
    auditing->audit.tries += chunk->tries;
    auditing->audit.missing += !good;
    count_rows(auditing, buffer_view(&body));
    buffer_release(&body);
}

static void count_objects_of(struct auditing *auditing, const struct catalog *catalog)
{
    struct audit *audit = &auditing->audit;
    struct list_call call = { .prefix = VIEW("data/") };
    ASSERT(store_list(auditing->bench->world.truth, &call) == HF_OK && !call.more);
    for (size_t i = 0; i < call.count; i++) {
        enum chunk_state state = catalog_state(catalog, call.entries[i].key);
        audit->objects++;
        audit->orphans += state == CHUNK_UNKNOWN;
        audit->lingering += state == CHUNK_CONDEMNED || state == CHUNK_RETIRED;
    }
    list_release(&call);
}

static void look_at_catalog(void *argument, const struct catalog *catalog,
                            const struct evidence *evidence)
{
    struct auditing *auditing = argument;
    struct audit *audit = &auditing->audit;
    (void)evidence;
    catalog_check(catalog);
    for (size_t i = 0; i < catalog->live_count; i++)
        count_live(auditing, &catalog->live[i]);
    for (size_t i = 0; i < catalog->grave_count; i++)
        audit->tombstones += catalog->graves[i].count;
    for (size_t i = 0; i < catalog->removal_count; i++)
        if (catalog->removals[i].how == DELETING_CONDEMNED)
            audit->condemned += catalog->removals[i].count;
        else
            audit->retired += catalog->removals[i].count;
    for (size_t i = 0; i < auditing->bench->rows; i++)
        audit->rows_lost += auditing->seen[i] == 0;
    count_objects_of(auditing, catalog);
}

static void look_at_table(void *argument, const struct lease_table *table,
                          const struct evidence *evidence)
{
    struct audit *audit = argument;
    (void)evidence;
    for (size_t i = 0; i < table->lease_count; i++)
        audit->open_leases +=
            table->leases[i]->output.size > 0 && table->leases[i]->status != LEASE_COMPLETED;
}

struct audit bench_audit(struct bench *bench)
{
    struct hf_error error;
    struct hand hand;
    struct auditing auditing = { .bench = bench };
    ASSERT(bench->rows <= ROWS_MAX);
    hand_open(bench, &hand);
    MUST(catalog_ref_show(own_slot(&hand), look_at_catalog, &auditing, &error));
    MUST(
        chunks_look(hand.peer.client, VIEW("default"), look_at_table, &auditing.audit, &error));
    hand_close(&hand);
    return auditing.audit;
}

void bench_sound(struct bench *bench, int line)
{
    struct audit audit = bench_audit(bench);
    if (audit.rows_lost > 0 || audit.rows_twice > 0 || audit.missing > 0)
        FAIL("line %d: %zu rows lost, %zu twice, %zu objects missing", line, audit.rows_lost,
             audit.rows_twice, audit.missing);
}

struct maintain_report bench_settle_down(struct bench *bench)
{
    struct hf_error error;
    struct hand hand;
    struct maintain_options options = { .short_lived = false };
    struct maintain_report all = { 0 };
    hand_open(bench, &hand);
    for (int i = 0; i < 8; i++) {
        struct maintain_report report = { 0 };
        MUST(maintain_round(hand.tree, &options, &report, &error));
        all.settled += report.settled;
        all.condemned += report.condemned;
        all.reaped += report.reaped;
        all.deleted += report.deleted;
        all.pinned += report.pinned;
        all.dropped += report.dropped;
    }
    hand_close(&hand);
    return all;
}
