/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h: removes a whole index.
 *
 * A mark in index.json stops everybody: nobody opens the index, and a handle that was opened
 * before reads index.json again before it writes, unless it has done so within INDEX_TRUST. Then
 * all other objects are deleted. Entries of writers that had not seen the mark may still arrive,
 * so index.json stays for INDEX_TRUST + D (proven by the store's clock). A last call deletes what
 * has arrived, and then index.json; until then the name cannot be used again. Every call does what
 * can be done, so a drop that was interrupted is finished by the next one.
 *
 * Two clients may drop the index, and a third may create it anew, while one of them is slow. So
 * before each page of the listing is deleted, index.json is read again and must still have the
 * mark, and objects are deleted by the ETags that were listed. If the store has no conditional
 * deletes, they are deleted by name, and only within INDEX_TRUST after the mark was stamped; it is
 * stamped anew for that, and the wait begins again, unless all names have nonces. There the mark
 * stays, and says that nothing is left (`emptied`). */
#ifndef INDEX_DROP_H
#define INDEX_DROP_H

#include "index/index.h"

struct drop_options {
    bool dry_run;                     /* only count */
    bool (*progress)(void *argument); /* may be NULL; false: stop with CANCELLED */
    void *argument;
};

/* OK: the index is marked, or would be; the report says what is left. NOT_FOUND: there is no such
 * index. CORRUPT, UNSUPPORTED: index.json cannot be read; nothing was deleted. */
enum hf_status index_drop(struct hf_client *client, struct view name,
                          const struct drop_options *options,
                          struct hf_index_drop_report *ret_report, struct hf_error *error);

#endif
