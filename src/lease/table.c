/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: a table in memory: its arrays, and lookups in them. It counts bytes as entries are
 * added and removed, so that the size of the table can be checked without encoding it. */
#include "lease/table.h"

#include "base/check.h"
#include "base/json.h"
#include "base/rule.h"
#include "lease/table_inside.h"

#include <stdlib.h>

struct lease_table *table_new(const struct lease_settings *settings, uint64_t epoch,
                              struct hf_error *error)
{
    struct lease_table *table = malloc(sizeof *table);
    if (!table) {
        error_no_memory(error);
        return NULL;
    }
    *table = (struct lease_table){
        .next_token = epoch << 32 | 1,
        .settings = *settings,
        .state = BUFFER_INIT(TABLE_STATE_MAX),
        .unknown = BUFFER_INIT(TABLE_BYTES_READ_MAX),
        .unknown_settings = BUFFER_INIT(TABLE_BYTES_READ_MAX),
    };
    return table;
}

void table_free(struct lease_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->lease_count; i++)
        lease_free(table->leases[i]);
    for (size_t i = 0; i < table->waiter_count; i++)
        waiter_free(table->waiters[i].wanted);
    for (size_t i = 0; i < table->audit_count; i++)
        free((char *)(uintptr_t)table->audit[i].data);
    free(table->leases);
    free(table->waiters);
    free(table->audit);
    wanted_free(table->wanted);
    buffer_release(&table->state);
    buffer_release(&table->unknown);
    buffer_release(&table->unknown_settings);
    free(table);
}

struct lease *table_find(const struct lease_table *table, struct view id)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (view_equal(table->leases[i]->id, id))
            return table->leases[i];
    return NULL;
}

struct lease *table_find_token(const struct lease_table *table, uint64_t token)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE && table->leases[i]->token == token)
            return table->leases[i];
    return NULL;
}

struct waiter *table_find_waiter(const struct lease_table *table, struct view id)
{
    for (size_t i = 0; i < table->waiter_count; i++)
        if (view_equal(table->waiters[i].wanted->asked.id, id))
            return &table->waiters[i];
    return NULL;
}

/* Makes room for one more element in an array that grows by doubling; false if out of memory. */
static bool reserve_one_more(void **array, size_t count, size_t element_size)
{
    bool full = count == 0 || (count & (count - 1)) == 0;
    if (!full)
        return true;
    void *more = realloc(*array, (count ? 2 * count : 1) * element_size);
    if (!more)
        return false;
    *array = more;
    return true;
}

bool table_add_lease(struct lease_table *table, struct lease *lease)
{
    void *leases = table->leases;
    if (!reserve_one_more(&leases, table->lease_count, sizeof(struct lease *)))
        return false;
    table->leases = leases;
    table->leases[table->lease_count++] = lease;
    table->bytes += lease->entry.size;
    return true;
}

void table_remove_lease(struct lease_table *table, size_t index)
{
    struct lease *lease = table->leases[index];
    table->bytes -= lease->entry.size;
    table->lease_count--;
    if (table->of_shard)
        legacy_lock_follow(table, lease);
    memmove(&table->leases[index], &table->leases[index + 1],
            (table->lease_count - index) * sizeof(struct lease *));
    lease_free(lease);
}

bool table_add_waiter(struct lease_table *table, struct waiter_entry *wanted)
{
    void *waiters = table->waiters;
    if (!reserve_one_more(&waiters, table->waiter_count, sizeof *table->waiters))
        return false;
    table->waiters = waiters;
    table->waiters[table->waiter_count++] = (struct waiter){ .wanted = wanted };
    table->bytes += wanted->entry.size;
    table->bytes_to_come += wanted->like ? wanted->like->bytes.size : 0;
    return true;
}

struct waiter_entry *table_take_waiter(struct lease_table *table, size_t index)
{
    struct waiter_entry *wanted = table->waiters[index].wanted;
    table->bytes -= wanted->entry.size;
    table->bytes_to_come -= wanted->like ? wanted->like->bytes.size : 0;
    table->waiter_count--;
    memmove(&table->waiters[index], &table->waiters[index + 1],
            (table->waiter_count - index) * sizeof *table->waiters);
    if (table->waiter_count == 0)
        table_set_wanted(table, NULL);
    return wanted;
}

void table_set_wanted(struct lease_table *table, struct wanted *wanted)
{
    table->bytes -= table->wanted ? table->wanted->bytes.size : 0;
    table->bytes += wanted ? wanted->bytes.size : 0;
    wanted_free(table->wanted);
    table->wanted = wanted;
}

bool table_reserve_state(struct lease_table *table)
{
    return buffer_reserve(&table->state, TABLE_STATE_MAX - table->state.size);
}

void table_set_state(struct lease_table *table, struct view state)
{
    table->bytes -= table->state.size;
    buffer_clear(&table->state);
    check(buffer_append(&table->state, state));
    table->bytes += table->state.size;
}

static void remove_audit(struct lease_table *table, size_t index)
{
    table->bytes -= table->audit[index].size;
    free((char *)(uintptr_t)table->audit[index].data);
    table->audit_count--;
    memmove(&table->audit[index], &table->audit[index + 1],
            (table->audit_count - index) * sizeof *table->audit);
}

bool table_add_audit(struct lease_table *table, struct view entry)
{
    void *audit = table->audit;
    char *copy = malloc(entry.size + 1);
    if (!copy || !reserve_one_more(&audit, table->audit_count, sizeof *table->audit)) {
        free(copy);
        return false;
    }
    memcpy(copy, entry.data, entry.size);
    table->audit = audit;
    table->audit[table->audit_count++] = (struct view){ copy, entry.size };
    table->bytes += entry.size;
    if (table->audit_count > TABLE_AUDIT_MAX)
        remove_audit(table, 0);
    return true;
}

void table_drop_audit(struct lease_table *table)
{
    remove_audit(table, table->audit_count - 1);
}
